// One end of a connection, for both stacks: where their crates use the same names, the code is
// written once and included by each.

/// A datagram that has arrived.
struct Arrived {
    from: SocketAddr,
    ecn: Option<EcnCodepoint>,
    bytes: BytesMut,
}

/// Addresses that nobody looks at.
const CLIENT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 1);
const SERVER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), 2);
/// The maximum number of datagrams sent at once, as in quinn itself.
const MAX_BATCH: u64 = 10;
/// The size of one write.
const PIECE: usize = 1 << 17;
/// The content: nobody looks at it.
static ZEROS: LazyLock<Bytes> = LazyLock::new(|| Bytes::from(vec![0; PIECE]));

/// The ALPN protocol name.
const ALPN: &[u8] = b"paceline";

/// One end of a connection.
pub struct End {
    sends: bool,
    /// The instant of the stack's clock that is our zero.
    base: time::Instant,
    max_datagram: u16,
    slack: Duration,
    gso: bool,
    endpoint: proto::Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    stream: Option<StreamId>,
    /// Bytes that the application has still to write, whether there is always more, and whether it
    /// is the end of the data.
    unwritten: u64,
    unlimited: bool,
    closes: bool,
    assembly: Assembly,
    /// Datagrams that the endpoint sends outside a connection.
    responses: VecDeque<Batch<Vec<u8>>>,
    room: Vec<u8>,
    /// The pacing rate and quantum of a controller of ours, and the bytes sent against them.
    pace: Option<Pace>,
    pacer: Pacer,
    watch: Watch,
    /// Whether the controller is one of ours.
    is_ours: bool,
    /// The time of the last call.
    now: Instant,
    /// Whether the pacer holds back data that the stack may have to send.
    is_paced: bool,
}

/// A clock that would set the date of tokens.
struct Stopped;

impl TimeSource for Stopped {
    fn now(&self) -> time::SystemTime {
        time::SystemTime::UNIX_EPOCH
    }
}

/// What the other end is asked: the threshold is the packets that it may receive without sending an ACK.
fn ack_frequency(packets: u32) -> AckFrequencyConfig {
    let mut asked = AckFrequencyConfig::default();
    asked.ack_eliciting_threshold(packets.saturating_sub(1).into());
    asked
}

/// Sequential connection identifiers.
struct Counted(u64);

impl ConnectionIdGenerator for Counted {
    fn generate_cid(&mut self) -> ConnectionId {
        self.0 = self.0.wrapping_add(1);
        ConnectionId::new(&self.0.to_be_bytes())
    }

    fn cid_len(&self) -> usize {
        8
    }

    fn cid_lifetime(&self) -> Option<time::Duration> {
        None
    }
}

impl End {
    /// An end that has sent nothing.
    pub fn new(config: &EndConfig) -> Self {
        // Never before the origin, even if the stack subtracts more.
        let base = time::Instant::now() + time::Duration::from_secs(3600);
        let chosen = choose(config);
        let mut transport = transport(config, chosen.factory);
        if let Some(qlog) = &config.qlog {
            write_qlog(&mut transport, qlog, base);
        }
        let transport = Arc::new(transport);
        let mut common = EndpointConfig::new(Arc::new(Null));
        let first_id = config.seed ^ u64::from(config.sends) << 63;
        cid_generator(&mut common, first_id);
        let mut seed = [u8::from(config.sends); 32];
        seed[..8].copy_from_slice(&config.seed.to_be_bytes());
        common.rng_seed(Some(seed));
        // The configuration check bounds it; the default is Ethernet's MTU.
        let _ = common.max_udp_payload_size(config.max_datagram);
        let server = (!config.sends).then(|| {
            let mut server = ServerConfig::new(server_crypto(config), Arc::new(Null));
            server.transport_config(transport.clone());
            server.time_source(Arc::new(Stopped));
            Arc::new(server)
        });
        let mut end = Self {
            sends: config.sends,
            base,
            max_datagram: config.max_datagram,
            slack: config.timer_slack,
            gso: config.gso,
            endpoint: endpoint(common, server),
            connection: None,
            stream: None,
            unwritten: 0,
            unlimited: false,
            closes: false,
            assembly: Assembly::default(),
            responses: VecDeque::new(),
            room: Vec::new(),
            pace: chosen.pace,
            pacer: Pacer::default(),
            watch: chosen.watch,
            is_ours: config.controller.ours().is_some(),
            now: config.now,
            is_paced: false,
        };
        if config.sends {
            let mut client = ClientConfig::new(client_crypto(config));
            client.transport_config(transport);
            client.initial_dst_cid_provider(Arc::new(move || {
                ConnectionId::new(&first_id.rotate_left(32).to_be_bytes())
            }));
            let now = end.at(config.now);
            // It fails only for cases that do not occur here: versions, names, all identifiers in
            // use.
            end.connection = end.endpoint.connect(now, client, SERVER, tls::NAME).ok();
        }
        end
    }

