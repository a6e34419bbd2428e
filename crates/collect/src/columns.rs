//! Parquet files, written column by column under a temporary name and renamed when complete.

use parquet::basic::{Compression, Encoding, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{ColumnPath, Type, TypePtr};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Values of a column without missing ones.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Words.
    Text(Vec<String>),
    /// Non-negative integers.
    Whole(Vec<u64>),
    /// Floating-point numbers.
    Number(Vec<f64>),
}

/// Writes a table whose columns are equally long as one Parquet file with metadata `about`.
///
/// # Errors
/// The folder is missing or not writable; the disk is full.
pub fn write_table(
    path: &Path,
    columns: &[(&str, Column)],
    about: &[(&str, String)],
) -> io::Result<()> {
    let fields = columns.iter().map(|(name, column)| match column {
        Column::Text(_) => text(name),
        Column::Whole(_) => whole(name, Repetition::REQUIRED),
        Column::Number(_) => number(name),
    });
    let fields = fields.collect::<io::Result<Vec<_>>>()?;
    let mut output = Output::create(path, fields, about)?;
    let mut group = output.writer.next_row_group().map_err(failed)?;
    for (_, column) in columns {
        match column {
            Column::Text(words) => {
                let words: Vec<ByteArray> = words.iter().map(|w| w.as_str().into()).collect();
                put::<ByteArrayType>(&mut group, &words, None)?;
            }
            Column::Whole(numbers) => {
                let numbers: Vec<i64> = numbers.iter().map(|&n| n as i64).collect();
                put::<Int64Type>(&mut group, &numbers, None)?;
            }
            Column::Number(numbers) => put::<DoubleType>(&mut group, numbers, None)?,
        }
    }
    group.close().map_err(failed)?;
    output.finish()?;
    Ok(())
}

/// A Parquet file under a temporary name.
pub(crate) struct Output {
    pub(crate) writer: SerializedFileWriter<File>,
    temporary: PathBuf,
    path: PathBuf,
}

impl Output {
    pub(crate) fn create(
        path: &Path,
        fields: Vec<TypePtr>,
        about: &[(&str, String)],
    ) -> io::Result<Self> {
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(".part");
        let temporary = PathBuf::from(temporary);
        let schema = Type::group_type_builder("hopbyte")
            .with_fields(fields.clone())
            .build();
        let about = about
            .iter()
            .map(|(key, value)| KeyValue::new((*key).to_owned(), value.clone()));
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_key_value_metadata(Some(about.collect()));
        for field in fields {
            if field.get_physical_type() == Physical::INT64 {
                let column = ColumnPath::from(field.name());
                properties = properties
                    .set_column_dictionary_enabled(column.clone(), false)
                    .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
            }
        }
        let file = File::create(&temporary)?;
        let schema = Arc::new(schema.map_err(failed)?);
        let writer = SerializedFileWriter::new(file, schema, Arc::new(properties.build()));
        Ok(Self {
            writer: writer.map_err(failed)?,
            temporary,
            path: path.to_owned(),
        })
    }

    pub(crate) fn finish(self) -> io::Result<PathBuf> {
        let file = self.writer.into_inner().map_err(failed)?;
        file.sync_all()?;
        fs::rename(&self.temporary, &self.path)?;
        Ok(self.path)
    }
}

pub(crate) fn failed(error: ParquetError) -> io::Error {
    io::Error::other(error)
}

fn field(
    name: &str,
    physical: Physical,
    logical: LogicalType,
    repetition: Repetition,
) -> io::Result<TypePtr> {
    let field = Type::primitive_type_builder(name, physical)
        .with_logical_type(Some(logical))
        .with_repetition(repetition);
    Ok(Arc::new(field.build().map_err(failed)?))
}

pub(crate) fn text(name: &str) -> io::Result<TypePtr> {
    field(
        name,
        Physical::BYTE_ARRAY,
        LogicalType::String,
        Repetition::REQUIRED,
    )
}

pub(crate) fn whole(name: &str, repetition: Repetition) -> io::Result<TypePtr> {
    field(
        name,
        Physical::INT64,
        LogicalType::integer(64, false),
        repetition,
    )
}

pub(crate) fn time(name: &str) -> io::Result<TypePtr> {
    let nanoseconds = LogicalType::timestamp(true, TimeUnit::NANOS);
    field(name, Physical::INT64, nanoseconds, Repetition::REQUIRED)
}

fn number(name: &str) -> io::Result<TypePtr> {
    let field =
        Type::primitive_type_builder(name, Physical::DOUBLE).with_repetition(Repetition::REQUIRED);
    Ok(Arc::new(field.build().map_err(failed)?))
}

/// Writes the next column of a group: all values, or those that `levels` marks as present.
pub(crate) fn put<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, File>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> io::Result<()> {
    if let Some(mut column) = group.next_column().map_err(failed)? {
        let typed = column.typed::<T>();
        typed.write_batch(values, levels, None).map_err(failed)?;
        column.close().map_err(failed)?;
    }
    Ok(())
}
