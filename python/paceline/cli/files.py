"""Files that commands read, and folders that they write."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from paceline import _paceline, errors, guests, memory, store
from paceline.cli import console
from paceline.cli.failure import Exit, Failure, failing
from paceline.grid import Axis, places
from paceline.measures import all_named
from paceline.names import did_you_mean
from paceline.quantities import quantity
from paceline.reading import toml
from paceline.runs import Run

if TYPE_CHECKING:
    from paceline.study.conformance.reference import Reference
    from paceline.study.sweep import Sweep

#: Number of values of a choice that are listed.
_LISTED = 8
#: Memory for the metrics of a run, and of each of its flows.
_RESULT, _FLOW = 4_000, 3_000


def references(names: Sequence[str]) -> list[Reference]:
    """Return the references of these names; all if there is no name."""
    from paceline.study.conformance.case import CaseError
    from paceline.study.conformance.reference import chosen

    hint = "run it elsewhere: this folder's conformance/ replaces the references of the package"
    with failing(errors.ArgumentError, "unknown-name"), failing(CaseError, "bad-case", hint):
        return chosen(names)


def parse_overrides(
    settings: list[str] | None, option: str = "--set", example: str = 'path.queue.size="4 bdp"'
) -> list[tuple[str, str]]:
    """Return ``--set KEY=VALUE`` as pairs."""
    pairs = []
    for setting in settings or ():
        key, equals, value = setting.partition("=")
        if not equals or not key.strip():
            message = f"{option} takes KEY=VALUE, not {setting!r}"
            raise Failure("override", message, hint=f"for example {option} {example}")
        pairs.append((key.strip(), value.strip()))
    return pairs


_UNIT = re.compile(r"[0-9.]+\s*([A-Za-z%][\w/%]*)")


def parse_over(settings: list[str]) -> dict[str, object]:
    """Return ``--over KEY=VALUES`` as axes: values with commas between them, or TOML.

    The unit of the last number is that of those without one: ``1,2,4 bdp``.
    """
    axes: dict[str, object] = {}
    for key, text in parse_overrides(settings, "--over", 'path.queue.size="1,2,4 bdp"'):
        if key in axes:
            hint = f"give all its values at once: --over {key}=VALUE,VALUE"
            raise Failure("override", f"--over {key} is given twice", hint=hint)
        values = [value.strip() for value in text.split(",")]
        if text[:1] in ("[", "{"):
            hint = "for example --over path.rtt=\"{ from = '1 ms', to = '9 ms', count = 5 }\""
            with failing(ValueError, "override", hint, what=f"--over {key}"):
                axes[key] = toml(f"it = {text}")["it"]
        elif unit := _UNIT.fullmatch(values[-1]):
            axes[key] = [v if _UNIT.fullmatch(v) else f"{v} {unit[1]}" for v in values]
        else:
            axes[key] = [_plain(value) for value in values]
    return axes


def _plain(text: str) -> object:
    """Return a number or a truth value, if a text is one."""
    for read in (int, float, {"true": True, "false": False}.__getitem__):
        with suppress(ValueError, KeyError):
            return read(text)
    return text


def known_metrics(names: Iterable[str] | None, flows: int | None = None) -> list[str]:
    """Return metrics' names in full; check, before any work, that they and their flows exist."""
    with failing(errors.ArgumentError, "unknown-metric"):
        return all_named(names or (), flows)


def known_controllers(names: Iterable[str]) -> None:
    """Check that controllers exist."""
    known = guests.names()
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known, "`paceline list controllers` shows all")
            raise Failure("unknown-name", f"no controller is called {name!r}", hint=hint)


def write_new(place: Path, text: str, *, force: bool) -> None:
    """Write a text to a file, unless that has it already."""
    if not (place.is_file() and place.read_bytes() == text.encode()):
        store.write(place, text, force=force)


def plan(
    text: str, path: str, overrides: list[tuple[str, str]], backend: _paceline.Backend = "sim"
) -> _paceline.CheckedScenario:
    """Check a scenario, and that this machine can run it."""
    with running(path):
        return guests.check(text, path, overrides, backend=backend)


def running(path: str) -> AbstractContextManager[None]:
    """Name what is run, a file or a verb, if the machine lacks something for it."""
    return failing(errors.UnavailableError, "unavailable", file=path, code=Exit.UNAVAILABLE)


def afford_results(runs: int, flows: int, path: str) -> None:
    """Refuse more runs than the memory for their results allows."""
    need, most = runs * (_RESULT + flows * _FLOW), memory.limit()
    if need > most:
        needed, limit = quantity("_bytes", need), quantity("_bytes", most)
        message = f"the results of {runs} runs need {needed} of memory; the limit is {limit}"
        hint = "run fewer at a time, or raise --memory"
        raise Failure("memory", message, hint=hint, file=path)


def print_sweep(plan: _paceline.CheckedScenario, path: str) -> None:
    """Print that a scenario has a sweep when only the scenario itself is checked or run."""
    if plan.sweep is not None:
        count = math.prod(len(axis["points"]) for axis in plan.sweep["axes"])
        runs = count * len(plan.sweep["seeds"])
        console.note(f"{path} has a [sweep] of {runs} runs: `paceline sweep {path}` runs it")
        for axis in (Axis.of(axis) for axis in plan.sweep["axes"] if axis["drawn"]):
            for nth, key in enumerate(axis.keys):
                values = drawn_values([point.overrides[nth][1] for point in axis.points])
                draws = f"{len(axis.points)} draw{'s' * (len(axis.points) > 1)}"
                console.note(f"  {key}, {draws}: {values}")