    fn at(&self, now: Instant) -> time::Instant {
        self.base + time::Duration::from_nanos(now.as_nanos())
    }

    /// Handles everything that follows from arrivals: events, and the application's reads and
    /// writes.
    fn proceed(&mut self) {
        let Some((handle, connection)) = &mut self.connection else {
            return;
        };
        loop {
            while let Some(event) = connection.poll_endpoint_events() {
                if let Some(event) = self.endpoint.handle_event(*handle, event) {
                    connection.handle_event(event);
                }
            }
            match connection.poll() {
                None => break,
                Some(Event::Connected) if self.sends => {
                    self.stream = connection.streams().open(Dir::Uni);
                }
                Some(Event::Stream(StreamEvent::Opened { dir })) => {
                    self.stream = connection.streams().accept(dir);
                    read(connection, self.stream, &mut self.assembly);
                }
                Some(Event::Stream(StreamEvent::Readable { .. })) => {
                    read(connection, self.stream, &mut self.assembly);
                }
                Some(_) => {}
            }
        }
        self.write_on();
    }

    /// Writes as much as the stream accepts.
    fn write_on(&mut self) {
        let Some(((_, connection), stream)) = self.connection.as_mut().zip(self.stream) else {
            return;
        };
        if !self.sends {
            return;
        }
        // Models an application that keeps its buffer just ahead of the window: when it stops
        // writing, sending stops.
        let window = controller(connection).map_or(0, |controller| controller.window());
        connection.set_send_window(window.saturating_mul(2).saturating_add(PIECE as u64));
        while self.unlimited || self.unwritten > 0 {
            let most = match self.unlimited {
                true => u64::MAX,
                false => self.unwritten,
            };
            let piece = most.min(PIECE as u64) as usize;
            let mut pieces = [ZEROS.slice(..piece)];
            match write(connection, stream, &mut pieces) {
                0 => return,
                written => self.unwritten = self.unwritten.saturating_sub(written as u64),
            }
        }
        if self.closes {
            self.closes = false;
            // It fails only if the other side has stopped the stream.
            let _ = connection.send_stream(stream).finish();
        }
    }

    fn accept(&mut self, now: Instant, incoming: proto::Incoming) {
        self.room.clear();
        let now = self.at(now);
        match self.endpoint.accept(incoming, now, &mut self.room, None) {
            Ok(accepted) => self.connection = Some(accepted),
            Err(error) => {
                if let Some(response) = error.response {
                    self.respond(response.size);
                }
            }
        }
    }

    fn respond(&mut self, size: usize) {
        let bytes = self.room.get(..size).unwrap_or_default().to_vec();
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        self.responses
            .push_back(Batch::single(size, bytes, Ecn::NotEct));
    }

    /// The maximum number of datagrams that may leave at once.
    fn most_at_once(&self) -> usize {
        if !self.gso {
            return 1;
        }
        let quantum = self.pace.as_ref().map_or(u64::MAX, Pace::quantum);
        (quantum / u64::from(self.max_datagram)).clamp(1, MAX_BATCH) as usize
    }
}

