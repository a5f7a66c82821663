//! A server: one test at a time, for clients that have its token.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use bytes::Bytes;
use paceline_quic::quinn::{Chosen, Slot};
use paceline_quic::tls::{self, Identity};
use paceline_units::{Duration, Instant};
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{
    ConnectionError, DatagramEvent, Dir, Endpoint, Event, Incoming, ServerConfig, StreamEvent,
    VarInt,
};

use crate::control::Control;
use crate::error::{Error, Kind, printable};
use crate::link::{Clock, Link};
use crate::message::{ClientMessage, ROWS, Request, Row, ServerMessage};
use crate::meter::Meter;
use crate::setup::{
    ALPN, DATAGRAM, MOST_STREAMS, PATIENCE, SILENCE, STRANGERS_WINDOW, WINDOW, controller,
    endpoint, transport,
};
use crate::token::{Secret, Token};
use crate::transfer::{Receiving, Sending};
use crate::wire::Wire;

/// The maximum size of a request: one line.
const QUESTION: usize = 4096;
/// The maximum number of connections, of which one runs the test.
const CONNECTIONS: usize = 16;
/// How often a receiver reports the bytes received.
const NEWS: Duration = Duration::from_millis(100);
/// How much longer than its duration a test may take: its end has to cross the path.
const GRACE: Duration = Duration::from_secs(10);
/// One in this many of a sender's rows is reported: reports share the path with everything else.
const TOLD: usize = 10;

/// The limits of a server.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The longest test.
    pub time: Duration,
    /// The maximum bytes of a test.
    pub bytes: u64,
    /// Whether it ends after one test.
    pub once: bool,
}

/// An event of a server.
#[derive(Clone, Debug)]
pub enum News {
    /// It is reachable.
    Listening {
        /// Its address.
        address: SocketAddr,
        /// Its token.
        token: Token,
    },
    /// A test begins.
    Started {
        /// The client.
        client: SocketAddr,
        /// The sender's controller.
        cc: String,
        /// Whether the server is the sender.
        reverse: bool,
    },
    /// A test ends.
    Ended {
        /// The client.
        client: SocketAddr,
        /// Bytes received, or sent and acknowledged.
        bytes: u64,
        /// How long it took.
        time: Duration,
        /// Why it ended early.
        failed: Option<Error>,
    },
    /// A client was refused.
    Refused {
        /// The client.
        client: SocketAddr,
        /// The reason.
        why: Error,
    },
}

/// Serves until it is stopped, or after one test if it is limited to one.
///
/// # Errors
/// The address cannot be used, or a system call fails.
pub fn server(
    address: SocketAddr,
    limits: Limits,
    stop: &AtomicBool,
    on_news: &mut dyn FnMut(News),
) -> Result<(), Error> {
    let wire = Wire::bind(address).map_err(|error| {
        let hint = if error.kind() == io::ErrorKind::AddrInUse {
            ": another program uses this port; name another one, or port 0 for any that is free"
        } else {
            ""
        };
        Error::new(
            Kind::Address,
            format!("{address} cannot be used: {error}{hint}"),
        )
    })?;
    let identity = Identity::of(tls::random().map_err(system)?).map_err(system)?;
    let token = Token {
        secret: Secret::new(tls::random().map_err(system)?),
        fingerprint: identity.fingerprint(),
    };
    let tls = identity.server(ALPN).map_err(system)?;
    let tls = Arc::new(QuicServerConfig::try_from(tls).map_err(system)?);
    let first = Arc::new(ServerConfig::with_crypto(tls.clone()));
    let endpoint = Endpoint::new(endpoint(), Some(first), !wire.may_fragment(), None);
    on_news(News::Listening {
        address: wire.local()?,
        token: token.clone(),
    });
    let mut server = Server {
        clock: Clock::new(),
        wire,
        endpoint,
        tls,
        secret: token.secret,
        limits,
        peers: BTreeMap::new(),
        is_over: false,
    };
    while !server.is_over {
        if stop.load(Relaxed) {
            server.close_all(on_news);
            break;
        }
        server.turn(on_news)?;
    }
    Ok(())
}

