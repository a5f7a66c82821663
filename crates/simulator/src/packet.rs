use paceline_congestion::Ecn;
use paceline_recovery::Segment;

/// What travels over a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    pub flow: u32,
    /// Bytes on the wire, headers included.
    pub size: u32,
    /// None in a connection's opening SYN.
    pub segment: Option<Segment>,
}

impl paceline_path::Packet for Packet {
    fn size(&self) -> u32 {
        self.size
    }

    fn mark(&mut self) -> bool {
        match &mut self.segment {
            Some(segment) if segment.ecn != Ecn::NotEct => {
                segment.ecn = Ecn::Ce;
                true
            }
            _ => false,
        }
    }

    fn flow(&self) -> u64 {
        u64::from(self.flow)
    }

    fn is_l4s(&self) -> bool {
        let ecn = self.segment.map(|segment| segment.ecn);
        matches!(ecn, Some(Ecn::Ect1 | Ecn::Ce))
    }
}
