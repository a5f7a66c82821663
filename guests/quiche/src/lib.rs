//! [quiche](https://docs.rs/quiche) behind `paceline_endpoint.h`. It reads the clock, which here shows the engine's time. It
//! does not pace by itself: `SendInfo::at` is when a packet should leave, and the adapter holds it until then.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time;

use paceline_capi::{EndConfig, OwnStack};
use paceline_endpoint::{Amount, Batch, Datagram, Ecn, Endpoint, Stats, Write};
use paceline_units::{Bytes as Volume, Duration, Instant, Rate};
use process::qlog::{self, Log};
use quiche::{Config, Connection, ConnectionId, Error, QlogLevel, RecvInfo};

process::seams!();

/// Addresses that nobody looks at.
const CLIENT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 1);
const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), 2);
/// The client's first unidirectional stream.
const STREAM: u64 = 2;
/// What is written at once.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
/// Bytes of its stream that it has in front of what it sent.
const AHEAD: u64 = 1 << 14;
/// Bytes that a receiver takes in all.
const WINDOW: u64 = 1 << 40;
/// The shortest wait of its timers: a due one without an effect would not let time go on.
const TIMER_FLOOR: Duration = Duration::from_micros(1);

paceline_capi::export_stack!(End);

/// BoringSSL's source of random bytes, in place of its own, which draws from the processor: quiche skips packet numbers at
/// random.
///
/// # Safety
/// `out` has room for `size` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn RAND_bytes(out: *mut u8, size: usize) -> std::ffi::c_int {
    // SAFETY: by this function's contract.
    unsafe { getrandom(out, size, 0) };
    1
}

/// What quiche tells in its qlog only: the last of each.
#[derive(Clone, Copy, Default)]
struct Reported {
    latest_rtt: Option<Duration>,
    pacing_rate: Option<Rate>,
    delivery_rate: Option<Rate>,
    in_flight: Option<u64>,
    phase: &'static str,
    /// The end of what it has sent of its stream.
    sent: u64,
}

/// Its words for the states of its controllers.
const PHASES: [(&str, &str); 11] = [
    ("bbr_startup", "Startup"),
    ("bbr_drain", "Drain"),
    ("bbr_probe_bw_down", "ProbeBW_DOWN"),
    ("bbr_probe_bw_cruise", "ProbeBW_CRUISE"),
    ("bbr_probe_bw_refill", "ProbeBW_REFILL"),
    ("bbr_probe_bw_up", "ProbeBW_UP"),
    ("bbr_probe_rtt", "ProbeRTT"),
    ("slow_start", "SlowStart"),
    ("conservative_slow_start", "ConservativeSlowStart"),
    ("congestion_avoidance", "CongestionAvoidance"),
    ("recovery", "Recovery"),
];

impl qlog::Reported for Reported {
    fn take(&mut self, record: &str) {
        let is = |kind| record.contains(kind);
        if is("packet_sent") {
            for frame in record.split("\"frame_type\":\"stream\"").skip(1) {
                let number = |key| qlog::number(frame, key).unwrap_or_default();
                let end = number("\"offset\":") + number("\"payload_length\":");
                self.sent = self.sent.max(end as u64);
            }
            return;
        }
        if !is("recovery_metrics_updated") && !is("congestion_state_updated") {
            return;
        }
        let number = |key| qlog::number(record, key);
        // A rate of 0 is none.
        let rate = |key| {
            let bytes = number(key).filter(|bytes| *bytes > 0.0);
            bytes.map(|bytes| Rate::from_bps((bytes * 8.0) as u64))
        };
        if let Some(phase) = qlog::value(record, "\"new\":\"") {
            self.phase = PHASES
                .iter()
                .find(|(theirs, _)| phase.trim_end_matches('"') == *theirs)
                .map_or("", |(_, ours)| ours);
        }
        // Milliseconds, and only what has changed.
        if let Some(millis) = number("\"latest_rtt\":") {
            self.latest_rtt = Some(Duration::from_nanos((millis * 1e6) as u64));
        }
        self.pacing_rate = rate("\"pacing_rate\":").or(self.pacing_rate);
        self.delivery_rate = rate("\"cf_delivery_rate\":").or(self.delivery_rate);
        // Its `cf_app_limited` is of a flow that its window does not limit, and so of one that its pacer does.
        if let Some(bytes) = number("\"bytes_in_flight\":") {
            self.in_flight = Some(bytes as u64);
        }
    }
}

/// One end of a connection.
pub struct End {
    connection: Connection,
    log: Log<Reported>,
    sends: bool,
    largest: usize,
    unwritten: u64,
    written: u64,
    unlimited: bool,
    closes: bool,
    delivered: u64,
    seed: u64,
    /// Steps that it has taken.
    turns: u64,
    now: Instant,
    /// Whether something has happened since it had nothing to send.
    stirred: bool,
    /// The next packet, and when it leaves.
    held: Option<(Vec<u8>, Instant)>,
    failure: Option<String>,
}

