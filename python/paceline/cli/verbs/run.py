"""``paceline run``: run scenarios, store records, print metrics, write reports."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from paceline import _paceline, guests, store
from paceline.batch import Job, Room, Task, execute, locally
from paceline.cli import console, files
from paceline.cli.app import (
    Backend,
    Controllers,
    Jobs,
    Json,
    Memory,
    Quiet,
    Set,
    app,
    at_most_repeats,
    examples,
    limit_memory,
)
from paceline.cli.failure import Exit, Failure
from paceline.cli.guests import bring
from paceline.cli.tables import show_comparison, show_result
from paceline.errors import MemoryLimitError, RunError, ScenarioError, UnavailableError
from paceline.runs import Run
from paceline.statistics import together

#: The report of a run, in its folder.
_REPORT = "report.html"


def _seed(_: object, value: int | None) -> None:
    if value is not None and not 0 <= value < 2**63:
        raise ValueError("must be from 0 to 2^63 - 1.")


@Parameter(name="*")
@dataclass(frozen=True)
class Options:
    """The options of the command."""

    backend: Annotated[
        Backend,
        Parameter(
            help="Simulation in virtual time (sim), or the kernel's TCP (Linux) in real time (emu) "
            "or in virtual time (vm)."
        ),
    ] = "sim"
    seed: Annotated[
        int | None, Parameter(validator=_seed, help="Seed. Default: the scenario's.")
    ] = None
    repeats: Annotated[
        int | None,
        Parameter(
            validator=at_most_repeats,
            help="Run with this many seeds, counting up from the seed.",
        ),
    ] = None
    out: Annotated[
        Path | None,
        Parameter(help="Folder for the run. Default: runs/NAME+SETTINGS-SEED-HASH."),
    ] = None
    overrides: Set = None
    jobs: Jobs = None
    controllers: Controllers = None
    memory: Memory = None
    everything: Annotated[
        bool,
        Parameter(name="--all", negative="", help="Print all metrics, not only the first six."),
    ] = False
    report: Annotated[bool, Parameter(help="Write report.html into the run's folder.")] = False
    force: Annotated[
        bool, Parameter(negative="", help="Run existing runs again, and compare the bytes.")
    ] = False
    json: Json = False
    quiet: Quiet = False


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
    file: Annotated[list[str], Parameter(negative="", help="Scenario files.")],
    /,
    *,
    options: Options = Options(),
) -> Exit:
    """Run scenarios, print their metrics, and keep every table.

    With `--repeats`, the seeds run in parallel, and each metric has its mean, median and 95 %
    interval. If a scenario lists controllers in `compare` of `[run]`, it runs once with each
    controller.

    With `--backend emu`, the seeds run one after another, because an emulated path runs in real
    time. A run that exceeds the bounds of `[run.emulation]` is repeated up to three times; if it
    still exceeds them, it is kept and the exit code is 1.

    With `--backend vm`, a real kernel runs in virtual time, in the latest snapshot of
    `paceline vm prepare`. The run gives the same bytes each time. Flow starts are delayed by up to
    10 ms, depending on the seed.

    The name of a run's folder ends in a hash of everything that determines the run's bytes. If a
    run exists, the command shows it and does not run it again. After Ctrl-C, the same command runs
    only the missing runs. Nothing is overwritten. If the process is killed during a simulated run,
    `report` shows the rows that the run had written.
    """
    limit_memory(options.memory)
    bring(options.controllers)
    # All of them are checked before the first one runs.
    batches = [Batch(path, options, below=len(file) > 1) for path in file]
    _distinct(batches)
    if not options.quiet:
        files.tell_unused(case.plan for batch in batches for case in batch.cases)
    results: list[dict[str, Any]] = []
    for batch in batches:
        try:
            batch.execute()
        except KeyboardInterrupt:
            _tell_interrupted(batch, results, options)
            return Exit.INTERRUPTED
        results.append(batch.finish())
        if not options.json:
            batch.show(results[-1])
    if options.json:
        console.say_json(results[0] if len(results) == 1 else {"runs": results})
    distrusted = [reason for result in results for reason in _distrusted(result)]
    if distrusted:
        console.say_distrust(distrusted)
        return Exit.RUN_FAILED
    return Exit.OK if all(map(_held, results)) else Exit.EXPECTATION_FAILED


@dataclass
class Case:
    """One case of a scenario: as it is, or with one controller of a comparison."""

    folder: Path
    overrides: list[tuple[str, str]]
    plan: _paceline.CheckedScenario
    controller: str | None = None
    #: The runs by seed, without their tables, which are in their folders.
    runs: dict[int, Run] = field(default_factory=dict)


class Batch:
    """A scenario with its cases and repeats."""

    def __init__(self, path: str, options: Options, *, below: bool) -> None:
        self.options = options
        self.text, self.path = files.scenario(path)
        path = self.path
        self.overrides = files.parse_overrides(options.overrides)
        self.plan = self._plan(self.overrides)
        files.memory_of(self.plan, path)
        if not options.quiet:
            files.tell_sweep(self.plan, path)
            files.tell_memory(self.plan, path, always=False)
        self.seed = self.plan.seed if options.seed is None else options.seed
        self.repeats = options.repeats or self.plan.repeats
        count = self.repeats * max(len(self.plan.compare), 1)
        files.afford_results(count, self.plan.flow_count, path)
        self.seeds = range(self.seed, self.seed + self.repeats)
        #: Digest of the trace, which the cases share.
        self.inputs = [] if self.plan.trace is None else [store.digest(Path(self.plan.trace))]
        if options.backend == "vm":
            # The kernel's behaviour depends on the snapshot.
            self.inputs += [image["hash"] for image in json.loads(_paceline.vm_images())[:1]]
        #: Existing runs, and those that came out with other bytes than the existing ones.
        self.reused = 0
        self.differing: list[str] = []
        #: The partial records of runs that did not reach their end.
        self.broken: Path | None = None
        self.out, self.there = self._place(below=below)
        self.cases = self._cases()
        if self.there:
            self._recall()

    @property
    def grouped(self) -> bool:
        """Whether there is more than one run."""
        return self.repeats > 1 or bool(self.plan.compare)

    def _plan(self, overrides: list[tuple[str, str]]) -> _paceline.CheckedScenario:
        return files.plan(self.text, self.path, overrides, self.options.backend)

    def _key(self, plan: _paceline.CheckedScenario, seeds: Sequence[int]) -> str:
        return store.key([plan.toml, list(seeds)], self.options.backend, self.inputs)

    def _place(self, *, below: bool) -> tuple[Path, bool]:
        """Return where to write, and whether something of this batch already exists."""
        kind = "runs" if self.grouped else "run"
        key = self._key(self.plan, self.seeds)
        anew = self.options.backend == "emu"
        out = self.options.out
        if out is None:
            seeds = f"{self.seed}to{self.seeds[-1]}" if self.repeats > 1 else str(self.seed)
            what = f"{self.plan.name}-compare" if self.plan.compare else self.plan.name
            name = store.run_name(what, self._settings(), seeds, key)
            return store.find(Path("runs") / name, kind, key, anew=anew)
        # One file with --out writes directly there; several write below it.
        place = out / f"{store.readable(self.plan.name)}-{self.seed}" if below else out
        there = store.claim(place, kind, key)
        if anew and there and store.is_complete(place):
            message = f"{place} holds an emulated run, which cannot be reproduced"
            hint = "choose another folder with --out"
            raise Failure("not-a-run", message, hint=hint, file=str(place))
        return place, there

    def _settings(self) -> list[tuple[str, str]]:
        """Return the overrides that change the scenario."""

        def changes(nth: int) -> bool:
            others = self.overrides[:nth] + self.overrides[nth + 1 :]
            try:
                plan = guests.check(self.text, self.path, others, sweep=False)
            except ScenarioError:
                return True
            return plan.toml != self.plan.toml

        return [pair for nth, pair in enumerate(self.overrides) if changes(nth)]

    def _cases(self) -> list[Case]:
        if not self.plan.compare:
            return [Case(self.out, self.overrides, self.plan)]
        everyone = {
            cc: self.overrides + [(f"flows.{n}.cc", cc) for n in range(self.plan.flow_groups)]
            for cc in self.plan.compare
        }
        return [
            Case(self.out / store.readable(cc), overrides, self._plan(overrides), cc)
            for cc, overrides in everyone.items()
        ]

    def _folder(self, case: Case, seed: int) -> Path:
        return case.folder / f"seed-{seed}" if self.repeats > 1 else case.folder

    def _recall(self) -> None:
        """Read the existing runs, or check that they are what was run."""
        for case in self.cases:
            for seed in self.seeds:
                folder = self._folder(case, seed)
                if not store.claim(folder, "run", self._key(case.plan, [seed])):
                    continue
                if self.options.report:
                    store.check(folder / _REPORT)
                if self.options.force and self.options.backend != "emu":
                    continue
                try:
                    case.runs[seed] = files.read_run(str(folder)).measured()
                except Failure as failure:
                    failure.hint = (
                        f"remove {folder}, or run with --force to write another one next to it"
                    )
                    raise
                self.reused += 1

    def execute(self) -> None:
        """Run everything that is missing, and write each run as soon as it has ended."""
        count = len(self.cases) * len(self.seeds)
        left = count - self.reused
        if self.reused and not self.options.quiet:
            known = f"{self.reused} of {count} runs already exist"
            told = known if self.grouped else "it already exists"
            again = "" if left else "; --force runs it again and compares the bytes"
            console.stderr().print(f"{self.out}: {told}{again}")
        if not left:
            return
        if self.grouped:
            key = self._key(self.plan, self.seeds)
            store.begin(self.out, "runs", key, [store.GROUP])

        with (
            store.streaming(self.out) as stream,
            console.progress(self.plan.name, left, quiet=self.options.quiet) as watch,
        ):
            if not self.options.quiet:
                files.tell_recovered()
            try:
                execute(
                    (job._replace(stream=stream(place)) for place, job in self._jobs()),
                    self._keep,
                    executor=locally(self.options.jobs),
                    watch=watch,
                    total_ns=sum(job.duration_ns for _, job in self._jobs()),
                    room=Room.alone(),
                    distrusted="keep",
                    broken=self._keep_broken,
                )
            except ScenarioError as error:
                raise Failure.of(error) from None
            except UnavailableError as error:
                raise files.unavailable_failure(error, self.path) from None
            except MemoryLimitError as error:
                kind, code = "memory", Exit.RUN_FAILED
                raise Failure(kind, str(error), hint=error.hint, code=code) from None
            except RunError as error:
                kept = f"the partial run is in {self.broken}" if self.broken else None
                kind, code = "run-failed", Exit.RUN_FAILED
                raise Failure(kind, str(error), hint=kept, code=code) from None
        self._tell_again()

    def _jobs(self) -> Iterator[tuple[Path, Job]]:
        """Yield the missing runs and their folders, on demand."""
        for case in self.cases:
            overrides, length = tuple(case.overrides), case.plan.duration_ns
            for seed in self.seeds:
                if seed not in case.runs:
                    backend = self.options.backend
                    job = Job(self.text, overrides, seed, backend, self.path, length)
                    yield self._folder(case, seed), job

    def _keep(self, _: int, job: Job, run: Run) -> None:
        seed = job.seed
        case = next(case for case in self.cases if tuple(case.overrides) == job.overrides)
        place = self._folder(case, seed)

        def write(folder: Path) -> None:
            run.inner.write(folder)
            if self.options.report:
                run.report(folder / _REPORT)

        inside = place.relative_to(self.out)
        rivals = (root / inside for root in store.numbered(self.out, 2))
        where, other = store.keep(place, write, self._key(case.plan, [seed]), rivals)
        if other and self.options.backend != "emu":
            self.differing.append(f"{', '.join(other)} of {place} differs from {where}")
        if not self.grouped:
            case.folder = where
        case.runs[seed] = run.measured()
        if job.stream is not None:
            Path(job.stream).unlink(missing_ok=True)

    def _keep_broken(self, task: Task, run: Run) -> None:
        """Keep the partial run that a user-defined controller has ended."""
        case = next(case for case in self.cases if tuple(case.overrides) == task.job.overrides)
        place = self._folder(case, task.job.seed)
        self.broken = store.incomplete(place)
        run.inner.write(self.broken)

    def _tell_again(self) -> None:
        if self.differing:
            raise Failure(
                "differs",
                f"the same run gave different bytes: {'; '.join(self.differing)}",
                hint="the older run was modified, or the engine is not deterministic",
                file=str(self.out),
                code=Exit.RUN_FAILED,
            )
        if self.options.force and self.there and not self.options.quiet:
            console.stderr().print(f"{self.out}: run again: the same bytes")

    def result(self) -> dict[str, Any]:
        """Return the `--json` object of this scenario."""
        reused = {"reused": True} if self.reused == len(self.cases) * self.repeats else {}
        if not self.plan.compare:
            return self._case_result(self.cases[0]) | reused
        return {
            "scenario": self.plan.name,
            "seed": self.seed,
            "backend": self.options.backend,
            "out": str(self.out),
            "compare": [{"cc": case.controller, **self._case_result(case)} for case in self.cases],
            **reused,
        }

    def _case_result(self, case: Case) -> dict[str, Any]:
        runs = [case.runs[seed] for seed in sorted(case.runs)]
        if self.repeats > 1:
            result: dict[str, Any] = together([run.summary for run in runs])
            # The median is compared with a bound: one odd repeat does not move it.
            values = {name: m and m["median"] for name, m in result["metrics"].items()}
            told = [
                f"Seed {seed}: {note}"
                for seed in sorted(case.runs)
                for note in case.runs[seed].summary.get("notes", [])
            ]
            result |= {"notes": told} if told else {}
        else:
            result = dict(runs[0].summary)
            values = result["metrics"]
        if self.repeats > 1 and self.options.backend == "emu":
            result["emulation"] = [run.emulation for run in runs]
        result["out"] = str(case.folder)
        result["engine"] = _engine(runs)
        result["expect"] = self.plan.evaluate(list(values.items()))
        return result

    def finish(self) -> dict[str, Any]:
        """Write the summary of the runs, and the reports of existing runs; return the summary."""
        result = self.result()
        if self.grouped and not (self.out / store.GROUP).exists():
            with store.replacing(self.out / store.GROUP) as fresh:
                text = json.dumps(_without_engine(result), indent=2, ensure_ascii=False)
                fresh.write_text(text + "\n", encoding="utf-8")
        if self.options.report:
            result["reports"] = [str(path) for path in self._reports()]
        return result

    def _reports(self) -> Iterator[Path]:
        for case in self.cases:
            for seed in sorted(case.runs):
                path = self._folder(case, seed) / _REPORT
                if not path.exists():
                    run = files.read_run(str(path.parent))
                    with store.writing(path) as fresh:
                        run.report(fresh)
                yield path

    def show(self, result: dict[str, Any]) -> None:
        """Print the result for people."""
        if self.plan.compare:
            show_comparison(result, everything=self.options.everything)
        else:
            show_result(result, everything=self.options.everything)


def _engine(runs: Sequence[Run]) -> dict[str, int]:
    engines = [run.engine for run in runs if run.engine is not None]
    return {
        "wall_ns": sum(e.wall_ns for e in engines),
        "packets": sum(e.packets for e in engines),
        "events": sum(e.events for e in engines),
    }


def _without_engine(result: dict[str, Any]) -> dict[str, Any]:
    """Return the result without the parts that differ from run to run, and without paths."""
    clean = {k: v for k, v in result.items() if k not in ("engine", "out", "reports", "reused")}
    if "compare" in clean:
        clean["compare"] = [_without_engine(case) for case in clean["compare"]]
    return {"schema": console.SCHEMA, **clean}


def _distrusted(result: dict[str, Any]) -> list[str]:
    """Return why emulated runs are not reliable; nothing for those that are."""
    emulations = []
    for case in result.get("compare", [result]):
        emulation = case.get("emulation", [])
        emulations += emulation if isinstance(emulation, list) else [emulation]
    return [bound["message"] for emulation in emulations for bound in emulation["beyond"]]


def _held(result: dict[str, Any]) -> bool:
    cases = result.get("compare", [result])
    return all(outcome["held"] for case in cases for outcome in case["expect"])


def _distinct(batches: Sequence[Batch]) -> None:
    seen: dict[Path, str] = {}
    for batch in batches:
        if batch.out in seen:
            raise Failure(
                "same-folder",
                f"{seen[batch.out]} and {batch.path} would both be written to {batch.out}",
                hint="run them one at a time, each with its own --out",
                file=batch.path,
            )
        seen[batch.out] = batch.path


def _tell_interrupted(batch: Batch, results: list[dict[str, Any]], options: Options) -> None:
    kept = [
        {"seed": seed, "cc": case.controller, "out": str(batch._folder(case, seed))}
        for case in batch.cases
        for seed in sorted(case.runs)
    ]
    message = f"interrupted; {len(kept)} finished runs are kept"
    if options.json:
        error = Failure("interrupted", message, file=batch.path).as_json()
        console.say_json({"error": error, "finished": kept, "runs": results})
        return
    console.stderr().print(f"{message}{f' in {batch.out}' if kept else ''}")
