//! The sources of events.

/// The sources of events. Their numbers order simultaneous events: the scenario's changes come
/// first, and the sampler comes last and sees the resulting state.
pub(crate) struct Sources {
    pub links: usize,
    pub lanes: usize,
    pub flows: usize,
    pub hosts: usize,
}

#[derive(Clone, Copy)]
pub(crate) enum Source {
    Script,
    Link(usize),
    Lane(usize),
    Sender(usize),
    Receiver(usize),
    /// The NIC of a flow's sender, by the number of its host.
    Egress(usize),
    /// The stack of its receiver, in the same way.
    Ingress(usize),
    Sampler,
}

impl Sources {
    pub const SCRIPT: usize = 0;
    const LINKS: usize = 1;

    #[inline]
    pub fn link(&self, link: usize) -> usize {
        Self::LINKS + link
    }

    #[inline]
    pub fn count(&self) -> usize {
        self.sampler() + 1
    }

    #[inline]
    pub fn lane(&self, lane: usize) -> usize {
        self.lanes_from() + lane
    }

    #[inline]
    pub fn sender(&self, flow: usize) -> usize {
        self.ends_from() + 2 * flow
    }

    #[inline]
    pub fn receiver(&self, flow: usize) -> usize {
        self.sender(flow) + 1
    }

    #[inline]
    pub fn egress(&self, host: usize) -> usize {
        self.hosts_from() + 2 * host
    }

    #[inline]
    pub fn ingress(&self, host: usize) -> usize {
        self.egress(host) + 1
    }

    #[inline]
    pub fn sampler(&self) -> usize {
        self.hosts_from() + 2 * self.hosts
    }

    #[inline]
    fn lanes_from(&self) -> usize {
        Self::LINKS + self.links
    }

    #[inline]
    pub fn ends_from(&self) -> usize {
        self.lanes_from() + self.lanes
    }

    #[inline]
    fn hosts_from(&self) -> usize {
        self.ends_from() + 2 * self.flows
    }

    #[inline]
    pub fn of(&self, number: usize) -> Source {
        let (lanes, ends, hosts) = (self.lanes_from(), self.ends_from(), self.hosts_from());
        if number == Self::SCRIPT {
            Source::Script
        } else if number < lanes {
            Source::Link(number - Self::LINKS)
        } else if number < ends {
            Source::Lane(number - lanes)
        } else if number >= self.sampler() {
            Source::Sampler
        } else if number >= hosts {
            let end = number - hosts;
            if end.is_multiple_of(2) {
                Source::Egress(end / 2)
            } else {
                Source::Ingress(end / 2)
            }
        } else {
            let end = number - ends;
            if end.is_multiple_of(2) {
                Source::Sender(end / 2)
            } else {
                Source::Receiver(end / 2)
            }
        }
    }
}
