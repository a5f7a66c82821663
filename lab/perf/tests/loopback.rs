//! Client and server over the loopback.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread;
use std::time;

use paceline_perf::{
    ClientOptions, Error, Kind, Limits, News, Outcome, Report, Token, client, server,
};
use paceline_units::Duration;

const LIMITS: Limits = Limits {
    time: Duration::from_secs(60),
    bytes: 50_000_000,
    once: false,
};

/// A server on its own thread, until it is dropped.
struct Served {
    address: SocketAddr,
    token: Token,
    news: mpsc::Receiver<News>,
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<Result<(), Error>>>,
}

fn serve(limits: Limits) -> Served {
    let (sender, news) = mpsc::channel();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let any = "127.0.0.1:0".parse().expect("an address");
    let thread =
        thread::spawn(move || server(any, limits, &stopped, &mut |news| drop(sender.send(news))));
    match news.recv().expect("it begins") {
        News::Listening { address, token } => Served {
            address,
            token,
            news,
            stop,
            thread: Some(thread),
        },
        other => panic!("{other:?}"),
    }
}

impl Served {
    fn options(&self) -> ClientOptions {
        ClientOptions {
            server: self.address,
            token: self.token.clone(),
            cc: "cubic".to_owned(),
            time: None,
            bytes: Some(2_000_000),
            reverse: false,
            streams: 1,
            report: Duration::from_secs(1),
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        let ended = self.thread.take().map(thread::JoinHandle::join);
        if !thread::panicking() {
            ended.expect("once").expect("no panic").expect("it served");
        }
    }
}

fn run(options: &ClientOptions) -> (Result<Outcome, Error>, Vec<Report>) {
    let mut reports = Vec::new();
    let never = AtomicBool::new(false);
    let ended = client(options, &never, &mut |report| reports.push(report.clone()));
    (ended, reports)
}

fn error_of(options: &ClientOptions) -> Error {
    match run(options).0 {
        Err(error) => error,
        Ok(_) => panic!("it was let in"),
    }
}

#[test]
fn all_bytes_arrive_either_way_with_ours_and_theirs() {
    let served = serve(LIMITS);
    for (cc, reverse, streams) in [
        ("cubic", false, 1),
        ("bbr3", false, 3),
        ("quinn:cubic", false, 1),
        ("reno", true, 1),
        ("bbr3", true, 3),
        ("quinn:bbr", true, 2),
    ] {
        let options = ClientOptions {
            cc: cc.to_owned(),
            reverse,
            streams,
            ..served.options()
        };
        let (ended, reports) = run(&options);
        let ended = ended.expect("it ran");
        let what = format!("{cc} {reverse}");
        assert_eq!(ended.failed, None, "{what}");
        assert_eq!(ended.total.bytes, 2_000_000, "{what}");
        let sum: u64 = reports.iter().map(|report| report.bytes).sum();
        assert!(sum <= 2_000_000 && !reports.is_empty(), "{what}: {sum}");
        let samples = ended.run.table("samples").expect("samples");
        assert!(samples.num_rows() >= 1, "{what}");
        assert!(
            ended
                .run
                .metric("goodput_bps")
                .is_some_and(|rate| rate > 0.0),
            "{what}"
        );
        assert_eq!(ended.run.info().incomplete, None, "{what}");
        // The sender's side is known in both cases.
        assert!(
            ended.total.cwnd_bytes.is_some_and(|cwnd| cwnd > 0),
            "{what}"
        );
        let states = &ended.run.flows()[0].states;
        assert!(!cc.starts_with("bbr") || !states.is_empty(), "{what}");
    }
}

#[test]
fn a_test_ends_by_its_time_and_reports_its_parts() {
    let served = serve(Limits {
        bytes: u64::MAX,
        ..LIMITS
    });
    for reverse in [false, true] {
        let (ended, reports) = run(&ClientOptions {
            time: Some(Duration::from_millis(50)),
            bytes: None,
            reverse,
            report: Duration::from_millis(20),
            ..served.options()
        });
        let ended = ended.expect("it ran");
        assert_eq!(ended.failed, None);
        assert_eq!(ended.total.end_ns, 50_000_000);
        let ends: Vec<u64> = reports.iter().map(|report| report.end_ns).collect();
        assert_eq!(ends, [20_000_000, 40_000_000, 50_000_000]);
        assert!(ended.total.bytes > 0, "reverse: {reverse}");
    }
}

#[test]
fn nobody_gets_in_without_the_token() {
    let served = serve(LIMITS);
    let text = served.token.to_string();
    let digit = |at: usize| if &text[at..=at] == "0" { "1" } else { "0" };
    // Another secret, and another certificate.
    for (at, says) in [(3, "not this server's"), (40, "does not fit")] {
        let wrong = format!("{}{}{}", &text[..at], digit(at), &text[at + 1..]);
        let options = ClientOptions {
            token: wrong.parse().expect("a token"),
            ..served.options()
        };
        let error = error_of(&options);
        assert_eq!(error.kind, Kind::Token);
        assert!(error.message.contains(says), "{error}");
        let news = served.news.recv().expect("news");
        assert!(matches!(news, News::Refused { .. }), "{news:?}");
    }
    assert!(run(&served.options()).0.is_ok());
}

#[test]
fn a_port_that_is_in_use_is_named() {
    let taken = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("bound");
    let never = AtomicBool::new(false);
    let error = server(address, LIMITS, &never, &mut |_| {}).expect_err("it is in use");
    assert_eq!(error.kind, Kind::Address);
    assert!(
        error.message.contains("another program uses this port"),
        "{error}"
    );
}

#[test]
fn limits_hold() {
    let served = serve(LIMITS);
    let more = |change: fn(&mut ClientOptions)| {
        let mut options = served.options();
        change(&mut options);
        error_of(&options)
    };
    let errors = [
        more(|options| options.bytes = Some(50_000_001)),
        more(|options| options.time = Some(Duration::from_secs(61))),
        more(|options| (options.streams, options.reverse) = (129, true)),
    ];
    assert!(
        errors.iter().all(|error| error.kind == Kind::Limit),
        "{errors:?}"
    );
    // A client that sends more than it may is stopped, and keeps its measurements.
    for reverse in [false, true] {
        let options = ClientOptions {
            bytes: None,
            reverse,
            ..served.options()
        };
        let ended = run(&options).0.expect("it began");
        assert_eq!(ended.failed.map(|failed| failed.kind), Some(Kind::Limit));
        assert!(ended.run.info().incomplete.is_some());
    }
}

#[test]
fn one_test_at_a_time() {
    let served = serve(Limits {
        bytes: u64::MAX,
        ..LIMITS
    });
    let stop = Arc::new(AtomicBool::new(false));
    let options = ClientOptions {
        // Until it is stopped.
        bytes: None,
        ..served.options()
    };
    let stopped = stop.clone();
    let long = thread::spawn(move || client(&options, &stopped, &mut |_| {}));
    let started = served.news.recv().expect("news");
    assert!(matches!(started, News::Started { .. }), "{started:?}");
    assert_eq!(error_of(&served.options()).kind, Kind::Busy);
    stop.store(true, Relaxed);
    let ended = long.join().expect("no panic").expect("it began");
    assert_eq!(ended.failed.map(|failed| failed.kind), Some(Kind::Stopped));
}

/// A server behind a relay that stops forwarding after some datagrams.
#[test]
fn a_server_that_vanishes_ends_the_test_and_what_was_measured_is_kept() {
    let served = serve(LIMITS);
    let relay = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let front = relay.local_addr().expect("bound");
    relay
        .set_read_timeout(Some(time::Duration::from_secs(10)))
        .expect("a time-out");
    let server = served.address;
    thread::spawn(move || {
        let (mut room, mut client) = (vec![0; 1 << 16], None);
        for _ in 0..60 {
            let Ok((length, from)) = relay.recv_from(&mut room) else {
                return;
            };
            let to = if from == server {
                client
            } else {
                client = Some(from);
                Some(server)
            };
            let _ = to.map(|to| relay.send_to(&room[..length], to));
        }
        // It still accepts datagrams, so the client cannot see that the server is unreachable.
        thread::sleep(time::Duration::from_secs(10));
    });
    let options = ClientOptions {
        server: front,
        bytes: Some(40_000_000),
        ..served.options()
    };
    let ended = run(&options).0.expect("it began");
    let failed = ended.failed.expect("it failed");
    assert_eq!(failed.kind, Kind::Vanished);
    assert!(failed.message.contains("has vanished"), "{failed}");
    assert!(ended.run.info().incomplete.is_some());
    assert!(ended.total.lost_packets.is_some());
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let nobody = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let served = serve(LIMITS);
    let options = ClientOptions {
        server: nobody.local_addr().expect("bound"),
        ..served.options()
    };
    let error = error_of(&options);
    assert_eq!(error.kind, Kind::Vanished);
    assert!(error.message.contains("does not answer"), "{error}");
}
