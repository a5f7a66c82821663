//! A scenario's choice of controllers, checked against the registry: for engines that run ours.

use std::collections::BTreeMap;
use std::sync::Arc;

use paceline_congestion::options::{OptionInfo, OptionKind, OptionValue};
use paceline_congestion::{BuildError, Recipe, controllers, recipe};
use paceline_scenario::{ControllerChoice, Diagnostic, FlowGroup, OptionInput, Scenario, When};
use paceline_units::options::Choice as _;
use paceline_units::{Bytes, Duration, Gain, StackName};

use crate::check::{list, nearest};
use crate::guest::{Choice, GuestFlow, GuestStack, Guests};
use crate::sender::sender_config;
use crate::stack::{self, controllers as controllers_of};

/// An error in a choice of controller: the key below `cc` (empty for the name itself), the error,
/// and what to write instead.
#[derive(Debug, PartialEq, Eq)]
struct Wrong {
    key: String,
    message: String,
    hint: Option<String>,
}

/// The controllers of a scenario's flows, group by group, each checked against its transport.
///
/// # Errors
/// All errors in their names and options, including those for comparison, and in the states that
/// events wait for.
pub fn choices(scenario: &Scenario, guests: &Guests) -> Result<Vec<Choice>, Vec<Diagnostic>> {
    let mut wrong = Vec::new();
    let mut choose = |choice: &ControllerChoice, key: String, groups: &[FlowGroup]| {
        let report = |error| wrong.push(error_at(scenario, key, error));
        let chosen = groups.iter().map(|group| fitting(choice, group, guests));
        let chosen: Result<Vec<Choice>, Wrong> = chosen.collect();
        let chosen = chosen.map_err(report).ok();
        chosen.and_then(|chosen| chosen.into_iter().next())
    };
    let groups = scenario.flows.iter().enumerate();
    let choices: Vec<Option<Choice>> = groups
        .map(|(index, group)| {
            let group = std::slice::from_ref(group);
            choose(&group[0].cc, format!("flows[{index}].cc"), group)
        })
        .collect();
    for (index, name) in scenario.run.compare.iter().enumerate() {
        let choice = ControllerChoice {
            name: name.clone(),
            options: BTreeMap::new(),
        };
        choose(&choice, format!("run.compare[{index}]"), &scenario.flows);
    }
    check_bursts(scenario, &choices, &mut wrong);
    check_triggers(scenario, &choices, &mut wrong);
    match wrong.is_empty() {
        true => Ok(choices.into_iter().flatten().collect()),
        false => Err(wrong),
    }
}

/// The controllers of those groups that run a QUIC stack, for an engine that leaves all others to a
/// kernel.
///
/// # Errors
/// As [`choices`].
pub fn stack_choices(
    scenario: &Scenario,
    guests: &Guests,
) -> Result<Vec<Option<Choice>>, Vec<Diagnostic>> {
    let mut wrong = Vec::new();
    let groups = scenario.flows.iter().enumerate();
    let choices = groups.map(|(index, group)| {
        let chosen = group.is_quic().then(|| fitting(&group.cc, group, guests))?;
        let report = |error| wrong.push(error_at(scenario, format!("flows[{index}].cc"), error));
        chosen.map_err(report).ok()
    });
    let choices = choices.collect();
    match wrong.is_empty() {
        true => Ok(choices),
        false => Err(wrong),
    }
}

/// The values of a group's controller's options, for an engine that runs another implementation of
/// it.
///
/// # Errors
/// The error in its options.
pub fn parameters(
    scenario: &Scenario,
    group: usize,
) -> Result<Vec<(&'static str, OptionValue)>, Vec<Diagnostic>> {
    let recipe = ours(&scenario.flows[group].cc, &Guests::default());
    let key = || format!("flows[{group}].cc");
    let recipe = recipe.map_err(|error| vec![error_at(scenario, key(), error)])?;
    let mut values = Vec::new();
    recipe.visit_options(&mut |name, value| values.push((name, value)));
    Ok(values)
}

