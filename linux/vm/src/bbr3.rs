//! BBRv3 with options of a scenario: the object that the guest loads, with other constants.

use paceline_experiment::parameters;
use paceline_scenario::{Diagnostic, Scenario};
use paceline_tcp::settings::{self, BBR3};
use paceline_units::options::OptionValue;

/// The controller as `paceline kernel load` registers it.
pub const OBJECT: &[u8] = include_bytes!("../../../python/paceline/kernel/paceline_bbr3.o");
/// The table from which its constants are compiled, in this order.
const TABLE: &str = include_str!("../../kernel/bbr3/options.h");
/// The kernel's longest name of a controller (`TCP_CA_NAME_MAX`), with the zero at its end.
const NAME: usize = 16;
/// The sets of options in one run: a digit distinguishes them.
const MOST_SETS: usize = 9;

/// The constants of an object, in the kernel's units.
type Constants = Vec<u32>;

/// An option of the kernel's BBRv3.
struct Entry {
    name: &'static str,
    kind: &'static str,
    standard: u32,
}

/// The rows `OPTION(name, kind, least, most, default)`.
fn table() -> Vec<Entry> {
    let row = |line: &'static str| {
        let (row, _) = line.trim().strip_prefix("OPTION(")?.split_once(')')?;
        let mut cells = row.split(", ");
        let (name, kind) = (cells.next()?, cells.next()?);
        let standard = cells.nth(2)?.parse().ok()?;
        Some(Entry {
            name,
            kind,
            standard,
        })
    };
    TABLE.lines().filter_map(row).collect()
}

/// The constants of the object.
fn standard() -> Constants {
    table().iter().map(|entry| entry.standard).collect()
}

/// A value in the unit of the table's kind.
fn in_kernel(value: OptionValue, kind: &str) -> Option<u32> {
    let number = match (kind, value) {
        ("gain", OptionValue::Gain(gain)) => u64::from(gain.in_256ths()),
        ("count", OptionValue::Count(count)) => count,
        ("us", OptionValue::Duration(time)) => time.as_micros(),
        ("ms", OptionValue::Duration(time)) => time.as_micros() / 1_000,
        ("flag", OptionValue::Flag(flag)) => u64::from(flag),
        _ => return None,
    };
    u32::try_from(number).ok()
}

/// The constants for a group of flows; none if it does not run the kernel's BBRv3.
fn constants(scenario: &Scenario, group: usize) -> Result<Option<Constants>, Vec<Diagnostic>> {
    let choice = &scenario.flows[group].cc;
    if settings::name(&choice.name) != BBR3 {
        return Ok(None);
    }
    let table = table();
    let unknown = |option: &&String| table.iter().all(|entry| entry.name != option.as_str());
    if let Some(option) = choice.options.keys().find(unknown) {
        let hint = "run it in the simulator, or leave it out";
        let message = "BBRv3 in the kernel has no such option";
        let key = format!("flows[{group}].cc.{option}");
        return Err(vec![scenario.diagnostic(
            &key,
            message,
            Some(hint.to_owned()),
        )]);
    }
    let chosen = parameters(scenario, group)?;
    let value = |entry: &Entry| {
        let option = chosen.iter().find(|(name, _)| *name == entry.name);
        let value = option.and_then(|(_, value)| in_kernel(*value, entry.kind));
        value.unwrap_or(entry.standard)
    };
    Ok(Some(table.iter().map(value).collect()))
}

/// The kernel's controllers of a scenario's flows.
#[derive(Debug)]
pub struct Controllers {
    /// The names, one for each group of flows.
    pub names: Vec<String>,
    /// The sets of options; the first is the default one.
    sets: Vec<Constants>,
}

impl Controllers {
    /// Those of a scenario.
    ///
    /// # Errors
    /// An option that the kernel's BBRv3 does not have, or too many sets of options.
    pub fn of(scenario: &Scenario) -> Result<Self, Vec<Diagnostic>> {
        let mut sets = vec![standard()];
        let mut names = Vec::new();
        for (group, flows) in scenario.flows.iter().enumerate() {
            let name = settings::name(&flows.cc.name);
            let Some(constants) = constants(scenario, group)? else {
                if flows.cc.options.contains_key("pacing") {
                    parameters(scenario, group)?;
                }
                names.push(name.to_owned());
                continue;
            };
            let known = sets.iter().position(|set| *set == constants);
            let number = known.unwrap_or_else(|| {
                sets.push(constants);
                sets.len() - 1
            });
            if number > MOST_SETS {
                let message = format!("the machine loads no more than {MOST_SETS} sets of options");
                let hint = "let flows share their options".to_owned();
                let key = format!("flows[{group}].cc");
                return Err(vec![scenario.diagnostic(&key, message, Some(hint))]);
            }
            names.push(name_of(number));
        }
        Ok(Self { names, sets })
    }

