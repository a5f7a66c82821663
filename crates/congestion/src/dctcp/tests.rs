use paceline_units::Duration;

use super::*;
use crate::options::{OptionValue, Parameters as _};
use crate::{Ecn, RateSample};

const MSS: u64 = 1000;
const RTT: Duration = Duration::from_micros(100);

/// ACKs of one round at a time, each for one packet.
struct Flow {
    cc: Dctcp,
    now: Instant,
    delivered: u64,
    ca_state: CaState,
}

impl Flow {
    fn new(window: u64, options: &[(&str, OptionValue)]) -> Self {
        let mut all = std::vec![("initial_ssthresh", OptionValue::Bytes(Bytes::ZERO))];
        all.extend_from_slice(options);
        Self {
            cc: Dctcp::new(
                &Config {
                    mss: MSS as u32,
                    initial_window: Bytes::new(window * MSS),
                    seed: 0,
                    now: Instant::ZERO,
                    srtt: Some(RTT),
                    has_selective_acks: true,
                },
                Parameters::with(&all).unwrap_or_else(|at| panic!("{at}")),
            ),
            now: Instant::ZERO,
            delivered: 0,
            ca_state: CaState::Open,
        }
    }

    /// One packet acknowledged, of which `marked` bytes carried CE.
    fn ack(&mut self, marked: u64, ece: bool) {
        self.delivered += MSS;
        let cwnd = self.cc.cwnd();
        self.cc.on_ack(&Ack {
            now: self.now,
            sample: RateSample::default(),
            newly_acked: Bytes::new(MSS),
            newly_lost: Bytes::ZERO,
            newly_marked: Some(Bytes::new(marked)),
            prior_in_flight: cwnd,
            in_flight: cwnd - Bytes::new(MSS),
            delivered: Bytes::new(self.delivered),
            lost: Bytes::ZERO,
            sent: Bytes::new(self.delivered) + cwnd - Bytes::new(MSS),
            rtt: Some(RTT),
            srtt: RTT,
            min_rtt: RTT,
            cwnd_limited: true,
            ca_state: self.ca_state,
            una_advanced: true,
            delayed: false,
            one_way_delay: None,
            network_rtt: Some(RTT),
            receiver_delay: None,
            ece,
        });
    }

    /// Until the end of the current window.
    fn window(&mut self, marked_every: u64) {
        let end = self.cc.window_end;
        let mut nth = 0;
        while self.cc.window_end == end {
            nth += 1;
            let marked = marked_every > 0 && nth % marked_every == 0;
            self.ack(if marked { MSS } else { 0 }, false);
        }
    }

    fn alpha(&self) -> f64 {
        self.cc.alpha as f64 / ONE as f64
    }

    fn packets(&self) -> u64 {
        self.cc.cwnd().packets(MSS)
    }
}

#[test]
fn alpha_is_the_average_of_the_fraction_marked() {
    let mut flow = Flow::new(20, &[]);
    assert_eq!((flow.alpha(), flow.cc.ecn()), (1.0, Ecn::Ect0));
    // The first ACK ends a window without marks: 15/16.
    flow.window(0);
    assert_eq!(flow.alpha(), 0.9375);
    flow.window(0);
    assert_eq!(flow.alpha(), 0.878_906_25);
    // Half of the next one marked.
    flow.window(2);
    let expected = 0.878_906_25 * 15.0 / 16.0 + flow.cc.fraction as f64 / ONE as f64 / 16.0;
    assert!((flow.alpha() - expected).abs() < 1e-8);
    assert!((0.45..=0.55).contains(&(flow.cc.fraction as f64 / ONE as f64)));
}

#[test]
fn alpha_converges_to_a_steady_fraction_and_to_none() {
    let mut flow = Flow::new(40, &[]);
    for _ in 0..200 {
        flow.cc.window.set_cwnd(Bytes::new(40 * MSS));
        flow.window(4);
    }
    assert!((flow.alpha() - 0.25).abs() < 0.01, "{}", flow.alpha());
    for _ in 0..400 {
        flow.cc.window.set_cwnd(Bytes::new(10 * MSS));
        flow.window(0);
    }
    assert!(flow.cc.alpha < 100, "{}", flow.cc.alpha);
}