/// The error in the choice at `key`.
fn error_at(scenario: &Scenario, key: String, error: Wrong) -> Diagnostic {
    let key = match error.key.as_str() {
        "" => key,
        option => format!("{key}.{option}"),
    };
    scenario.diagnostic(&key, error.message, error.hint)
}

/// Only a paced controller has bursts: without pacing, data leaves when the window has room.
fn check_bursts(scenario: &Scenario, choices: &[Option<Choice>], wrong: &mut Vec<Diagnostic>) {
    for (index, (group, choice)) in scenario.flows.iter().zip(choices).enumerate() {
        let Some(Choice::Ours(recipe)) = choice else {
            continue;
        };
        if group.max_burst.is_some() && !recipe.needs().pacing {
            let message = format!(
                "`flows[{index}].max_burst` limits bursts of paced data, and `{}` does not pace",
                group.cc.name
            );
            let paces = crate::parameters(scenario, index)
                .is_ok_and(|options| options.iter().any(|(option, _)| *option == "pacing"));
            let hint = match paces {
                true => format!(
                    "cc = {{ name = \"{}\", pacing = true }}, or leave it out",
                    group.cc.name
                ),
                false => "leave it out".to_owned(),
            };
            wrong.push(scenario.diagnostic(
                &format!("flows[{index}].max_burst"),
                message,
                Some(hint),
            ));
        }
    }
}

/// Events may only wait for states that their flow's controller has.
fn check_triggers(scenario: &Scenario, choices: &[Option<Choice>], wrong: &mut Vec<Diagnostic>) {
    let groups: Vec<(&FlowGroup, &Option<Choice>)> = (scenario.flows.iter().zip(choices))
        .flat_map(|group| std::iter::repeat_n(group, group.0.count as usize))
        .collect();
    for (index, event) in scenario.events.iter().enumerate() {
        let When::Enters { flow, state, .. } = &event.when else {
            continue;
        };
        // An unknown controller is reported above; a comparison has several.
        let (name, choice) = match groups.get(*flow as usize) {
            Some((group, Some(choice))) if scenario.run.compare.is_empty() => {
                (&group.cc.name, choice)
            }
            _ => continue,
        };
        let phases = match choice {
            // It reports a state when it is in it, and does not say which there are.
            Choice::GuestFlow(_, flow) if flow.reports_states() => continue,
            Choice::Theirs(_) | Choice::GuestFlow(..) => {
                let message = format!("`{name}` does not report its states");
                let hint = Some("give a time: when = \"10 s\"".to_owned());
                wrong.push(scenario.diagnostic(&format!("events[{index}].when"), message, hint));
                continue;
            }
            Choice::Guest(_, guest) => guest.phases(),
            Choice::Ours(recipe) => {
                let spec = controllers().iter().find(|spec| spec.name == recipe.name());
                spec.map_or(&[][..], |spec| spec.phases)
            }
        };
        if !phases.contains(&state.as_str()) {
            let hint = nearest(state, phases.iter().copied());
            wrong.push(scenario.diagnostic(
                &format!("events[{index}].when.enters"),
                format!("`{name}` has no state `{state}`; it has {}", list(phases)),
                hint,
            ));
        }
    }
}

