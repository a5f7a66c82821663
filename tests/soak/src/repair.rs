//! From a draft to a scenario: a part that the reader refuses is replaced by the value in the hint,
//! drawn again, or left out.

use std::collections::BTreeMap;

use paceline_scenario::{Diagnostic, Kind, Scenario};
use serde_json::{Value as Json, json};

use crate::draft::Draft;
use crate::drawer::Drawer;
use crate::quantity::{named, pick};

/// Maximum number of times that a draft is read.
const ROUNDS: usize = 80;

/// A placeholder for a required value.
const PLAIN: [(&str, &str); 9] = [
    ("duration", "1 s"),
    ("rate", "10 Mbit/s"),
    ("rtt", "20 ms"),
    ("size", "1 bdp"),
    ("cc", "reno"),
    ("mtu", "1500 B"),
    ("header", "52 B"),
    ("receive_window", "1 MB"),
    ("min_rto", "200 ms"),
];

/// Repairs a draft until it is a scenario.
pub(crate) fn repaired(
    drawer: &mut Drawer<'_>,
    mut draft: Draft,
    wrong: &impl Fn(&Scenario) -> Vec<Diagnostic>,
) -> Option<Draft> {
    let mut tries: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..ROUNDS {
        let problems = match draft.read("drawn.toml") {
            Ok(scenario) => wrong(&scenario),
            Err(problems) => problems,
        };
        if problems.is_empty() {
            return Some(draft);
        }
        for problem in problems {
            let tried = tries.entry(problem.key.clone()).or_default();
            *tried += 1;
            let tried = *tried;
            repair(drawer, &mut draft.0, &problem, tried);
        }
    }
    None
}

/// A step from a value to one inside it.
#[derive(Clone, Debug)]
enum Step {
    Key(String),
    Place(usize),
}

/// The path to a key such as `flows[1].cc`, as far as it exists.
fn way(draft: &Json, key: &str) -> (Vec<Step>, bool) {
    let (mut at, mut steps) = (draft, Vec::new());
    for part in key.split(['.', '[']).filter(|part| !part.is_empty()) {
        let part = part.trim_end_matches(']');
        let (next, step) = match at {
            Json::Array(_) => {
                let place = part.parse().unwrap_or(usize::MAX);
                (at.get(place), Step::Place(place))
            }
            _ => (at.get(part), Step::Key(part.to_owned())),
        };
        match next {
            Some(inner) => at = inner,
            None => return (steps, false),
        }
        steps.push(step);
    }
    (steps, true)
}

fn at<'d>(draft: &'d mut Json, steps: &[Step]) -> &'d mut Json {
    steps.iter().fold(draft, |value, step| match step {
        Step::Key(key) => &mut value[key],
        Step::Place(place) => &mut value[place],
    })
}

fn repair(drawer: &mut Drawer<'_>, draft: &mut Json, problem: &Diagnostic, tried: usize) {
    let (steps, exists) = way(draft, &problem.key);
    let value = at(draft, &steps);
    let leaf = !(value.is_object() || value.is_array());
    if exists && leaf && problem.kind != Kind::UnknownKey {
        let message = format!(
            "{} {}",
            problem.message,
            problem.hint.as_deref().unwrap_or_default()
        );
        let names = named(&message);
        if tried <= 3 && !names.is_empty() {
            // The message repeats the value: not all names are bounds.
            let text = pick(&mut drawer.rng, &names);
            *value = match (value.is_number(), text.parse::<i64>(), text.parse::<f64>()) {
                (true, Ok(whole), _) => json!(whole),
                (true, _, Ok(number)) => json!(number),
                _ => json!(text),
            };
            return;
        }
        if tried <= 5
            && let Some(again) = drawer.again(&problem.key)
        {
            *value = again;
            return;
        }
    }
    if !exists
        && problem.kind == Kind::MissingKey
        && tried <= 2
        && let Some(table) = value.as_object_mut()
        && let Some(again) = drawer.again(&problem.key)
    {
        let name = problem.key.rsplit('.').next().unwrap_or_default();
        table.insert(name.to_owned(), again);
        return;
    }
    leave_out(drawer, draft, steps);
}

/// Removes a value, or something inside a required table.
fn leave_out(drawer: &mut Drawer<'_>, draft: &mut Json, mut steps: Vec<Step>) {
    let Some(last) = steps.pop() else {
        return;
    };
    let parent = at(draft, &steps);
    let value = match &last {
        Step::Key(key) => &mut parent[key],
        Step::Place(place) => &mut parent[place],
    };
    let inside = match value {
        Json::Array(entries) if entries.len() > 1 => {
            let place = drawer.rng.below(entries.len() as u64);
            entries.remove(place as usize);
            return;
        }
        Json::Object(entries) if !entries.is_empty() => {
            let keys: Vec<String> = entries.keys().cloned().collect();
            Some(pick(&mut drawer.rng, &keys).clone())
        }
        _ => None,
    };
    let plain = |key: &str| {
        PLAIN
            .iter()
            .find(|(name, _)| *name == key)
            .map(|(_, value)| json!(value))
    };
    let queue = json!({ "size": "1 bdp" });
    match (last, inside) {
        // A table with an error inside loses one entry at a time, and finally goes itself.
        (_, Some(inner)) if drawer.rng.below(3) > 0 => {
            match plain(&inner) {
                Some(plain) if value[&inner] != plain => value[&inner] = plain,
                _ => drop(value.as_object_mut().map(|entries| entries.remove(&inner))),
            };
        }
        (Step::Key(key), _) => match plain(&key) {
            Some(plain) if parent[&key] != plain => parent[&key] = plain,
            // A direction without a rate has no queue, not even a plain one.
            _ if key == "queue" && parent[&key] != queue => parent[&key] = queue,
            _ => drop(parent.as_object_mut().map(|entries| entries.remove(&key))),
        },
        (Step::Place(place), _) => drop(parent.as_array_mut().map(|entries| entries.remove(place))),
    }
}
