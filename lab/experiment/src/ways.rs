//! How the RTT is divided: over the path's own link, other links, and the return paths.

use paceline_scenario::{FlowGroup, Scenario};
use paceline_units::Duration;

/// The return paths of all flows: uncongested, in order.
///
/// Half of the shortest RTT is on the path's own link, as much of what is left on its return
/// direction if it has one, the rest on each return path. When the path's RTT changes, its new value
/// is divided in the same way; a flow with its own RTT keeps it.
#[derive(Clone, Debug)]
pub struct Ways {
    lanes: Vec<Lane>,
    /// The path's own link takes no more than half of this, whatever the path's RTT is.
    shortest: Duration,
    /// Whether an event changes the path's RTT.
    changes: bool,
}

/// A return path, shared by all flows whose ACKs take equally long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane {
    rest: Rest,
    /// Whether its flows cross the path's own link.
    crosses: bool,
    /// Whether they cross its return direction.
    returns: bool,
    /// Whether there are hosts at its ends. A delay in one flow's hosts does not delay another
    /// flow: such a lane has one flow only.
    hosted: bool,
}

/// The rest of an RTT, excluding the links other than the path's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    /// Always this.
    Fixed(Duration),
    /// The path's RTT, minus this.
    OfPath(Duration),
}

/// The delay of each part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delays {
    /// The propagation delay of the path's own link.
    pub link: Duration,
    /// That of its return direction.
    pub back: Duration,
    /// The delay of each lane.
    pub lanes: Vec<Duration>,
}

impl Lane {
    fn rest(&self, rtt: Duration) -> Duration {
        match self.rest {
            Rest::Fixed(rest) => rest,
            Rest::OfPath(others) => rtt - others,
        }
    }
}

