//! The columns of a table in a Parquet file: what each is written as, and how it is read page by page.
//!
//! Pages come from `parquet`, which unpacks them. What is in them is decoded here: a file of others may contain
//! anything, and the decoders of that library panic on some of it.

use std::fs::File;
use std::sync::Arc;

use arrow_array::builder::{NullBufferBuilder, StringDictionaryBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, UInt32Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int32Array, Int64Array,
    UInt32Array,
};
use arrow_schema::Field;
use parquet::basic::{
    Compression, ConvertedType, Encoding, LogicalType, Repetition, Type as Physical, ZstdLevel,
};
use parquet::column::page::Page;
use parquet::column::writer::{ColumnWriter, ColumnWriterImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{DEFAULT_MAX_ROW_GROUP_ROW_COUNT, WriterProperties};
use parquet::file::reader::FileReader;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnDescriptor, Type};

use crate::column::Kind;
use crate::folder::arrow;
use crate::table::Contents;

/// Rows that are converted at once.
const PART: usize = 1 << 13;

/// Writes a table column by column: at most one of them is in memory in its readable form.
pub fn write(file: File, table: &Contents) -> Result<(), ParquetError> {
    let schema = table.schema();
    let fields = schema.fields().iter();
    let columns = fields.map(|field| type_of(field).map(Arc::new));
    let columns = columns.collect::<Result<_, _>>()?;
    let all = Type::group_type_builder("arrow_schema")
        .with_fields(columns)
        .build()?;
    let described = KeyValue::new(arrow::KEY.to_owned(), arrow::describe(schema));
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_created_by("paceline".to_owned())
        .set_key_value_metadata(Some(vec![described]))
        .build();
    let mut writer = SerializedFileWriter::new(file, Arc::new(all), Arc::new(properties))?;
    let rows = table.rows();
    for from in (0..rows).step_by(DEFAULT_MAX_ROW_GROUP_ROW_COUNT) {
        let mut group = writer.next_row_group()?;
        for (_, array) in table.arrays() {
            let part = array.slice(from, DEFAULT_MAX_ROW_GROUP_ROW_COUNT.min(rows - from));
            // The file has a column for each field.
            let mut column = group
                .next_column()?
                .ok_or_else(|| damaged("a column is missing"))?;
            write_column(column.untyped(), &part)?;
            column.close()?;
        }
        group.close()?;
    }
    writer.close()?;
    Ok(())
}

fn write_column(column: &mut ColumnWriter<'_>, array: &dyn Array) -> Result<(), ParquetError> {
    match column {
        ColumnWriter::Int32ColumnWriter(column) => {
            let ids = array.as_primitive::<UInt32Type>().values();
            write_cells(column, array, |row| ids[row] as i32)
        }
        ColumnWriter::Int64ColumnWriter(column) => {
            let ints = array.as_primitive::<Int64Type>().values();
            write_cells(column, array, |row| ints[row])
        }
        ColumnWriter::DoubleColumnWriter(column) => {
            let reals = array.as_primitive::<Float64Type>().values();
            write_cells(column, array, |row| reals[row])
        }
        ColumnWriter::BoolColumnWriter(column) => {
            let flags = array.as_boolean().values();
            write_cells(column, array, |row| flags.value(row))
        }
        ColumnWriter::ByteArrayColumnWriter(column) => {
            let texts = array.as_dictionary::<Int32Type>();
            let names = texts.values().as_string::<i32>().iter();
            let names: Vec<_> = names
                .map(|name| ByteArray::from(name.unwrap_or_default()))
                .collect();
            let keys = texts.keys().values();
            write_cells(column, array, |row| names[keys[row] as usize].clone())
        }
        _ => Err(damaged("a column is of a type that no record has")),
    }
}

fn write_cells<T: DataType>(
    column: &mut ColumnWriterImpl<'_, T>,
    array: &dyn Array,
    value: impl Fn(usize) -> T::T,
) -> Result<(), ParquetError> {
    let optional = column.get_descriptor().max_def_level() > 0;
    for from in (0..array.len()).step_by(PART) {
        let rows = from..array.len().min(from + PART);
        let there = rows.clone().filter(|row| array.is_valid(*row));
        let values: Vec<T::T> = there.map(&value).collect();
        let levels: Vec<i16> = rows.map(|row| array.is_valid(row).into()).collect();
        column.write_batch(&values, optional.then_some(&levels), None)?;
    }
    Ok(())
}

