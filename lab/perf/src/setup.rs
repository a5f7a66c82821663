//! The set-up that both sides of a test share.

use std::sync::Arc;
use std::time;

use paceline_congestion::recipe;
use paceline_quic::Choice;
use paceline_quic::quinn::{CONTROLLERS, Chosen};
use paceline_units::Duration;
use quinn_proto::congestion::ControllerFactory;
use quinn_proto::{EndpointConfig, IdleTimeout, TransportConfig, VarInt};

use crate::error::{Error, Kind};

/// The ALPN protocol name.
pub(crate) const ALPN: &[u8] = b"paceline-perf/1";
/// Bytes of a datagram before the path's MTU is known (RFC 9000 section 14).
pub(crate) const DATAGRAM: u16 = 1200;
/// The maximum number of streams in a test.
pub const MOST_STREAMS: u32 = 128;
/// The maximum silence of the other side.
pub(crate) const SILENCE: Duration = Duration::from_secs(5);
/// How often an idle side sends a keep-alive.
const SIGN_OF_LIFE: Duration = Duration::from_secs(1);
/// The maximum wait of one turn, so that a request to stop is noticed.
pub(crate) const PATIENCE: Duration = Duration::from_millis(50);
/// The receiver's buffer in bytes: more than today's paths have in flight.
pub(crate) const WINDOW: VarInt = VarInt::from_u32(256 << 20);
/// The server's buffer for a client that has not shown the token.
pub(crate) const STRANGERS_WINDOW: VarInt = VarInt::from_u32(64 << 10);

pub(crate) fn std(duration: Duration) -> time::Duration {
    time::Duration::from_nanos(duration.as_nanos())
}

pub(crate) fn transport(
    factory: Arc<dyn ControllerFactory + Send + Sync>,
    window: VarInt,
) -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        .congestion_controller_factory(factory)
        .stream_receive_window(WINDOW)
        .receive_window(window)
        .max_concurrent_uni_streams(VarInt::from_u32(MOST_STREAMS))
        .max_concurrent_bidi_streams(VarInt::from_u32(1))
        .datagram_receive_buffer_size(None)
        .keep_alive_interval(Some(std(SIGN_OF_LIFE)))
        .max_idle_timeout(IdleTimeout::try_from(std(SILENCE)).ok());
    transport
}

pub(crate) fn endpoint() -> Arc<EndpointConfig> {
    Arc::new(EndpointConfig::default())
}

/// The controller of this name: one of ours, or `quinn:` and one of quinn's own.
///
/// # Errors
/// It does not exist, or needs a signal that quinn does not give.
pub fn controller(name: &str) -> Result<Choice, Error> {
    let wrong = |message| Error::new(Kind::Controller, message);
    if let Some((stack, own)) = name.split_once(':') {
        let controller = CONTROLLERS
            .iter()
            .find(|known| stack == "quinn" && **known == own);
        return controller.map(|own| Choice::Theirs(own)).ok_or_else(|| {
            let known: Vec<String> = CONTROLLERS.iter().map(|own| format!("quinn:{own}")).collect();
            wrong(format!(
                "`{name}` is no controller of quinn, on which perf runs: {}, or one of `paceline list controllers`",
                known.join(", ")
            ))
        });
    }
    let recipe = recipe(name, &[]).map_err(|_| {
        wrong(format!(
            "there is no controller `{name}`: see `paceline list controllers`"
        ))
    })?;
    let choice = Choice::Ours(recipe);
    match Chosen::new(&choice, 0, 10, DATAGRAM) {
        Ok(_) => Ok(choice),
        Err(error) => Err(wrong(format!("{error}; perf runs over quinn"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_that_cannot_run_are_refused_by_name() {
        for name in ["bbr3", "cubic", "reno", "quinn:bbr", "quinn:cubic"] {
            assert!(controller(name).is_ok(), "{name}");
        }
        let error_of = |name| controller(name).expect_err("it cannot run").message;
        assert!(
            error_of("dctcp").contains("`dctcp` cannot run")
                && error_of("dctcp").contains("`mark_counts`")
        );
        assert!(error_of("prague").contains("`ect1`"));
        assert!(error_of("noq:bbr3").contains("quinn:bbr, quinn:cubic"));
        assert!(error_of("quinn:bbr3").contains("quinn:newreno"));
        assert!(error_of("bbr4").contains("there is no controller `bbr4`"));
    }
}
