//! A transport of one's own in Rust, behind the table: what is wrong with it is the error of its run.

use std::ffi::c_void;
use std::sync::Arc;

use paceline_capi::stack::{paceline_batch, paceline_stack, paceline_stats};
use paceline_capi::types::PACELINE_OK;
use paceline_capi::{OwnStack, get_stack};
use paceline_endpoint::{Batch, Datagram, Ecn, Endpoint, Stats, Write};
use paceline_experiment::{Guests, Watch};
use paceline_plugin::{End, EndConfig, Transport};
use paceline_simulator::{Stack, Stacks, run_with};
use paceline_units::{Duration, Instant, Rate};

/// It sends a datagram every 10 ms, and after half a second does what its controller's name says.
struct Guest {
    sends: bool,
    what: String,
    next: Instant,
    due: Instant,
    delivered: u64,
}

impl OwnStack for Guest {
    const NAME: &'static str = "guest";
    const SUMMARY: &'static str = "A datagram every 10 ms";
    const VERSION: &'static str = "7";
    const CONTROLLERS: &'static str = "well,panics,fails,stays,overflows,refuses";

    fn new(config: &EndConfig<'_>, options: &[(&str, &str)]) -> Result<Self, String> {
        if config.controller == "refuses" || !options.is_empty() {
            return Err(format!("it refuses {options:?}"));
        }
        Ok(Self {
            sends: config.sends,
            what: config.controller.to_owned(),
            next: config.now,
            due: config.now + Duration::from_millis(500),
            delivered: 0,
        })
    }
}

impl Endpoint for Guest {
    type Payload = Vec<u8>;

    fn receive(&mut self, _now: Instant, datagram: Datagram<Vec<u8>>) {
        assert_eq!(datagram.payload, [3; 1000]);
        self.delivered += 1000;
    }

    fn on_timer(&mut self, now: Instant) {
        assert!(self.what != "panics" || now < self.due, "at its worst");
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Batch<Vec<u8>>> {
        if !self.sends || now < self.next {
            return None;
        }
        if self.what == "overflows" && now >= self.due {
            return Some(Batch::single(1 << 20, vec![3; 1 << 20], Ecn::NotEct));
        }
        self.next = now + Duration::from_millis(10);
        Some(Batch::single(1000, vec![3; 1000], Ecn::NotEct))
    }

    fn next_timer(&mut self) -> Option<Instant> {
        let stays = self.what == "stays" && self.next > self.due;
        self.sends
            .then_some(if stays { Instant::ZERO } else { self.next })
    }

    fn write(&mut self, _now: Instant, _write: Write) {}

    fn delivered(&self) -> u64 {
        self.delivered
    }

    fn stats(&self) -> Stats {
        Stats {
            phase: "Lost on the way",
            sent_packets: 9,
            ..Stats::default()
        }
    }

    fn failure(&self) -> Option<String> {
        (self.what == "fails" && self.next > self.due).then(|| "it\nhas had enough".to_owned())
    }
}

unsafe extern "C" fn get(index: usize, out: *mut paceline_stack, size: usize) -> u32 {
    // SAFETY: as this function is called.
    unsafe { get_stack::<Guest>(index, out, size) }
}

fn guest() -> Arc<Transport> {
    // SAFETY: it keeps the contract of the header.
    let transports = unsafe { Transport::of(get) }.expect("a table");
    transports.into_iter().next().expect("its only one")
}

fn config(sends: bool, controller: &str) -> EndConfig<'_> {
    EndConfig {
        sends,
        max_datagram: 1448,
        seed: 1,
        now: Instant::ZERO,
        controller,
    }
}

/// Its throughput over one second in bytes per second, or its error.
fn run(controller: &'static str) -> Result<f64, String> {
    let text = "schema = 1\nrun.duration = \"1 s\"\n[path]\nrate = \"10 Mbit/s\"\nrtt = \"20 ms\"\nqueue.size = \"1 bdp\"\n[[flows]]\ncc = \"reno\"\n";
    let scenario = paceline_experiment::parse(text, "test.toml", &[]).expect("a scenario");
    let transport = guest();
    let stack = Stack::new(move |_| {
        let end = |sends| End::build(&transport, &config(sends, controller), &[]);
        (end(true).expect("an end"), end(false).expect("an end"))
    });
    let stacks = Stacks::none().with(0, stack);
    let done = run_with(&scenario, 1, &Guests::none(), &stacks, &mut Watch::none());
    let (run, _) = done.map_err(|error| error.to_string())?;
    Ok(run.metric("goodput_bps").expect("one flow") / 8.0)
}

#[test]
fn a_transport_in_rust_is_one_behind_the_table() {
    let guest = guest();
    assert_eq!((guest.name, guest.version), ("guest", "7"));
    assert_eq!(guest.controllers.len(), 6);
    let mut end = End::build(&guest, &config(true, "well"), &[]).expect("an end");
    let batch = end.poll_transmit(Instant::ZERO).expect("a datagram");
    let datagram = batch.datagrams().next().expect("its only one");
    end.receive(Instant::ZERO, datagram);
    let next = Instant::ZERO + Duration::from_millis(10);
    assert_eq!((end.delivered(), end.next_timer()), (1000, Some(next)));
    assert_eq!((end.stats().sent_packets, end.failure()), (9, None));
    // It mistakes another datagram for its own: it panics, and reports nothing more.
    end.receive(
        Instant::ZERO,
        Datagram {
            payload: vec![4],
            size: 1,
            ecn: None,
        },
    );
    let failure = end.failure().expect("it panicked");
    assert!(failure.starts_with("it panicked: assertion"), "{failure}");
    assert_eq!((end.next_timer(), end.delivered()), (None, 0));
}

