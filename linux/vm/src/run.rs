//! A run in the machine.

use paceline_experiment::{Backend, Guests, Memory, Plan, Progress, RunError, Unavailable, Watch};
use paceline_record::{RecordMemory, Run};
use paceline_scenario::{Diagnostic, Scenario};
use paceline_tcp::packet::receiver;
use paceline_tcp::settings;
use paceline_units::{AckFilter, Duration, Rate};
use serde_json::json;

use crate::bbr3::Controllers;
use crate::check::check;
use crate::image::{BBR3_MODULE, Image, images};
use crate::losses;
use crate::machine::{Machine, version};
use crate::read::{Results, read};
use crate::script::{self, directions, script};
use crate::wire::{Command, REFUSES_PROGRAM, Record, Report, State};

/// Above this the guest's own work delays packets: the run is not reliable.
const MOST_BUSY: f64 = 0.6;

/// The snapshot prepared last, if it has everything that a scenario needs.
fn image(scenario: &Scenario) -> Result<Image, RunError> {
    let qemu = version()?;
    let prepare = "paceline vm prepare";
    let none = || Unavailable::new("there is no snapshot of a kernel", prepare);
    let image = images()?.into_iter().next().ok_or_else(none)?;
    image.fits(&qemu)?;
    for module in needs(scenario) {
        if !image.has(&module) {
            let kernel = &image.kernel;
            let what = match module
                .strip_prefix("tcp_")
                .filter(|_| module != BBR3_MODULE)
            {
                None => format!("Linux {kernel} in the snapshot has no {module}"),
                Some(name) => {
                    let others = image.modules.iter().filter_map(|one| match &**one {
                        BBR3_MODULE => Some("bbr3-linux"),
                        other => other.strip_prefix("tcp_"),
                    });
                    let known: Vec<&str> = ["reno", "cubic"].into_iter().chain(others).collect();
                    format!(
                        "Linux {kernel} in the snapshot has no controller {name}, but {}",
                        known.join(", ")
                    )
                }
            };
            let hint = if module == BBR3_MODULE {
                "it takes Linux 6.10 with type information in the guest, and libbpf here (sudo apt install libbpf1): \
                 paceline vm prepare --kernel FILE"
            } else {
                "prepare a kernel that has it: paceline vm prepare --kernel FILE"
            };
            return Err(Unavailable::new(what, hint).into());
        }
    }
    Ok(image)
}

/// The modules that a scenario needs in addition to those that every scenario needs.
fn needs(scenario: &Scenario) -> Vec<String> {
    let mut needed = Vec::new();
    let back = scenario.path.r#return.as_ref();
    let back = back.and_then(|back| back.queue.as_ref());
    let queues = std::iter::once(&scenario.path.queue).chain(back);
    for (number, queue) in queues.enumerate() {
        if scenario.link_keys(number).ack_filter != AckFilter::Off {
            needed.push("sch_cake".to_owned());
            continue;
        }
        for discipline in queue.early_signals.iter().chain([&queue.kind]) {
            if discipline.name != "droptail" {
                needed.push(format!("sch_{}", discipline.name));
            }
        }
    }
    if losses::any(scenario) {
        needed.extend(["cls_bpf", "sch_ingress"].map(str::to_owned));
    }
    for group in &scenario.flows {
        let name = settings::name(&group.cc.name);
        // Every kernel has Reno, and Debian's has CUBIC built in.
        if name != "reno" && name != "cubic" {
            needed.push(format!("tcp_{name}"));
        }
    }
    needed.sort();
    needed.dedup();
    needed
}

/// The virtual machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Vm;

impl Backend for Vm {
    fn check(&self, scenario: &Scenario, _: &Guests) -> Vec<Diagnostic> {
        check(scenario)
    }

    fn available(&self, scenario: &Scenario) -> Result<(), RunError> {
        image(scenario).map(drop).map_err(of_machine)
    }

