"""``paceline advise``: which controller suits the path that recordings show."""

from __future__ import annotations

import html
import itertools
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from paceline import answers, guests, shipped, store
from paceline.cli import app as shared
from paceline.cli import console, files
from paceline.cli.app import app, examples
from paceline.cli.failure import Failure, failing
from paceline.cli.verbs.fit import described, show
from paceline.kernel.controller import NAME
from paceline.quantities import NONE, quantity, scale_of
from paceline.reading import read_text
from paceline.runs import Run, named_scenario
from paceline.show import path
from paceline.study import advise as study
from paceline.study import fit

_paths = shared.bounded(10, 1000, "from 10 to 1000")
#: How Linux is told to use a controller.
_SYSCTL = "sudo sysctl -w net.ipv4.tcp_congestion_control="
_SET = {
    "cubic": [_SYSCTL + "cubic"],
    "cubic-linux": [_SYSCTL + "cubic"],
    "reno": [_SYSCTL + "reno"],
    "reno-linux": [_SYSCTL + "reno"],
    "bbr1": ["sudo modprobe tcp_bbr", _SYSCTL + "bbr"],
    "bbr3": ["sudo paceline kernel load", _SYSCTL + NAME],
    "bbr3-linux": ["sudo paceline kernel load", _SYSCTL + NAME],
}


@Parameter(name="*")
@dataclass(frozen=True)
class Options:
    """The options of the command."""

    cc: Annotated[
        list[str] | None,
        Parameter(
            consume_multiple=True,
            help=f"Controllers to compare. Default: {', '.join(study.CANDIDATES)}.",
        ),
    ] = None
    beside: Annotated[list[str] | None, Parameter(consume_multiple=True)] = None
    """Other flows on the path, such as "cubic:2" for two CUBIC flows. Default: none."""
    for_: Annotated[study.Aim | None, Parameter(name="--for")] = None
    """The aim of the recommendation. Default: throughput; the output then also names the best
    controllers for the other aims."""
    paths: Annotated[int, Parameter(validator=_paths)] = study.PATHS
    """Number of random paths to draw from the intervals of the fit."""
    sender: str | None = None
    """The controller that the recorded flows used, if the recording does not name it. Default: the
    controller that the packets identify."""
    out: Annotated[Path | None, shared.FILE] = None
    """Page to write. Default: NAME-advice.html in the current folder or, if that page exists,
    NAME-advice-2.html and so on."""
    controllers: shared.Controllers = None
    force: shared.Force = False
    jobs: shared.Jobs = None
    quiet: shared.Quiet = False
    memory: shared.Memory = None
    json: shared.Json = False


