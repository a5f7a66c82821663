//! Random losses: the packets that the simulator's link loses, by their number. With the same seed
//! both lose the same, so that a comparison does not depend on which.

use paceline_experiment::{Change, LinkChange, Plan, link_seed};
use paceline_path::LossState;
use paceline_scenario::{LinkKey, Scenario};
use paceline_units::{Duration, Loss, Rate};

use crate::wire;

/// A longer run repeats its losses after this many packets.
const MOST: u64 = 1 << 25;
/// In addition to full packets: SYNs, and the ends of transfers.
const SHORT: u64 = 4096;

/// Whether a scenario loses packets at random at any time.
pub fn any(scenario: &Scenario) -> bool {
    (0..scenario.link_count()).any(|link| on(scenario, link))
}

/// Whether it does in the direction of that number.
fn on(scenario: &Scenario, link: usize) -> bool {
    let events = scenario.events.iter();
    let changes = events.filter_map(|event| event.path.as_ref());
    let changes = changes.flat_map(|path| path.directions(scenario));
    let later = changes.filter(|change| change.number == link);
    let at_start = scenario.link_keys(link).at_start();
    let mut keys = later.flat_map(|change| change.keys.keys()).chain(at_start);
    keys.any(|key| matches!(key, LinkKey::Loss(loss) if loss != Loss::NONE))
}

/// The lists of a direction in a run, one for each loss.
pub struct Losses {
    seed: u64,
    packets: u64,
    /// How many there will be.
    lists: u64,
    /// Whether packets without data count: where ACKs go.
    all: bool,
}

impl Losses {
    /// Those of the link of that number; none if it loses nothing at any time.
    pub fn of(plan: &Plan<'_>, link: usize) -> Option<Self> {
        // As many as the path can have one way, and as many ACKs.
        let mut rate = plan.links.first().map_or(Rate::ZERO, |link| link.rate);
        let mut most = rate;
        let mut lists = 1;
        for change in plan.script.changes() {
            match change {
                Change::Link(0, LinkChange::Rate(change)) => {
                    rate = change.apply(rate);
                    most = most.max(rate);
                }
                Change::Link(number, LinkChange::Key(LinkKey::Loss(_))) => {
                    lists += u64::from(*number == link);
                }
                _ => {}
            }
        }
        let full = u64::from(u32::try_from(plan.scenario.path.mtu.get()).unwrap_or(u32::MAX));
        let time: Duration = plan.info.duration;
        let packets = most.volume_in(time).get() / full.max(1) + SHORT;
        let packets = packets.next_multiple_of(64).min(MOST);
        let all = plan.flows.iter().any(|flow| flow.back.contains(&link));
        on(plan.scenario, link).then(|| Self {
            seed: link_seed(plan.seed, link as u64),
            packets,
            lists,
            all,
        })
    }

    /// The body of the request that loads the program, with the first list.
    pub fn first(&self, loss: Loss) -> Vec<u8> {
        let words = [self.lists, self.all.into()].map(u64::to_le_bytes);
        [words.as_flattened(), &self.list(loss)].concat()
    }

    /// The list of a loss ([`crate::wire::LOSSES_FD`]).
    pub fn list(&self, loss: Loss) -> Vec<u8> {
        let mut state = LossState::new(loss, self.seed);
        let kind = match loss {
            _ if state.is_none() => 0,
            Loss::Independent(_) => wire::SINGLE,
            Loss::Burst(_) => wire::BURSTS,
        };
        let mut list = kind.to_le_bytes().to_vec();
        let bytes = (0..self.packets / 8)
            .map(|_| (0..8).fold(0, |byte, bit| byte | u8::from(state.strikes()) << bit));
        list.extend(bytes);
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_units::Gain;

    #[test]
    fn a_bit_for_each_packet_that_the_link_would_lose() {
        let losses = Losses {
            seed: 7,
            packets: 640,
            lists: 1,
            all: false,
        };
        let loss = Loss::Independent(Gain::from_millionths(100_000));
        let list = losses.list(loss);
        assert_eq!(list.len(), 8 + 80);
        assert_eq!(list[..8], [1, 0, 0, 0, 0, 0, 0, 0]);
        let mut state = LossState::new(loss, 7);
        for packet in 0..640 {
            let bit = list[8 + packet / 8] >> (packet % 8) & 1;
            assert_eq!(bit == 1, state.strikes());
        }
        assert!(losses.list(Loss::NONE).iter().all(|byte| *byte == 0));
    }
}