struct Server {
    clock: Clock,
    wire: Wire,
    endpoint: Endpoint,
    tls: Arc<QuicServerConfig>,
    secret: Secret,
    limits: Limits,
    peers: BTreeMap<usize, Peer>,
    is_over: bool,
}

/// A connection of a client.
struct Peer {
    link: Link,
    slot: Slot,
    since: Instant,
    control: Option<Control>,
    test: Option<Test>,
    /// Whether the server is finished with it and ignores further messages.
    is_closed: bool,
}

/// A test in progress.
struct Test {
    start: Instant,
    /// The deadline.
    until: Instant,
    time: Duration,
    sending: Option<Sending>,
    sent: Meter<Row>,
    receiving: Receiving,
    got: Meter<u64>,
    reported: usize,
    news: Instant,
    /// How long it took.
    ended: Option<Duration>,
    /// Why it ended early; the client already knows.
    failed: Option<Error>,
}

/// The outcome of a turn of a peer.
enum Turn {
    Goes,
    Started { cc: String, reverse: bool },
    Ended(Option<Error>),
    Refused(Error),
}

impl Server {
    fn turn(&mut self, on_news: &mut dyn FnMut(News)) -> Result<(), Error> {
        for peer in self.peers.values_mut() {
            peer.link.turn(&mut self.wire)?;
        }
        self.receive(on_news)?;
        let now = self.clock.now();
        let mut peers = self.peers.iter();
        let tester = peers.find(|(_, peer)| peer.is_testing());
        let mut tester = tester.map(|(number, _)| *number);
        let mut until = now + PATIENCE;
        for (number, peer) in &mut self.peers {
            let is_free = tester.is_none_or(|tester| tester == *number);
            let client = peer.link.connection.remote_address();
            match peer.turn(&mut self.endpoint, now, &self.secret, self.limits, is_free) {
                Turn::Goes => {}
                Turn::Started { cc, reverse } => {
                    tester = Some(*number);
                    on_news(News::Started {
                        client,
                        cc,
                        reverse,
                    });
                }
                Turn::Refused(why) => {
                    peer.close(self.clock, &why);
                    on_news(News::Refused { client, why });
                }
                Turn::Ended(failed) => {
                    if let Some(failed) = &failed {
                        peer.close(self.clock, failed);
                    }
                    peer.is_closed = true;
                    self.is_over = self.limits.once;
                    on_news(peer.ended(client, now, failed));
                }
            }
            peer.link.transmit(&mut self.wire, now)?;
            until = peer.due().map_or(until, |due| due.min(until));
        }
        self.peers
            .retain(|_, peer| !peer.link.connection.is_drained());
        if self.is_over {
            return Ok(());
        }
        self.wire.wait(until.since(self.clock.now()))?;
        Ok(())
    }