@app.command(
    help_epilogue=examples(
        "advise upload.pcapng",
        "advise morning.pcapng evening.pcapng --for throughput",
        "advise server.sqlog.gz --cc cubic bbr3 --beside cubic:2 --json",
        "advise runs/mine --controller mine=mine.py --cc mine cubic bbr3",
    )
)
def advise(
    recordings: Annotated[
        list[str],
        Parameter(
            help="Recordings of one path: captures, qlogs, iperf3's JSON, runs' folders. Or a "
            "scenario: a file (.toml), or the name of an included scenario."
        ),
    ],
    /,
    *,
    options: Options = Options(),
) -> None:
    """Recommend a controller for a path, from recordings of transfers on the path.

    The output first says what limited the recorded transfers. If the application or the receive
    window limited them, another controller would not help, so the command does not compare any.
    Otherwise, the command estimates the path (`paceline fit`), and draws random paths from the 95 %
    intervals of the estimate. Each controller runs on each of these paths, three times, with the
    recorded traffic: the same sizes, pauses and start times.

    The ranking compares pairs of means on the same path. If two controllers differ by at most 5 %
    on a path, the path is a tie. A controller counts as certainly better if it is ahead on at least
    90 % of the paths without a tie, if the mean difference over all paths is above 5 %, and if its
    p-value is below 1 %. The harm to others is the share of goodput that a CUBIC flow loses if its
    neighbour uses the controller instead of CUBIC. The command also varies the two parameters about
    which the fit is least certain, and reports the values at which another controller becomes the
    best. If no model of a path reproduces a recording, the command recommends no controller.
    """
    study_options, aim = _study_options(options), options.for_ or "throughput"
    again = _again(recordings, options)
    place = _place(options, f"{files.stem(recordings[0])}-advice", again)
    opened = [_opened(name) for name in recordings]
    studied = [_fitted(one, options) for one in opened]
    changed = _one_path(studied)
    limits = [(one, one.limits.sentence) for one in studied]
    free = [one for one, limit in limits if limit is None]
    lead = [f"{one.name}: {limit}" for one, limit in limits if limit]
    lead += changed
    near = [one for one in free if one.is_near]
    if free and not near:
        lead.append("No model reproduces what was recorded, so no controller is recommended.")
    advice = runs = None
    if near:
        runs = study.Study(near, study_options, aim)
        with console.progress("advise", len(runs)) as watch:
            advice = runs.run(watch)
    aims = [options.for_] if options.for_ else list(study.AIMS)
    recommended = None
    if advice is not None:
        recommended = advice.recommended
        lead.append(f"For {aim}: {advice.reason}")
        lead += [f"For {aim}: {sentence}" for sentence in advice.conditions]
        lead += [advice.sentence(aim) for aim in aims]
    unknown = _unknown(studied, advice)
    folder = place.with_name(f"{place.stem}-paths")
    cases = [] if runs is None else runs.cases(recommended or study_options.candidates[0])
    commands = [again, *_commands(options, advice, cases, folder)]
    value: answers.Advice = {
        "limited": bool(studied) and not free,
        "recommended": recommended,
        "sentences": lead,
        "recordings": [_shown(one) for one in studied],
        "ranking": [] if advice is None else [_row(row) for row in advice.rows],
        "best": {} if advice is None else {aim: advice.best(aim) for aim in aims},
        "turns": [] if advice is None else [turn.as_json() for turn in advice.turns],
        "unknown": unknown,
        "commands": commands,
        "page": str(place),
    }
    rows = [] if advice is None else [_cells(row, advice) for row in advice.rows]
    text = study.page(
        advice,
        title=", ".join(recordings),
        lead=lead,
        heads=_HEADS,
        rows=rows,
        shown=[line for one in studied for line in one.sentences],
        path=path.boxes(near[0].scenario) if near else [],
        unknown=unknown,
        commands=commands,
    )
    files.write_new(place, text, force=options.force)
    if cases:
        _write(folder, cases, force=options.force)
    console.answer(value, lambda: _print(studied, lead, rows, unknown, commands, place))


def _place(options: Options, stem: str, again: str) -> Path:
    """Return where the page is written: the same command's own page, or the first free one."""
    names = (f"{stem}-{n}.html" for n in itertools.count(2))
    first = [options.out or Path(f"{stem}.html")]
    for place in itertools.chain(first, () if options.out else map(Path, names)):
        with store.errors(place):
            place.parent.resolve(strict=True)
            # The page of the same command may be written again, if it is the same.
            there = read_text(place) if place.is_file() else ""
            if f">{again}\n" in html.unescape(there):
                return place
            folder = place.with_name(f"{place.stem}-paths")
            is_free = not (os.path.lexists(place) or os.path.lexists(folder))
            if options.out or options.force or is_free:
                store.check(place, force=options.force)
                store.check(folder, force=options.force)
                return place
    raise AssertionError


def _study_options(options: Options) -> study.StudyOptions:
    known = guests.names()
    beside: dict[str, int] = {}
    for one in options.beside or ():
        name, _, count = one.partition(":")
        if name == "nothing":
            continue
        if count and not (count.isdecimal() and 1 <= int(count) <= 100):
            hint = 'for example --beside "cubic:2"'
            raise Failure("bad-option", f"--beside takes NAME:COUNT, not {one!r}", hint=hint)
        beside[name] = beside.get(name, 0) + int(count or 1)
    names = list(dict.fromkeys(options.cc or study.CANDIDATES))
    for name in (*names, *beside, *filter(None, [options.sender])):
        if name not in known and Path(name).exists():
            hint = "name the recordings before --cc and --beside: these take all that follows"
            raise Failure("bad-option", f"{name} is a file, not a controller", hint=hint)
        files.known_controllers([name])
    if len(names) < 2:
        raise Failure("bad-option", "--cc needs two controllers to compare", hint="name another")
    return study.StudyOptions(names, tuple(beside.items()), options.paths, options.jobs)


