"""``paceline run``: run scenarios, store records, print metrics, write reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from paceline import shipped
from paceline.batch import Batch
from paceline.cli import app as shared
from paceline.cli import console, files
from paceline.cli.app import app, examples
from paceline.cli.failure import Exit, Failure
from paceline.cli.tables import middle, show_comparison, show_result
from paceline.errors import MemoryLimitError, RunError
from paceline.quantities import plain, quantity
from paceline.runs import named_scenario

_seed = shared.bounded(0, 2**63 - 1, "from 0 to 2^63 - 1")


@Parameter(name="*")
@dataclass(frozen=True)
class Options:
    """The options of the command."""

    backend: shared.Backend = "sim"
    """Simulation in virtual time (sim), or Linux's TCP in real time (emu) or in virtual time
    (vm)."""
    seed: Annotated[int | None, Parameter(validator=_seed)] = None
    """Seed of the run. Default: the scenario's seed."""
    repeats: Annotated[int | None, Parameter(validator=shared.at_most_repeats)] = None
    """Number of runs, with consecutive seeds that begin at --seed."""
    out: Path | None = None
    """Folder for the run. Default: runs/NAME+SETTINGS-SEED-HASH."""
    overrides: shared.Set = None
    jobs: shared.Jobs = None
    controllers: shared.Controllers = None
    memory: shared.Memory = None
    everything: Annotated[bool, Parameter(name="--all")] = False
    """Print all metrics, not only the first six."""
    report: Annotated[bool, Parameter(negative="--no-report")] = False
    """Write report.html into the run's folder."""
    force: bool = False
    """Run existing runs again, and compare the bytes."""
    json: shared.Json = False
    quiet: shared.Quiet = False


@app.command(
    help_epilogue=examples(
        "run scenarios/bbr3/four-flows-50M-40ms-1bdp.toml --report",
        "run FILE --repeats 10 --json",
        'run FILE --set path.queue.size="4 bdp" --set flows.0.cc=cubic',
        "run FILE --backend emu",
        "run FILE --backend vm --repeats 5",
    )
)
def run(
    file: Annotated[list[str], Parameter(help="One or more scenario files.")],
    /,
    *,
    options: Options = Options(),
) -> Exit:
    """Run scenarios, print their metrics, and keep every table.

    With `--repeats`, the runs execute in parallel, and the output gives the mean, median and 95 %
    interval of each metric. If the `[run]` table of a scenario lists controllers under the key
    `compare`, the scenario runs once with each of them.

    With `--backend emu`, the runs execute one after another, because an emulated path runs in real
    time. If a run exceeds the error bounds in `[run.emulation]`, the command repeats it up to three
    times. The exit code is 1 if the last repetition also exceeds the bounds; the command then keeps
    this repetition.

    With `--backend vm`, a real kernel runs in virtual time. It starts from the latest snapshot that
    `paceline vm prepare` made. Repeated runs are then byte-identical. The seed determines a delay
    of up to 10 ms for the start of each flow.

    The name of a run's folder ends in a hash of everything that determines the run's bytes. If the
    run already exists, the command shows it and does not run it again. After Ctrl-C, the same
    command executes only the missing runs. The command never overwrites a run. If the process is
    killed during a simulated run, `paceline report` shows the rows written until then.
    """
    # All of them are checked before the first one runs.
    batches = [_checked(path, options, below=len(file) > 1) for path in file]
    _distinct(batches)
    files.print_unused(case.plan for batch in batches for case in batch.cases)
    results: list[dict[str, Any]] = []
    for batch in batches:
        try:
            _execute(batch, options)
        except KeyboardInterrupt:
            _print_interrupted(batch, results, options)
            return Exit.INTERRUPTED
        results.append(batch.finish(digests=options.json))
        if not options.json:
            show = show_comparison if batch.plan.compare else show_result
            show(results[-1], everything=options.everything)
            _print_lesson(batch.file, results[-1])
    if options.json:
        console.print_json(results[0] if len(results) == 1 else {"runs": results})
    cases = [case for result in results for case in result.get("compare", [result])]
    distrusted = [reason for case in cases for reason in _distrusted(case)]
    if distrusted:
        console.print_distrust(distrusted)
        return Exit.RUN_FAILED
    is_passed = all(outcome["held"] for case in cases for outcome in case["expect"])
    return Exit.OK if is_passed else Exit.EXPECTATION_FAILED


