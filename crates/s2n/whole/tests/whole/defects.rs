//! Defects that BBRs of QUIC stacks were found to have, each by its name: in our BBRv3 through the adapter, and in
//! s2n-quic's own BBR.

use std::time::Duration;

use crate::{App, Path, Summary, ours, run, theirs};

const MS: fn(u64) -> Duration = Duration::from_millis;

/// Our BBRv3, and s2n-quic's own BBR.
fn both(path: &Path, app: App, seconds: f64) -> [Summary; 2] {
    [
        run(path.clone(), app, seconds, ours("bbr3")),
        run(path.clone(), app, seconds, theirs()),
    ]
}

/// quinn: a rate is computed that nobody keeps to, so that the window fills the queue.
#[test]
fn pacing_not_engaged() {
    let mut path = Path::new(20, 40);
    path.buffer *= 4;
    let [ours_summary, theirs_summary] = both(&path, App::Bulk, 6.0);
    assert!(ours_summary.queue < MS(10), "{ours_summary:?}");
    // s2n-quic's own waits for 32 ms of 160, though it is paced.
    assert!(theirs_summary.queue > MS(20), "{theirs_summary:?}");
    // What keeps no rate fills it.
    let summary = run(path, App::Bulk, 6.0, ours("reno"));
    assert!(summary.queue > MS(25), "{summary:?}");
}

/// noq: the initial window over a placeholder of 1 ms as the rate, which a flow without samples of its own keeps for life.
#[test]
fn initial_rate_from_a_1_ms_placeholder() {
    let mut path = Path::new(20, 100);
    path.buffer = 20 * 1500;
    let frames = App::Frames(25_000, MS(100));
    let summary = run(path, frames, 6.0, ours("bbr3"));
    assert_eq!(summary.dropped, 0, "{summary:?}");
}

/// quiche, lsquic: a flow that its pacer holds back counts as limited by its application, and its samples for nothing.
#[test]
fn app_limited_under_pacing() {
    for summary in both(&Path::new(20, 40), App::Bulk, 6.0) {
        assert!(summary.goodput > 17e6, "{summary:?}");
    }
}

/// s2n-quic: whether the window limits the flow is read once the ACK has made room, so that the long-term bound of a path
/// that has become wider never grows.
#[test]
fn cwnd_limited_read_after_the_ack() {
    let mut path = Path::new(10, 40);
    path.buffer = 10 * 1500;
    path.rate.push((MS(5000), 40e6));
    let [ours_summary, theirs_summary] = both(&path, App::Bulk, 18.0);
    assert!(ours_summary.goodput > 30e6, "{ours_summary:?}");
    // s2n-quic's own reaches 28 Mbit/s.
    assert!(theirs_summary.goodput > 25e6, "{theirs_summary:?}");
}

/// freenet: a timeout forgets the minimum RTT and the bandwidth, and the window stays at a few packets.
#[test]
fn min_rtt_wiped_on_timeout() {
    let mut path = Path::new(20, 40);
    path.outage = Some((MS(2000), MS(4000)));
    for summary in both(&path, App::Bulk, 14.0) {
        assert!(summary.goodput > 14e6, "{summary:?}");
    }
}

/// picoquic: what is counted in whole microseconds or milliseconds is nothing, and the window stays at its minimum.
#[test]
fn rtt_below_100_us() {
    let mut path = Path::new(1000, 0);
    path.rtt = Duration::from_micros(50);
    path.buffer = 100 * 1500;
    for summary in both(&path, App::Bulk, 0.1) {
        assert!(summary.goodput > 700e6, "{summary:?}");
    }
}

/// Nothing to measure, nothing to divide by; and with losses, timeouts in all three packet-number spaces.
#[test]
fn one_packet_flows() {
    let path = Path::new(20, 40);
    let summary = run(path.clone(), App::Sized(1), 1.0, ours("bbr3"));
    assert!((MS(60)..MS(65)).contains(&summary.ended), "{summary:?}");
    let lossy = Path { loss: 0.2, ..path };
    for name in ["bbr3", "cubic", "reno"] {
        let summary = run(lossy.clone(), App::Sized(1), 30.0, ours(name));
        assert_eq!(summary.delivered, 1, "{name}: {summary:?}");
    }
}

/// Packets that come late are taken for lost, and s2n-quic 1.91 does not report that they were not.
#[test]
fn spurious_loss() {
    let path = Path {
        late: Some((1000, MS(10))),
        ..Path::new(20, 40)
    };
    let summary = run(path.clone(), App::Bulk, 8.0, ours("bbr3"));
    assert!(summary.goodput > 17.5e6, "{summary:?}");
    let summary = run(path, App::Bulk, 8.0, ours("cubic"));
    assert!(summary.goodput < 17.5e6, "{summary:?}");
}

/// noq: half of the link at 10 ms with a jitter of 5 ms.
#[test]
fn jitter() {
    let mut path = Path::new(20, 10);
    path.buffer *= 4;
    path.jitter = MS(5);
    for summary in both(&path, App::Bulk, 6.0) {
        assert!(summary.goodput > 17e6, "{summary:?}");
    }
}

/// noq: the ACK phase has to leave ProbeStopping; while it stays, each round advances the filter of the maximum bandwidth,
/// and the estimate falls in Cruise.
#[test]
fn probe_stopping() {
    for summary in both(&Path::new(50, 40), App::Bulk, 12.0) {
        assert!(summary.goodput > 45e6, "{summary:?}");
    }
}
