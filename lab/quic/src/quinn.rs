//! [quinn](https://docs.rs/quinn-proto) 0.11.

mod watched;

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, LazyLock};
use std::time;

use bytes::{Bytes, BytesMut};
use paceline_congestion::{Controller as _, Signals};
use paceline_endpoint::{Amount, Batch, Datagram, Ecn, Endpoint, Stats, Write};
pub use paceline_quinn::ControllerError;
use paceline_quinn::{Adapter, Factory, Pace};
use paceline_recovery::Pacer;
use paceline_units::{self as units, Crypto, Duration, Instant};
use quinn_proto::congestion::{
    BbrConfig, Controller, ControllerFactory, CubicConfig, NewRenoConfig,
};
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{
    self as proto, AckFrequencyConfig, ClientConfig, Connection, ConnectionHandle, ConnectionId,
    ConnectionIdGenerator, DatagramEvent, Dir, EcnCodepoint, EndpointConfig, Event, QlogConfig,
    ServerConfig, StreamEvent, StreamId, TimeSource, TransportConfig, VarInt,
};

use crate::assembly::Assembly;
use crate::config::{Choice, EndConfig, paced, their_window};
use crate::null::quinn::Null;
use crate::qlog::Qlog;
use crate::tls::{self, Identity, Mismatch};
use crate::watch::Watch;
use watched::Watching;

pub use watched::Slot;

/// The signals that a controller of ours gets, and the services it can use.
pub const SIGNALS: Signals = paced(paceline_quinn::SIGNALS);

/// quinn's own controllers.
pub const CONTROLLERS: &[&str] = &["bbr", "cubic", "newreno"];

include!("end.rs");

/// The controller of a connection that sends: its factory and its observed state.
pub struct Chosen {
    factory: Arc<dyn ControllerFactory + Send + Sync>,
    pace: Option<Pace>,
    watch: Watch,
}

impl Chosen {
    /// A controller for one connection whose datagrams have at most this size. Its sender must keep
    /// to the [`pace`](Self::pace).
    ///
    /// # Errors
    /// If it is one of ours that needs a signal that quinn does not give.
    pub fn new(
        choice: &Choice,
        seed: u64,
        initial_packets: u64,
        max_datagram: u16,
    ) -> Result<Self, ControllerError> {
        let watch = Watch::default();
        let theirs: Arc<dyn ControllerFactory + Send + Sync> = match choice {
            Choice::Ours(recipe) => {
                let pace = Pace::default();
                let factory = Factory::paced(recipe.clone(), pace.clone())?;
                let factory = factory.seed(seed).initial_packets(initial_packets);
                return Ok(Self {
                    factory: Arc::new(factory),
                    pace: Some(pace),
                    watch,
                });
            }
            // It begins with 200 datagrams.
            Choice::Theirs("bbr") => Arc::new(BbrConfig::default()),
            Choice::Theirs("newreno") => {
                let mut reno = NewRenoConfig::default();
                reno.initial_window(their_window(max_datagram));
                Arc::new(reno)
            }
            Choice::Theirs(_) => {
                let mut cubic = CubicConfig::default();
                cubic.initial_window(their_window(max_datagram));
                Arc::new(cubic)
            }
        };
        Ok(Self {
            factory: Arc::new(Watching {
                watch: watch.clone(),
                inner: theirs,
            }),
            pace: None,
            watch,
        })
    }

    /// Its factory.
    pub fn factory(&self) -> Arc<dyn ControllerFactory + Send + Sync> {
        self.factory.clone()
    }

    /// The pacing rate and burst size to keep to; none for quinn's own, which quinn paces.
    pub fn pace(&self) -> Option<&Pace> {
        self.pace.as_ref()
    }

    /// The state of its connection's sender.
    pub fn stats(&self, connection: &Connection) -> Stats {
        stats(connection, &self.watch)
    }
}

/// The controller of an end.
fn choose(config: &EndConfig) -> Chosen {
    let cubic = Choice::Theirs("cubic");
    let choice = match &config.controller {
        Choice::Ours(_) if !config.sends => &cubic,
        choice => choice,
    };
    let chosen = |choice| {
        let (packets, most) = (config.initial_packets, config.max_datagram);
        Chosen::new(choice, config.seed, packets, most)
    };
    // Scenarios are checked before they get here.
    let chosen = chosen(choice).or_else(|_| chosen(&cubic));
    chosen.unwrap_or_else(|_| unreachable!("quinn's own needs nothing"))
}

/// It has but one path, which ends with its connection.
fn keep_paths(_: &mut TransportConfig) {}

fn write_qlog(transport: &mut TransportConfig, qlog: &Qlog, base: time::Instant) {
    let mut config = QlogConfig::default();
    config.writer(Box::new(qlog.clone())).start_time(base);
    transport.qlog_stream(config.into_stream());
}

fn cid_generator(config: &mut EndpointConfig, first: u64) {
    config.cid_generator(move || Box::new(Counted(first)));
}

fn endpoint(config: EndpointConfig, server: Option<Arc<ServerConfig>>) -> proto::Endpoint {
    proto::Endpoint::new(Arc::new(config), server, false, None)
}

fn handle(
    endpoint: &mut proto::Endpoint,
    now: time::Instant,
    arrived: Arrived,
    room: &mut Vec<u8>,
) -> Option<DatagramEvent> {
    endpoint.handle(now, arrived.from, None, arrived.ecn, arrived.bytes, room)
}

fn transmit(
    connection: &mut Connection,
    now: time::Instant,
    most: usize,
    room: &mut Vec<u8>,
) -> Option<proto::Transmit> {
    connection.poll_transmit(now, most, room)
}

/// Writes as much as the stream accepts; returns how much that is.
fn write(connection: &mut Connection, stream: StreamId, pieces: &mut [Bytes]) -> usize {
    let written = connection.send_stream(stream).write_chunks(pieces);
    written.map_or(0, |written| written.bytes)
}

fn controller(connection: &Connection) -> Option<&dyn Controller> {
    Some(connection.congestion_state())
}

fn srtt(connection: &Connection) -> Option<time::Duration> {
    Some(connection.rtt())
}

/// Packets sent and lost, as the stack counts them.
fn counts(connection: &Connection, _told: (u64, u64)) -> (u64, u64) {
    let path = connection.stats().path;
    (path.sent_packets, path.lost_packets)
}
