//! Packets that were captured more than once: on several interfaces of a host (`-i any`), at both
//! sides of a bridge, by a mirror port for each direction.

use std::collections::VecDeque;

use paceline_units::{Duration, Instant};

use crate::ranges::Ranges;
use crate::tcp::Tcp;

/// A copy with the packet's identification follows within this time: the 16 bits repeat later.
const IDENTIFIED: Duration = Duration::from_secs(1);
/// Maximum numbers of packets that are compared, with data and without.
const DATA: usize = 4096;
const BARE: usize = 256;

/// A packet with data that has passed.
#[derive(Debug)]
struct Passed {
    start: u64,
    end: u64,
    tcp: Tcp,
    id: Option<u16>,
    at: Instant,
}

impl Passed {
    /// Whether the bytes from `start` on, in a packet of `length` with this identification, are of
    /// this one: offload splits it, or has merged it, and counts identifications up.
    fn holds(&self, start: u64, length: u64, id: u16) -> bool {
        let steps = u64::from(id.wrapping_sub(self.id.unwrap_or(id)));
        match start.checked_sub(self.start) {
            Some(0) => steps == 0,
            Some(skipped) if start < self.end && steps > 0 => {
                skipped.is_multiple_of(steps) && skipped / steps >= length
            }
            _ => false,
        }
    }

    /// Whether the header is the one that all parts of a packet have.
    fn is_like(&self, tcp: &Tcp) -> bool {
        let fields = |tcp: &Tcp| (tcp.ack, tcp.window, tcp.stamp, tcp.echo);
        fields(&self.tcp) == fields(tcp)
    }
}

/// Recognises the copies of one direction's packets.
#[derive(Debug, Default)]
pub struct Copies {
    data: VecDeque<Passed>,
    bare: VecDeque<(Tcp, Option<u16>, Instant)>,
    last: Option<u16>,
    /// Whether identifications differ: some hosts always send the same.
    varied: bool,
    pub count: u64,
    /// The longest time after which a copy followed that can be nothing else.
    apart: Duration,
}

impl Copies {
    /// Whether data that has been captured before is a copy: the time since the packet. Packets without
    /// an identification are compared by their headers, and within a time that is too short for a
    /// retransmission.
    pub fn has_data(
        &self,
        now: Instant,
        tcp: &Tcp,
        id: Option<u16>,
        (start, end): (u64, u64),
        short: Duration,
    ) -> Option<Duration> {
        let recent = |within: Duration| {
            let all = self.data.iter().rev();
            all.take_while(move |passed| now.since(passed.at) <= within)
        };
        let original = match self.distinct(id) {
            Some(id) => {
                let mut first = recent(IDENTIFIED);
                let first = first.find(|one| one.holds(start, end - start, id))?;
                covers(recent(IDENTIFIED), first.end, end).map(|_| first.at)
            }
            None => covers(recent(short).filter(|one| one.is_like(tcp)), start, end),
        };
        original.map(|at| now.since(at))
    }

    /// The same of a packet without data that acknowledges nothing new. Receivers repeat an ACK
    /// without need of a copy: without an identification it is one if it follows as soon as other
    /// copies do.
    pub fn has_bare(
        &self,
        now: Instant,
        tcp: &Tcp,
        id: Option<u16>,
        short: Duration,
    ) -> Option<Duration> {
        let id = self.distinct(id);
        let within = match (id, tcp.syn || tcp.fin || tcp.rst) {
            (Some(_), _) => IDENTIFIED,
            (None, true) => short,
            (None, false) if self.apart == Duration::ZERO => return None,
            (None, false) => short.min(self.apart),
        };
        let bare = self.bare.iter().rev();
        let mut recent = bare.take_while(|(.., at)| now.since(*at) <= within);
        let original = recent.find(|(one, of, _)| (id.is_none() || *of == id) && one == tcp);
        original.map(|(.., at)| now.since(*at))
    }

    /// Copies follow after this time, in either direction.
    pub fn learn(&mut self, apart: Duration) {
        self.apart = self.apart.max(apart);
    }

    /// A packet that is no copy passes.
    pub fn pass(&mut self, now: Instant, tcp: &Tcp, id: Option<u16>, (start, end): (u64, u64)) {
        if let (Some(last), Some(id)) = (self.last, id) {
            self.varied |= last != id;
        }
        self.last = id.or(self.last);
        if start < end {
            self.data.push_back(Passed {
                start,
                end,
                tcp: *tcp,
                id,
                at: now,
            });
            if self.data.len() > DATA {
                self.data.pop_front();
            }
        } else {
            self.bare.push_back((*tcp, id, now));
            if self.bare.len() > BARE {
                self.bare.pop_front();
            }
        }
    }

    /// An identification that distinguishes packets.
    pub fn distinct(&self, id: Option<u16>) -> Option<u16> {
        id.filter(|id| *id != 0 && self.varied)
    }
}

/// The time of the earliest of the latest packets that together hold all bytes of a range.
fn covers<'a>(packets: impl Iterator<Item = &'a Passed>, start: u64, end: u64) -> Option<Instant> {
    let mut covered = Ranges::default();
    let mut packets = packets.filter(|one| one.start < end && start < one.end);
    if start >= end {
        return Some(Instant::ZERO);
    }
    let last = packets.find(|one| {
        covered.add(one.start, one.end - one.start);
        covered.has(start, end)
    });
    last.map(|one| one.at)
}
