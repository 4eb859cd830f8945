//! Ways to take checkpoints, which are the levels of the factor `strategy`, and levels of factors that apply only to some strategies. The properties
//! of strategies here determine which points make sense (`campaign/strategy_rules.rs`).

use crate::factor_value::{UnknownWord, text_values};
use serde::{Deserialize, Serialize};

macro_rules! define_words {
    ($(#[$about:meta])* $Name:ident; $($(#[$doc:meta])* $Word:ident $word:literal,)+) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub enum $Name {
            $($(#[$doc])* #[serde(rename = $word)] $Word,)+
        }

        impl $Name {
            /// All levels, starting with the neutral one.
            pub const ALL: &[Self] = &[$(Self::$Word),+];

            /// Returns the word in campaign files.
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$Word => $word,)+
                }
            }

            /// Returns whether this is the neutral level.
            pub fn is_neutral(&self) -> bool {
                *self == Self::default()
            }
        }

        impl std::fmt::Display for $Name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.word())
            }
        }

        impl std::str::FromStr for $Name {
            type Err = UnknownWord;

            fn from_str(text: &str) -> Result<Self, UnknownWord> {
                Self::ALL.iter().copied().find(|of| of.word() == text).ok_or(UnknownWord)
            }
        }
    };
}

define_words! {
    /// How checkpoints are taken.
    Strategy;
    /// The program waits until its checkpoint is safe.
    #[default]
    Sync "sync",
    /// The program copies its data; a thread writes the copy while the program computes.
    Thread "thread",
    /// As with a thread, but the nodes write their copies one after the other.
    Staggered "staggered",
    /// A thread writes the previous grid, and the program continues with a third one.
    Swap "swap",
    /// The program copies its data and writes the copy by non-blocking MPI-IO.
    Iwrite "iwrite",
    /// Nodes keep checkpoints on their own storage.
    Local "local",
    /// Nodes keep checkpoints, and copies of another node's.
    Partner "partner",
    /// Nodes keep checkpoints, with parity over groups of nodes.
    Xor "xor",
    /// A forked copy of each process writes its image while the program continues.
    Forked "forked",
}

define_words! {
    /// Whose thread writes a checkpoint.
    CheckpointWriters;
    /// Each process.
    #[default]
    Process "process",
    /// One process per socket.
    Socket "socket",
    /// One process per node.
    Node "node",
}

define_words! {
    /// Policy for a checkpoint due before the previous one is safe.
    WhenLate;
    /// Wait.
    #[default]
    Wait "wait",
    /// Skip it.
    Skip "skip",
}

define_words! {
    /// File layout of the program's own checkpoints.
    CheckpointLayout;
    /// One file with the global arrays, over which a process's data are scattered.
    #[default]
    Strided "strided",
    /// One file, with contiguous data of each process.
    Segmented "segmented",
    /// One reserved file, with room for several checkpoints and a table of contents.
    Delegated "delegated",
    /// A file per node, written by one of its processes.
    PerNode "per-node",
    /// A file per process.
    PerProcess "per-process",
    /// A file for each process with its part of the global arrays and an index: any number of processes can read it.
    Log "log",
}

text_values!(Strategy, CheckpointWriters, WhenLate, CheckpointLayout);

impl CheckpointLayout {
    /// Returns whether processes of all nodes write to the same file.
    pub fn is_one_file(self) -> bool {
        match self {
            Self::Strided | Self::Segmented | Self::Delegated => true,
            Self::PerNode | Self::PerProcess | Self::Log => false,
        }
    }

    /// Returns whether the layout is written by collective MPI-IO.
    pub fn is_collective(self) -> bool {
        match self {
            Self::Strided => true,
            Self::Segmented | Self::Delegated | Self::PerNode | Self::PerProcess | Self::Log => {
                false
            }
        }
    }

    /// Returns whether the layout is written by MPI-IO.
    pub fn is_mpi_io(self) -> bool {
        self.is_one_file()
    }
}

/// Redundancy of checkpoints on nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LevelScheme {
    /// No redundancy: the loss of a node loses checkpoints.
    Local,
    /// The next node has a copy of each node's data.
    Partner,
    /// The nodes of a group store the parity of each other's data.
    Xor,
}

impl LevelScheme {
    /// Returns the word in campaign files and records.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Partner => "partner",
            Self::Xor => "xor",
        }
    }
}

impl Strategy {
    /// Returns the word of the strategy that is passed to the program: the strategy itself if the program implements it, otherwise the neutral one.
    pub fn way_of_program(self) -> &'static str {
        match self {
            Self::Sync | Self::Local | Self::Partner | Self::Xor | Self::Forked => {
                Self::Sync.word()
            }
            Self::Thread | Self::Staggered | Self::Swap | Self::Iwrite => self.word(),
        }
    }

    /// Returns the redundancy with which nodes keep checkpoints; `None` if they do not keep any.
    pub fn level_scheme(self) -> Option<LevelScheme> {
        match self {
            Self::Local => Some(LevelScheme::Local),
            Self::Partner => Some(LevelScheme::Partner),
            Self::Xor => Some(LevelScheme::Xor),
            Self::Sync
            | Self::Thread
            | Self::Staggered
            | Self::Swap
            | Self::Iwrite
            | Self::Forked => None,
        }
    }

    /// Returns whether a thread of one process can write for other processes.
    pub fn has_writers(self) -> bool {
        match self {
            Self::Thread | Self::Staggered => true,
            Self::Sync
            | Self::Swap
            | Self::Iwrite
            | Self::Local
            | Self::Partner
            | Self::Xor
            | Self::Forked => false,
        }
    }

    /// Returns whether the program continues before its checkpoint is safe, so that the next checkpoint can be due too early.
    pub fn is_behind(self) -> bool {
        match self {
            Self::Sync | Self::Local | Self::Partner | Self::Xor => false,
            Self::Thread | Self::Staggered | Self::Swap | Self::Iwrite | Self::Forked => true,
        }
    }

    /// Returns whether a checkpoint due before the previous one is safe can be skipped.
    pub fn can_skip(self) -> bool {
        self.is_behind() && !self.is_of_checkpointer()
    }

    /// Returns whether the checkpointer implements the strategy, without the program's participation.
    pub fn is_of_checkpointer(self) -> bool {
        match self {
            Self::Forked => true,
            Self::Sync
            | Self::Thread
            | Self::Staggered
            | Self::Swap
            | Self::Iwrite
            | Self::Local
            | Self::Partner
            | Self::Xor => false,
        }
    }

    /// Returns whether the program writes its own checkpoints by collective MPI-IO with this strategy.
    pub fn is_collective(self) -> bool {
        match self {
            Self::Sync | Self::Local | Self::Partner | Self::Xor | Self::Forked => true,
            Self::Thread | Self::Staggered | Self::Swap | Self::Iwrite => false,
        }
    }

    /// Returns whether the program writes its own checkpoints by MPI-IO with this strategy.
    pub fn is_mpi_io(self) -> bool {
        match self {
            Self::Sync | Self::Iwrite | Self::Local | Self::Partner | Self::Xor | Self::Forked => {
                true
            }
            Self::Thread | Self::Staggered | Self::Swap => false,
        }
    }
}
