//! A test, from the client's side.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use bytes::Bytes;
use paceline_quic::quinn::Chosen;
use paceline_quic::tls::{self, Mismatch};
use paceline_record::Run;
use paceline_units::{Duration, Instant};
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, ConnectionError, DatagramEvent, Dir, Endpoint, Event, StreamEvent, VarInt,
};
use serde::Serialize;

use crate::control::Control;
use crate::error::{Error, Kind, printable};
use crate::link::{Clock, Link};
use crate::message::{ClientMessage, Request, Row, ServerMessage};
use crate::meter::{MOST, Meter, interval};
use crate::record::Measured;
use crate::setup::{ALPN, DATAGRAM, PATIENCE, SILENCE, WINDOW, controller, endpoint, transport};
use crate::token::Token;
use crate::transfer::{Receiving, Sending};
use crate::wire::Wire;

/// The maximum length of the name of a controller's state.
const PHASE: usize = 40;
/// The maximum size of server messages waiting to be read.
const ANSWERS: usize = 1 << 20;
/// How long a sender waits for the receiver's report of each second.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// How long a client waits after the end of a test for the server to confirm it.
const GRACE: Duration = Duration::from_secs(10);

/// The options of a client.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// The server's address.
    pub server: SocketAddr,
    /// The token that it printed.
    pub token: Token,
    /// The sender's controller, as [`controller`] takes it.
    pub cc: String,
    /// The maximum duration of sending.
    pub time: Option<Duration>,
    /// The amount to send.
    pub bytes: Option<u64>,
    /// Whether the server sends.
    pub reverse: bool,
    /// Streams of the connection.
    pub streams: u32,
    /// Time between two reports.
    pub report: Duration,
}

/// The measurements of one part of a test.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// When it begins, from the start of the test.
    pub start_ns: u64,
    /// When it ends.
    pub end_ns: u64,
    /// Bytes received by the receiver.
    pub bytes: u64,
    /// The same in bits per second.
    pub goodput_bps: Option<f64>,
    /// The sender's latest RTT, if the client is the sender.
    pub rtt_ns: Option<u64>,
    /// The congestion window, if the client is the sender.
    pub cwnd_bytes: Option<u64>,
    /// Packets lost, if that is known.
    pub lost_packets: Option<u64>,
}

/// A test that has started.
pub struct Outcome {
    /// The whole test.
    pub total: Report,
    /// Its record.
    pub run: Run,
    /// Why it ended early.
    pub failed: Option<Error>,
    /// From the first packet to the end of the handshake.
    pub handshake_ns: u64,
}

/// Runs a test, and reports each part as it ends.
///
/// # Errors
/// The reason why it could not start. The reason of a later failure is in its [`Outcome`].
pub fn client(
    options: &ClientOptions,
    stop: &AtomicBool,
    on_report: &mut dyn FnMut(&Report),
) -> Result<Outcome, Error> {
    let mut client = Client::new(options)?;
    let failed = loop {
        match client.turn(stop) {
            Ok(true) => break None,
            Ok(false) => {}
            Err(error) => break Some(error),
        }
        client.report(false, on_report);
    };
    // The last of it is on the way.
    let code = VarInt::from_u32(0);
    let then = client.clock.at(client.clock.now());
    client.link.connection.close(then, code, Bytes::new());
    let _ = client.link.transmit(&mut client.wire, client.clock.now());
    client.report(true, on_report);
    client.outcome(failed)
}

/// A test's data streams and their measurements.
struct Test {
    start: Instant,
    sending: Option<Sending>,
    receiving: Receiving,
    /// The sender's rows.
    rows: Vec<Row>,
    /// The client's own meter of the data that it sends, or has received.
    sent: Meter<Row>,
    got: Meter<u64>,
    /// The server's bytes received, at each row.
    received: Vec<u64>,
    /// When it ended, from its start: by time, or with its last byte.
    ended: Option<Duration>,
    finished: Option<Duration>,
    total: u64,
    reported: Report,
}

struct Client<'a> {
    options: &'a ClientOptions,
    clock: Clock,
    begun: Instant,
    connected: Option<Instant>,
    wire: Wire,
    endpoint: Endpoint,
    link: Link,
    mismatch: Mismatch,
    control: Option<Control>,
    interval: Duration,
    test: Option<Test>,
    is_over: bool,
}

