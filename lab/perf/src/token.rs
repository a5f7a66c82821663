//! A client needs the server's token: a secret, and the fingerprint of the server's certificate.

use std::fmt;
use std::str::FromStr;

use paceline_quic::tls::Fingerprint;
use subtle::ConstantTimeEq;

use crate::error::{Error, Kind};

/// Shared by a server and its clients.
#[derive(Clone)]
pub(crate) struct Secret([u8; 16]);

impl Secret {
    pub fn new(octets: [u8; 16]) -> Self {
        Self(octets)
    }

    /// Whether `shown`, in hexadecimal, is this secret. The time does not depend on how much of it
    /// is correct.
    pub fn is(&self, shown: &str) -> bool {
        octets(shown).is_some_and(|shown: [u8; 16]| bool::from(self.0.ct_eq(&shown)))
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hexadecimal(&self.0, f)
    }
}

/// A server's token. As text it is 96 hexadecimal digits.
#[derive(Clone)]
pub struct Token {
    pub(crate) secret: Secret,
    pub(crate) fingerprint: Fingerprint,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.secret.fmt(f)?;
        hexadecimal(&self.fingerprint, f)
    }
}

/// Secrets do not belong in logs.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

impl FromStr for Token {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let parts = text.trim().split_at_checked(32);
        let read = parts.and_then(|(secret, fingerprint)| {
            Some(Self {
                secret: Secret(octets(secret)?),
                fingerprint: octets(fingerprint)?,
            })
        });
        let what = "the token is not the 96 hexadecimal digits that a server prints";
        read.ok_or_else(|| Error::new(Kind::Token, what))
    }
}

fn hexadecimal(octets: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    octets.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
}

fn octets<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let mut octets = [0; N];
    for (octet, pair) in octets.iter_mut().zip(digits.chunks(2)) {
        let digit = |at: usize| char::from(*pair.get(at)?).to_digit(16);
        *octet = u8::try_from(digit(0)? * 16 + digit(1)?).ok()?;
    }
    Some(octets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_it_is_written() {
        let token = Token {
            secret: Secret([0xab; 16]),
            fingerprint: [7; 32],
        };
        let text = token.to_string();
        assert_eq!(text.len(), 96);
        let read: Token = text.parse().expect("a token");
        assert_eq!(read.to_string(), text);
        assert!(token.secret.is(&read.secret.to_string()));
        assert!(!token.secret.is(&"ac".repeat(16)));
        assert!(!token.secret.is(""));
        for wrong in [
            "",
            "ab",
            &text[1..],
            &format!("{text}0"),
            &"é".repeat(48),
            &"g".repeat(96),
        ] {
            assert!(wrong.parse::<Token>().is_err(), "{wrong}");
        }
    }
}
