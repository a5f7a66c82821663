"""``paceline reference``: the BBR of the draft on known paths, as traces to compare with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from paceline import answers
from paceline.cli import console, files
from paceline.cli.app import Hushed, Image, Jobs, Json, Memory, Quiet, examples, part, parted
from paceline.study.conformance import pack
from paceline.study.conformance.reference import draft


@Parameter(name="*")
@dataclass(frozen=True)
class Options:
    """The options of `export`."""

    out: Path | None = None
    """The folder to write. Default: the draft's name and number."""
    format: Image = "svg"
    """Format of the pictures."""
    packets: bool = False
    """Also write every packet and ACK to the traces, which are then many times larger. qvis and
    `paceline import` need the packets."""
    qlog_dialect: Literal["current", "0.3"] = "current"
    """Version of qlog's event names; qvis needs 0.3."""
    jobs: Jobs = None
    memory: Memory = None
    json: Json = False
    quiet: Quiet = False


Cases = Annotated[
    list[str] | None, Parameter(help="Ids of references, or prefixes of ids. Default: all.")
]


@parted(
    help_epilogue=examples(
        "reference list",
        "reference export",
        "reference export b1 b2 03 --out traces",
        "reference export b1 --packets --qlog-dialect 0.3 --format png",
        "compare runs/mine reference:b1",
    )
)
def reference() -> None:
    """List or write reference traces, on known paths, of BBR as specified in draft-ietf-ccwg-bbr.

    The references are the example test cases of the BBR draft, and six baseline scenarios of
    Paceline's own (`b1` to `b6`). `paceline compare` accepts a reference, written as
    `reference:CASE`, in place of a run.
    """


@part(reference, "list")
def list_(cases: Cases = None, /, *, json: Json = False, _quiet: Hushed = False) -> None:
    """List the references, and what the trace of each shows."""
    references = files.references(cases or ())
    answer: answers.References = {
        "draft": draft(),
        "references": [
            {"id": one.id, "about": one.about, "section": one.section, "path": str(one.scenario)}
            for one in references
        ],
    }
    table = console.table("Case", "Section", "What its trace shows", left=3)
    for one in references:
        table.add_row(one.id, (one.section or "baseline").partition(",")[0], one.about)
    where = references[0].scenario.with_name("CASE.toml")
    count = f"{len(references)} reference{'s' * (len(references) > 1)}"
    console.answer(answer, table, f"{count} of {draft()}, in {where}")


@part(reference)
def export(cases: Cases = None, /, *, options: Options = Options()) -> None:
    """Run references with `bbr3`, and write a folder for each.

    Each folder contains the scenario, the trace of each flow as qlog, a picture, and a manifest
    with the draft's number, the seed and the hash of each file. An index is written next to the
    folders. Repeated exports are byte-identical.
    """
    place = options.out or Path(draft())
    references = files.references(cases or ())
    with console.progress("reference", len(references)) as watch:
        entries = pack.write(
            references,
            place,
            picture=options.format,
            packets=options.packets,
            dialect=options.qlog_dialect,
            threads=options.jobs,
            watch=watch,
        )
    answer: answers.ReferencePack = {
        "draft": draft(),
        "out": str(place),
        "references": [
            {"id": entry.reference.id, "seed": entry.seed, "files": entry.files}
            for entry in entries
        ],
    }
    names = [*(entry.reference.id for entry in entries), pack.README]
    console.answer(answer, *(str(place / name) for name in names))
