"""Paths drawn from a seed, on which a controller is judged beside the draft's baselines."""

from __future__ import annotations

import random

#: Those of `conformance NAME`.
SEEDS = range(1, 13)


def draw(seed: int, cc: str) -> tuple[str, str]:
    """Return what disturbs the flow, and a scenario of 20 s whose first flow is of a controller.

    1 to 200 Mbit/s, 2 to 300 ms, a quarter of a BDP to 16, and one of: nothing, losses to 2 %,
    jitter, aggregated ACKs, pauses of the application, up to three other flows.
    """
    rng = random.Random(seed)
    rate, rtt = round(10 ** rng.uniform(0, 2.3), 2), round(10 ** rng.uniform(0.3, 2.48), 1)
    size = max(2 ** rng.uniform(-2, 4) * rate * rtt / 8 * 1000, 6000)
    kind = rng.choice(("plain", "plain", "loss", "jitter", "slots", "pauses", "flows", "flows"))
    lines = [
        "schema = 1",
        'run.duration = "20 s"',
        "run.record = { packets = true }",
        f'path.rate = "{rate} Mbit/s"',
        f'path.rtt = "{rtt} ms"',
        f'path.queue.size = "{size:.0f} B"',
    ]
    flows = [f'[[flows]]\ncc = "{cc}"']
    match kind:
        case "loss":
            lines.append(f'path.loss = "{round(10 ** rng.uniform(-2, 0.3), 3)} %"')
        case "jitter":
            lines.append(f'path.jitter = "{round(rtt * rng.uniform(0.02, 0.2), 2)} ms"')
        case "slots":
            slot = round(rng.uniform(1, min(20, max(2, rtt / 2))), 1)
            lines.append(f'path.return.aggregation = "{slot} ms"')
        case "pauses":
            changes = []
            for at in (rng.uniform(3, 5), rng.uniform(8, 10)):
                for when, app in ((at, "pause"), (at + rng.uniform(0.2, 2), "resume")):
                    changes.append(
                        f'{{ when = "{when:.2f} s", flow = {{ flow = 0, app = "{app}" }} }}'
                    )
            lines.append(f"events = [{', '.join(changes)}]")
        case "flows":
            for _ in range(rng.randint(1, 3)):
                other = rng.choice((cc, cc, "cubic"))
                flows.append(f'[[flows]]\ncc = "{other}"\nstart = "{rng.uniform(0, 3):.2f} s"')
    return kind, "\n".join([*lines, *flows]) + "\n"
