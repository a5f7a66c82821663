//! Nanoseconds per acknowledgment of two packets, with the two sends after it: called directly,
//! through C's table, and as a plug-in, in turn. Prints a table; asserts nothing.

#[path = "../../../crates/congestion/tests/pipe/mod.rs"]
mod pipe;

use std::ffi::c_void;
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::time::Instant;

use paceline_capi::paceline_controller_get;
use paceline_capi::types::*;
use paceline_congestion::{Ack, AnyController, Controller, Sent, Signals, build, controllers};
use paceline_plugin::{Foreign, Library};
use paceline_units::{Bytes, Instant as Time};
use pipe::{Pipe, config};

const ACKS: usize = 20_000;
const ROUNDS: usize = 60;

/// The events of a full pipe of 100 packets, for its controller.
#[derive(Default)]
struct Recorder {
    sent: Vec<Sent>,
    acks: Vec<Ack>,
}

impl Controller for Recorder {
    fn on_send(&mut self, sent: &Sent) {
        self.sent.push(*sent);
    }
    fn on_ack(&mut self, ack: &Ack) {
        self.acks.push(*ack);
    }
    fn on_recovery_enter(&mut self, _: Time, _: Bytes) {}
    fn on_timeout(&mut self, _: Time, _: Bytes) {}
    fn cwnd(&self) -> Bytes {
        Bytes::ZERO
    }
    fn send_quantum(&self) -> Bytes {
        Bytes::ZERO
    }
    fn phase(&self) -> &'static str {
        ""
    }
}

/// The same events for both, from the first ACK on.
struct Events {
    ours: Vec<(Ack, [Sent; 2])>,
    theirs: Vec<(paceline_ack, [paceline_sent; 2])>,
}

fn record() -> Events {
    let mut pipe = Pipe::with(Recorder::default(), 100);
    for _ in 0..ACKS {
        pipe.step(2);
    }
    let recorder = pipe.controller();
    let first = recorder.sent.len() - 2 * ACKS;
    let sends = recorder.sent[first..].chunks_exact(2);
    let ours: Vec<_> = recorder
        .acks
        .iter()
        .zip(sends)
        .map(|(ack, sent)| (*ack, [sent[0], sent[1]]))
        .collect();
    let theirs = ours
        .iter()
        .map(|(ack, [a, b])| (ack.into(), [a.into(), b.into()]))
        .collect();
    Events { ours, theirs }
}

fn nanos(round: impl FnOnce()) -> f64 {
    let start = Instant::now();
    round();
    start.elapsed().as_nanos() as f64 / ACKS as f64
}

fn directly(events: &Events, controller: &mut impl Controller) -> f64 {
    nanos(|| {
        for (ack, sent) in &events.ours {
            controller.on_ack(ack);
            black_box(controller.outputs());
            for sent in sent {
                controller.on_send(sent);
            }
        }
    })
}

fn by_table(events: &Events, table: &paceline_controller, state: *mut c_void) -> f64 {
    let (Some(on_ack), Some(on_send), Some(outputs)) = (table.on_ack, table.on_send, table.outputs)
    else {
        unreachable!("ours has them");
    };
    let mut out = paceline_outputs::default();
    nanos(|| {
        for (ack, sent) in &events.theirs {
            // SAFETY: `init` made the state; the events live on.
            unsafe {
                on_ack(state, ack);
                outputs(state, &raw mut out);
                black_box(&mut out);
                for sent in sent {
                    on_send(state, sent);
                }
            }
        }
    })
}

fn main() {
    let events = record();
    // SAFETY: it is ours.
    let library = unsafe { Library::of(paceline_controller_get) }.expect("ours");
    println!(
        "ns per ACK of two packets and two sends: least of {ROUNDS} rounds of {ACKS} ACKs, in turn"
    );
    println!(
        "{:<12} {:>8} {:>8} {:>8}",
        "", "direct", "from C", "plug-in"
    );
    for (index, spec) in controllers().iter().enumerate() {
        let mut table = MaybeUninit::<paceline_controller>::uninit();
        let mut state = MaybeUninit::<AnyController>::uninit();
        // SAFETY: there is room for a table, and for a state of any of ours.
        let table = unsafe {
            paceline_controller_get(index, table.as_mut_ptr(), size_of::<paceline_controller>());
            table.assume_init()
        };
        let least = |round: &mut dyn FnMut() -> f64, best: &mut f64| *best = best.min(round());
        let (mut direct, mut c, mut plugin) = (f64::MAX, f64::MAX, f64::MAX);
        for _ in 0..ROUNDS {
            let mut ours = build(spec.name, &config(), &[]).expect("its defaults");
            least(&mut || directly(&events, &mut ours), &mut direct);
            let given = paceline_config::of(&config(), Signals::ALL);
            let state = state.as_mut_ptr().cast();
            // SAFETY: as above.
            unsafe {
                let init = table.init.expect("ours has it");
                init(
                    &raw const table,
                    state,
                    &raw const given,
                    std::ptr::null(),
                    0,
                    std::ptr::null_mut(),
                    0,
                );
            }
            least(&mut || by_table(&events, &table, state), &mut c);
            let foreign = library.find(spec.name).expect("it is there");
            let mut foreign =
                Foreign::build(foreign, &config(), Signals::ALL, &[]).expect("its defaults");
            least(&mut || directly(&events, &mut foreign), &mut plugin);
        }
        println!(
            "{:<12} {direct:>8.1} {:>+8.1} {:>+8.1}",
            spec.name,
            c - direct,
            plugin - direct
        );
    }
}
