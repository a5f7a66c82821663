//! The engines that support a key; the others refuse it.

/// An engine that runs a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// In virtual time, with the controllers of this library.
    Simulator,
    /// In real time, with a kernel's TCP and with QUIC stacks over its sockets.
    Emulator,
    /// In virtual time, with the TCP and the queues of a kernel in a virtual machine.
    Vm,
}

/// Which engines support a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Honoured {
    /// All of them.
    Everywhere,
    /// Only the simulator; why an engine with a kernel's TCP cannot.
    Simulated(&'static str),
    /// The engines that run more transports than a kernel's TCP; why the virtual machine cannot.
    Hosted(&'static str),
}

/// A key that is set and that the engine does not support.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// The key.
    pub key: String,
    /// The reason.
    pub why: &'static str,
}

/// Every engine.
pub(crate) const ALL: Honoured = Honoured::Everywhere;

/// Only the simulator, with the reason.
pub(crate) const fn simulated(why: &'static str) -> Honoured {
    Honoured::Simulated(why)
}

/// The engines that run more transports than a kernel's TCP, with the reason why the virtual
/// machine cannot.
pub(crate) const fn hosted(why: &'static str) -> Honoured {
    Honoured::Hosted(why)
}

/// Refuses a key that is not at its default, if `engine` does not support it. A key without a
/// declaration is one that only the simulator knows: it must not be ignored.
pub(crate) fn judge(
    honoured: Option<Honoured>,
    engine: Engine,
    is_default: bool,
    key: &str,
    unsupported: &mut Vec<Unsupported>,
) {
    let unknown = simulated("a kernel's TCP does not have this");
    let refusal = honoured.unwrap_or(unknown).refusal(engine);
    if let Some(why) = refusal.filter(|_| !is_default) {
        let key = key.to_owned();
        unsupported.push(Unsupported { key, why });
    }
}

impl Honoured {
    /// Why `engine` does not support it, if it does not.
    pub(crate) fn refusal(self, engine: Engine) -> Option<&'static str> {
        match (self, engine) {
            (Self::Everywhere, _)
            | (_, Engine::Simulator)
            | (Self::Hosted(_), Engine::Emulator) => None,
            (Self::Simulated(why), Engine::Emulator | Engine::Vm)
            | (Self::Hosted(why), Engine::Vm) => Some(why),
        }
    }
}
