//! Compares the pages of a Parquet file with the file's metadata before decoding any.
//!
//! A page states its own size after decompression, and a reader allocates that much. The sizes in a
//! file's metadata are checked against a limit; a page may not exceed them.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};

use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};

use crate::folder::columns::damaged;

/// Strings that share beginnings: a page of them does not state their decoded size.
const DELTA_BYTE_ARRAY: i64 = 7;

/// Checks each page of a file. If it states something impossible, or contradicts the metadata of
/// its column, the file is damaged.
pub fn check(file: &File, metadata: &ParquetMetaData) -> Result<(), ParquetError> {
    let length = file.metadata()?.len();
    let mut reader = BufReader::with_capacity(1 << 12, file);
    let groups = metadata.row_groups().iter();
    for column in groups.flat_map(|group| group.columns()) {
        let wrong = |what: String| {
            damaged(&format!(
                "column `{}` {what}",
                column.column_path().string()
            ))
        };
        let (at, end) = place(column)
            .filter(|(_, end)| *end <= length)
            .ok_or_else(|| wrong("lies outside of the file".to_owned()))?;
        let declared = u64::try_from(column.uncompressed_size()).unwrap_or(0);
        let (mut at, mut bytes) = (at, 0_u64);
        reader.seek(SeekFrom::Start(at))?;
        while at < end {
            let mut header = Header {
                reader: &mut reader,
                left: end - at,
            };
            let page = header
                .page()
                .map_err(|error| wrong(format!("has a bad page: {error}")))?;
            at = end - header.left;
            bytes = bytes.saturating_add(page.uncompressed);
            if bytes > declared || page.compressed > end - at {
                return Err(wrong(format!(
                    "has pages of {bytes} bytes and more, and says {declared}"
                )));
            }
            if page.encoding == Some(DELTA_BYTE_ARRAY) {
                return Err(wrong("has an encoding that is not read".to_owned()));
            }
            reader.seek_relative(i64::try_from(page.compressed).unwrap_or(i64::MAX))?;
            at += page.compressed;
        }
    }
    reader.rewind()?;
    Ok(())
}

/// Where a column's pages begin and end.
fn place(column: &ColumnChunkMetaData) -> Option<(u64, u64)> {
    let first = column.data_page_offset();
    let start = u64::try_from(column.dictionary_page_offset().unwrap_or(first)).ok()?;
    let end = start.checked_add(u64::try_from(column.compressed_size()).ok()?)?;
    (first >= 0).then_some((start, end))
}

/// The header fields of a page.
struct Page {
    uncompressed: u64,
    compressed: u64,
    encoding: Option<i64>,
}

/// A value of Thrift's compact protocol, as far as page headers use them.
enum Value {
    Number(i64),
    Struct,
    Other,
}

/// The header of a page, read from a part of the file.
struct Header<'r, R> {
    reader: &'r mut R,
    left: u64,
}

