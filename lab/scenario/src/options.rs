//! Reads and checks options by their descriptions.

use duplicate::duplicate_item;
use paceline_units::options::{OptionInfo, OptionKind, OptionValue, Parameters};
use paceline_units::{
    BurstLoss, Bytes, Duration, Frequency, Gain, Hold, Policer, Rate, Reorder, Size,
};

use crate::bounds::Problems;
use crate::document::{Node, join};

use crate::reader::{Read, Reader, Table};
use crate::section::Key;

/// Options and their values, in the order of their description.
pub(crate) type Options = Vec<(&'static str, OptionValue)>;

/// Reads options from a table, with defaults for missing ones.
pub(crate) fn read(
    table: &mut Table<'_, '_, '_>,
    options: impl Iterator<Item = OptionInfo>,
) -> Option<Options> {
    let read: Vec<Option<(&'static str, OptionValue)>> = options
        .map(|option| {
            let value = match table.node(option.name) {
                Some(node) => {
                    let key = join(table.key, option.name);
                    let read = value(node, &key, table.reader, &option.kind);
                    // A wrong value is reported, and its default is used instead.
                    read.or_else(|| option.needs.is_empty().then_some(option.default))
                }
                None if option.needs.is_empty() => Some(option.default),
                None => table.missing(option.name, option.needs),
            };
            Some((option.name, value?))
        })
        .collect();
    read.into_iter().collect()
}

fn value(
    node: &Node,
    key: &str,
    reader: &mut Reader<'_>,
    kind: &OptionKind,
) -> Option<OptionValue> {
    Some(match kind {
        OptionKind::Gain(..) => OptionValue::Gain(Gain::read(node, key, reader)?),
        OptionKind::Share | OptionKind::ShareAboveZero => {
            OptionValue::Share(Gain::read(node, key, reader)?)
        }
        OptionKind::Count(..) => OptionValue::Count(u32::read(node, key, reader)?.into()),
        OptionKind::Duration(..) => OptionValue::Duration(Duration::read(node, key, reader)?),
        OptionKind::Bytes(..) => OptionValue::Bytes(Bytes::read(node, key, reader)?),
        OptionKind::Rate => OptionValue::Rate(Rate::read(node, key, reader)?),
        OptionKind::Frequency => OptionValue::Frequency(Frequency::read(node, key, reader)?),
        OptionKind::Size => OptionValue::Size(Size::read(node, key, reader)?),
        OptionKind::Flag => OptionValue::Flag(bool::read(node, key, reader)?),
        OptionKind::Choice(words) => {
            OptionValue::Choice(reader.word(node, key, "one of a few words", words)?)
        }
    })
}

/// Finds options beyond their bounds.
pub(crate) fn check(
    at: &str,
    options: impl Iterator<Item = OptionInfo>,
    values: &[(&'static str, OptionValue)],
    problems: &mut Problems,
) {
    for (option, (_, value)) in options.zip(values) {
        let key = &join(at, option.name);
        match (option.kind, *value) {
            (OptionKind::Gain(least, most), OptionValue::Gain(gain)) => {
                problems.within(key, gain, least, most);
            }
            (OptionKind::Share, OptionValue::Share(share)) => problems.share(key, share),
            (OptionKind::ShareAboveZero, OptionValue::Share(share)) => {
                problems.within(key, share, Gain::from_millionths(1), Gain::ONE);
            }
            (OptionKind::Count(least, most), OptionValue::Count(count)) => {
                problems.within(key, count, least, most);
            }
            (OptionKind::Duration(least, most), OptionValue::Duration(time)) => {
                match least.as_nanos() {
                    0 => problems.below(key, time, most),
                    1 => problems.time(key, time, most),
                    _ => problems.within(key, time, least, most),
                }
            }
            (OptionKind::Bytes(Bytes::ZERO, most), OptionValue::Bytes(bytes)) => {
                problems.below(key, bytes, most);
            }
            (OptionKind::Bytes(least, most), OptionValue::Bytes(bytes)) => {
                problems.within(key, bytes, least, most);
            }
            (OptionKind::Rate, OptionValue::Rate(rate)) => problems.rate(key, rate),
            _ => {}
        }
    }
}

#[duplicate_item(
    Listed        takes;
    [BurstLoss]  ["a share or a table"];
    [Policer]    ["a table such as { rate = \"10 Mbit/s\", burst = \"100 kB\" }"];
    [Reorder]    ["a table such as { probability = \"1 %\", delay = \"20 ms\" }"];
    [Hold]       ["a table such as { packets = 3, delay = \"60 ms\" }"];
)]
impl Read for Listed {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        let mut table = reader.table(node, key, takes)?;
        let options = read(&mut table, (0..).map_while(Self::info));
        table.finish();
        // Bounds are checked later, so that one error does not hide another.
        options.map(|options| Self::holding(&options))
    }
}

#[duplicate_item(Listed; [BurstLoss]; [Policer]; [Reorder]; [Hold])]
impl Key for Listed {
    fn check(&self, key: &str, problems: &mut Problems) {
        let values: Options = Self::OPTIONS
            .iter()
            .map(|option| (option.name, (option.get)(self)))
            .collect();
        check(key, (0..).map_while(Self::info), &values, problems);
    }
}
