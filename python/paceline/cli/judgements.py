"""Commands that judge controllers, claims and the machine: how each is called."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from paceline.cli.app import (
    Force,
    Jobs,
    Json,
    Memory,
    Quiet,
    app,
    at_most_repeats,
    examples,
    limit_memory,
    positive,
)
from paceline.cli.failure import Exit


@app.command(
    help_epilogue=examples(
        "evaluate bbr3 --out report", "evaluate bbr3 --quick", "evaluate cubic --against reno bbr3"
    )
)
def evaluate(
    controller: Annotated[str, Parameter(help="A controller.")],
    /,
    *,
    against: Annotated[
        list[str] | None,
        Parameter(negative="", consume_multiple=True, help="Set it beside these. Default: all."),
    ] = None,
    seeds: Annotated[
        int | None, Parameter(validator=at_most_repeats, help="Seeds of each scenario, from 1 on.")
    ] = None,
    quick: Annotated[
        bool, Parameter(negative="", help="A short form: fewer seeds and pairs, shorter runs.")
    ] = False,
    out: Annotated[
        Path | None, Parameter(help="Folder for a report: a page, the matrix and the figures.")
    ] = None,
    suite: Annotated[Path, Parameter(help="Folder of the criteria.")] = Path("evaluation"),
    scenarios: Annotated[Path, Parameter(help="Folder of the pairs' scenarios.")] = Path(
        "scenarios/evaluate"
    ),
    jobs: Jobs = None,
    memory: Memory = None,
    json: Json = False,
    quiet: Quiet = False,
) -> Exit:
    """Judge a controller by the criteria of RFC 9743 that a machine can check.

    It is also set beside every other: share, and harm by Ware et al. to goodput, delay and loss.
    Exit code 3 if a criterion is not met.
    """
    limit_memory(memory)
    from paceline.cli.evaluate import Settings, show

    settings = Settings(
        against or [], seeds, quick, out, suite, scenarios, jobs, as_json=json, quiet=quiet
    )
    return show(controller, settings)


@app.command(
    help_epilogue=examples("startup 2.77", "startup 2.78 --plot startup.png", "startup --find")
)
def startup(
    gain: Annotated[
        float | None, Parameter(negative="", help="A pacing gain, such as 2.77.")
    ] = None,
    /,
    *,
    find: Annotated[
        bool,
        Parameter(negative="", help="Find the least gain that doubles in rounds 10 to 15."),
    ] = False,
    rounds: Annotated[int, Parameter(validator=positive, help="Rounds, 20 at the most.")] = 15,
    plot: Annotated[Path | None, Parameter(help="Draw it into this .png or .svg file.")] = None,
    force: Force = False,
    json: Json = False,
) -> Exit:
    """Simulate BBR's start-up for a pacing gain, and derive the gains of Startup and Drain.

    The rows are those of Google's start-up simulator: the state at the first ACK of each round,
    in an ideal pipe of 100 ms. Without a gain, only the derivation is printed.
    """
    from paceline.cli.startup import show

    show(gain, find=find, rounds=rounds, plot=plot, force=force, as_json=json)
    return Exit.OK


@app.command(
    help_epilogue=examples(
        "conformance",
        "conformance 07b 16",
        "conformance --controller bbr3-linux",
        "conformance --traces DIR --json",
    )
)
def conformance(
    names: Annotated[
        list[str] | None,
        Parameter(negative="", help="Cases, by id or its beginning; all if none is given."),
    ] = None,
    /,
    *,
    traces: Annotated[
        Path | None,
        Parameter(help="Replay this folder's golden traces (in v1, v2, v3, cubic), and no more."),
    ] = None,
    cases: Annotated[
        Path | None, Parameter(help="Run the draft's cases of this folder, and no more.")
    ] = None,
    controller: Annotated[
        str | None, Parameter(help="Run the draft's cases with it. Default: bbr3.")
    ] = None,
    jobs: Jobs = None,
    memory: Memory = None,
    json: Json = False,
    quiet: Quiet = False,
) -> Exit:
    """Check BBR and CUBIC: golden traces of Linux, and the BBR draft's example test cases.

    A trace passes when every state field equals Linux's after every event; a case of the draft when
    each of its numbered steps holds in the record of its run, on every path it is tried on. What
    cannot hold is an expected fail, with its reason. Exit code 3 if one fails.
    """
    limit_memory(memory)
    from paceline.cli.conformance import DRAFT, GOLDEN, Settings, show

    folder = Path("conformance")
    only_draft = cases is not None or controller is not None
    settings = Settings(
        names=names or [],
        traces=[traces] if traces else [] if only_draft else [folder / name for name in GOLDEN],
        cases=cases or (None if traces and not only_draft else folder / DRAFT),
        controller=controller or "bbr3",
        jobs=jobs,
        as_json=json,
        quiet=quiet,
    )
    return show(settings)


@app.command(
    help_epilogue=examples(
        "claims", "claims B1 startup --seeds 20", "claims --list", "claims B4 --out report"
    )
)
def claims(
    names: Annotated[
        list[str] | None, Parameter(negative="", help="Ids or topics; all if none is given.")
    ] = None,
    /,
    *,
    list_: Annotated[
        bool, Parameter(name="--list", negative="", help="Show them without running them.")
    ] = False,
    seeds: Annotated[
        int | None, Parameter(validator=at_most_repeats, help="Seeds of each scenario, from 1 on.")
    ] = None,
    quick: Annotated[
        bool, Parameter(negative="", help="A short form of each: fewer seeds, shorter runs.")
    ] = False,
    out: Annotated[
        Path | None, Parameter(help="Folder for a report: a page, its pictures and the figures.")
    ] = None,
    claims: Annotated[Path, Parameter(name="--claims", help="Folder of claims.")] = Path("claims"),
    backend: Annotated[
        Literal["sim", "emu"],
        Parameter(help="Those that are simulated, or those that need kernel TCP in real time."),
    ] = "sim",
    jobs: Annotated[
        int | None,
        Parameter(
            validator=positive,
            help="Threads, and emulations at a time. Default: one, and four, for each core.",
        ),
    ] = None,
    memory: Memory = None,
    json: Json = False,
    quiet: Quiet = False,
) -> Exit:
    """Re-run published claims and print published | measured | verdict.

    Each figure comes with its 95 % interval over the seeds. All runs of all chosen claims go side
    by side; those in real time come last, as many at a time as their rates have room for, and one
    that is beyond its bounds is repeated, up to three times. A claim that is named by its id is
    run whatever the backend. Exit code 3 if a claim is not reproduced.
    """
    limit_memory(memory)
    from paceline.cli.claims import Settings, chosen, list_claims, run_claims

    found = chosen(names or [], claims, None if list_ else backend)
    if list_:
        return list_claims(found, as_json=json)
    return run_claims(found, Settings(seeds, quick, jobs, out, as_json=json, silent=quiet))


@app.command(help_epilogue=examples("doctor", "doctor --quick --json"))
def doctor(
    *,
    quick: Annotated[
        bool, Parameter(negative="", help="Do not try which rates this machine holds.")
    ] = False,
    json: Json = False,
) -> Exit:
    """Say what this machine can do for `run --backend emu`, and the command that fixes each gap.

    Unless it is quick, it emulates rising rates for two seconds each until one is not held within
    the usual bounds in any of three tries. Exit code 127 if nothing can be emulated here.
    """
    from paceline.cli.doctor import show

    return show(quick=quick, as_json=json)
