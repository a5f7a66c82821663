//! [s2n-quic](https://docs.rs/s2n-quic) 1.91 behind `paceline_endpoint.h`.
//!
//! The stack is whole and unmodified. Its providers of time, input, output, draws and identifiers are ours: it runs in
//! the engine's time, and equal seeds give equal datagrams.

mod driven;
mod null;
mod seeded;
mod watch;

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::{LazyLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time;

use bytes::Bytes;
use paceline_capi::{EndConfig, OwnStack};
use paceline_endpoint::{Amount, Batch, Datagram, Endpoint, Stats, Write};
use paceline_units::{Bytes as Volume, Duration, Instant, Rate};
use s2n_quic::client::{Connect, ConnectionAttempt};
use s2n_quic::provider::congestion_controller::{Bbr, Cubic};
use s2n_quic::provider::limits::Limits;
use s2n_quic::stream::{ReceiveStream, SendStream};
use s2n_quic::{Client, Connection, Server};
use s2n_quic_core::inet::datagram::Header;
use s2n_quic_core::path::{Tuple, mtu};

use driven::{AT_ONCE, Arrived, Driven, Io, Outbox, Slot, codepoint};
use null::Null;
use seeded::{Ids, NoTokens, Random};
use watch::Watch;

paceline_capi::export_stack!(End);

/// Addresses that nobody looks at.
const CLIENT: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 40_001);
const SERVER: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), 40_002);
/// Bytes of the headers of IPv4 and UDP, which s2n-quic counts in.
const HEADERS: u32 = 28;
/// What is written: nobody looks at it.
static ZEROS: LazyLock<Bytes> = LazyLock::new(|| Bytes::from(vec![0; 1 << 17]));
/// Datagrams that the application writes ahead of what was sent: more than are taken at once, as else the last of these
/// were application-limited, and few, as what is written is sent when the application has stopped.
const AHEAD: u64 = AT_ONCE as u64 + 2;
/// The shortest wait of its timers, as those of other stacks have it.
const TIMER_FLOOR: Duration = Duration::from_micros(50);
/// Bytes that a receiver and a sender are willing to hold: more than any path of a scenario does.
const WINDOW: u32 = 256 << 20;

/// One end of a connection.
pub struct End {
    endpoint: Box<dyn Driven>,
    role: Role,
    watch: Watch,
    outbox: Outbox,
    /// What the application has to write, whether there is always more, and whether nothing follows.
    unwritten: u64,
    unlimited: bool,
    closes: bool,
    written: u64,
    delivered: u64,
    now: Instant,
    failure: Option<String>,
}

/// What the application has of s2n-quic.
enum Role {
    Client {
        /// It keeps the endpoint open.
        _client: Client,
        attempt: Option<Pin<Box<ConnectionAttempt>>>,
        connection: Option<Connection>,
        stream: Option<SendStream>,
    },
    Server {
        server: Server,
        connection: Option<Connection>,
        stream: Option<ReceiveStream>,
    },
}

impl OwnStack for End {
    const NAME: &'static str = "s2n";
    const SUMMARY: &'static str = "s2n-quic, of AWS, without cryptography";
    const VERSION: &'static str = "1.91.0";
    const CONTROLLERS: &'static str = "bbr,cubic";

    fn new(config: &EndConfig<'_>, options: &[(&str, &str)]) -> Result<Self, String> {
        if let Some((name, _)) = options.first() {
            return Err(format!("it has no options, and `{name}` was given"));
        }
        if !(1200..=65_000).contains(&config.max_datagram) {
            return Err("datagrams are of 1200 to 65000 bytes (RFC 9000 section 14)".to_owned());
        }
        let watch = Watch::default();
        let slot = Slot::default();
        let role = match (config.sends, config.controller) {
            (false, _) => server(config, &slot),
            (true, "bbr") => {
                // Its first state is no change.
                watch.latest().phase = "Startup";
                client(config, &slot, &watch, Bbr::default())
            }
            (true, _) => client(config, &slot, &watch, Cubic::default()),
        }?;
        let endpoint = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut end = Self {
            endpoint: endpoint.ok_or("s2n-quic did not start its endpoint")?,
            role,
            watch,
            outbox: Outbox {
                waiting: VecDeque::new(),
                max_datagram: config.max_datagram as usize,
            },
            unwritten: 0,
            unlimited: false,
            closes: false,
            written: 0,
            delivered: 0,
            now: config.now,
            failure: None,
        };
        end.proceed();
        Ok(end)
    }
}

