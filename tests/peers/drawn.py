"""Paths that change, drawn from a seed, for `back_after.py` and `disturbed.py`."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

#: Linux's controllers by the simulator's names of them.
KERNEL = ("cubic-linux", "reno", "bbr1", "dctcp", "bbr3-linux")


@dataclass
class Drawn:
    """A path and its flows; times in seconds, rates in Mbit/s, the RTT in ms."""

    seed: int
    rate: float
    rtt: float
    queue: str
    flows: list[str]
    duration: float
    events: list[str] = field(default_factory=list)
    #: When each disturbance is over, and the path's rate from then on.
    ends: list[tuple[float, float]] = field(default_factory=list)

    def toml(self, *, events: bool = True) -> str:
        """Return the scenario, on request without its events."""
        changes = ",\n".join(f"  {event}" for event in self.events) if events else ""
        lines = [
            "schema = 1",
            f'name = "drawn-{self.seed}"',
            f'run.duration = "{self.duration} s"',
            f'path.rate = "{self.rate} Mbit/s"',
            f'path.rtt = "{self.rtt} ms"',
            f"path.queue = {self.queue}",
            f"events = [\n{changes}\n]",
            *self.flows,
        ]
        return "\n".join(lines) + "\n"


def flow(cc: str, start: float = 0.0) -> str:
    """Return a flow of a host like Linux's."""
    # The kernel's DCTCP wants a queue that marks, and its receiver.
    ecn = 'ecn = "dctcp"\n' if cc == "dctcp" else ""
    return (
        f'[[flows]]\ncc = "{cc}"\nstart = "{start:.3f} s"\nack = "linux"\ntso_defer = true\n{ecn}'
    )


def outages(seed: int, cc: str) -> Drawn:
    """Draw a path with three outages and a second of heavy loss, clean from 6 s on."""
    rng = random.Random(seed)
    rate, rtt = rng.choice((20, 30, 40, 60, 80)), rng.choice((120, 160, 200, 250))
    queue = '{ kind = "droptail", size = "1 bdp" }'
    drawn = Drawn(seed, rate, rtt, queue, [f'[[flows]]\ncc = "{cc}"\n'], 40.0)
    at = rng.uniform(1.0, 1.6)
    for _ in range(3):
        length = rng.uniform(0.2, 0.4)
        _lose(drawn, at, length, "100 %")
        at += length + rng.uniform(0.5, 1.2)
    _lose(drawn, at, rng.uniform(0.4, 1.0), f"{rng.randint(30, 50)} %")
    return drawn


def _lose(drawn: Drawn, at: float, length: float, loss: str) -> None:
    drawn.events.append(
        f'{{ when = "{at:.3f} s", for = "{1000 * length:.0f} ms", path.loss = "{loss}" }}'
    )
    drawn.ends.append((at + length, drawn.rate))


def changes(seed: int) -> Drawn:
    """Draw a path with two to five disturbances of any kind, and one to four flows."""
    rng = random.Random(seed)
    rate = round(10 ** rng.uniform(0.7, 2.0), 1)
    rtt = round(10 ** rng.uniform(1.0, 2.4), 1)
    cc = [rng.choice(KERNEL) for _ in range(rng.choice((1, 1, 2, 4)))]
    ecn = "dctcp" in cc
    # DCTCP without marks is Reno.
    kind = rng.choice(
        ("codel", "fq_codel", "red")
        if ecn
        else ("droptail", "droptail", "codel", "fq_codel", "red")
    )
    bdp = rate * rtt / 8 * 1000
    room = max(rng.choice((0.5, 1, 2, 4)) * bdp, 15_000)
    marks = ", ecn = true" if ecn and kind != "droptail" else ""
    queue = f'{{ kind = "{kind}", size = "{room:.0f} B"{marks} }}'
    if kind == "red":
        # The kernel's RED takes less than 4 MiB with this weight.
        low, high = max(room / 6, 3_000), min(max(room / 2, 9_000), 4_000_000)
        early = f'red = {{ min = "{low:.0f} B", max = "{high:.0f} B", weight = "0.1953 %"{marks} }}'
        queue = f'{{ kind = "droptail", size = "{room:.0f} B", {early} }}'
    flows = [flow(name, 0.0 if n == 0 else rng.uniform(0, 2)) for n, name in enumerate(cc)]
    drawn = Drawn(seed, rate, rtt, queue, flows, 30.0)
    at, now = rng.uniform(3, 5), rate
    for _ in range(rng.randint(2, 5)):
        what = rng.choice(("outage", "loss", "bursts", "duplicate", "jitter", "rtt", "rate", "app"))
        length = rng.uniform(0.2, 2.0)
        until = at + length
        match what:
            case "outage":
                _lose(drawn, at, rng.uniform(0.1, 0.5), "100 %")
            case "loss":
                _lose(drawn, at, length, f"{rng.choice((0.5, 2, 5, 30))} %")
            case "bursts":
                _change(drawn, at, until, "path.loss", '{ p = "2 %", r = "30 %" }', '"0 %"')
            case "duplicate":
                _change(drawn, at, until, "path.duplicate", f'"{rng.choice((1, 5))} %"', '"0 %"')
            case "jitter":
                _change(drawn, at, until, "path.jitter", f'"{rng.randint(1, 20)} ms"', '"0 ms"')
            case "rtt":
                _change(
                    drawn, at, None, "path.rtt", f'"{rtt * rng.choice((0.5, 1, 1.5, 3)):.1f} ms"'
                )
            case "rate":
                now = round(rate * rng.choice((0.1, 0.3, 0.5, 1, 1.5)), 2)
                _change(drawn, at, None, "path.rate", f'"{now} Mbit/s"')
            case _:
                which = rng.randrange(len(cc))
                _pause(drawn, at, until, which)
        drawn.ends[-1] = (drawn.ends[-1][0], now)
        at = drawn.ends[-1][0] + rng.uniform(1.0, 4.0)
        if at > 18:
            break
    return drawn


def _change(
    drawn: Drawn, at: float, until: float | None, key: str, value: str, after: str = ""
) -> None:
    drawn.events.append(f'{{ when = "{at:.3f} s", {key} = {value} }}')
    if until is not None:
        drawn.events.append(f'{{ when = "{until:.3f} s", {key} = {after} }}')
    drawn.ends.append((at if until is None else until, drawn.rate))


def _pause(drawn: Drawn, at: float, until: float, which: int) -> None:
    for when, app in ((at, "pause"), (until, "resume")):
        drawn.events.append(
            f'{{ when = "{when:.3f} s", flow = {{ flow = {which}, app = "{app}" }} }}'
        )
    drawn.ends.append((until, drawn.rate))
