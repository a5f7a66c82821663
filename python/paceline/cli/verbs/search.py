"""``paceline search``: the smallest path on which a controller fails."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from paceline import answers, batch, guests, store
from paceline.batch.cluster import ClusterError, executor
from paceline.cli import console, files
from paceline.cli.app import Controllers, Jobs, Json, Memory, Quiet, Set, app, bounded, examples
from paceline.cli.failure import Exit, Failure, failing
from paceline.errors import ArgumentError
from paceline.grid import document
from paceline.quantities import NONE, duration_ns
from paceline.reading import read_json
from paceline.runs import Progress, named_scenario
from paceline.study import search as study

NAME = "search.json"
#: Folders have room for so many finds.
_MOST = 16


@Parameter(name="*")
@dataclass(frozen=True)
class Options:
    """The options of the command."""

    goal: str
    """The failure to search for: starves, floods, stalls, never-recovers, unfair, slower:CC:0.5,
    differs:vm, differs:PATH, or a comparison of metrics such as
    "flows[0].goodput_bps < 1 Mbit/s"."""
    budget: str = "1000 runs"
    """How long to search: "1000 runs", or a time such as "60s". Simplifying the failing paths takes
    more runs."""
    seed: Annotated[int, Parameter(validator=bounded(0, 2**63 - 1, "from 0 to 2^63 - 1"))] = 1
    """Seed of the search."""
    out: Path | None = None
    """Folder for the results. Default: runs/NAME-search-HASH."""
    overrides: Set = None
    against: Path | None = None
    """Folder of an earlier search. The exit code is 4 if this search finds a kind of failure that
    the earlier search did not find, and otherwise 0."""
    only_random: Annotated[bool, Parameter(name="--random")] = False
    """Draw all paths at random; derive none from the paths nearest to the goal."""
    engine: Literal["threads", "processes", "ray"] = "threads"
    """Where runs execute, as in `paceline sweep`."""
    address: str | None = None
    """Address of the Ray cluster. Default: start one on this machine."""
    jobs: Jobs = None
    controllers: Controllers = None
    memory: Memory = None
    fresh: bool = False
    """Discard existing results and start over."""
    json: Json = False
    quiet: Quiet = False


@app.command(
    help_epilogue=examples(
        "search scenarios/search/general.toml --goal starves",
        "search SPACE --goal never-recovers --controller mine=mine.py --budget 60s",
        "search SPACE --goal slower:cubic:0.5 --set flows.0.cc=bbr3 --budget '5000 runs'",
        'search SPACE --goal "flows[0].rtt_p95_ns > 1 s" --seed 7 --json',
        "search SPACE --goal stalls --controller mine=mine.py --budget 20s --against finds",
    )
)
def search(
    space: Annotated[
        str, Parameter(help="A scenario with distributions or lists in [sweep.over].")
    ],
    /,
    *,
    options: Options,
) -> Exit:
    """Find the smallest path on which a controller fails.

    SPACE is a scenario whose `[sweep.over]` contains a list or a distribution of values for each
    key that varies. For each path, the search chooses a value for each key, and leaves out some
    events and some flows, but never the first flow. The search judges the first flow. This flow
    uses the controller that you load with `--controller`, unless `--set` names another controller
    for it.

    The first paths are random. Later, the search derives most paths from the paths that came
    nearest to the goal. It then simplifies one failing path for each of at most five kinds of
    failure: it removes events, flows and settings, and rounds numbers, as long as the path still
    fails. The search also runs the simplified path with 40 random sets of flow start times, and
    with each of its numbers in turn 5 % lower and 5 % higher. If the sender fails in at least a
    tenth of the runs with random start times, and in at least a tenth of the runs with a changed
    number, the search writes the path as a scenario whose `[expect]`, if present, fails.

    With the same seed and a budget given as a number of runs, the output is byte-identical on any
    number of threads. The exit code is 3 if the search writes at least one path, and otherwise 0.
    With `--against`, the exit code is 4 if this search finds a kind of failure that the earlier
    search did not find, and otherwise 0.
    """
    text, file = named_scenario(space)
    given = files.parse_overrides(options.overrides)
    controllers = [guest.name for guest in guests.chosen() if not guest.is_stack]
    if controllers and not any(key.startswith("flows.0.cc") for key, _ in given):
        given.append(("flows.0.cc", controllers[0]))
    left = _budget(options.budget)
    with failing(ArgumentError, "bad-goal"):
        goal = study.Goal.read(options.goal)
    hint = "say what varies in [sweep.over], or start with scenarios/search/general.toml"
    with failing(study.NoSpaceError, "no-space", hint, file=file), files.running(file):
        where = study.Space.read(text, file, tuple(given))
        goal.check(document(where.base), file)
    known = None if options.against is None else _groups(options.against)
    inputs = [text, given, options.goal, options.budget, options.seed, options.only_random]
    key = store.key(inputs)
    out = options.out or Path("runs", f"{store.readable(where.name)}-search-{key[:6]}")
    store.claim(out, "search", None if options.fresh else key)
    if (out / NAME).is_file() and not options.fresh:
        answer: answers.Search = read_json(out / NAME)
        console.note(f"{out} is already complete; --fresh runs it again")
    else:
        answer = _execute(where, goal, left, key, out, options)
    return _show(answer, known, out)


def _budget(text: str) -> Callable[[int], int]:
    """Return how many more runs there may be after some; a time ends at a generation."""
    if match := re.fullmatch(r"([1-9][0-9]{0,8}) *runs?", text):
        most = int(match[1])
        return lambda done: most - done
    try:
        seconds = duration_ns(re.sub(r"(?<=\d)(?=[a-z])", " ", text)) / 1e9
    except ValueError:
        hint = 'for example --budget "1000 runs" or --budget 60s'
        raise Failure("bad-option", f"--budget takes runs or a time: {text!r}", hint=hint) from None
    begin = time.monotonic()
    return lambda _: 1 << 30 if time.monotonic() - begin < seconds else 0


def _groups(folder: Path) -> set[tuple[str, ...]]:
    """Return what finds of an earlier search have in common."""
    try:
        return {tuple(find["group"].values()) for find in read_json(folder / NAME)["finds"]}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        hint = "name the folder that `paceline search` wrote"
        raise Failure("not-a-search", f"{folder} is no search", hint=hint) from None


def _execute(
    space: study.Space,
    goal: study.Goal,
    left: Callable[[int], int],
    key: str,
    out: Path,
    options: Options,
) -> answers.Search:
    runner = executor(options.engine, options.address, options.jobs)
    search = study.Search(space, goal, options.seed, runner)
    search.only_random = options.only_random
    interrupted = False
    with (
        console.progress(f"{space.name}, {goal.text}", 0) as watch,
        failing(ClusterError, "no-cluster", code=Exit.RUN_FAILED),
        failing(ArgumentError, "bad-goal"),
    ):
        cost = [0, 0, 0]

        def record(outcome: batch.Outcome) -> None:
            for nth, one in enumerate(outcome.engine.__dict__.values()):
                cost[nth] += one
            watch.note(f"run {search.runs}, {len(search.failing)} fail, {len(search.finds)} small")
            done = max(search.explored, 1)
            total = done + max(min(left(search.explored), 10**6), 0)
            watch.progress(
                Progress(done * space.duration_ns, total * space.duration_ns, cost[1], cost[2], 0)
            )

        search.watch = record
        try:
            search.explore(left)
            search.reduce()
        except KeyboardInterrupt:
            interrupted = True
            search.finds += search.unreduced()
    answer = _write(search, key, out, options, interrupted=interrupted)
    if interrupted:
        message = f"interrupted; {len(search.finds)} finds are kept in {out}"
        raise Failure.interrupted(message, "some are not made small; the same command starts over")
    return answer


def _write(
    search: study.Search, key: str, out: Path, options: Options, *, interrupted: bool
) -> answers.Search:
    names = [f"find-{n}.{end}" for n in range(1, _MOST + 1) for end in ("toml", "png")]
    (store.renew if options.fresh else store.begin)(out, "search", key, [NAME, *names])
    finds: list[answers.Found] = []
    for number, find in enumerate(search.finds[:_MOST], 1):
        text, place = find.toml(), out / f"find-{number}.toml"
        store.replace(place, text)
        if not interrupted:
            from paceline.show.figure import saved

            panels = ("throughput", "rtt", "queue", "window")
            drawn = batch.run(text, progress=lambda _: None).plot(*panels)
            store.replace(place.with_suffix(".png"), saved(drawn, "png"))
        states = zip(("state", "recovery", "after"), find.verdict.group, strict=True)
        finds.append(
            {
                "file": str(place),
                "group": dict(states),
                "told": find.verdict.description,
                "value_ratio": find.verdict.value,
                "offsets_ratio": find.offsets,
                "changes_ratio": find.changes,
                "run": find.run,
                "how": find.how,
                "alike": find.alike,
            }
        )
    answer: answers.Search = {
        "scenario": search.space.name,
        "goal": search.goal.text,
        "seed": search.seed,
        "explored": search.explored,
        "runs": search.runs,
        "failed": len(search.errors),
        "error": search.errors[0][1] if search.errors else None,
        "accidents": search.accidents,
        "finds": finds,
    }
    if not interrupted:
        store.replace(out / NAME, json.dumps(answer, indent=1) + "\n")
    return answer


def _show(answer: answers.Search, known: set[tuple[str, ...]] | None, out: Path) -> Exit:
    finds = answer["finds"]
    new = [find for find in finds if known is None or tuple(find["group"].values()) not in known]
    plural = "" if len(finds) == 1 else "s"
    head = (
        f"{answer['goal']}: {len(finds)} find{plural} in {answer['explored']} runs, and "
        f"{answer['runs'] - answer['explored']} to make them small"
    )
    if known is not None:
        head += f"; {len(new)} new"

    def show() -> None:
        console.show(head)
        for find in finds:
            shares = (find["offsets_ratio"], find["changes_ratio"])
            each = [NONE if share is None else f"{100 * share:.0f} %" for share in shares]
            console.show(
                f"\n{find['file']}",
                find["told"],
                f"It fails with {each[0]} of 40 start offsets and {each[1]} of small changes; "
                f"{find['alike']} paths fail so, the first by {find['how']} in run {find['run']}.",
            )

    console.answer({**answer, "new": len(new), "out": str(out)}, show)
    if answer["accidents"]:
        console.note(f"{answer['accidents']} other ways to fail are accidents, and left out")
    if answer["error"] is not None:
        console.stderr().print(f"{answer['failed']} runs failed, the first: {answer['error']}")
    if known is not None:
        return Exit.REGRESSION if new else Exit.OK
    return Exit.EXPECTATION_FAILED if finds else Exit.OK
