//! Random scenarios.

use std::collections::BTreeMap;

use paceline_scenario::{Diagnostic, Scenario};
use paceline_units::Rng;
use serde_json::{Value as Json, json};

use crate::draft::Draft;
use crate::drawer::Drawer;
use crate::names::refer;
use crate::quantity::{chance, log_uniform, pick};
use crate::repair;
use crate::schema::Schema;

/// A scenario that the reader accepts and in which `wrong` finds nothing; `None` if this seed leads
/// to none.
pub fn draw(
    schema: &Schema,
    seed: u64,
    wrong: impl Fn(&Scenario) -> Vec<Diagnostic>,
) -> Option<Draft> {
    drawn(schema, seed, |_, _| {}, wrong)
}

/// The same for a kernel that has the controllers `known`: one second long.
pub fn draw_emulated(
    schema: &Schema,
    seed: u64,
    known: &[String],
    wrong: impl Fn(&Scenario) -> Vec<Diagnostic>,
) -> Option<Draft> {
    let prepare = |draft: &mut Json, rng: &mut Rng| {
        draft["run"]["duration"] = json!("1 s");
        for group in draft["flows"].as_array_mut().into_iter().flatten() {
            group["cc"] = json!(pick(rng, known));
        }
    };
    drawn(schema, seed, prepare, wrong)
}

fn drawn(
    schema: &Schema,
    seed: u64,
    prepare: impl FnOnce(&mut Json, &mut Rng),
    wrong: impl Fn(&Scenario) -> Vec<Diagnostic>,
) -> Option<Draft> {
    let (mut drawer, draft) = raw(schema, seed, prepare);
    repair::repaired(&mut drawer, draft, &wrong)
}

/// What a seed draws, before it is repaired.
fn raw(
    schema: &Schema,
    seed: u64,
    prepare: impl FnOnce(&mut Json, &mut Rng),
) -> (Drawer<'_>, Draft) {
    let mut rng = Rng::new(seed);
    let dense = *pick(&mut rng, &[2, 6, 15, 50]);
    let wild = *pick(&mut rng, &[1, 5, 15, 50]);
    // Long enough for flows to find their rate; shortened where that takes too much work.
    let millis = log_uniform(&mut rng, 300.0, 100_000.0);
    let mut drawer = Drawer {
        schema,
        rng,
        dense,
        wild,
        millis,
        shapes: BTreeMap::new(),
    };
    let mut draft = drawer.value(schema.root(), "");
    if chance(&mut drawer.rng, 80) {
        draft["run"]["duration"] = json!(format!("{millis:.0} ms"));
    }
    prepare(&mut draft, &mut drawer.rng);
    refer(&mut draft, &mut drawer.rng);
    drawer.vary(&mut draft);
    (drawer, Draft(draft))
}

/// The same with another value of a key, repaired into a scenario again.
pub fn with(
    draft: &Draft,
    schema: &Schema,
    key: &str,
    value: Json,
    wrong: impl Fn(&Scenario) -> Vec<Diagnostic>,
) -> Option<Draft> {
    let mut draft = draft.clone();
    *draft.0.pointer_mut(key)? = value;
    let mut drawer = Drawer {
        schema,
        rng: Rng::new(1),
        dense: 0,
        wild: 0,
        millis: 1000.0,
        shapes: BTreeMap::new(),
    };
    repair::repaired(&mut drawer, draft, &wrong)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::schema::keys;

    #[test]
    fn every_key_is_drawn() {
        let schema = Schema::new();
        let mut missing: BTreeSet<String> = keys(&schema);
        assert!(missing.len() > 300, "{} keys", missing.len());
        for seed in 0..8_000 {
            let (mut drawer, draft) = raw(&schema, seed, |_, _| {});
            let mut wanted = false;
            draft.keys(&mut |key| wanted |= missing.contains(&key));
            // Repairing costs most.
            let repaired = wanted.then(|| repair::repaired(&mut drawer, draft, &|_| vec![]));
            let Some(draft) = repaired.flatten() else {
                continue;
            };
            draft.keys(&mut |key| {
                missing.remove(&key);
            });
            if missing.is_empty() {
                return;
            }
        }
        panic!("never drawn: {missing:#?}");
    }
}