/// How a column is written.
fn type_of(field: &Field) -> Result<Type, ParquetError> {
    let (of, meaning) = match Kind::of(field.data_type()) {
        Some(Kind::Id) => (Physical::INT32, Some(LogicalType::integer(32, false))),
        Some(Kind::Int) => (Physical::INT64, None),
        Some(Kind::Real) => (Physical::DOUBLE, None),
        Some(Kind::Flag) => (Physical::BOOLEAN, None),
        Some(Kind::Text) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        None => return Err(foreign(field.name(), &field.data_type().to_string())),
    };
    let repetition = match field.is_nullable() {
        true => Repetition::OPTIONAL,
        false => Repetition::REQUIRED,
    };
    let column = Type::primitive_type_builder(field.name(), of);
    column
        .with_logical_type(meaning)
        .with_repetition(repetition)
        .build()
}

/// The kind of a column of a file.
pub fn kind_of(column: &ColumnDescriptor) -> Result<Kind, ParquetError> {
    let (of, meaning) = (column.physical_type(), column.logical_type_ref());
    // Writers of before 2018 have only the second.
    let means = |this: LogicalType, before: ConvertedType| match meaning {
        Some(meaning) => *meaning == this,
        None => column.converted_type() == before,
    };
    let plain = meaning.is_none() && column.converted_type() == ConvertedType::NONE;
    let flat = column.path().parts().len() == 1 && column.max_rep_level() == 0;
    match of {
        Physical::INT32
            if flat && means(LogicalType::integer(32, false), ConvertedType::UINT_32) =>
        {
            Ok(Kind::Id)
        }
        Physical::INT64
            if flat && (plain || means(LogicalType::integer(64, true), ConvertedType::INT_64)) =>
        {
            Ok(Kind::Int)
        }
        Physical::DOUBLE if flat && plain => Ok(Kind::Real),
        Physical::BOOLEAN if flat && plain => Ok(Kind::Flag),
        Physical::BYTE_ARRAY if flat && means(LogicalType::String, ConvertedType::UTF8) => {
            Ok(Kind::Text)
        }
        _ => {
            let of = match meaning {
                Some(meaning) => format!("{of} ({meaning:?})"),
                None => of.to_string(),
            };
            Err(foreign(&column.path().string(), &of))
        }
    }
}

fn foreign(name: &str, of: &str) -> ParquetError {
    damaged(&format!(
        "column `{name}` is of the type {of}, which no record has"
    ))
}

pub fn damaged(what: &str) -> ParquetError {
    ParquetError::General(what.to_owned())
}

/// Reads a column of a file.
pub fn read(file: &dyn FileReader, number: usize, kind: Kind) -> Result<ArrayRef, ParquetError> {
    Ok(match kind {
        Kind::Id => {
            let (ids, nulls) = read_cells(file, number, fixed(u32::from_le_bytes))?;
            Arc::new(UInt32Array::new(ids.into(), nulls.build()))
        }
        Kind::Int => {
            let (ints, nulls) = read_cells(file, number, fixed(i64::from_le_bytes))?;
            Arc::new(Int64Array::new(ints.into(), nulls.build()))
        }
        Kind::Real => {
            let (reals, nulls) = read_cells(file, number, fixed(f64::from_le_bytes))?;
            Arc::new(Float64Array::new(reals.into(), nulls.build()))
        }
        Kind::Flag => {
            let flags = |bytes: &[u8], count: usize| {
                let bits = (0..count).map(|n| Some(bytes.get(n / 8)? >> (n % 8) & 1 != 0));
                bits.collect()
            };
            let (flags, nulls) = read_cells(file, number, flags)?;
            Arc::new(BooleanArray::new(flags.into(), nulls.build()))
        }
        Kind::Text => {
            let mut names = StringDictionaryBuilder::<Int32Type>::new();
            let (keys, nulls) = read_cells(file, number, |mut bytes, count| {
                let mut text = || {
                    let (length, rest) = bytes.split_first_chunk()?;
                    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
                    let (text, rest) = rest.split_at_checked(length)?;
                    bytes = rest;
                    names.append(str::from_utf8(text).ok()?).ok()
                };
                (0..count).map(|_| text()).collect()
            })?;
            let keys = Int32Array::new(keys.into(), nulls.build());
            let names = Arc::clone(names.finish().values());
            // Every key is the place of a name.
            Arc::new(DictionaryArray::try_new(keys, names).expect("keys are places of names"))
        }
    })
}

