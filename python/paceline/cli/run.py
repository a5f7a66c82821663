"""``paceline run``: scenarios into folders, numbers and reports."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paceline import _paceline
from paceline.cli import console, files
from paceline.cli.failure import Exit, Failure
from paceline.cli.tables import show_comparison, show_result
from paceline.errors import NotARunError, RunError, ScenarioError, UnavailableError
from paceline.runs import Run, run_jobs


@dataclass(frozen=True)
class Settings:
    """What the command line says."""

    seed: int | None = None
    repeats: int | None = None
    out: Path | None = None
    overrides: tuple[tuple[str, str], ...] = ()
    as_json: bool = False
    quiet: bool = False
    report: bool = False
    jobs: int | None = None
    backend: _paceline.Backend = "sim"


@dataclass
class Case:
    """One way to run a scenario: as it is, or with one controller of a comparison."""

    folder: Path
    overrides: list[tuple[str, str]]
    controller: str | None = None
    runs: dict[int, Run] = field(default_factory=dict)


class Batch:
    """A scenario with its cases and repeats."""

    def __init__(self, path: str, settings: Settings, *, below: bool) -> None:
        self.path = path
        self.settings = settings
        self.text = files.read_scenario(path)
        self.overrides = list(settings.overrides)
        self.plan = files.plan(self.text, path, self.overrides, settings.backend)
        if not settings.quiet:
            files.tell_sweep(self.plan, path)
        self.seed = self.plan.seed if settings.seed is None else settings.seed
        self.repeats = settings.repeats or self.plan.repeats
        name = files.folder_name(self.plan.name, self.seed)
        out = settings.out or Path("runs")
        # One file with --out writes right there; several files, or none named, write below.
        self.out = out / name if below or settings.out is None else out
        self.cases = self._cases()
        files.claim(self.out)

    @property
    def grouped(self) -> bool:
        """Whether there is more than one run."""
        return self.repeats > 1 or bool(self.plan.compare)

    def _cases(self) -> list[Case]:
        if not self.plan.compare:
            return [Case(self.out, self.overrides)]
        return [
            Case(self.out / files.folder_name(cc, self.seed), self._with_controller(cc), cc)
            for cc in self.plan.compare
        ]

    def _with_controller(self, cc: str) -> list[tuple[str, str]]:
        everyone = [(f"flows.{n}.cc", cc) for n in range(self.plan.flow_groups)]
        return self.overrides + everyone

    def _folder(self, case: Case, seed: int) -> Path:
        return case.folder / f"seed-{seed}" if self.repeats > 1 else case.folder

    def execute(self) -> None:
        """Run everything, and write each run as soon as it has ended."""
        seeds = range(self.seed, self.seed + self.repeats)
        jobs = [(case, seed) for case in self.cases for seed in seeds]
        cleared = False

        def keep(index: int, run: Run) -> None:
            nonlocal cleared
            if not cleared:
                files.clear(self.out, group=self.grouped)
                cleared = True
            case, seed = jobs[index]
            folder = self._folder(case, seed)
            try:
                run.write(folder)
            except (OSError, NotARunError) as error:
                raise files.write_failure(folder, error) from None
            case.runs[seed] = run

        quiet = self.settings.quiet
        with console.progress(self.plan.name, len(jobs), quiet=quiet) as reporter:
            try:
                run_jobs(
                    self.text,
                    [(case.overrides, seed) for case, seed in jobs],
                    name=self.path,
                    threads=self.settings.jobs,
                    progress=reporter,
                    finished=keep,
                    backend=self.settings.backend,
                )
            except ScenarioError as error:
                raise files.scenario_failure(error) from None
            except UnavailableError as error:
                raise files.unavailable_failure(error, self.path) from None
            except RunError as error:
                raise Failure("run-failed", str(error), code=Exit.RUN_FAILED) from None

    def result(self) -> dict[str, Any]:
        """Return what ``--json`` says of this scenario."""
        if not self.plan.compare:
            return self._case_result(self.cases[0])
        return {
            "scenario": self.plan.name,
            "seed": self.seed,
            "backend": self.settings.backend,
            "out": str(self.out),
            "compare": [{"cc": case.controller, **self._case_result(case)} for case in self.cases],
        }

    def _case_result(self, case: Case) -> dict[str, Any]:
        runs = [case.runs[seed] for seed in sorted(case.runs)]
        if self.repeats > 1:
            result: dict[str, Any] = json.loads(_paceline.repeats_json([run.inner for run in runs]))
            # The median is what a bound is held against: one odd repeat does not move it.
            values = {name: m and m["median"] for name, m in result["metrics"].items()}
        else:
            result = dict(runs[0].summary)
            values = result["metrics"]
        if self.repeats > 1 and self.settings.backend == "emu":
            result["emulation"] = [run.emulation for run in runs]
        result["out"] = str(case.folder)
        result["engine"] = _engine(runs)
        result["expect"] = self.plan.evaluate(list(values.items()))
        return result

    def finish(self) -> dict[str, Any]:
        """Write what the runs say together and the reports; return what ``--json`` says."""
        result = self.result()
        try:
            if self.grouped:
                self.out.mkdir(parents=True, exist_ok=True)
                text = json.dumps(_without_engine(result), indent=2, ensure_ascii=False)
                (self.out / files.GROUP).write_text(text + "\n", encoding="utf-8")
            if self.settings.report:
                self._write_reports(result)
        except OSError as error:
            raise files.write_failure(self.out, error) from None
        return result

    def _write_reports(self, result: dict[str, Any]) -> None:
        reports = []
        for case in self.cases:
            for seed, run in sorted(case.runs.items()):
                reports.append(str(run.report(self._folder(case, seed) / "report.html")))
        result["reports"] = reports

    def show(self, result: dict[str, Any]) -> None:
        """Print the result for people."""
        if self.plan.compare:
            show_comparison(result)
        else:
            show_result(result)


def _engine(runs: Sequence[Run]) -> dict[str, int]:
    engines = [run.engine for run in runs if run.engine is not None]
    return {
        "wall_ns": sum(e.wall_ns for e in engines),
        "packets": sum(e.packets for e in engines),
        "events": sum(e.events for e in engines),
    }


def _without_engine(result: dict[str, Any]) -> dict[str, Any]:
    """Return the result without what differs from run to run, and without places."""
    clean = {k: v for k, v in result.items() if k not in ("engine", "out", "reports")}
    if "compare" in clean:
        clean["compare"] = [_without_engine(case) for case in clean["compare"]]
    return {"schema": console.SCHEMA, **clean}


def _distrusted(result: dict[str, Any]) -> list[str]:
    """Return why emulated runs are not to be trusted; nothing of those that are."""
    emulations = []
    for case in result.get("compare", [result]):
        emulation = case.get("emulation", [])
        emulations += emulation if isinstance(emulation, list) else [emulation]
    return [bound["message"] for emulation in emulations for bound in emulation["beyond"]]


def _held(result: dict[str, Any]) -> bool:
    cases = result.get("compare", [result])
    return all(outcome["held"] for case in cases for outcome in case["expect"])


def run_files(paths: Sequence[str], settings: Settings) -> Exit:
    """Run scenario files one after another."""
    # All of them are checked before the first is run.
    batches = [Batch(path, settings, below=len(paths) > 1) for path in paths]
    _distinct(batches)
    results: list[dict[str, Any]] = []
    for batch in batches:
        try:
            batch.execute()
        except KeyboardInterrupt:
            _tell_interrupted(batch, results, settings)
            return Exit.INTERRUPTED
        results.append(batch.finish())
        if not settings.as_json:
            batch.show(results[-1])
    if settings.as_json:
        console.say_json(results[0] if len(results) == 1 else {"runs": results})
    distrusted = [reason for result in results for reason in _distrusted(result)]
    if distrusted:
        console.say_distrust(distrusted)
        return Exit.RUN_FAILED
    return Exit.OK if all(map(_held, results)) else Exit.EXPECTATION_FAILED


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


def _tell_interrupted(batch: Batch, results: list[dict[str, Any]], settings: Settings) -> None:
    kept = [
        {"seed": seed, "cc": case.controller, "out": str(batch._folder(case, seed))}
        for case in batch.cases
        for seed in sorted(case.runs)
    ]
    message = f"interrupted; {len(kept)} finished runs are kept"
    if settings.as_json:
        error = Failure("interrupted", message, file=batch.path).as_json()
        console.say_json({"error": error, "finished": kept, "runs": results})
        return
    console.stderr().print(f"{message}{f' in {batch.out}' if kept else ''}", markup=False)
