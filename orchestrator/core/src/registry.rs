//! Registries of exchangeable parts: MPI families, tracers, checkpointers. One line defines both the value in campaign files and its implementation
//! in `cvc-engine`, so that neither can be forgotten.
//!
//! Each registry is a macro that calls another macro with its lines: `VALUE "word in campaign files" => module::Type`.

/// The families of MPI libraries: files in `engine/src/mpi/` that implement `Launcher`.
#[macro_export]
macro_rules! mpi_families {
    ($with:ident $(, $($head:tt)*)?) => {
        $with! { $($($head)*;)?
            /// MPICH and derivatives, with the Hydra launcher.
            Mpich "mpich" => mpich::Mpich,
            /// Open MPI.
            OpenMpi "openmpi" => openmpi::OpenMpi,
        }
    };
}

/// The tracers: files in `engine/src/tracer/` that implement `Tracer`.
#[macro_export]
macro_rules! tracers {
    ($with:ident $(, $($head:tt)*)?) => {
        $with! { $($($head)*;)?
            /// No tracing.
            None "none" => none::NoTracer,
            /// System calls, by strace.
            Strace "strace" => strace::Strace,
            /// POSIX and MPI-IO operations, by Darshan with DXT.
            Darshan "darshan" => darshan::Darshan,
            /// Calls of the C library, by DFTracer.
            DfTracer "dftracer" => dftracer::DfTracer,
            /// Calls of MPI-IO and the communication between them, by cvc's own library.
            MpiIo "mpi-io" => mpi_io::MpiIo,
        }
    };
}

/// The checkpointers: files in `engine/src/ckpt/` that implement `Checkpointer`.
#[macro_export]
macro_rules! checkpointers {
    ($with:ident $(, $($head:tt)*)?) => {
        $with! { $($($head)*;)?
            /// No checkpoint: the baseline.
            None "none" => none::NoCheckpointer,
            /// The program writes its own.
            Application "application" => application::ApplicationCheckpointer,
            /// User level, coordinated, by DMTCP.
            Dmtcp "dmtcp" => dmtcp::DmtcpCheckpointer,
        }
    };
}

/// Defines the type of the values that a registry has in campaign files.
macro_rules! define_kind {
    ($(#[$about:meta])* $kind:ident; $($(#[$doc:meta])* $name:ident $word:literal => $module:ident::$member:ident,)+) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub enum $kind {
            $($(#[$doc])* #[serde(rename = $word)] $name,)+
        }

        impl $kind {
            /// All values, in the order of the registry.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// Returns the word in campaign files.
            pub fn word(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)+
                }
            }
        }

        impl std::fmt::Display for $kind {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.word())
            }
        }

        impl std::str::FromStr for $kind {
            type Err = $crate::factor_value::UnknownWord;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $($word => Ok(Self::$name),)+
                    _ => Err($crate::factor_value::UnknownWord),
                }
            }
        }
    };
}
pub(crate) use define_kind;
