//! A scenario's choice of controller, checked against the registry.

use paceline_congestion::options::{OptionInfo, OptionKind, OptionValue};
use paceline_congestion::{BuildError, Recipe, controllers, recipe};
use paceline_experiment::{list, nearest};
use paceline_scenario::{ControllerChoice, OptionInput};
use paceline_units::{Bytes, Duration, Gain};

/// What is wrong with a choice of controller: the key below `cc` (empty for
/// the name itself), what is wrong, and what to write instead.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub key: String,
    pub message: String,
    pub hint: Option<String>,
}

/// Checks a choice of controller.
pub(crate) fn choose(choice: &ControllerChoice) -> Result<Recipe, Wrong> {
    let name = choice.name.as_str();
    let Some(spec) = controllers().iter().find(|spec| spec.name == name) else {
        let names: Vec<&str> = controllers().iter().map(|spec| spec.name).collect();
        return Err(Wrong {
            key: String::new(),
            message: format!(
                "no controller is called `{name}`; there are {}",
                list(&names)
            ),
            hint: nearest(name, names),
        });
    };
    let infos: Vec<OptionInfo> = spec.options().collect();
    let mut options = Vec::with_capacity(choice.options.len());
    for (key, input) in &choice.options {
        let Some(info) = infos.iter().find(|info| info.name == key) else {
            let names: Vec<&str> = infos.iter().map(|info| info.name).collect();
            let hint = nearest(key, names.iter().copied())
                .unwrap_or_else(|| format!("`paceline list controllers {name}` lists its options"));
            return Err(Wrong {
                key: key.clone(),
                message: format!("`{name}` has no option `{key}`"),
                hint: Some(hint),
            });
        };
        let value = read(input, &info.kind)
            .filter(|value| info.kind.accepts(value))
            .ok_or_else(|| Wrong {
                key: key.clone(),
                message: format!(
                    "option `{key}` of `{name}` takes {}, not {}",
                    allowed(&info.kind),
                    shown(input)
                ),
                hint: None,
            })?;
        options.push((info.name, value));
    }
    recipe(name, &options).map_err(|error| Wrong {
        key: match error {
            BuildError::Option(index) => options[index].0.to_owned(),
            BuildError::UnknownController => String::new(),
        },
        message: format!("`{name}` refuses this value"),
        hint: None,
    })
}

/// An input as a value of the kind that the option takes.
fn read(input: &OptionInput, kind: &OptionKind) -> Option<OptionValue> {
    match (kind, input) {
        (OptionKind::Flag, OptionInput::Flag(flag)) => Some(OptionValue::Flag(*flag)),
        (OptionKind::Count(..), OptionInput::Integer(n)) => {
            u64::try_from(*n).ok().map(OptionValue::Count)
        }
        (OptionKind::Gain(..), OptionInput::Integer(n)) => n
            .checked_mul(i64::from(Gain::SCALE))
            .and_then(|millionths| u32::try_from(millionths).ok())
            .map(|millionths| OptionValue::Gain(Gain::from_millionths(millionths))),
        (OptionKind::Gain(..), OptionInput::Millionths(millionths)) => u32::try_from(*millionths)
            .ok()
            .map(|millionths| OptionValue::Gain(Gain::from_millionths(millionths))),
        (OptionKind::Gain(..), OptionInput::Text(text)) => {
            Gain::parse(text).ok().map(OptionValue::Gain)
        }
        (OptionKind::Duration(..), OptionInput::Text(text)) => {
            Duration::parse(text).ok().map(OptionValue::Duration)
        }
        (OptionKind::Bytes(..), OptionInput::Text(text)) => {
            Bytes::parse(text).ok().map(OptionValue::Bytes)
        }
        (OptionKind::Choice(words), OptionInput::Text(text)) => words
            .iter()
            .find(|word| *word == text)
            .map(|word| OptionValue::Choice(word)),
        _ => None,
    }
}

/// What an option takes, in words.
pub fn allowed(kind: &OptionKind) -> String {
    let number = |gain: &Gain| f64::from(gain.millionths()) / f64::from(Gain::SCALE);
    match kind {
        OptionKind::Gain(low, high) => {
            format!("a number from {} to {}", number(low), number(high))
        }
        OptionKind::Count(low, high) => format!("a whole number from {low} to {high}"),
        OptionKind::Duration(low, high) => {
            format!("a time from \"{low}\" to \"{high}\"")
        }
        OptionKind::Bytes(low, high) if high.is_infinite() => format!("a volume from \"{low}\" on"),
        OptionKind::Bytes(low, high) => format!("a volume from \"{low}\" to \"{high}\""),
        OptionKind::Flag => "true or false".into(),
        OptionKind::Choice(words) => format!("one of {}", list(words)),
    }
}

/// An option's value as a scenario writes it.
pub fn written(value: &OptionValue) -> String {
    match value {
        OptionValue::Gain(gain) => {
            format!("{}", f64::from(gain.millionths()) / f64::from(Gain::SCALE))
        }
        OptionValue::Count(count) => count.to_string(),
        OptionValue::Duration(duration) => duration.to_string(),
        OptionValue::Bytes(bytes) if bytes.is_infinite() => "infinite".into(),
        OptionValue::Bytes(bytes) => bytes.to_string(),
        OptionValue::Flag(flag) => flag.to_string(),
        OptionValue::Choice(word) => (*word).to_owned(),
    }
}

fn shown(input: &OptionInput) -> String {
    match input {
        OptionInput::Flag(flag) => flag.to_string(),
        OptionInput::Integer(n) => n.to_string(),
        OptionInput::Millionths(n) => format!("{}", *n as f64 / 1e6),
        OptionInput::Text(text) => format!("\"{text}\""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(name: &str, options: &[(&str, OptionInput)]) -> ControllerChoice {
        ControllerChoice {
            name: name.into(),
            options: options
                .iter()
                .map(|(key, value)| ((*key).to_owned(), value.clone()))
                .collect(),
        }
    }

    #[test]
    fn every_controller_can_be_made() {
        for spec in controllers() {
            assert_eq!(choose(&choice(spec.name, &[])).unwrap().name(), spec.name);
        }
    }

    #[test]
    fn a_misspelled_name_gets_its_neighbour() {
        let wrong = choose(&choice("bbr33", &[])).unwrap_err();
        assert_eq!(wrong.hint.as_deref(), Some("did you mean `bbr3`?"));
        assert!(wrong.message.contains("`cubic`"));
        assert_eq!(choose(&choice("xyzzy", &[])).unwrap_err().hint, None);
    }

    #[test]
    fn options_are_read_by_their_kind() {
        let gain = OptionInput::Millionths(2_890_000);
        assert!(choose(&choice("bbr3", &[("startup_pacing_gain", gain)])).is_ok());
        let wrong = choose(&choice(
            "bbr3",
            &[("startup_pacing_gian", OptionInput::Integer(2))],
        ))
        .unwrap_err();
        assert_eq!(wrong.key, "startup_pacing_gian");
        assert_eq!(
            wrong.hint.as_deref(),
            Some("did you mean `startup_pacing_gain`?")
        );
        let text = OptionInput::Text("fast".into());
        let wrong = choose(&choice("bbr3", &[("startup_pacing_gain", text)])).unwrap_err();
        assert!(wrong.message.contains("a number from"), "{}", wrong.message);
    }
}
