//! Converts rows to Rust values; columns are read by name.

use rusqlite::Row;

/// A type that can be read from a row of a statement.
pub trait FromRow: Sized {
    /// Reads the value from the row.
    ///
    /// # Errors
    /// A column is missing or has another type.
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self>;
}

/// Defines a struct whose fields are read from the columns with the same names.
macro_rules! row {
    ($(#[$doc:meta])* $vis:vis struct $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        $vis struct $name {
            $($(#[$field_doc])* pub $field: $type,)+
        }

        impl $crate::row::FromRow for $name {
            fn from_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
                Ok(Self { $($field: row.get(stringify!($field))?,)+ })
            }
        }
    };
}

pub(super) use row;