def _opened(name: str) -> study.Recording | tuple[str, Run]:
    """Read a recording, or a scenario: its path is known."""
    if name.endswith(".toml") or (not Path(name).exists() and shipped.scenario(name)):
        text, place = named_scenario(name)
        return study.Recording(name, None, text=files.plan(text, place, []).toml)
    return name, files.recording(name)


def _fitted(opened: study.Recording | tuple[str, Run], options: Options) -> study.Recording:
    """Fit the path of a recording."""
    if isinstance(opened, study.Recording):
        return opened
    name, run = opened
    paths, threads = options.paths, options.jobs
    hint, cc = "advise needs a record of flows with RTTs", options.sender
    with (
        failing(fit.UnfitError, "unfit", hint, what=name, file=name),
        console.simulating(f"{name}: ") as hear,
    ):
        return study.read(name, run, cc, paths=paths, threads=threads, progress=hear)


def _one_path(recordings: Sequence[study.Recording]) -> list[str]:
    """Check that recordings are of one path; return in what it changed between them."""
    changes = []
    for one in recordings[1:]:
        what, is_other = one.differs(recordings[0])
        difference = f"{one.name} differs from {recordings[0].name} in {' and '.join(what)}"
        if is_other:
            hint = f"rank each path with a command of its own: `paceline advise {one.name}`"
            message = f"{difference}: these are two paths"
            raise Failure("other-path", message, hint=hint, file=one.name)
        if what:
            changes.append(f"{difference}. The ranking is over both.")
    return changes


def _unknown(recordings: Sequence[study.Recording], advice: study.Advice | None) -> list[str]:
    """Return what the answer does not know."""
    known = [(one.name, one.run) for one in recordings if one.run]
    unknown = [f"{name}: {run.incomplete}." for name, run in known if run.incomplete]
    sources = [(name, run.source) for name, run in known if run.source is not None]
    unknown += [f"{name}: {note}." for name, source in sources for note in source["notes"]]
    fits = [(one.name, one.fitted) for one in recordings if one.fitted]
    unknown += [f"{name}: {note}" for name, fitted in fits for note in fitted.notes]
    if fits:
        unknown.append(
            "If other flows shared the path, the fitted rate depends on how they reacted: beside "
            "another controller, they would take another share."
        )
    use = None if advice is None else advice.recommended
    if advice is not None and use is not None and use not in (*_SET, *advice.shared):
        unknown.append(f"Linux has no controller that is {use}: no command sets it.")
    if advice is not None and advice.swept:
        names = " and ".join(fit.LABELS.get(n, study.WORDS.get(n, n)) for n in advice.swept)
        more = "" if advice.turns else ": none of the values that were tried turns the answer"
        unknown.append(f"Known least are the {names}{more}.")
    return unknown


def _again(recordings: Sequence[str], options: Options) -> str:
    """Return the command that repeats it."""
    words = ["paceline advise", *map(shlex.quote, recordings)]
    for name, given in (
        ("--cc", options.cc),
        ("--beside", options.beside),
        ("--for", [options.for_] if options.for_ else None),
        ("--sender", [options.sender] if options.sender else None),
        ("--paths", [str(options.paths)] if options.paths != study.PATHS else None),
        *(("--controller", [one]) for one in options.controllers or ()),
    ):
        words += [name, *map(shlex.quote, given)] if given else []
    return " ".join(words)


def _commands(
    options: Options, advice: study.Advice | None, cases: Sequence[study.Case], folder: Path
) -> list[str]:
    """Return the command that repeats a row's runs, and those that set the controller."""
    lines = []
    if cases:
        settings = (f"{key}={value}" for key, value in cases[0].job().overrides)
        given = [f" --set {shlex.quote(setting)}" for setting in settings]
        given += [f" --controller {shlex.quote(one)}" for one in options.controllers or ()]
        run = f"paceline run {shlex.quote(str(folder))}/$n.toml{''.join(given)} --seed $n"
        lines.append(f"for n in $(seq {len(cases)}); do {run}; done")
    if advice is None or advice.recommended in advice.shared:
        return lines
    return lines + _SET.get(advice.recommended or "", [])


