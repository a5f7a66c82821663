//! [noq](https://docs.rs/noq-proto) 1.4.

mod watched;

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::sync::{Arc, LazyLock};
use std::time;

use bytes::{Bytes, BytesMut};
use noq_proto::congestion::{
    Bbr3Config, Controller, ControllerFactory, CubicConfig, NewRenoConfig,
};
use noq_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use noq_proto::{
    self as proto, AckFrequencyConfig, ClientConfig, Connection, ConnectionHandle, ConnectionId,
    ConnectionIdGenerator, DatagramEvent, Dir, EcnCodepoint, EndpointConfig, Event, FourTuple,
    PathId, QlogConfig, QlogFactory, ServerConfig, Side, StreamEvent, StreamId, TimeSource,
    TransportConfig, VarInt,
};
use paceline_adapter::Pace;
use paceline_congestion::{Controller as _, Signals};
use paceline_endpoint::{Amount, Batch, Datagram, Ecn, Endpoint, Stats, Write};
use paceline_noq::{Adapter, Factory};
use paceline_recovery::Pacer;
use paceline_units::{self as units, Crypto, Duration, Instant};

use crate::assembly::Assembly;
use crate::config::{Choice, EndConfig, their_window};
use crate::null::noq::Null;
use crate::qlog::Qlog;
use crate::tls::{self, Identity, Mismatch};
use crate::watch::Watch;
use watched::Watched;

/// The signals that a controller of ours gets, and the services it can use.
pub const SIGNALS: Signals = paceline_noq::SIGNALS;

/// noq's own controllers.
pub const CONTROLLERS: &[&str] = &["bbr3", "cubic", "newreno"];

include!("end.rs");

/// The controller of an end: its factory and its observed state.
struct Chosen {
    factory: Arc<dyn ControllerFactory + Send + Sync>,
    pace: Option<Pace>,
    watch: Watch,
}

/// The controller of an end. noq paces at the rate it asks for.
fn choose(config: &EndConfig) -> Chosen {
    let (pace, watch) = (None, Watch::default());
    if config.sends
        && let Choice::Ours(recipe) = &config.controller
    {
        // Scenarios are checked before they get here.
        if let Ok(factory) = Factory::new(recipe.clone()) {
            let factory = factory.seed(config.seed);
            let factory = Arc::new(factory.initial_packets(config.initial_packets));
            return Chosen {
                factory,
                pace,
                watch,
            };
        }
    }
    let window = their_window(config.max_datagram);
    let theirs: Arc<dyn ControllerFactory + Send + Sync> = match config.controller {
        Choice::Theirs("bbr3") => {
            let mut bbr3 = Bbr3Config::default();
            bbr3.initial_window(window);
            Arc::new(bbr3)
        }
        Choice::Theirs("newreno") => {
            let mut reno = NewRenoConfig::default();
            reno.initial_window(window);
            Arc::new(reno)
        }
        _ => {
            let mut cubic = CubicConfig::default();
            cubic.initial_window(window);
            Arc::new(cubic)
        }
    };
    Chosen {
        factory: Arc::new(Watched::new(theirs, watch.clone())),
        pace,
        watch,
    }
}

/// A path does not end by itself either.
fn keep_paths(transport: &mut TransportConfig) {
    transport.default_path_max_idle_timeout(None);
}

fn write_qlog(transport: &mut TransportConfig, qlog: &Qlog, base: time::Instant) {
    let qlog = qlog.clone();
    transport.qlog_factory(Arc::new(Written { qlog, base }));
}

/// Requests a qlog of every connection.
struct Written {
    qlog: Qlog,
    base: time::Instant,
}

impl QlogFactory for Written {
    fn for_connection(
        &self,
        _side: Side,
        _remote: SocketAddr,
        _initial_dst_cid: ConnectionId,
        _now: time::Instant,
    ) -> Option<QlogConfig> {
        let mut config = QlogConfig::new(Box::new(self.qlog.clone()));
        config.start_time(self.base);
        Some(config)
    }
}

fn cid_generator(config: &mut EndpointConfig, first: u64) {
    config.cid_generator(Arc::new(move || Box::new(Counted(first))));
}

fn endpoint(config: EndpointConfig, server: Option<Arc<ServerConfig>>) -> proto::Endpoint {
    proto::Endpoint::new(Arc::new(config), server, false)
}

fn handle(
    endpoint: &mut proto::Endpoint,
    now: time::Instant,
    arrived: Arrived,
    room: &mut Vec<u8>,
) -> Option<DatagramEvent> {
    let path = FourTuple::from_remote(arrived.from);
    endpoint.handle(now, path, arrived.ecn, arrived.bytes, room)
}

fn transmit(
    connection: &mut Connection,
    now: time::Instant,
    most: usize,
    room: &mut Vec<u8>,
) -> Option<proto::Transmit> {
    let most = NonZeroUsize::new(most).unwrap_or(NonZeroUsize::MIN);
    connection.poll_transmit(now, most, room)
}

/// Writes as much as the stream accepts; returns how much that is.
fn write(connection: &mut Connection, stream: StreamId, pieces: &mut [Bytes]) -> usize {
    let mut pieces = pieces;
    let written = connection.send_stream(stream).write_chunks(&mut pieces);
    written.unwrap_or(0)
}

fn controller(connection: &Connection) -> Option<&dyn Controller> {
    connection.congestion_state(PathId::ZERO)
}

fn srtt(connection: &Connection) -> Option<time::Duration> {
    connection.rtt(PathId::ZERO)
}

/// Packets sent and lost, as reported to the controller: asking noq needs its connection.
fn counts(_: &Connection, counted: (u64, u64)) -> (u64, u64) {
    counted
}
