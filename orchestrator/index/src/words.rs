//! Enumerations of values in the index.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use std::fmt;

/// Defines an enum whose variants are stored as words.
macro_rules! words {
    ($($(#[$doc:meta])* pub enum $Name:ident { $($(#[$variant_doc:meta])* $Variant:ident = $word:literal,)+ })+) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $Name {
            $($(#[$variant_doc])* $Variant,)+
        }

        impl $Name {
            /// All variants.
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$Variant),+];

            /// Returns the word that is stored.
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
    /// Outcome of a planned run; the order is that of tables.
    pub enum RunOutcome {
        /// The run succeeded.
        Succeeded = "succeeded",
        /// The last attempt failed.
        Failed = "failed",
        /// Not attempted, because too many other runs of its point failed.
        Quarantined = "quarantined",
        /// An attempt is in progress.
        Running = "running",
        /// No attempt has started yet.
        Pending = "pending",
    }

    /// State of the records of a run.
    pub enum RecordsState {
        /// No records, because the run did not succeed.
        None = "none",
        /// The records have the digest in the journal.
        Ok = "ok",
        /// The digest differs from the one in the journal.
        Changed = "changed",
        /// The file is missing.
        Missing = "missing",
        /// The file cannot be read.
        Damaged = "damaged",
    }

    /// Result of an attempt.
    pub enum IndexedResult {
        /// The attempt succeeded.
        Succeeded = "succeeded",
        /// The attempt failed.
        Failed = "failed",
        /// The attempt was abandoned.
        Abandoned = "abandoned",
        /// The attempt is in progress.
        Running = "running",
    }
}

impl RunOutcome {
    /// Returns whether the run has ended.
    pub fn is_over(self) -> bool {
        !matches!(self, Self::Running | Self::Pending)
    }
}

impl RecordsState {
    /// Returns whether there are records that can be read.
    pub fn is_readable(self) -> bool {
        matches!(self, Self::Ok | Self::Changed)
    }

    /// Returns whether the records are missing, damaged or changed.
    pub fn is_unsound(self) -> bool {
        matches!(self, Self::Missing | Self::Damaged | Self::Changed)
    }
}

/// Returns a schema text in which placeholders such as `{run_outcomes}` are replaced by the words that a column may contain.
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
            &quoted(&IndexedResult::ALL.map(IndexedResult::as_str)),
        )
}
