"""The reference pack: each reference as scenario, trace and picture, in a folder of its own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline import batch, exchange, guests, store
from paceline._paceline import __version__
from paceline.batch import Job, Watch, locally
from paceline.runs import Run, load
from paceline.study.conformance.reference import CONTROLLER, Reference, draft, settings

#: The description of the pack, and of each of its folders.
INDEX = "index.json"
MANIFEST = "manifest.json"
README = "README.md"


@dataclass(frozen=True)
class Entry:
    """A reference in a pack."""

    reference: Reference
    seed: int
    #: The hash of each file of its folder.
    files: dict[str, str]

    def as_json(self) -> dict[str, Any]:
        """Return its entry in the index."""
        one = self.reference
        head = {"id": one.id, "about": one.about, "section": one.section, "seed": self.seed}
        return {**head, "files": self.files}


def write(
    references: Sequence[Reference],
    place: Path,
    *,
    picture: str = "svg",
    packets: bool = False,
    dialect: str = "current",
    threads: int | None = None,
    watch: Watch | None = None,
) -> list[Entry]:
    """Run references and write them as a folder: all of it, or nothing.

    The same references give the same bytes each time. Raises `StoreError` if the folder exists.
    """
    store.check(place, force=None)
    given = settings(packets=packets)
    jobs = []
    for one in references:
        text, file = load(one.scenario)
        plan = guests.check(text, file, given)
        jobs.append(Job(text, given, plan.seed, "sim", file, plan.duration_ns))
    entries: dict[int, Entry] = {}
    with store.writing(place) as fresh:
        fresh.mkdir()

        def keep(number: int, job: Job, run: Run) -> None:
            one = references[number]
            files = _files(run, job.text, fresh / one.id, picture, dialect)
            entries[number] = entry = Entry(one, job.seed, files)
            manifest = {**_head(), **entry.as_json(), "settings": dict(job.overrides)}
            _json(fresh / one.id / MANIFEST, manifest)

        batch.execute(jobs, keep, executor=locally(threads), watch=watch)
        ordered = [entries[number] for number in range(len(references))]
        _json(fresh / INDEX, {**_head(), "references": [entry.as_json() for entry in ordered]})
        (fresh / README).write_text(_readme(ordered, picture), encoding="utf-8")
    return ordered


def _files(run: Run, text: str, folder: Path, picture: str, dialect: str) -> dict[str, str]:
    """Write the files of a reference, and return their hashes."""
    from paceline.show import figure

    folder.mkdir()
    scenario, drawn = folder / "scenario.toml", folder / f"picture.{picture}"
    scenario.write_text(text, encoding="utf-8", newline="\n")
    figure.write(figure.draw(run), drawn, picture)
    qlog = exchange.EXPORTS["qlog"]
    # In the dialect 0.3 all flows are in one file.
    place = folder if dialect == "current" else folder / qlog.place_of(dialect)
    traces = qlog.write([run], place, None, dialect)
    return {path.name: store.digest(path) for path in (scenario, *traces, drawn)}


def _head() -> dict[str, str]:
    return {"draft": draft(), "paceline": __version__, "controller": CONTROLLER}


def _json(place: Path, value: object) -> None:
    place.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _readme(entries: Sequence[Entry], picture: str) -> str:
    rows = [
        f"| [{one.id}]({one.id}/picture.{picture}) | {one.section or 'baseline'} | {one.about} |\n"
        for one in (entry.reference for entry in entries)
    ]
    return f"""\
# Reference traces of {draft()}

Made by `paceline reference export` of Paceline {__version__}. Each folder has the scenario of a
case, the trace of each of its flows as qlog, a picture, and `{MANIFEST}` with the
seed and the hash of each file. All flows use `{CONTROLLER}`, the BBR of the draft. The traces are
simulated, so every export gives the same bytes.

To compare your own sender, send bulk data over the path of `scenario.toml` and log qlog. Then:

    paceline import mine.sqlog --out mine
    paceline compare mine reference:{entries[0].reference.id}

| case | section of the draft | what the trace shows |
|---|---|---|
{"".join(rows)}"""
