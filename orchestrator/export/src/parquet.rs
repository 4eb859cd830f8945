//! The flat tables as Parquet files (<https://parquet.apache.org/docs/file-format/>).

use crate::{
    error::ExportError,
    package::{self, PackageFormat, SCHEMA},
    target::{Exported, make},
};
use camino::Utf8Path;
use cvc_core::store::StoreError;
use cvc_index::{FlatColumn, FlatTable, FlatType, Index};
use parquet::{
    basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical},
    column::writer::ColumnWriter,
    data_type::ByteArray,
    errors::ParquetError,
    file::{
        metadata::KeyValue,
        properties::WriterProperties,
        writer::{SerializedColumnWriter, SerializedFileWriter},
    },
    schema::types::Type,
};
use std::{fs::File, io, sync::Arc};

/// Maximum number of rows held in memory and written as one row group.
const GROUP_ROWS: usize = 1 << 16;
/// Maximum length of the texts in a row group, bytes.
const GROUP_BYTES: usize = 1 << 25;

/// Writes the tables of a campaign as Parquet files into a new directory.
///
/// Texts are UTF-8, integers INT64, numbers DOUBLE, and times INT64 nanoseconds since 1970 (UTC). A column that may lack values is optional. The
/// metadata of each file contain the version of the tables (`cvc.schema_version`), name and description of the table (`cvc.table`,
/// `cvc.description`), and the schema from `datapackage.json` with unit and description of each column (`cvc.schema`, JSON).
///
/// # Errors
/// The target exists and must not be replaced, the index cannot be read, a value does not have the type of its column, or a file cannot be written.
pub fn export_parquet(
    index: &Index,
    dir: &Utf8Path,
    replace: bool,
) -> Result<Exported, ExportError> {
    make(dir, replace, |dir| {
        let tables = index.flat_tables()?;
        for table in &tables {
            write_table(index, table, &dir.join(PackageFormat::Parquet.file(table)))?;
        }
        package::write(index, &tables, PackageFormat::Parquet, dir)
    })
}

fn write_table(index: &Index, table: &FlatTable, path: &Utf8Path) -> Result<(), ExportError> {
    let failed = |error: ParquetError| -> ExportError { not_written(path)(error).into() };
    let file = File::create(path).map_err(StoreError::io("create", path))?;
    let mut out =
        SerializedFileWriter::new(file, schema(table).map_err(failed)?, properties(table))
            .map_err(failed)?;
    let mut buffers: Vec<ColumnBuffer> = table.columns.iter().map(ColumnBuffer::new).collect();
    let (mut rows, mut bytes) = (0, 0);
    index.each_flat_row(table, |texts| {
        for ((buffer, column), text) in buffers.iter_mut().zip(&table.columns).zip(texts) {
            buffer
                .push(text.as_deref())
                .map_err(|of| ExportError::Unfit {
                    table: table.name.to_owned(),
                    column: column.name.clone(),
                    of,
                    text: text.clone(),
                })?;
            bytes += text.as_ref().map_or(0, String::len);
        }
        rows += 1;
        if rows == GROUP_ROWS || bytes >= GROUP_BYTES {
            write_group(&mut out, &mut buffers).map_err(failed)?;
            (rows, bytes) = (0, 0);
        }
        Ok::<_, ExportError>(())
    })?;
    if rows > 0 {
        write_group(&mut out, &mut buffers).map_err(failed)?;
    }
    out.close().map_err(failed)?;
    Ok(())
}

/// Converts an error of the Parquet library about a file; uses the system's error if it has one.
fn not_written(path: &Utf8Path) -> impl Fn(ParquetError) -> StoreError + '_ {
    move |error| {
        let error = match error {
            ParquetError::External(source) => match source.downcast::<io::Error>() {
                Ok(error) => *error,
                Err(other) => io::Error::other(other),
            },
            other => io::Error::other(other),
        };
        StoreError::io("write", path)(error)
    }
}

fn write_group(
    out: &mut SerializedFileWriter<File>,
    buffers: &mut [ColumnBuffer],
) -> Result<(), ParquetError> {
    let mut group = out.next_row_group()?;
    for buffer in buffers {
        let Some(mut column) = group.next_column()? else {
            break;
        };
        buffer.write(&mut column)?;
        column.close()?;
    }
    group.close()?;
    Ok(())
}

fn schema(table: &FlatTable) -> Result<Arc<Type>, ParquetError> {
    let fields = table
        .columns
        .iter()
        .map(|column| column_type(column).map(Arc::new))
        .collect::<Result<Vec<_>, _>>()?;
    Type::group_type_builder(table.name)
        .with_fields(fields)
        .build()
        .map(Arc::new)
}

fn column_type(column: &FlatColumn) -> Result<Type, ParquetError> {
    let (physical, logical) = match column.of {
        FlatType::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        FlatType::Integer => (Physical::INT64, None),
        FlatType::Number => (Physical::DOUBLE, None),
        FlatType::Boolean => (Physical::BOOLEAN, None),
        // nanoseconds, as in the journal
        FlatType::Time => (
            Physical::INT64,
            Some(LogicalType::timestamp(true, TimeUnit::NANOS)),
        ),
    };
    Type::primitive_type_builder(&column.name, physical)
        .with_logical_type(logical)
        .with_repetition(if column.required {
            Repetition::REQUIRED
        } else {
            Repetition::OPTIONAL
        })
        .build()
}

