//! How rows become values: every column is read by its name.

use rusqlite::Row;

/// A value that a row of a statement holds.
pub trait FromRow: Sized {
    /// Reads it.
    ///
    /// # Errors
    /// When a column is missing or holds something else.
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self>;
}

/// A struct whose fields are columns of the same name.
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
