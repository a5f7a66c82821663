"""Scenarios as environments of Gymnasium, in which an agent sets the windows of some flows.

Importing it registers ``Paceline/Bottleneck-v0``; ``pip install 'paceline[gym]'`` brings Gymnasium.

>>> import gymnasium, paceline.gym  # doctest: +SKIP
>>> env = gymnasium.make("Paceline/Bottleneck-v0", scenario="four-flows")  # doctest: +SKIP

`Bottleneck` documents actions, observations, rewards and episodes. `Bottlenecks` is many of them at
once, on the engine's threads. Python is called once a step, not once an ACK.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

try:
    import gymnasium
    import numpy as np
except ImportError as error:
    message = f"paceline.gym needs {error.name}: pip install 'paceline[gym]'"
    raise ImportError(message, name=error.name) from None
from gymnasium.error import InvalidAction, ResetNeeded
from gymnasium.spaces import Box
from gymnasium.utils.seeding import np_random
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from paceline import memory, shipped
from paceline._paceline import Worlds
from paceline.quantities import duration_ns
from paceline.runs import Overrides, Run, load, pairs

__all__ = ["COLUMNS", "SCENARIO", "Bottleneck", "Bottlenecks"]

Array = NDArray[np.float32]
#: The reward of a step, given the observation [flow, column] at its end.
Reward = Callable[[Array], float]

#: The observations of each flow over a step: name, unit, minimum, maximum, meaning.
COLUMNS = tuple(Worlds.columns)
_COLUMN = {name: number for number, (name, *_) in enumerate(COLUMNS)}

#: The default scenario of an environment.
SCENARIO = """\
schema = 1
about = "One flow over a small bottleneck"
run.duration = "20 s"

[path]
rate = "12 Mbit/s"
rtt = "40 ms"
queue.size = "1 bdp"

[[flows]]
cc = "reno"
"""

_GOES_ON, _TERMINATED, _TRUNCATED = range(3)
_NAME = "Paceline/Bottleneck-v0"


class _Side:
    """Parallel worlds; the code common to one environment and to many."""

    def __init__(
        self,
        count: int,
        threads: int,
        scenario: str | os.PathLike[str],
        flows: Sequence[int],
        step: str,
        control: Literal["window", "rate"],
        reward: Reward | None,
        overrides: Overrides,
    ) -> None:
        text, file = _scenario(scenario)
        interval = None if step == "rtt" else duration_ns(step)
        self.flows = [int(flow) for flow in flows]
        given, limits = pairs(overrides), (threads, memory.limit())
        self.worlds = Worlds(text, file, given, self.flows, count, interval, control, *limits)
        base_rtt_ns, capacity_bps = zip(*self.worlds.paths(), strict=True)
        self._base_rtt_ms = np.array(base_rtt_ns, np.float32) / 1e6
        #: Of the fastest flow, and by how much that is more than each one's.
        self._capacity_mbps = max(capacity_bps) / 1e6
        self._slower = np.array([max(capacity_bps) / bps for bps in capacity_bps], np.float32)
        self._reward = reward
        size = len(self.flows)
        low = np.array([[column[2] for column in COLUMNS]] * size, np.float32)
        high = np.array([[column[3] for column in COLUMNS]] * size, np.float32)
        self.observation_space = Box(low, high, dtype=np.float32)
        self.action_space = Box(-1.0, 1.0, (size,), np.float32)
        self.times = np.zeros(count, np.uint64)
        self.states = np.zeros(count, np.uint8)
        self._count = count

    def step(self, actions: ArrayLike, seeds: list[int | None]) -> Array:
        """Take a step in each world, or restart it with a seed; return the observations."""
        size = len(self.flows)
        try:
            given = np.ascontiguousarray(actions, np.float32)
        except (TypeError, ValueError):
            raise InvalidAction(f"an action is {size} numbers from -1 to 1") from None
        if given.size != self._count * size or given.shape[-1:] != (size,):
            raise InvalidAction(
                f"an action has the shape ({size},), one number for each flow, not {given.shape}"
            )
        observations = np.zeros((self._count, size, len(COLUMNS)), np.float32)
        try:
            self.worlds.step(given, seeds, observations, self.times, self.states)
        except ValueError as error:
            raise InvalidAction(str(error)) from None
        return observations

    def rewards(self, observations: Array) -> NDArray[np.float64]:
        """Return the reward of a step in each world."""
        if self._reward is not None:
            return np.array([self._reward(one) for one in observations], np.float64)
        delivered = (observations[..., _COLUMN["delivered_mbps"]] * self._slower).sum(-1)
        rtt = observations[..., _COLUMN["rtt_mean_ms"]]
        queueing = np.maximum(rtt / self._base_rtt_ms - 1.0, 0.0).mean(-1)
        lost = observations[..., _COLUMN["loss_ratio"]].mean(-1)
        worth: Array = delivered / self._capacity_mbps - 0.5 * queueing - lost
        return worth.astype(np.float64)


def _scenario(given: str | os.PathLike[str]) -> tuple[str, str]:
    """Return a scenario's text, and its name in errors: a path, the text itself, or a name."""
    if isinstance(given, str) and "=" not in given and not Path(given).exists():
        return load(shipped.scenario(given) or given)
    return load(given)


