use crate::{Bytes, Duration, Gain, Rate};

/// How much a queue holds, in one of the usual units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// A volume: "250 kB".
    Bytes(Bytes),
    /// A number of packets of any size: "165 packets".
    Packets(u64),
    /// A multiple of the bandwidth-delay product: "0.1 bdp".
    Bdp {
        /// The multiple, in millionths.
        millionths: u64,
    },
    /// The amount that the link sends in this time: "40 ms".
    Time(Duration),
}

/// The place of a queue: the reference for sizes that are not in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// Rate of the link.
    pub rate: Rate,
    /// Round-trip propagation delay of the path.
    pub rtt: Duration,
    /// The largest packet.
    pub mtu: Bytes,
}

impl Size {
    /// The size in bytes, rounded down, but at least one packet: a smaller queue would pass
    /// nothing.
    pub fn to_bytes(self, site: &Site) -> Bytes {
        let Site { rate, rtt, mtu } = *site;
        let bytes = match self {
            Self::Bytes(bytes) => bytes,
            Self::Packets(packets) => mtu * packets,
            Self::Bdp { millionths } => {
                let bdp = u128::from(rate.volume_in(rtt).get());
                let scaled = bdp * u128::from(millionths) / u128::from(Gain::SCALE);
                Bytes::new(u64::try_from(scaled).unwrap_or(u64::MAX))
            }
            Self::Time(time) => rate.volume_in(time),
        };
        bytes.max(mtu)
    }
}
