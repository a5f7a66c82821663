//! Which packets are lost on the way: one by one, or in bursts.

use paceline_units::{Gain, Loss, Rng};

use crate::impair::Chance;

/// Each draw has its own stream, separate from that of the good state.
const STREAMS: [u64; 3] = [
    0x6261_6464_6c6f_7373,
    0x746f_2062_6164_2020,
    0x746f_2067_6f6f_6420,
];

/// Which packets of a link are lost: [`Loss`] at run time.
#[derive(Clone, Debug)]
pub struct LossState {
    /// Loss in the good state, or in the only one.
    good: Chance,
    burst: Option<BurstState>,
    seed: u64,
}

#[derive(Clone, Debug)]
struct BurstState {
    loss: Chance,
    worsens: Chance,
    mends: Chance,
    is_bad: bool,
}

impl LossState {
    /// That of a link with this seed, before the first packet.
    pub fn new(loss: Loss, seed: u64) -> Self {
        let mut state = Self {
            good: Chance::new(Gain::default(), seed),
            burst: None,
            seed,
        };
        state.set(loss);
        state
    }

    /// Changes the loss; bursts begin in the good state.
    pub(crate) fn set(&mut self, loss: Loss) {
        let stream = |number: usize| Rng::new(self.seed ^ STREAMS[number]).next_u64();
        match loss {
            Loss::Independent(probability) => {
                self.good.probability = probability;
                self.burst = None;
            }
            Loss::Burst(burst) => {
                self.burst = Some(BurstState {
                    loss: Chance::new(burst.bad, stream(0)),
                    worsens: Chance::new(burst.p, stream(1)),
                    mends: Chance::new(burst.r, stream(2)),
                    is_bad: false,
                });
                self.good.probability = burst.good;
            }
        }
    }

    /// Whether nothing is lost.
    pub fn is_none(&self) -> bool {
        self.burst.is_none() && self.good.is_none()
    }

    /// Whether the next packet is lost.
    #[inline(never)]
    pub fn strikes(&mut self) -> bool {
        let Some(burst) = &mut self.burst else {
            return self.good.strikes();
        };
        if burst.is_bad {
            burst.is_bad = !burst.mends.strikes();
            burst.loss.strikes()
        } else {
            burst.is_bad = burst.worsens.strikes();
            self.good.strikes()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_units::BurstLoss;

    fn percent(n: u32) -> Gain {
        Gain::from_millionths(n * 10_000)
    }

    #[test]
    fn bursts_are_as_long_and_as_frequent_as_said() {
        let burst = BurstLoss {
            p: percent(1),
            r: percent(20),
            good: percent(0),
            bad: percent(100),
        };
        let mut loss = LossState::new(Loss::Burst(burst), 3);
        let fates: Vec<bool> = (0..500_000).map(|_| loss.strikes()).collect();
        let lost = fates.iter().filter(|lost| **lost).count() as f64;
        // 0.01 / 0.21 of all packets, in bursts of 5.
        assert!(
            (lost / 500_000.0 / (0.01 / 0.21) - 1.0).abs() < 0.05,
            "{lost}"
        );
        let bursts = fates.windows(2).filter(|pair| !pair[0] && pair[1]).count() as f64;
        assert!(
            (lost / bursts / 5.0 - 1.0).abs() < 0.05,
            "{}",
            lost / bursts
        );
    }

    #[test]
    fn each_state_loses_with_its_own_probability() {
        // Always bad after the first packet.
        let burst = BurstLoss {
            p: percent(100),
            r: percent(0),
            good: percent(100),
            bad: percent(30),
        };
        let mut loss = LossState::new(Loss::Burst(burst), 3);
        assert!(loss.strikes());
        let lost = (0..100_000).filter(|_| loss.strikes()).count();
        assert!((29_000..31_000).contains(&lost), "{lost}");
        loss.set(Loss::Independent(percent(2)));
        let lost = (0..100_000).filter(|_| loss.strikes()).count();
        assert!((1_800..2_200).contains(&lost), "{lost}");
    }
}