fn limits() -> Result<Limits, String> {
    let wrong = |error: s2n_quic_core::transport::parameters::ValidationError| error.to_string();
    let window = u64::from(WINDOW);
    Limits::new()
        .with_data_window(window)
        .and_then(|limits| limits.with_unidirectional_data_window(window))
        .and_then(|limits| limits.with_max_send_buffer_size(WINDOW))
        // The engine's flows end when the scenario says so.
        .and_then(|limits| limits.with_max_idle_timeout(time::Duration::ZERO))
        .and_then(|limits| limits.with_max_handshake_duration(time::Duration::from_secs(3600)))
        .map_err(wrong)
}

fn io(config: &EndConfig<'_>, slot: &Slot) -> Result<Io, String> {
    let size = u16::try_from(config.max_datagram + HEADERS).unwrap_or(u16::MAX);
    let mtu = mtu::Config::builder()
        .with_max_mtu(size)
        .and_then(|mtu| mtu.with_initial_mtu(size))
        .and_then(|mtu| mtu.with_base_mtu(size))
        .and_then(mtu::Builder::build)
        .map_err(|error| error.to_string())?;
    Ok(Io {
        slot: slot.clone(),
        local: if config.sends { CLIENT } else { SERVER }.into(),
        mtu,
    })
}

/// Any error of s2n-quic's builders, in words.
fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// A client or a server with these providers. Each step has a type of its own.
macro_rules! built {
    ($what:ident, $($step:ident($provider:expr)),* $(,)?) => {
        $what::builder()$(.$step($provider).map_err(told)?)*.start().map_err(told)?
    };
}

fn client(
    config: &EndConfig<'_>,
    slot: &Slot,
    watch: &Watch,
    controller: impl s2n_quic::provider::congestion_controller::Endpoint,
) -> Result<Role, String> {
    let client = built!(
        Client,
        with_io(io(config, slot)?),
        with_tls(Null),
        with_random(Random(config.seed)),
        with_connection_id(Ids(config.seed)),
        with_stateless_reset_token(NoTokens),
        with_limits(limits()?),
        with_congestion_controller(controller),
        with_event(watch.clone()),
    );
    let connect = Connect::new(SERVER).with_server_name(null::NAME);
    let attempt = Box::pin(client.connect(connect));
    Ok(Role::Client {
        _client: client,
        attempt: Some(attempt),
        connection: None,
        stream: None,
    })
}

fn server(config: &EndConfig<'_>, slot: &Slot) -> Result<Role, String> {
    let server = built!(
        Server,
        with_io(io(config, slot)?),
        with_tls(Null),
        with_random(Random(config.seed)),
        with_connection_id(Ids(config.seed)),
        with_stateless_reset_token(NoTokens),
        with_address_token(NoTokens),
        with_limits(limits()?),
    );
    Ok(Role::Server {
        server,
        connection: None,
        stream: None,
    })
}

