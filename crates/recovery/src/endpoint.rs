//! Our two ends as [`Endpoint`]s. Their messages are values, which an engine may encode as bytes
//! ([`Message::write`]).
//!
//! There is no handshake: a sender starts with the RTT that it is given, if any.

use std::collections::VecDeque;

use paceline_congestion::Controller;
use paceline_endpoint::{Amount, Batch, Datagram, Endpoint, Payload, Stats, Write};
use paceline_units::{Bytes, Ecn, Instant};

use crate::{Acknowledgment, Receiver, ReceiverConfig, Segment, Sender};

/// A message between our ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// From the sender.
    Segment(Segment),
    /// From the receiver.
    Acknowledgment(Acknowledgment),
}

impl Payload for Message {}

impl<C: Controller> Endpoint for Sender<C> {
    type Payload = Message;

    fn receive(&mut self, now: Instant, datagram: Datagram<Message>) {
        if let Message::Acknowledgment(ack) = datagram.payload {
            self.on_ack(now, &ack);
        }
    }

    fn on_timer(&mut self, now: Instant) {
        Sender::on_timer(self, now);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Batch<Message>> {
        let segment = Sender::poll_transmit(self, now)?;
        let message = Message::Segment(segment);
        Some(Batch::single(segment.len, message, segment.ecn))
    }

    fn next_timer(&mut self) -> Option<Instant> {
        Sender::next_timer(self)
    }

    fn write(&mut self, now: Instant, write: Write) {
        if write.stop {
            self.stop_unlimited(now);
        }
        match write.amount {
            Amount::None => {}
            Amount::Bytes(bytes) => Sender::write(self, now, bytes),
            Amount::Unlimited => self.write_unlimited(now),
        }
        if write.close {
            self.close();
        }
    }

    /// Nothing: data flows one way.
    fn delivered(&self) -> u64 {
        0
    }

    fn stats(&self) -> Stats {
        let stats = Sender::stats(self);
        Stats {
            cwnd: Some(self.cwnd()),
            in_flight: self.in_flight(),
            pacing_rate: self.controller().pacing_rate(),
            delivery_rate: Some(self.last_sample().delivery_rate()),
            bandwidth: None,
            latest_rtt: self.latest_rtt(),
            srtt: self.srtt(),
            min_rtt: self.min_rtt(),
            acknowledged: self.delivery().delivered(),
            sent_packets: stats.sent_packets,
            lost_packets: stats.lost_packets,
            retransmitted_packets: stats.retransmitted_packets,
            phase: self.controller().phase(),
            app_limited: self.app_limited(),
        }
    }
}

/// A [`Receiver`] with the acknowledgments that it still has to send.
#[derive(Clone, Debug)]
pub struct ReceiverEnd {
    receiver: Receiver,
    out: VecDeque<Acknowledgment>,
}

impl ReceiverEnd {
    /// Waits for data from sequence 0 on.
    pub fn new(config: ReceiverConfig) -> Self {
        Self {
            receiver: Receiver::new(config),
            out: VecDeque::new(),
        }
    }
}

impl Endpoint for ReceiverEnd {
    type Payload = Message;

    fn receive(&mut self, now: Instant, datagram: Datagram<Message>) {
        if let Message::Segment(mut segment) = datagram.payload {
            if let Some(ecn) = datagram.ecn {
                segment.ecn = ecn;
            }
            self.out.extend(self.receiver.before_segment(now, &segment));
            self.out.extend(self.receiver.on_segment(now, &segment));
        }
    }

    fn on_timer(&mut self, now: Instant) {
        self.out.extend(self.receiver.on_timer(now));
    }

    fn poll_transmit(&mut self, _now: Instant) -> Option<Batch<Message>> {
        let message = Message::Acknowledgment(self.out.pop_front()?);
        Some(Batch::single(0, message, Ecn::NotEct))
    }

    fn next_timer(&mut self) -> Option<Instant> {
        self.receiver.next_timer()
    }

    /// Data flows one way: data written here is discarded.
    fn write(&mut self, _now: Instant, _write: Write) {}

    fn delivered(&self) -> u64 {
        self.receiver.delivered()
    }

    fn stats(&self) -> Stats {
        Stats {
            acknowledged: Bytes::ZERO,
            ..Stats::default()
        }
    }
}
