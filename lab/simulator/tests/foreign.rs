//! Flows of transports other than our own.

use paceline_congestion::{AnyController, Config};
use paceline_endpoint::{Amount, Batch, Datagram, Ecn, Endpoint, Stats, Write};
use paceline_experiment::{Guests, RunError, Watch};
use paceline_record::Run;
use paceline_recovery::{ReceiverConfig, ReceiverEnd, Sender, SenderConfig};
use paceline_simulator::{Stack, Stacks, run_with};
use paceline_units::{Bytes, Duration, Instant};

fn run(text: &str, stacks: &Stacks) -> Result<Run, RunError> {
    let scenario = paceline_experiment::parse(text, "test.toml", &[]).expect("a scenario");
    let done = run_with(&scenario, 7, &Guests::none(), stacks, &mut Watch::none());
    done.map(|(run, _)| run)
}

/// The time of the SYN exchange: 52 bytes at 10 Mbit/s, and the round trip.
const HANDSHAKE: Duration = Duration::from_nanos(40_041_600);

/// Our own ends, through the endpoint interface.
fn ours() -> Stack {
    Stack::new(|setup| {
        let config = SenderConfig {
            mss: setup.max_datagram,
            initial_window: Bytes::new(10 * u64::from(setup.max_datagram)),
            ..SenderConfig::default()
        };
        let recipe = setup.controller.recipe().expect("one of ours");
        let controller: AnyController = recipe.build(&Config {
            mss: config.mss,
            initial_window: config.initial_window,
            seed: setup.seed,
            now: setup.now,
            srtt: Some(HANDSHAKE),
            has_selective_acks: true,
        });
        let sender = Sender::new(config, controller, setup.now, Some(HANDSHAKE));
        (sender, ReceiverEnd::new(ReceiverConfig::default()))
    })
}

fn scenario(cc: &str, start: &str, path: &str) -> String {
    format!(
        "schema = 1\nrun.duration = \"10 s\"\n[path]\nrate = \"10 Mbit/s\"\nrtt = \"40 ms\"\n{path}\n[[flows]]\ncc = \"{cc}\"\nstart = \"{start}\"\n"
    )
}

/// All measurements of the flow and of the queue from the handshake on.
fn shown(run: &Run) -> Vec<String> {
    let rows = |table: &str, columns: &[&str], skip: usize| {
        let table = run.table(table).expect("a table");
        let column = |name: &&str| {
            let column = table.column_by_name(name).expect("a column");
            format!("{name} {:?}", column.slice(skip, column.len() - skip))
        };
        columns.iter().map(column).collect::<Vec<_>>()
    };
    let mut shown = rows(
        "samples",
        &[
            "t_ns",
            "goodput_bytes",
            "sent_packets",
            "lost_packets",
            "srtt_ns",
            "cwnd_bytes",
        ],
        0,
    );
    shown.extend(rows("queue", &["backlog_bytes", "dropped_packets"], 10));
    shown
}

/// Driven through the interface, by datagrams whose payload the engine does not see, our own
/// transport behaves exactly as when the engine knows it: to the byte.
#[test]
fn our_ends_behind_the_contract_do_the_same() {
    for cc in ["cubic", "bbr3"] {
        // No random draws: the native flow's SYN would use the first.
        for path in ["queue.size = \"1 bdp\"", "queue.size = \"0.3 bdp\""] {
            let native = run(&scenario(cc, "0 s", path), &Stacks::none()).expect("a run");
            let text = scenario(cc, "40.0416 ms", path);
            let foreign = run(&text, &Stacks::none().with(0, ours())).expect("a run");
            let (native, foreign) = (shown(&native), shown(&foreign));
            for (native, foreign) in native.iter().zip(&foreign) {
                assert_eq!(native, foreign, "{cc} over {path}");
            }
        }
    }
}

/// The defects of an end.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// It always has something to send.
    Sends,
    /// It always wants to be woken now.
    Wakes,
    /// It wants to be woken in the past.
    Past,
}

struct Faulty(Fault, Instant);

impl Endpoint for Faulty {
    type Payload = Vec<u8>;

    fn receive(&mut self, _now: Instant, _datagram: Datagram<Vec<u8>>) {}

    fn on_timer(&mut self, _now: Instant) {}

    fn poll_transmit(&mut self, now: Instant) -> Option<Batch<Vec<u8>>> {
        self.1 = now;
        matches!(self.0, Fault::Sends).then(|| Batch::single(1, vec![0], Ecn::NotEct))
    }

    fn next_timer(&mut self) -> Option<Instant> {
        match self.0 {
            Fault::Sends => None,
            Fault::Wakes => Some(self.1),
            Fault::Past => Some(Instant::from_nanos(self.1.as_nanos() - 1)),
        }
    }

    fn write(&mut self, _now: Instant, write: Write) {
        assert_eq!(write.amount, Amount::Unlimited);
    }

    fn delivered(&self) -> u64 {
        0
    }

    fn stats(&self) -> Stats {
        Stats::default()
    }
}

/// A defective end is reported as an error with the flow and the defect, instead of a run that
/// never ends.
#[test]
fn a_defective_end_is_an_error_of_the_run() {
    for (fault, what) in [
        (Fault::Sends, "sends without end"),
        (Fault::Wakes, "woken without end"),
        (Fault::Past, "that is past"),
    ] {
        let make = move |_: &paceline_simulator::Setup<'_>| {
            (Faulty(fault, Instant::ZERO), Faulty(fault, Instant::ZERO))
        };
        let text = scenario("reno", "1 s", "queue.size = \"1 bdp\"");
        let Err(error) = run(&text, &Stacks::none().with(0, Stack::new(make))) else {
            panic!("no error from an end that is defective: {fault:?}");
        };
        let message = error.to_string();
        assert!(
            message.contains(what) && message.contains("flow 0"),
            "{message}"
        );
        // What was measured is kept, and says why it ends.
        let RunError::Broken { run, .. } = error else {
            panic!("no record: {message}");
        };
        assert_eq!(run.info().incomplete.as_deref(), Some(&*message));
        assert_eq!(run.flows().len(), 1);
    }
}