class Bottleneck(gymnasium.Env[Array, Array]):
    """A scenario in which an agent sets the windows of some flows, a step at a time.

    - ``scenario``: its path, its text, or the name of one that comes with Paceline.
    - ``flows``: the flows that the agent steers, by their numbers. What their ``cc`` says does not
      matter; all others run the controllers that the scenario names.
    - ``step``: how far virtual time advances: a monitor interval such as ``"30 ms"``, or ``"rtt"``,
      the longest smoothed RTT of the steered flows.
    - ``control``: what an action changes. With ``"window"``, the congestion window; data goes by
      the ACK clock. With ``"rate"``, the pacing rate; the window is two smoothed RTTs at it.
    - ``reward``: what a step is worth, by its observation. By itself it is the payload delivered
      over the rate of the slowest link on the flow's way, minus half of the queueing delay over
      the RTT without queues, minus the share of packets lost.
    - ``overrides``: what is set in the scenario, as in `paceline.run`.

    The action is a `Box` of ``(flows,)`` from -1 to 1, without unit: the power of two by which each
    flow's window or rate changes: 0 keeps it, 1 doubles it, -1 halves it. A window begins as
    the scenario's initial window and stays between 1 and 2^20 packets; a rate begins as that
    window over the RTT and stays between 10 kbit/s and 1 Tbit/s. Both hold in recovery too. Data is
    ECT(0) where the flow's ``ecn`` counts marks.

    The observation is a `Box` of ``(flows, 11)``, what each flow's sender has heard over the step.
    `COLUMNS` has the name, unit and bounds of each column. Columns differ in scale by their units:
    `gymnasium.wrappers.NormalizeObservation` evens them out.

    An episode begins once a steered flow is established, with all of its initial window sent. It is
    truncated at the end of the scenario, and terminated once all steered flows have ended. The same
    ``reset(seed=)`` and the same actions give the same bytes. ``info`` has ``now_ns``, the virtual
    time, ``step_ns``, what the step took, and ``packets``, the data packets so far.
    """

    def __init__(
        self,
        scenario: str | os.PathLike[str] = SCENARIO,
        flows: Sequence[int] = (0,),
        step: str = "rtt",
        control: Literal["window", "rate"] = "window",
        reward: Reward | None = None,
        overrides: Overrides = (),
    ) -> None:
        self._side = _Side(1, 1, scenario, flows, step, control, reward, overrides)
        self.observation_space = self._side.observation_space
        self.action_space = self._side.action_space
        self._nothing = np.zeros(self.action_space.shape or (), np.float32)
        self._is_over = True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Begin an episode, with this seed or with a random one."""
        super().reset(seed=seed)
        chosen = int(self.np_random.integers(2**63)) if seed is None else seed
        observations = self._side.step(self._nothing, [chosen])
        self._is_over = bool(self._side.states[0])
        return observations[0], self._info()

    def step(self, action: ArrayLike) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Take a step; for an invalid action raise `InvalidAction` before time passes."""
        side = self._side
        if self._is_over:
            raise ResetNeeded("the episode is over: call reset first")
        observations = side.step(action, [None])
        state = side.states[0]
        self._is_over = bool(state)
        worth = float(side.rewards(observations)[0])
        ends = bool(state == _TERMINATED), bool(state == _TRUNCATED)
        return observations[0], worth, *ends, self._info()

    def record(self) -> Run:
        """End the episode, and return its run: complete if the end of the scenario was reached."""
        inner = self._side.worlds.finish(0)
        self._is_over = True
        if inner is None:
            raise ResetNeeded("there is no episode: call reset first")
        return Run(inner)

    def _info(self) -> dict[str, Any]:
        now_ns, packets = self._side.worlds.progress(0)
        return {"now_ns": now_ns, "step_ns": int(self._side.times[0]), "packets": packets}


