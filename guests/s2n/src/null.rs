//! TLS without cryptography: the messages of a handshake by their order and lengths, tags of the length of AES-GCM.
//!
//! s2n-quic checks no bytes against these keys, so that equal seeds give equal datagrams, of the sizes that the wire has.
//! A packet's tag is its number: if that was decoded wrongly, the packet is refused, as by a real AEAD (RFC 9000, A.3).

use std::convert::Infallible;
use std::task::Poll;

use bytes::Bytes;
use s2n_codec::{Encoder, EncoderValue};
use s2n_quic::provider::tls::Provider;
use s2n_quic_core::application::ServerName;
use s2n_quic_core::crypto::{
    self, CryptoSuite, HeaderProtectionMask, packet_protection, retry, scatter, tls,
};
use s2n_quic_core::transport;

/// Bytes of an authentication tag (RFC 9001 5.3).
const TAG: usize = 16;
/// Bytes of a header-protection sample (RFC 9001 5.4.2).
const SAMPLE: usize = 16;
/// Bytes of a ServerHello with one key share.
const SERVER_HELLO: usize = 90;
/// Bytes of a small certificate with its signature, and of Finished.
const CERTIFICATE: usize = 736;
/// Bytes of Finished (RFC 8446 4.4.4, SHA-256).
const FINISHED: usize = 36;
/// The server's name, which nobody checks.
pub const NAME: &str = "localhost";

/// TLS as an endpoint of s2n-quic has it.
pub struct Null;

impl Provider for Null {
    type Server = Self;
    type Client = Self;
    type Error = Infallible;

    fn start_server(self) -> Result<Self, Infallible> {
        Ok(self)
    }

    fn start_client(self) -> Result<Self, Infallible> {
        Ok(self)
    }
}

impl tls::Endpoint for Null {
    type Session = Session;

    fn new_server_session<P: EncoderValue>(
        &mut self,
        parameters: &P,
        _info: tls::ConnectionInfo,
    ) -> Session {
        Session::new(Step::AwaitClientHello, parameters)
    }

    fn new_client_session<P: EncoderValue>(&mut self, parameters: &P, _: ServerName) -> Session {
        Session::new(Step::SendClientHello, parameters)
    }

    fn max_tag_length(&self) -> usize {
        TAG
    }
}

/// One side of a handshake.
#[derive(Debug)]
pub struct Session {
    step: Step,
    /// Our transport parameters.
    parameters: Vec<u8>,
    /// What has come of the next message.
    incoming: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    SendClientHello,
    AwaitServerHello,
    AwaitCertificate,
    AwaitClientHello,
    AwaitFinished,
    Done,
}

impl Session {
    fn new<P: EncoderValue>(step: Step, parameters: &P) -> Self {
        Self {
            step,
            parameters: parameters.encode_to_vec(),
            incoming: Vec::new(),
        }
    }

    /// The content of the next message, once all of it has come.
    fn take(&mut self, mut more: impl FnMut() -> Option<Bytes>) -> Option<Vec<u8>> {
        while let Some(bytes) = more() {
            self.incoming.extend_from_slice(&bytes);
        }
        let (length, content) = self.incoming.split_first_chunk()?;
        let length = usize::from(u16::from_be_bytes(*length));
        let content = content.get(..length)?.to_vec();
        self.incoming.drain(..2 + length);
        Some(content)
    }
}

/// A message of this content and as many zeros, with its length in front. Parameters are one within another.
fn message(content: &[u8], zeros: usize) -> Bytes {
    let length = u16::try_from(content.len() + zeros).unwrap_or(u16::MAX);
    let mut bytes = length.to_be_bytes().to_vec();
    bytes.extend_from_slice(content);
    bytes.resize(2 + usize::from(length), 0);
    bytes.into()
}

/// The transport parameters at the beginning of a message.
fn parameters(content: &[u8]) -> Result<&[u8], transport::Error> {
    content
        .split_first_chunk()
        .and_then(|(length, rest)| rest.get(..usize::from(u16::from_be_bytes(*length))))
        .ok_or(transport::Error::PROTOCOL_VIOLATION)
}

fn agree<C: tls::Context<Session>>(context: &mut C) -> Result<(), transport::Error> {
    context.on_server_name(NAME.into())?;
    context.on_application_protocol(Bytes::from_static(b"paceline"))?;
    context.on_key_exchange_group(tls::NamedGroup {
        group_name: "none",
        contains_kem: false,
    })
}

