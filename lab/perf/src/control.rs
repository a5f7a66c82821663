//! The stream on which client and server talk.

use quinn_proto::{Connection, ReadError, StreamId};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Kind};

/// Lines of JSON, both ways.
pub(crate) struct Control {
    id: StreamId,
    arrived: Vec<u8>,
    waiting: Vec<u8>,
    /// The maximum that may arrive and not be read.
    most: usize,
    ends: bool,
}

impl Control {
    pub fn new(id: StreamId, most: usize, connection: &mut Connection) -> Self {
        // Sent before the data. It fails only on a closed stream.
        let _ = connection.send_stream(id).set_priority(1);
        Self {
            id,
            arrived: Vec::new(),
            waiting: Vec::new(),
            most,
            ends: false,
        }
    }

    pub fn is(&self, id: StreamId) -> bool {
        self.id == id
    }

    pub fn send(&mut self, message: &impl Serialize) {
        // No message has a key that is not a string.
        if let Ok(line) = serde_json::to_vec(message) {
            self.waiting.extend_from_slice(&line);
            self.waiting.push(b'\n');
        }
    }

    /// Nothing follows.
    pub fn end(&mut self) {
        self.ends = true;
    }

    /// Sends as much as there is room for.
    pub fn write(&mut self, connection: &mut Connection) {
        let mut stream = connection.send_stream(self.id);
        while !self.waiting.is_empty() {
            match stream.write(&self.waiting) {
                Ok(written) if written > 0 => drop(self.waiting.drain(..written)),
                _ => return,
            }
        }
        if self.ends {
            self.ends = false;
            // It fails only if the other side has stopped the stream.
            let _ = stream.finish();
        }
    }

    /// Reads the data that has arrived.
    pub fn read(&mut self, connection: &mut Connection) -> Result<(), Error> {
        let mut stream = connection.recv_stream(self.id);
        let Ok(mut chunks) = stream.read(true) else {
            return Ok(()); // all of it was read
        };
        loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => self.arrived.extend_from_slice(&chunk.bytes),
                Ok(None) | Err(ReadError::Blocked) => break,
                Err(ReadError::Reset(_)) => return Err(foreign()),
            }
            if self.arrived.len() > self.most {
                return Err(foreign());
            }
        }
        let _ = chunks.finalize();
        Ok(())
    }

    /// The next line that has arrived.
    pub fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, Error> {
        let Some(end) = self.arrived.iter().position(|octet| *octet == b'\n') else {
            return Ok(None);
        };
        let line: Vec<u8> = self.arrived.drain(..=end).collect();
        let message = serde_json::from_slice(&line).map_err(|_| foreign())?;
        Ok(Some(message))
    }
}

fn foreign() -> Error {
    let what =
        "the other side does not speak the protocol of `paceline perf`, or another version of it";
    Error::new(Kind::Peer, what)
}