/// Values of one width, one after another.
fn fixed<const N: usize, V>(value: fn([u8; N]) -> V) -> impl Fn(&[u8], usize) -> Option<Vec<V>> {
    move |bytes, count| {
        let values = bytes.as_chunks().0.get(..count)?;
        Some(values.iter().map(|bytes| value(*bytes)).collect())
    }
}

/// Reads the cells of a column, of which `plain` decodes a number of values that are there; and which of them are null.
fn read_cells<V: Copy + Default>(
    file: &dyn FileReader,
    number: usize,
    mut plain: impl FnMut(&[u8], usize) -> Option<Vec<V>>,
) -> Result<(Vec<V>, NullBufferBuilder), ParquetError> {
    let metadata = file.metadata();
    let column = metadata.file_metadata().schema_descr().column(number);
    let name = column.path().string();
    let wrong = |what: &str| damaged(&format!("column `{name}` {what}"));
    let groups = metadata.row_groups().iter();
    let rows = groups.map(|group| group.num_rows() as usize).sum();
    let (mut cells, mut nulls) = (Vec::with_capacity(rows), NullBufferBuilder::new(rows));
    for group in 0..metadata.num_row_groups() {
        let end = cells.len() + metadata.row_group(group).num_rows() as usize;
        let mut pages = file.get_row_group(group)?.get_column_page_reader(number)?;
        let mut dictionary: Option<Vec<V>> = None;
        while let Some(page) = pages.get_next_page()? {
            let cut = || wrong("has a page that ends too early");
            let (page, count, encoding, levels) = match &page {
                Page::DictionaryPage {
                    buf, num_values, ..
                } => {
                    dictionary = Some(plain(buf, *num_values as usize).ok_or_else(cut)?);
                    continue;
                }
                Page::DataPage {
                    buf,
                    num_values,
                    encoding,
                    def_level_encoding,
                    ..
                } => match (column.max_def_level(), def_level_encoding) {
                    (0, _) => (&buf[..], *num_values, *encoding, None),
                    (_, Encoding::RLE) => {
                        let (levels, values) = measured(buf).ok_or_else(cut)?;
                        (values, *num_values, *encoding, Some(levels))
                    }
                    _ => return Err(wrong("has an encoding that is not read")),
                },
                Page::DataPageV2 {
                    buf,
                    num_values,
                    encoding,
                    def_levels_byte_len,
                    rep_levels_byte_len,
                    ..
                } => {
                    let (levels, values) = usize::try_from(*def_levels_byte_len)
                        .ok()
                        .filter(|_| *rep_levels_byte_len == 0)
                        .and_then(|length| buf.split_at_checked(length))
                        .ok_or_else(cut)?;
                    let levels = (column.max_def_level() > 0).then_some(levels);
                    (values, *num_values, *encoding, levels)
                }
            };
            let count = count as usize;
            if count > end - cells.len() {
                return Err(wrong("has more rows than it says"));
            }
            let levels = levels.map(|levels| hybrid(levels, 1, count).ok_or_else(cut));
            let levels = levels.transpose()?;
            let there = match &levels {
                Some(levels) => levels.iter().filter(|level| **level > 0).count(),
                None => count,
            };
            let values = match encoding {
                Encoding::PLAIN => plain(page, there),
                Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY => {
                    let (width, keys) = page.split_first().unwrap_or((&0, &[]));
                    let keys = hybrid(keys, u32::from(*width), there).ok_or_else(cut)?;
                    let all = dictionary.as_deref().unwrap_or_default();
                    let value = |key: &u32| all.get(*key as usize).copied();
                    keys.iter().map(value).collect()
                }
                _ => return Err(wrong("has an encoding that is not read")),
            };
            let values = values.ok_or_else(cut)?;
            match levels {
                None => {
                    cells.extend(values);
                    nulls.append_n_non_nulls(count);
                }
                Some(levels) => {
                    let mut values = values.into_iter();
                    for level in levels {
                        nulls.append(level > 0);
                        // There are as many as levels say.
                        cells
                            .push(if level > 0 { values.next() } else { None }.unwrap_or_default());
                    }
                }
            }
        }
        if cells.len() < end {
            return Err(wrong("has fewer rows than it says"));
        }
    }
    Ok((cells, nulls))
}

