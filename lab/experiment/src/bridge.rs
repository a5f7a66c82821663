//! Guests that are classes of another language: the events that their methods take, and the
//! controller around an instance.

use std::cell::Cell;

use paceline_congestion::{
    Ack, Config, Controller, Ecn, Field, Lost, Outputs, RecoveryWindow, Sent, Value, Visitor,
};
use paceline_units::{Bytes, Instant, Rate};

use crate::guest::{Fault, guest_quantum};

/// An acknowledgment, with the packet-timed rounds that it belongs to.
#[derive(Clone, Copy, Debug)]
pub struct AckEvent {
    /// The acknowledgment.
    pub ack: Ack,
    /// Whether it begins a round.
    pub round_start: bool,
    /// Rounds that have begun so far.
    pub round_count: u64,
}

/// Passes the events of a guest's class to the macro `then`. Of each: its name and documentation, the Rust type that it is
/// read from, and its attributes, each with its type and value. Names end in their unit; `None` means not known.
#[macro_export]
macro_rules! guest_events {
    ($then:ident) => {
        $then! {
            /// The configuration of a new controller: one per connection.
            Config(config: paceline_congestion::Config) {
                /// Payload bytes of a full packet.
                mss_bytes: u32 = config.mss,
                /// Initial window (RFC 6928).
                initial_window_bytes: u64 = config.initial_window.get(),
                /// Seed of the controller's own random draws: `random.Random(config.seed)`.
                seed: u64 = config.seed,
                /// The time of construction; a run begins at 0.
                now_ns: u64 = config.now.as_nanos(),
                /// Smoothed RTT, if the handshake has measured one.
                srtt_ns: Option<u64> = config.srtt.map(|rtt| rtt.as_nanos()),
                /// Whether acknowledgments are selective, so that more than one loss per round trip is
                /// detected.
                has_selective_acks: bool = config.has_selective_acks,
            }

            /// One acknowledgment, after the transport has processed it.
            Ack(event: $crate::AckEvent) {
                /// Its arrival time.
                now_ns: u64 = event.ack.now.as_nanos(),
                /// Data newly delivered by it, cumulatively or selectively.
                newly_acked_bytes: u64 = event.ack.newly_acked.get(),
                /// Data newly declared lost on it.
                newly_lost_bytes: u64 = event.ack.newly_lost.get(),
                /// Newly delivered data that carried a CE mark; `None` if it is not counted.
                ce_bytes: Option<u64> = event.ack.newly_marked.map(|marked| marked.get()),
                /// Whether the receiver's classic ECN echo is set.
                ece: bool = event.ack.ece,
                /// Data in flight before it.
                prior_in_flight_bytes: u64 = event.ack.prior_in_flight.get(),
                /// Data in flight after it.
                in_flight_bytes: u64 = event.ack.in_flight.get(),
                /// Data delivered over the life of the connection.
                delivered_bytes: u64 = event.ack.delivered.get(),
                /// Data declared lost over the life of the connection, correctly or not.
                lost_bytes: u64 = event.ack.lost.get(),
                /// Data sent over the life of the connection, each transmission counted.
                sent_bytes: u64 = event.ack.sent.get(),
                /// RTT of the most recently sent packet that it newly acknowledges; `None` if all are
                /// ambiguous.
                rtt_ns: Option<u64> = event.ack.rtt.map(|rtt| rtt.as_nanos()),
                /// Smoothed RTT (RFC 6298), including this sample; 0 before the first.
                srtt_ns: u64 = event.ack.srtt.as_nanos(),
                /// Minimum RTT of the connection; 0 before the first.
                min_rtt_ns: u64 = event.ack.min_rtt.as_nanos(),
                /// Delivery rate of its sample (draft-ietf-ccwg-bbr section 4.1); `None` if it has none.
                delivery_rate_bps: Option<u64> = event.ack.sample.measured_rate().map(|rate| rate.bps()),
                /// Whether that sample is application-limited.
                app_limited: bool = event.ack.sample.app_limited,
                /// Time over which the sample was taken; 0 if it gives no rate.
                sample_interval_ns: u64 = event.ack.sample.interval.as_nanos(),
                /// Data delivered in that time.
                sample_delivered_bytes: u64 = event.ack.sample.delivered.get(),
                /// Data declared lost since the newest delivered packet was sent.
                sample_lost_bytes: u64 = event.ack.sample.lost.get(),
                /// Data in flight just after that packet was sent, including itself.
                tx_in_flight_bytes: u64 = event.ack.sample.tx_in_flight.get(),
                /// Whether it begins a packet-timed round: it delivers a packet that was sent after the start
                /// of the previous round.
                round_start: bool = event.round_start,
                /// Packet-timed rounds that have begun so far.
                round_count: u64 = event.round_count,
                /// Whether the window, not the application, limited the data in flight in the last round.
                cwnd_limited: bool = event.ack.cwnd_limited,
                /// Whether the cumulative acknowledgment advanced.
                una_advanced: bool = event.ack.una_advanced,
                /// Whether a delayed-ACK timer may have held it back.
                delayed: bool = event.ack.delayed,
                /// One-way delay of the newest delivered packet.
                one_way_delay_ns: Option<u64> = event.ack.one_way_delay.map(|delay| delay.as_nanos()),
                /// RTT without the delay of the receiver's host.
                network_rtt_ns: Option<u64> = event.ack.network_rtt.map(|rtt| rtt.as_nanos()),
                /// The delay of the receiver's host.
                receiver_delay_ns: Option<u64> = event.ack.receiver_delay.map(|delay| delay.as_nanos()),
                /// Recovery state after it, by Linux's names: `Open`, `Disorder`, `CWR`, `Recovery`, `Loss`.
                ca_state: &'static str = event.ack.ca_state.name(),
            }

            /// A packet was declared lost.
            Loss(loss: paceline_congestion::Lost) {
                /// The time of the declaration.
                now_ns: u64 = loss.now.as_nanos(),
                /// Payload of the packet.
                size_bytes: u32 = loss.packet.size,
                /// When it was sent.
                sent_ns: u64 = loss.packet.send_time.as_nanos(),
                /// Data declared lost over the life of the connection, including this packet.
                lost_bytes: u64 = loss.lost.get(),
                /// Data declared lost since it was sent, including itself.
                lost_since_send_bytes: u64 = loss.lost_since_send().get(),
                /// Data delivered over the life of the connection.
                delivered_bytes: u64 = loss.delivered.get(),
                /// Data in flight without it.
                in_flight_bytes: u64 = loss.in_flight.get(),
                /// Data in flight just after it was sent, including itself.
                tx_in_flight_bytes: u64 = loss.packet.tx_in_flight.get(),
                /// Whether it opens a range of lost data: the packet just before it is not lost.
                starts_range: bool = loss.starts_range,
                /// Whether it was itself a retransmission.
                retransmission: bool = loss.retransmission,
            }

            /// A packet is about to be sent. Volumes are those before it is counted.
            Sent(sent: paceline_congestion::Sent) {
                /// Its departure time.
                now_ns: u64 = sent.now.as_nanos(),
                /// Its payload.
                size_bytes: u32 = sent.size,
                /// Data in flight before it.
                in_flight_bytes: u64 = sent.in_flight.get(),
                /// Whether the connection is application-limited.
                app_limited: bool = sent.app_limited,
            }
        }
    };
}

