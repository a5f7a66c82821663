"""Scenarios as environments of Gymnasium."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import polars as pl
import pytest
from gymnasium.error import InvalidAction, ResetNeeded
from gymnasium.utils.env_checker import check_env

import paceline
import paceline.gym as gym
from paceline import memory
from paceline.errors import MemoryLimitError

SHORT = gym.SCENARIO.replace('"20 s"', '"3 s"')
LOSSY = SHORT.replace("[path]\n", '[path]\nloss = "1 %"\n')
KEEP = np.zeros(1, np.float32)


def columns(observation: Any) -> dict[str, float]:
    """Return what is observed of the first flow, by name."""
    return {name: float(observation[0][n]) for n, (name, *_) in enumerate(gym.COLUMNS)}


def exponent(factor: float) -> Any:
    return np.array([math.log2(factor)], np.float32)


def test_the_reward_is_over_the_rate_of_the_links_that_a_flow_crosses() -> None:
    """Flow 0 crosses a link of 6 Mbit/s and not the path's of 12; flow 1 crosses both."""
    text = SHORT.replace(
        "[[flows]]\n",
        '[[links]]\nname = "b"\nrate = "6 Mbit/s"\nqueue.size = "1 bdp"\n'
        '[[flows]]\ncc = "reno"\nroute = ["b"]\n'
        '[[flows]]\ncc = "reno"\nroute = ["bottleneck", "b"]\n[[flows]]\n',
    )
    column = {name: number for number, (name, *_) in enumerate(gym.COLUMNS)}
    for flows, mbps in [([0], [6]), ([2, 0], [12, 6]), ([1], [6])]:
        env = gym.Bottleneck(text, flows=flows, step="200 ms")
        env.reset(seed=1)
        env.step(np.zeros(len(flows), np.float32))
        observation, worth, *_ = env.step(np.zeros(len(flows), np.float32))
        delivered = observation[:, column["delivered_mbps"]]
        assert (delivered > 0.1).all()
        queueing = np.maximum(observation[:, column["rtt_mean_ms"]] / 40 - 1, 0).mean()
        carried = (delivered / np.array(mbps)).sum()
        lost = observation[:, column["loss_ratio"]].mean()
        assert worth == pytest.approx(carried - 0.5 * queueing - lost, abs=1e-5)


@pytest.mark.parametrize("control", ["window", "rate"])
def test_gymnasium_accepts_it(control: str) -> None:
    env = gymnasium.make("Paceline/Bottleneck-v0", scenario=SHORT, control=control)
    check_env(env.unwrapped)


def test_a_fixed_window_gives_the_goodput_of_a_window_a_round_trip() -> None:
    """12 Mbit/s are a packet of 1,500 bytes a millisecond: 41 ms without a queue."""
    env = gym.Bottleneck(gym.SCENARIO + 'ack.every = "1 packets"\n', step="410 ms")
    first = columns(env.reset(seed=1)[0])
    assert (first["cwnd_packets"], first["in_flight_packets"]) == (10, 10)
    env.step(KEEP)
    observation, worth, *_ = env.step(KEEP)
    ten = columns(observation)
    # Ten packets of 1,448 bytes in each of ten round trips.
    assert ten["delivered_mbps"] == pytest.approx(10 * 1448 * 8 / 41e3, rel=1e-4)
    assert ten["rtt_least_ms"] == pytest.approx(41)
    assert (ten["loss_ratio"], ten["ce_ratio"]) == (0, 0)
    queueing = ten["rtt_mean_ms"] / 40 - 1
    assert worth == pytest.approx(ten["delivered_mbps"] / 12 - 0.5 * queueing, abs=1e-6)
    # Sixty packets: 40 on their way, and 20 wait.
    for _ in range(3):
        env.step(exponent(6 ** (1 / 3)))
    env.step(KEEP)
    sixty = columns(env.step(KEEP)[0])
    assert sixty["cwnd_packets"] == pytest.approx(60, abs=0.001)
    assert sixty["delivered_mbps"] == pytest.approx(12 * 1448 / 1500, rel=0.005)
    assert sixty["sent_mbps"] == pytest.approx(12 * 1448 / 1500, rel=0.005)
    assert sixty["rtt_mean_ms"] == pytest.approx(60, abs=1)
    # Over 81 packets the queue of one BDP cannot hold.
    full = columns(env.step(exponent(2))[0])
    assert full["loss_ratio"] > 0
    assert full["in_flight_packets"] <= 121


def test_a_rate_is_kept_without_a_queue() -> None:
    env = gym.Bottleneck(step="1 s", control="rate")
    begun = columns(env.reset(seed=1)[0])
    env.step(exponent(2))
    observation = columns(env.step(KEEP)[0])
    rate = 2 * 10 * 1448 * 8 / (begun["min_rtt_ms"] * 1e3)
    assert observation["pacing_mbps"] == pytest.approx(rate, rel=1e-3)
    assert observation["delivered_mbps"] == pytest.approx(rate, rel=0.01)
    assert observation["rtt_mean_ms"] < 43


