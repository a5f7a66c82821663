//! Identifiers, draws and tokens that follow from a seed.

use std::convert::Infallible;

use s2n_quic::provider::{address_token, random, stateless_reset_token};
use s2n_quic_core::connection::InitialId;
use s2n_quic_core::connection::id::{ConnectionInfo, Generator, LocalId, Validator};
use s2n_quic_core::random::Generator as Draws;
use s2n_quic_core::{stateless_reset, token};

/// SplitMix64, whose quality nobody depends on: it places probes in time.
#[derive(Debug)]
pub struct Random(pub u64);

impl Random {
    fn fill(&mut self, room: &mut [u8]) {
        for chunk in room.chunks_mut(8) {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            let bytes = (z ^ (z >> 31)).to_le_bytes();
            for (to, from) in chunk.iter_mut().zip(bytes) {
                *to = from;
            }
        }
    }
}

impl Draws for Random {
    fn public_random_fill(&mut self, room: &mut [u8]) {
        self.fill(room);
    }

    fn private_random_fill(&mut self, room: &mut [u8]) {
        self.fill(room);
    }
}

impl random::Provider for Random {
    type Generator = Self;
    type Error = Infallible;

    fn start(self) -> Result<Self, Infallible> {
        Ok(self)
    }
}

/// Bytes of a connection identifier.
const ID: usize = 8;

/// Connection identifiers one after another.
#[derive(Debug)]
pub struct Ids(pub u64);

impl Generator for Ids {
    fn generate(&mut self, _: &ConnectionInfo) -> LocalId {
        self.0 = self.0.wrapping_add(1);
        LocalId::try_from_bytes(&self.0.to_be_bytes())
            .unwrap_or_else(|| unreachable!("{ID} bytes are an identifier"))
    }
}

impl Validator for Ids {
    fn validate(&self, _: &ConnectionInfo, bytes: &[u8]) -> Option<usize> {
        (bytes.len() >= ID).then_some(ID)
    }
}

/// No address tokens, and no stateless resets.
#[derive(Debug)]
pub struct NoTokens;

impl token::Format for NoTokens {
    const TOKEN_LEN: usize = 0;

    fn generate_new_token(
        &mut self,
        _: &mut token::Context<'_>,
        _: &LocalId,
        _: &mut [u8],
    ) -> Option<()> {
        None
    }

    fn generate_retry_token(
        &mut self,
        _: &mut token::Context<'_>,
        _: &InitialId,
        _: &mut [u8],
    ) -> Option<()> {
        None
    }

    fn validate_token(&mut self, _: &mut token::Context<'_>, _: &[u8]) -> Option<InitialId> {
        None
    }
}

impl address_token::Provider for NoTokens {
    type Format = Self;
    type Error = Infallible;

    fn start(self) -> Result<Self, Infallible> {
        Ok(self)
    }
}

impl stateless_reset::token::Generator for NoTokens {
    const ENABLED: bool = false;

    fn generate(&mut self, id: &[u8]) -> stateless_reset::token::Token {
        let mut token = [0; 16];
        for (to, from) in token.iter_mut().zip(id) {
            *to = *from;
        }
        token.into()
    }
}

impl stateless_reset_token::Provider for NoTokens {
    type Generator = Self;
    type Error = Infallible;

    fn start(self) -> Result<Self, Infallible> {
        Ok(self)
    }
}
