use paceline_units::{Bytes, Duration, Instant};

use super::{Cubic, Parameters};
use crate::options::OptionValue::{self, Count, Flag};
use crate::options::Parameters as _;
use crate::{Ack, CaState, Config, Controller, Ecn, RateSample, Sent};

const MSS: u64 = 1000;
const RTT: Duration = Duration::from_millis(100);

/// A sender that is always limited by its window.
struct Flow {
    cubic: Cubic,
    now: Instant,
    delivered: u64,
    lost: u64,
    state: CaState,
}

impl Flow {
    fn new(packets: u64, options: &[(&str, OptionValue)]) -> Self {
        let config = Config {
            mss: MSS as u32,
            initial_window: Bytes::new(packets * MSS),
            seed: 0,
            now: Instant::ZERO,
            srtt: Some(RTT),
            has_selective_acks: true,
        };
        let parameters = Parameters::with(options).unwrap_or_else(|at| panic!("option {at}"));
        Self {
            cubic: Cubic::new(&config, parameters),
            now: Instant::ZERO,
            delivered: 0,
            lost: 0,
            state: CaState::Open,
        }
    }

    fn window(&self) -> u64 {
        self.cubic.cwnd().get() / MSS
    }

    fn threshold(&self) -> Option<u64> {
        let ssthresh = self.cubic.ssthresh()?;
        (!ssthresh.is_infinite()).then(|| ssthresh.get() / MSS)
    }

    /// One packet is acknowledged, `after` the last.
    fn ack(&mut self, after: Duration, rtt: Duration, ece: bool) {
        self.now += after;
        self.delivered += MSS;
        let window = self.cubic.cwnd();
        self.cubic.on_ack(&Ack {
            now: self.now,
            sample: RateSample::default(),
            newly_acked: Bytes::new(MSS),
            newly_lost: Bytes::ZERO,
            newly_marked: Some(Bytes::ZERO),
            prior_in_flight: window,
            in_flight: window - Bytes::new(MSS),
            delivered: Bytes::new(self.delivered),
            lost: Bytes::new(self.lost),
            sent: Bytes::new(self.delivered) + Bytes::new(self.lost) + window - Bytes::new(MSS),
            rtt: Some(rtt),
            srtt: RTT,
            min_rtt: RTT,
            cwnd_limited: true,
            ca_state: self.state,
            una_advanced: true,
            delayed: false,
            one_way_delay: None,
            network_rtt: Some(rtt),
            receiver_delay: None,
            ece,
        });
    }

    /// A round of evenly spaced ACKs.
    fn round(&mut self) {
        let window = self.window();
        for _ in 0..window {
            self.ack(RTT / window, RTT, false);
        }
    }

    fn recover(&mut self) {
        self.lost += MSS;
        self.cubic.on_recovery_enter(self.now, self.cubic.cwnd());
        self.state = CaState::Recovery;
    }

    fn recovered(&mut self) {
        self.cubic.on_recovery_exit(self.now);
        self.state = CaState::Open;
    }

    fn time_out(&mut self) {
        self.now += RTT * 3;
        self.cubic.on_timeout(self.now, Bytes::ZERO);
        self.state = CaState::Loss;
    }

    fn field(&self, wanted: &str) -> std::string::String {
        let mut shown = std::string::String::new();
        self.cubic
            .visit_state(&mut crate::Visitor::each(&mut |name, value| {
                if name == wanted {
                    shown = std::format!("{value:?}");
                }
            }));
        shown
    }
}

const PLAIN: [(&str, OptionValue); 2] = [("hystart", Flag(false)), ("initial_ssthresh", Count(10))];

#[test]
fn until_the_first_loss_a_round_adds_at_least_five_per_cent() {
    let mut flow = Flow::new(1000, &PLAIN);
    flow.round();
    // K is 0: the curve alone would add almost nothing in a tenth of a second.
    assert_eq!(flow.window(), 1000 + 1000 / 20);
    flow.recover();
    flow.recovered();
    let reduced = flow.window();
    assert_eq!(reduced, 1050 * 717 / 1024);
    flow.round();
    assert!(flow.window() > reduced && flow.window() < reduced * 110 / 100);
}