impl tls::Session for Session {
    fn poll<C: tls::Context<Self>>(
        &mut self,
        context: &mut C,
    ) -> Poll<Result<(), transport::Error>> {
        loop {
            match self.step {
                Step::SendClientHello => {
                    let parameters = message(&self.parameters, 0);
                    context.send_initial(message(&parameters, 0));
                    self.step = Step::AwaitServerHello;
                }
                Step::AwaitServerHello => {
                    if self.take(|| context.receive_initial(None)).is_none() {
                        return Poll::Pending;
                    }
                    context.on_handshake_keys(Key, Key)?;
                    self.step = Step::AwaitCertificate;
                }
                Step::AwaitCertificate => {
                    let Some(content) = self.take(|| context.receive_handshake(None)) else {
                        return Poll::Pending;
                    };
                    agree(context)?;
                    context.send_handshake(message(&[], FINISHED));
                    let transport_parameters = parameters(&content)?;
                    context.on_one_rtt_keys(
                        Key,
                        Key,
                        tls::ApplicationParameters {
                            transport_parameters,
                        },
                    )?;
                    context.on_handshake_complete()?;
                    self.step = Step::Done;
                }
                Step::AwaitClientHello => {
                    let Some(content) = self.take(|| context.receive_initial(None)) else {
                        return Poll::Pending;
                    };
                    agree(context)?;
                    context.send_initial(message(&[], SERVER_HELLO));
                    context.on_handshake_keys(Key, Key)?;
                    let ours = message(&self.parameters, 0);
                    context.send_handshake(message(&ours, CERTIFICATE));
                    let transport_parameters = parameters(&content)?;
                    context.on_one_rtt_keys(
                        Key,
                        Key,
                        tls::ApplicationParameters {
                            transport_parameters,
                        },
                    )?;
                    self.step = Step::AwaitFinished;
                }
                Step::AwaitFinished => {
                    if self.take(|| context.receive_handshake(None)).is_none() {
                        return Poll::Pending;
                    }
                    context.on_handshake_complete()?;
                    self.step = Step::Done;
                }
                Step::Done => return Poll::Ready(Ok(())),
            }
        }
    }

    fn parse_hello(
        _: tls::HandshakeType,
        _: &[u8],
        _: u64,
        _: u64,
    ) -> Result<Option<tls::HelloOffsets>, transport::Error> {
        Ok(Some(tls::HelloOffsets {
            payload_offset: 0,
            payload_len: 0,
        }))
    }
}

impl CryptoSuite for Session {
    type HandshakeKey = Key;
    type HandshakeHeaderKey = Key;
    type InitialKey = Key;
    type InitialHeaderKey = Key;
    type OneRttKey = Key;
    type OneRttHeaderKey = Key;
    type ZeroRttKey = Key;
    type ZeroRttHeaderKey = Key;
    type RetryKey = Key;
}

/// The tag of a packet.
fn tag(number: u64) -> [u8; TAG] {
    u128::from(number).to_be_bytes()
}

/// A key of any kind, which changes nothing.
#[derive(Debug)]
pub struct Key;

impl crypto::Key for Key {
    fn decrypt(
        &self,
        number: u64,
        _: &[u8],
        payload: &mut [u8],
    ) -> Result<(), packet_protection::Error> {
        match payload.ends_with(&tag(number)) {
            true => Ok(()),
            false => Err(packet_protection::Error::DECRYPT_ERROR),
        }
    }

    fn encrypt(
        &mut self,
        number: u64,
        _: &[u8],
        payload: &mut scatter::Buffer,
    ) -> Result<(), packet_protection::Error> {
        payload.flatten().write_slice(&tag(number));
        Ok(())
    }

    fn tag_len(&self) -> usize {
        TAG
    }

    fn aead_confidentiality_limit(&self) -> u64 {
        u64::MAX
    }

    fn aead_integrity_limit(&self) -> u64 {
        u64::MAX
    }

    fn cipher_suite(&self) -> tls::CipherSuite {
        tls::CipherSuite::Unknown
    }
}

impl crypto::HeaderKey for Key {
    fn opening_header_protection_mask(&self, _: &[u8]) -> HeaderProtectionMask {
        Default::default()
    }

    fn opening_sample_len(&self) -> usize {
        SAMPLE
    }

    fn sealing_header_protection_mask(&self, _: &[u8]) -> HeaderProtectionMask {
        Default::default()
    }

    fn sealing_sample_len(&self) -> usize {
        SAMPLE
    }
}

impl crypto::InitialKey for Key {
    type HeaderKey = Self;

    fn new_server(_: &[u8]) -> (Self, Self) {
        (Self, Self)
    }

    fn new_client(_: &[u8]) -> (Self, Self) {
        (Self, Self)
    }
}

impl crypto::OneRttKey for Key {
    fn derive_next_key(&self) -> Self {
        Self
    }
}

impl crypto::RetryKey for Key {
    fn generate_tag(_: &[u8]) -> retry::IntegrityTag {
        Default::default()
    }

    fn validate(_: &[u8], _: retry::IntegrityTag) -> Result<(), packet_protection::Error> {
        Ok(())
    }
}

impl crypto::HandshakeKey for Key {}
impl crypto::HandshakeHeaderKey for Key {}
impl crypto::InitialHeaderKey for Key {}
impl crypto::OneRttHeaderKey for Key {}
impl crypto::ZeroRttKey for Key {}
impl crypto::ZeroRttHeaderKey for Key {}