impl<R: BufRead + Seek> Header<'_, R> {
    /// `PageHeader`: its sizes, and the encoding in the header of its kind.
    fn page(&mut self) -> Result<Page, ParquetError> {
        /// Those of `DataPageHeader`, `DictionaryPageHeader` and `DataPageHeaderV2`, each with the
        /// field of its encoding.
        const KINDS: [(i64, i64); 3] = [(5, 2), (7, 2), (8, 4)];
        let (mut sizes, mut encoding) = ([None; 2], None);
        let mut last = 0;
        while let Some((field, kind)) = self.field(&mut last)? {
            match (field, self.value(kind)?) {
                (2 | 3, Value::Number(number)) => {
                    sizes[usize::from(field == 3)] = u64::try_from(number).ok();
                }
                (field, Value::Struct) => {
                    let of = KINDS.iter().find(|(kind, _)| *kind == field);
                    let inner = self.inside(of.map(|(_, encoding)| *encoding), 0)?;
                    encoding = inner.or(encoding);
                }
                _ => {}
            }
        }
        match sizes {
            [Some(uncompressed), Some(compressed)] => Ok(Page {
                uncompressed,
                compressed,
                encoding,
            }),
            _ => Err(damaged("it has no size")),
        }
    }

    /// Reads a struct to its end, and returns the number in the requested field.
    fn inside(&mut self, wanted: Option<i64>, depth: u32) -> Result<Option<i64>, ParquetError> {
        if depth > 8 {
            return Err(damaged("it is nested too deeply"));
        }
        let (mut value, mut last) = (None, 0);
        while let Some((field, kind)) = self.field(&mut last)? {
            match self.value(kind)? {
                Value::Number(number) if Some(field) == wanted => value = Some(number),
                Value::Struct => drop(self.inside(None, depth + 1)?),
                _ => {}
            }
        }
        Ok(value)
    }

    /// The next field's number and type; none at the end of its struct.
    fn field(&mut self, last: &mut i64) -> Result<Option<(i64, u8)>, ParquetError> {
        let octet = self.octet()?;
        if octet == 0 {
            return Ok(None);
        }
        *last = match octet >> 4 {
            0 => self.number()?,
            step => last.saturating_add(step.into()),
        };
        Ok(Some((*last, octet & 15)))
    }

    fn value(&mut self, kind: u8) -> Result<Value, ParquetError> {
        match kind {
            // True and false.
            1 | 2 => Ok(Value::Other),
            3 => self.skip(1),
            4..=6 => self.number().map(Value::Number),
            7 => self.skip(8),
            8 => {
                let length = self.varint()?;
                self.skip(length)
            }
            12 => Ok(Value::Struct),
            _ => Err(damaged("it has a field that no page has")),
        }
    }

    fn number(&mut self) -> Result<i64, ParquetError> {
        let raw = self.varint()?;
        Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
    }

    fn varint(&mut self) -> Result<u64, ParquetError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let octet = self.octet()?;
            value |= u64::from(octet & 127) << shift;
            if octet < 128 {
                return Ok(value);
            }
        }
        Err(damaged("it has a number that is too long"))
    }

    fn octet(&mut self) -> Result<u8, ParquetError> {
        self.take(1)?;
        let mut octet = [0];
        self.reader.read_exact(&mut octet)?;
        Ok(octet[0])
    }

    fn skip(&mut self, length: u64) -> Result<Value, ParquetError> {
        self.take(length)?;
        std::io::copy(&mut self.reader.by_ref().take(length), &mut std::io::sink())?;
        Ok(Value::Other)
    }

    fn take(&mut self, length: u64) -> Result<(), ParquetError> {
        let left = self.left.checked_sub(length);
        self.left = left.ok_or_else(|| damaged("it does not end"))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::sync::Arc;

    use parquet::basic::Encoding;
    use parquet::data_type::{ByteArray, ByteArrayType};
    use parquet::file::properties::WriterProperties;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;

    use super::*;
    use crate::run::Run;
    use crate::testing::two_flows;

    /// Where the pages of a file's first column begin.
    fn first_page(path: &Path) -> usize {
        let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
        let (at, _) = place(reader.metadata().row_group(0).column(0)).unwrap();
        usize::try_from(at).unwrap()
    }

    /// Corrupts one file of a record; returns the reader's result.
    fn read(bend: impl Fn(&Path)) -> String {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("run");
        two_flows().write(&dir).unwrap();
        bend(&dir.join("samples.parquet"));
        Run::read(&dir, 100_000_000).unwrap_err().to_string()
    }

    /// A header begins with type, size and compressed size, each a field octet and a number. The
    /// maximum number of the same length is more than the column's metadata states.
    #[test]
    fn a_page_claims_no_more_than_its_column() {
        for (field, message) in [(3, "bytes and more, and says"), (0, "has a bad page: ")] {
            let error = read(|path| {
                let at = first_page(path) + field;
                let mut octets = fs::read(path).unwrap();
                if field == 0 {
                    // A set, which no header contains.
                    octets[at] = 0x1a;
                } else {
                    assert_eq!(octets[at - 1], 0x15, "the second field, a number");
                    let length = 1 + octets[at..]
                        .iter()
                        .take_while(|octet| **octet >= 128)
                        .count();
                    octets[at..at + length].fill(0xff);
                    // Even numbers encode values of zero and above; the last octet has no high bit.
                    octets[at] -= 1;
                    octets[at + length - 1] &= 0x7f;
                }
                fs::write(path, octets).unwrap();
            });
            assert!(
                error.contains("samples.parquet") && error.contains(message),
                "{error}"
            );
        }
    }

    /// A thousand strings that share their beginning, or are one: 64 MB from a file of some kilobytes.
    #[test]
    fn what_is_small_in_the_file_alone_is_refused() {
        let long = ByteArray::from("x".repeat(1 << 16).as_str());
        let written = |properties: WriterProperties, of: &str, path: &Path| {
            let schema = parse_message_type(&format!("message all {{ {of} }}")).unwrap();
            let file = File::create(path).unwrap();
            let mut writer =
                SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties)).unwrap();
            let mut group = writer.next_row_group().unwrap();
            let mut column = group.next_column().unwrap().unwrap();
            let texts = vec![long.clone(); 1000];
            let typed = column.typed::<ByteArrayType>();
            typed.write_batch(&texts, None, None).unwrap();
            column.close().unwrap();
            group.close().unwrap();
            writer.close().unwrap();
        };
        let text = "required binary t_ns (string);";
        let delta = WriterProperties::builder()
            .set_dictionary_enabled(false)
            .set_encoding(Encoding::DELTA_BYTE_ARRAY);
        let error = read(|path| written(delta.clone().build(), text, path));
        assert!(
            error.contains("column `t_ns` has an encoding that is not read"),
            "{error}"
        );
        let octets = "required binary t_ns;";
        let error = read(|path| written(WriterProperties::default(), octets, path));
        assert!(
            error.contains("column `t_ns` is of the type BYTE_ARRAY, which no record has"),
            "{error}"
        );
        // One name, of which every row has the number.
        let error = read(|path| written(WriterProperties::default(), text, path));
        assert!(
            error.contains("table `samples` has no proper column `t_ns`"),
            "{error}"
        );
    }

    #[test]
    fn numbers_are_read_as_thrift_writes_them() {
        let mut octets: &[u8] = &[0x03, 0xac, 0x02];
        let mut reader = std::io::Cursor::new(octets.by_ref());
        let mut header = Header {
            reader: &mut reader,
            left: 3,
        };
        assert_eq!(header.number().unwrap(), -2);
        assert_eq!(header.varint().unwrap(), 300);
        assert!(header.octet().is_err());
    }
}
