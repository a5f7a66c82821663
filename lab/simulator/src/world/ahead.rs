//! Receivers that run ahead of the time: where nothing that happens later decides about a packet,
//! its arrival is handled when the last link on its way accepts it, and is no event.

use paceline_experiment::{Change, Script};
use paceline_path::Link;

use super::World;
use crate::flow::Flow;
use crate::lanes::Reply;
use crate::packet::{Load, Packet};

/// Lets links report arrivals ahead, if nothing changes links during the run: those that are the last
/// of all their flows, which are of ours, have no hosts, replies that cross no link, and lanes that
/// they share with no others.
pub(super) fn enable(script: &Script, flows: &mut [Flow], links: &mut [Link<Packet>]) {
    if !script
        .changes()
        .all(|change| matches!(change, Change::App(..)))
    {
        return;
    }
    let mut able = vec![true; links.len()];
    let mut lanes: Vec<Option<usize>> = Vec::new();
    for flow in flows.iter() {
        let Some((last, before)) = flow.plan.route.split_last() else {
            continue;
        };
        for link in before.iter().chain(&flow.plan.back) {
            able[*link] = false;
        }
        able[*last] &= flow.host.is_none() && flow.plan.back.is_empty() && !flow.is_foreign();
        let lane = flow.plan.lane;
        lanes.resize(lanes.len().max(lane + 1), None);
        let first = *lanes[lane].get_or_insert(*last);
        if first != *last {
            (able[first], able[*last]) = (false, false);
        }
    }
    for (link, able) in links.iter_mut().zip(&mut able) {
        *able = *able && link.tell_ahead();
    }
    for flow in flows {
        let last = flow.plan.route.last();
        flow.shown = last.is_some_and(|last| able[*last]).then_some(0);
    }
}

impl World {
    /// The receivers take the packets of a link, each at the time at which it will arrive.
    pub(super) fn run_ahead(&mut self, link: usize) {
        let now = self.now;
        while let Some((arrival, packet)) = self.links[link].next_ahead() {
            let index = packet.flow as usize;
            let flow = &mut self.flows[index];
            let timer = flow.receiver.next_timer();
            let timer = timer.filter(|timer| *timer < arrival);
            if timer.is_none()
                && let Load::Segment(segment) = &packet.load
                && let Some(ack) = flow.take_next(arrival, segment)
            {
                packet.load = Load::Taken(flow.receiver.delivered());
                self.now = arrival;
                self.answer(index, ack);
                continue;
            }
            let packet = *packet;
            if let Some(timer) = timer {
                self.now = timer;
                self.receiver_due(index);
            }
            self.now = arrival;
            self.deliver_any(&packet);
            let delivered = self.flows[index].receiver.delivered();
            if let Some(packet) = self.links[link].last_ahead() {
                packet.load = Load::Taken(delivered);
            }
        }
        self.now = now;
        if self.links[link].is_full() {
            self.catch_up(link);
        }
    }

    /// The timer of a receiver that runs ahead sends a reply.
    pub(super) fn insert_reply(&mut self, index: usize, reply: Reply) {
        let flow = &self.flows[index];
        let (id, number) = (flow.id, flow.plan.lane);
        if let Some(next) = self.lanes.insert(self.now, number, id, reply) {
            self.agenda.set(self.sources.lane(number), next);
        }
    }

    /// The packets reported ahead by a link have arrived up to now: the record may show it.
    fn catch_up(&mut self, link: usize) {
        let flows = &mut self.flows;
        if self.links[link].tells_ahead() {
            self.links[link].take_ahead(self.now, |packet| {
                if let Load::Taken(delivered) = packet.load {
                    flows[packet.flow as usize].shown = Some(delivered);
                }
            });
        }
    }

    /// The same for the last link of a flow, before a row of that flow.
    pub(super) fn catch_up_flow(&mut self, index: usize) {
        if let Some(&link) = self.flows[index].plan.route.last() {
            self.catch_up(link);
        }
    }

    /// The same for all links, before a row of each flow and link.
    pub(super) fn catch_up_all(&mut self) {
        (0..self.links.len()).for_each(|link| self.catch_up(link));
    }
}
