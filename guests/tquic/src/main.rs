//! tquic in a process of its own. It reads the clock wherever it likes: here every clock shows the engine's time.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::LazyLock;
use std::time;

use bytes::Bytes;
use paceline_capi::EndConfig;
use paceline_endpoint::{Amount, Batch, Datagram, Ecn, Endpoint, Stats, Write};
use paceline_units::{Bytes as Volume, Duration, Instant, Rate};
use process::qlog::{self, Log};
use tquic::{Config, Connection, PacketInfo, PacketSendHandler, TlsConfig, TransportHandler};

process::seams!();

/// Addresses that nobody looks at.
const CLIENT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 1);
const SERVER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), 2);
/// What is written at once.
const PIECE: u64 = 1 << 17;
/// What is written: nobody looks at it.
static ZEROS: LazyLock<Bytes> = LazyLock::new(|| Bytes::from(vec![0; PIECE as usize]));
/// Bytes that a receiver takes in all: more than any flow of a scenario has. tquic 1.6 lets a sender that has used up the
/// first window have 32 KiB at first, which it doubles with each update.
const WINDOW: u64 = 1 << 40;
/// The shortest wait of its timers: its pacer asks for some of no length.
const TIMER_FLOOR: Duration = Duration::from_micros(50);

fn main() -> ExitCode {
    process::serve(End::new)
}

/// One end of a connection.
struct End {
    endpoint: tquic::Endpoint,
    application: Rc<RefCell<Application>>,
    outbox: Rc<Outbox>,
    sends: bool,
    /// Whether something has happened since it was asked to send.
    stirred: bool,
    now: Instant,
    failure: Option<String>,
}

/// What the application does.
#[derive(Default)]
struct Application {
    /// The connection, by its number in the endpoint.
    connection: Option<u64>,
    stream: Option<u64>,
    /// What it has to write, whether there is always more, and whether nothing follows.
    unwritten: u64,
    unlimited: bool,
    closes: bool,
    written: u64,
    delivered: u64,
    stats: Stats,
    log: Log<Reported>,
    /// Why the connection was closed, if it was.
    closed: Option<String>,
}

/// What tquic tells in its qlog only: the last of each.
#[derive(Clone, Copy, Default)]
struct Reported {
    latest_rtt: Option<Duration>,
    in_flight: Option<u64>,
}

impl qlog::Reported for Reported {
    fn take(&mut self, record: &str) {
        if !record.contains("\"recovery:metrics_updated\"") {
            return;
        }
        // Milliseconds, and only what has changed.
        if let Some(millis) = qlog::number(record, "\"latest_rtt\":") {
            self.latest_rtt = Some(Duration::from_nanos((millis * 1e6) as u64));
        }
        if let Some(bytes) = qlog::number(record, "\"bytes_in_flight\":") {
            self.in_flight = Some(bytes as u64);
        }
    }
}

/// Datagrams to be sent.
#[derive(Default)]
struct Outbox(RefCell<VecDeque<Batch<Vec<u8>>>>);

impl PacketSendHandler for Outbox {
    fn on_packets_send(&self, packets: &[(Vec<u8>, PacketInfo)]) -> tquic::Result<usize> {
        let batches = packets.iter().map(|(payload, _)| {
            let size = u32::try_from(payload.len()).unwrap_or(u32::MAX);
            Batch::single(size, payload.clone(), Ecn::NotEct)
        });
        self.0.borrow_mut().extend(batches);
        Ok(packets.len())
    }
}

impl Application {
    /// Writes as much as it has a buffer for, in front of what is in flight: what it stops writing stops.
    fn write_on(&mut self, connection: &mut Connection) -> tquic::Result<()> {
        let Some(stream) = self.stream else {
            return Ok(());
        };
        let path = connection.get_path_stats(CLIENT, SERVER)?;
        let buffer = path.final_cwnd.saturating_mul(2).saturating_add(PIECE);
        let most = path.acked_bytes.saturating_add(buffer);
        while (self.unlimited || self.unwritten > 0) && self.written < most {
            let wanted = match self.unlimited {
                true => PIECE,
                false => self.unwritten.min(PIECE),
            };
            let room = connection.stream_capacity(stream)? as u64;
            let piece = wanted.min(room) as usize;
            if piece == 0 {
                connection.stream_want_write(stream, true)?;
                return Ok(());
            }
            let written = connection.stream_write(stream, ZEROS.slice(..piece), false)? as u64;
            if written == 0 {
                return Ok(());
            }
            self.written += written;
            self.unwritten = self.unwritten.saturating_sub(written);
        }
        if self.closes && !self.unlimited && self.unwritten == 0 {
            self.closes = false;
            connection.stream_write(stream, Bytes::new(), true)?;
        }
        Ok(())
    }