/// The value of a poll that is ready.
fn ready<T>(poll: Poll<T>) -> Option<T> {
    match poll {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

impl End {
    /// All that follows from what has happened, in the endpoint and in the application.
    fn proceed(&mut self) {
        loop {
            if let Err(why) = self.application() {
                self.failure.get_or_insert(why);
                return;
            }
            if !self.endpoint.wake(self.now) {
                return;
            }
        }
    }

    /// Sends, and sees whether that leaves nothing to send and room in the window.
    fn transmit(&mut self, now: Instant) {
        let before = self.watch.latest().packets;
        self.endpoint.transmit(now, &mut self.outbox);
        let mut latest = self.watch.latest();
        let room = latest
            .path
            .map_or(0, |path| path.cwnd.saturating_sub(path.in_flight));
        if latest.packets > before
            && latest.stream_sent >= self.written
            && room >= self.outbox.max_datagram as u64
        {
            latest.mark_app_limited();
        }
    }

    /// What the application reads and writes.
    fn application(&mut self) -> Result<(), String> {
        let context = &mut Context::from_waker(Waker::noop());
        match &mut self.role {
            Role::Client {
                attempt,
                connection,
                stream,
                ..
            } => {
                if let Some(waiting) = attempt
                    && let Some(outcome) = ready(waiting.as_mut().poll(context))
                {
                    *attempt = None;
                    *connection = Some(outcome.map_err(told)?);
                }
                if let Some(connection) = connection
                    && stream.is_none()
                    && let Some(opened) = ready(connection.poll_open_send_stream(context))
                {
                    *stream = Some(opened.map_err(told)?);
                }
                self.write_on()
            }
            Role::Server {
                server,
                connection,
                stream,
            } => {
                if connection.is_none() {
                    *connection = ready(server.poll_accept(context)).flatten();
                }
                if let Some(connection) = connection
                    && stream.is_none()
                    && let Some(accepted) = ready(connection.poll_accept_receive_stream(context))
                {
                    *stream = accepted.map_err(told)?;
                }
                if let Some(stream) = stream {
                    while let Some(read) = ready(stream.poll_receive(context)) {
                        match read.map_err(told)? {
                            Some(bytes) => self.delivered += bytes.len() as u64,
                            None => break,
                        }
                    }
                }
                Ok(())
            }
        }
    }

    /// Writes a little ahead of what was sent: what the application stops writing stops.
    fn write_on(&mut self) -> Result<(), String> {
        let Role::Client {
            stream: Some(stream),
            ..
        } = &mut self.role
        else {
            return Ok(());
        };
        let context = &mut Context::from_waker(Waker::noop());
        let sent = self.watch.latest().stream_sent;
        let most = sent.saturating_add(AHEAD * self.outbox.max_datagram as u64);
        while (self.unlimited || self.unwritten > 0) && self.written < most {
            let Some(room) = ready(stream.poll_send_ready(context)) else {
                return Ok(());
            };
            let wanted = match self.unlimited {
                true => u64::MAX,
                false => self.unwritten,
            };
            let piece = wanted
                .min(most - self.written)
                .min(ZEROS.len() as u64)
                .min(room.map_err(told)? as u64);
            stream
                .send_data(ZEROS.slice(..piece as usize))
                .map_err(told)?;
            self.written += piece;
            self.unwritten = self.unwritten.saturating_sub(piece);
        }
        if self.closes && !self.unlimited && self.unwritten == 0 {
            self.closes = false;
            stream.finish().map_err(told)?;
        }
        Ok(())
    }
}

impl Endpoint for End {
    type Payload = Vec<u8>;

    fn receive(&mut self, now: Instant, datagram: Datagram<Vec<u8>>) {
        self.now = now;
        let (local, remote) = match self.role {
            Role::Client { .. } => (CLIENT, SERVER),
            Role::Server { .. } => (SERVER, CLIENT),
        };
        let path = Tuple {
            remote_address: s2n_quic_core::inet::SocketAddress::from(remote).into(),
            local_address: s2n_quic_core::inet::SocketAddress::from(local).into(),
        };
        let mut arrived = Arrived {
            header: Header {
                path,
                ecn: codepoint(datagram.ecn),
            },
            payload: datagram.payload,
        };
        self.endpoint.receive(now, &mut arrived);
        self.proceed();
    }

    fn on_timer(&mut self, now: Instant) {
        self.now = now;
        if self.endpoint.timeout().is_some_and(|due| due <= now) {
            self.transmit(now);
            self.proceed();
        }
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Batch<Vec<u8>>> {
        self.now = now;
        if self.outbox.waiting.is_empty() {
            self.transmit(now);
            // What has left makes room for the application.
            self.proceed();
        }
        self.outbox.waiting.pop_front()
    }

    fn next_timer(&mut self) -> Option<Instant> {
        let due = self.endpoint.timeout()?;
        Some(due.max(self.now + TIMER_FLOOR))
    }

    fn write(&mut self, now: Instant, write: Write) {
        self.now = now;
        if write.stop {
            self.unlimited = false;
        }
        match write.amount {
            Amount::None => {}
            Amount::Bytes(bytes) => self.unwritten = self.unwritten.saturating_add(bytes),
            Amount::Unlimited => self.unlimited = true,
        }
        self.closes |= write.close;
        self.proceed();
    }

    fn delivered(&self) -> u64 {
        self.delivered
    }

    fn stats(&self) -> Stats {
        let latest = *self.watch.latest();
        let gone = latest.bytes.saturating_sub(latest.lost_bytes);
        let common = Stats {
            pacing_rate: latest
                .pacing_rate
                .map(|rate| Rate::from_bps(rate.saturating_mul(8))),
            delivery_rate: latest.delivered.and_then(|(bytes, nanos)| {
                let bps = u128::from(bytes) * 8_000_000_000 / u128::from(nanos).max(1);
                u64::try_from(bps).ok().map(Rate::from_bps)
            }),
            sent_packets: latest.packets,
            lost_packets: latest.lost_packets,
            retransmitted_packets: latest.retransmitted,
            app_limited: latest.is_app_limited(),
            phase: latest.phase,
            ..Stats::default()
        };
        let Some(path) = latest.path else {
            return common;
        };
        Stats {
            cwnd: Some(Volume::new(path.cwnd)),
            in_flight: Volume::new(path.in_flight),
            acknowledged: Volume::new(gone.saturating_sub(path.in_flight)),
            latest_rtt: Some(Duration::from_nanos(path.latest_rtt)),
            srtt: Some(Duration::from_nanos(path.smoothed_rtt)),
            min_rtt: Some(Duration::from_nanos(path.min_rtt)),
            ..common
        }
    }

    fn phase(&self) -> &'static str {
        self.watch.latest().phase
    }

    fn failure(&self) -> Option<String> {
        self.failure.clone()
    }
}