/// What stands after its length, and the rest.
fn measured(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)
}

/// Numbers of a width in bits, in runs of one number and groups of eight.
fn hybrid(mut bytes: &[u8], width: u32, count: usize) -> Option<Vec<u32>> {
    if width > 32 {
        return None;
    }
    let mut numbers = Vec::with_capacity(count);
    while numbers.len() < count {
        let left = count - numbers.len();
        let run = varint(&mut bytes)?;
        let length = usize::try_from(run >> 1).ok()?;
        if run & 1 == 0 {
            let (number, rest) = bytes.split_at_checked(width.div_ceil(8) as usize)?;
            bytes = rest;
            let bytes = number.iter().rev();
            let number = bytes.fold(0, |all, byte| all << 8 | u32::from(*byte));
            numbers.resize(numbers.len() + length.min(left), number);
            continue;
        }
        // The last group of some writers ends where its numbers do.
        let size = length.checked_mul(width as usize)?.min(bytes.len());
        let (packed, rest) = bytes.split_at_checked(size)?;
        bytes = rest;
        let (mut packed, mut bits, mut count) = (packed.iter(), 0_u64, 0);
        for _ in 0..length.checked_mul(8)?.min(left) {
            while count < width {
                bits |= u64::from(*packed.next()?) << count;
                count += 8;
            }
            numbers.push((bits & ((1 << width) - 1)) as u32);
            bits >>= width;
            count -= width;
        }
    }
    Some(numbers)
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..63).step_by(7) {
        let (octet, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(*octet & 127) << shift;
        if *octet < 128 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::run::Run;
    use crate::testing::two_flows;

    /// The example of the format's description: 0 to 7 in three bits each; and runs.
    #[test]
    fn numbers_come_in_runs_and_groups() {
        let packed = [0x03, 0x88, 0xc6, 0xfa];
        assert_eq!(hybrid(&packed, 3, 8).unwrap(), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(hybrid(&packed, 3, 5).unwrap(), [0, 1, 2, 3, 4]);
        assert_eq!(hybrid(&packed[..3], 3, 5).unwrap(), [0, 1, 2, 3, 4]);
        assert_eq!(hybrid(&packed[..3], 3, 8), None);
        // Three times 0x0201, then once 5.
        let runs = [0x06, 0x01, 0x02, 0x02, 0x05, 0x00];
        assert_eq!(hybrid(&runs, 10, 4).unwrap(), [0x201, 0x201, 0x201, 5]);
        assert_eq!(hybrid(&runs, 10, 5), None);
        assert_eq!(hybrid(&[0x08], 0, 4).unwrap(), [0, 0, 0, 0]);
        assert_eq!(hybrid(&[0x03], 33, 1), None);
    }

    /// Whatever a changed byte makes of a file: a run or an error.
    #[test]
    fn damage_is_no_panic() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("run");
        two_flows().write(&dir).unwrap();
        let file = dir.join("events.parquet");
        let whole = fs::read(&file).unwrap();
        for at in (4..whole.len()).step_by(5) {
            let mut bent = whole.clone();
            bent[at] ^= 1 << (at % 8);
            fs::write(&file, bent).unwrap();
            let _ = Run::read(&dir, 100_000_000);
        }
        fs::write(&file, whole).unwrap();
        Run::read(&dir, 100_000_000).unwrap();
    }
}
