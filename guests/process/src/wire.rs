//! Messages between the two processes: fields one behind the other, numbers with the lowest byte first.

use std::io::{self, Read, Write as _};
use std::os::unix::net::UnixStream;

use paceline_endpoint::{Amount, Batch, Datagram, Ecn, Stats, Write};
use paceline_units::{Bytes, Duration, Instant, Rate};

/// The version of these messages: of both files of a guest.
pub const VERSION: u64 = 2;
/// The largest message.
const MOST: usize = 64 << 20;

/// What an engine asks, in order; an answer follows the last of a message.
pub enum Request {
    Receive(Instant, Datagram<Vec<u8>>),
    OnTimer(Instant),
    Write(Instant, Write),
    /// All that is to be sent now.
    Transmit(Instant),
}

/// What an end is made with.
pub struct Init {
    pub version: u64,
    pub sends: bool,
    pub max_datagram: u32,
    pub seed: u64,
    pub now: Instant,
    pub controller: String,
    pub options: Vec<(String, String)>,
}

/// The state of an end after a message.
#[derive(Default)]
pub struct Answer {
    pub failure: Option<String>,
    pub timer: Option<Instant>,
    pub delivered: u64,
    pub stats: Stats,
    /// That of `stats`, which is not known here.
    pub phase: String,
    pub batches: Vec<Batch<Vec<u8>>>,
    /// Whether there may be more to send.
    pub more: bool,
}

/// A message that is written.
#[derive(Default)]
pub struct Message(Vec<u8>);

impl Message {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn number(&mut self, value: u64) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn maybe(&mut self, value: Option<u64>) -> &mut Self {
        self.number(value.is_some().into())
            .number(value.unwrap_or_default())
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.number(bytes.len() as u64).0.extend_from_slice(bytes);
        self
    }

    pub fn init(&mut self, init: &Init) {
        self.number(init.version)
            .number(init.sends.into())
            .number(init.max_datagram.into())
            .number(init.seed)
            .number(init.now.as_nanos())
            .bytes(init.controller.as_bytes())
            .number(init.options.len() as u64);
        for (name, value) in &init.options {
            self.bytes(name.as_bytes()).bytes(value.as_bytes());
        }
    }

    pub fn request(&mut self, request: &Request) {
        match request {
            Request::Receive(now, datagram) => self
                .number(1)
                .number(now.as_nanos())
                .maybe(datagram.ecn.map(codepoint))
                .bytes(&datagram.payload),
            Request::OnTimer(now) => self.number(2).number(now.as_nanos()),
            Request::Write(now, write) => {
                let (kind, bytes) = match write.amount {
                    Amount::None => (0, 0),
                    Amount::Bytes(bytes) => (1, bytes),
                    Amount::Unlimited => (2, 0),
                };
                self.number(3)
                    .number(now.as_nanos())
                    .number(kind)
                    .number(bytes)
                    .number(write.stop.into())
                    .number(write.close.into())
            }
            Request::Transmit(now) => self.number(4).number(now.as_nanos()),
        };
    }

    pub fn answer(&mut self, answer: &Answer) {
        let stats = &answer.stats;
        self.number(answer.failure.is_some().into())
            .bytes(answer.failure.as_deref().unwrap_or_default().as_bytes())
            .maybe(answer.timer.map(Instant::as_nanos))
            .number(answer.delivered)
            .maybe(stats.cwnd.map(Bytes::get))
            .number(stats.in_flight.get())
            .maybe(stats.pacing_rate.map(Rate::bps))
            .maybe(stats.delivery_rate.map(Rate::bps))
            .maybe(stats.bandwidth.map(Rate::bps))
            .maybe(stats.latest_rtt.map(Duration::as_nanos))
            .maybe(stats.srtt.map(Duration::as_nanos))
            .maybe(stats.min_rtt.map(Duration::as_nanos))
            .number(stats.acknowledged.get())
            .number(stats.sent_packets)
            .number(stats.lost_packets)
            .number(stats.retransmitted_packets)
            .number(stats.app_limited.into())
            .bytes(stats.phase.as_bytes())
            .number(answer.more.into())
            .number(answer.batches.len() as u64);
        for batch in &answer.batches {
            self.number(batch.segment_size.into())
                .number(codepoint(batch.ecn))
                .bytes(&batch.payload);
        }
    }

    /// Sends it, and begins the next.
    pub fn send(&mut self, stream: &mut UnixStream) -> io::Result<()> {
        let mut whole = (self.0.len() as u64).to_le_bytes().to_vec();
        whole.append(&mut self.0);
        stream.write_all(&whole)
    }
}

fn codepoint(ecn: Ecn) -> u64 {
    match ecn {
        Ecn::NotEct => 0,
        Ecn::Ect1 => 1,
        Ecn::Ect0 => 2,
        Ecn::Ce => 3,
    }
}

