//! Folders of scripts, `FILE.toml`, and their traces, `FILE.txt`.

use std::path::{Path, PathBuf};
use std::{fs, io};

use paceline_recovery::Recovery;

use super::{Departure, Script, Trace, Transmission, compare, play};
use crate::Case;

/// A script and its location.
#[derive(Clone, Debug)]
pub struct Played {
    /// Its name.
    pub name: String,
    /// Its file.
    pub file: PathBuf,
    /// Its content.
    pub script: Script,
}

impl Played {
    /// The name of its case.
    pub fn id(&self) -> String {
        format!("recovery/{}", self.name)
    }

    /// The file of its trace.
    pub fn traces(&self) -> PathBuf {
        self.file.with_extension("txt")
    }

    /// The case of a script that could not be played.
    pub fn failed(&self, evidence: String) -> Case {
        self.case("fail", evidence)
    }

    fn case(&self, verdict: &'static str, evidence: String) -> Case {
        Case {
            id: self.id(),
            suite: "linux-recovery",
            controller: self.script.cc.ours(),
            verdict,
            evidence,
        }
    }
}

/// The scripts of a folder by their names.
///
/// # Errors
/// When it cannot be read or contains no script, or one is invalid.
pub fn scripts(dir: &Path) -> io::Result<Vec<Played>> {
    let entries = fs::read_dir(dir)?.map(|entry| entry.map(|entry| entry.path()));
    let mut files = entries.collect::<io::Result<Vec<_>>>()?;
    files.retain(|file| file.extension().is_some_and(|end| end == "toml"));
    files.sort();
    let wrong = |file: &Path, what: String| {
        let message = format!("{}: {what}", file.display());
        io::Error::new(io::ErrorKind::InvalidData, message)
    };
    let mut played: Vec<Played> = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).map_err(|error| wrong(&file, error.to_string()))?;
        let scripts = Script::read(&text).map_err(|error| wrong(&file, error.to_string()))?;
        for (name, script) in scripts {
            if played.iter().any(|other| other.name == name) {
                return Err(wrong(&file, format!("[{name}] is in another file too")));
            }
            played.push(Played {
                name,
                file: file.clone(),
                script,
            });
        }
    }
    if played.is_empty() {
        let message = format!("{}: no script in any *.toml", dir.display());
        return Err(io::Error::new(io::ErrorKind::NotFound, message));
    }
    Ok(played)
}

/// Plays every script of a folder to our sender, against its trace.
///
/// # Errors
/// As [`scripts`].
pub fn cases(dir: &Path) -> io::Result<Vec<Case>> {
    let scripts = scripts(dir)?;
    Ok(scripts.iter().map(replay).collect())
}

fn replay(played: &Played) -> Case {
    let file = played.traces();
    let failed = |what: String| played.failed(format!("{}: {what}", file.display()));
    let text = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) => return failed(error.to_string()),
    };
    let Some((above, trace)) = part(&text, &played.name) else {
        return failed(format!("no [{}]", played.name));
    };
    match Trace::read(trace) {
        Ok(trace) => judge(played, &trace),
        Err(line) => failed(format!("line {} is none of a trace", above + line)),
    }
}

/// The part of a file of traces below `[NAME]`, and the number of lines above it.
fn part<'a>(text: &'a str, name: &str) -> Option<(usize, &'a str)> {
    let (above, below) = text.split_once(&format!("[{name}]\n"))?;
    let trace = below.split_once("\n[").map_or(below, |(trace, _)| trace);
    Some((above.lines().count() + 1, trace))
}

/// Plays a script to our sender, with the default kind of recovery and with the kernel's, and
/// compares with the kernel's transmissions. The case is that of the default, unless the kernel's
/// kind is not as expected.
pub fn judge(played: &Played, trace: &Trace) -> Case {
    let script = &played.script;
    let (verdict, evidence) = against(script, trace, Recovery::Linux, &script.linux_differs);
    if script.sack && verdict == "fail" {
        return played.failed(format!("recovery = \"linux\": {evidence}"));
    }
    let (verdict, evidence) = against(script, trace, Recovery::RackPrr, &script.differs);
    played.case(verdict, evidence)
}

/// The verdict on one kind of recovery that differs for a `reason`, if there is one.
fn against(
    script: &Script,
    trace: &Trace,
    recovery: Recovery,
    reason: &Option<String>,
) -> (&'static str, String) {
    let ours = play(script, recovery);
    let kernel = &trace.kernel;
    match (compare(&trace.sent, &ours, script.rtt), reason) {
        (None, _) if trace.sent.is_empty() => {
            let evidence = format!("{kernel} sent nothing, nor do we: nothing was compared");
            ("fail", evidence)
        }
        (None, None) => {
            let count = trace.sent.len();
            let again = trace.sent.iter().filter(|sent| sent.nth > 1).count();
            let evidence = format!("{count} transmissions as {kernel}, {again} of them again");
            ("pass", evidence)
        }
        (None, Some(reason)) => {
            let evidence = format!("as {kernel} [expected to differ: {reason}]");
            ("fail", evidence)
        }
        (Some(departure), None) => ("fail", words(&departure, &trace.sent, &ours, kernel)),
        (Some(departure), Some(reason)) => {
            let evidence = words(&departure, &trace.sent, &ours, kernel);
            ("expected fail", format!("{evidence} [expected: {reason}]"))
        }
    }
}

/// The first difference, and the transmissions around it.
fn words(
    departure: &Departure,
    theirs: &[Transmission],
    ours: &[Transmission],
    kernel: &str,
) -> String {
    const AROUND: usize = 4;
    let around = |sent: &[Transmission]| {
        let from = departure.at.saturating_sub(AROUND);
        let shown = sent.iter().skip(from).take(2 * AROUND);
        shown.map(|s| s.to_string()).collect::<Vec<_>>().join(", ")
    };
    let one = |sent: Option<Transmission>| sent.map_or("nothing".to_owned(), |s| s.to_string());
    let [linux, own] = departure.sent;
    format!(
        "transmission {}: {kernel} sends {}, we {}\n  Linux: {}\n  ours:  {}",
        departure.at + 1,
        one(linux),
        one(own),
        around(theirs),
        around(ours),
    )
}