fn properties(table: &FlatTable) -> Arc<WriterProperties> {
    let pairs = [
        ("cvc.schema_version", SCHEMA.to_owned()),
        ("cvc.table", table.name.to_owned()),
        ("cvc.description", format!("a row is {}", table.description)),
        ("cvc.schema", package::schema(table).to_string()),
    ];
    let pairs = pairs
        .into_iter()
        .map(|(key, value)| KeyValue::new(key.to_owned(), value))
        .collect();
    Arc::new(
        WriterProperties::builder()
            .set_compression(Compression::GZIP(Default::default()))
            .set_key_value_metadata(Some(pairs))
            .build(),
    )
}

/// Values of a column that are not written yet.
struct ColumnBuffer {
    values: Values,
    /// For each row 1 if it has a value, else 0; `None` for columns without missing values.
    levels: Option<Vec<i16>>,
}

enum Values {
    Text(Vec<ByteArray>),
    Integer(Vec<i64>),
    Number(Vec<f64>),
    Boolean(Vec<bool>),
    Time(Vec<i64>),
}

impl ColumnBuffer {
    fn new(column: &FlatColumn) -> Self {
        Self {
            values: match column.of {
                FlatType::Text => Values::Text(Vec::new()),
                FlatType::Integer => Values::Integer(Vec::new()),
                FlatType::Number => Values::Number(Vec::new()),
                FlatType::Boolean => Values::Boolean(Vec::new()),
                FlatType::Time => Values::Time(Vec::new()),
            },
            levels: (!column.required).then(Vec::new),
        }
    }

    /// Adds the value of a row; `None` if the row has none. `Err` names the type that the text should have.
    fn push(&mut self, text: Option<&str>) -> Result<(), &'static str> {
        let Some(text) = text else {
            return match &mut self.levels {
                Some(levels) => {
                    levels.push(0);
                    Ok(())
                }
                None => Err("value"),
            };
        };
        match &mut self.values {
            Values::Text(texts) => texts.push(ByteArray::from(text)),
            Values::Integer(numbers) => numbers.push(text.parse().map_err(|_| "integer")?),
            Values::Number(numbers) => numbers.push(text.parse().map_err(|_| "number")?),
            Values::Boolean(values) => values.push(text.parse().map_err(|_| "boolean")?),
            Values::Time(times) => times.push(nanoseconds(text).ok_or("time from 1678 to 2261")?),
        }
        if let Some(levels) = &mut self.levels {
            levels.push(1);
        }
        Ok(())
    }

    /// Writes the collected values and clears them.
    fn write(&mut self, out: &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        let levels = self.levels.as_deref();
        match (&self.values, out.untyped()) {
            (Values::Text(values), ColumnWriter::ByteArrayColumnWriter(out)) => {
                out.write_batch(values, levels, None)?;
            }
            (
                Values::Integer(values) | Values::Time(values),
                ColumnWriter::Int64ColumnWriter(out),
            ) => {
                out.write_batch(values, levels, None)?;
            }
            (Values::Number(values), ColumnWriter::DoubleColumnWriter(out)) => {
                out.write_batch(values, levels, None)?;
            }
            (Values::Boolean(values), ColumnWriter::BoolColumnWriter(out)) => {
                out.write_batch(values, levels, None)?;
            }
            _ => {
                return Err(ParquetError::General(
                    "a column does not have the type of its schema".to_owned(),
                ));
            }
        }
        match &mut self.values {
            Values::Text(values) => values.clear(),
            Values::Integer(values) | Values::Time(values) => values.clear(),
            Values::Number(values) => values.clear(),
            Values::Boolean(values) => values.clear(),
        }
        if let Some(levels) = &mut self.levels {
            levels.clear();
        }
        Ok(())
    }
}

/// Returns nanoseconds since 1970; `None` if the text is not a time, or the time is more than 292 years before or after 1970.
fn nanoseconds(text: &str) -> Option<i64> {
    let time: jiff::Timestamp = text.parse().ok()?;
    i64::try_from(time.as_nanosecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::{ColumnBuffer, nanoseconds};
    use cvc_index::{FlatColumn, FlatType};

    #[test]
    fn times_keep_their_nanoseconds_and_those_out_of_range_are_none() {
        assert_eq!(
            nanoseconds("2001-09-09T01:46:40.000000001Z"),
            Some(1_000_000_000_000_000_001)
        );
        assert_eq!(nanoseconds("9000-01-01T00:00:00Z"), None);
        assert_eq!(nanoseconds("yesterday"), None);
    }

    #[test]
    fn texts_that_are_not_of_the_type_of_their_column_are_refused() {
        let column = |of, required| FlatColumn {
            name: "c".to_owned(),
            of,
            unit: None,
            description: String::new(),
            required,
        };
        let push = |of, text| ColumnBuffer::new(&column(of, true)).push(text);
        assert_eq!(push(FlatType::Integer, Some("1.5")), Err("integer"));
        assert_eq!(push(FlatType::Boolean, Some("1")), Err("boolean"));
        assert_eq!(push(FlatType::Text, None), Err("value"));
        assert_eq!(push(FlatType::Number, Some("-INF")), Ok(()));
        assert_eq!(
            ColumnBuffer::new(&column(FlatType::Time, false)).push(None),
            Ok(())
        );
    }
}