fn ecn(codepoint: u64) -> Option<Ecn> {
    [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce]
        .get(usize::try_from(codepoint).ok()?)
        .copied()
}

/// A message that is read. A field that is not there is none, which ends the reading.
pub struct Fields(Vec<u8>, usize);

impl Fields {
    /// The next message; none if the other process has closed its end.
    pub fn receive(stream: &mut UnixStream) -> io::Result<Option<Self>> {
        let mut length = [0; 8];
        let first = stream.read(&mut length)?;
        if first == 0 {
            return Ok(None);
        }
        stream.read_exact(&mut length[first..])?;
        let length = usize::try_from(u64::from_le_bytes(length))
            .ok()
            .filter(|length| *length <= MOST)
            .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
        let mut bytes = vec![0; length];
        stream.read_exact(&mut bytes)?;
        Ok(Some(Self(bytes, 0)))
    }

    pub fn is_at_end(&self) -> bool {
        self.1 == self.0.len()
    }

    fn take(&mut self, size: usize) -> Option<&[u8]> {
        let end = self.1.checked_add(size)?;
        let bytes = self.0.get(self.1..end)?;
        self.1 = end;
        Some(bytes)
    }

    fn number(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_le_bytes)
    }

    fn flag(&mut self) -> Option<bool> {
        self.number().map(|value| value != 0)
    }

    fn maybe(&mut self) -> Option<Option<u64>> {
        let (known, value) = (self.flag()?, self.number()?);
        Some(known.then_some(value))
    }

    fn bytes(&mut self) -> Option<Vec<u8>> {
        let size = usize::try_from(self.number()?).ok()?;
        self.take(size).map(<[u8]>::to_vec)
    }

    fn text(&mut self) -> Option<String> {
        self.bytes()
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    fn instant(&mut self) -> Option<Instant> {
        self.number().map(Instant::from_nanos)
    }

    fn narrow(&mut self) -> Option<u32> {
        self.number().and_then(|value| u32::try_from(value).ok())
    }

    pub fn init(&mut self) -> Option<Init> {
        Some(Init {
            version: self.number()?,
            sends: self.flag()?,
            max_datagram: self.narrow()?,
            seed: self.number()?,
            now: self.instant()?,
            controller: self.text()?,
            options: (0..self.number()?)
                .map(|_| Some((self.text()?, self.text()?)))
                .collect::<Option<_>>()?,
        })
    }

    pub fn request(&mut self) -> Option<Request> {
        Some(match self.number()? {
            1 => {
                let now = self.instant()?;
                let ecn = self.maybe()?.and_then(ecn);
                let payload = self.bytes()?;
                let size = u32::try_from(payload.len()).ok()?;
                Request::Receive(now, Datagram { payload, size, ecn })
            }
            2 => Request::OnTimer(self.instant()?),
            3 => {
                let now = self.instant()?;
                let amount = match (self.number()?, self.number()?) {
                    (1, bytes) => Amount::Bytes(bytes),
                    (2, _) => Amount::Unlimited,
                    _ => Amount::None,
                };
                let (stop, close) = (self.flag()?, self.flag()?);
                let write = Write {
                    amount,
                    stop,
                    close,
                };
                Request::Write(now, write)
            }
            4 => Request::Transmit(self.instant()?),
            _ => return None,
        })
    }

    pub fn answer(&mut self) -> Option<Answer> {
        let (failed, why) = (self.flag()?, self.text()?);
        Some(Answer {
            failure: failed.then_some(why),
            timer: self.maybe()?.map(Instant::from_nanos),
            delivered: self.number()?,
            stats: Stats {
                cwnd: self.maybe()?.map(Bytes::new),
                in_flight: Bytes::new(self.number()?),
                pacing_rate: self.maybe()?.map(Rate::from_bps),
                delivery_rate: self.maybe()?.map(Rate::from_bps),
                bandwidth: self.maybe()?.map(Rate::from_bps),
                latest_rtt: self.maybe()?.map(Duration::from_nanos),
                srtt: self.maybe()?.map(Duration::from_nanos),
                min_rtt: self.maybe()?.map(Duration::from_nanos),
                acknowledged: Bytes::new(self.number()?),
                sent_packets: self.number()?,
                lost_packets: self.number()?,
                retransmitted_packets: self.number()?,
                app_limited: self.flag()?,
                phase: "",
            },
            phase: self.text()?,
            more: self.flag()?,
            batches: (0..self.number()?)
                .map(|_| {
                    let (segment_size, ecn) = (self.narrow()?, self.number().and_then(ecn)?);
                    let payload = self.bytes()?;
                    let size = u32::try_from(payload.len()).ok()?;
                    Some(Batch {
                        payload,
                        size,
                        segment_size,
                        ecn,
                    })
                })
                .collect::<Option<_>>()?,
        })
    }
}
