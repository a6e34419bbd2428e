//! Parquet files, written column by column under a temporary name and renamed when complete.

use crate::store::disk::{Disk, Handle};
use bytes::Bytes;
use parquet::basic::{Compression, Encoding, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, KeyValue};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::{
    SerializedFileWriter, SerializedPageWriter, SerializedRowGroupWriter, TrackedWrite,
};
use parquet::schema::types::{ColumnDescPtr, ColumnPath, Type, TypePtr};
use std::collections::HashMap;
use std::io::{self, Write};
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

/// A table whose columns are equally long as the bytes of a Parquet file with metadata `about`.
///
/// # Errors
/// Columns that the format does not take.
pub fn table(columns: &[(&str, Column)], about: &[(&str, String)]) -> io::Result<Vec<u8>> {
    let fields = columns.iter().map(|(name, column)| match column {
        Column::Text(_) => text(name),
        Column::Whole(_) => whole(name, Repetition::REQUIRED),
        Column::Number(_) => number(name),
    });
    let fields = fields.collect::<io::Result<Vec<_>>>()?;
    let (schema, properties) = layout(fields, about)?;
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, properties).map_err(failed)?;
    fill(&mut writer, columns)?;
    writer.into_inner().map_err(failed)
}

fn fill(writer: &mut SerializedFileWriter<Vec<u8>>, columns: &[(&str, Column)]) -> io::Result<()> {
    let mut group = writer.next_row_group().map_err(failed)?;
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
    Ok(())
}

/// The schema of a file, and its settings.
fn layout(
    fields: Vec<TypePtr>,
    about: &[(&str, String)],
) -> io::Result<(TypePtr, WriterPropertiesPtr)> {
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
    Ok((
        Arc::new(schema.map_err(failed)?),
        Arc::new(properties.build()),
    ))
}

/// A Parquet file under a temporary name.
pub(crate) struct Output {
    pub(crate) writer: SerializedFileWriter<Box<dyn Handle>>,
    temporary: PathBuf,
    path: PathBuf,
}

impl Output {
    pub(crate) fn create(
        disk: &dyn Disk,
        path: &Path,
        fields: Vec<TypePtr>,
        about: &[(&str, String)],
    ) -> io::Result<Self> {
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(".part");
        let temporary = PathBuf::from(temporary);
        let (schema, properties) = layout(fields, about)?;
        if temporary.exists() {
            disk.remove(&temporary)?;
        }
        let file = disk.create(&temporary)?;
        let writer = SerializedFileWriter::new(file, schema, properties);
        Ok(Self {
            writer: writer.map_err(failed)?,
            temporary,
            path: path.to_owned(),
        })
    }

    /// Completes the file, makes it durable and renames it; removes it if it could not be `filled`.
    pub(crate) fn finish(mut self, disk: &dyn Disk, filled: io::Result<()>) -> io::Result<PathBuf> {
        if let Err(error) = filled {
            self.discard(disk);
            return Err(error);
        }
        let ended = self.writer.finish().map_err(failed);
        let synced = ended.and_then(|_| self.writer.inner_mut().sync());
        let renamed = synced.and_then(|()| disk.rename(&self.temporary, &self.path));
        renamed.inspect_err(|_| {
            // A remaining file is replaced by the next attempt.
            let _ = disk.remove(&self.temporary);
        })?;
        let folder = self.path.parent().filter(|p| !p.as_os_str().is_empty());
        disk.sync_folder(folder.unwrap_or(Path::new(".")))?;
        Ok(self.path)
    }

    /// Removes the temporary file after an error.
    pub(crate) fn discard(self, disk: &dyn Disk) {
        drop(self.writer);
        // A remaining file is replaced by the next attempt.
        let _ = disk.remove(&self.temporary);
    }
}

/// The error of a write as the operating system gave it: its kind tells a full disk.
pub(crate) fn failed(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(cause) => cause
            .downcast::<io::Error>()
            .map_or_else(io::Error::other, |cause| *cause),
        error => io::Error::other(error),
    }
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

pub(crate) fn number(name: &str) -> io::Result<TypePtr> {
    let field =
        Type::primitive_type_builder(name, Physical::DOUBLE).with_repetition(Repetition::REQUIRED);
    Ok(Arc::new(field.build().map_err(failed)?))
}

/// Writes the next column of a group: all values, or those that `levels` marks as present.
pub(crate) fn put<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, impl Write + Send>,
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

