//! Sender and receiver together, in memory.

mod adversary;
mod end_to_end;
mod episodes;
mod harness;
mod timeouts;
mod variants;
