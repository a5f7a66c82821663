//! The data of a test: streams to write, or to read.

use std::sync::LazyLock;

use bytes::Bytes;
use quinn_proto::{Connection, Dir, ReadError, StreamId, VarInt};

/// The size of one write.
const PIECE: usize = 1 << 16;
/// The content: nobody looks at it.
static ZEROS: LazyLock<Bytes> = LazyLock::new(|| Bytes::from(vec![0; PIECE]));

/// A stream to write.
struct Out {
    id: StreamId,
    /// Bytes left to write; none if there is always more.
    left: Option<u64>,
    is_finished: bool,
}

/// The streams of a sender.
pub(crate) struct Sending {
    streams: Vec<Out>,
    unacknowledged: usize,
    is_stopped: bool,
    /// Bytes written.
    pub written: u64,
}

impl Sending {
    /// Streams that carry `bytes` together, or as much as they can; none if the other side allows
    /// fewer streams.
    pub fn open(connection: &mut Connection, count: u32, bytes: Option<u64>) -> Option<Self> {
        let streams: Option<Vec<Out>> = (0..u64::from(count))
            .map(|nth| {
                let share = |bytes| {
                    let (each, more) = (bytes / u64::from(count), bytes % u64::from(count));
                    each + u64::from(nth < more)
                };
                Some(Out {
                    id: connection.streams().open(Dir::Uni)?,
                    left: bytes.map(share),
                    is_finished: false,
                })
            })
            .collect();
        let streams = streams?;
        Some(Self {
            unacknowledged: streams.len(),
            streams,
            is_stopped: false,
            written: 0,
        })
    }

    /// Writes as much as the streams accept, one piece of each in turn.
    pub fn write(&mut self, connection: &mut Connection) {
        if self.is_stopped {
            return;
        }
        // Models an application that keeps its buffer just ahead of the window: when it stops
        // writing, sending stops.
        let window = connection.congestion_state().window();
        connection.set_send_window(window.saturating_mul(2).saturating_add(PIECE as u64));
        loop {
            let mut written = 0;
            for out in &mut self.streams {
                if out.is_finished {
                    continue;
                }
                let mut stream = connection.send_stream(out.id);
                let piece = out.left.unwrap_or(u64::MAX).min(PIECE as u64);
                let mut pieces = [ZEROS.slice(..piece as usize)];
                let now = if piece == 0 {
                    0
                } else {
                    stream
                        .write_chunks(&mut pieces)
                        .map_or(0, |written| written.bytes)
                };
                written += now;
                if let Some(left) = &mut out.left {
                    *left = left.saturating_sub(now as u64);
                    if *left == 0 {
                        out.is_finished = true;
                        // It fails only if the other side has stopped the stream.
                        let _ = stream.finish();
                    }
                }
            }
            self.written += written as u64;
            if written == 0 {
                return;
            }
        }
    }

    /// The stream is fully acknowledged.
    pub fn acknowledged(&mut self, id: StreamId) {
        if self.streams.iter().any(|out| out.id == id) {
            self.unacknowledged = self.unacknowledged.saturating_sub(1);
        }
    }

    /// Whether everything is acknowledged.
    pub fn is_done(&self) -> bool {
        self.unacknowledged == 0
    }

    /// Sends no more, not even buffered data.
    pub fn stop(&mut self, connection: &mut Connection) {
        self.is_stopped = true;
        for out in &self.streams {
            // It fails on a stream that is fully acknowledged.
            let _ = connection.send_stream(out.id).reset(VarInt::from_u32(0));
        }
    }
}

/// The streams of a receiver.
#[derive(Default)]
pub(crate) struct Receiving {
    streams: Vec<StreamId>,
    pub bytes: u64,
}

impl Receiving {
    /// Reads everything that has arrived, in any order: in that mode quinn does not treat a stream
    /// with many gaps as an error.
    pub fn read(&mut self, connection: &mut Connection) {
        while let Some(id) = connection.streams().accept(Dir::Uni) {
            self.streams.push(id);
        }
        let bytes = &mut self.bytes;
        self.streams.retain(|id| {
            let mut stream = connection.recv_stream(*id);
            let Ok(mut chunks) = stream.read(false) else {
                return false;
            };
            let goes_on = loop {
                match chunks.next(usize::MAX) {
                    Ok(Some(chunk)) => *bytes += chunk.bytes.len() as u64,
                    Ok(None) | Err(ReadError::Reset(_)) => break false,
                    Err(ReadError::Blocked) => break true,
                }
            };
            // Whatever this asks to send is sent at the end of the turn in any case.
            let _ = chunks.finalize();
            goes_on
        });
    }
}
