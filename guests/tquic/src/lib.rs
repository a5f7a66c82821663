//! [tquic](https://docs.rs/tquic) 1.6 behind `paceline_endpoint.h`: the library that an engine loads. The stack is
//! in the program beside it, whose clock is the engine's.

/// What the library says of tquic.
pub struct Tquic;

impl process::Guest for Tquic {
    const NAME: &'static str = "tquic";
    const SUMMARY: &'static str = "TQUIC, of Tencent, with TLS";
    const VERSION: &'static str = "1.6.0";
    const CONTROLLERS: &'static str = "bbr3,bbr,cubic,copa";
    const EXECUTABLE: &'static str = "guest-tquic";
}

paceline_capi::export_stack!(process::Remote<Tquic>);