    fn receive(&mut self, on_news: &mut dyn FnMut(News)) -> Result<(), Error> {
        let mut arrived = Vec::new();
        while self.wire.receive(&mut |one| arrived.push(one))? {}
        // Not before they arrived.
        let now = self.clock.now();
        let mut room = Vec::new();
        for one in arrived {
            room.clear();
            let at = self.clock.at(now);
            let event = self
                .endpoint
                .handle(at, one.from, one.local, one.ecn, one.bytes, &mut room);
            match event {
                Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                    if let Some(peer) = self.peers.get_mut(&handle.0) {
                        peer.link.handle_event(event);
                    }
                }
                Some(DatagramEvent::Response(response)) => drop(self.wire.send(response, &room)?),
                Some(DatagramEvent::NewConnection(incoming)) => {
                    self.accept(incoming, now, on_news)?
                }
                None => {}
            }
        }
        Ok(())
    }

    fn accept(
        &mut self,
        incoming: Incoming,
        now: Instant,
        on_news: &mut dyn FnMut(News),
    ) -> Result<(), Error> {
        let mut room = Vec::new();
        let client = incoming.remote_address();
        if self.peers.len() >= CONNECTIONS {
            let response = self.endpoint.refuse(incoming, &mut room);
            self.wire.send(response, &room)?;
            let why = Error::new(Kind::Busy, "too many connections");
            on_news(News::Refused { client, why });
            return Ok(());
        }
        // A controller for each connection, chosen by its client.
        let slot = Slot::default();
        let mut config = ServerConfig::with_crypto(self.tls.clone());
        config.transport_config(Arc::new(transport(
            Arc::new(slot.clone()),
            STRANGERS_WINDOW,
        )));
        let config = Some(Arc::new(config));
        let accepted = self
            .endpoint
            .accept(incoming, self.clock.at(now), &mut room, config);
        match accepted {
            Ok((handle, connection)) => {
                let link = Link::new(handle, connection, self.clock);
                self.peers.insert(
                    handle.0,
                    Peer {
                        link,
                        slot,
                        since: now,
                        control: None,
                        test: None,
                        is_closed: false,
                    },
                );
            }
            Err(error) => {
                if let Some(response) = error.response {
                    self.wire.send(response, &room)?;
                }
            }
        }
        Ok(())
    }

    /// The server stops: notifies the connected clients.
    fn close_all(&mut self, on_news: &mut dyn FnMut(News)) {
        let now = self.clock.now();
        let why = Error::new(Kind::Stopped, "the server was stopped");
        for peer in self.peers.values_mut() {
            if peer.is_testing() {
                let client = peer.link.connection.remote_address();
                on_news(peer.ended(client, now, Some(why.clone())));
            }
            peer.close(self.clock, &why);
            // If it cannot be sent, the silence will show.
            let _ = peer.link.transmit(&mut self.wire, now);
        }
    }
}

impl Peer {
    fn is_testing(&self) -> bool {
        self.test.is_some() && !self.is_closed
    }

    /// One turn of a connection; `is_free` if no other has a test.
    fn turn(
        &mut self,
        endpoint: &mut Endpoint,
        now: Instant,
        secret: &Secret,
        limits: Limits,
        is_free: bool,
    ) -> Turn {
        while let Some(event) = self.link.poll(endpoint) {
            if let Err(turn) = self.on_event(event, now) {
                return turn;
            }
        }
        if self.is_closed {
            return Turn::Goes;
        }
        if self.test.is_none() {
            return self
                .read_request(now, secret, limits, is_free)
                .unwrap_or_else(Turn::Refused);
        }
        let ended = self.proceed(now, limits).err();
        if let Some(control) = &mut self.control {
            control.write(&mut self.link.connection);
        }
        ended.map_or(Turn::Goes, |failed| Turn::Ended(Some(failed)))
    }