impl Ways {
    /// Those of a scenario, without lanes yet.
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let events = scenario.events.iter();
        let changed = events.filter_map(|event| event.path.as_ref()?.rtt);
        let own = scenario.flows.iter().filter_map(|group| group.rtt).min();
        Self {
            lanes: Vec::new(),
            // The link of a flow with its own RTT cannot follow the path's RTT: from the start its
            // delay is the minimum that all RTTs allow.
            shortest: own.map_or(Duration::MAX, |own| {
                changed
                    .clone()
                    .fold(own.min(scenario.path.rtt), Duration::min)
            }),
            changes: changed.count() > 0,
        }
    }

    /// The lane of the next flow of a group, which crosses the links of `way` there and back.
    pub(crate) fn lane_of<'w>(
        &mut self,
        scenario: &Scenario,
        group: &FlowGroup,
        way: impl Iterator<Item = &'w usize> + Clone,
    ) -> usize {
        let back = scenario.return_number(0);
        let others = way
            .clone()
            .filter_map(|number| scenario.links.get(number.checked_sub(1)?))
            .fold(Duration::ZERO, |sum, link| sum + link.delay);
        let lane = Lane {
            rest: match group.rtt {
                None if self.changes => Rest::OfPath(others),
                own => Rest::Fixed(own.unwrap_or(scenario.path.rtt) - others),
            },
            crosses: way.clone().any(|link| *link == 0),
            returns: way.clone().any(|link| Some(*link) == back),
            hosted: group.host.is_some(),
        };
        let known = self.lanes.iter().position(|known| *known == lane);
        known.filter(|_| !lane.hosted).unwrap_or_else(|| {
            self.lanes.push(lane);
            self.lanes.len() - 1
        })
    }

    /// The delay of each part while the path's RTT is `rtt`.
    pub fn delays(&self, rtt: Duration) -> Delays {
        let half = self.shortest.min(rtt) / 2;
        // Other links may leave less than half of a round trip.
        let crossing = self.lanes.iter().filter(|lane| lane.crosses);
        let link = crossing
            .map(|lane| lane.rest(rtt))
            .fold(half, Duration::min);
        let after = |lane: &Lane| match lane.crosses {
            true => lane.rest(rtt) - link,
            false => lane.rest(rtt),
        };
        let returning = self.lanes.iter().filter(|lane| lane.returns);
        let back = returning.map(after).fold(half, Duration::min);
        let rest = |lane: &Lane| match lane.returns {
            true => after(lane) - back,
            false => after(lane),
        };
        Delays {
            link,
            back,
            lanes: self.lanes.iter().map(rest).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "schema = 1\nrun.duration = \"30 s\"\n\
        [path]\nrate = \"100 Mbit/s\"\nrtt = \"40 ms\"\nqueue.size = \"1 bdp\"\n";

    fn event(rtt: &str) -> String {
        format!("[[events]]\nwhen = \"1 s\"\npath.rtt = \"{rtt}\"\n")
    }

    /// The delay of the path's own link and of each flow's lane for each RTT of the path, in us.
    fn delays(text: &str, rtts: &[u64]) -> Vec<(u64, Vec<u64>)> {
        let scenario = crate::parse(&format!("{PATH}{text}"), "test.toml", &[]).unwrap();
        let (flows, ways) = crate::flows::flows(&scenario, 1);
        let delays = rtts
            .iter()
            .map(|ms| ways.delays(Duration::from_millis(*ms)));
        let lanes = |delays: &Delays| {
            let of = |lane: usize| delays.lanes[lane].as_micros();
            flows.iter().map(|flow| of(flow.lane)).collect()
        };
        delays
            .map(|delays| (delays.link.as_micros(), lanes(&delays)))
            .collect()
    }

    #[test]
    fn each_change_of_the_rtt_is_divided_anew() {
        let text = "[[flows]]\ncc = \"reno\"\n".to_owned() + &event("4 ms") + &event("80 ms");
        let half = |ms: u64| (ms * 500, vec![ms * 500]);
        let shown = delays(&text, &[40, 4, 40, 80]);
        assert_eq!(shown, [half(40), half(4), half(40), half(80)]);
    }

    #[test]
    fn a_flow_with_its_own_rtt_keeps_it() {
        for own in [1, 10, 60] {
            let text =
                format!("[[flows]]\ncc = \"reno\"\n[[flows]]\ncc = \"reno\"\nrtt = \"{own} ms\"\n");
            for (link, lanes) in delays(&(text + &event("4 ms")), &[40, 4, 40]) {
                // Packets on their way when the RTT changes keep their delay, too.
                assert_eq!(link, own.min(4) * 500);
                assert_eq!(link + lanes[1], own * 1000);
            }
        }
    }

    #[test]
    fn other_links_are_part_of_the_round_trip() {
        let link = "[[links]]\nname = \"far\"\nrate = \"1 Gbit/s\"\ndelay = \"15 ms\"\nqueue.size = \"1 bdp\"\n";
        let flow = |route: &str| format!("[[flows]]\ncc = \"reno\"\nroute = [{route}]\n");
        let text = flow("\"bottleneck\", \"far\"") + &flow("\"far\"") + link + &event("30 ms");
        let shown = delays(&text, &[40, 20, 16]);
        assert_eq!(shown[0], (20_000, vec![5_000, 25_000]));
        // Half of 20 ms is more than the other link leaves of it.
        assert_eq!(shown[1], (5_000, vec![0, 5_000]));
        assert_eq!(shown[2], (1_000, vec![0, 1_000]));
    }

    #[test]
    fn a_return_direction_takes_its_half() {
        let text = "return = { rate = \"1 Mbit/s\", queue = { size = \"40 ms\" } }\n[[flows]]\ncc = \"reno\"\n\
            [[flows]]\ncc = \"reno\"\ndirection = \"up\"\nrtt = \"60 ms\"\n";
        let scenario = crate::parse(&format!("{PATH}{text}"), "test.toml", &[]).unwrap();
        let (flows, ways) = crate::flows::flows(&scenario, 1);
        let Delays { link, back, lanes } = ways.delays(scenario.path.rtt);
        let ms = |time: &Duration| time.as_micros() / 1000;
        assert_eq!((ms(&link), ms(&back)), (20, 20));
        assert_eq!(lanes.iter().map(ms).collect::<Vec<_>>(), [0, 20]);
        let routes: Vec<_> = flows.iter().map(|f| (&f.route[..], &f.back[..])).collect();
        assert_eq!(routes, [(&[0][..], &[1][..]), (&[1], &[0])]);
    }

    #[test]
    fn acks_come_back_the_same_way_or_by_their_own() {
        let link = |name: &str, more: &str| {
            format!(
                "[[links]]\nname = \"{name}\"\nrate = \"1 Gbit/s\"\nqueue.size = \"1 MB\"\n{more}"
            )
        };
        let links = link("a", "return = {}\n")
            + &link("b", "")
            + &link(
                "c",
                "return = { rate = \"1 Mbit/s\", queue = { size = \"40 ms\" } }\n",
            );
        let flow = "[[flows]]\ncc = \"reno\"\nroute = [\"a\", \"b\", \"bottleneck\", \"c\"]\n";
        let own = format!("{flow}return_route = [\"a\", \"c\"]\n");
        let up = format!("{flow}direction = \"up\"\n");
        let text = format!("{PATH}{flow}{own}{up}{links}");
        let scenario = crate::parse(&text, "test.toml", &[]).unwrap();
        let flows = crate::flows::flows(&scenario, 1).0;
        // The path's link, a, b and c, and the return directions of a and c.
        let there = [1, 2, 0, 3];
        let routes: Vec<_> = flows.iter().map(|f| (&f.route[..], &f.back[..])).collect();
        assert_eq!(
            routes,
            [
                (&there[..], &[5, 4][..]),
                (&there, &[4, 5]),
                (&[5, 4], &there)
            ]
        );
    }

    #[test]
    fn a_route_goes_from_link_to_link() {
        let link = |name: &str| {
            format!("[[links]]\nname = \"{name}\"\nrate = \"1 Gbit/s\"\nqueue.size = \"1 bdp\"\n")
        };
        let flow = "[[flows]]\ncc = \"reno\"\nroute = [\"b\", \"bottleneck\", \"a\"]\n";
        let text = format!("{PATH}{flow}{}{}{}", link("a"), link("b"), link("c"));
        let scenario = crate::parse(&text, "test.toml", &[]).unwrap();
        let flow = &crate::flows::flows(&scenario, 1).0[0];
        assert_eq!(
            [2, 0, 1, 3].map(|link| flow.after(link)),
            [Some(0), Some(1), None, None]
        );
    }

    #[test]
    fn flows_share_a_lane_unless_they_have_hosts() {
        let lanes = |text: &str| {
            let scenario = crate::parse(&format!("{PATH}{text}"), "test.toml", &[]).unwrap();
            let (flows, _) = crate::flows::flows(&scenario, 1);
            flows.iter().map(|flow| flow.lane).collect::<Vec<_>>()
        };
        let plain = "[[flows]]\ncc = \"reno\"\ncount = 2\n";
        let same = "[[flows]]\ncc = \"bbr3\"\nrtt = \"40 ms\"\n";
        let host = "[[flows]]\ncc = \"reno\"\ncount = 2\nhost.send = \"1 ms\"\n";
        assert_eq!(lanes(&format!("{plain}{same}")), [0, 0, 0]);
        assert_eq!(lanes(&format!("{host}{plain}")), [0, 1, 2, 2]);
        // From the event on they differ.
        assert_eq!(lanes(&format!("{plain}{same}{}", event("4 ms"))), [0, 0, 1]);
    }
}