    fn read(&mut self, connection: &mut Connection, stream: u64) {
        let mut room = [0; 1 << 16];
        // It ends with an error that says that nothing is left.
        while let Ok((read, end)) = connection.stream_read(stream, &mut room) {
            self.delivered += read as u64;
            if end || read == 0 {
                break;
            }
        }
    }

    fn look(&mut self, connection: &mut Connection, sends: bool) {
        let (local, remote) = addresses(sends);
        let Ok(path) = connection.get_path_stats(local, remote) else {
            return;
        };
        // Microseconds; zero before the first sample.
        let time = |micros: u64| (micros > 0).then(|| Duration::from_micros(micros));
        // Its counts of bytes do not tell what is in flight: handshake packets that it drops with their keys, and packets
        // with ACKs only, are counted as sent and never as gone.
        let reported = self.log.latest();
        self.stats = Stats {
            cwnd: (path.final_cwnd > 0).then(|| Volume::new(path.final_cwnd)),
            in_flight: Volume::new(reported.in_flight.unwrap_or_default()),
            pacing_rate: (path.pacing_rate > 0)
                .then(|| Rate::from_bps(path.pacing_rate.saturating_mul(8))),
            latest_rtt: reported.latest_rtt,
            srtt: time(path.srtt),
            min_rtt: time(path.min_rtt),
            acknowledged: Volume::new(path.acked_bytes),
            sent_packets: path.sent_count,
            lost_packets: path.lost_count,
            ..Stats::default()
        };
    }
}

/// What tquic calls.
struct Handler(Rc<RefCell<Application>>);

impl TransportHandler for Handler {
    fn on_conn_created(&mut self, connection: &mut Connection) {
        let mut application = self.0.borrow_mut();
        application.connection = connection.index();
        if !connection.is_server() {
            let log = Box::new(application.log.clone());
            connection.set_qlog(log, String::new(), String::new());
        }
    }

    fn on_conn_established(&mut self, connection: &mut Connection) {
        if !connection.is_server() {
            let mut application = self.0.borrow_mut();
            let opened = connection.stream_uni_new(0, false);
            application.stream = opened.ok();
            if let Err(error) = application.write_on(connection) {
                application.closed = Some(format!("its stream takes nothing: {error}"));
            }
        }
    }

    fn on_conn_closed(&mut self, connection: &mut Connection) {
        let local = connection.local_error().map(|error| format!("{error:?}"));
        let peer = connection.peer_error().map(|error| format!("{error:?}"));
        let why = match (local, peer, connection.is_idle_timeout()) {
            (Some(why), ..) | (None, Some(why), _) => why,
            (None, None, true) => "it was idle for too long".to_owned(),
            (None, None, false) => "it does not say why".to_owned(),
        };
        self.0.borrow_mut().closed = Some(format!("it closed its connection: {why}"));
    }

    fn on_stream_created(&mut self, _: &mut Connection, _: u64) {}

    fn on_stream_readable(&mut self, connection: &mut Connection, stream: u64) {
        self.0.borrow_mut().read(connection, stream);
    }

    fn on_stream_writable(&mut self, connection: &mut Connection, stream: u64) {
        let mut application = self.0.borrow_mut();
        if application.stream == Some(stream)
            && let Err(error) = application.write_on(connection)
        {
            application.closed = Some(format!("its stream takes nothing: {error}"));
        }
    }

    fn on_stream_closed(&mut self, _: &mut Connection, _: u64) {}

    fn on_new_token(&mut self, _: &mut Connection, _: Vec<u8>) {}
}

/// The local and the remote address of an end.
fn addresses(sends: bool) -> (SocketAddr, SocketAddr) {
    match sends {
        true => (CLIENT, SERVER),
        false => (SERVER, CLIENT),
    }
}

fn tls(sends: bool) -> Result<TlsConfig, String> {
    let protocols = vec![b"paceline".to_vec()];
    if sends {
        let mut tls = TlsConfig::new_client_config(protocols, false).map_err(told)?;
        tls.set_verify(false);
        return Ok(tls);
    }
    let [(_certificate, certificate), (_key, key)] = process::identity().map_err(told)?;
    TlsConfig::new_server_config(&certificate, &key, protocols, false).map_err(told)
}

fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl End {
    fn new(config: &EndConfig<'_>, options: &[(&str, &str)]) -> Result<Self, String> {
        if let Some((name, _)) = options.first() {
            return Err(format!("it has no options, and `{name}` was given"));
        }
        if !(1200..=1500).contains(&config.max_datagram) {
            return Err("datagrams are of 1200 to 1500 bytes".to_owned());
        }
        let mut settings = Config::new().map_err(told)?;
        settings.set_send_udp_payload_size(config.max_datagram as usize);
        settings.set_recv_udp_payload_size(config.max_datagram as u16);
        // The first two bound the others.
        settings.set_max_connection_window(WINDOW);
        settings.set_max_stream_window(WINDOW);
        settings.set_initial_max_data(WINDOW);
        settings.set_initial_max_stream_data_uni(WINDOW);
        settings.set_tls_config(tls(config.sends)?);
        if config.sends {
            let algorithm = config.controller.parse();
            settings.set_congestion_control_algorithm(algorithm.map_err(told)?);
        }
        let application = Rc::new(RefCell::new(Application::default()));
        let outbox = Rc::new(Outbox::default());
        let handler = Box::new(Handler(application.clone()));
        let mut endpoint =
            tquic::Endpoint::new(Box::new(settings), !config.sends, handler, outbox.clone());
        if config.sends {
            let name = Some("localhost");
            let connected = endpoint.connect(CLIENT, SERVER, name, None, None, None);
            connected.map_err(told)?;
        }
        Ok(Self {
            endpoint,
            application,
            outbox,
            sends: config.sends,
            stirred: config.sends,
            now: config.now,
            failure: None,
        })
    }

    /// Does something with the connection, if there is one.
    fn with<T>(&mut self, what: impl FnOnce(&mut Application, &mut Connection) -> T) -> Option<T> {
        let mut application = self.application.borrow_mut();
        let connection = self.endpoint.conn_get_mut(application.connection?)?;
        Some(what(&mut application, connection))
    }

    fn stir(&mut self, now: Instant) {
        self.now = now;
        self.stirred = true;
    }
}

impl Endpoint for End {
    type Payload = Vec<u8>;

    fn receive(&mut self, now: Instant, datagram: Datagram<Vec<u8>>) {
        self.stir(now);
        let (local, remote) = addresses(self.sends);
        let info = PacketInfo {
            src: remote,
            dst: local,
            time: time::Instant::now(),
        };
        let mut payload = datagram.payload;
        // What it cannot read it drops, as it drops any packet.
        let _ = self.endpoint.recv(&mut payload, &info);
    }

    fn on_timer(&mut self, now: Instant) {
        self.stir(now);
        self.endpoint.on_timeout(time::Instant::now());
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Batch<Vec<u8>>> {
        self.now = now;
        if std::mem::take(&mut self.stirred) {
            // What was acknowledged makes room for the application.
            let wrote = self.with(|application, connection| application.write_on(connection));
            let sent = self.endpoint.process_connections();
            let sends = self.sends;
            self.with(|application, connection| application.look(connection, sends));
            if let Some(Err(error)) = wrote {
                self.failure.get_or_insert(told(error));
            }
            if let Err(error) = sent {
                self.failure.get_or_insert(told(error));
            }
        }
        self.outbox.0.borrow_mut().pop_front()
    }

    fn next_timer(&mut self) -> Option<Instant> {
        let wait = self.endpoint.timeout()?;
        let wait = Duration::from_nanos(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX));
        Some(self.now + wait.max(TIMER_FLOOR))
    }

    fn write(&mut self, now: Instant, write: Write) {
        self.stir(now);
        let mut application = self.application.borrow_mut();
        if write.stop {
            application.unlimited = false;
        }
        match write.amount {
            Amount::None => {}
            Amount::Bytes(bytes) => {
                application.unwritten = application.unwritten.saturating_add(bytes);
            }
            Amount::Unlimited => application.unlimited = true,
        }
        application.closes |= write.close;
    }

    fn delivered(&self) -> u64 {
        self.application.borrow().delivered
    }

    fn stats(&self) -> Stats {
        self.application.borrow().stats
    }

    fn failure(&self) -> Option<String> {
        let closed = || self.application.borrow().closed.clone();
        self.failure.clone().or_else(closed)
    }
}
