"""Trains a small agent with CMA-ES, and prints what it reaches beside bbr3 and cubic.

pip install 'paceline[gym]' cma
python examples/gym-train.py [SECONDS]

The agent is linear: the change of its window is tanh of a weighted sum of six features. CMA-ES
(Hansen, cma on PyPI) looks for weights with the best mean reward over four paths; then bbr3, cubic
and the agent run over a fifth, which the training has not seen.
"""

import sys
import time

import cma
import numpy as np

import paceline
import paceline.gym as gym

PATH = {"path.queue.size": '"2 bdp"', "run.duration": '"10 s"'}
TRAINING = [
    {"path.rate": f'"{rate} Mbit/s"', "path.rtt": f'"{rtt} ms"'}
    for rate, rtt in [(6, 60), (12, 30), (24, 40), (48, 20)]
]
UNSEEN = {"path.rate": '"16 Mbit/s"', "path.rtt": '"50 ms"'}
COLUMN = {name: number for number, (name, *_) in enumerate(gym.COLUMNS)}


def action(weights, seen):
    """Return what the agent does about an observation."""
    now = {name: float(seen[0][number]) for name, number in COLUMN.items()}
    least = max(now["min_rtt_ms"], 1.0)
    features = [
        1.0,
        max(now["rtt_mean_ms"] / least - 1.0, 0.0),
        max(now["rtt_least_ms"] / least - 1.0, 0.0),
        now["loss_ratio"],
        now["delivered_mbps"] / max(now["sent_mbps"], 0.1) - 1.0,
        now["in_flight_packets"] / max(now["cwnd_packets"], 1.0) - 1.0,
    ]
    return np.tanh([np.dot(weights, features)])


def episode(env, weights, seed):
    """Return the mean reward of an episode."""
    seen, _ = env.reset(seed=seed)
    worths, truncated = [], False
    while not truncated:
        seen, worth, _, truncated, _ = env.step(action(weights, seen))
        worths.append(worth)
        if seen[0][COLUMN["loss_ratio"]] > 0.9:
            return -1.0  # its window grows without end, which only costs time
    return float(np.mean(worths))


def main():
    """Train, and compare."""
    budget = float(sys.argv[1]) if len(sys.argv) > 1 else 120.0
    envs = [gym.Bottleneck(overrides=PATH | path) for path in TRAINING]
    search = cma.CMAEvolutionStrategy([0.0] * 6, 0.5, {"seed": 1, "verbose": -9})
    begin = time.monotonic()
    while time.monotonic() - begin < budget and not search.stop():
        tried = search.ask()
        search.tell(tried, [-np.mean([episode(env, w, 1) for env in envs]) for w in tried])
    weights = search.result.xbest
    print(f"{search.result.evaluations} agents, {-search.result.fbest:.3f} mean reward")
    print("weights", np.round(weights, 3).tolist())
    env = gym.Bottleneck(overrides=PATH | UNSEEN)
    episode(env, weights, 7)
    runs = {"agent": env.record()}
    for cc in ("bbr3", "cubic"):
        overrides = PATH | UNSEEN | {"flows.0.cc": f'"{cc}"'}
        runs[cc] = paceline.run(gym.SCENARIO, seed=7, overrides=overrides)
    print(f"{'':8}{'goodput':>14}{'RTT p50':>12}{'RTT p95':>12}{'retransmitted':>16}")
    for name, run in runs.items():
        m = run.metrics
        rtts = [m["rtt_p50_ns"] / 1e6, m["rtt_p95_ns"] / 1e6]
        print(
            f"{name:8}{m['goodput_bps'] / 1e6:7.2f} Mbit/s{rtts[0]:9.1f} ms{rtts[1]:9.1f} ms"
            f"{100 * m['retransmit_ratio']:14.2f} %"
        )


if __name__ == "__main__":
    main()
