//! The crypto traits of both stacks, implemented without cryptography.

use duplicate::duplicate;

use crate::handshake::TAG;

// Where their traits differ: the type of an ID, the receiver of `start_session`, the path of a packet's
// key, and how an error is made of `code` and `reason`.
duplicate! {
    [
        stack    proto         Id              this                          of_path                  refusal;
        [quinn]  [quinn_proto] [&ConnectionId] [self: std::sync::Arc<Self>]  []                       [TransportError { code, frame: None, reason }];
        [noq]    [noq_proto]   [ConnectionId]  [&self]                       [_: noq_proto::PathId,]  [TransportError::new(code, reason)];
    ]
    pub(crate) mod stack {
        use std::any::Any;

        use bytes::BytesMut;
        pub(super) use proto::crypto::CryptoError;
        use proto::crypto::{
            ClientConfig, ExportKeyingMaterialError, HeaderKey, HmacKey, KeyPair, Keys, PacketKey,
            ServerConfig, Session, UnsupportedVersion,
        };
        use proto::transport_parameters::TransportParameters;
        use proto::{ConnectError, ConnectionId, Side, TransportError, TransportErrorCode};

        use crate::handshake::{self, Handshake, SAMPLE, TAG};

        /// Everything that a connection asks of its cryptography.
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct Null;

        struct NullSession {
            side: Side,
            handshake: Handshake,
        }

        fn keys() -> Keys {
            Keys {
                header: KeyPair {
                    local: Box::new(Null),
                    remote: Box::new(Null),
                },
                packet: packet_keys(),
            }
        }

        fn packet_keys() -> KeyPair<Box<dyn PacketKey>> {
            KeyPair {
                local: Box::new(Null),
                remote: Box::new(Null),
            }
        }

        impl NullSession {
            fn start(side: Side, parameters: &TransportParameters) -> Box<dyn Session> {
                let mut written = Vec::new();
                parameters.write(&mut written);
                Box::new(Self {
                    side,
                    handshake: Handshake::new(side.is_client(), written),
                })
            }
        }

        fn no_handshake() -> TransportError {
            let code = TransportErrorCode::crypto(10);
            let reason = "no handshake of null cryptography".to_owned();
            refusal
        }

        impl Session for NullSession {
            fn initial_keys(&self, _: Id, _: Side) -> Keys {
                keys()
            }

            fn handshake_data(&self) -> Option<Box<dyn Any>> {
                None
            }

            fn peer_identity(&self) -> Option<Box<dyn Any>> {
                None
            }

            fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
                None
            }

            fn early_data_accepted(&self) -> Option<bool> {
                None
            }

            fn is_handshaking(&self) -> bool {
                self.handshake.is_handshaking()
            }

            fn read_handshake(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
                self.handshake.read(bytes).ok_or_else(no_handshake)
            }

            fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
                let read = |mut bytes: &[u8]| TransportParameters::read(self.side, &mut bytes);
                Ok(self.handshake.peer().map(read).transpose()?)
            }

            fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<Keys> {
                match self.handshake.write(out) {
                    handshake::Keys::Stay => None,
                    handshake::Keys::Next => Some(keys()),
                }
            }

            fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
                Some(packet_keys())
            }

            fn is_valid_retry(&self, _: Id, _: &[u8], _: &[u8]) -> bool {
                false
            }

            fn export_keying_material(
                &self,
                _: &mut [u8],
                _: &[u8],
                _: &[u8],
            ) -> Result<(), ExportKeyingMaterialError> {
                Err(ExportKeyingMaterialError)
            }
        }

        impl ClientConfig for Null {
            fn start_session(
                this,
                _: u32,
                _: &str,
                parameters: &TransportParameters,
            ) -> Result<Box<dyn Session>, ConnectError> {
                Ok(NullSession::start(Side::Client, parameters))
            }
        }

        impl ServerConfig for Null {
            fn initial_keys(&self, _: u32, _: Id) -> Result<Keys, UnsupportedVersion> {
                Ok(keys())
            }

            fn retry_tag(&self, _: u32, _: Id, _: &[u8]) -> [u8; 16] {
                [0; 16]
            }

            fn start_session(this, _: u32, parameters: &TransportParameters) -> Box<dyn Session> {
                NullSession::start(Side::Server, parameters)
            }
        }

        impl PacketKey for Null {
            /// The tag stays as it is: it only takes up space.
            fn encrypt(&self, of_path _: u64, _: &mut [u8], _: usize) {}

            fn decrypt(&self, of_path _: u64, _: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
                let length = payload.len().checked_sub(TAG).ok_or(CryptoError)?;
                payload.truncate(length);
                Ok(())
            }

            fn tag_len(&self) -> usize {
                TAG
            }

            fn confidentiality_limit(&self) -> u64 {
                u64::MAX
            }

            fn integrity_limit(&self) -> u64 {
                u64::MAX
            }
        }

        impl HeaderKey for Null {
            fn decrypt(&self, _: usize, _: &mut [u8]) {}

            fn encrypt(&self, _: usize, _: &mut [u8]) {}

            fn sample_size(&self) -> usize {
                SAMPLE
            }
        }

        impl HmacKey for Null {
            fn sign(&self, data: &[u8], out: &mut [u8]) {
                // Tokens only have to differ between connections.
                for (place, byte) in out.iter_mut().enumerate() {
                    *byte = data
                        .get(place % data.len().max(1))
                        .map_or(0, |byte| byte ^ 0x5a);
                }
            }

            fn signature_len(&self) -> usize {
                32
            }

            fn verify(&self, _: &[u8], _: &[u8]) -> Result<(), CryptoError> {
                Err(CryptoError)
            }
        }
    }
}

impl quinn_proto::crypto::HandshakeTokenKey for quinn::Null {
    fn aead_from_hkdf(&self, _: &[u8]) -> Box<dyn quinn_proto::crypto::AeadKey> {
        Box::new(Self)
    }
}

impl quinn_proto::crypto::AeadKey for quinn::Null {
    fn seal(&self, data: &mut Vec<u8>, _: &[u8]) -> Result<(), quinn::CryptoError> {
        data.resize(data.len() + TAG, 0);
        Ok(())
    }

    fn open<'a>(&self, data: &'a mut [u8], _: &[u8]) -> Result<&'a mut [u8], quinn::CryptoError> {
        let length = data.len().checked_sub(TAG).ok_or(quinn::CryptoError)?;
        data.get_mut(..length).ok_or(quinn::CryptoError)
    }
}

impl noq_proto::crypto::HandshakeTokenKey for noq::Null {
    fn seal(&self, _: u128, data: &mut Vec<u8>) -> Result<(), noq::CryptoError> {
        data.resize(data.len() + TAG, 0);
        Ok(())
    }

    fn open<'a>(&self, _: u128, data: &'a mut [u8]) -> Result<&'a [u8], noq::CryptoError> {
        let length = data.len().checked_sub(TAG).ok_or(noq::CryptoError)?;
        data.get(..length).ok_or(noq::CryptoError)
    }
}
