//! Reno, CUBIC and HyStart++ compared with numbers computed from their RFCs.

mod cubic;
mod flow;
mod hystart;
mod idle;
mod properties;
mod reno;
mod slowdown;
