//! How a receiver reports congestion marks.

use schemars::JsonSchema;
use serde::Serialize;

use crate::document::Node;
use crate::reader::{Read, Reader};

/// How a receiver reports congestion marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EcnKind {
    /// ECE on every ACK from a mark on until the sender says CWR (RFC 3168).
    Classic,
    /// ECE says whether the latest packet was marked; a change is told at once (RFC 8257).
    Dctcp,
    /// Exact counts of marked packets and bytes on every ACK (RFC 9768 with its option).
    #[default]
    Accurate,
    /// The three bits of ACE alone on every ACK: marked packets modulo 8 (RFC 9768).
    Ace,
}

impl Read for EcnKind {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        let words = [
            ("classic", Self::Classic),
            ("dctcp", Self::Dctcp),
            ("accurate", Self::Accurate),
            ("ace", Self::Ace),
        ];
        let wanted = "\"classic\", \"dctcp\", \"accurate\" or \"ace\"";
        reader.word(node, key, wanted, &words)
    }
}