#[test]
fn a_window_is_reduced_once_by_half_of_alpha() {
    let mut flow = Flow::new(
        100,
        &[(
            "initial_alpha",
            OptionValue::Gain(Gain::from_millionths(200_000)),
        )],
    );
    flow.ack(0, false);
    let alpha = flow.alpha();
    assert_eq!(alpha, 0.1875);
    flow.ack(MSS, false);
    // 100 (1 - 0.1875 / 2) = 90.625.
    assert_eq!(flow.cc.cwnd(), Bytes::new(90_625));
    let mut acks = 0;
    while flow.packets() <= 91 {
        let before = flow.cc.cwnd();
        flow.ack(MSS, false);
        acks += 1;
        if flow.cc.cwnd() < before {
            break;
        }
    }
    // All data that was in flight, 99 less the reduction, is covered.
    assert!((88..=101).contains(&acks), "{acks}");
}

#[test]
fn a_bare_echo_marks_all_that_it_acknowledges() {
    let mut flow = Flow::new(
        10,
        &[("initial_alpha", OptionValue::Gain(Gain::from_millionths(0)))],
    );
    flow.ack(0, false);
    let end = flow.cc.window_end;
    while flow.cc.window_end == end {
        flow.ack(0, true);
    }
    assert_eq!(flow.cc.fraction, ONE);
    assert_eq!(flow.alpha(), 0.0625);
}

#[test]
fn a_loss_halves_and_marks_beside_it_do_not_reduce_again() {
    for response in ["average", "instant"] {
        let mut flow = Flow::new(20, &[("response", OptionValue::Choice(response))]);
        flow.ack(0, false);
        flow.cc.on_recovery_enter(flow.now, Bytes::new(19 * MSS));
        flow.ca_state = CaState::Recovery;
        assert_eq!(flow.packets(), 10);
        for _ in 0..30 {
            flow.ack(MSS, true);
        }
        assert_eq!(flow.packets(), 10, "{response}");
        flow.cc.on_timeout(flow.now, Bytes::ZERO);
        assert_eq!(flow.packets(), 1);
    }
}

#[test]
fn the_window_falls_to_one_packet_and_no_further() {
    let mut flow = Flow::new(8, &[]);
    for _ in 0..200 {
        flow.ack(MSS, false);
    }
    assert!(flow.packets() <= 2, "{}", flow.packets());
    assert!(flow.cc.cwnd() >= Bytes::new(MSS));
}

#[test]
fn the_instantaneous_response_forgets() {
    let mut flow = Flow::new(100, &[("response", OptionValue::Choice("instant"))]);
    flow.ack(0, false);
    // The fraction of the round decides, at its end, whatever the value of alpha.
    let before = flow.cc.cwnd();
    flow.window(1);
    let fraction = flow.cc.fraction;
    assert_eq!(fraction, ONE);
    assert!(
        flow.cc.cwnd() <= before,
        "halved at the end of a round all marked"
    );
    assert!((49..=51).contains(&flow.packets()), "{}", flow.packets());
    let grown = flow.cc.cwnd();
    flow.window(0);
    assert!(
        flow.cc.cwnd() > grown,
        "a round without marks reduces nothing"
    );
}

/// A half of [`ONE`] is 500,000 millionths.
#[test]
fn fractions_are_shown_in_millionths() {
    assert_eq!(shown(ONE / 2), Gain::from_millionths(500_000));
    assert_eq!(shown(ONE), Gain::from_millionths(1_000_000));
}

#[test]
fn linux_counts_alpha_in_1024ths_and_cuts_whole_segments() {
    let options = [("linux_rounding", OptionValue::Flag(true))];
    let mut flow = Flow::new(44, &options);
    // 1024 - 64 = 960, - 60 = 900, - 56 = 844.
    for expected in [960, 900, 844] {
        flow.window(0);
        assert_eq!(in_1024ths(flow.cc.alpha), expected);
    }
    // Below 16 the sixteenth is zero, and alpha becomes zero.
    let mut before = 844;
    while before >= 16 {
        flow.window(0);
        assert_eq!(in_1024ths(flow.cc.alpha), before - before / 16);
        before -= before / 16;
    }
    flow.window(0);
    assert_eq!(flow.cc.alpha, 0);
    // 44 * 46 / 2048 is below a segment, 44 * 47 / 2048 is not.
    for (alpha, kept) in [(46, 44), (47, 43)] {
        let mut flow = Flow::new(44, &options);
        flow.cc.reduce((alpha * ONE).div_ceil(KERNEL_ONE));
        assert_eq!(flow.cc.cwnd().get() / MSS, kept, "{alpha}");
    }
    // A tenth marked: 64 / 10 = 6 more.
    let mut flow = Flow::new(100, &options);
    flow.cc.bytes_acked = Bytes::new(100 * MSS);
    flow.cc.bytes_marked = Bytes::new(10 * MSS);
    assert_eq!(in_1024ths(flow.cc.alpha_as_linux()), 966);
}