/// Reads everything that has arrived, in any order: in that mode quinn does not treat a stream with
/// many gaps as an error.
fn read(connection: &mut Connection, stream: Option<StreamId>, assembly: &mut Assembly) {
    let Some(stream) = stream else {
        return;
    };
    let mut stream = connection.recv_stream(stream);
    let Ok(mut chunks) = stream.read(false) else {
        return; // all of it was read
    };
    while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
        assembly.put(chunk.offset, chunk.bytes.len() as u64);
    }
    // Whatever this asks to send is sent at the end of each step in any case.
    let _ = chunks.finalize();
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
        .ack_frequency_config(config.ack_frequency.map(ack_frequency))
        .stream_receive_window(window)
        .receive_window(window)
        // The engine's flows end when the scenario says so.
        .max_idle_timeout(None);
    keep_paths(&mut transport);
    transport
}

fn server_crypto(config: &EndConfig) -> Arc<dyn proto::crypto::ServerConfig> {
    match config.crypto {
        Crypto::Null => Arc::new(Null),
        Crypto::Tls => {
            let server = made(identity(config).server(ALPN));
            Arc::new(made(QuicServerConfig::try_from(server)))
        }
    }
}

fn client_crypto(config: &EndConfig) -> Arc<dyn proto::crypto::ClientConfig> {
    match config.crypto {
        Crypto::Null => Arc::new(Null),
        Crypto::Tls => {
            let server = identity(config).fingerprint();
            let client = made(tls::client(server, ALPN, &Mismatch::default()));
            Arc::new(made(QuicClientConfig::try_from(client)))
        }
    }
}

/// The server's certificate, which its client also knows.
fn identity(config: &EndConfig) -> Identity {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&config.seed.to_be_bytes());
    made(Identity::of(key))
}

fn made<T, E>(made: Result<T, E>) -> T {
    made.unwrap_or_else(|_| unreachable!("any 32 octets are an Ed25519 key, and its suites are QUIC's"))
}

fn codepoint(ecn: Option<Ecn>) -> Option<EcnCodepoint> {
    match ecn? {
        Ecn::NotEct => None,
        Ecn::Ect0 => Some(EcnCodepoint::Ect0),
        Ecn::Ect1 => Some(EcnCodepoint::Ect1),
        Ecn::Ce => Some(EcnCodepoint::Ce),
    }
}

impl Endpoint for End {
    type Payload = Vec<u8>;