#[test]
fn the_train_of_acks_ends_slow_start_at_half_of_the_pipe_and_paced_at_the_whole() {
    // The bottleneck sends one packet per millisecond, 100 per round trip; bursts may add one more.
    for (pacing, expected) in [(false, 52), (true, 103)] {
        let mut flow = Flow::new(16, &[("pacing", Flag(pacing))]);
        let mut train = 0;
        while flow.threshold().is_none() && flow.window() < 1000 {
            train = 0;
            for _ in 0..flow.window() {
                flow.ack(Duration::from_millis(1), RTT, false);
                train += 1;
                if flow.threshold().is_some() {
                    break;
                }
            }
            flow.now += RTT;
        }
        assert_eq!(train, expected, "{pacing}");
    }
}

#[test]
fn a_rise_of_the_delay_ends_slow_start_after_eight_samples() {
    let mut flow = Flow::new(16, &[]);
    flow.ack(RTT, RTT, false);
    for _ in 0..16 {
        flow.ack(Duration::from_millis(5), RTT, false);
    }
    assert_eq!(flow.threshold(), None);
    // An eighth of 100 ms.
    let late = Duration::from_micros(112_501);
    let mut acks = 0;
    while flow.threshold().is_none() && acks < 100 {
        flow.ack(Duration::from_millis(5), late, false);
        acks += 1;
    }
    // In the second round, of 32, the first sample is the minimum RTT.
    assert_eq!(acks, 31 + 9);
}

#[test]
fn a_timeout_forgets_all_and_reduces_once_an_episode() {
    let mut flow = Flow::new(100, &PLAIN);
    flow.round();
    flow.recover();
    let once = flow.threshold();
    assert_eq!(once, Some(105 * 717 / 1024));
    flow.time_out();
    assert_eq!((flow.threshold(), flow.window()), (once, 1));
    assert_eq!(flow.field("last_max_cwnd"), "Bytes(Bytes(0))");
    assert_eq!(flow.field("delay_min"), "Duration(Duration(0))");
    // Again with nothing acknowledged: the threshold is the same; after progress it is another.
    flow.time_out();
    assert_eq!(flow.threshold(), once);
    flow.ack(RTT, RTT, false);
    assert_eq!(flow.window(), 2);
    flow.time_out();
    assert_eq!(flow.threshold(), Some(2));
}

#[test]
fn a_spurious_episode_gives_the_window_back() {
    let mut flow = Flow::new(100, &[]);
    flow.recover();
    assert_eq!((flow.window(), flow.threshold()), (70, Some(70)));
    flow.cubic.on_spurious(flow.now, Bytes::ZERO);
    flow.recovered();
    // The threshold is at least three quarters of the window (tcp_current_ssthresh).
    assert_eq!((flow.window(), flow.threshold()), (100, None));
    flow.cubic.on_spurious(flow.now, Bytes::ZERO);
    assert_eq!(flow.window(), 100);
}

#[test]
fn hystart_in_recovery_lowers_the_window_after_it() {
    let mut flow = Flow::new(100, &[]);
    flow.ack(RTT, RTT, false);
    flow.recover();
    let reduced = flow.window();
    let kept = flow.cubic.cwnd();
    // As if proportional rate reduction sent fewer: 40 in flight and a standing queue.
    for _ in 0..200 {
        flow.delivered += MSS;
        flow.now += Duration::from_millis(1);
        let mut ack = blank(&flow);
        ack.prior_in_flight = Bytes::new(40 * MSS);
        ack.in_flight = Bytes::new(39 * MSS);
        flow.cubic.on_ack(&ack);
        assert_eq!(flow.cubic.cwnd(), kept);
    }
    assert_eq!(flow.threshold(), Some(40));
    flow.recovered();
    assert_eq!((reduced, flow.window()), (70, 40));
}

