//! Queues: packets waiting for a link, and when they are marked or dropped before the queue is
//! full.
//!
//! Early signals judge a packet on arrival, and leave the queue to the link. Disciplines are queues
//! of their own: they judge a packet at dequeue, or by the waiting time of those before it. Each is
//! in its own file, which declares its options, and has one line in the registry below.

mod codel;
mod discipline;
mod dualpi2;
mod early;
mod fq_codel;
#[cfg(test)]
mod linux_tests;
mod mark;
mod pie;
mod red;
mod sums;

use paceline_units::options::{Named, OptionValue, Parameters};
use paceline_units::{Instant, Site};

use crate::packet::{DropCause, Packet, QueueLimit};

use discipline::Discipline;
pub(crate) use discipline::{DroppedPacket, Fifo, Sink};
use early::Early;
pub(crate) use early::{Arrival, Signal, transmissions};

/// Declares every queue: `module: Options, Queue = "name in scenarios", "one-line summary";`.
macro_rules! registry {
    (
        disciplines {
            $($module:ident: $options:ident, $queue:ident = $name:literal, $summary:literal;)*
        }
        early {
            $($early_module:ident: $early_options:ident, $early:ident = $early_name:literal, $early_summary:literal;)*
        }
    ) => {
        $(pub use $module::$options;)*
        $(pub use $early_module::$early_options;)*

        /// How a queue that is more than drop-tail marks or drops, with its options.
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[expect(missing_docs, reason = "each variant is its options")]
        pub enum Aqm {
            $($options($options),)*
            $($early_options($early_options),)*
        }

        impl Aqm {
            /// The queue named in a scenario, with checked options; none for plain drop-tail.
            pub fn named(name: &str, options: &[(&str, OptionValue)]) -> Option<Self> {
                match name {
                    $($name => <$options>::with(options).ok().map(Self::$options),)*
                    $($early_name => <$early_options>::with(options).ok().map(Self::$early_options),)*
                    _ => None,
                }
            }
        }

        /// The disciplines that a scenario can name as the `kind` of a queue.
        pub const QUEUES: &[Named] = &[
            DROPTAIL,
            $(Named {
                name: $name,
                summary: $summary,
                title: stringify!($options),
                about: <$options as Parameters>::ABOUT,
                option: <$options as Parameters>::info,
                check: |values, site| <$options>::holding(values).check(site),
            }),*
        ];

        /// The early signals that a scenario can give a drop-tail queue, each under its own key.
        pub const EARLY_SIGNALS: &[Named] = &[$(Named {
            name: $early_name,
            summary: $early_summary,
            title: stringify!($early_options),
            about: <$early_options as Parameters>::ABOUT,
            option: <$early_options as Parameters>::info,
            check: |values, site| <$early_options>::holding(values).check(site),
        }),*];

        /// A queue that the link asks for its next packet each time it becomes free.
        pub(crate) enum AnyDiscipline<P> {
            /// Plain drop-tail whose packets are looked at while they wait; the link limits it.
            Fifo(Fifo<P>),
            $($options($module::$queue<P>)),*
        }

        impl<P: Packet> AnyDiscipline<P> {
            /// None for signals that judge packets on arrival.
            pub(crate) fn new(aqm: Aqm, site: &Site, seed: u64) -> Option<Self> {
                match aqm {
                    $(Aqm::$options(options) => {
                        Some(Self::$options(Discipline::new(options, site, seed)))
                    })*
                    $(Aqm::$early_options(_) => None,)*
                }
            }

            /// Accepts a packet, or says why not. Others may be dropped to make room. `limit` does
            /// not apply to a packet that will not have to wait.
            pub(crate) fn enqueue(
                &mut self,
                now: Instant,
                packet: P,
                limit: Option<QueueLimit>,
                sink: &mut Sink<'_, P>,
            ) -> Result<(), DropCause> {
                match self {
                    Self::Fifo(fifo) => {
                        fifo.push(now, packet);
                        Ok(())
                    }
                    $(Self::$options(queue) => offer(queue, now, packet, limit, sink)),*
                }
            }

            /// The next packet to transmit; `sink` receives the packets dropped before it.
            pub(crate) fn dequeue(&mut self, now: Instant, sink: &mut Sink<'_, P>) -> Option<P> {
                match self {
                    Self::Fifo(fifo) => fifo.pop().map(|head| head.packet),
                    $(Self::$options(queue) => queue.dequeue(now, sink)),*
                }
            }

            pub(crate) fn bytes(&self) -> u64 {
                match self {
                    Self::Fifo(fifo) => fifo.bytes(),
                    $(Self::$options(queue) => queue.bytes()),*
                }
            }

            pub(crate) fn packets(&self) -> u64 {
                match self {
                    Self::Fifo(fifo) => fifo.packets(),
                    $(Self::$options(queue) => queue.packets()),*
                }
            }

            /// Takes out the packet that `pick` finds among those that wait with a packet of `flow`.
            pub(crate) fn remove(
                &mut self,
                flow: u64,
                pick: impl FnOnce(&Fifo<P>) -> Option<usize>,
            ) -> Option<P> {
                match self {
                    Self::Fifo(fifo) => fifo.take(pick),
                    $(Self::$options(queue) => queue.remove(flow, pick)),*
                }
            }
        }

        /// An early signal at work.
        #[derive(Clone, Debug)]
        pub(crate) enum AnyEarly { $($early_options($early_module::$early)),* }

        impl AnyEarly {
            /// None for a queue of its own.
            pub(crate) fn new(aqm: Aqm, site: &Site, seed: u64) -> Option<Self> {
                match aqm {
                    $(Aqm::$early_options(options) => {
                        Some(Self::$early_options(Early::new(options, site, seed)))
                    })*
                    $(Aqm::$options(_) => None,)*
                }
            }

            pub(crate) fn judge(&mut self, arrival: Arrival) -> Signal {
                match self { $(Self::$early_options(early) => early.judge(arrival)),* }
            }
        }
    };
}