impl<'a> Client<'a> {
    fn new(options: &'a ClientOptions) -> Result<Self, Error> {
        let chosen = choose(&options.cc)?;
        let any: IpAddr = match options.server {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let wire = Wire::bind(SocketAddr::new(any, 0))?;
        let mismatch = Mismatch::default();
        let tls = tls::client(options.token.fingerprint, ALPN, &mismatch);
        let tls = QuicClientConfig::try_from(tls.map_err(system)?).map_err(system)?;
        let mut config = ClientConfig::new(Arc::new(tls));
        config.transport_config(Arc::new(transport(chosen.factory(), WINDOW)));
        let mut endpoint = Endpoint::new(endpoint(), None, !wire.may_fragment(), None);
        let clock = Clock::new();
        let begun = clock.now();
        let (handle, connection) = endpoint
            .connect(clock.at(begun), config, options.server, tls::NAME)
            .map_err(|error| Error::new(Kind::Address, format!("{}: {error}", options.server)))?;
        let mut link = Link::new(handle, connection, clock);
        link.choose(chosen);
        Ok(Self {
            interval: interval(options.time),
            options,
            clock,
            begun,
            connected: None,
            wire,
            endpoint,
            link,
            mismatch,
            control: None,
            test: None,
            is_over: false,
        })
    }

    /// One turn; returns whether the test is over.
    fn turn(&mut self, stop: &AtomicBool) -> Result<bool, Error> {
        self.link.turn(&mut self.wire)?;
        self.receive()?;
        let now = self.clock.now();
        let mut heard = Ok(());
        while let Some(event) = self.link.poll(&mut self.endpoint)
            && heard.is_ok()
        {
            heard = self.on_event(event, now);
        }
        // The server's last message before it closed the connection arrived in the same turn.
        self.listen(now)?;
        heard?;
        self.proceed(now);
        if let Some(test) = &self.test {
            test.check_end(now)?;
        }
        if stop.load(Relaxed) {
            return Err(Error::new(Kind::Stopped, "it was stopped"));
        }
        self.link.transmit(&mut self.wire, now)?;
        if self.is_over {
            return Ok(true);
        }
        let mut until = now + PATIENCE;
        until = self.link.due().map_or(until, |due| due.min(until));
        if let Some(test) = &self.test {
            until = until.min(test.due());
            if test.ended.is_none()
                && let Some(time) = self.options.time
            {
                until = until.min(test.start + time);
            }
        }
        self.wire.wait(until.since(self.clock.now()))?;
        Ok(false)
    }

    fn receive(&mut self) -> Result<(), Error> {
        let mut arrived = Vec::new();
        while self.wire.receive(&mut |one| arrived.push(one))? {}
        // Not before they arrived.
        let now = self.clock.at(self.clock.now());
        let mut room = Vec::new();
        for one in arrived {
            room.clear();
            let event = self
                .endpoint
                .handle(now, one.from, one.local, one.ecn, one.bytes, &mut room);
            match event {
                Some(DatagramEvent::ConnectionEvent(_, event)) => self.link.handle_event(event),
                Some(DatagramEvent::Response(response)) => drop(self.wire.send(response, &room)?),
                Some(DatagramEvent::NewConnection(_)) | None => {}
            }
        }
        Ok(())
    }

    fn on_event(&mut self, event: Event, now: Instant) -> Result<(), Error> {
        let connection = &mut self.link.connection;
        match event {
            Event::Connected => {
                self.connected = Some(now);
                let Some(id) = connection.streams().open(Dir::Bi) else {
                    return Err(Error::new(Kind::Peer, "the server allows no stream"));
                };
                let mut control = Control::new(id, ANSWERS, connection);
                control.send(&Request {
                    secret: self.options.token.secret.to_string(),
                    cc: self.options.cc.clone(),
                    reverse: self.options.reverse,
                    streams: self.options.streams,
                    time_ns: self.options.time.map(Duration::as_nanos),
                    bytes: self.options.bytes,
                    interval_ns: self.interval.as_nanos(),
                });
                self.control = Some(control);
            }
            Event::ConnectionLost { reason } => return Err(self.lost(&reason)),
            Event::Stream(StreamEvent::Readable { id }) => {
                if let Some(control) = &mut self.control
                    && control.is(id)
                {
                    control.read(connection)?;
                } else if let Some(test) = &mut self.test {
                    test.receiving.read(connection);
                }
            }
            Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) => {
                if let Some(test) = &mut self.test {
                    test.receiving.read(connection);
                }
            }
            Event::Stream(StreamEvent::Finished { id }) => {
                if let Some(test) = &mut self.test
                    && let Some(sending) = &mut test.sending
                {
                    sending.acknowledged(id);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn lost(&self, reason: &ConnectionError) -> Error {
        let server = self.options.server;
        let silence = SILENCE.as_nanos() / 1_000_000_000;
        match reason {
            _ if self.mismatch.occurred() => Error::new(
                Kind::Token,
                format!(
                    "the certificate of {server} does not fit the token: it is another server's, or an older one's"
                ),
            ),
            ConnectionError::TimedOut if self.connected.is_none() => Error::new(
                Kind::Vanished,
                format!("{server} does not answer: nothing came for {silence} s"),
            ),
            ConnectionError::TimedOut => Error::new(
                Kind::Vanished,
                format!("the server has vanished: nothing came from {server} for {silence} s"),
            ),
            ConnectionError::Reset => Error::new(
                Kind::Vanished,
                format!("{server} does not know the connection any more: it was restarted"),
            ),
            ConnectionError::ApplicationClosed(close) => {
                let text = printable(&String::from_utf8_lossy(&close.reason), 300);
                let text = match text.is_empty() {
                    true => "the server has ended the test".to_owned(),
                    false => text,
                };
                Error::new(Kind::of_code(close.error_code.into_inner()), text)
            }
            other => {
                let text = printable(&other.to_string(), 300);
                Error::new(Kind::Peer, format!("{server}: {text}"))
            }
        }
    }

    /// A message of the server.
    fn listen(&mut self, now: Instant) -> Result<(), Error> {
        let Some(control) = &mut self.control else {
            return Ok(());
        };
        while let Some(message) = control.next()? {
            match (message, &mut self.test) {
                (ServerMessage::Started, None) => {
                    let connection = &mut self.link.connection;
                    let sending = if self.options.reverse {
                        None
                    } else {
                        let open =
                            Sending::open(connection, self.options.streams, self.options.bytes);
                        let few = || Error::new(Kind::Limit, "the server allows fewer streams");
                        Some(open.ok_or_else(few)?)
                    };
                    let mut test = Test {
                        start: now,
                        sending,
                        receiving: Receiving::default(),
                        rows: Vec::new(),
                        sent: Meter::new(now, self.interval),
                        got: Meter::new(now, self.interval),
                        received: Vec::new(),
                        ended: None,
                        finished: None,
                        total: 0,
                        reported: Report::default(),
                    };
                    // It may have arrived before.
                    test.receiving.read(connection);
                    self.test = Some(test);
                }
                (ServerMessage::Got { first, bytes }, Some(test)) => {
                    if first != test.received.len() as u64 {
                        return Err(Error::new(
                            Kind::Peer,
                            "the server leaves out what it received",
                        ));
                    }
                    test.received.extend(bytes);
                    test.check()?;
                }
                (ServerMessage::Rows(rows), Some(test)) => {
                    test.rows.extend(rows.into_iter().map(|row| Row {
                        phase: printable(&row.phase, PHASE),
                        ..row
                    }));
                    test.check()?;
                }
                (
                    ServerMessage::End {
                        received,
                        time_ns,
                        finished_ns,
                        failed,
                    },
                    Some(test),
                ) => {
                    if self.options.reverse {
                        test.receiving.read(&mut self.link.connection);
                        test.total = test.receiving.bytes;
                        test.finished = finished_ns.map(Duration::from_nanos);
                        let here = now.since(test.start);
                        test.ended = Some(length(time_ns, self.options.time, here));
                    } else {
                        test.total = received;
                    }
                    self.is_over = true;
                    if let Some((code, message)) = failed {
                        let kind = Kind::of_code(code.into());
                        return Err(Error::new(kind, printable(&message, 300)));
                    }
                }
                _ => return Err(Error::new(Kind::Peer, "the server answers out of turn")),
            }
        }
        Ok(())
    }

    /// The client's writing and measuring.
    fn proceed(&mut self, now: Instant) {
        let Some(control) = &mut self.control else {
            return;
        };
        if let Some(test) = &mut self.test {
            let since = now.since(test.start);
            let is_timely = self.options.time.is_none_or(|time| since < time);
            if test.ended.is_none() {
                if let Some(sending) = &mut test.sending {
                    if sending.is_done() {
                        (test.ended, test.finished) = (Some(since), Some(since));
                        control.send(&ClientMessage::Done);
                        control.end();
                    } else if is_timely {
                        sending.write(&mut self.link.connection);
                    } else {
                        sending.stop(&mut self.link.connection);
                        test.ended = self.options.time;
                        control.send(&ClientMessage::Done);
                        control.end();
                    }
                } else if !is_timely {
                    test.ended = self.options.time;
                    test.total = test.receiving.bytes;
                }
            }
            // Not beyond its end.
            let until = test.ended.map_or(now, |ended| test.start + ended);
            if test.sending.is_some() {
                let link = &self.link;
                test.sent.take(until, |t| Row::new(t, &link.stats()));
            } else {
                let bytes = test.receiving.bytes;
                test.got.take(until, |_| bytes);
            }
        }
        control.write(&mut self.link.connection);
    }

    /// Reports the parts that have ended.
    fn report(&mut self, is_last: bool, on_report: &mut dyn FnMut(&Report)) {
        let now = self.clock.now();
        let Some(test) = &mut self.test else {
            return;
        };
        loop {
            let from = test.reported.end_ns;
            let end = from + self.options.report.as_nanos();
            let ended = test.ended.unwrap_or_else(|| now.since(test.start));
            let limit = ended.as_nanos();
            let row = end / self.interval.as_nanos();
            // The receiver's count for that time, which may still be on its way.
            let is_known = test.counts().len() as u64 > row;
            let is_late =
                now.since(test.start).as_nanos() > end.saturating_add(LAST_WORDS.as_nanos());
            if end > limit || !(is_known || is_late || is_last) {
                break;
            }
            test.report_until(Duration::from_nanos(end), self.interval, on_report);
        }
        let over = test
            .ended
            .filter(|ended| is_last && ended.as_nanos() > test.reported.end_ns);
        if let Some(over) = over {
            test.report_until(over, self.interval, on_report);
        }
    }

    fn outcome(self, failed: Option<Error>) -> Result<Outcome, Error> {
        let Some(mut test) = self.test else {
            // A test ends well only if it has begun.
            let none = || Error::new(Kind::Peer, "the test did not begin");
            return Err(failed.unwrap_or_else(none));
        };
        let now = self.clock.now().since(test.start);
        // An end by time is as planned; any other end is at the current time.
        let duration = test.ended.unwrap_or(now).max(Duration::from_nanos(1));
        let mut notes = Vec::new();
        if self.options.reverse {
            notes.push("the sender's window, RTT and state are known every tenth row".to_owned());
            test.received = test.got.rows().to_vec();
            if failed.is_some() {
                test.total = test.receiving.bytes;
            }
            if test.rows.is_empty() {
                notes.push(
                    "the sender's window, RTT and state are not known: the test failed".to_owned(),
                );
            }
        } else {
            test.rows = test.sent.rows().to_vec();
            test.rows.push(Row::new(duration, &self.link.stats()));
            // Data that arrives after the end of the test does not count.
            let nth = (duration.as_nanos() / self.interval.as_nanos()) as usize;
            let at_end = test.received.get(nth).or(test.received.last()).copied();
            if test.finished.is_none() || failed.is_some() {
                test.total = at_end.unwrap_or(0);
            }
        }
        let last = test.rows.last().cloned().unwrap_or_default();
        let seconds = duration.as_secs_f64();
        let total = Report {
            start_ns: 0,
            end_ns: duration.as_nanos(),
            bytes: test.total,
            goodput_bps: (seconds > 0.0).then(|| test.total as f64 * 8.0 / seconds),
            rtt_ns: last.srtt,
            cwnd_bytes: last.cwnd,
            lost_packets: (!test.rows.is_empty()).then_some(last.lost),
        };
        let measured = Measured {
            cc: self.options.cc.clone(),
            peer: self.options.server.to_string(),
            reverse: self.options.reverse,
            streams: self.options.streams,
            interval: self.interval,
            duration,
            mtu: self.link.connection.current_mtu(),
            rows: test.rows,
            received: test.received,
            total: test.total,
            finished: test.finished,
            incomplete: failed.as_ref().map(ToString::to_string),
            notes,
        };
        let handshake = self.connected.unwrap_or(self.begun).since(self.begun);
        Ok(Outcome {
            total,
            run: measured.into_run(),
            failed,
            handshake_ns: handshake.as_nanos(),
        })
    }
}

/// How long a server has sent. Its clock counts, as the client may have been busy, but no test takes longer than the
/// client has asked for, or has waited.
fn length(told_ns: u64, asked: Option<Duration>, here: Duration) -> Duration {
    let longest = asked.unwrap_or(Duration::MAX).min(here + GRACE);
    Duration::from_nanos(told_ns).min(longest)
}

impl Test {
    /// Refuses more from a server than a test has.
    fn check(&self) -> Result<(), Error> {
        let orderly = self.rows.is_sorted_by(|one, next| one.t <= next.t);
        match self.rows.len().max(self.received.len()) as u64 > MOST || !orderly {
            true => Err(Error::new(
                Kind::Peer,
                "the server reports what no test has",
            )),
            false => Ok(()),
        }
    }

    /// Refuses a server that does not end a test.
    fn check_end(&self, now: Instant) -> Result<(), Error> {
        let over = self.ended.map(|ended| self.start + ended + GRACE);
        match over.is_some_and(|over| now > over) {
            true => Err(Error::new(
                Kind::Vanished,
                "the server does not end the test",
            )),
            false => Ok(()),
        }
    }

    /// When the meter is due.
    fn due(&self) -> Instant {
        match &self.sending {
            _ if self.ended.is_some() => Instant::MAX,
            Some(_) => self.sent.due(),
            None => self.got.due(),
        }
    }

    /// The bytes received at each row.
    fn counts(&self) -> &[u64] {
        match &self.sending {
            Some(_) => &self.received,
            None => self.got.rows(),
        }
    }

    fn report_until(
        &mut self,
        end: Duration,
        interval: Duration,
        on_report: &mut dyn FnMut(&Report),
    ) {
        let at = |time: u64| {
            let nth = (time / interval.as_nanos()) as usize;
            let counts = self.counts();
            counts.get(nth).or(counts.last()).copied().unwrap_or(0)
        };
        let from = self.reported.end_ns;
        let bytes = at(end.as_nanos()).saturating_sub(at(from));
        let row = |time: u64| {
            let rows = self.sent.rows();
            rows.get((time / interval.as_nanos()) as usize)
                .or(rows.last())
        };
        let lost = row(end.as_nanos()).zip(row(from));
        let seconds = Duration::from_nanos(end.as_nanos() - from).as_secs_f64();
        let now = row(end.as_nanos());
        let report = Report {
            start_ns: from,
            end_ns: end.as_nanos(),
            bytes,
            goodput_bps: (seconds > 0.0).then(|| bytes as f64 * 8.0 / seconds),
            rtt_ns: now.and_then(|row| row.rtt),
            cwnd_bytes: now.and_then(|row| row.cwnd),
            lost_packets: lost.map(|(now, then)| now.lost.saturating_sub(then.lost)),
        };
        on_report(&report);
        self.reported = report;
    }
}

fn choose(cc: &str) -> Result<Chosen, Error> {
    let seed = u64::from_be_bytes(tls::random().map_err(system)?);
    let as_error = |error: paceline_quic::quinn::ControllerError| {
        Error::new(Kind::Controller, error.to_string())
    };
    Chosen::new(&controller(cc)?, seed, 10, DATAGRAM).map_err(as_error)
}

fn system(error: impl std::fmt::Display) -> Error {
    io::Error::other(error.to_string()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test() -> Test {
        let start = Instant::from_nanos(5);
        Test {
            start,
            sending: None,
            receiving: Receiving::default(),
            rows: Vec::new(),
            sent: Meter::new(start, Duration::from_millis(10)),
            got: Meter::new(start, Duration::from_millis(10)),
            received: Vec::new(),
            ended: None,
            finished: None,
            total: 0,
            reported: Report::default(),
        }
    }

    #[test]
    fn a_server_does_not_make_a_test_longer_than_it_was() {
        let seconds = Duration::from_secs;
        let length = |reported, planned, here| length(reported, planned, seconds(here));
        assert_eq!(length(2_000_000_000, None, 3), seconds(2));
        assert_eq!(length(u64::MAX, None, 3), seconds(3) + GRACE);
        assert_eq!(length(u64::MAX, Some(seconds(1)), 3), seconds(1));
    }

    #[test]
    fn a_server_reports_no_more_than_a_test_has() {
        let mut test = test();
        assert!(test.check().is_ok());
        test.received = vec![0; MOST as usize + 1];
        assert!(test.check().is_err());
        test.received.clear();
        let row = |t| Row {
            t,
            ..Row::default()
        };
        test.rows = vec![row(1), row(2), row(2)];
        assert!(test.check().is_ok());
        test.rows = vec![row(2), row(1)];
        assert!(test.check().is_err());
        test.rows = vec![row(1); MOST as usize + 1];
        assert!(test.check().is_err());
    }

    #[test]
    fn a_server_has_to_end_a_test() {
        let mut test = test();
        let late = test.start + Duration::from_secs(100);
        assert!(test.check_end(late).is_ok());
        test.ended = Some(Duration::from_secs(95));
        assert!(test.check_end(late).is_ok());
        test.ended = Some(Duration::from_secs(80));
        assert!(test.check_end(late).is_err());
    }
}
