//! Reno, CUBIC and HyStart++ against numbers worked out from their RFCs.

mod cubic;
mod flow;
mod hystart;
mod idle;
mod properties;
mod reno;
