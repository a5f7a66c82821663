//! Quantities as text: `"50 Mbit/s"` in, `"50 Mbit/s"` out. A binary format gets the number.

use core::fmt;
use core::marker::PhantomData;
use core::str::FromStr;

use duplicate::{duplicate, duplicate_item};

use ::serde::de::{self, Deserialize, Deserializer, Visitor};
use ::serde::ser::{Serialize, SerializeMap, Serializer};

use crate::options::{OptionValue, Parameters};
use crate::parse::{ParseError, Quantity, RATE, SHARE, TIME, VOLUME};
use crate::{
    AckFilter, Acks, App, BurstLoss, Bytes, Crypto, Direction, Duration, EcnFeedback, Frequency,
    Gain, Hold, Instant, Loss, Policer, Rate, Recovery, Reorder, Size, StackName,
};

struct Text<T>(&'static Quantity, PhantomData<T>);

impl<T: FromStr<Err = ParseError>> Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a {} such as \"{}\"", self.0.name, self.0.example)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

duplicate! {
    [
        Amount     QUANTITY  get_number    of_number         Number;
        [Rate]     [RATE]    [bps]         [from_bps]        [u64];
        [Duration] [TIME]    [as_nanos]    [from_nanos]      [u64];
        [Bytes]    [VOLUME]  [get]         [new]             [u64];
        [Gain]     [SHARE]   [millionths]  [from_millionths] [u32];
    ]
    impl Serialize for Amount {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            match serializer.is_human_readable() {
                true => serializer.collect_str(self),
                false => self.get_number().serialize(serializer),
            }
        }
    }

    impl<'de> Deserialize<'de> for Amount {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            match deserializer.is_human_readable() {
                true => deserializer.deserialize_str(Text(&QUANTITY, PhantomData)),
                false => <Number>::deserialize(deserializer).map(Self::of_number),
            }
        }
    }

    #[cfg(feature = "schema")]
    impl schemars::JsonSchema for Amount {
        fn schema_name() -> alloc::borrow::Cow<'static, str> {
            stringify!(Amount).into()
        }

        fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
            let mut units = alloc::string::String::new();
            for unit in QUANTITY.units {
                if !units.is_empty() {
                    units.push('|');
                }
                units.push_str(unit.symbol);
            }
            schemars::json_schema!({
                "type": "string",
                "description": alloc::format!("A {} such as \"{}\"", QUANTITY.name, QUANTITY.example),
                "pattern": alloc::format!("^\\s*\\+?[0-9]+(\\.[0-9]+)?\\s*({units})\\s*$"),
                "examples": [QUANTITY.example],
            })
        }
    }
}

/// A point in time has no text form.
impl Serialize for Instant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.as_nanos().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Instant {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        u64::deserialize(deserializer).map(Self::from_nanos)
    }
}

#[duplicate_item(Shown; [Frequency]; [Size])]
impl Serialize for Shown {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[duplicate_item(
    Word; [AckFilter]; [Acks]; [Recovery]; [EcnFeedback]; [StackName]; [Crypto]; [Direction]
)]
impl Serialize for Word {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

#[duplicate_item(Table; [BurstLoss]; [Policer]; [Reorder]; [Hold])]
impl Serialize for Table {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(Self::OPTIONS.len()))?;
        for option in Self::OPTIONS {
            map.serialize_entry(option.name, &(option.get)(self))?;
        }
        map.end()
    }
}

/// As in a scenario.
impl Serialize for OptionValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Gain(gain) => {
                serializer.serialize_f64(f64::from(gain.millionths()) / f64::from(Gain::SCALE))
            }
            Self::Share(share) => share.serialize(serializer),
            Self::Count(count) => serializer.serialize_u64(*count),
            Self::Duration(time) => time.serialize(serializer),
            Self::Bytes(bytes) => bytes.serialize(serializer),
            Self::Rate(rate) => rate.serialize(serializer),
            Self::Frequency(weight) => weight.serialize(serializer),
            Self::Size(size) => size.serialize(serializer),
            Self::Flag(flag) => serializer.serialize_bool(*flag),
            Self::Choice(word) => serializer.serialize_str(word),
        }
    }
}

impl Serialize for Loss {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Independent(share) => share.serialize(serializer),
            Self::Burst(burst) => burst.serialize(serializer),
        }
    }
}

impl Serialize for App {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if *self == Self::Bulk {
            return serializer.serialize_str("bulk");
        }
        let mut map = serializer.serialize_map(None)?;
        match self {
            Self::Bulk => {}
            Self::Sized { size } => map.serialize_entry("size", size)?,
            Self::Limited { rate } => map.serialize_entry("rate", rate)?,
            Self::OnOff { on, off, rate } => {
                map.serialize_entry("on", on)?;
                map.serialize_entry("off", off)?;
                if let Some(rate) = rate {
                    map.serialize_entry("rate", rate)?;
                }
            }
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::string::ToString;

    use super::*;

    #[test]
    fn text_in_and_text_out() {
        let time: Duration = serde_json::from_str("\"0.04 s\"").expect("a time");
        assert_eq!(time, Duration::from_millis(40));
        assert_eq!(serde_json::to_string(&time).expect("a string"), "\"40 ms\"");
        let error = serde_json::from_str::<Rate>("50").expect_err("a bare number");
        assert!(
            error
                .to_string()
                .contains("expected a rate such as \"50 Mbit/s\"")
        );
        assert!(serde_json::from_str::<Rate>("\"50\"").is_err());
    }
}
