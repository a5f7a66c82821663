//! Changes of a link at run time.

use paceline_units::{
    AckFilter, Duration, Gain, Hold, Instant, Loss, Policer, Rate, Reorder, Site,
};

use super::Link;
use crate::impair::TokenBucket;
use crate::packet::Packet;
use crate::queue::{AnyDiscipline, AnyEarly, Aqm, Fifo};
use crate::service::Server;

/// Stream of a link's seed that its queue draws from.
const AQM_STREAM: u64 = 0x6171_6d00_6171_6d00;

impl<P: Packet + Clone> Link<P> {
    /// Changes the rate. Waiting packets are served at the new rate. Ends a trace.
    pub fn set_rate(&mut self, now: Instant, rate: Rate) {
        self.advance(now);
        let head_work = self.entries.get(self.departed).map(|head| {
            self.stalled.take().unwrap_or_else(|| {
                self.server
                    .remaining(now, head.departure, head.packet.size())
            })
        });
        self.server = Server::fixed(rate, self.server.capacity(now), now);
        let Some(work) = head_work else {
            return;
        };
        // The departures planned for the waiting packets no longer hold.
        self.discard_plan();
        let mut departure = self.server.resume(now, work);
        if departure == Instant::MAX {
            self.stalled = Some(work);
        }
        for index in self.departed..self.entries.len() {
            if index > self.departed {
                let size = self.entries[index].packet.size();
                departure = if departure == Instant::MAX {
                    Instant::MAX
                } else {
                    self.server.depart(departure, size, false)
                };
            }
            let arrival = self.arrival_of(departure);
            let entry = &mut self.entries[index];
            entry.departure = departure;
            entry.arrival = arrival;
        }
        self.busy_until = departure;
        self.departs_from = Instant::ZERO;
    }

    /// Changes the propagation delay of packets that depart from now on. Order is kept: after a
    /// cut, packets arrive together with the last packet that has the longer delay.
    pub fn set_delay(&mut self, now: Instant, delay: Duration) {
        self.advance(now);
        self.delay = delay;
        self.plan_arrivals();
    }

    /// Delays packets that depart from now on by up to `jitter` more, uniformly. Order is kept.
    pub fn set_jitter(&mut self, now: Instant, jitter: Duration) {
        self.advance(now);
        self.jitter = jitter;
        self.settle();
        self.plan_arrivals();
    }

    /// Packets that depart from now on wait for the next multiple of `slot` and leave together;
    /// zero turns this off.
    pub fn set_aggregation(&mut self, now: Instant, slot: Duration) {
        self.advance(now);
        self.grants.slot = slot;
        self.settle();
        self.plan_arrivals();
    }

    /// Packets that depart from now on wait for a grant, `delay` after they request it; zero turns
    /// this off.
    pub fn set_grant_delay(&mut self, now: Instant, delay: Duration) {
        self.advance(now);
        self.grants.delay = delay;
        self.settle();
        self.plan_arrivals();
    }

    /// Changes the loss for packets whose transmission begins from now on (for packets enqueued
    /// from now on, if the queue is a FIFO).
    pub fn set_loss(&mut self, now: Instant, loss: Loss) {
        self.advance(now);
        self.loss.set(loss);
        self.settle();
    }

    /// Changes the probability that a packet arrives twice. The copy is made after transmission and
    /// uses no capacity.
    pub fn set_duplicate(&mut self, probability: Gain) {
        self.duplicate.probability = probability;
        self.settle();
    }

    /// Changes the probability that a packet is delayed and overtaken by those behind it.
    pub fn set_reorder(&mut self, now: Instant, reorder: Reorder) {
        self.advance(now);
        self.reorder.probability = reorder.probability;
        self.reorder_delay = reorder.delay;
        self.settle();
    }

    /// Polices packets offered from now on, starting with a full bucket.
    pub fn set_policer(&mut self, now: Instant, policer: Option<Policer>) {
        self.policer = policer.map(|policer| TokenBucket::new(policer, now));
        self.settle();
    }

    /// Forwards one of `every` plain ACKs of a connection from now on.
    pub fn set_ack_thinning(&mut self, every: u32) {
        self.thinning.every = every;
        self.settle();
    }

    /// Lets ACKs that arrive from now on replace older ones that wait. Those that a plain queue has
    /// already planned to transmit stay.
    pub fn set_ack_filter(&mut self, now: Instant, filter: AckFilter) {
        self.advance(now);
        self.ack_filter = filter;
        if filter != AckFilter::Off {
            (self.discipline).get_or_insert_with(|| AnyDiscipline::Fifo(Fifo::new()));
        }
        self.settle();
    }

    /// Lets the queue signal congestion before it is full. Call it before the first packet is
    /// offered: while packets wait in a queue of another kind, it changes nothing.
    pub fn set_aqm(&mut self, aqm: Option<Aqm>, site: &Site) {
        let seed = self.seed ^ AQM_STREAM;
        if self
            .discipline
            .as_ref()
            .is_none_or(|queue| queue.packets() == 0)
        {
            self.early = aqm.and_then(|aqm| AnyEarly::new(aqm, site, seed));
            self.discipline = aqm.and_then(|aqm| AnyDiscipline::new(aqm, site, seed));
            self.settle();
        }
    }

    /// The next packets accepted are delayed further and keep their order; packets behind them do
    /// not wait. Follows after a hold in progress.
    pub fn hold_next(&mut self, now: Instant, hold: Hold) {
        self.advance(now);
        if hold.packets > 0 {
            self.scripted_holds.push_back(hold);
            self.settle();
        }
    }

    /// Drops the next `count` packets offered.
    pub fn drop_next(&mut self, count: u64) {
        self.scripted_drops = self.scripted_drops.saturating_add(count);
        self.settle();
    }
}