#[test]
fn a_controller_that_it_does_not_have_is_refused() {
    let error_of = |sends, controller, options: &[(&str, &str)]| {
        let built = End::build(&guest(), &config(sends, controller), options);
        built.map(drop).map_err(|error| error.to_string())
    };
    let all = Guest::CONTROLLERS;
    assert_eq!(
        error_of(true, "bbr9", &[]),
        Err(format!(
            "`guest` refused: no controller of guest is called `bbr9`; it has {all}"
        ))
    );
    // A receiver has no use for one.
    assert_eq!(error_of(false, "bbr9", &[]), Ok(()));
    assert_eq!(
        error_of(true, "refuses", &[("a", "b")]),
        Err("`guest` refused: it refuses [(\"a\", \"b\")]".to_owned())
    );
}

/// Each ends its run with an error of its own, and the next one runs.
#[test]
#[cfg_attr(miri, ignore = "Miri takes minutes for a run")]
fn a_guest_that_fails_ends_its_own_run() {
    let at = |why: &str| format!("the endpoint of flow 0 is defective: {why}, at 0.");
    for (controller, why) in [
        ("panics", "it panicked: at its worst"),
        ("fails", "it?has had enough"),
        ("stays", "it asks for a time-out that is past"),
        ("overflows", "a batch of 1048576 bytes, with room for 65535"),
    ] {
        let error = run(controller).expect_err("it fails");
        assert!(error.starts_with(&at(why)), "{error}");
    }
    let goodput = run("well").expect("nothing is wrong with it");
    assert!((97_000.0..=100_000.0).contains(&goodput), "{goodput}");
}

/// The table of before `departs_ns` and `bandwidth_bps`: its ends never write them.
unsafe extern "C" fn old(index: usize, out: *mut paceline_stack, size: usize) -> u32 {
    // SAFETY: as this function is called.
    unsafe {
        let status = get_stack::<Guest>(index, out, size);
        if status == PACELINE_OK {
            (*out).abi_version = 1;
        }
        status
    }
}

/// Each of its datagrams departs 3 ms after it gives it, and its controller assumes 8 Mbit/s.
unsafe extern "C" fn later(index: usize, out: *mut paceline_stack, size: usize) -> u32 {
    unsafe extern "C" fn poll(state: *mut c_void, now_ns: u64, batch: *mut paceline_batch) -> u32 {
        // SAFETY: as this function is called; zeros are a table without functions.
        unsafe {
            let mut table: paceline_stack = std::mem::zeroed();
            get_stack::<Guest>(0, &raw mut table, size_of::<paceline_stack>());
            let given = table.poll_transmit.expect("a function");
            let status = given(state, now_ns, batch);
            (*batch).departs_ns = now_ns + 3_000_000;
            status
        }
    }
    unsafe extern "C" fn stats(_: *const c_void, out: *mut paceline_stats) {
        // SAFETY: as this function is called.
        unsafe { (*out).bandwidth_bps = 8_000_000 }
    }
    // SAFETY: as this function is called.
    unsafe {
        let status = get_stack::<Guest>(index, out, size);
        if status == PACELINE_OK {
            (*out).poll_transmit = Some(poll);
            (*out).stats = Some(stats);
        }
        status
    }
}

#[test]
fn a_table_of_the_first_version_is_taken_and_sends_at_once() {
    // SAFETY: it keeps the contract of the header.
    let transports = unsafe { Transport::of(old) }.expect("a table");
    let mut end = End::build(&transports[0], &config(true, "well"), &[]).expect("an end");
    assert!(end.poll_transmit(Instant::ZERO).is_some());
    assert_eq!(end.stats().bandwidth, None);
}

#[test]
fn datagrams_leave_at_their_departure_and_not_before() {
    // SAFETY: it keeps the contract of the header.
    let transports = unsafe { Transport::of(later) }.expect("a table");
    let mut end = End::build(&transports[0], &config(true, "well"), &[]).expect("an end");
    let at = |millis| Instant::ZERO + Duration::from_millis(millis);
    assert_eq!(end.poll_transmit(at(0)), None);
    // Its own timer is at 10 ms.
    assert_eq!(end.next_timer(), Some(at(3)));
    end.on_timer(at(2));
    assert_eq!(end.poll_transmit(at(2)), None);
    end.on_timer(at(3));
    assert!(end.poll_transmit(at(3)).is_some());
    assert_eq!(end.poll_transmit(at(3)), None);
    assert_eq!(end.next_timer(), Some(at(10)));
    // At 10 ms it gives the next one, and a timer of its own that is due waits for its departure.
    assert_eq!(end.poll_transmit(at(10)), None);
    assert_eq!(end.next_timer(), Some(at(13)));
    assert_eq!(end.stats().bandwidth, Some(Rate::from_bps(8_000_000)));
}