fn message(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn setting<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, String> {
    value
        .parse()
        .map_err(|_| format!("`{name}` is no `{value}`"))
}

impl OwnStack for End {
    const NAME: &'static str = "quiche";
    const SUMMARY: &'static str = "quiche, of Cloudflare, with TLS";
    const VERSION: &'static str = "0.30.0";
    const CONTROLLERS: &'static str = "bbr2,cubic,reno";
    const OPTIONS: Option<&'static [(&'static str, &'static str)]> = Some(&[
        (
            "initial_window_packets",
            "initial congestion window in packets",
        ),
        ("initial_rtt_ms", "RTT before the first sample, in ms"),
        (
            "send_capacity_factor",
            "the part of the window that an application may fill",
        ),
        ("hystart", "whether HyStart++ ends slow start"),
        ("pacing", "whether packets have a time at which to leave"),
        ("discover_pmtu", "whether it probes for larger packets"),
    ]);

    fn new(config: &EndConfig<'_>, options: &[(&str, &str)]) -> Result<Self, String> {
        process::seams::set_time(config.now.as_nanos());
        process::seams::set_seed(config.seed);
        let mut settings = Config::new(quiche::PROTOCOL_VERSION).map_err(message)?;
        settings
            .set_application_protos(&[b"paceline"])
            .map_err(message)?;
        let largest = config.max_datagram as usize;
        settings.set_max_recv_udp_payload_size(largest);
        settings.set_max_send_udp_payload_size(largest);
        settings.set_initial_max_data(WINDOW);
        settings.set_initial_max_stream_data_uni(WINDOW);
        settings.set_initial_max_streams_uni(1);
        settings.verify_peer(false);
        settings.grease(false);
        if config.sends {
            settings
                .set_cc_algorithm_name(config.controller)
                .map_err(message)?;
        } else {
            let [(_certificate, certificate), (_key, key)] =
                process::identity().map_err(message)?;
            settings
                .load_cert_chain_from_pem_file(&certificate)
                .map_err(message)?;
            settings
                .load_priv_key_from_pem_file(&key)
                .map_err(message)?;
        }
        for (name, value) in options {
            match *name {
                "initial_window_packets" => {
                    settings.set_initial_congestion_window_packets(setting(name, value)?);
                }
                "send_capacity_factor" => {
                    settings.set_send_capacity_factor(setting(name, value)?);
                }
                "initial_rtt_ms" => {
                    settings.set_initial_rtt(time::Duration::from_millis(setting(name, value)?));
                }
                "hystart" => settings.enable_hystart(setting(name, value)?),
                "pacing" => settings.enable_pacing(setting(name, value)?),
                "discover_pmtu" => settings.discover_pmtu(setting(name, value)?),
                _ => return Err(format!("it has no option `{name}`")),
            }
        }
        let mut id = [0; 16];
        id[..8].copy_from_slice(&process::seams::draw());
        id[8..].copy_from_slice(&process::seams::draw());
        let id = ConnectionId::from_ref(&id);
        let connection = match config.sends {
            true => quiche::connect(Some("localhost"), &id, CLIENT, SERVER, &mut settings),
            false => quiche::accept(&id, None, SERVER, CLIENT, &mut settings),
        };
        let mut connection = connection.map_err(message)?;
        let log = Log::<Reported>::default();
        if config.sends {
            let (title, level) = (String::new(), QlogLevel::Base);
            connection.set_qlog_with_level(Box::new(log.clone()), title.clone(), title, level);
        }
        Ok(Self {
            connection,
            log,
            sends: config.sends,
            largest,
            unwritten: 0,
            written: 0,
            unlimited: false,
            closes: false,
            delivered: 0,
            seed: config.seed,
            turns: 0,
            now: config.now,
            stirred: true,
            held: None,
            failure: None,
        })
    }
}

impl End {
    /// Sets the clock, and begins other draws: ends take turns on a thread.
    fn turn(&mut self, now: Instant) {
        self.now = now;
        self.turns += 1;
        process::seams::set_time(now.as_nanos());
        process::seams::set_seed(self.seed ^ self.turns);
    }

    fn stir(&mut self, now: Instant) {
        self.turn(now);
        self.stirred = true;
    }

    /// Keeps a little data in front of what it has sent: its capacity for a stream forgets what it holds already. Writes
    /// several packets at once, as each write is searched for with each packet until it is acknowledged.
    fn write_on(&mut self) -> quiche::Result<()> {
        if !self.sends || !self.connection.is_established() {
            return Ok(());
        }
        let most = self.log.latest().sent + AHEAD;
        while (self.unlimited || self.unwritten > 0) && self.written + AHEAD / 2 <= most {
            let room = most - self.written;
            let wanted = match self.unlimited {
                true => room,
                false => self.unwritten.min(room),
            };
            let wanted = wanted.min(ZEROS.len() as u64) as usize;
            match self.connection.stream_send(STREAM, &ZEROS[..wanted], false) {
                Ok(0) | Err(Error::Done) => return Ok(()),
                Ok(written) => {
                    self.unwritten = self.unwritten.saturating_sub(written as u64);
                    self.written += written as u64;
                }
                Err(error) => return Err(error),
            }
        }
        if self.closes && !self.unlimited && self.unwritten == 0 {
            self.closes = false;
            self.connection.stream_send(STREAM, b"", true)?;
        }
        Ok(())
    }