class Bottlenecks(VectorEnv[Array, Array, Any]):
    """Many worlds of a scenario at once, on the engine's threads; `Bottleneck` documents the rest.

    ``gymnasium.make_vec("Paceline/Bottleneck-v0", num_envs=16)`` makes one. With a seed the worlds
    have that one and those after it, so that each is what a `Bottleneck` with its seed is. A world
    whose episode is over begins another with the next step, whatever its action.
    """

    def __init__(
        self,
        num_envs: int = 1,
        scenario: str | os.PathLike[str] = SCENARIO,
        flows: Sequence[int] = (0,),
        step: str = "rtt",
        control: Literal["window", "rate"] = "window",
        reward: Reward | None = None,
        overrides: Overrides = (),
        threads: int | None = None,
    ) -> None:
        if num_envs < 1:
            raise ValueError(f"there is at least one environment, not {num_envs}")
        threads = threads or os.cpu_count() or 1
        self._side = _Side(num_envs, threads, scenario, flows, step, control, reward, overrides)
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
        self.num_envs = num_envs
        self.single_observation_space = self._side.observation_space
        self.single_action_space = self._side.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._draws = [np_random()[0] for _ in range(num_envs)]
        self._is_begun = False

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Array, dict[str, Any]]:
        """Begin an episode in each world."""
        count = self.num_envs
        given = [seed + n for n in range(count)] if isinstance(seed, int) else seed
        if given is not None and len(given) != count:
            raise ValueError(f"{count} environments need {count} seeds, not {len(given)}")
        chosen: list[int | None] = []
        for world, one in enumerate(given or [None] * count):
            if one is not None:
                self._draws[world] = np_random(one)[0]
            chosen.append(self._draw(world) if one is None else one)
        observations = self._side.step(np.zeros(self.action_space.shape or (), np.float32), chosen)
        self._is_begun = True
        return observations, self._info()

    def step(
        self, actions: ArrayLike
    ) -> tuple[Array, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Take a step in each world; one whose episode is over begins another instead."""
        side = self._side
        if not self._is_begun:
            raise ResetNeeded("there is no episode: call reset first")
        begun = side.states != _GOES_ON
        seeds = [self._draw(world) if new else None for world, new in enumerate(begun)]
        observations = side.step(actions, seeds)
        worth = np.where(begun, 0.0, side.rewards(observations))
        states = side.states
        return observations, worth, states == _TERMINATED, states == _TRUNCATED, self._info()

    def _draw(self, world: int) -> int:
        return int(self._draws[world].integers(2**63))

    def _info(self) -> dict[str, Any]:
        progress = [self._side.worlds.progress(world) for world in range(self.num_envs)]
        now_ns, packets = (np.array(values, np.int64) for values in zip(*progress, strict=True))
        return {"now_ns": now_ns, "step_ns": self._side.times.astype(np.int64), "packets": packets}


if _NAME not in gymnasium.registry:
    gymnasium.register(
        _NAME, entry_point="paceline.gym:Bottleneck", vector_entry_point="paceline.gym:Bottlenecks"
    )