/// A column of few distinct values in long runs, such as the names in a table with a row per value. The library looks
/// every value up in its dictionary; here a run costs as much as a value.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    /// Distinct values, encoded as Parquet's PLAIN.
    plain: Vec<u8>,
    seen: HashMap<Vec<u8>, u32>,
    runs: Vec<(u32, u32)>,
    rows: u32,
}

/// Mean length of a run from which runs take less space than packed numbers.
const LONG_RUN: usize = 4;

impl Runs {
    /// The number of a word.
    pub(crate) fn word(&mut self, word: &str) -> u32 {
        if let Some(&number) = self.seen.get(word.as_bytes()) {
            return number;
        }
        self.plain
            .extend_from_slice(&(word.len() as u32).to_le_bytes());
        self.distinct(word.as_bytes())
    }

    /// The number of a value of eight bytes.
    pub(crate) fn eight(&mut self, eight: [u8; 8]) -> u32 {
        if let Some(&number) = self.seen.get(&eight[..]) {
            return number;
        }
        self.distinct(&eight)
    }

    fn distinct(&mut self, bytes: &[u8]) -> u32 {
        self.plain.extend_from_slice(bytes);
        let number = self.seen.len() as u32;
        self.seen.insert(bytes.to_vec(), number);
        number
    }

    /// Adds rows with the same value.
    pub(crate) fn push(&mut self, value: u32, rows: u32) {
        match self.runs.last_mut() {
            Some((last, n)) if *last == value => *n += rows,
            _ => self.runs.push((value, rows)),
        }
        self.rows += rows;
    }

    /// The indices in Parquet's hybrid of runs and bit-packed numbers, after their width.
    fn indices(&self) -> Vec<u8> {
        let width = (32 - (self.seen.len() as u32).saturating_sub(1).leading_zeros()).max(1);
        let mut out = vec![width as u8];
        if self.rows as usize >= LONG_RUN * self.runs.len() {
            for &(value, rows) in &self.runs {
                crate::bytes::put_number(&mut out, u64::from(rows) << 1);
                out.extend_from_slice(&value.to_le_bytes()[..width.div_ceil(8) as usize]);
            }
            return out;
        }
        crate::bytes::put_number(&mut out, u64::from(self.rows.div_ceil(8)) << 1 | 1);
        let (mut bits, mut held) = (0u64, 0);
        let padding = (0, self.rows.next_multiple_of(8) - self.rows);
        for &(value, rows) in self.runs.iter().chain([&padding]) {
            for _ in 0..rows {
                bits |= u64::from(value) << held;
                held += width;
                while held >= 8 {
                    out.push(bits as u8);
                    bits >>= 8;
                    held -= 8;
                }
            }
        }
        out
    }

    /// Writes the next column of a group.
    pub(crate) fn write(
        &self,
        group: &mut SerializedRowGroupWriter<'_, Box<dyn Handle>>,
        column: ColumnDescPtr,
    ) -> io::Result<()> {
        let mut out = TrackedWrite::new(Vec::new());
        let mut pages = SerializedPageWriter::new(&mut out);
        let dictionary = Page::DictionaryPage {
            buf: self.plain.clone().into(),
            num_values: self.seen.len() as u32,
            encoding: Encoding::PLAIN,
            is_sorted: false,
        };
        let data = Page::DataPage {
            buf: self.indices().into(),
            num_values: self.rows,
            encoding: Encoding::RLE_DICTIONARY,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        let mut sizes = (0, 0);
        for page in [dictionary, data] {
            let length = page.buffer().len();
            let written = pages
                .write_page(CompressedPage::new(page, length))
                .map_err(failed)?;
            sizes = (sizes.1, written.bytes_written as i64);
        }
        let whole = sizes.0 + sizes.1;
        let metadata = ColumnChunkMetaData::builder(column)
            .set_encodings(vec![
                Encoding::PLAIN,
                Encoding::RLE,
                Encoding::RLE_DICTIONARY,
            ])
            .set_compression(Compression::UNCOMPRESSED)
            .set_num_values(self.rows.into())
            .set_total_compressed_size(whole)
            .set_total_uncompressed_size(whole)
            .set_dictionary_page_offset(Some(0))
            .set_data_page_offset(sizes.0)
            .build()
            .map_err(failed)?;
        let close = ColumnCloseResult {
            bytes_written: whole as u64,
            rows_written: self.rows.into(),
            metadata,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        let bytes = Bytes::from(out.into_inner().map_err(failed)?);
        group.append_column(&bytes, close).map_err(failed)
    }
}