    fn on_event(&mut self, event: Event, now: Instant) -> Result<(), Turn> {
        let connection = &mut self.link.connection;
        match event {
            Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) => {
                if let Some(id) = connection.streams().accept(Dir::Bi) {
                    let mut control = Control::new(id, QUESTION, connection);
                    let read = control.read(connection);
                    self.control = Some(control);
                    return self.read(read);
                }
            }
            Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) => self.take(),
            Event::Stream(StreamEvent::Readable { id }) => {
                let own = self.control.as_mut().filter(|control| control.is(id));
                if let Some(control) = own {
                    let read = control.read(connection);
                    return self.read(read);
                }
                self.take();
            }
            Event::Stream(StreamEvent::Finished { id }) => {
                if let Some(test) = &mut self.test
                    && let Some(sending) = &mut test.sending
                {
                    sending.acknowledged(id);
                }
            }
            Event::ConnectionLost { reason } if !self.is_closed => {
                let is_testing = self.test.is_some();
                let is_done = self.is_done();
                self.is_closed = true;
                let failed = lost(&reason);
                return Err(match (is_testing, is_done) {
                    (true, true) => {
                        let test = self.test.as_ref();
                        Turn::Ended(test.and_then(|test| test.failed.clone()))
                    }
                    (true, false) => {
                        self.end(now);
                        Turn::Ended(Some(failed))
                    }
                    (false, _) => Turn::Refused(failed),
                });
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether the test has ended and only the client has yet to learn of it.
    fn is_done(&self) -> bool {
        self.test.as_ref().is_some_and(|test| test.ended.is_some())
    }

    fn end(&mut self, now: Instant) {
        if let Some(test) = &mut self.test {
            test.ended.get_or_insert(now.since(test.start));
        }
    }

    fn read(&mut self, read: Result<(), Error>) -> Result<(), Turn> {
        read.map_err(|failed| match self.is_testing() {
            true => Turn::Ended(Some(failed)),
            false => Turn::Refused(failed),
        })
    }

    /// Reads data. Without a test, data stays unread and fills the window.
    fn take(&mut self) {
        if let Some(test) = &mut self.test {
            test.receiving.read(&mut self.link.connection);
        }
    }

    /// The client's request. Nothing before it proves that the client has the secret.
    fn read_request(
        &mut self,
        now: Instant,
        secret: &Secret,
        limits: Limits,
        is_free: bool,
    ) -> Result<Turn, Error> {
        if now.since(self.since) > SILENCE {
            return Err(Error::new(Kind::Token, "no token came in time"));
        }
        let Some(control) = &mut self.control else {
            return Ok(Turn::Goes);
        };
        let Some(request) = control.next::<Request>()? else {
            return Ok(Turn::Goes);
        };
        if !secret.is(&request.secret) {
            return Err(Error::new(Kind::Token, "the token is not this server's"));
        }
        if !is_free {
            let what = "the server has another test: try again when that is over";
            return Err(Error::new(Kind::Busy, what));
        }
        let over = |what: String| Err(Error::new(Kind::Limit, what));
        let time = request.time_ns.map(Duration::from_nanos);
        if time.is_some_and(|time| time > limits.time) {
            let seconds = limits.time.as_secs_f64();
            return over(format!(
                "the server allows tests of {seconds} s (its --max-time)"
            ));
        }
        if request.bytes.is_some_and(|bytes| bytes > limits.bytes) {
            let bytes = limits.bytes;
            return over(format!(
                "the server allows {bytes} bytes a test (its --max-bytes)"
            ));
        }
        if !(1..=MOST_STREAMS).contains(&request.streams) {
            return over(format!("a test has 1 to {MOST_STREAMS} streams"));
        }
        let cc = printable(&request.cc, 40);
        let connection = &mut self.link.connection;
        let sending = if request.reverse {
            let seed = u64::from_be_bytes(tls::random().map_err(system)?);
            let chosen = Chosen::new(&controller(&request.cc)?, seed, 10, DATAGRAM);
            let as_error = |error: paceline_quic::quinn::ControllerError| {
                Error::new(Kind::Controller, error.to_string())
            };
            let chosen = chosen.map_err(as_error)?;
            self.slot.set(chosen.factory());
            let open = Sending::open(connection, request.streams, request.bytes);
            let few = || Error::new(Kind::Limit, "the client allows fewer streams");
            let sending = open.ok_or_else(few)?;
            self.link.choose(chosen);
            Some(sending)
        } else {
            None
        };
        self.link.connection.set_receive_window(WINDOW);
        control.send(&ServerMessage::Started);
        // Before data uses up the send buffer: the client reads no data until it receives this
        // message.
        control.write(&mut self.link.connection);
        let interval = Duration::from_nanos(request.interval_ns);
        let interval = interval.clamp(Duration::from_millis(10), Duration::from_secs(1));
        let longest = time.unwrap_or(limits.time);
        let mut test = Test {
            start: now,
            until: now + longest + GRACE,
            time: longest,
            sending,
            sent: Meter::new(now, interval),
            receiving: Receiving::default(),
            got: Meter::new(now, interval),
            reported: 0,
            news: now,
            ended: None,
            failed: None,
        };
        test.receiving.read(&mut self.link.connection);
        self.test = Some(test);
        Ok(Turn::Started {
            cc,
            reverse: request.reverse,
        })
    }

    /// The server's data, measurements and reports.
    fn proceed(&mut self, now: Instant, limits: Limits) -> Result<(), Error> {
        let Some((test, control)) = self.test.as_mut().zip(self.control.as_mut()) else {
            return Ok(());
        };
        if now > test.until {
            let what = "the test takes longer than the server allows";
            return Err(Error::new(Kind::Limit, what));
        }
        if test.receiving.bytes > limits.bytes {
            let bytes = limits.bytes;
            let what = format!("the server takes no more than {bytes} bytes (its --max-bytes)");
            return Err(Error::new(Kind::Limit, what));
        }
        if test.ended.is_some() {
            return Ok(());
        }
        let since = now.since(test.start);
        let link = &mut self.link;
        let Some(sending) = &mut test.sending else {
            let bytes = test.receiving.bytes;
            test.got.take(now, |_| bytes);
            let is_done = control.next::<ClientMessage>()?.is_some();
            if is_done || now >= test.news {
                test.news = now + NEWS;
                let rows = test.got.rows().get(test.reported..).unwrap_or_default();
                if !rows.is_empty() {
                    let first = test.reported as u64;
                    let bytes = rows.to_vec();
                    test.reported += bytes.len();
                    control.send(&ServerMessage::Got { first, bytes });
                }
            }
            if is_done {
                test.ended = Some(since);
                control.send(&ServerMessage::End {
                    received: bytes,
                    time_ns: since.as_nanos(),
                    finished_ns: None,
                    failed: None,
                });
                control.end();
            }
            return Ok(());
        };
        // Sent in order on the stream, not with the close: a close may be lost along with data sent
        // before it.
        let bytes = limits.bytes;
        test.failed = (sending.written > bytes).then(|| {
            let what = format!("the server sends no more than {bytes} bytes (its --max-bytes)");
            Error::new(Kind::Limit, what)
        });
        if !sending.is_done() && since < test.time && test.failed.is_none() {
            sending.write(&mut link.connection);
            test.sent.take(now, |t| Row::new(t, &link.stats()));
            return Ok(());
        }
        let finished_ns = sending.is_done().then(|| since.as_nanos());
        sending.stop(&mut link.connection);
        test.ended = Some(since);
        let last = Row::new(since, &link.stats());
        let rows: Vec<Row> = test.sent.rows().iter().step_by(TOLD).cloned().collect();
        let rows = [rows, vec![last]].concat();
        for rows in rows.chunks(ROWS) {
            control.send(&ServerMessage::Rows(rows.to_vec()));
        }
        control.send(&ServerMessage::End {
            received: test.receiving.bytes,
            time_ns: since.as_nanos(),
            finished_ns,
            failed: test
                .failed
                .as_ref()
                .map(|failed| (failed.kind.code(), failed.message.clone())),
        });
        control.end();
        Ok(())
    }

    /// The report of its test.
    fn ended(&self, client: SocketAddr, now: Instant, failed: Option<Error>) -> News {
        let test = self.test.as_ref();
        let bytes = test.map_or(0, |test| match &test.sending {
            Some(_) => self.link.stats().acknowledged.get(),
            None => test.receiving.bytes,
        });
        let time = test.map_or(Duration::ZERO, |test| {
            test.ended.unwrap_or_else(|| now.since(test.start))
        });
        News::Ended {
            client,
            bytes,
            time,
            failed,
        }
    }

    fn close(&mut self, clock: Clock, why: &Error) {
        self.is_closed = true;
        let reason = Bytes::from(why.message.clone());
        let code = VarInt::from_u32(why.kind.code());
        self.link
            .connection
            .close(clock.at(clock.now()), code, reason);
    }

    /// When its next turn is due.
    fn due(&mut self) -> Option<Instant> {
        let link = self.link.due();
        let test = self.test.as_ref().filter(|test| test.ended.is_none());
        let meter = test.map(|test| match &test.sending {
            Some(_) => test.sent.due(),
            None => test.got.due(),
        });
        [link, meter].into_iter().flatten().min()
    }
}

fn lost(reason: &ConnectionError) -> Error {
    match reason {
        ConnectionError::TimedOut => Error::new(
            Kind::Vanished,
            "the client has vanished: nothing came from it for 5 s",
        ),
        ConnectionError::ApplicationClosed(_) => Error::new(Kind::Peer, "the client has ended it"),
        other => Error::new(Kind::Peer, printable(&other.to_string(), 300)),
    }
}

fn system(error: impl std::fmt::Display) -> Error {
    io::Error::other(error.to_string()).into()
}
