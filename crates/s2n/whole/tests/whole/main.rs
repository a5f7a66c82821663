//! The whole stack over a bottleneck, in the virtual time of s2n-quic's own test network: a client sends, the server reads.

mod defects;
mod network;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use paceline_s2n::Factory;
use s2n_quic::client::Connect;
use s2n_quic::provider::congestion_controller::{Bbr, Endpoint};
use s2n_quic::provider::io::testing::{self, primary, spawn, time};
use s2n_quic::provider::{limits::Limits, random, tls};
use s2n_quic::stream::{PeerStream, SendStream};
use s2n_quic::{Client, Server};
use s2n_quic_core::crypto::tls::null;

use network::{Bottleneck, Path};

/// s2n-quic's handshake without cryptography.
struct Null;

impl tls::Provider for Null {
    type Server = null::Endpoint;
    type Client = null::Endpoint;
    type Error = Infallible;

    fn start_server(self) -> Result<null::Endpoint, Infallible> {
        Ok(null::Endpoint::new(None))
    }

    fn start_client(self) -> Result<null::Endpoint, Infallible> {
        Ok(null::Endpoint::new(None))
    }
}

/// Draws from a seed: an end's own are the operating system's.
#[derive(Debug)]
struct Draws(u64);

impl random::Provider for Draws {
    type Generator = Self;
    type Error = Infallible;

    fn start(self) -> Result<Self, Infallible> {
        Ok(self)
    }
}

impl random::Generator for Draws {
    fn public_random_fill(&mut self, room: &mut [u8]) {
        for byte in room {
            self.0 = network::next(self.0);
            *byte = (self.0 >> 56) as u8;
        }
    }

    fn private_random_fill(&mut self, room: &mut [u8]) {
        self.public_random_fill(room);
    }
}

type Failed = Box<dyn std::error::Error>;

/// What a flow writes.
#[derive(Clone, Copy)]
enum App {
    Bulk,
    Sized(usize),
    /// So many bytes at each of these intervals.
    Frames(usize, Duration),
}

/// The measurements of a run.
#[derive(Clone, Copy, Debug)]
struct Summary {
    /// Goodput in the second half, in bit/s.
    goodput: f64,
    delivered: u64,
    /// The median time that a data packet waited in the queue, in the second half.
    queue: Duration,
    dropped: u64,
    /// When the last byte was read.
    ended: Duration,
}

const PIECE: usize = 1 << 16;

/// Runs `seconds` of a flow.
fn run<C: Endpoint>(path: Path, app: App, seconds: f64, controller: C) -> Summary {
    let read = Arc::new(AtomicU64::new(0));
    let ended = Arc::new(AtomicU64::new(0));
    let (network, log) = Bottleneck::new(path);
    let half = Duration::from_secs_f64(seconds / 2.0);
    let at_half = Arc::new(AtomicU64::new(0));
    let (bytes, middle, last) = (read.clone(), at_half.clone(), ended.clone());
    testing::test(network, |handle| {
        let limits = Limits::new()
            .with_data_window(1 << 30)?
            .with_unidirectional_data_window(1 << 30)?
            .with_max_send_buffer_size(1 << 24)?;
        let io = handle.builder().build()?;
        let mut server = Server::builder()
            .with_io(io)?
            .with_tls(Null)?
            .with_random(Draws(1))?
            .with_limits(limits)?
            .start()?;
        let address = server.local_addr()?;
        let counted = bytes.clone();
        spawn(async move {
            let Some(mut connection) = server.accept().await else {
                return;
            };
            while let Ok(Some(stream)) = connection.accept().await {
                let PeerStream::Receive(mut stream) = stream else {
                    continue;
                };
                while let Ok(Some(chunk)) = stream.receive().await {
                    counted.fetch_add(chunk.len() as u64, Relaxed);
                    let now = time::now().saturating_duration_since(network::start());
                    last.store(now.as_micros() as u64, Relaxed);
                }
            }
        });
        let io = handle.builder().build()?;
        let builder = Client::builder()
            .with_io(io)?
            .with_tls(Null)?
            .with_random(Draws(2))?
            .with_limits(limits)?;
        let client = builder.with_congestion_controller(controller)?.start()?;
        spawn(async move {
            // What ends it is the end of the run.
            let _ = send(&client, address, app).await;
        });
        primary::spawn(async move {
            time::delay(half).await;
            middle.store(bytes.load(Relaxed), Relaxed);
            time::delay(half).await;
        });
        Ok(())
    })
    .expect("a run");
    let delivered = read.load(Relaxed);
    let late = delivered - at_half.load(Relaxed);
    let (queue, dropped) = log.summary(half);
    Summary {
        goodput: late as f64 * 8.0 / half.as_secs_f64(),
        delivered,
        queue,
        dropped,
        ended: Duration::from_micros(ended.load(Relaxed)),
    }
}

async fn send(client: &Client, address: SocketAddr, app: App) -> Result<(), Failed> {
    let connect = Connect::new(address).with_server_name("localhost");
    let mut connection = client.connect(connect).await?;
    let mut stream = connection.open_send_stream().await?;
    match app {
        App::Bulk => loop {
            write(&mut stream, PIECE).await?;
        },
        App::Sized(size) => {
            write(&mut stream, size).await?;
            stream.finish()?;
        }
        App::Frames(size, every) => loop {
            write(&mut stream, size).await?;
            time::delay(every).await;
        },
    }
    // The connection lasts as long as the run.
    time::delay(Duration::from_secs(3600)).await;
    Ok(())
}

async fn write(stream: &mut SendStream, size: usize) -> Result<(), Failed> {
    Ok(stream.send(vec![0; size].into()).await?)
}

fn ours(name: &str) -> Factory {
    Factory::named(name).expect("a controller")
}

/// s2n-quic's own BBR.
fn theirs() -> Bbr {
    Bbr::default()
}

/// Equal to the byte count and to the microsecond.
#[test]
fn two_runs_are_equal() {
    let summary = || {
        format!(
            "{:?}",
            run(
                Path {
                    loss: 0.001,
                    ..Path::new(20, 40)
                },
                App::Bulk,
                4.0,
                ours("bbr3")
            )
        )
    };
    assert_eq!(summary(), summary());
}

/// Of 20 and 100 Mbit/s with 20 and 100 ms and one BDP of buffer.
#[test]
fn bbr3_fills_a_link_and_keeps_its_queue_short() {
    for (rate, rtt) in [(20, 20), (20, 100), (100, 20)] {
        let summary = run(Path::new(rate, rtt), App::Bulk, 8.0, ours("bbr3"));
        let share = summary.goodput / (f64::from(rate) * 1e6);
        assert!(share > 0.9, "{rate} Mbit/s, {rtt} ms: {summary:?}");
        let half = Duration::from_millis(u64::from(rtt) / 4);
        assert!(summary.queue < half, "{rate} Mbit/s, {rtt} ms: {summary:?}");
    }
}
