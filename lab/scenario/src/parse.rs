//! From a text to a valid scenario, or to all errors in it.

use std::path::Path;

use crate::check::check;
use crate::diagnostic::{Diagnostic, Kind};
use crate::document::Document;
use crate::draw;
use crate::limits;
use crate::reader::{Read, Reader};
use crate::scenario::Scenario;
use crate::vocabulary::Vocabulary;

impl Scenario {
    /// Reads a scenario, applies `overrides` (key path and value, as in `--set KEY=VALUE`) and
    /// fills in every default. `file_name` is shown in errors, and traces are relative to it;
    /// `vocabulary` has the names that a scenario may use.
    ///
    /// The value of an override is TOML if it can be read as such (`5`, `true`, `["a"]`, `{ .. }`)
    /// and text otherwise, so that `5 s` needs no quotes.
    ///
    /// # Errors
    /// All errors that could be found, in the order of the file.
    pub fn parse(
        text: &str,
        file_name: &str,
        overrides: &[(String, String)],
        vocabulary: &'static Vocabulary,
    ) -> Result<Self, Vec<Diagnostic>> {
        Self::of(Document::parse(text, file_name, overrides, vocabulary)?)
    }

    fn of(document: Document) -> Result<Self, Vec<Diagnostic>> {
        let mut reader = Reader::new(&document);
        let scenario = Self::read(&document.root, "", &mut reader);
        let mut problems = reader.problems;
        if let Some(mut scenario) = scenario {
            scenario.document = document;
            // Errors that follow from a value already reported are suppressed.
            let known: Vec<String> = problems.iter().map(|problem| problem.key.clone()).collect();
            // Links that could not be read cannot be referred to.
            let unread = known.iter().any(|key| key.starts_with("links"));
            let names_link = |key: &str| key.contains(".route") || key.ends_with(".path.link");
            let is_known = |problem: &Diagnostic| {
                known.iter().any(|key| {
                    key.strip_prefix(&problem.key)
                        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
                })
            };
            let is_new =
                |problem: &Diagnostic| !(is_known(problem) || unread && names_link(&problem.key));
            problems.extend(check(&scenario).into_iter().filter(is_new));
            if problems.is_empty() {
                return Ok(scenario);
            }
        }
        drop_misspelled(&mut problems);
        // Those in the file by position, then those of overrides.
        problems.sort_by_key(|problem| (problem.line.is_none(), problem.line, problem.column));
        Err(problems)
    }

    /// Draws the population of the sweep, if it has one, as an axis behind the others; `read`
    /// returns the text of a file of values, by its path from the scenario's folder.
    ///
    /// # Errors
    /// Values that cannot be drawn, and more runs than a sweep may have.
    pub fn populate(
        &mut self,
        read: impl Fn(&Path) -> Result<String, String>,
    ) -> Result<(), Vec<Diagnostic>> {
        let Some(sweep) = &mut self.sweep else {
            return Ok(());
        };
        let folder = Path::new(&self.document.file)
            .parent()
            .unwrap_or(Path::new(""));
        let near = |file: &Path| read(&folder.join(file));
        match draw::population(&sweep.drawn, sweep.draws, sweep.draw_seed, near) {
            Ok(None) => Ok(()),
            Ok(Some(axis)) => {
                sweep.axes.push(axis);
                let errors = check(self);
                match errors.is_empty() {
                    true => Ok(()),
                    false => Err(errors),
                }
            }
            Err((kind, origin, key, message, hint)) => {
                let document = &self.document;
                Err(vec![document.at(kind, &origin, &key, message, Some(hint))])
            }
        }
    }

    /// The errors in the points of the sweep, shown where they are written; `judge` finds errors
    /// beyond the text. Each point of each axis is tried together with the first points of the
    /// others.
    pub fn check_sweep(&self, judge: impl Fn(&Self) -> Vec<Diagnostic>) -> Vec<Diagnostic> {
        let axes = self.sweep.as_ref().map_or(&[][..], |sweep| &sweep.axes);
        let mut problems: Vec<Diagnostic> = Vec::new();
        for (varied, axis) in axes.iter().enumerate() {
            // The first points are tried together, with the first axis.
            for number in usize::from(varied > 0)..axis.points.len() {
                let values = axes.iter().enumerate().flat_map(|(n, axis)| {
                    let point = axis.points.get(if n == varied { number } else { 0 });
                    let nodes = point.map_or(&[][..], |point| &point.nodes);
                    let keys = axis.keys.iter().map(String::as_str);
                    keys.zip(nodes).map(|(key, node)| (key, node, &axis.origin))
                });
                let tried = self.document.with(values).and_then(Self::of);
                let errors = match tried {
                    Ok(scenario) => judge(&scenario),
                    Err(errors) => errors,
                };
                for problem in errors {
                    if problems.len() < limits::MAX_PROBLEMS && !problems.contains(&problem) {
                        problems.push(problem);
                    }
                }
            }
        }
        problems
    }
}

/// A misspelled required key is one mistake, not two: the misspelled key is reported.
fn drop_misspelled(problems: &mut Vec<Diagnostic>) {
    let table = |key: &str| {
        key.rsplit_once('.')
            .map_or("", |(table, _)| table)
            .to_owned()
    };
    let misspelled: Vec<(String, String)> = problems
        .iter()
        .filter(|problem| problem.kind == Kind::UnknownKey)
        .filter_map(|problem| Some((table(&problem.key), problem.hint.clone()?)))
        .collect();
    problems.retain(|problem| {
        let name = problem.key.rsplit('.').next().unwrap_or_default();
        let meant = format!("did you mean `{name}`?");
        problem.kind != Kind::MissingKey
            || !misspelled
                .iter()
                .any(|(place, hint)| *place == table(&problem.key) && hint.starts_with(&meant))
    });
}
