"""Results as tables in a terminal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline import store
from paceline.cli import console
from paceline.measures import alike
from paceline.names import visible
from paceline.quantities import Scale, number, plain, quantity, scale_of
from paceline.runs import Run
from paceline.show.tables import bound_in_words, emulation_rows, guest_lines, judged
from paceline.statistics import FEWEST, JITTER, of_count, remarks

if TYPE_CHECKING:
    from paceline import answers

#: The columns of the table of flows, if the run has them.
FLOW_COLUMNS = {
    "goodput_bps": "Goodput",
    "share_ratio": "Share",
    "rtt_p50_ns": "RTT p50",
    "rtt_p95_ns": "RTT p95",
    "retransmit_ratio": "Retransmits",
    "rto_count": "RTOs",
    "return_ack_loss_ratio": "ACKs lost",
    "completion_ns": "Completed in",
}


#: Those of a record.
RECORD_COLUMNS = ("goodput_bps", "rtt_p50_ns", "rtt_p95_ns", "retransmit_ratio")


def middle(value: Any) -> float | None:
    """Return a metric's value; for repeats, the median."""
    result: float | None = value["median"] if isinstance(value, dict) else value
    return result


#: The metrics that are shown unless all are asked for.
FIRST = (
    *("utilisation_ratio", "goodput_bps", "jain_ratio"),
    *("rtt_p50_ns", "queue_p95_ns", "retransmit_ratio"),
    *("return_goodput_bps", "return_used_ratio", "return_queue_p95_ns", "return_ack_loss_ratio"),
)


def _chosen(metrics: dict[str, Any], *, everything: bool) -> dict[str, Any]:
    """Return the first metrics that are defined, or all."""
    if everything:
        return metrics
    return {name: metrics[name] for name in FIRST if metrics.get(name) is not None}


def _print_more(metrics: dict[str, Any], *, everything: bool) -> None:
    if not everything:
        console.stdout().print(f"All {len(metrics)} metrics: --all")


def show_result(result: dict[str, Any], *, everything: bool) -> None:
    """Print one run, or the repeats of one scenario."""
    repeats = result.get("repeats")
    title = f"{result['scenario']}, seed {result['seed']}"
    count = len(repeats["seed"]) if repeats else 1
    if repeats:
        title += f", {count} repeats"
    console.show(_metrics(_chosen(result["metrics"], everything=everything), title))
    if result.get("flows"):
        console.show(_flows(result["flows"], count))
    guests = guest_lines(result.get("guests", []))
    console.show(*(f"Controller {guest}" for guest in guests), *notes(result))
    _show_engine(result)
    _show_emulation(result)
    _show_expect(result["expect"])
    _print_more(result["metrics"], everything=everything)
    _show_places(result)


def record_answer(run: Run, kept: Path) -> answers.ImportedRecord:
    """Return what ``--json`` says of a record that was read or made, and its folder."""
    return {
        "run": str(kept),
        "incomplete": run.incomplete,
        "notes": (run.source or {}).get("notes", []),
        "metrics": run.metrics,
        "flows": run.flow_metrics,
    }


def keep_record(run: Run, out: Path | None, name: str) -> Path:
    """Keep a record that was read or made: in a folder, or in a free one below `runs`."""
    place = out or Path("runs") / store.readable(name)
    rivals = store.numbered(place, 2) if out is None else ()
    return store.keep(place, run.inner.write, rivals=rivals)[0]


def show_record(run: Run, kept: Path) -> None:
    """Print the flows of a record, what it lacks, and its folder."""
    table = console.table("Flow", *(FLOW_COLUMNS[name] for name in RECORD_COLUMNS))
    counters = run.flows.sort("flow").iter_rows(named=True)
    for flow, counts in zip(run.flow_metrics, counters, strict=True):
        cells = [quantity(name, flow.get(name)) for name in RECORD_COLUMNS]
        kinds = ("retransmitted", "lost", "sent")
        again, lost, sent = (counts.get(f"{kind}_packets") for kind in kinds)
        if flow.get("retransmit_ratio") is None:
            # iperf3 counts them, and not the packets of TCP; datagrams are only lost.
            if again is not None:
                cells[-1] = f"{again} packets"
            elif lost is not None and sent:
                cells[-1] = f"{quantity('retransmit_ratio', lost / sent)} lost"
        table.add_row(str(flow["label"]), *cells)
    console.stdout().print(table)
    err = console.stderr()
    if run.incomplete is not None:
        err.print(f"warning: {run.incomplete}", soft_wrap=True, markup=False)
    for note in (run.source or {}).get("notes", []):
        err.print(f"note: {note}", soft_wrap=True, markup=False)
    console.print_file(f"{kept}\n")


def _show_emulation(result: dict[str, Any]) -> None:
    emulation = result.get("emulation")
    if not isinstance(emulation, dict):
        return
    table = console.table("Emulation", "Measured")
    for name, value in emulation_rows(emulation):
        table.add_row(name, value)
    console.stdout().print(table)


def _metrics(metrics: dict[str, Any], title: str) -> Any:
    if not any(isinstance(value, dict) for value in metrics.values()):
        table = console.table("Metric", "Value", "Unit", title=title)
        for name, value in metrics.items():
            scale = scale_of(name, value)
            table.add_row(plain(name), number(value, scale), _unit(scale, value))
        return table
    heads = ["Metric", "Mean", "Median", "Low 95 %", "High 95 %", "Unit"]
    counts = {name: of_count(value) for name, value in metrics.items()}
    heads += ["Runs"] * any(counts.values())
    table = console.table(*heads, title=title)
    for name, value in metrics.items():
        scale = scale_of(name, value["mean"] if value else None)
        cells = [value and value[key] for key in ("mean", "median", "low", "high")]
        cells = [number(cell, scale) for cell in cells]
        if value is not None and (value["coverage_ratio"] or 1) < 0.95:
            cells[2:] = [f"~{cell}" for cell in cells[2:]]
        last = [counts[name] or "all" * (value is not None)] * any(counts.values())
        table.add_row(plain(name), *cells, _unit(scale, value), *last)
    return table


