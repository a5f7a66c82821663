//! [quinn](https://docs.rs/quinn-proto) 0.11.

mod null;
mod watched;

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, LazyLock};
use std::time;

use bytes::{Bytes, BytesMut};
use paceline_congestion::{Controller as _, Signals};
use paceline_endpoint::{Amount, Batch, Datagram, Ecn, Endpoint, Stats, Write};
use paceline_quinn::{Adapter, Factory, Pace};
use paceline_recovery::Pacer;
use paceline_units::{self as units, Duration, Instant};
use quinn_proto::congestion::{
    BbrConfig, Controller, ControllerFactory, CubicConfig, NewRenoConfig,
};
use quinn_proto::{
    self as proto, ClientConfig, Connection, ConnectionHandle, ConnectionId, ConnectionIdGenerator,
    DatagramEvent, Dir, EcnCodepoint, EndpointConfig, Event, ServerConfig, StreamEvent, StreamId,
    TimeSource, TransportConfig, VarInt,
};

use crate::assembly::Assembly;
use crate::config::{Choice, EndConfig, paced};
use crate::watch::Watch;
use null::Null;
use watched::Watched;

/// What a controller of ours is told and has done for it.
pub const SIGNALS: Signals = paced(paceline_quinn::SIGNALS);

/// quinn's own controllers.
pub const CONTROLLERS: &[&str] = &["bbr", "cubic", "newreno"];

include!("end.rs");

/// Makes the controller that the end is to have; and the pace, if it is one of ours.
fn factory(
    config: &EndConfig,
    pace: Pace,
    watch: &Watch,
) -> (Arc<dyn ControllerFactory + Send + Sync>, Option<Pace>) {
    if config.sends
        && let Choice::Ours(recipe) = &config.controller
    {
        // A scenario is checked before it comes to this.
        if let Ok(factory) = Factory::paced(recipe.clone(), pace.clone()) {
            let factory = factory.seed(config.seed);
            let factory = factory.initial_packets(config.initial_packets);
            return (Arc::new(factory), Some(pace));
        }
    }
    let theirs: Arc<dyn ControllerFactory + Send + Sync> = match config.controller {
        Choice::Theirs("bbr") => Arc::new(BbrConfig::default()),
        Choice::Theirs("newreno") => Arc::new(NewRenoConfig::default()),
        _ => Arc::new(CubicConfig::default()),
    };
    (Arc::new(Watched::new(theirs, watch.clone())), None)
}

fn transport(
    config: &EndConfig,
    factory: Arc<dyn ControllerFactory + Send + Sync>,
) -> TransportConfig {
    let window = VarInt::from_u64(config.receive_window).unwrap_or(VarInt::MAX);
    let mut transport = TransportConfig::default();
    transport
        .congestion_controller_factory(factory)
        .initial_mtu(config.max_datagram)
        .min_mtu(config.max_datagram)
        .mtu_discovery_config(None)
        .enable_segmentation_offload(config.gso)
        .stream_receive_window(window)
        .receive_window(window)
        // The engine's flows end when the scenario says so.
        .max_idle_timeout(None);
    transport
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

/// Writes what the stream takes; how much that is.
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