/// Checks a choice for a group: a built-in one whose signals its transport provides, one of the
/// stack's own, or a guest.
fn fitting(choice: &ControllerChoice, group: &FlowGroup, guests: &Guests) -> Result<Choice, Wrong> {
    if let Some((stack, name)) = choice.name.split_once(':') {
        return match guests.find_stack(stack) {
            Some(guest) => of_guest(choice, guest, name),
            None => theirs(choice, group.stack_of(&choice.name), stack, name, guests),
        };
    }
    if group.stack == StackName::Guest {
        // The stack's first controller.
        if let Some(guest) = guests.find_stack(&choice.name) {
            let first = guest.controllers().first();
            return of_guest(choice, guest, first.copied().unwrap_or_default());
        }
        return Err(Wrong {
            key: String::new(),
            message: format!("`{}` names no stack", choice.name),
            hint: Some("as NAME:CONTROLLER; `--controller NAME=FILE` brings the stack".to_owned()),
        });
    }
    let chosen = choose(choice, guests)?;
    let Choice::Ours(recipe) = &chosen else {
        if group.is_quic() {
            return Err(Wrong {
                key: String::new(),
                message: format!(
                    "a controller of your own does not run on {}",
                    group.stack.word()
                ),
                hint: Some("leave out `stack`".to_owned()),
            });
        }
        // It states its requirements on the transport when it is created.
        return Ok(chosen);
    };
    let signals = match group.is_quic() {
        false => sender_config(group, 1).signals(),
        true => stack::signals(group.stack).ok_or_else(|| no_stack(group.stack))?,
    };
    recipe.check(signals).map_err(|unmet| Wrong {
        key: String::new(),
        message: unmet.to_string(),
        hint: (unmet.missing.mark_counts && !group.is_quic())
            .then(|| "choose an `ecn` that counts marks, such as \"accurate\"".to_owned()),
    })?;
    Ok(chosen)
}

/// Without QUIC stacks, as in a browser.
fn no_stack(stack: StackName) -> Wrong {
    Wrong {
        key: String::new(),
        message: format!(
            "flows of {} do not run here: this build has no QUIC stacks",
            stack.word()
        ),
        hint: Some("leave out `stack`, or run it on the command line".to_owned()),
    }
}

/// Checks the choice of a stack's own controller, written `stack:name`.
fn theirs(
    choice: &ControllerChoice,
    runs: StackName,
    stack: &str,
    name: &str,
    guests: &Guests,
) -> Result<Choice, Wrong> {
    let wrong = |key: &str, message: String, hint: Option<String>| Wrong {
        key: key.to_owned(),
        message,
        hint,
    };
    if matches!(runs, StackName::Quinn | StackName::Noq) && stack::signals(runs).is_none() {
        return Err(no_stack(runs));
    }
    let known = controllers_of(runs);
    if stack != runs.word() || known.is_empty() {
        let bring = |stack: &&StackName| !controllers_of(**stack).is_empty();
        let ours = StackName::ALL.iter().filter(bring);
        let ours = ours.map(|stack| stack.word());
        let stacks: Vec<&str> = ours.chain(guests.stacks()).collect();
        let message = match stacks.contains(&stack) {
            true => format!("a controller of {stack} runs on flows of {stack} alone"),
            false => format!("there is no stack `{stack}`; there are {}", list(&stacks)),
        };
        let hint = match stacks.contains(&stack) {
            true => Some(format!("stack = \"{stack}\"")),
            false => nearest(stack, stacks.iter().copied())
                .or_else(|| Some(format!("--controller {stack}=FILE brings one of a library"))),
        };
        return Err(wrong("", message, hint));
    }
    let Some(controller) = known.iter().find(|known| **known == name) else {
        let message = format!("{stack} has no controller `{name}`; it has {}", list(known));
        return Err(wrong("", message, nearest(name, known.iter().copied())));
    };
    match choice.options.keys().next() {
        None => Ok(Choice::Theirs(controller)),
        Some(option) => {
            let message = format!("the controllers of {stack} take no options");
            Err(wrong(option, message, Some("leave it out".to_owned())))
        }
    }
}

/// Checks the choice of a controller of a guest's transport.
fn of_guest(
    choice: &ControllerChoice,
    guest: &Arc<dyn GuestStack>,
    name: &str,
) -> Result<Choice, Wrong> {
    let known = guest.controllers();
    if !known.is_empty() && !known.contains(&name) {
        let stack = &guest.info().name;
        return Err(Wrong {
            key: String::new(),
            message: format!("{stack} has no controller `{name}`; it has {}", list(known)),
            hint: nearest(name, known.iter().copied()),
        });
    }
    match GuestFlow::new(guest, name, &choice.options) {
        Ok(flow) => Ok(Choice::GuestFlow(guest.info().clone(), flow)),
        Err(why) => Err(Wrong {
            key: String::new(),
            message: format!("`{}`: {why}", choice.name),
            hint: None,
        }),
    }
}

