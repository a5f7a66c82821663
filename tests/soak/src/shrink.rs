//! Shrinks a failing scenario to a smaller one that fails in the same way.

use serde_json::Value as Json;

use crate::draft::Draft;

/// Removes everything it can from a draft, as long as `fails` holds for the rest; calls it at most
/// `most` times.
pub fn shrink(draft: &Draft, most: usize, mut fails: impl FnMut(&Draft) -> bool) -> Draft {
    let (mut best, mut asked) = (draft.clone(), 0);
    loop {
        let mut smaller = false;
        for pointer in places(&best.0) {
            let mut tried = best.clone();
            if asked == most
                || !remove(&mut tried.0, &pointer)
                || tried.read("shrunk.toml").is_err()
            {
                continue;
            }
            asked += 1;
            if fails(&tried) {
                (best, smaller) = (tried, true);
            }
        }
        if !smaller || asked == most {
            return best;
        }
    }
}

/// The paths of all values inside: the outermost first, the last of a list before the others.
fn places(value: &Json) -> Vec<String> {
    let mut all = Vec::new();
    let mut open = vec![(String::new(), value)];
    while !open.is_empty() {
        let mut inner = Vec::new();
        for (at, value) in open {
            match value {
                Json::Object(entries) => inner.extend(
                    entries
                        .iter()
                        .map(|(key, value)| (format!("{at}/{key}"), value)),
                ),
                Json::Array(entries) => {
                    inner.extend(
                        entries
                            .iter()
                            .enumerate()
                            .rev()
                            .map(|(place, value)| (format!("{at}/{place}"), value)),
                    );
                }
                _ => {}
            }
        }
        all.extend(inner.iter().map(|(at, _)| at.clone()));
        open = inner;
    }
    all
}

fn remove(value: &mut Json, pointer: &str) -> bool {
    let Some((parent, last)) = pointer.rsplit_once('/') else {
        return false;
    };
    match value.pointer_mut(parent) {
        Some(Json::Object(entries)) => entries.remove(last).is_some(),
        Some(Json::Array(entries)) => match last.parse() {
            Ok(place) if place < entries.len() => {
                entries.remove(place);
                true
            }
            _ => false,
        },
        _ => false,
    }
}
