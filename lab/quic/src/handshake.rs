//! A handshake without cryptography: the messages of TLS 1.3 in their order, with no content except
//! the transport parameters.
//!
//! Tags and samples have the lengths of AES-GCM, so that packets have their real sizes on the wire.

/// Bytes of an authentication tag (RFC 9001 section 5.3).
pub(crate) const TAG: usize = 16;
/// Bytes of a header-protection sample (RFC 9001 section 5.4.2).
pub(crate) const SAMPLE: usize = 16;
/// Bytes of the server's certificate and its signature, with Ed25519 keys: the size of a small
/// certificate.
const CERTIFICATE: usize = 700;
/// Bytes of a Finished message (RFC 8446 section 4.4.4, SHA-256).
const FINISHED: usize = 36;

/// The type of a message. Each message is one byte of this, four bytes of length, and its content.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    ClientHello = 1,
    ServerHello = 2,
    /// The server's parameters and its certificate.
    Server = 3,
    ClientFinished = 4,
}

const HEADER: usize = 5;

/// The next step of the stack.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// The keys stay.
    Stay,
    /// The keys of the next packet-number space are there.
    Next,
}

/// One side of a handshake.
pub(crate) struct Handshake {
    is_client: bool,
    /// Our transport parameters, encoded.
    parameters: Vec<u8>,
    /// How much of the current message has been read.
    incoming: Vec<u8>,
    /// The other side's transport parameters.
    peer: Option<Vec<u8>>,
    /// The next message to write.
    step: Step,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Until the other side's first message.
    Hello,
    Waiting,
    /// The server's first message has arrived, or is answered: switch to the handshake keys.
    Handshake,
    /// The server's message, or the client's Finished: switch to the last keys.
    Finish,
    Done,
}

impl Handshake {
    pub fn new(is_client: bool, parameters: Vec<u8>) -> Self {
        Self {
            is_client,
            parameters,
            incoming: Vec::new(),
            peer: None,
            step: match is_client {
                true => Step::Hello,
                false => Step::Waiting,
            },
        }
    }

    /// Whether the other side's Finished is still missing.
    pub fn is_handshaking(&self) -> bool {
        self.step != Step::Done
    }

    /// The other side's transport parameters, once they have arrived.
    pub fn peer(&self) -> Option<&[u8]> {
        self.peer.as_deref()
    }

    /// Reads the data that has arrived; true when it completes the parameters. None if it is not
    /// this handshake.
    pub fn read(&mut self, bytes: &[u8]) -> Option<bool> {
        self.incoming.extend_from_slice(bytes);
        let before = self.peer.is_some();
        while let Some((kind, content)) = self.next_message() {
            match (self.is_client, kind) {
                (false, 1) => {
                    self.peer = Some(content);
                    self.step = Step::Handshake;
                }
                (true, 2) => self.step = Step::Handshake,
                (true, 3) => {
                    let size = u16::from_be_bytes(*content.first_chunk()?);
                    self.peer = Some(content.get(2..2 + usize::from(size))?.to_vec());
                    self.step = Step::Finish;
                }
                (false, 4) => self.step = Step::Done,
                _ => return None,
            }
        }
        Some(!before && self.peer.is_some())
    }

    fn next_message(&mut self) -> Option<(u8, Vec<u8>)> {
        let [kind, length @ ..] = *self.incoming.first_chunk::<HEADER>()?;
        let length = u32::from_be_bytes(length) as usize;
        let rest = self.incoming.get(HEADER..)?;
        let content = rest.get(..length)?.to_vec();
        self.incoming.drain(..HEADER + length);
        Some((kind, content))
    }

    /// Writes the next message. It is sent with the previous keys.
    pub fn write(&mut self, out: &mut Vec<u8>) -> Keys {
        match (self.is_client, self.step) {
            (true, Step::Hello) => {
                put(out, Kind::ClientHello, &self.parameters);
                self.step = Step::Waiting;
                Keys::Stay
            }
            (true, Step::Handshake) => {
                self.step = Step::Waiting;
                Keys::Next
            }
            (true, Step::Finish) => {
                put(out, Kind::ClientFinished, &[0; FINISHED]);
                self.step = Step::Done;
                Keys::Next
            }
            (false, Step::Handshake) => {
                put(out, Kind::ServerHello, &[]);
                self.step = Step::Finish;
                Keys::Next
            }
            (false, Step::Finish) => {
                let size = u16::try_from(self.parameters.len()).unwrap_or(u16::MAX);
                let mut content = size.to_be_bytes().to_vec();
                content.extend_from_slice(&self.parameters);
                content.resize(content.len() + CERTIFICATE + FINISHED, 0);
                put(out, Kind::Server, &content);
                self.step = Step::Waiting;
                Keys::Next
            }
            _ => Keys::Stay,
        }
    }
}

fn put(out: &mut Vec<u8>, kind: Kind, content: &[u8]) {
    out.push(kind as u8);
    let length = u32::try_from(content.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(content);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(side: &mut Handshake) -> (Vec<u8>, Keys) {
        let mut out = Vec::new();
        let keys = side.write(&mut out);
        (out, keys)
    }

    #[test]
    fn both_sides_learn_the_parameters_and_change_keys_twice() {
        let mut client = Handshake::new(true, vec![1; 70]);
        let mut server = Handshake::new(false, vec![2; 300]);
        let (hello, keys) = output(&mut client);
        assert_eq!(keys, Keys::Stay);
        // However the data is cut.
        assert_eq!(server.read(&hello[..10]), Some(false));
        assert_eq!(output(&mut server), (Vec::new(), Keys::Stay));
        assert_eq!(server.read(&hello[10..]), Some(true));
        assert_eq!(server.peer(), Some(&[1; 70][..]));
        let (first, keys) = output(&mut server);
        assert_eq!(keys, Keys::Next);
        let (second, keys) = output(&mut server);
        assert_eq!(keys, Keys::Next);
        assert!(second.len() > CERTIFICATE + 300);
        assert_eq!(output(&mut server), (Vec::new(), Keys::Stay));

        assert_eq!(client.read(&first), Some(false));
        assert_eq!(output(&mut client), (Vec::new(), Keys::Next));
        assert_eq!(client.read(&second), Some(true));
        assert_eq!(client.peer(), Some(&[2; 300][..]));
        assert!(client.is_handshaking());
        let (end, keys) = output(&mut client);
        assert_eq!((keys, client.is_handshaking()), (Keys::Next, false));
        assert!(server.is_handshaking());
        assert_eq!(server.read(&end), Some(false));
        assert!(!server.is_handshaking());
    }

    #[test]
    fn what_is_no_handshake_is_refused() {
        let mut client = Handshake::new(true, vec![]);
        assert_eq!(client.read(&[1, 0, 0, 0, 0]), None);
        let mut client = Handshake::new(true, vec![]);
        assert_eq!(client.read(&[3, 0, 0, 0, 2, 0, 9]), None);
    }
}
