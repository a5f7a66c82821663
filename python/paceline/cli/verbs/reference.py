"""``paceline reference``: the BBR of the draft on known paths, as traces to compare with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from paceline import answers
from paceline.cli import console, references
from paceline.cli.app import (
    Hushed,
    Image,
    Jobs,
    Json,
    Memory,
    Quiet,
    examples,
    limit_memory,
    part,
    parted,
)
from paceline.cli.failure import Exit
from paceline.study.conformance import pack
from paceline.study.conformance.reference import Reference, draft


@Parameter(name="*")
@dataclass(frozen=True)
class Options:
    """The options of `export`."""

    out: Annotated[
        Path | None,
        Parameter(help="The folder to write. Default: the draft's name and number."),
    ] = None
    format: Annotated[Image, Parameter(help="Format of the pictures.")] = "svg"
    packets: Annotated[
        bool,
        Parameter(
            negative="",
            help="Also write every packet and ACK to the traces, which are then many times larger. "
            "qvis and `import` need the packets.",
        ),
    ] = False
    qlog_dialect: Annotated[
        Literal["current", "0.3"],
        Parameter(help="Version of qlog's event names; qvis needs 0.3."),
    ] = "current"
    jobs: Jobs = None
    memory: Memory = None
    json: Json = False
    quiet: Quiet = False


Cases = Annotated[
    list[str] | None,
    Parameter(negative="", help="References, by id or prefix. Default: all."),
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
    """List or write the reference traces: what the BBR of the draft does on a known path.

    The references are the example test cases of the BBR draft, and six baselines (`b1` to `b6`).
    `compare` takes a reference in place of a run, as `reference:CASE`.
    """


@part(reference, "list")
def list_(cases: Cases = None, /, *, json: Json = False, _quiet: Hushed = False) -> Exit:
    """List the references, and what the trace of each shows."""
    return _list(references.chosen(cases or ()), json=json)


@part(reference)
def export(cases: Cases = None, /, *, options: Options = Options()) -> Exit:
    """Run references with `bbr3`, and write a folder of each.

    Each folder holds the scenario, the trace of each flow as qlog, a picture, and a manifest with
    the draft's number, the seed and the hash of each file. Beside the folders is an index. Every
    export gives the same bytes.
    """
    limit_memory(options.memory)
    return _export(references.chosen(cases or ()), options)


def _list(chosen: Sequence[Reference], *, json: bool) -> Exit:
    if json:
        answer: answers.References = {
            "draft": draft(),
            "references": [
                {
                    "id": one.id,
                    "about": one.about,
                    "section": one.section,
                    "path": str(one.scenario),
                }
                for one in chosen
            ],
        }
        console.say_json(answer)
        return Exit.OK
    table = console.table("Case", "Section", "What its trace shows", left=3)
    for one in chosen:
        table.add_row(one.id, (one.section or "baseline").partition(",")[0], one.about)
    out = console.stdout()
    out.print(table)
    where = chosen[0].scenario.with_name("CASE.toml")
    count = f"{len(chosen)} reference{'s' * (len(chosen) > 1)}"
    out.print(f"{count} of {draft()}, in {where}", soft_wrap=True)
    return Exit.OK


def _export(chosen: Sequence[Reference], options: Options) -> Exit:
    place = options.out or Path(draft())
    bars = console.progress("reference", len(chosen), quiet=options.quiet)
    with references.explained(), bars as watch:
        found = pack.write(
            chosen,
            place,
            picture=options.format,
            packets=options.packets,
            dialect=options.qlog_dialect,
            threads=options.jobs,
            watch=watch,
        )
    if options.json:
        answer: answers.ReferencePack = {
            "draft": draft(),
            "out": str(place),
            "references": [
                {"id": entry.reference.id, "seed": entry.seed, "files": entry.files}
                for entry in found
            ],
        }
        console.say_json(answer)
    else:
        for entry in found:
            console.stdout().print(str(place / entry.reference.id), soft_wrap=True)
        console.stdout().print(str(place / pack.README), soft_wrap=True)
    return Exit.OK
