//! Cycles of a directed graph.

use std::collections::{BTreeMap, BTreeSet};

/// Dependencies: each node with the nodes that it uses.
pub type Graph = BTreeMap<String, BTreeSet<String>>;

/// The largest sets of nodes that all reach each other, sorted; a single node is not a set.
pub fn circles(graph: &Graph) -> Vec<Vec<String>> {
    let reach: BTreeMap<&str, BTreeSet<&str>> = graph
        .keys()
        .map(|from| (from.as_str(), reachable(graph, from)))
        .collect();
    let mut circles = BTreeSet::new();
    for (from, reached) in &reach {
        let circle: Vec<String> = reached
            .iter()
            .filter(|to| reach.get(*to).is_some_and(|back| back.contains(from)))
            .map(|to| String::from(*to))
            .collect();
        if circle.len() > 1 {
            circles.insert(circle);
        }
    }
    circles.into_iter().collect()
}

fn reachable<'a>(graph: &'a Graph, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&str> = graph[from].iter().map(String::as_str).collect();
    while let Some(node) = open.pop() {
        if reached.insert(node) {
            open.extend(graph.get(node).into_iter().flatten().map(String::as_str));
        }
    }
    reached
}
