"""Commands that take scenarios and runs: how each is called."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from paceline.cli import console, files, listing
from paceline.cli.app import (
    Force,
    Jobs,
    Json,
    Memory,
    Quiet,
    Set,
    app,
    at_most_repeats,
    examples,
    limit_memory,
    not_negative,
    positive,
)
from paceline.cli.failure import Exit
from paceline.serve import limits


def _seed(_: object, value: int | None) -> None:
    if value is not None and not 0 <= value < 2**63:
        raise ValueError("must be from 0 to 2^63 - 1.")


@app.command(
    help_epilogue=examples(
        "run scenarios/bbr3/four-flows-50M-40ms-1bdp.toml --report",
        "run FILE --repeats 10 --json",
        'run FILE --set path.queue.size="4 bdp" --set flows.0.cc=cubic',
        "run FILE --backend emu",
    )
)
def run(
    file: Annotated[list[str], Parameter(negative="", help="Scenario files.")],
    /,
    *,
    backend: Annotated[
        Literal["sim", "emu"],
        Parameter(help="Virtual time, or real time with the kernel's TCP (Linux)."),
    ] = "sim",
    seed: Annotated[
        int | None, Parameter(validator=_seed, help="Seed; the scenario's if not given.")
    ] = None,
    repeats: Annotated[
        int | None,
        Parameter(validator=at_most_repeats, help="Run with this many seeds, from the seed on."),
    ] = None,
    out: Annotated[
        Path | None,
        Parameter(help="Folder for the run. Default: runs/NAME+SETTINGS-SEED-HASH."),
    ] = None,
    set_: Set = None,
    jobs: Jobs = None,
    memory: Memory = None,
    report: Annotated[bool, Parameter(help="Write report.html into the run's folder.")] = False,
    force: Annotated[
        bool, Parameter(negative="", help="Run again what is there, and compare the bytes.")
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> Exit:
    """Run scenarios, print what was measured, and keep every table.

    With `--repeats` the seeds run side by side and each metric comes with its mean, median and
    95 % interval. With `--backend emu` they run one after another, as an emulated path is run in
    real time, and a run beyond the bounds of `[run.emulation]` is kept and ends in exit code 1.
    A scenario with `compare` in `[run]` is run once for each of those controllers.

    The name of a run's folder ends in a hash of all that decides its bytes. A run that is there
    already is shown and not run again; after Ctrl-C the same command runs those that are missing.
    Nothing is replaced.
    """
    limit_memory(memory)
    from paceline.cli.run import Settings, run_files

    settings = Settings(
        seed=seed,
        repeats=repeats,
        out=out,
        overrides=tuple(files.parse_overrides(set_ or [])),
        as_json=json,
        quiet=quiet,
        report=report,
        force=force,
        jobs=jobs,
        backend=backend,
    )
    return run_files(file, settings)


@app.command(
    help_epilogue=examples(
        "check scenarios/bbr3/four-flows-50M-40ms-1bdp.toml",
        'check FILE --set run.duration="5 s" > resolved.toml',
    )
)
def check(
    file: Annotated[str, Parameter(help="A scenario file.")],
    /,
    *,
    set_: Set = None,
    memory: Memory = None,
    json: Json = False,
) -> Exit:
    """Check a scenario, print it with every default written, and say what memory a run takes.

    That is an estimate, from what it takes if its flows get as far as sending to what it takes if
    its links are full all the time.
    """
    limit_memory(memory)
    plan = files.plan(files.read_scenario(file), file, files.parse_overrides(set_ or []))
    if json:
        import tomllib

        value = {"name": plan.name, "file": file, "resolved": tomllib.loads(plan.toml)}
        takes = files.memory_of(plan, file)
        console.say_json({**value, "toml": plan.toml, "sweep": plan.sweep, "memory": takes})
    else:
        files.tell_memory(plan, file, always=True)
        files.tell_sweep(plan, file)
        console.say_file(plan.toml)
    return Exit.OK


@app.command(
    name="list",
    help_epilogue=examples(
        "list controllers",
        "list controllers bbr3",
        "list metrics convergence_ns",
    ),
)
def list_(
    what: Annotated[
        listing.What | None, Parameter(show_choices=False, help=" | ".join(listing.LISTS))
    ] = None,
    name: Annotated[str | None, Parameter(help="One of them, in detail.")] = None,
    /,
    *,
    json: Json = False,
) -> Exit:
    """List what there is: controllers and their options, metrics and their definitions, ..."""
    listing.show(what, name, as_json=json)
    return Exit.OK


@app.command(
    help_epilogue=examples(
        "report runs/NAME",
        "report runs/NAME --format svg --out figure-3.svg",
    )
)
def report(
    run: Annotated[str, Parameter(help="A run's folder.")],
    /,
    *,
    format: Annotated[  # noqa: A002
        Literal["html", "png", "svg", "pdf"], Parameter(help="One page, or figures for paper.")
    ] = "html",
    out: Annotated[
        Path | None, Parameter(help="File to write. Default: report.FORMAT in the run's folder.")
    ] = None,
    flow: Annotated[
        int | None, Parameter(help="The flow of the detailed panels of a figure.")
    ] = None,
    memory: Memory = None,
    force: Force = False,
    json: Json = False,
) -> Exit:
    """Write the report of a run: one self-contained HTML page, or the same plots as a figure.

    The page opens from disk, without a network. Figures are the same bytes every time.
    """
    limit_memory(memory)
    from paceline.report import write

    place = out or Path(run) / f"report.{format}"
    path = write(files.read_run(run), place, format, flow, force=force)
    if json:
        console.say_json({"report": str(path), "format": format})
    else:
        console.stdout().print(str(path), soft_wrap=True)
    return Exit.OK


@app.command(
    help_epilogue=examples(
        "sequence runs/NAME",
        "sequence runs/ONE runs/OTHER --rounds 5 --format svg",
        'sequence runs/NAME --flow 0 --from "1.2 s" --to "1.4 s"',
    )
)
def sequence(
    run: Annotated[list[str], Parameter(negative="", help="Folders of runs.")],
    /,
    *,
    format: Annotated[  # noqa: A002
        Literal["png", "svg", "pdf"], Parameter(help="What to write.")
    ] = "png",
    out: Annotated[
        Path | None,
        Parameter(help="File to write. Default: sequence.FORMAT in the first run's folder."),
    ] = None,
    flow: Annotated[
        int | None, Parameter(validator=not_negative, help="Only this flow of each run.")
    ] = None,
    from_: Annotated[
        str | None, Parameter(name="--from", help='Where to begin, such as "1.2 s".')
    ] = None,
    to: Annotated[str | None, Parameter(help='Where to end, such as "1.4 s".')] = None,
    rounds: Annotated[
        int | None,
        Parameter(validator=positive, help="End with this round trip of the slowest flow."),
    ] = None,
    title: Annotated[str | None, Parameter(help="Title. Default: the run's name.")] = None,
    memory: Memory = None,
    force: Force = False,
    json: Json = False,
) -> Exit:
    """Draw a time-sequence diagram: each packet, each ACK, the receive window, over time.

    Transmits are thick, ACKs thin, the receive window grey; retransmits, losses and SACK blocks
    are marked. Several runs are laid over each other. It needs a record of the packets:
    `record.packets = true` in `[run]`.
    """
    limit_memory(memory)
    from paceline.cli.sequence import Settings, show

    show(run, Settings(format, out, flow, from_, to, rounds, title, force, json))
    return Exit.OK


@app.command(
    help_epilogue=examples(
        "export runs/NAME --format pcapng",
        "export runs/NAME --format qlog --qlog-dialect 0.3",
        "export runs/ONE runs/OTHER --format xplot --out both.xpl",
    )
)
def export(
    run: Annotated[list[str], Parameter(negative="", help="A run's folder; several for xplot.")],
    /,
    *,
    format: Annotated[  # noqa: A002
        Literal["csv", "qlog", "pcapng", "xplot", "flent"], Parameter(help="What to write.")
    ],
    out: Annotated[
        Path | None,
        Parameter(help="File, or folder for csv and qlog. Default: in the run's folder."),
    ] = None,
    flow: Annotated[
        int | None, Parameter(validator=not_negative, help="Only this flow of each run.")
    ] = None,
    qlog_dialect: Annotated[
        Literal["current", "0.3"], Parameter(help="Names of qlog's events; 0.3 is for qvis.")
    ] = "current",
    memory: Memory = None,
    force: Force = False,
    json: Json = False,
) -> Exit:
    """Write a run as files of other programs: tables, qlog, a packet capture, xplot, Flent.

    pcapng and xplot need a record of the packets: `record.packets = true` in `[run]`.
    """
    limit_memory(memory)
    from paceline.cli.export import Settings, show

    show(run, Settings(format, out, flow, qlog_dialect, force, json))
    return Exit.OK


@app.command(
    help_epilogue=examples(
        "sweep scenarios/sweeps/buffers.toml",
        "sweep FILE --engine ray --address 127.0.0.1:6379",
        'sweep FILE --set run.duration="5 s" --metric jain_ratio --metric queue_p95_ns',
    )
)
def sweep(
    file: Annotated[str, Parameter(help="A scenario file with a [sweep].")],
    /,
    *,
    out: Annotated[
        Path | None, Parameter(help="Folder for the sweep. Default: runs/NAME+SETTINGS-sweep.")
    ] = None,
    set_: Set = None,
    metric: Annotated[
        list[str] | None,
        Parameter(negative="", help="A metric to compare and draw; the first decides the best."),
    ] = None,
    table: Annotated[
        list[Literal["samples", "queue", "events", "packets"]] | None,
        Parameter(negative="", help="A table of each run to keep beside the metrics."),
    ] = None,
    engine: Annotated[
        Literal["threads", "ray"], Parameter(help="Who runs: threads here, or a Ray cluster.")
    ] = "threads",
    address: Annotated[
        str | None, Parameter(help="The Ray cluster. Default: one is started on this machine.")
    ] = None,
    jobs: Jobs = None,
    memory: Memory = None,
    format: Annotated[  # noqa: A002
        Literal["png", "svg", "pdf"], Parameter(help="Form of the pictures.")
    ] = "png",
    fresh: Annotated[
        bool, Parameter(negative="", help="Begin anew, and give up the sweep in the folder.")
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> Exit:
    """Run a grid of parameters in parallel: the [sweep] of a scenario.

    After Ctrl-C or a crash the same command goes on where it stopped. What is written is one
    Parquet data set and a picture of each metric, the same bytes whoever ran it.
    """
    limit_memory(memory)
    from paceline.cli.sweep import Settings, run_sweep

    settings = Settings(
        out=out,
        overrides=files.parse_overrides(set_ or []),
        metrics=metric or [],
        tables=list(table or []),
        engine=engine,
        address=address,
        jobs=jobs,
        format=format,
        fresh=fresh,
        as_json=json,
        quiet=quiet,
    )
    return run_sweep(file, settings)


def _tolerance(_: object, value: float) -> None:
    if not 0 <= value < 100:
        raise ValueError("must be from 0 to 100.")


@app.command(
    help_epilogue=examples(
        "compare runs/before runs/after",
        "compare runs/before-sweep runs/after-sweep --metric goodput_bps --markdown",
    )
)
def compare(
    old: Annotated[str, Parameter(help="A folder: a run, repeats of one, or a sweep.")],
    new: Annotated[str, Parameter(help="What is held against it.")],
    /,
    *,
    metric: Annotated[
        list[str] | None, Parameter(negative="", help="Only these metrics. Default: all.")
    ] = None,
    tolerance: Annotated[
        float, Parameter(validator=_tolerance, help="Per cent of the old value that do not count.")
    ] = 1.0,
    correction: Annotated[
        Literal["holm", "bh"],
        Parameter(help="For testing many at once: no false alarm (holm), or few of them (bh)."),
    ] = "holm",
    all_: Annotated[
        bool, Parameter(name="--all", negative="", help="Show what is the same, too.")
    ] = False,
    markdown: Annotated[bool, Parameter(negative="", help="For a pull request.")] = False,
    memory: Memory = None,
    json: Json = False,
) -> Exit:
    """Hold one result against another: same, better or worse, and how sure.

    Values of the same seeds are compared pair by pair. Exit code 4 if something is worse.
    """
    limit_memory(memory)
    from paceline.cli.compare import Settings, show

    return show(old, new, Settings(metric or [], tolerance / 100, correction, all_, markdown, json))


@app.command(
    name="import",
    help_epilogue=examples(
        "import 4bbr2_50M_40ms_BDP.py > four-flows.toml",
        "import sample.py --out scenarios/mine",
        'import verizon.trace --rtt "40 ms" --queue "300 packets" --cc bbr3',
    ),
)
def import_(
    file: Annotated[str, Parameter(help="A transperf configuration or a mahimahi trace.")],
    /,
    *,
    format: Annotated[  # noqa: A002
        Literal["auto", "transperf", "mahimahi"], Parameter(help="What the file is.")
    ] = "auto",
    out: Annotated[
        Path | None, Parameter(help="A scenario file (.toml) or a folder. Default: stdout.")
    ] = None,
    rtt: Annotated[str | None, Parameter(help="Round-trip time over a trace.")] = None,
    queue: Annotated[str | None, Parameter(help="Size of the queue before a trace.")] = None,
    cc: Annotated[str, Parameter(help="Controller of the flow over a trace.")] = "bbr3",
    ignore_commands: Annotated[
        bool, Parameter(negative="", help="Leave out what transperf would run as root.")
    ] = False,
    force: Force = False,
    json: Json = False,
) -> Exit:
    """Turn an experiment of another tool into a scenario.

    A configuration is read from its syntax tree and never executed. What cannot be expressed is an
    error with its line; what is only near is noted.
    """
    from paceline.cli.import_ import Settings, import_file

    settings = Settings(
        format=format,
        out=out,
        rtt=rtt,
        queue=queue,
        cc=cc,
        ignore_commands=ignore_commands,
        force=force,
        as_json=json,
    )
    return import_file(file, settings)


def _port(_: object, value: int) -> None:
    if not 0 <= value < 65536:
        raise ValueError("must be from 0 to 65535.")


@app.command(
    help_epilogue=f"{limits.TEXT}\n\n{examples('serve', 'serve RUNS --port 0 --no-browser')}"
)
def serve(
    folder: Annotated[Path, Parameter(help="Folder of runs and sweeps.")] = Path("runs"),
    /,
    *,
    port: Annotated[
        int, Parameter(validator=_port, help="Port on this machine; 0 takes any that is free.")
    ] = 8470,
    browser: Annotated[bool, Parameter(help="Open the page.")] = True,
    memory: Memory = None,
    json: Json = False,
) -> Exit:
    """Open a local page over the runs: browse, lay over each other, change and run again.

    It is reached from this machine only, and only by who has the address that is printed: a secret
    is part of it, new each time. Scenarios run from the page may not name files.
    """
    limit_memory(memory)
    from paceline.cli.serve import show

    return show(folder, port, browser=browser, as_json=json)
