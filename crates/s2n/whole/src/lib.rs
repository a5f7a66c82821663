//! `paceline-s2n` in the whole of s2n-quic. It is apart from that crate because s2n-quic takes minutes to build.

/// The example of its README.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