fn blank(flow: &Flow) -> Ack {
    Ack {
        now: flow.now,
        sample: RateSample::default(),
        newly_acked: Bytes::new(MSS),
        newly_lost: Bytes::ZERO,
        newly_marked: Some(Bytes::ZERO),
        prior_in_flight: flow.cubic.cwnd(),
        in_flight: flow.cubic.cwnd(),
        delivered: Bytes::new(flow.delivered),
        lost: Bytes::new(flow.lost),
        sent: Bytes::new(flow.delivered) + Bytes::new(flow.lost) + flow.cubic.cwnd(),
        rtt: Some(RTT * 2),
        srtt: RTT,
        min_rtt: RTT,
        cwnd_limited: true,
        ca_state: flow.state,
        una_advanced: true,
        delayed: false,
        one_way_delay: None,
        network_rtt: Some(RTT * 2),
        receiver_delay: None,
        ece: false,
    }
}

#[test]
fn a_pause_halves_the_window_down_to_the_initial_one() {
    let options = [PLAIN[0], ("initial_ssthresh", Count(35))];
    let (initial, mut flow) = (10, Flow::new(10, &options));
    for _ in 0..40 {
        flow.ack(Duration::from_millis(1), RTT, false);
    }
    let grown = flow.window();
    assert!((35..40).contains(&grown), "{grown}");
    flow.cubic.on_idle_restart(flow.now);
    assert_eq!(flow.window(), grown / 2);
    // It is already above three quarters of the window.
    assert_eq!(flow.threshold(), Some(35));
    flow.cubic.on_idle_restart(flow.now);
    assert_eq!(flow.window(), initial);
    flow.cubic.on_idle_restart(flow.now);
    assert_eq!(flow.window(), initial);

    let mut flow = Flow::new(10, &[PLAIN[0], ("initial_ssthresh", Count(20))]);
    for _ in 0..400 {
        flow.ack(Duration::from_millis(10), RTT, false);
    }
    let grown = flow.window();
    assert!(grown > 40, "{grown}");
    for _ in 0..3 {
        flow.cubic.on_idle_restart(flow.now);
        // That of the greatest window.
        assert_eq!(flow.threshold(), Some(grown / 2 + grown / 4));
    }
}

#[test]
fn idle_time_does_not_count() {
    let mut flow = Flow::new(100, &PLAIN);
    flow.round();
    let start = flow.field("epoch_start");
    let sent = |flow: &mut Flow, in_flight| {
        flow.cubic.on_send(&Sent {
            now: flow.now,
            size: MSS as u32,
            in_flight: Bytes::new(in_flight),
            app_limited: false,
        });
    };
    sent(&mut flow, MSS);
    flow.now += Duration::from_millis(400);
    sent(&mut flow, MSS);
    assert_eq!(flow.field("epoch_start"), start);
    flow.now += Duration::from_millis(400);
    sent(&mut flow, 0);
    // 250 jiffies per second, and one second has passed at time zero.
    assert_eq!(start, "Count(250)");
    assert_eq!(flow.field("epoch_start"), "Count(350)");
}

#[test]
fn an_echoed_mark_reduces_once_a_round() {
    let mut flow = Flow::new(100, &[("ecn", Flag(true))]);
    assert_eq!(flow.cubic.ecn(), Ecn::Ect0);
    flow.ack(RTT, RTT, false);
    let before = flow.window();
    for _ in 0..before {
        flow.ack(Duration::from_millis(1), RTT, true);
    }
    assert_eq!(flow.threshold(), Some(before * 717 / 1024));
}

#[test]
fn paces_at_twice_the_window_far_from_the_threshold_and_at_twelve_tenths_near_it() {
    let options = [
        PLAIN[0],
        ("initial_ssthresh", Count(100)),
        ("pacing", Flag(true)),
    ];
    for (packets, percent) in [(49, 200), (50, 120)] {
        let flow = Flow::new(packets, &options);
        let bits = packets * MSS * 8 * 10 * percent / 100;
        let rate = flow.cubic.pacing_rate();
        assert_eq!(rate.map(paceline_units::Rate::bps), Some(bits), "{packets}");
    }
}
