use paceline_congestion::recipe;
use s2n_quic_core::event::testing::Publisher as Events;
use s2n_quic_core::inet::SocketAddress;
use s2n_quic_core::path::{self, mtu};
use s2n_quic_core::random::testing::Generator as Draws;
use s2n_quic_core::recovery::congestion_controller::PathPublisher;
use s2n_quic_core::time::{Clock as _, NoopClock};

use super::*;

const MSS: usize = 1200;
const RTT: u64 = 40;

/// A controller on a path of 40 ms, and the times of s2n-quic's calls in milliseconds.
struct Stack {
    adapter: Adapter,
    rtt: RttEstimator,
}

fn at(ms: u64) -> Timestamp {
    NoopClock.get_time() + std::time::Duration::from_millis(ms)
}

macro_rules! publisher {
    () => {
        &mut PathPublisher::new(&mut Events::no_snapshot(), path::Id::test_id())
    };
}

impl Stack {
    fn new(factory: Result<Factory, ControllerError>) -> Self {
        let mut factory = factory.expect("a controller");
        let config = mtu::Config::builder().build().expect("defaults");
        let address = SocketAddress::default();
        let info = PathInfo::new(&config, &address);
        let mut adapter = factory.new_congestion_controller(info);
        adapter.on_mtu_update(MSS as u16, publisher!());
        let rtt = RttEstimator::new(std::time::Duration::from_millis(RTT));
        Self { adapter, rtt }
    }

    fn named(name: &str) -> Self {
        Self::new(Factory::named(name))
    }

    fn send(&mut self, ms: u64, app_limited: bool) -> PacketState {
        self.adapter
            .on_packet_sent(at(ms), MSS, Some(app_limited), &self.rtt, publisher!())
    }

    fn sends(&mut self, ms: u64, packets: usize) -> Vec<PacketState> {
        (0..packets).map(|_| self.send(ms, false)).collect()
    }

    fn lose(&mut self, ms: u64, token: PacketState, starts: bool) {
        let draws = &mut Draws::default();
        self.adapter.on_packet_lost(
            MSS as u32,
            token,
            false,
            starts,
            draws,
            at(ms),
            publisher!(),
        );
    }

    fn mark(&mut self, ms: u64, packets: u64) {
        self.adapter
            .on_explicit_congestion(packets, at(ms), publisher!());
    }

    /// `packets` are acknowledged, the newest of which was sent at `sent`.
    fn ack(&mut self, ms: u64, sent: u64, packets: usize, newest: PacketState) {
        let draws = &mut Draws::default();
        let (rtt, bytes) = (&self.rtt, packets * MSS);
        self.adapter
            .on_ack(at(sent), bytes, newest, rtt, draws, at(ms), publisher!());
    }

    fn round_trip(&mut self, ms: u64, sent: u64) {
        self.adapter
            .on_rtt_update(at(sent), at(ms), &self.rtt, publisher!());
    }

    fn window(&self) -> u32 {
        self.adapter.congestion_window()
    }
}

#[test]
fn what_s2n_quic_does_not_tell_is_missed_by_name() {
    let error_of = |name| {
        Factory::named(name)
            .expect_err("it lacks something")
            .to_string()
    };
    assert!(error_of("prague").ends_with("lacks `ect1`"));
    assert!(error_of("ledbat").ends_with("lacks `one_way_delay`"));
    assert_eq!(error_of("bbr4"), "there is no controller of that name");
    for name in ["bbr3", "cubic", "dctcp", "swift"] {
        assert!(Factory::named(name).is_ok(), "{name}");
    }
}

/// `losses_first`: the ACK that shows a loss has it in its sample, and ends in recovery.
#[test]
fn losses_come_before_the_sample() {
    let mut stack = Stack::named("cubic");
    let tokens = stack.sends(0, 10);
    let before = stack.window();
    stack.round_trip(RTT, 0);
    stack.lose(RTT, tokens[0], true);
    assert_eq!(stack.window(), before, "more losses may follow");
    stack.ack(RTT, 0, 9, tokens[9]);
    assert!(stack.window() < before);
    assert_eq!(stack.adapter.bytes_in_flight(), 0);
    assert_eq!(stack.adapter.delivery().lost(), bytes(MSS));
}

/// A timer's losses have no ACK: they take effect at the next packet, which may exceed the window.
#[test]
fn losses_of_a_timer_take_effect_at_the_next_packet() {
    let mut stack = Stack::named("cubic");
    let tokens = stack.sends(0, 10);
    stack.ack(RTT, 0, 1, tokens[9]);
    let before = stack.window();
    stack.lose(60, tokens[0], true);
    stack.lose(60, tokens[1], false);
    stack.send(61, false);
    assert!(stack.window() < before);
    // Of one round trip, losses count once.
    let reduced = stack.window();
    stack.lose(62, tokens[2], false);
    stack.send(63, false);
    assert_eq!(stack.window(), reduced);
}

/// `loss_per_packet`: each has its own token, with what was in flight when it was sent.
#[test]
fn each_lost_packet_has_its_token() {
    let mut stack = Stack::named("bbr3");
    let tokens = stack.sends(0, 4);
    let in_flight: Vec<u64> = tokens
        .iter()
        .map(|token| token.tx_in_flight.get())
        .collect();
    assert_eq!(in_flight, [1200, 2400, 3600, 4800]);
}