impl Aqm {
    /// Memory before the first packet, in bytes, without negligible parts.
    pub fn memory(&self) -> u64 {
        match self {
            Self::FqCodel(options) => options.memory(),
            _ => 0,
        }
    }
}

registry! {
    disciplines {
        codel: Codel, CodelQueue = "codel", "controlled delay (RFC 8289)";
        fq_codel: FqCodel, FqCodelQueue = "fq_codel", "fair queues, each with CoDel (RFC 8290)";
        pie: Pie, PieQueue = "pie", "proportional integral controller enhanced (RFC 8033)";
        dualpi2: DualPi2, DualPi2Queue = "dualpi2", "a Classic and an L4S queue, coupled (RFC 9332)";
    }
    early {
        mark: StepMark, Step = "mark", "Marks with CE what finds more waiting than a threshold";
        red: Red, RedState = "red", "Random early detection";
    }
}

const DROPTAIL: Named = Named {
    name: "droptail",
    summary: "first in, first out; what does not fit is dropped on arrival",
    title: "DropTail",
    about: &["First in, first out; what does not fit is dropped on arrival"],
    option: |_| None,
    check: |_, _| None,
};

/// Offers a packet to a queue, unless it does not fit.
fn offer<P: Packet, Q: Discipline<P>>(
    queue: &mut Q,
    now: Instant,
    packet: P,
    limit: Option<QueueLimit>,
    sink: &mut Sink<'_, P>,
) -> Result<(), DropCause> {
    let fits = match limit {
        None => true,
        Some(QueueLimit::Packets(limit)) => queue.packets() < limit,
        Some(QueueLimit::Bytes(limit)) => queue.bytes() + queue.space_for(packet.size()) <= limit,
    };
    if !fits && !Q::MAKES_ROOM {
        queue.on_overflow();
        return Err(DropCause::Queue);
    }
    queue.enqueue(now, packet, limit, sink)
}
