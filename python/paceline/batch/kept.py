"""The runs of a scenario in a folder: its repeats, and its controllers if it compares some."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paceline import _paceline, guests, store
from paceline.batch.emulated import Room
from paceline.batch.job import Job, Task
from paceline.batch.locally import locally
from paceline.batch.work import Bar, Watch, execute, in_notebook
from paceline.errors import MemoryLimitError, NotARunError, ScenarioError, StoreError, within
from paceline.runs import Overrides, Run, Scenario, load, pairs
from paceline.statistics import together

#: Version of the summary of several runs.
SCHEMA = 1
#: The report of a run, in its folder.
_REPORT = "report.html"


@dataclass
class Case:
    """One case of a scenario: as it is, or with one controller of a comparison."""

    folder: Path
    overrides: tuple[tuple[str, str], ...]
    plan: _paceline.CheckedScenario
    controller: str | None = None
    #: The runs by seed, without their tables, which are in their folders.
    runs: dict[int, Run] = field(default_factory=dict)


class Batch:
    """The runs of a scenario: one for each seed, and for each controller of its `compare`.

    They are kept in a folder. A run that it already has is read and not run again, and nothing is
    overwritten. Raises `ScenarioError` for a scenario that cannot be run.

    `Batch(scenario, *, name, seed, repeats, overrides, backend, report, force)`: the scenario is a
    path or TOML text; with `name`, it is text of that name in errors. The seeds count up from
    `seed`; by default, the scenario says both numbers. With `report`, each run has a report in its
    folder. With `force`, existing runs are run again, and their bytes are compared.

    >>> batch = Batch("scenario.toml", repeats=10)  # doctest: +SKIP
    >>> batch.run("runs/ten")["metrics"]["goodput_bps"]["mean"]  # doctest: +SKIP
    """

    def __init__(
        self,
        scenario: Scenario,
        *,
        name: str | None = None,
        seed: int | None = None,
        repeats: int | None = None,
        overrides: Overrides = (),
        backend: _paceline.Backend = "sim",
        report: bool = False,
        force: bool = False,
    ) -> None:
        within("seed", seed, 0, 2**63 - 1)
        within("repeats", repeats, 1, 100_000)
        self.text, self.file = load(scenario) if name is None else (str(scenario), name)
        self.overrides = pairs(overrides)
        self.backend = backend
        self.report = report
        self.force = force
        self.plan = self._plan(self.overrides)
        self.seed = self.plan.seed if seed is None else seed
        self.repeats = repeats or self.plan.repeats
        self.seeds = range(self.seed, self.seed + self.repeats)
        #: How many runs there are when all are done.
        self.count = self.repeats * max(len(self.plan.compare), 1)
        #: Whether there is more than one run.
        self.grouped = self.repeats > 1 or bool(self.plan.compare)
        #: How many of the runs already existed.
        self.reused = 0
        #: The partial record of a run that did not reach its end.
        self.broken: Path | None = None
        self.out = Path()
        self.cases: list[Case] = []
        #: Whether something of this batch already existed.
        self.there = False
        #: The runs that came out with other bytes than the existing ones.
        self._differing: list[str] = []
        #: Digests of the traces, which the cases share.
        self._inputs = [store.digest(Path(trace)) for trace in self.plan.traces]
        if backend == "vm":
            # The kernel's behaviour depends on the snapshot.
            self._inputs += [image["hash"] for image in json.loads(_paceline.vm_images())[:1]]

    def run(
        self, out: str | os.PathLike[str] | None = None, *, threads: int | None = None
    ) -> dict[str, Any]:
        """Do all of it, and return the results: the object that `paceline run --json` prints."""
        within("threads", threads, 1, 2**16)
        self.claim(out)
        self.execute(threads=threads)
        return self.finish()

    def _plan(self, overrides: tuple[tuple[str, str], ...]) -> _paceline.CheckedScenario:
        return guests.check(self.text, self.file, overrides, backend=self.backend)

    def _key(self, plan: _paceline.CheckedScenario, seeds: Sequence[int]) -> str:
        return store.key([plan.toml, list(seeds)], self.backend, self._inputs)

    def claim(self, out: str | os.PathLike[str] | None = None, *, below: bool = False) -> None:
        """Choose the folder, by default one below `runs`, and read the runs that it already has.

        With `below`, it is a folder of its own below `out`. Raises `StoreError` for a folder with
        anything else.
        """
        kind = "runs" if self.grouped else "run"
        key = self._key(self.plan, self.seeds)
        anew = self.backend == "emu"
        if out is None:
            seeds = f"{self.seed}to{self.seeds[-1]}" if self.repeats > 1 else str(self.seed)
            what = f"{self.plan.name}-compare" if self.plan.compare else self.plan.name
            name = store.run_name(what, self._settings(), seeds, key)
            self.out, self.there = store.find(Path("runs") / name, kind, key, anew=anew)
        else:
            name = f"{store.readable(self.plan.name)}-{self.seed}"
            self.out = Path(out) / name if below else Path(out)
            self.there = store.claim(self.out, kind, key)
            if anew and self.there and store.is_complete(self.out):
                message = f"{self.out} holds an emulated run, which cannot be reproduced"
                hint = "choose another folder with --out"
                raise StoreError("not-a-run", message, hint=hint, file=str(self.out))
        self.reused, self.broken, self._differing = 0, None, []
        self.cases = list(self._cases())
        if self.there:
            self._recall()

    def _settings(self) -> list[tuple[str, str]]:
        """Return the overrides that change the scenario."""

        def changes(nth: int) -> bool:
            others = self.overrides[:nth] + self.overrides[nth + 1 :]
            try:
                plan = guests.check(self.text, self.file, others, sweep=False)
            except ScenarioError:
                return True
            return plan.toml != self.plan.toml

        return [pair for nth, pair in enumerate(self.overrides) if changes(nth)]

    def _cases(self) -> Iterator[Case]:
        if not self.plan.compare:
            yield Case(self.out, self.overrides, self.plan)
        for cc in self.plan.compare:
            given = tuple((f"flows.{n}.cc", cc) for n in range(self.plan.flow_groups))
            overrides = self.overrides + given
            yield Case(self.out / store.readable(cc), overrides, self._plan(overrides), cc)

    def folder(self, case: Case, seed: int) -> Path:
        """Return the folder of a run."""
        return case.folder / f"seed-{seed}" if self.repeats > 1 else case.folder

    def _recall(self) -> None:
        """Read the existing runs, or check that they are what was run."""
        for case in self.cases:
            for seed in self.seeds:
                folder = self.folder(case, seed)
                if not store.claim(folder, "run", self._key(case.plan, [seed])):
                    continue
                if self.report:
                    store.check(folder / _REPORT)
                if self.force and self.backend != "emu":
                    continue
                try:
                    case.runs[seed] = Run.read(folder).measured()
                except (MemoryLimitError, NotARunError) as error:
                    kind = "memory" if isinstance(error, MemoryLimitError) else "not-a-run"
                    message = str(error)
                    if kind == "not-a-run" and str(folder) not in message:
                        message = f"{folder}: {message}"
                    hint = f"remove {folder}, or run with --force to write another one next to it"
                    raise StoreError(kind, message, hint=hint, file=str(folder)) from None
                self.reused += 1

    def execute(
        self,
        *,
        threads: int | None = None,
        watch: Watch | None = None,
        begun: Callable[[], object] | None = None,
    ) -> None:
        """Run everything that is missing, and write each run as soon as it has ended.

        `begun` is called before the first run, when the parts of killed runs are recovered. Raises
        `RunError` for a run that stops early, and `StoreError` for one that gives other bytes.
        """
        if self.reused < self.count:
            self._execute(threads, watch, begun)
        if self._differing:
            message = f"the same run gave different bytes: {'; '.join(self._differing)}"
            hint = "the older run was modified, or the engine is not deterministic"
            raise StoreError("differs", message, hint=hint, file=str(self.out), failed=True)

    def _execute(
        self, threads: int | None, watch: Watch | None, begun: Callable[[], object] | None
    ) -> None:
        if self.grouped:
            store.begin(self.out, "runs", self._key(self.plan, self.seeds), [store.GROUP])
        if watch is None and in_notebook():
            watch = Bar(self.plan.name, self.count - self.reused)
        with store.streaming(self.out) as stream:
            if begun is not None:
                begun()
            execute(
                (job._replace(stream=stream(place)) for place, job in self._jobs()),
                self._keep,
                executor=locally(threads),
                watch=watch,
                total_ns=sum(job.duration_ns for _, job in self._jobs()),
                room=Room.alone(),
                distrusted="keep",
                broken=self._keep_broken,
            )

    def _jobs(self) -> Iterator[tuple[Path, Job]]:
        """Yield the missing runs and their folders, on demand."""
        for case in self.cases:
            length = case.plan.duration_ns
            for seed in self.seeds:
                if seed not in case.runs:
                    job = Job(self.text, case.overrides, seed, self.backend, self.file, length)
                    yield self.folder(case, seed), job

    def _of(self, job: Job) -> tuple[Case, Path]:
        """Return the case of a job, and its folder."""
        case = next(case for case in self.cases if case.overrides == job.overrides)
        return case, self.folder(case, job.seed)

    def _keep(self, _: int, job: Job, run: Run) -> None:
        case, place = self._of(job)

        def write(folder: Path) -> None:
            run.inner.write(folder)
            if self.report:
                run.report(folder / _REPORT)

        inside = place.relative_to(self.out)
        rivals = (root / inside for root in store.numbered(self.out, 2))
        where, other = store.keep(place, write, self._key(case.plan, [job.seed]), rivals)
        if other and self.backend != "emu":
            self._differing.append(f"{', '.join(other)} of {place} differs from {where}")
        if not self.grouped:
            case.folder = where
        case.runs[job.seed] = run.measured()
        if job.stream is not None:
            Path(job.stream).unlink(missing_ok=True)

    def _keep_broken(self, task: Task, run: Run) -> None:
        """Keep the partial run that a user-defined controller has ended."""
        part = store.incomplete(self._of(task.job)[1])
        # That of an earlier attempt, if it is unchanged.
        with suppress(StoreError):
            store.delete(part)
        self.broken, _ = store.keep(part, run.inner.write, rivals=store.numbered(part, 2))

    def _result(self) -> dict[str, Any]:
        reused = {"reused": True} if self.reused == self.count else {}
        if not self.plan.compare:
            return self._case_result(self.cases[0]) | reused
        return {
            "scenario": self.plan.name,
            "seed": self.seed,
            "backend": self.backend,
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
            notes = [f"Seed {run.seed}: {n}" for run in runs for n in run.summary.get("notes", [])]
            result |= {"notes": notes} if notes else {}
        else:
            result = dict(runs[0].summary)
            values = result["metrics"]
        if self.repeats > 1 and self.backend == "emu":
            result["emulation"] = [run.emulation for run in runs]
        engines = [run.engine for run in runs if run.engine is not None]
        result["out"] = str(case.folder)
        result["engine"] = {
            key: sum(getattr(engine, key) for engine in engines)
            for key in ("wall_ns", "packets", "events")
        }
        result["expect"] = self.plan.evaluate(list(values.items()))
        return result

    def finish(self, *, digests: bool = True) -> dict[str, Any]:
        """Write the summary of the runs, and the reports of existing runs; return the summary.

        With `digests`, the summary has those of the runs, whose tables are read for them.
        """
        result = self._result()
        if self.grouped and not (self.out / store.GROUP).exists():
            text = json.dumps(_reproducible(result), indent=2, ensure_ascii=False)
            store.replace(self.out / store.GROUP, text + "\n")
        if self.report:
            result["reports"] = [str(path) for path in self._reports()]
        if digests:
            for case, of_case in zip(self.cases, result.get("compare", [result]), strict=True):
                of_case["digests"] = [
                    Run.read(self.folder(case, seed)).digest for seed in sorted(case.runs)
                ]
        return result

    def _reports(self) -> Iterator[Path]:
        for case in self.cases:
            for seed in sorted(case.runs):
                path = self.folder(case, seed) / _REPORT
                if not path.exists():
                    run = Run.read(path.parent)
                    with store.writing(path) as fresh:
                        run.report(fresh)
                yield path


def _reproducible(result: dict[str, Any]) -> dict[str, Any]:
    """Return the result without the parts that differ from run to run, and without paths."""
    clean = {k: v for k, v in result.items() if k not in ("engine", "out", "reports", "reused")}
    if "compare" in clean:
        clean["compare"] = [_reproducible(case) for case in clean["compare"]]
    return {"schema": SCHEMA, **clean}