def test_marks_are_seen() -> None:
    marking = 'queue = { size = "2 bdp", mark.threshold = "10 packets" }'
    text = SHORT.replace('queue.size = "1 bdp"', marking).replace(
        '"reno"', '"dctcp"\necn = "dctcp"'
    )
    env = gym.Bottleneck(text)
    env.reset(seed=1)
    # Ten packets at once are nine that wait.
    assert columns(env.step(KEEP)[0])["ce_ratio"] == 0
    for _ in range(3):
        env.step(exponent(2))
    for _ in range(4):
        observation = columns(env.step(KEEP)[0])
    # With 80 packets, 40 of them in the queue, every one is marked.
    assert observation["ce_ratio"] == 1


def episode(env: gym.Bottleneck, seed: int) -> bytes:
    actions = np.random.default_rng(7)
    observations = [env.reset(seed=seed)[0].tobytes()]
    ended = False
    while not ended:
        observation, worth, terminated, truncated, info = env.step(actions.uniform(-0.5, 0.5, 1))
        observations.append(observation.tobytes() + f"{worth} {info}".encode())
        ended = terminated or truncated
    assert truncated
    return b"".join(observations)


@pytest.mark.parametrize("seeds", [[1], [1, 2, 3]])
def test_each_environment_needs_a_seed(seeds: list[int]) -> None:
    with pytest.raises(ValueError, match=f"2 environments need 2 seeds, not {len(seeds)}"):
        gym.Bottlenecks(2).reset(seed=seeds)


def test_the_same_seed_and_actions_give_the_same_bytes() -> None:
    env, other = gym.Bottleneck(LOSSY), gym.Bottleneck(LOSSY)
    first = episode(env, 5)
    assert episode(env, 5) == first == episode(other, 5)
    assert episode(env, 6) != first
    env.reset(seed=9)
    drawn = [env.reset()[1], env.reset()[1]]
    other.reset(seed=9)
    assert [other.reset()[1], other.reset()[1]] == drawn


def test_steps_leave_the_run_as_it_is() -> None:
    """An agent that never acts is a controller whose window is fixed, in steps of any length."""

    class Fixed(paceline.Controller):
        uses_prr = False

        def on_ack(self, ack: paceline.Ack) -> None:
            pass

    text = LOSSY + '[[flows]]\ncc = "cubic"\nstart = "500 ms"\n'
    mine = text.replace('cc = "reno"', 'cc = "mine"')
    expected = paceline.run(mine, seed=4, controllers={"mine": Fixed})
    for step in ("rtt", "7 ms"):
        env = gym.Bottleneck(text, step=step)
        env.reset(seed=4)
        while not env.step(KEEP)[3]:
            pass
        run = env.record()
        assert run.incomplete is None
        assert run.samples.equals(expected.samples)
        assert run.queue.equals(expected.queue)
        assert [flow["cc"] for flow in run.flow_metrics] == ["agent", "cubic"]
    env.reset(seed=4)
    env.step(KEEP)
    assert env.record().incomplete == "no further step was taken"
    with pytest.raises(ResetNeeded):
        env.step(KEEP)
    with pytest.raises(ResetNeeded):
        env.record()


def test_many_worlds_are_each_what_one_is() -> None:
    given: dict[str, Any] = {"scenario": LOSSY, "num_envs": 3}
    mode = "vector_entry_point"
    envs = gymnasium.make_vec("Paceline/Bottleneck-v0", vectorization_mode=mode, **given)
    alone = gym.Bottlenecks(threads=1, **given)
    singles = [gym.Bottleneck(LOSSY) for _ in range(3)]
    observations, _ = envs.reset(seed=20)
    alone.reset(seed=20)
    assert envs.observation_space.contains(observations)
    for n, env in enumerate(singles):
        assert np.array_equal(env.reset(seed=20 + n)[0], observations[n])
    draws = np.random.default_rng(1)
    begun = np.zeros(3, bool)
    anew = 0
    while anew < 3:
        actions = draws.uniform(-0.3, 0.3, (3, 1)).astype(np.float32)
        observations, worth, terminated, truncated, info = envs.step(actions)
        same = alone.step(actions)
        assert np.array_equal(observations, same[0])
        assert np.array_equal(info["now_ns"], same[4]["now_ns"])
        for n, env in enumerate(singles):
            if begun[n]:
                assert np.array_equal(env.reset()[0], observations[n])
                assert (worth[n], truncated[n]) == (0, False)
                anew += 1
            else:
                one = env.step(actions[n])
                assert np.array_equal(one[0], observations[n])
                assert (one[1], one[2], one[3]) == (worth[n], terminated[n], truncated[n])
        begun = truncated