    fn receive(&mut self, now: Instant, datagram: Datagram<Vec<u8>>) {
        self.now = now;
        self.room.clear();
        let from = if self.sends { SERVER } else { CLIENT };
        let at = self.at(now);
        let arrived = Arrived {
            from,
            ecn: codepoint(datagram.ecn),
            bytes: BytesMut::from(Bytes::from(datagram.payload)),
        };
        let event = handle(&mut self.endpoint, at, arrived, &mut self.room);
        match event {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                // A closed connection needs no more input. noq 1.4 panics if it receives an invalid
                // packet while draining.
                if let Some((_, connection)) = &mut self.connection
                    && !connection.is_closed()
                {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) if self.connection.is_none() => {
                self.accept(now, incoming);
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.endpoint.ignore(incoming),
            Some(DatagramEvent::Response(response)) => self.respond(response.size),
            None => {}
        }
        self.proceed();
    }

    fn on_timer(&mut self, now: Instant) {
        self.now = now;
        let at = self.at(now);
        if let Some((_, connection)) = &mut self.connection
            && connection.poll_timeout().is_some_and(|due| due <= at)
        {
            connection.handle_timeout(at);
            self.proceed();
        }
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Batch<Vec<u8>>> {
        self.now = now;
        if let Some(response) = self.responses.pop_front() {
            return Some(response);
        }
        if let Some(pace) = &self.pace {
            let quantum = units::Bytes::new(pace.quantum());
            let next = self.max_datagram.into();
            self.is_paced = pace.rate().is_some() && !self.pacer.allows(now, next, quantum);
            if self.is_paced {
                return None;
            }
        }
        let (at, most) = (self.at(now), self.most_at_once());
        let (_, connection) = self.connection.as_mut()?;
        self.room.clear();
        let transmit = transmit(connection, at, most, &mut self.room)?;
        let size = u32::try_from(transmit.size).unwrap_or(u32::MAX);
        if let Some(pace) = &self.pace {
            self.pacer.on_send(now, size, pace.rate());
        }
        let segment = transmit.segment_size.unwrap_or(transmit.size);
        Some(Batch {
            payload: std::mem::take(&mut self.room),
            size,
            segment_size: u32::try_from(segment).unwrap_or(u32::MAX),
            ecn: match transmit.ecn {
                None => Ecn::NotEct,
                Some(EcnCodepoint::Ect0) => Ecn::Ect0,
                Some(EcnCodepoint::Ect1) => Ecn::Ect1,
                Some(EcnCodepoint::Ce) => Ecn::Ce,
            },
        })
    }

    fn next_timer(&mut self) -> Option<Instant> {
        let (_, connection) = self.connection.as_mut()?;
        let due = connection.poll_timeout().map(|due| {
            let since = due.saturating_duration_since(self.base).as_nanos();
            Instant::from_nanos(u64::try_from(since).unwrap_or(u64::MAX))
        });
        let paced = self.is_paced.then(|| self.pacer.release());
        let next = [due, paced].into_iter().flatten().min()?;
        // Zero waits would loop for ever: the stack's pacer asks for some.
        Some(next.max(self.now + self.slack))
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
        self.write_on();
    }

    fn delivered(&self) -> u64 {
        self.assembly.delivered()
    }

    fn stats(&self) -> Stats {
        let connection = self.connection.as_ref();
        connection.map_or_else(Stats::default, |(_, connection)| {
            stats(connection, &self.watch)
        })
    }

    fn phase(&self) -> &'static str {
        let connection = self.connection.as_ref().filter(|_| self.is_ours);
        let ours = connection.and_then(|(_, connection)| Adapter::of(controller(connection)?));
        ours.map_or("", |ours| ours.path().controller().phase())
    }
}

/// The state of a connection's sender; `watch` is that of the stack's own controller.
fn stats(connection: &Connection, watch: &Watch) -> Stats {
    let Some(controller) = controller(connection) else {
        return Stats::default();
    };
    let known = |time: time::Duration| {
        Duration::from_nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
    };
    let common = Stats {
        cwnd: Some(units::Bytes::new(controller.window())),
        // Before the handshake ends it is a default (RFC 9002 6.2.2), not a measurement.
        srtt: srtt(connection)
            .filter(|_| !connection.is_handshaking())
            .map(known),
        ..Stats::default()
    };
    let Some(ours) = Adapter::of(controller) else {
        let snapshot = watch.snapshot();
        let (sent_packets, lost_packets) = counts(connection, (snapshot.sent, snapshot.lost));
        return Stats {
            sent_packets,
            lost_packets,
            in_flight: units::Bytes::new(snapshot.in_flight),
            acknowledged: units::Bytes::new(snapshot.acknowledged),
            latest_rtt: snapshot.latest_rtt.map(known),
            min_rtt: snapshot.min_rtt.map(known),
            app_limited: snapshot.app_limited,
            ..common
        };
    };
    let ours = ours.path();
    let (sent_packets, lost_packets) = counts(connection, ours.packets());
    Stats {
        sent_packets,
        lost_packets,
        in_flight: ours.in_flight(),
        pacing_rate: ours.controller().pacing_rate(),
        delivery_rate: Some(ours.delivery_rate()),
        latest_rtt: ours.latest_rtt(),
        min_rtt: ours.min_rtt(),
        acknowledged: ours.delivery().delivered(),
        phase: ours.controller().phase(),
        app_limited: ours.delivery().is_app_limited(),
        ..common
    }
}