/// A method of a guest's class, which may be missing; `state` takes no event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[expect(missing_docs, reason = "named as the methods")]
pub enum Method {
    OnAck,
    OnLoss,
    OnSend,
    OnRecoveryEnter,
    OnRecoveryExit,
    OnTimeout,
    OnSpurious,
    OnIdleRestart,
    OnMss,
    State,
}

impl Method {
    /// All methods, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::OnAck,
        Self::OnLoss,
        Self::OnSend,
        Self::OnRecoveryEnter,
        Self::OnRecoveryExit,
        Self::OnTimeout,
        Self::OnSpurious,
        Self::OnIdleRestart,
        Self::OnMss,
        Self::State,
    ];

    /// Its name in the class.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The arguments of a method.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "each is named as its type")]
pub enum Arguments<'a> {
    Ack(&'a AckEvent),
    Loss(&'a Lost),
    Sent(&'a Sent),
    Time(Instant),
    TimeAndVolume(Instant, Bytes),
    Mss(u32),
}

/// The decisions of an instance, by the names and units of its attributes, each within its bounds.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "named as the attributes")]
pub struct Decisions {
    pub cwnd_bytes: u64,
    pub pacing_bps: Option<u64>,
    pub send_quantum_bytes: Option<u64>,
    pub ssthresh_bytes: Option<u64>,
    pub ecn: Ecn,
    pub uses_prr: bool,
    pub phase: &'static str,
}

/// An instance of a guest's class.
pub trait Instance {
    /// Calls a method and returns the decisions after it; none if the class does not have the method.
    ///
    /// # Errors
    /// The exception that it raised, or the decision that is out of its bounds.
    fn call(
        &mut self,
        method: Method,
        arguments: Arguments<'_>,
    ) -> Result<Option<Decisions>, String>;

    /// The values of its state, in the order of these fields.
    ///
    /// # Errors
    /// The exception that it raised.
    fn state(&self, fields: &[Field]) -> Result<Vec<Value>, String>;
}

/// The controller around an instance of a guest's class.
pub struct Bridge<I> {
    instance: I,
    fault: Fault,
    /// It has failed: it is not called any more, and the run will end.
    is_broken: Cell<bool>,
    mss: u32,
    /// Data delivered at the start of the current round; a packet sent later ends the round.
    next_round: Bytes,
    rounds: u64,
    phase: &'static str,
    fields: Vec<Field>,
    outputs: Outputs,
}

impl<I: Instance> Bridge<I> {
    /// The controller around a new instance with these decisions, which shows these fields.
    pub fn new(
        instance: I,
        decisions: &Decisions,
        config: &Config,
        fields: &[Field],
        fault: &Fault,
    ) -> Self {
        Self {
            instance,
            fault: fault.clone(),
            is_broken: Cell::new(false),
            mss: config.mss,
            next_round: Bytes::ZERO,
            rounds: 0,
            phase: decisions.phase,
            fields: fields.to_vec(),
            outputs: outputs(decisions, config.mss),
        }
    }

    fn call(&mut self, method: Method, arguments: Arguments<'_>) {
        if self.is_broken.get() {
            return;
        }
        match self.instance.call(method, arguments) {
            Ok(None) => {}
            Ok(Some(decisions)) => {
                self.outputs = outputs(&decisions, self.mss);
                self.phase = decisions.phase;
            }
            Err(what) => self.fail(what),
        }
    }

    fn fail(&self, what: String) {
        self.is_broken.set(true);
        self.fault.report(what);
    }
}

#[inline]
fn outputs(decisions: &Decisions, mss: u32) -> Outputs {
    let cwnd = Bytes::new(decisions.cwnd_bytes);
    let pacing_rate = decisions.pacing_bps.map(|bps| Rate::from_bps(bps.max(1)));
    Outputs {
        cwnd,
        pacing_rate,
        send_quantum: match decisions.send_quantum_bytes {
            Some(quantum) => Bytes::new(quantum.max(1)),
            None => guest_quantum(cwnd, pacing_rate, mss),
        },
        ssthresh: decisions.ssthresh_bytes.map(Bytes::new),
        round_count: 0,
        recovery_window: match decisions.uses_prr {
            true => RecoveryWindow::Prr,
            false => RecoveryWindow::Controller,
        },
        marks_app_limited: false,
        pacer_below: false,
        ecn: decisions.ecn,
    }
}

impl<I: Instance> Controller for Bridge<I> {
    fn on_send(&mut self, sent: &Sent) {
        self.call(Method::OnSend, Arguments::Sent(sent));
    }

    fn on_idle_restart(&mut self, now: Instant) {
        self.call(Method::OnIdleRestart, Arguments::Time(now));
    }

    fn on_loss(&mut self, loss: &Lost) {
        self.call(Method::OnLoss, Arguments::Loss(loss));
    }

    fn on_ack(&mut self, ack: &Ack) {
        // draft-ietf-ccwg-bbr section 5.5.1.
        let round_start = ack.sample.has_data && ack.sample.prior_delivered >= self.next_round;
        if round_start {
            self.next_round = ack.delivered;
            self.rounds += 1;
        }
        let event = AckEvent {
            ack: *ack,
            round_start,
            round_count: self.rounds,
        };
        self.call(Method::OnAck, Arguments::Ack(&event));
    }

    fn on_recovery_enter(&mut self, now: Instant, in_flight: Bytes) {
        let arguments = Arguments::TimeAndVolume(now, in_flight);
        self.call(Method::OnRecoveryEnter, arguments);
    }

    fn on_recovery_exit(&mut self, now: Instant) {
        self.call(Method::OnRecoveryExit, Arguments::Time(now));
    }

    fn on_timeout(&mut self, now: Instant, in_flight: Bytes) {
        self.call(Method::OnTimeout, Arguments::TimeAndVolume(now, in_flight));
    }

    fn on_spurious(&mut self, now: Instant, delivered: Bytes) {
        self.call(Method::OnSpurious, Arguments::TimeAndVolume(now, delivered));
    }

    fn on_mss(&mut self, mss: u32) {
        self.mss = mss;
        self.call(Method::OnMss, Arguments::Mss(mss));
    }

    fn cwnd(&self) -> Bytes {
        self.outputs.cwnd
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.outputs.pacing_rate
    }

    fn send_quantum(&self) -> Bytes {
        self.outputs.send_quantum
    }

    fn ssthresh(&self) -> Option<Bytes> {
        self.outputs.ssthresh
    }

    fn recovery_window(&self) -> RecoveryWindow {
        self.outputs.recovery_window
    }

    fn ecn(&self) -> Ecn {
        self.outputs.ecn
    }

    fn phase(&self) -> &'static str {
        self.phase
    }

    fn visit_state(&self, visitor: &mut Visitor<'_>) {
        if self.fields.is_empty() || self.is_broken.get() {
            return;
        }
        match self.instance.state(&self.fields) {
            Ok(values) => (self.fields.iter().zip(values))
                .for_each(|(field, value)| visitor.show(field.name, value)),
            Err(what) => self.fail(what),
        }
    }
}

#[cfg(test)]
mod tests {
    /// The name of each class, with the names and types of its attributes.
    macro_rules! attributes {
        ($($(#[$_class:meta])* $class:ident($_event:ident: $_source:ty) {
            $($(#[$_doc:meta])* $name:ident: $kind:ty = $_value:expr,)*
        })*) => {[
            $((stringify!($class), &[$((stringify!($name), stringify!($kind))),*] as &[(&str, &str)])),*
        ]};
    }

    #[test]
    fn the_stub_file_of_python_has_the_attributes_of_each_event() {
        let file = include_str!("../../../python/paceline/_paceline.pyi");
        for (class, attributes) in guest_events!(attributes) {
            let lines = attributes.iter().map(|(name, kind)| {
                let kind = match kind.replace(' ', "").as_str() {
                    "u32" | "u64" => "int",
                    "Option<u64>" => "int | None",
                    "&'staticstr" => "str",
                    "bool" => "bool",
                    other => panic!("Python has no type for {other}"),
                };
                format!("    {name}: {kind}\n")
            });
            let stub = format!("\nclass {class}:\n{}\n", lines.collect::<String>());
            assert!(file.contains(&stub), "_paceline.pyi has no{stub}");
        }
    }
}