def _print_lesson(file: str, result: dict[str, Any]) -> None:
    """Print what to change in the scenario of a lesson, and the metric that then differs."""
    lesson = shipped.lesson(Path(file))
    if not lesson or "metrics" not in result:
        return
    *flow, metric = lesson.pop("metric").split(".")
    values = result["flows"][int(flow[1])] if flow else result["metrics"]
    value = middle(values[metric])
    of_flow = f" of flow {flow[1]}" if flow else ""
    lesson["compare"] = f"{plain(metric)}{of_flow}, here {quantity(metric, value)}"
    for name, text in lesson.items():
        console.note(f"{name.capitalize()}: {text}")


def _checked(name: str, options: Options, *, below: bool) -> Batch:
    """Return the batch of a scenario that this machine can run, with its folder."""
    text, path = named_scenario(name)
    with files.running(path):
        batch = Batch(
            text,
            name=path,
            seed=options.seed,
            repeats=options.repeats,
            overrides=files.parse_overrides(options.overrides),
            backend=options.backend,
            report=options.report,
            force=options.force,
        )
        files.print_sweep(batch.plan, path)
        files.afford_results(batch.count, batch.plan.flow_count, path)
        batch.claim(options.out, below=below)
    return batch


def _execute(batch: Batch, options: Options) -> None:
    left = batch.count - batch.reused
    if batch.reused:
        known = f"{batch.reused} of {batch.count} runs already exist"
        notice = known if batch.grouped else "it already exists"
        again = "" if left else "; --force runs it again and compares the bytes"
        console.note(f"{batch.out}: {notice}{again}")
    if not left:
        return
    with files.running(batch.file), console.progress(batch.plan.name, left) as watch:
        try:
            batch.execute(threads=options.jobs, watch=watch, begun=files.print_recovered)
        except MemoryLimitError:
            raise
        except RunError as error:
            kept = f"the partial run is in {batch.broken}" if batch.broken else None
            kind, code = "run-failed", Exit.RUN_FAILED
            raise Failure(kind, str(error), hint=kept, code=code) from None
    if options.force and batch.there:
        console.note(f"{batch.out}: run again: the same bytes")


def _distrusted(case: dict[str, Any]) -> list[str]:
    """Return why emulated runs are not reliable; nothing for those that are."""
    reasons = case.get("emulation", [])
    emulations = reasons if isinstance(reasons, list) else [reasons]
    return [bound["message"] for emulation in emulations for bound in emulation["beyond"]]


def _distinct(batches: Sequence[Batch]) -> None:
    names: dict[Path, str] = {}
    for batch in batches:
        if batch.out in names:
            message = f"{names[batch.out]} and {batch.file} would both be written to {batch.out}"
            hint = "run them one at a time, each with its own --out"
            raise Failure("same-folder", message, hint=hint, file=batch.file)
        names[batch.out] = batch.file


def _print_interrupted(batch: Batch, results: list[dict[str, Any]], options: Options) -> None:
    kept = [
        {"seed": seed, "cc": case.controller, "out": str(batch.folder(case, seed))}
        for case in batch.cases
        for seed in sorted(case.runs)
    ]
    message = f"interrupted; {len(kept)} finished runs are kept"
    if options.json:
        error = Failure("interrupted", message, file=batch.file).as_json()
        console.print_json({"error": error, "finished": kept, "runs": results})
        return
    console.stderr().print(f"{message}{f' in {batch.out}' if kept else ''}")
