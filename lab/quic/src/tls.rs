//! TLS 1.3 between ends that know each other by a fingerprint: no authority, no names, no expiry.
//!
//! Certificates use Ed25519, so that every signature has the same length.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use ring::signature::Ed25519KeyPair;
use ring::{digest, rand};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

use crate::certificate;

/// The name in each certificate. It is never checked: only the fingerprint counts.
pub const NAME: &str = "paceline";

/// SHA-256 of a certificate.
pub type Fingerprint = [u8; 32];

/// RFC 8410 section 7: the prefix of the 32 octets of an Ed25519 key in PKCS #8.
const PKCS8: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

/// Random octets from the operating system.
///
/// # Errors
/// It cannot provide any.
pub fn random<const N: usize>() -> Result<[u8; N], Error> {
    let drawn = rand::generate(&rand::SystemRandom::new());
    let drawn = drawn.map_err(|_| Error::FailedToGetRandomBytes)?;
    Ok(rand::Random::expose(drawn))
}

/// A server's key and its self-signed certificate.
pub struct Identity {
    certificate: CertificateDer<'static>,
    key: PrivatePkcs8KeyDer<'static>,
}

impl Identity {
    /// The identity with this Ed25519 key: the same certificate each time.
    ///
    /// # Errors
    /// The key cannot be used.
    pub fn of(key: [u8; 32]) -> Result<Self, Error> {
        let pair = Ed25519KeyPair::from_seed_unchecked(&key)
            .map_err(|error| Error::General(error.to_string()))?;
        let certificate = certificate::self_signed(&pair, NAME);
        let key = PrivatePkcs8KeyDer::from([&PKCS8[..], &key[..]].concat());
        Ok(Self {
            certificate: certificate.into(),
            key,
        })
    }

    /// The fingerprint by which a client recognises its certificate.
    pub fn fingerprint(&self) -> Fingerprint {
        fingerprint(&self.certificate)
    }

    /// The configuration of a server of the protocol `alpn`.
    ///
    /// # Errors
    /// The key cannot be used.
    pub fn server(&self, alpn: &[u8]) -> Result<rustls::ServerConfig, Error> {
        let builder = rustls::ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth();
        let key = PrivateKeyDer::from(self.key.clone_key());
        let mut config = builder.with_single_cert(vec![self.certificate.clone()], key)?;
        config.alpn_protocols = vec![alpn.to_vec()];
        // A connection is never resumed.
        config.send_tls13_tickets = 0;
        Ok(config)
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn fingerprint(certificate: &[u8]) -> Fingerprint {
    let digest = digest::digest(&digest::SHA256, certificate);
    let mut fingerprint = Fingerprint::default();
    fingerprint.copy_from_slice(digest.as_ref());
    fingerprint
}

/// Whether a server has shown a certificate other than the expected one.
#[derive(Clone, Debug, Default)]
pub struct Mismatch(Arc<AtomicBool>);

impl Mismatch {
    /// Whether that has happened.
    pub fn occurred(&self) -> bool {
        self.0.load(Relaxed)
    }
}

/// The configuration of a client of the protocol `alpn` that accepts only the certificate with this
/// fingerprint.
///
/// # Errors
/// No error is known: the library's builder returns a result.
pub fn client(
    fingerprint: Fingerprint,
    alpn: &[u8],
    mismatch: &Mismatch,
) -> Result<rustls::ClientConfig, Error> {
    let provider = provider();
    let pinned = Pinned {
        fingerprint,
        provider: provider.clone(),
        mismatch: mismatch.clone(),
    };
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(pinned))
        .with_no_client_auth();
    config.alpn_protocols = vec![alpn.to_vec()];
    config.resumption = rustls::client::Resumption::disabled();
    Ok(config)
}

/// Accepts one certificate, and checks that the server has its key.
#[derive(Debug)]
struct Pinned {
    fingerprint: Fingerprint,
    provider: Arc<CryptoProvider>,
    mismatch: Mismatch,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // It is not a secret, so a comparison that is not constant-time is fine.
        if fingerprint(end_entity) == self.fingerprint {
            return Ok(ServerCertVerified::assertion());
        }
        self.mismatch.0.store(true, Relaxed);
        Err(CertificateError::ApplicationVerificationFailure.into())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("QUIC has TLS 1.3 only".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_certificate_and_another_key_another() {
        let of = |key| Identity::of([key; 32]).expect("a key").fingerprint();
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
        assert_ne!(
            random::<16>().expect("random"),
            random::<16>().expect("random")
        );
    }
}