    /// The objects to load: the snapshot has the one with the default options.
    pub fn objects(&self) -> impl Iterator<Item = Vec<u8>> + '_ {
        let others = self.sets.iter().enumerate().skip(1);
        others.map(|(number, set)| object(set, &name_of(number)))
    }
}

/// The name of a set of options; 0 is the default one.
fn name_of(set: usize) -> String {
    match set {
        0 => BBR3.to_owned(),
        set => format!("{BBR3}_{set}"),
    }
}

/// The object with other constants, and another name.
fn object(constants: &[u32], name: &str) -> Vec<u8> {
    let words = |constants: &[u32]| -> Vec<u8> {
        let words = constants.iter();
        words.flat_map(|word| word.to_le_bytes()).collect()
    };
    let padded = |name: &str| {
        let mut bytes = name.as_bytes().to_vec();
        bytes.resize(NAME, 0);
        bytes
    };
    let mut object = OBJECT.to_vec();
    for (old, new) in [
        (words(&standard()), words(constants)),
        (padded(BBR3), padded(name)),
    ] {
        let places = places(&object, &old);
        let &[place] = places.as_slice() else {
            unreachable!("the tests find these bytes once in the object");
        };
        object[place..place + new.len()].copy_from_slice(&new);
    }
    object
}

/// Where the bytes occur.
fn places(object: &[u8], bytes: &[u8]) -> Vec<usize> {
    let windows = object.windows(bytes.len()).enumerate();
    windows
        .filter_map(|(place, window)| (window == bytes).then_some(place))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = r#"schema = 1
run.duration = "1 s"
path = { rate = "10 Mbit/s", rtt = "40 ms", queue = { kind = "droptail", size = "1 bdp" } }
"#;

    fn controllers(ccs: &[&str]) -> Result<Controllers, Vec<Diagnostic>> {
        let flows: String = ccs
            .iter()
            .map(|cc| format!("[[flows]]\ncc = {cc}\n"))
            .collect();
        let text = format!("{PATH}{flows}");
        Controllers::of(&paceline_experiment::parse(&text, "test.toml", &[]).unwrap())
    }

    #[test]
    fn the_object_has_each_pattern_once_and_the_defaults_of_the_simulation() {
        assert!(standard().len() > 30);
        assert_eq!(object(&standard(), BBR3), OBJECT);
        // As the simulated controller has them, without any option.
        assert_eq!(
            controllers(&["\"bbr3-linux\"", "\"reno\""]).unwrap().names,
            [BBR3, "reno"]
        );
    }

    #[test]
    fn a_set_of_options_is_an_object_with_those_constants_and_its_own_name() {
        let chosen = "{ name = \"bbr3-linux\", startup_pacing_gain = 2.89, probe_rtt_mode = \"100 ms\", ecn = true }";
        let same = "{ name = \"bbr3-linux\", startup_pacing_gain = 2.7734 }";
        let resolved = controllers(&[chosen, same, chosen, "\"bbr1\""]).unwrap();
        assert_eq!(
            resolved.names,
            ["paceline_bbr3_1", BBR3, "paceline_bbr3_1", "bbr"]
        );
        let objects: Vec<_> = resolved.objects().collect();
        let [object] = objects.as_slice() else {
            panic!("one set differs from the default");
        };
        assert_eq!(object.len(), OBJECT.len());
        let standard: Vec<u8> = standard()
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        let place = places(OBJECT, &standard)[0];
        let word = |name: &str| {
            let number = table().iter().position(|entry| entry.name == name).unwrap();
            let at = place + 4 * number;
            u32::from_le_bytes(object[at..at + 4].try_into().unwrap())
        };
        assert_eq!(
            ["startup_pacing_gain", "probe_rtt_mode", "ecn", "cwnd_gain"].map(word),
            [740, 100, 1, 512]
        );
        assert!(places(object, b"paceline_bbr3_1\0").len() == 1);
    }

    #[test]
    fn an_option_that_only_the_simulation_has_is_refused() {
        let wrong = controllers(&["{ name = \"bbr3-linux\", prr_bound = true }"]).unwrap_err();
        assert_eq!(wrong[0].message, "BBRv3 in the kernel has no such option");
        let gains = |n: usize| format!("{{ name = \"bbr3-linux\", startup_pacing_gain = 2.{n} }}");
        let many: Vec<String> = (1..=10).map(|n| gains(10 + n)).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(controllers(&many[..9]).unwrap().objects().count(), 9);
        assert!(
            controllers(&many).unwrap_err()[0]
                .message
                .contains("no more than 9 sets")
        );
    }
}