/// Checks a choice of controller. A guest takes precedence over a built-in one of the same name.
fn choose(choice: &ControllerChoice, guests: &Guests) -> Result<Choice, Wrong> {
    let Some(guest) = guests.find(&choice.name) else {
        return ours(choice, guests).map(Choice::Ours);
    };
    let prepared = guest.prepare(&choice.options).map_err(|error| Wrong {
        key: error.option.unwrap_or_default(),
        message: error.message,
        hint: error.hint,
    })?;
    Ok(Choice::Guest(guest.info().clone(), prepared))
}

/// Checks a choice of one of our controllers; the names of guests are for hints about misspelled
/// names.
fn ours(choice: &ControllerChoice, guests: &Guests) -> Result<Recipe, Wrong> {
    let name = choice.name.as_str();
    let Some(spec) = controllers().iter().find(|spec| spec.name == name) else {
        let own = controllers().iter().map(|spec| spec.name);
        let names: Vec<&str> = guests.names().chain(own).collect();
        let bring = || format!("--controller {name}=FILE adds your own");
        return Err(Wrong {
            key: String::new(),
            message: format!(
                "no controller is called `{name}`; there are {}",
                list(&names)
            ),
            hint: Some(nearest(name, names).unwrap_or_else(bring)),
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
                    info.kind,
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

/// The input as a value of the kind that the option takes.
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

    fn ours(choice: &ControllerChoice) -> Result<Recipe, Wrong> {
        super::ours(choice, &Guests::none())
    }

    #[test]
    fn every_controller_can_be_made() {
        for spec in controllers() {
            assert_eq!(ours(&choice(spec.name, &[])).unwrap().name(), spec.name);
        }
    }

    #[test]
    fn a_misspelled_name_gets_its_neighbour() {
        let wrong = ours(&choice("bbr33", &[])).unwrap_err();
        assert_eq!(wrong.hint.as_deref(), Some("did you mean `bbr3`?"));
        assert!(wrong.message.contains("`cubic`"));
        let wrong = ours(&choice("xyzzy", &[])).unwrap_err();
        let hint = "--controller xyzzy=FILE adds your own";
        assert_eq!(wrong.hint.as_deref(), Some(hint));
    }

    #[test]
    fn a_controller_that_would_not_hear_of_marks_is_refused() {
        let text = |cc: &str, ecn: &str, compare: &str| {
            format!(
                "schema = 1\nrun = {{ duration = \"1 s\", compare = [{compare}] }}\n[path]\nrate = \"1 Mbit/s\"\n\
                 rtt = \"40 ms\"\nqueue.size = \"1 bdp\"\n[[flows]]\ncc = \"{cc}\"\necn = \"{ecn}\"\n"
            )
        };
        let wrong = |text: &str| {
            let scenario = crate::parse(text, "test.toml", &[]).unwrap();
            choices(&scenario, &Guests::none())
                .err()
                .unwrap_or_default()
        };
        assert!(wrong(&text("dctcp", "dctcp", "\"prague\", \"reno\"")).is_empty());
        let problems = wrong(&text("reno", "classic", "\"reno\", \"dctcp\""));
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].key, "run.compare[1]");
        let problems = wrong(&text("dctcp", "classic", ""));
        assert_eq!(problems[0].key, "flows[0].cc");
        assert!(problems[0].message.contains("lacks `mark_counts`"));
        assert!(problems[0].hint.as_deref().unwrap().contains("accurate"));
    }

    #[test]
    fn options_are_read_by_their_kind() {
        let gain = OptionInput::Millionths(2_890_000);
        assert!(ours(&choice("bbr3", &[("startup_pacing_gain", gain)])).is_ok());
        let wrong = ours(&choice(
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
        let wrong = ours(&choice("bbr3", &[("startup_pacing_gain", text)])).unwrap_err();
        assert!(wrong.message.contains("a number from"), "{}", wrong.message);
    }
}
