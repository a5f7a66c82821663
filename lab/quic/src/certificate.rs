//! A self-signed certificate with an Ed25519 key (RFC 5280, RFC 8410), of which only the fingerprint counts.

use ring::digest;
use ring::signature::{Ed25519KeyPair, KeyPair};

/// Tags of DER.
const INTEGER: u8 = 0x02;
const BITS: u8 = 0x03;
const OCTETS: u8 = 0x04;
const OID: u8 = 0x06;
const UTF8: u8 = 0x0c;
const UTC_TIME: u8 = 0x17;
const TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
/// The name of a host in the list of names.
const HOST: u8 = 0x82;
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;

/// Object identifiers.
const ED25519: [u8; 3] = [0x2b, 0x65, 0x70];
const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];
const OTHER_NAMES: [u8; 3] = [0x55, 0x1d, 0x11];

/// The certificate of a key for a host. The same key gives the same certificate, always.
pub fn self_signed(pair: &Ed25519KeyPair, host: &str) -> Vec<u8> {
    let key = pair.public_key().as_ref();
    let algorithm = der(SEQUENCE, &[&der(OID, &[&ED25519])]);
    let subject = [
        der(OID, &[&COMMON_NAME]),
        der(UTF8, &[b"rcgen self signed cert"]),
    ]
    .concat();
    let subject = der(SEQUENCE, &[&der(SET, &[&der(SEQUENCE, &[&subject])])]);
    let names = der(OCTETS, &[&der(SEQUENCE, &[&der(HOST, &[host.as_bytes()])])]);
    let extension = der(SEQUENCE, &[&der(OID, &[&OTHER_NAMES]), &names]);
    let content = der(
        SEQUENCE,
        &[
            &der(VERSION, &[&der(INTEGER, &[&[2]])]),
            &serial(key),
            &algorithm,
            &subject,
            &der(
                SEQUENCE,
                &[
                    &der(UTC_TIME, &[b"750101000000Z"]),
                    &der(TIME, &[b"40960101000000Z"]),
                ],
            ),
            &subject,
            &der(SEQUENCE, &[&algorithm, &bits(key)]),
            &der(EXTENSIONS, &[&der(SEQUENCE, &[&extension])]),
        ],
    );
    let signature = pair.sign(&content);
    der(SEQUENCE, &[&content, &algorithm, &bits(signature.as_ref())])
}

/// A positive number of at most 20 octets, in as few as it needs.
fn serial(key: &[u8]) -> Vec<u8> {
    let hash = digest::digest(&digest::SHA256, key);
    let mut number = hash.as_ref()[..20].to_vec();
    number[0] &= 0x7f;
    while let [0, 0..0x80, ..] = number[..] {
        number.remove(0);
    }
    der(INTEGER, &[&number])
}

fn bits(octets: &[u8]) -> Vec<u8> {
    der(BITS, &[&[0], octets])
}

/// A value of this tag that consists of parts.
fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let length = content.len().to_be_bytes();
    let digits = &length[length.iter().take_while(|digit| **digit == 0).count()..];
    let mut value = vec![tag];
    match digits {
        [] => value.push(0),
        [length @ 0..0x80] => value.push(*length),
        digits => {
            value.push(0x80 | digits.len() as u8);
            value.extend(digits);
        }
    }
    value.extend(content);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(octets: &[u8]) -> String {
        octets.iter().map(|octet| format!("{octet:02x}")).collect()
    }

    #[test]
    fn lengths_take_as_many_octets_as_they_need() {
        let head = |length: usize| hex(&der(4, &[&vec![0; length]])[..4]);
        assert_eq!(hex(&der(4, &[])), "0400");
        assert_eq!(head(127), "047f0000");
        assert_eq!(head(128), "04818000");
        assert_eq!(head(256), "04820100");
    }

    /// Records of flows with TLS contain its length: that of the library that wrote it before.
    #[test]
    fn the_certificate_of_a_key_is_always_the_same() {
        let pair = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
        let hash = digest::digest(&digest::SHA256, &self_signed(&pair, "paceline"));
        assert_eq!(
            hex(hash.as_ref()),
            "f01043028333e61a5174c5916dc7c26f27fac46d4c5c113d7dc08c6714fad3f6"
        );
    }
}
