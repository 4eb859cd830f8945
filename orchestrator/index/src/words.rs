//! The words of the index that are one of a few.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use std::fmt;

/// An enum whose variants are words in files.
macro_rules! words {
    ($($(#[$doc:meta])* pub enum $Name:ident { $($(#[$variant_doc:meta])* $Variant:ident = $word:literal,)+ })+) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $Name {
            $($(#[$variant_doc])* $Variant,)+
        }

        impl $Name {
            /// All of them.
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$Variant),+];

            /// Returns its word.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$Variant => $word,)+
                }
            }
        }

        impl fmt::Display for $Name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl ToSql for $Name {
            fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                Ok(self.as_str().into())
            }
        }

        impl FromSql for $Name {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                let word = value.as_str()?;
                Self::ALL
                    .into_iter()
                    .find(|of| of.as_str() == word)
                    .ok_or(FromSqlError::InvalidType)
            }
        }
    )+ };
}

words! {
    /// What became of a planned run, in the order of tables.
    pub enum RunOutcome {
        /// It succeeded.
        Succeeded = "succeeded",
        /// Its last attempt failed.
        Failed = "failed",
        /// It was not tried because other runs of its point had failed too often.
        Quarantined = "quarantined",
        /// It is under way.
        Running = "running",
        /// It waits.
        Pending = "pending",
    }

    /// Whether the records of a run are as it wrote them.
    pub enum RecordsState {
        /// It did not succeed.
        None = "none",
        /// They are.
        Ok = "ok",
        /// They do not match the digest in the journal.
        Changed = "changed",
        /// There is no file.
        Missing = "missing",
        /// They cannot be read.
        Damaged = "damaged",
    }

    /// How an attempt at a run ended.
    pub enum AttemptResult {
        /// Well.
        Succeeded = "succeeded",
        /// Badly.
        Failed = "failed",
        /// It was given up.
        Abandoned = "abandoned",
        /// It is under way.
        Running = "running",
    }
}

impl RunOutcome {
    /// Whether it has come to an end of any kind.
    pub fn is_over(self) -> bool {
        !matches!(self, Self::Running | Self::Pending)
    }
}

impl RecordsState {
    /// Whether there are records that can be read.
    pub fn is_readable(self) -> bool {
        matches!(self, Self::Ok | Self::Changed)
    }

    /// Whether they are not as the run wrote them.
    pub fn is_unsound(self) -> bool {
        matches!(self, Self::Missing | Self::Damaged | Self::Changed)
    }
}

/// The schema, of whose text `{run_outcomes}` and the like stand for the words that a column may have.
pub(super) fn with_words(schema: &str) -> String {
    let quoted = |words: &[&str]| format!("'{}'", words.join("', '"));
    schema
        .replace(
            "{run_outcomes}",
            &quoted(&RunOutcome::ALL.map(RunOutcome::as_str)),
        )
        .replace(
            "{records_states}",
            &quoted(&RecordsState::ALL.map(RecordsState::as_str)),
        )
        .replace(
            "{attempt_results}",
            &quoted(&AttemptResult::ALL.map(AttemptResult::as_str)),
        )
}