def print_unused(plans: Iterable[_paceline.CheckedScenario]) -> None:
    """Print which controllers of ``--controller`` no flow uses."""
    groups = [group for plan in plans for group in toml(plan.toml)["flows"]]
    used = [cc if isinstance(cc := group["cc"], str) else cc["name"] for group in groups]
    for guest in guests.chosen():
        if not any(cc.partition(":")[0] == guest.name for cc in used):
            console.note(
                f"no flow uses the controller `{guest.name}`: "
                f"--set flows.0.cc={guest.name} gives it to the first"
            )


def drawn_values(values: Sequence[str]) -> str:
    """Return a summary of drawn values: their range and median, or the count of each."""
    at, unit = places(values)
    if unit is None:
        counts = Counter(values).most_common(_LISTED)
        more = ", ..." if len(set(values)) > _LISTED else ""
        return ", ".join(f"{count} x {value}" for value, count in counts) + more
    ordered = sorted(values, key=at.__getitem__)
    middle = ordered[(len(ordered) - 1) // 2]
    return f"{ordered[0]} to {ordered[-1]}, half of them up to {middle}"


def _runs_below(folder: Path) -> list[str]:
    """Return the folders of runs, without the hidden remains of killed processes."""
    folders = sorted(path.parent for path in folder.rglob("run.json"))
    hidden = (any(part.startswith(".") for part in p.relative_to(folder).parts) for p in folders)
    return [str(p) for p, is_hidden in zip(folders, hidden, strict=True) if not is_hidden]


def runs_together(folder: str) -> list[str]:
    """Return the paths of the runs in a folder that holds several; none if it is a run's."""
    path = Path(folder)
    if not (path / store.GROUP).is_file() or (path / "run.json").is_file():
        return []
    places = (Path(run).relative_to(path) for run in _runs_below(path))
    return [place.as_posix() for place in sorted(places, key=_by_seed)]


def _by_seed(place: Path) -> tuple[tuple[str, int], ...]:
    """Return a sort key for paths of runs: seeds as numbers."""
    parts = (re.fullmatch(r"(.*?)(\d*)", part) for part in place.parts)
    return tuple((part[1], int(part[2] or 0)) for part in parts if part)


def print_recovered() -> None:
    """Print the partial records that killed runs left."""
    while store.recovered:
        place = store.recovered.pop()
        console.note(f"a killed run left a partial record: `paceline report {place}`")


def run_folder(name: str) -> str:
    """Return the folder of a run: if it does not exist, the partial record of a killed run."""
    place = store.path_of_run(Path(name))
    if place == Path(name):
        return name
    message = f"{name} does not exist; a killed run left a partial record in {place}"
    console.stderr().print(message)
    return str(place)


def result_folder(folder: str) -> Path:
    """Return the folder of a result; explain what is there instead."""
    path = Path(run_folder(folder))
    if path.is_dir():
        return path
    if path.exists():
        is_scenario = path.suffix == ".toml"
        what = "a scenario" if is_scenario else "a file"
        hint = f"`paceline run {folder}` makes a run" if is_scenario else "name a run's folder"
        raise Failure("not-a-run", f"{folder} is {what}, not a run", hint=hint, file=folder)
    beside = [str(p) for p in path.parent.glob("[!.]*") if p.is_dir() or path.suffix]
    known = [*beside, *_runs_below(Path("runs"))]
    what = "file or folder" if path.suffix else "folder"
    otherwise = "name a file that exists, or a run's folder" if path.suffix else None
    hint = did_you_mean(folder, known, otherwise or "`paceline run FILE` makes one")
    raise Failure("not-found", f"no such {what}: {folder}", hint=hint, file=folder)


def sweep(folder: str) -> Sweep | None:
    """Return the sweep in a folder, if there is one."""
    if not (result_folder(folder) / "sweep.json").is_file():
        return None
    from paceline.study.sweep import Sweep

    with failing(errors.NotARunError, "not-a-run", "run the sweep again", file=folder):
        return Sweep.read(folder)


def stem(name: str) -> str:
    """Return the name of a run's folder or of a recording, without what says its format."""
    path = Path(name).resolve()
    return store.readable(path.name.split(".", 1)[0] if path.is_file() else path.name) or "record"


def recording(name: str) -> Run:
    """Read a run from its folder, or the recording of another program from its file."""
    if not Path(name).is_file():
        return read_run(name)
    if name.endswith(".toml"):
        result_folder(name)
    hint = "name a run's folder, or a capture (pcap, pcapng), a qlog, iperf3's JSON or Flent data"
    with failing(errors.CaptureError, "not-a-recording", hint, what=name, file=name):
        return Run.capture(name)


def read_run(folder: str) -> Run:
    """Read a run from its folder; explain clearly why it cannot be read."""
    path = result_folder(folder)
    folder = str(path)
    if inside := [f"{folder}/{place}" for place in runs_together(folder)]:
        hint = f"name one of them, for example {inside[0]}"
        raise Failure("group", f"{folder} holds several runs", hint=hint, file=folder)
    if (path / "sweep.json").is_file():
        hint = f"`report` draws it, `export` writes tables, `paceline compare {folder} --by KEY`"
        raise Failure("not-a-run", f"{folder} is a sweep, not a run", hint=hint, file=folder)
    try:
        with failing(errors.MemoryLimitError, "memory", file=folder):
            return Run.read(path)
    except errors.NotARunError as error:
        message = str(error) if folder in str(error) else f"{folder}: {error}"
        hint = "name the folder that `paceline run` wrote"
        # `export` writes a qlog into a folder, a file each flow.
        if logs := sorted(path.glob("*.sqlog")):
            hint = f"name a file in it: {logs[0]}"
        raise Failure("not-a-run", message, hint=hint, file=folder) from None
