//! Step marking.

use paceline_units::{Bytes, Duration, Site, Size, parameters};

use super::early::{Arrival, Early, Signal};

parameters! {
    /// Step marking, as DCTCP asks for (RFC 8257 section 3.1). Packets that are not ECN-capable
    /// pass.
    pub struct StepMark {
        /// The maximum backlog, the arriving packet included, or the maximum waiting time.
        threshold: Size = Size::Bytes(Bytes::ZERO),
            needs "say from where on: threshold = \"100 kB\", \"65 packets\" or \"50 us\"";
    }
}

/// The maximum backlog or waiting time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// In bytes on the wire.
    Bytes(u64),
    /// In packets.
    Packets(u64),
    /// The sojourn time that the packet will have at the current rate.
    Sojourn(Duration),
}

impl Early for Step {
    type Options = StepMark;

    fn new(options: StepMark, site: &Site, _: u64) -> Self {
        match options.threshold {
            Size::Packets(packets) => Self::Packets(packets),
            Size::Time(time) => Self::Sojourn(time),
            size => Self::Bytes(size.to_bytes(site).get()),
        }
    }

    fn judge(&mut self, arrival: Arrival) -> Signal {
        let exceeded = match *self {
            Self::Bytes(most) => arrival.bytes + u64::from(arrival.size) > most,
            Self::Packets(most) => arrival.packets + 1 > most,
            Self::Sojourn(most) => arrival.sojourn > most,
        };
        match exceeded && arrival.idle.is_none() {
            true => Signal::Mark,
            false => Signal::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::discipline::testing::SITE;
    use super::super::early::testing::arrival;
    use super::*;

    fn step_of(threshold: Size) -> Step {
        Step::new(StepMark { threshold }, &SITE, 1)
    }

    #[test]
    fn a_step_marks_what_stands_beyond_it() {
        for threshold in [
            Size::Packets(3),
            Size::Bytes(Bytes::new(3 * 1500)),
            Size::Time(Duration::from_micros(2 * 240)),
        ] {
            let mut step = step_of(threshold);
            let signals: Vec<bool> = (0..5)
                .map(|packets| step.judge(arrival(packets)) == Signal::Mark)
                .collect();
            assert_eq!(signals, [false, false, false, true, true], "{threshold}");
        }
        // A packet that finds the link idle does not wait.
        let mut step = step_of(Size::Packets(0));
        let idle = Arrival {
            idle: Some(0),
            ..arrival(0)
        };
        assert_eq!(step.judge(idle), Signal::None);
        assert_eq!(step.judge(arrival(0)), Signal::Mark);
    }
}
