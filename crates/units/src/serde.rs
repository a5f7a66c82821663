//! Quantities as text: `"50 Mbit/s"` in, `"50 Mbit/s"` out.

use core::fmt;
use core::marker::PhantomData;
use core::str::FromStr;

use ::serde::de::{self, Deserialize, Deserializer, Visitor};
use ::serde::ser::{Serialize, Serializer};

use crate::parse::{ParseError, Quantity, RATE, SHARE, TIME, VOLUME};
use crate::{Bytes, Duration, Gain, Rate};

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

macro_rules! as_text {
    ($($unit:ident: $quantity:ident),*) => {$(
        impl Serialize for $unit {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $unit {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(Text(&$quantity, PhantomData))
            }
        }

        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for $unit {
            fn schema_name() -> alloc::borrow::Cow<'static, str> {
                stringify!($unit).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let mut units = alloc::string::String::new();
                for unit in $quantity.units {
                    if !units.is_empty() {
                        units.push('|');
                    }
                    units.push_str(unit.symbol);
                }
                schemars::json_schema!({
                    "type": "string",
                    "description": alloc::format!("A {} such as \"{}\"", $quantity.name, $quantity.example),
                    "pattern": alloc::format!("^\\s*\\+?[0-9]+(\\.[0-9]+)?\\s*({units})\\s*$"),
                    "examples": [$quantity.example],
                })
            }
        }
    )*};
}
as_text!(Rate: RATE, Duration: TIME, Bytes: VOLUME, Gain: SHARE);

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