def _unit(scale: Scale, value: object) -> str:
    """Return the unit of a value; an undefined one has none."""
    return "" if value is None else scale.unit


#: The number of a result's own notes that are shown.
MOST_NOTES = 6


def notes(result: dict[str, Any]) -> list[str]:
    """Return the notes needed to read a result's figures."""
    lines = []
    repeats = dict(result.get("repeats") or {})
    count = len(repeats.pop("seed", [0]))
    if 1 < count < FEWEST:
        lines.append(f"No 95 % intervals: they need at least {FEWEST} repeats")
    if count > 1 and alike(repeats):
        lines.append(f"The seed has no effect here: all {count} repeats are identical; {JITTER}")
    elif count > 1:
        lines += remarks([value for value in result["metrics"].values() if value is not None])
    goodputs = [middle(flow.get("goodput_bps")) or 0.0 for flow in result.get("flows", [])]
    total = middle(result["metrics"].get("goodput_bps")) or 0.0
    # Rounding errors of sums over the maximum number of flows are smaller.
    if len(goodputs) > 1 and sum(goodputs) > 1.001 * total:
        lines.append(
            "Flows are averaged over their lifetimes, so rows do not add up to the total of "
            f"{quantity('goodput_bps', total)}"
        )
    run_notes = list(result.get("notes", []))
    if (more := len(run_notes) - MOST_NOTES) > 0:
        run_notes[MOST_NOTES:] = [f"{more} more notes are in the --json output"]
    return lines + run_notes


def _flows(flows: list[dict[str, Any]], count: int) -> Any:
    names = [n for n in FLOW_COLUMNS if any(middle(f.get(n)) is not None for f in flows)]
    title = f"Medians of {count} repeats" if count > 1 else None
    heads = [FLOW_COLUMNS[name] for name in names]
    table = console.table("Flow", "Controller", *heads, title=title, left=2)
    for flow in flows:
        values = ((name, flow.get(name)) for name in names)
        cells = (quantity(name, middle(value)) + _counted(value) for name, value in values)
        table.add_row(str(flow["flow"]), flow["cc"], *cells)
    return table


def _counted(value: Any) -> str:
    """Return of how many runs a median is, after it; nothing if it is of all."""
    counted = of_count(value) if isinstance(value, dict) else ""
    return f" ({counted})" if counted else ""


def show_comparison(result: dict[str, Any], *, everything: bool) -> None:
    """Print the cases of a comparison side by side."""
    cases = result["compare"]
    title = f"{result['scenario']}, seed {result['seed']}"
    repeats = cases[0].get("repeats")
    if repeats:
        title += f", medians of {len(repeats['seed'])} repeats"
    table = console.table("Metric", *(case["cc"] for case in cases), "Unit", title=title)
    names: dict[str, Any] = {}
    for case in cases:
        names |= _chosen(case["metrics"], everything=everything)
    for name in names:
        values = [middle(case["metrics"][name]) for case in cases]
        scale = scale_of(name, max((abs(v) for v in values if v is not None), default=None))
        results = [case["metrics"][name] for case in cases]
        cells = [number(middle(value), scale) + _counted(value) for value in results]
        known = next((value for value in values if value is not None), None)
        table.add_row(plain(name), *cells, _unit(scale, known))
    console.show(table)
    for case in cases:
        console.show(*(f"{case['cc']}: {note}" for note in notes(case)))
        _show_expect(case["expect"], case["cc"])
    engines = [case["engine"] for case in cases]
    total = {key: sum(engine[key] for engine in engines) for key in engines[0]}
    reports = [path for case in cases for path in case.get("reports", [])]
    _show_engine({"engine": total})
    _print_more(cases[0]["metrics"], everything=everything)
    _show_places({**result, "reports": result.get("reports", reports)})


def _show_engine(result: dict[str, Any]) -> None:
    engine = result["engine"]
    if not engine["wall_ns"]:
        return  # Nothing was run.
    seconds = engine["wall_ns"] / 1e9
    rate = engine["packets"] / seconds
    console.stdout().print(
        f"Engine: {engine['packets']:,} packets, {rate:,.0f} packets/s, "
        f"{engine['events']:,} events, {seconds:.2f} s wall"
    )


def _show_expect(outcomes: list[dict[str, Any]], controller: str | None = None) -> None:
    if not outcomes:
        return
    out = console.stdout()
    short = [outcome for outcome in outcomes if not outcome["held"]]
    whose = f" ({controller})" if controller else ""
    if not short:
        summary = "1 held" if len(outcomes) == 1 else f"all {len(outcomes)} held"
        out.print(f"Expectations{whose}: {summary}")
        return
    title = console.styled(judged(outcomes), "red")
    title.append(visible(whose))
    table = console.table("Metric", "Expected", "Measured", title=title)
    for outcome in short:
        measured = quantity(outcome["metric"], outcome["value"])
        table.add_row(outcome["metric"], bound_in_words(outcome), measured)
    out.print(table)


def _show_places(result: dict[str, Any]) -> None:
    reports = result.get("reports", [])
    console.show(f"Run:    {result['out']}", *(f"Report: {path}" for path in reports))
