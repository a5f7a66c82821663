use paceline_congestion::Ecn;
use paceline_recovery::Segment;

/// A packet on a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    pub flow: u32,
    /// Bytes on the wire, headers included.
    pub size: u32,
    pub load: Load,
}

/// The content of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Load {
    /// The opening of a connection.
    Syn,
    Segment(Segment),
    /// Its receiver has it already, and will have delivered this many bytes when it arrives.
    Taken(u64),
    /// A datagram of another transport, by its number; its ends have the payload.
    Datagram {
        number: u64,
        size: u32,
        ecn: Ecn,
    },
    /// A receiver's reply, by its number, and the place of the link on its way.
    Reply {
        number: u64,
        hop: u32,
        ecn: Ecn,
    },
}

impl Load {
    fn ecn(&self) -> Option<Ecn> {
        match self {
            Self::Syn | Self::Taken(_) => None,
            Self::Segment(segment) => Some(segment.ecn),
            Self::Datagram { ecn, .. } | Self::Reply { ecn, .. } => Some(*ecn),
        }
    }
}

impl paceline_path::Packet for Packet {
    fn size(&self) -> u32 {
        self.size
    }

    fn mark(&mut self) -> bool {
        let ecn = match &mut self.load {
            Load::Syn | Load::Taken(_) => return false,
            Load::Segment(segment) => &mut segment.ecn,
            Load::Datagram { ecn, .. } | Load::Reply { ecn, .. } => ecn,
        };
        let capable = *ecn != Ecn::NotEct;
        if capable {
            *ecn = Ecn::Ce;
        }
        capable
    }

    fn flow(&self) -> u64 {
        u64::from(self.flow)
    }

    fn is_l4s(&self) -> bool {
        matches!(self.load.ecn(), Some(Ecn::Ect1 | Ecn::Ce))
    }
}