    /// In virtual time, in the snapshot prepared last.
    fn run(
        &self,
        scenario: &Scenario,
        _: &Guests,
        seed: u64,
        watch: &mut Watch<'_>,
    ) -> Result<(Run, Progress), RunError> {
        let plan = plan(scenario, seed)?;
        let image = image(scenario).map_err(of_machine)?;
        let (log, mut so_far) = carry_out(&plan, &image, None, watch).map_err(of_machine)?;
        let results = read(&plan, &log);
        if results.busiest > MOST_BUSY {
            return Err(too_busy(&plan, &results));
        }
        if let Some(link) = overflow(&plan, &results) {
            return Err(RunError::Failed(format!(
                "more waited than {link}.queue.size: with ack_filter, Linux's cake would limit it in its own way; make \
                 the queue larger, or run it in the simulator"
            )));
        }
        so_far.passed = so_far.total;
        so_far.packets = results.outcome.packets_offered;
        let emulation = json!({
            "trusted": true,
            "beyond": [],
            "kernel": image.kernel,
            "qemu": image.qemu,
            "snapshot": image.hash,
            "busy_ratio": rounded(results.busy),
            "busiest_second_ratio": rounded(results.busiest),
            "tlp_count": results.outcome.tlp_count,
            "flows": flows(&plan),
        });
        let run = paceline_tcp::record(plan.info, &plan.flows, results.outcome, Vec::new());
        Ok((run.with_emulation(emulation), so_far))
    }
}

/// The plan of a scenario that the machine can run.
fn plan(scenario: &Scenario, seed: u64) -> Result<Plan<'_>, RunError> {
    let wrong = check(scenario);
    if !wrong.is_empty() {
        return Err(RunError::Scenario(wrong));
    }
    Plan::resolve(scenario, seed, "vm").map_err(RunError::Scenario)
}

/// A failure of the machine, named as one.
fn of_machine(error: RunError) -> RunError {
    match error {
        RunError::Failed(what) => RunError::Failed(format!("the machine failed: {what}")),
        other => other,
    }
}

/// The kernel's configuration of each flow.
fn flows(plan: &Plan<'_>) -> Vec<serde_json::Value> {
    let flow = |(number, flow): (u32, &paceline_experiment::FlowPlan)| {
        let cc = settings::name(&flow.group.cc.name);
        json!({ "flow": number, "kernel_cc": cc, "derived_inputs": settings::derived(cc) })
    };
    (0..).zip(&plan.flows).map(flow).collect()
}

fn rounded(share: f64) -> f64 {
    (share * 1e4).round() / 1e4
}

fn too_busy(plan: &Plan<'_>, results: &Results) -> RunError {
    let rate = plan.links.first().map_or(Rate::ZERO, |link| link.rate);
    let fits = (rate.bps() as f64 * MOST_BUSY / results.busiest / 1e6).floor();
    RunError::Failed(format!(
        "the guest's processor was {:.0} % busy in its busiest second, and {:.0} % is allowed: its own work would \
         delay packets; about {fits} Mbit/s would fit",
        100.0 * results.busiest,
        100.0 * MOST_BUSY
    ))
}