def test_an_agent_steers_several_flows_of_any_scenario() -> None:
    env = gym.Bottleneck("four-flows", flows=(2, 0), overrides={"run.duration": '"2 s"'})
    assert env.action_space.shape == (2,)
    observation, _ = env.reset(seed=1)
    assert observation.shape == (2, len(gym.COLUMNS))
    # Flow 2 starts a second later.
    assert [row[0] for row in observation] == [0, 10]
    ended = False
    while not ended:
        observation, _, _, ended, _ = env.step(np.array([0, 0.1], np.float32))
    flows = env.record().flow_metrics
    assert [flow["cc"] for flow in flows] == ["agent", "bbr3", "agent", "bbr3"]
    assert observation[0][0] == 10
    assert observation[1][0] > 40


def test_an_episode_ends_with_its_flows() -> None:
    env = gym.Bottleneck(SHORT + 'app.size = "100 kB"\n')
    env.reset(seed=1)
    for _ in range(60):
        _, _, terminated, truncated, _ = env.step(KEEP)
        if terminated:
            break
    assert (terminated, truncated) == (True, False)


def test_what_a_step_is_worth_may_be_given() -> None:
    env = gym.Bottleneck(reward=lambda observation: float(observation[0, 0]))
    env.reset(seed=1)
    assert env.step(exponent(2))[1] == 20


@pytest.mark.parametrize(
    ("action", "message"),
    [
        ([math.nan], "from -1 to 1 for each flow, not NaN"),
        ([-1.5], "from -1 to 1 for each flow, not -1.5"),
        ([math.inf], "not inf"),
        ([0, 0], r"shape \(1,\), one number for each flow, not \(2,\)"),
        ([], r"not \(0,\)"),
        (["fast"], "an action is 1 numbers from -1 to 1"),
    ],
)
def test_a_bad_action_is_refused_before_time_passes(action: Any, message: str) -> None:
    env, untouched = gym.Bottleneck(), gym.Bottleneck()
    env.reset(seed=1)
    untouched.reset(seed=1)
    with pytest.raises(InvalidAction, match=message):
        env.step(action)
    assert np.array_equal(env.step(KEEP)[0], untouched.step(KEEP)[0])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"scenario": "nothing-like-it"}, "nothing-like-it"),
        ({"scenario": "schema = 1\nspeed = 7\n"}, "unknown"),
        ({"flows": [3]}, "there is no flow 3"),
        ({"flows": []}, "no flow is steered"),
        ({"flows": [0, 0]}, "named twice"),
        ({"control": "both"}, '"window" or "rate", not "both"'),
        ({"step": "1 us"}, "a step takes at least 100000 ns"),
        ({"step": "soon"}, "a time has a number and a unit"),
        ({"overrides": {"flows.0.stack": "quinn"}}, "cannot be steered"),
    ],
)
def test_what_cannot_be_an_environment_is_said(given: dict[str, Any], message: str) -> None:
    overrides = {k: f'"{v}"' for k, v in given.pop("overrides", {}).items()}
    with pytest.raises((paceline.PacelineError, OSError, ValueError), match=message):
        gym.Bottleneck(**given, overrides=overrides)


def test_a_world_has_its_share_of_the_memory() -> None:
    before = memory.chosen()
    memory.choose(100_000)

    def lasts() -> None:
        worlds = gym.Bottlenecks(2)
        worlds.reset(seed=1)
        for _ in range(2000):
            worlds.step(np.zeros((2, 1)))

    try:
        with pytest.raises(MemoryLimitError, match="may take 50 kB"):
            lasts()
    finally:
        memory.choose(before)


def test_there_is_no_step_before_the_reset() -> None:
    with pytest.raises(ResetNeeded):
        gym.Bottleneck().step(KEEP)
    with pytest.raises(ResetNeeded):
        gym.Bottlenecks(2).step(np.zeros((2, 1)))


def test_columns_have_names_and_bounds() -> None:
    names = [name for name, *_ in gym.COLUMNS]
    assert len(set(names)) == len(names)
    space = gym.Bottleneck().observation_space
    assert isinstance(space, gymnasium.spaces.Box)
    low, high = space.low, space.high
    assert np.isfinite(low).all()
    assert np.isfinite(high).all()
    assert (low < high).all()
    assert pl.DataFrame(gym.COLUMNS, orient="row").width == 5


def test_the_guide_has_every_column() -> None:
    guide = (Path(__file__).parents[1] / "docs" / "guide" / "gym.md").read_text()
    for name, unit, low, high, about in gym.COLUMNS:
        assert f"| `{name}` | {unit} | {low:.0f} to {high:.0f} | {about} |" in guide
