//! Names that refer to something, which no schema can express.

use paceline_congestion::controllers;
use paceline_units::Rng;
use serde_json::{Value as Json, json};

use crate::quantity::pick;

/// Texts for a name or a description.
pub const TEXTS: [&str; 8] = [
    "a",
    "bottleneck",
    "四流收敛 🚀",
    "[/bold] & <b>",
    "\u{1b}[31m",
    "a.b[0]",
    "two words\nand a line",
    "x\"'\\%#=",
];

/// A trace in mahimahi's format, next to each scenario.
pub const TRACE: (&str, &str) = ("drawn.trace", "0\n0\n3\n3\n10\n40\n41\n200\n");

/// Writes existing names where a draft refers to something: a link, a flow, a state, a controller.
pub fn refer(draft: &mut Json, rng: &mut Rng) {
    let name = |link: &Json| link["name"].as_str().map(str::to_owned);
    let mut links = vec![name(&draft["path"]).unwrap_or_else(|| "bottleneck".into())];
    links.extend(
        draft["links"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(name),
    );
    let mut flows = Vec::new();
    for group in draft["flows"].as_array_mut().into_iter().flatten() {
        let cc = group["cc"]["name"]
            .as_str()
            .or(group["cc"].as_str())
            .unwrap_or_default();
        let count = group
            .get("count")
            .and_then(Json::as_u64)
            .unwrap_or(1)
            .min(100_000);
        flows.extend((0..count).map(|_| cc.to_owned()));
        for key in ["route", "return_route"] {
            let route = group.get_mut(key).and_then(Json::as_array_mut);
            let mut left = links.clone();
            for place in route.into_iter().flatten() {
                if !left.is_empty() {
                    let chosen = rng.below(left.len() as u64) as usize;
                    *place = json!(left.swap_remove(chosen));
                }
            }
        }
    }
    let flow = |rng: &mut Rng| rng.below(flows.len().max(1) as u64);
    for event in draft
        .get_mut("events")
        .and_then(Json::as_array_mut)
        .into_iter()
        .flatten()
    {
        if let Some(link) = event.pointer_mut("/path/link") {
            *link = json!(pick(rng, &links));
        }
        if let Some(number) = event.pointer_mut("/flow/flow") {
            *number = json!(flow(rng));
        }
        if event["when"].get("enters").is_some() {
            let number = flow(rng);
            let cc = flows.get(number as usize).cloned().unwrap_or_default();
            let spec = controllers().iter().find(|spec| spec.name == cc);
            event["when"]["flow"] = json!(number);
            event["when"]["enters"] = json!(spec.map_or("none", |spec| *pick(rng, spec.phases)));
        }
    }
}