/// `marks` and `mark_counts`: DCTCP's reduction is that of the share of marked packets.
#[test]
fn marks_are_counted() {
    let reduction = |marked: u64| {
        let dctcp = Factory::named("dctcp").map(|factory| factory.initial_packets(100_000));
        let mut stack = Stack::new(dctcp);
        let mut window = 0;
        for round in 0..12 {
            let sent = round * RTT;
            let tokens = stack.sends(sent, 10);
            window = stack.window();
            stack.round_trip(sent + RTT, sent);
            stack.mark(sent + RTT, marked);
            stack.ack(sent + RTT, sent, 10, tokens[9]);
        }
        f64::from(stack.window()) / f64::from(window)
    };
    assert!(
        reduction(1) > reduction(5),
        "{} {}",
        reduction(1),
        reduction(5)
    );
}

/// A controller that does not ask for ECN takes a mark for a loss, once a round trip.
#[test]
fn a_mark_is_a_loss_to_a_controller_that_does_not_ask_for_it() {
    let mut stack = Stack::named("cubic");
    let tokens = stack.sends(0, 10);
    let before = stack.window();
    stack.mark(RTT, 1);
    stack.ack(RTT, 0, 5, tokens[4]);
    let reduced = stack.window();
    assert!(reduced < before);
    stack.mark(RTT + 1, 1);
    stack.ack(RTT + 1, 0, 5, tokens[9]);
    assert_eq!(stack.window(), reduced);
}

/// `pacing`: a burst of a quantum, and then a departure time at the controller's rate.
#[test]
fn departures_keep_to_the_rate() {
    let mut stack = Stack::named("bbr3");
    let quantum = stack.adapter.send_quantum().expect("it has one");
    assert_eq!(stack.adapter.earliest_departure_time(), None);
    stack.sends(0, quantum / MSS);
    let due = stack
        .adapter
        .earliest_departure_time()
        .expect("the burst is over");
    let rate = stack.adapter.controller().pacing_rate().expect("it paces");
    let burst = bytes(quantum / MSS * MSS);
    let off = (due - at(0)).as_micros();
    assert_eq!(off, u128::from(rate.time_for(burst).as_micros()));
    // One that does not pace waits for nothing.
    let mut stack = Stack::named("reno");
    stack.sends(0, 10);
    assert!(
        stack
            .adapter
            .earliest_departure_time()
            .is_none_or(|due| due <= at(0))
    );
}

/// `app_limited_at_send`: what follows the application's last packet says so, from when it was sent.
#[test]
fn a_token_says_whether_the_application_limited_the_flow() {
    let mut stack = Stack::named("bbr3");
    assert!(!stack.send(0, true).app_limited);
    let after = stack.send(1, false);
    assert!(after.app_limited);
    stack.ack(RTT, 1, 2, after);
    assert!(!stack.send(RTT, false).app_limited);
}

/// Keys are discarded (RFC 9002 section 6.4): their packets leave what is in flight and are neither lost nor delivered.
#[test]
fn discarded_packets_leave_what_is_in_flight() {
    let mut stack = Stack::named("cubic");
    stack.sends(0, 3);
    stack.adapter.on_packet_discarded(2 * MSS, publisher!());
    assert_eq!(stack.adapter.bytes_in_flight(), MSS as u32);
    let delivery = stack.adapter.delivery();
    assert_eq!(
        (delivery.lost(), delivery.delivered()),
        (Bytes::ZERO, Bytes::ZERO)
    );
}

/// A packet of ACKs alone counts for nothing.
#[test]
fn packets_without_data_are_not_in_flight() {
    let mut stack = Stack::named("cubic");
    let rtt = RttEstimator::new(std::time::Duration::from_millis(RTT));
    stack
        .adapter
        .on_packet_sent(at(0), 0, None, &rtt, publisher!());
    assert_eq!(stack.adapter.bytes_in_flight(), 0);
    assert_eq!(stack.adapter.delivery().sent(), Bytes::ZERO);
}

/// Windows of 64 bits in an interface of 32.
#[test]
fn a_window_above_4_gib_is_the_most_that_the_interface_holds() {
    let reno = recipe("reno", &[]).expect("a controller");
    let factory = Factory::new(reno).map(|factory| factory.initial_packets(4_000_000));
    assert_eq!(Stack::new(factory).window(), u32::MAX);
}

/// Minimum RTT, window and bandwidth outlive persistent congestion, in which s2n-quic forgets its minimum.
#[test]
fn persistent_congestion_keeps_the_minimum_rtt() {
    let mut stack = Stack::named("bbr3");
    let tokens = stack.sends(0, 10);
    stack.round_trip(RTT, 0);
    stack.ack(RTT, 0, 1, tokens[0]);
    let draws = &mut Draws::default();
    stack.adapter.on_packet_lost(
        MSS as u32,
        tokens[1],
        true,
        true,
        draws,
        at(900),
        publisher!(),
    );
    stack.rtt.on_persistent_congestion();
    let token = stack.send(900, false);
    assert!(stack.window() >= 2 * MSS as u32);
    stack.round_trip(1000, 900);
    stack.ack(1000, 900, 1, token);
    assert_eq!(stack.adapter.min_rtt, Some(Duration::from_millis(RTT)));
}

/// The README's table is that of the constant.
#[test]
fn the_readme_lists_the_signals() {
    let table = paceline_adapter::table(SIGNALS, "s2n-quic 1.91");
    assert!(include_str!("../README.md").contains(&table), "{table}");
}