def _write(folder: Path, cases: Sequence[study.Case], *, force: bool) -> None:
    """Write the paths of the ensemble with their flows: a row is the mean over them."""
    texts = {f"{case.seed}.toml": case.job().text for case in cases}
    if {file.name: read_text(file) for file in folder.glob("*.toml")} != texts:
        with store.writing(folder, force=force) as fresh:
            fresh.mkdir()
            for name, text in texts.items():
                (fresh / name).write_text(text, encoding="utf-8")


def _shown(one: study.Recording) -> answers.Advised:
    return {
        "file": one.name,
        "sentences": one.sentences,
        "limit": one.limits.sentence,
        "application_ratio": one.limits.application,
        "window_ratio": one.limits.window,
        "senders": one.senders,
        "fit": None if one.fitted is None else described(one.name, None, one.fitted),
    }


def _row(row: study.Row) -> answers.Candidate:
    harm = row.harm
    ends = (None if harm is None else harm.change_ends) or (None, None)
    return {
        "cc": row.name,
        "metrics": {name: row.mean(name) for name in row.values},
        "ranges": {name: row.range(name) for name in row.values},
        "harm_ratio": 0.0 if harm is None else row.harmed,
        "harm_low_ratio": None if ends[1] is None else -ends[1],
        "harm_high_ratio": None if ends[0] is None else -ends[0],
        "against_best": {
            aim: None if finding is None else finding.as_json()
            for aim, finding in row.findings.items()
        },
    }


_HEADS = (
    "Controller",
    "Goodput",
    "RTT p95",
    "Retransmits",
    "Finished in",
    "CUBIC loses",
    "Against the best",
)


def _cells(row: study.Row, advice: study.Advice) -> list[str]:
    finding = row.findings[advice.aim]
    against = "the best"
    if finding is not None:
        ends = advice.against(row)
        change = NONE if ends is None else f"{round(100 * ends[0]):+} to {round(100 * ends[1]):+} %"
        against = change if finding.verdict == "worse" else f"{change}, not certain"
        if finding.verdict == "same":
            against = "no difference"
    harm, ratio = row.harmed, row.mean("retransmit_ratio")
    return [
        row.name,
        _goodput(row),
        quantity("_ns", row.mean("rtt_p95_ns")),
        NONE if ratio is None else f"{100 * ratio:.3g} %",
        quantity("_ns", row.mean("completion_ns")),
        NONE if harm is None else f"{round(100 * harm)} %",
        against,
    ]


def _goodput(row: study.Row) -> str:
    """Return the goodput, or its range where the paths do not have nearly the same."""
    mean, ends = row.mean("goodput_bps"), row.range("goodput_bps")
    if mean is None or ends is None or ends[1] - ends[0] <= study.TOLERANCE * mean:
        return quantity("_bps", mean)
    scale = scale_of("_bps", ends[1])
    return f"{ends[0] / scale.size:.3g} to {ends[1] / scale.size:.3g} {scale.unit}"


def _print(
    recordings: Sequence[study.Recording],
    lead: Sequence[str],
    rows: Sequence[Sequence[str]],
    unknown: Sequence[str],
    commands: Sequence[str],
    place: Path,
) -> None:
    console.show(*lead)
    if rows:
        # At 80 columns there is no room for what no row has.
        kept = [n for n in range(len(_HEADS)) if any(row[n] != NONE for row in rows)]
        table = console.table(*(_HEADS[n] for n in kept))
        for row in rows:
            table.add_row(*(row[n] for n in kept))
        console.show(table)
    for one in recordings:
        console.show(f"What {one.name} shows:", *(f"  {line}" for line in one.sentences))
        if one.fitted is not None:
            show(one.name, one.fitted, metrics=False)
    if unknown:
        console.show("What is not known:", *(f"  {line}" for line in unknown))
    sets = commands[-1].startswith(_SYSCTL)
    what = "To repeat it, and to set it:" if sets else "To repeat it:"
    console.show(what, *(f"  {line}" for line in commands))
    console.print_file(f"{place}\n")