/// The direction with an ACK filter in which more waited than its queue has room for.
fn overflow(plan: &Plan<'_>, results: &Results) -> Option<&'static str> {
    let mut ways = ["path", "path.return"].into_iter().zip(directions(plan));
    let (at, _) = ways.find(|(_, (link, _))| {
        let queue = script::queue(plan, *link);
        let mut rows = results.outcome.queues.iter();
        queue.filters()
            && rows.any(|row| {
                row.link as usize == *link
                    && queue.is_exceeded_by(row.backlog_packets, row.backlog_bytes)
            })
    })?;
    Some(at)
}

/// The controllers whose calls can be recorded, and how the names of their functions begin.
const TRACED: [(&str, &str); 4] = [
    ("bbr", "bbr_"),
    ("cubic", "cubictcp_"),
    ("dctcp", "dctcp_"),
    ("reno", "tcp_"),
];

/// The calls of a kernel's controller in a run.
#[derive(Clone, Debug)]
pub struct Traced {
    /// The kernel's release.
    pub kernel: String,
    /// The kernel's name of the controller.
    pub controller: String,
    /// The address of the flow's receiver, as the calls show it.
    pub receiver: u32,
    /// `struct call` of `linux/kernel/stock.h`, of all flows, in order.
    pub calls: Vec<u8>,
}

/// Runs a scenario as [`Vm`] does, and records the calls of the first flow's controller.
///
/// # Errors
/// See [`RunError`].
pub fn trace(scenario: &Scenario, seed: u64, watch: &mut Watch<'_>) -> Result<Traced, RunError> {
    let plan = plan(scenario, seed)?;
    let first = plan.flows.first();
    let controller = first.map_or("", |flow| settings::name(&flow.group.cc.name));
    let Some((_, functions)) = TRACED.iter().find(|(name, _)| *name == controller) else {
        let names = TRACED.map(|(name, _)| name).join(", ");
        let what = format!("the kernel's {controller} cannot be recorded");
        let hint = format!("give the first flow one of {names}");
        return Err(Unavailable::new(what, hint).into());
    };
    let image = image(scenario).map_err(of_machine)?;
    if !image.has(BBR3_MODULE) {
        let what = format!(
            "the snapshot of Linux {} cannot record controllers",
            image.kernel
        );
        return Err(Unavailable::new(what, RECORDING).into());
    }
    let (log, _) = carry_out(&plan, &image, Some(functions), watch).map_err(of_machine)?;
    let mut calls = Vec::new();
    let mut rest = log.as_slice();
    while let Some(record) = Record::take(&mut rest) {
        if Report::of(record.kind) == Some(Report::Call) {
            calls.extend(record.body);
        }
    }
    Ok(Traced {
        kernel: image.kernel,
        controller: controller.to_owned(),
        receiver: u32::from_le_bytes(receiver(0).octets()),
        calls,
    })
}

/// What a snapshot needs to record controllers.
const RECORDING: &str = "it takes Linux 6.10 with type information of the kernel and its modules \
    (CONFIG_DEBUG_INFO_BTF) and function tracing, and libbpf here (sudo apt install libbpf1): \
    paceline vm prepare --kernel FILE";

/// Runs a plan in the guest, and returns its report. Calls of the kernel's functions whose names
/// begin with `traced` are recorded.
fn carry_out(
    plan: &Plan<'_>,
    image: &Image,
    traced: Option<&str>,
    watch: &mut Watch<'_>,
) -> Result<(Vec<u8>, Progress), RunError> {
    let controllers = Controllers::of(plan.scenario).map_err(RunError::Scenario)?;
    let script = script(plan, &controllers, traced);
    let mut so_far = Progress {
        total: plan.info.duration,
        ..Progress::default()
    };
    let mut machine = Machine::restore(&image.snapshot()?)?;
    machine.hand(&script)?;
    let fixed = plan.fixed_memory();
    let mut log = Vec::new();
    loop {
        machine.go_on()?;
        let mut on_progress = |passed| {
            so_far.passed = Duration::from_nanos(passed).min(so_far.total);
            so_far.memory = memory(fixed, log.len() as u64);
            watch.check(&so_far, None)
        };
        let state = machine.until_stopped(&mut on_progress)?;
        machine.take(script.len(), &mut log)?;
        match state {
            State::Full => {}
            State::Done => return Ok((log, so_far)),
            State::Ready | State::Failed => return Err(failure(plan, &script, &log, &machine)),
        }
    }
}

/// The memory of a run when the guest's log has this many bytes.
fn memory(fixed: u64, log_bytes: u64) -> Memory {
    // The log, the rows that are read from it, and the columns.
    const COPIES: u64 = 3;
    let record = RecordMemory {
        samples: log_bytes.saturating_mul(COPIES),
        ..RecordMemory::default()
    };
    Memory {
        record,
        in_flight: 0,
        fixed,
    }
}

/// Why the guest gave up.
fn failure(plan: &Plan<'_>, script: &[u8], log: &[u8], machine: &Machine) -> RunError {
    let Some((place, code)) = read(plan, log).failed_command else {
        return machine.failed("the guest gave up");
    };
    let mut rest = script;
    let records = std::iter::from_fn(|| Record::take(&mut rest));
    let mut commands = records.map(|record| Command::of(record.kind));
    let command = commands.nth(place as usize).flatten();
    match (command, code) {
        (Some(Command::Trace), REFUSES_PROGRAM) => machine.failed(&format!(
            "the guest's kernel refuses the recorder; {RECORDING}"
        )),
        (Some(Command::Controller), REFUSES_PROGRAM) => {
            machine.failed("the guest's kernel refuses BBRv3 with these options")
        }
        _ => machine.failed(&format!("the guest's kernel refuses request {place}")),
    }
}
