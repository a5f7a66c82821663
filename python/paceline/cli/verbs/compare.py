"""``paceline compare``: same, better or worse, and how certain that is."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count, zip_longest
from typing import Annotated, Any, Literal, TypeAlias, get_args

from cyclopts import Parameter

from paceline import answers, store
from paceline.cli import console, files
from paceline.cli.app import Json, Memory, app, bounded, examples
from paceline.cli.failure import Exit, Failure, failing
from paceline.errors import ArgumentError, NotARunError
from paceline.quantities import NONE, plain, quantity
from paceline.reading import toml
from paceline.statistics import FEWEST, JITTER
from paceline.study import compare as study
from paceline.study.compare import Finding, Incomparable, differing
from paceline.study.compare.subjects import Subject, read, split
from paceline.study.conformance.departure import Stay, departure, stays
from paceline.study.conformance.reference import PREFIX, run
from paceline.study.sweep import Sweep

Findings: TypeAlias = Sequence[Finding]
#: Verdicts in the order in which findings are shown.
_ORDER: tuple[answers.Verdict, ...] = get_args(answers.Verdict)
#: At 100 %, every difference would be ignored.
_tolerance = bounded(0, math.nextafter(100, 0), "from 0 to 100")


@Parameter(name="*")
@dataclass(frozen=True)
class Options:
    """The options of the command."""

    by: str | None = None
    """Within one sweep, compare the values of this key, such as queue.size for path.queue.size."""
    metrics: Annotated[list[str] | None, Parameter(name="--metric")] = None
    """Compare only these metrics. Default: all."""
    tolerance: Annotated[float, Parameter(validator=_tolerance)] = 1.0
    """Ignore differences of up to this percentage of the old value."""
    correction: Literal["holm", "bh"] = "holm"
    """Correction for multiple testing. With holm, the probability of any false alarm is at most 5
    %. With bh, the expected share of false alarms among the differences found is at most 5 %."""
    everything: Annotated[bool, Parameter(name="--all")] = False
    """Also show metrics that are the same."""
    markdown: bool = False
    """Print Markdown, for a pull request."""
    memory: Memory = None
    json: Json = False


@app.command(
    help_epilogue=examples(
        "compare runs/before runs/after",
        "compare runs/before-sweep runs/after-sweep --metric goodput_bps --markdown",
        "compare runs/buffers-sweep --by flows.0.cc",
        "compare runs/quinn reference:03",
    )
)
def compare(
    old: Annotated[
        str,
        Parameter(
            help="The folder of a run, of its repeats or of a sweep. Or `reference:CASE`, which is "
            "a test case of the BBR draft or one of Paceline's own baselines (`paceline reference "
            "list` lists them)."
        ),
    ],
    new: Annotated[str | None, Parameter(help="The result to compare with OLD.")] = None,
    /,
    *,
    options: Options = Options(),
) -> Exit:
    """Say for each metric whether it is the same, better or worse, and how certain that is.

    The command compares pairs of runs that have the same seed. The exit code is 4 if a metric is
    worse, and otherwise 0. If there are too few runs for a statistical test, the output says so,
    and the metric does not count as worse.

    With `--by`, the command compares the first value of one key of a sweep with each of the other
    values, in pairs of points that differ only in this key. For each metric, the value of a point
    is the mean over its seeds. The command compares the two points of a pair by the ratio of the
    metric if all values of the metric are positive, and otherwise by the difference.

    You can compare a run, or a qlog that `paceline import` converted, with `reference:CASE`. CASE
    is a test case of the BBR draft, or one of Paceline's own baseline scenarios b1 to b6. The
    reference is a run of CASE with `bbr3`. The output shows where the run's BBR states (or its
    packets, if it has no states) depart from the reference. The run and CASE must have the same
    path and events.
    """
    options = replace(options, metrics=files.known_metrics(options.metrics))
    if (new is None) == (options.by is None):
        message = "compare takes two folders, or one sweep and --by KEY"
        raise Failure("usage", message, hint="`paceline compare --help` shows both")
    if new is None:
        _by(old, options)
        return Exit.OK
    if new.startswith(PREFIX):
        # The first result is the one that the other is compared with.
        old, new = new, old
    reference = run(files.references([old])[0]) if old.startswith(PREFIX) else None
    other = None if reference is None else files.read_run(new)
    if reference is None:
        before = _read(old)
    else:
        before = Subject.alone(old, reference.summary, toml(reference.scenario_toml))
    after = _read(new)
    files.known_metrics(options.metrics or (), max(before.flow_count, after.flow_count))
    findings = _findings(before, after, options)
    counts = Counter(finding.verdict for finding in findings)
    differ = differing(before, after)
    notes = _notes(findings, differ)
    for side in (before, after):
        if any(side.is_recording(point) for point in side.points):
            notes.append(f"{side.name} is a recording: nothing is known of its path.")
    states, departs = [], None
    if reference is not None and other is not None:
        states = _states(stays(reference), stays(other))
        departs = departure(reference, other)
        notes.insert(0, f"Departure: {departs}.")
    answer: answers.Comparison = {
        "old": old,
        "new": new,
        "tolerance_ratio": options.tolerance / 100,
        "correction": options.correction,
        "verdict": _overall(counts),
        "counts": {verdict: counts[verdict] for verdict in _ORDER},
        "findings": [finding.as_json() for finding in findings],
        "differing": differ,
        "notes": notes,
        "states": states,
        "departs": departs,
        "only_old": _only(before, after),
        "only_new": _only(after, before),
    }

    def show() -> None:
        _show(old, new, findings, [_summary(counts, options), *notes], options)
        if states and not options.markdown:
            _print(states, old, new)

    console.answer(answer, show)
    return Exit.REGRESSION if counts["worse"] else Exit.OK


def _findings(before: Subject, after: Subject, options: Options) -> list[Finding]:
    hint = "the two must have a point in common, key for key"
    metrics, correction = options.metrics or (), options.correction
    tolerance = options.tolerance / 100
    with failing(Incomparable, "incomparable", hint):
        return study.compare(before, after, metrics, tolerance=tolerance, correction=correction)


def _by(folder: str, options: Options) -> None:
    """Say which value of a key is better: a sentence, a picture, and then rows."""
    from paceline.show.figure import saved
    from paceline.study.compare.picture import draw

    key = options.by or ""
    hint = "name the folder that `paceline sweep` wrote"
    with failing(NotARunError, "not-a-run", hint, file=folder):
        sweep = Sweep.read(folder)
    with failing(ArgumentError, "unknown-key", file=folder):
        first, *others = split(sweep, key).values()
    files.known_metrics(options.metrics or (), first.flow_count)
    lines = []
    for other in others:
        findings = _findings(first, other, options)
        sentence = _sentence(first, other, findings, options.metrics or sweep.metrics)
        place = sweep.folder / f"{store.readable(f'{key}-{other.name}-against-{first.name}')}.png"
        title = f"{sweep.scenario}: {other.name} against {first.name}"
        store.write(place, saved(draw(title, findings), "png"))
        lines.append((other, findings, sentence, place))
    answer: answers.Comparisons = {
        "by": key,
        "sweep": folder,
        "comparisons": [
            {
                "old": first.name,
                "new": other.name,
                "sentence": sentence,
                "picture": str(place),
                "findings": [finding.as_json() for finding in findings],
            }
            for other, findings, sentence, place in lines
        ],
    }

    def show() -> None:
        for other, findings, sentence, place in lines:
            console.show(f"{sentence}\nPicture: {place}")
            counts = Counter(finding.verdict for finding in findings)
            notes = [_summary(counts, options), *_notes(findings, ())]
            _show(first.name, other.name, findings, notes, options)

    console.answer(answer, show)


def _sentence(old: Subject, new: Subject, findings: Findings, metrics: Sequence[str]) -> str:
    """Return a sentence with the result of a comparison."""
    by_word: dict[str, list[str]] = {}
    words = ("better", "worse", "same", "untested")
    for finding in (f for f in findings if f.metric in metrics):
        change = finding.change
        by = "" if change is None or math.isinf(change) else f" ({100 * change:+.3g} %)"
        if by and finding.difference is not None and finding.difference.signs is not None:
            higher, lower = finding.difference.signs
            by = f"{by[:-1]}, {higher} higher and {lower} lower)"
        word = finding.verdict if finding.verdict in words else "unclear"
        by_word.setdefault(word, []).append(plain(finding.metric) + by * (word != "same"))
    order = {"better": "better in", "worse": "worse in", "same": "the same in"}
    known = [(how, by_word[word]) for word, how in order.items() if word in by_word]
    parts = [f"{how} {', '.join(names)}" for how, names in known]
    if "untested" in by_word:
        parts.append(f"too few pairs to test {', '.join(by_word['untested'])}")
    if "unclear" in by_word:
        parts.append(f"no clear difference in {', '.join(by_word['unclear'])}")
    count = max((min(finding.counts) for finding in findings), default=0)
    return f"{new.name} against {old.name}, over {count} pairs: {'; '.join(parts)}."


def _show(old: str, new: str, findings: Findings, notes: Sequence[str], options: Options) -> None:
    chosen = [f for f in findings if options.everything or f.verdict != "same"]
    chosen.sort(key=lambda f: (_ORDER.index(f.verdict), -abs(f.change or 0.0)))
    text = _markdown if options.markdown else _table
    text(old, new, chosen, notes)


def _states(ours: Sequence[Stay], theirs: Sequence[Stay]) -> list[answers.Stays]:
    """Return the stays of both in states of BBR, side by side."""
    return [
        {
            "old": None if old is None else old.state,
            "old_enter_ns": None if old is None else old.enter_ns,
            "new": None if new is None else new.state,
            "new_enter_ns": None if new is None else new.enter_ns,
        }
        for old, new in zip_longest(ours, theirs)
    ]


#: The maximum number of states that are shown.
_STATES = 12


def _print(states: Sequence[answers.Stays], old: str, new: str) -> None:
    table = console.table("State", old, "from", new, "from", left=2)
    for number, row in enumerate(states[:_STATES], 1):
        then, now = quantity("_ns", row["old_enter_ns"]), quantity("_ns", row["new_enter_ns"])
        table.add_row(str(number), row["old"] or NONE, then, row["new"] or NONE, now)
    console.show(table)
    if len(states) > _STATES:
        console.show(f"The first {_STATES} of {len(states)} states; --json gives all.")


def _read(name: str) -> Subject:
    hint = "name the folder that `paceline run` or `paceline sweep` wrote"
    with failing(NotARunError, "not-a-run", hint, file=name):
        return read(files.result_folder(name))


def _only(one: Subject, other: Subject) -> list[str]:
    alone = len(one.points) == len(other.points) == 1
    return [] if alone else [point for point in one.points if point not in other.points]


def _overall(counts: Counter[answers.Verdict]) -> answers.Overall:
    ordered: tuple[answers.Overall, ...] = ("worse", "better", "untested")
    return next((verdict for verdict in ordered if counts[verdict]), "same")


def _summary(counts: Counter[answers.Verdict], options: Options) -> str:
    counted = ", ".join(f"{counts[verdict]} {verdict}" for verdict in _ORDER if counts[verdict])
    name = {"holm": "Holm", "bh": "Benjamini and Hochberg"}[options.correction]
    return f"{counted} (tolerance {options.tolerance:g} %; 5 % level, corrected by {name})"


def _notes(findings: Findings, differ: Sequence[str]) -> list[str]:
    """Return the notes needed to read the findings."""
    notes = _untested([f for f in findings if f.verdict == "untested"], findings)
    counts = [min(f.counts) for f in findings if f.difference is not None and f.difference.p]
    if any(1 < count < FEWEST for count in counts):
        notes.append(f"No 95 % intervals with fewer than {FEWEST} runs per side.")
    ended = [f for f in findings if any(f.censored)]
    if ended:
        notes.append(
            "Of the runs that do not count, the time is longer than the run: they are compared as "
            f"that, by the log-rank test ({', '.join(sorted({plain(f.metric) for f in ended}))})."
        )
    if len(differ) > 1:
        notes.append(
            f"The scenarios differ in {len(differ)} settings, any of which may be the cause: "
            f"{', '.join(differ)}."
        )
    return notes


def _untested(untested: Findings, all_: Findings) -> list[str]:
    """Return that differences were not tested, why, and how to."""
    if not untested:
        return []
    sizes = [(abs(f.change), f) for f in untested if f.change is not None]
    most = max(sizes, key=lambda pair: pair[0], default=None)
    largest = f" (the largest: {plain(most[1].metric)} {_change(most[1])})" if most else ""
    verb = "difference was" if len(untested) == 1 else "differences were"
    notes = [f"{len(untested)} {verb} not tested, and may be chance or not{largest}."]
    if any(min(f.runs) == 1 for f in untested):
        why = "one run cannot tell an effect from chance"
        notes.append(f"One run per side: {why}; use --repeats 10.")
    many = [f for f in untested if min(f.runs) > 1]
    if any(f.difference is not None and f.difference.p is None for f in many):
        notes.append(f"The seed has no effect here: identical repeats count as one run. {JITTER}.")
    few = [f for f in many if f.difference is not None and f.difference.p is not None]
    if few:
        notes.append(_too_few(few, sum(f.difference is not None for f in all_)))
    return notes


def _too_few(few: Findings, tests: int) -> str:
    """Return what some findings need for a test that can be sure among so many."""
    pairs = any(f.by_point for f in few)
    what, use = ("pairs", "more points:") if pairs else ("runs", "--repeats")
    ways = (2**n if pairs else math.comb(2 * n, n) for n in count())
    needed = next(n for n, of in enumerate(ways) if 2 / of <= 0.05 / tests)
    fewest = min(min(f.runs) for f in few)
    if needed <= fewest:
        names = ", ".join(sorted({plain(f.metric) for f in few}))
        return f"Too few different values for any test ({names}): most {what} gave the same one."
    fewer = ", or --metric to test fewer" if tests > 1 else ""
    return (
        f"Too few {what}: with {fewest} per side, no test of {tests} can be sure at the 5 % level. "
        f"Use {use} {needed}{fewer}."
    )


_COLUMNS = ("Metric", "Old", "New", "Change", "95 % interval", "Effect", "p", "Verdict")


def _cells(finding: Finding) -> list[str]:
    difference = finding.difference
    name = finding.metric.rpartition(".")[2]
    interval = NONE
    if difference is not None and difference.low is not None and difference.high is not None:
        interval = f"{_signed(name, difference.low)} to {_signed(name, difference.high)}"
        if difference.ratios and finding.change_ends is not None:
            interval = " to ".join(f"{100 * end:+.3g} %" for end in finding.change_ends)
    sides = zip((finding.old, finding.new), finding.counts, finding.runs, strict=True)
    return [
        plain(finding.metric),
        *(
            quantity(name, value) + (f" ({some} of {runs})" if 0 < some < runs else "")
            for value, some, runs in sides
        ),
        _change(finding) + _signs(finding),
        interval,
        _effect(difference.effect if difference else None),
        NONE if finding.p is None else "< 0.0001" if finding.p < 1e-4 else f"{finding.p:.4f}",
        finding.verdict,
    ]


def _change(finding: Finding) -> str:
    change = finding.change
    if change is None:
        return NONE
    return "from 0" if math.isinf(change) else f"{100 * change:+.2f} %"


def _signs(finding: Finding) -> str:
    """Return how many pairs of different paths are higher, or lower."""
    difference = finding.difference
    if difference is None or difference.signs is None or not finding.by_point:
        return ""
    higher, lower = difference.signs
    word = f"{higher} higher" if higher >= lower else f"{lower} lower"
    return f" ({word}, of {finding.counts[0]})"


def _effect(value: float | None) -> str:
    if value is None:
        return NONE
    # If the values hardly vary, the number says nothing more.
    return f"{value:+.2g}" if abs(value) < 100 else "> 100" if value > 0 else "< -100"


def _signed(name: str, value: float) -> str:
    return ("+" if value > 0 else "-" if value < 0 else "") + quantity(name, abs(value))


def _table(old: str, new: str, findings: Findings, notes: Sequence[str]) -> None:
    points = any(finding.point for finding in findings)
    if findings:
        title = f"{new} against {old}"
        first = ("Point", "Metric") if points else ("Metric",)
        table = console.table(*first, *_COLUMNS[1:], title=title, left=len(first))
        for finding in findings:
            colour = {"worse": "red", "better": "green"}.get(finding.verdict)
            *cells, verdict = _cells(finding)
            coloured = console.styled(verdict, colour) if colour else verdict
            table.add_row(*([finding.point] if points else []), *cells, coloured)
        console.show(table)
    console.show(*notes)


def _markdown(old: str, new: str, findings: Findings, notes: Sequence[str]) -> None:
    summary, *more = notes

    def row(cells: Sequence[Any]) -> str:
        return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"

    points = any(finding.point for finding in findings)
    lines = [f"### `{new}` against `{old}`", "", summary, ""]
    if findings:
        columns = (["Point"] if points else []) + list(_COLUMNS)
        left = 2 if points else 1
        lines.append(row(columns))
        lines.append(row([":--"] * left + ["--:"] * (len(columns) - left - 1) + [":--"]))
        for finding in findings:
            cells = _cells(finding)
            cells[-1] = f"**{cells[-1]}**" if finding.verdict == "worse" else cells[-1]
            lines.append(row(([f"`{finding.point}`"] if points else []) + cells))
        lines.append("")
    for note in more:
        lines += [note, ""]
    console.stdout().print("\n".join(lines), soft_wrap=True, end="")