    fn fail(&mut self, error: Error) {
        self.failure.get_or_insert(message(error));
    }
}

impl Endpoint for End {
    type Payload = Vec<u8>;

    fn receive(&mut self, now: Instant, datagram: Datagram<Vec<u8>>) {
        self.stir(now);
        let (from, to) = if self.sends {
            (SERVER, CLIENT)
        } else {
            (CLIENT, SERVER)
        };
        let mut payload = datagram.payload;
        // What it cannot read it drops.
        let _ = self.connection.recv(&mut payload, RecvInfo { from, to });
        let mut room = [0; 1 << 16];
        while let Ok((read, _)) = self.connection.stream_recv(STREAM, &mut room) {
            self.delivered += read as u64;
        }
    }

    fn on_timer(&mut self, now: Instant) {
        self.stir(now);
        if self.connection.timeout().is_some_and(|left| left.is_zero()) {
            self.connection.on_timeout();
        }
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Batch<Vec<u8>>> {
        self.turn(now);
        if self.held.is_none() && self.stirred {
            if let Err(error) = self.write_on() {
                self.fail(error);
            }
            let mut room = vec![0; self.largest];
            match self.connection.send(&mut room) {
                Ok((size, info)) => {
                    room.truncate(size);
                    let wait = info.at.saturating_duration_since(time::Instant::now());
                    let wait = Duration::from_nanos(u64::try_from(wait.as_nanos()).unwrap_or(0));
                    self.held = Some((room, now + wait));
                }
                Err(Error::Done) => self.stirred = false,
                Err(error) => {
                    self.stirred = false;
                    self.fail(error);
                }
            }
        }
        let (payload, _) = self.held.take_if(|(_, at)| *at <= now)?;
        Some(Batch::single(payload.len() as u32, payload, Ecn::NotEct))
    }

    fn next_timer(&mut self) -> Option<Instant> {
        process::seams::set_time(self.now.as_nanos());
        let wait = self.connection.timeout();
        let wait = wait.map(|wait| {
            let wait = Duration::from_nanos(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX));
            self.now + wait.max(TIMER_FLOOR)
        });
        let held = self.held.as_ref().map(|(_, at)| *at);
        [wait, held].into_iter().flatten().min()
    }

    fn write(&mut self, now: Instant, write: Write) {
        self.stir(now);
        if write.stop {
            self.unlimited = false;
        }
        match write.amount {
            Amount::None => {}
            Amount::Bytes(bytes) => self.unwritten = self.unwritten.saturating_add(bytes),
            Amount::Unlimited => self.unlimited = true,
        }
        self.closes |= write.close;
    }

    fn delivered(&self) -> u64 {
        self.delivered
    }

    fn stats(&self) -> Stats {
        let all = self.connection.stats();
        let Some(path) = self.connection.path_stats().next() else {
            return Stats::default();
        };
        let reported = self.log.latest();
        let time = |time: time::Duration| Duration::from_nanos(time.as_nanos() as u64);
        let known = path.min_rtt.is_some();
        Stats {
            cwnd: Some(Volume::new(path.cwnd as u64)),
            in_flight: Volume::new(reported.in_flight.unwrap_or_default()),
            pacing_rate: reported.pacing_rate,
            delivery_rate: reported.delivery_rate,
            // Of the path, its delivery rate is BBR's `bw`; other controllers have no maximum.
            bandwidth: path
                .max_bandwidth
                .filter(|_| path.delivery_rate > 0)
                .map(|_| Rate::from_bps(path.delivery_rate * 8)),
            latest_rtt: reported.latest_rtt.filter(|_| known),
            srtt: known.then(|| time(path.rtt)),
            min_rtt: path.min_rtt.map(time),
            acknowledged: Volume::new(all.acked_bytes),
            sent_packets: path.sent as u64,
            lost_packets: path.lost as u64,
            retransmitted_packets: path.retrans as u64,
            phase: reported.phase,
            ..Stats::default()
        }
    }

    fn phase(&self) -> &'static str {
        self.log.latest().phase
    }

    fn failure(&self) -> Option<String> {
        let closed = || {
            self.connection.is_closed().then(|| {
                format!(
                    "it closed its connection: {:?} {:?}",
                    self.connection.local_error(),
                    self.connection.peer_error()
                )
            })
        };
        self.failure.clone().or_else(closed)
    }
}
