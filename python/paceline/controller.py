"""The base class of user-defined controllers."""

from __future__ import annotations

from typing import Any, ClassVar

from paceline._paceline import Ack, Config, Loss, Sent

__all__ = ["Ack", "Config", "Controller", "Loss", "Sent"]


class Controller:
    """A user-defined congestion controller, for the flows of a scenario that name it.

    Derive from it, define ``on_ack`` and any other event methods, and set the outputs, which the
    transport reads after every method:

    >>> class Aimd(Controller):
    ...     def __init__(self, config, beta=0.5):
    ...         self.beta = beta
    ...     def on_ack(self, ack):
    ...         if ack.cwnd_limited and ack.ca_state == "Open":
    ...             self.cwnd_bytes += ack.newly_acked_bytes * 1448 / self.cwnd_bytes
    ...     def on_recovery_enter(self, now_ns, in_flight_bytes):
    ...         self.cwnd_bytes = max(self.beta * self.cwnd_bytes, 2 * 1448)

    ``paceline run FILE --controller mine=aimd.py:Aimd`` adds it; in a scenario ``cc = "mine"`` or
    ``cc = { name = "mine", beta = 0.7 }``. Options are keyword arguments with defaults.

    For one acknowledgment the methods are called in this order: ``on_spurious`` if it shows that
    the losses were none, ``on_recovery_exit`` if recovery is over, ``on_loss`` for each packet
    newly declared lost, ``on_recovery_enter`` if they open an episode, and ``on_ack``, once. Losses
    that a timer declares come without an ACK.

    Volumes are in bytes of payload, times in nanoseconds, rates in bits per second: names end in
    their unit. The same events have to give the same decisions: take random numbers from
    ``random.Random(config.seed)``, and time from the events.
    """

    #: Congestion window: the maximum in flight. It starts as the initial window.
    cwnd_bytes: float
    #: Pacing rate of payload; `None` leaves sending to the ACK clock.
    pacing_bps: float | None = None
    #: The maximum size of one burst; `None` is Linux's: 1 ms at the pacing rate, at most 64 KiB,
    #: and without a pacing rate the whole window.
    send_quantum_bytes: float | None = None
    #: Slow-start threshold, if there is one.
    ssthresh_bytes: float | None = None
    #: Codepoint of data packets: `None`, ``"ect0"`` (classic) or ``"ect1"`` (L4S).
    ecn: str | None = None
    #: Whether the transport sets the window in fast recovery, by proportional rate reduction (RFC
    #: 9937) towards `cwnd_bytes`; otherwise `cwnd_bytes` applies there too.
    uses_prr: bool = True
    #: The current state of its state machine: one of `phases`.
    phase: str = ""
    #: The states of its state machine. Events of a scenario may wait for them.
    phases: ClassVar[tuple[str, ...]] = ("",)

    def __new__(cls, config: Config, *_: Any, **__: Any) -> Controller:
        """Create an instance; its window is the initial one until it sets another."""
        self = super().__new__(cls)
        self.cwnd_bytes = config.initial_window_bytes
        return self

    def __init__(self, config: Config) -> None:
        """Begin a connection; options of a scenario are keyword arguments."""

    def on_ack(self, ack: Ack) -> None:
        """Handle an acknowledgment, after the transport has processed it."""

    def on_loss(self, loss: Loss) -> None:
        """Handle the loss of one packet; each packet declared lost has its own call."""

    def on_recovery_enter(self, now_ns: int, in_flight_bytes: int) -> None:
        """Handle the start of fast recovery, after the losses that caused it: once per episode."""

    def on_recovery_exit(self, now_ns: int) -> None:
        """Handle the end of recovery: everything sent before it is acknowledged."""

    def on_timeout(self, now_ns: int, in_flight_bytes: int) -> None:
        """Handle a retransmission timeout (RFC 6298)."""

    def on_spurious(self, now_ns: int, delivered_bytes: int) -> None:
        """Handle a spurious episode: every packet that it declared lost was delivered."""

    def on_send(self, sent: Sent) -> None:
        """Handle a packet about to be sent: a slow call per packet, so leave it out if you can."""

    def on_idle_restart(self, now_ns: int) -> None:
        """Handle the restart of sending after a pause, once for each timeout in it."""

    def on_mss(self, mss_bytes: int) -> None:
        """Handle a change of the payload of a full packet."""

    def state(self) -> dict[str, float | None]:
        """Return numbers for the record: columns of `samples` by these names, always the same.

        A name ends in the unit of its number: ``_bytes``, ``_bps``, ``_ns``, ``_packets``.
        """
        return {}
