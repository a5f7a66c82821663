//! A full pipe that never loses: just enough of a transport to drive a controller at a steady
//! number of packets in flight, without allocating.

use paceline_congestion::{
    Ack, AnyController, CaState, Config, Controller, Delivery, Lost, PacketState, Sent, build,
};
use paceline_units::{Bytes, Duration, Instant};

const MSS: u32 = 1448;
const RTT: Duration = Duration::from_millis(50);

pub struct Pipe<C> {
    controller: C,
    delivery: Delivery,
    ring: Vec<PacketState>,
    next: usize,
    now: Instant,
    gap: Duration,
}

/// The configuration of a controller in the pipe.
pub fn config() -> Config {
    Config {
        mss: MSS,
        initial_window: Bytes::new(10 * u64::from(MSS)),
        seed: 1,
        now: Instant::ZERO,
        srtt: Some(RTT),
        has_selective_acks: true,
    }
}

impl Pipe<AnyController> {
    #[allow(dead_code, reason = "one benchmark brings its own")]
    /// A round trip of `flight` packets, with the controller of this name.
    pub fn new(name: &str, flight: usize) -> Self {
        let controller = build(name, &config(), &[]).unwrap_or_else(|error| panic!("{error:?}"));
        Pipe::with(controller, flight)
    }
}

impl<C: Controller> Pipe<C> {
    /// A round trip of `flight` packets, 50 ms long.
    pub fn with(controller: C, flight: usize) -> Self {
        let mut pipe = Self {
            controller,
            delivery: Delivery::default(),
            ring: Vec::with_capacity(flight),
            next: 0,
            now: Instant::ZERO,
            gap: RTT / flight as u64,
        };
        pipe.delivery.on_rtt(RTT);
        for sent in 0..flight {
            let packet = pipe.send(sent as u64);
            pipe.ring.push(packet);
            pipe.now += pipe.gap;
        }
        pipe
    }

    #[allow(dead_code, reason = "only one benchmark looks")]
    pub fn controller(&self) -> &C {
        &self.controller
    }

    fn send(&mut self, in_flight: u64) -> PacketState {
        let in_flight = Bytes::new(in_flight * u64::from(MSS));
        self.controller.on_send(&Sent {
            now: self.now,
            size: MSS,
            in_flight,
            app_limited: false,
        });
        self.delivery.on_send(self.now, MSS, in_flight)
    }

    /// One acknowledgment of `packets`, and as many sent to replace them.
    pub fn step(&mut self, packets: u32) {
        let flight = self.ring.len() as u64;
        self.now += self.gap * u64::from(packets);
        let mut rtt = RTT;
        for _ in 0..packets {
            let packet = self.ring[self.next];
            rtt = self.now.since(packet.send_time);
            self.delivery.on_delivered(self.now, &packet, 0, false);
            self.next = (self.next + 1) % self.ring.len();
        }
        let sample = self.delivery.sample();
        self.acknowledge(sample, packets, rtt);
        for back in (1..=packets as usize).rev() {
            let slot = (self.next + self.ring.len() - back) % self.ring.len();
            self.ring[slot] = self.send(flight - back as u64);
        }
    }

    fn acknowledge(
        &mut self,
        sample: paceline_congestion::RateSample,
        packets: u32,
        rtt: Duration,
    ) {
        let mss = u64::from(MSS);
        let flight = self.ring.len() as u64;
        self.controller.on_ack(&Ack {
            now: self.now,
            sample,
            newly_acked: Bytes::new(u64::from(packets) * mss),
            newly_lost: Bytes::ZERO,
            newly_marked: Some(Bytes::ZERO),
            prior_in_flight: Bytes::new(flight * mss),
            in_flight: Bytes::new((flight - u64::from(packets)) * mss),
            delivered: self.delivery.delivered(),
            lost: self.delivery.lost(),
            sent: self.delivery.delivered()
                + self.delivery.lost()
                + Bytes::new((flight - u64::from(packets)) * mss),
            rtt: Some(rtt),
            srtt: rtt,
            min_rtt: RTT,
            cwnd_limited: true,
            ca_state: CaState::Open,
            una_advanced: true,
            delayed: false,
            one_way_delay: None,
            network_rtt: Some(rtt),
            receiver_delay: None,
            ece: false,
        });
    }

    #[allow(dead_code, reason = "the benchmark has no losses")]
    pub fn lose(&mut self) {
        let packet = self.ring[self.next];
        self.delivery.on_lost(&packet);
        self.controller.on_loss(&Lost {
            now: self.now,
            packet,
            lost: self.delivery.lost(),
            delivered: self.delivery.delivered(),
            in_flight: packet.tx_in_flight,
            starts_range: true,
            retransmission: false,
        });
        self.controller
            .on_recovery_enter(self.now, packet.tx_in_flight);
        self.controller.on_recovery_exit(self.now);
        self.controller.on_spurious(self.now, Bytes::ZERO);
    }

    #[allow(dead_code, reason = "the benchmark has no timeouts")]
    pub fn time_out(&mut self) {
        self.controller.on_timeout(self.now, Bytes::ZERO);
        self.controller.on_recovery_exit(self.now);
        self.controller
            .visit_state(&mut paceline_congestion::Visitor::each(&mut |_, _| {}));
    }
}
