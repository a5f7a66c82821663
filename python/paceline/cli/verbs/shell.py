"""``paceline shell``: any program at each end of a scenario's path."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from paceline import _paceline, answers, store
from paceline.cli import console, files
from paceline.cli.app import Set, app, examples, not_negative
from paceline.cli.failure import Exit, Failure, failing
from paceline.cli.tables import FLOW_COLUMNS, RECORD_COLUMNS
from paceline.errors import RunError
from paceline.names import visible
from paceline.quantities import duration_ns, quantity
from paceline.runs import Run, named_scenario

#: The `about` of a session without a scenario.
_TEXT = """\
schema = 1
name = "shell"
about = {about}

[run]
duration = {time}
sample_interval = "10 ms"

[path]
rate = {rate}
rtt = {rtt}
queue = {{ kind = "droptail", size = {queue} }}

# It is left out: only the programs send.
[[flows]]
cc = "cubic"
"""


@Parameter(name="*")
@dataclass(frozen=True)
class Options:
    """The options of the command."""

    server: str | None = None
    """The server: a shell command to run at the other end of the path. The client can reach it
    under the host name "server"."""
    rate: Annotated[str | None, Parameter(name=["--rate", "--trace-down"])] = None
    """Instead of FILE: a rate such as 12mbit, or a trace file, for both directions."""
    up: Annotated[str | None, Parameter(name=["--rate-up", "--trace-up"])] = None
    """A different rate, or trace file, for the direction from client to server."""
    delay: str = "0 ms"
    """With --rate: the one-way delay of each direction."""
    queue: str = "1 bdp"
    """With --rate: the size of the queue in each direction, such as 1bdp."""
    time: str = "60 min"
    """Maximum running time of the client."""
    seed: Annotated[int | None, Parameter(validator=not_negative)] = None
    """Seed for losses and other random draws."""
    out: Path | None = None
    """Folder for the record. Default: runs/NAME-shell-NUMBER."""
    overrides: Set = None
    quiet: bool = False
    """Print no summary."""
    json: bool = False
    """Print the summary as JSON to stderr; stdout belongs to the client."""


@app.command(
    help_epilogue=examples(
        'shell --rate "12 Mbit/s" --delay "20 ms" --server "iperf3 -s -1" -- iperf3 -c server',
        'shell FILE --server "python3 -m http.server 80" -- curl -O http://server/index.html',
    )
)
def shell(
    words: Annotated[
        list[str] | None,
        Parameter(
            allow_leading_hyphen=True,
            help="FILE (unless --rate is given), then -- and the client with its arguments. "
            "If you name no client, your shell runs at the client's end of the path.",
        ),
    ] = None,
    /,
    *,
    options: Options = Options(),
) -> int:
    """Run any client program at one end of a scenario's path, with a server at the other end.

    The client and the server each run in a network namespace of their own, isolated from the
    outside in both directions. The client can reach the server under the host name "server", or at
    the address in the environment variable `PACELINE_SERVER`. The client starts as soon as the
    server listens, or after 5 s if the server is not listening by then. You do not need root. Each
    program runs as root inside its namespace.

    The server's data crosses the scenario's link, together with the flows of the scenario. If the
    scenario has a `[path.return]`, the client's data travels in the return direction of that link.
    Otherwise, the client's data crosses a second link, which carries no other traffic. This link
    has the same rate (unless --rate-up is given), queue and impairments as the scenario's link.

    The record has the same format as the record of any other run. A conversation of the client with
    the server has two directions. Each direction that carries data is a flow, which the command
    reconstructs from its packets.

    The exit code is that of the client, with these exceptions: it is 2 if the options or the
    scenario are wrong, 124 if the client was still running after --time, 125 if Paceline failed,
    126 if the client cannot be run, and 127 if the client does not exist. When the command ends for
    any reason, every process that the client or the server started ends too.
    """
    words = list(words or [])
    _refuse_option(words)
    if options.rate is None:
        if not words:
            hint = 'paceline shell --rate "12 Mbit/s" --delay "20 ms"'
            raise Failure("usage", "name a scenario, or give --rate", hint=hint)
        text, path = named_scenario(words.pop(0))
        pairs = [("run.duration", options.time), *files.parse_overrides(options.overrides)]
        pairs.insert(0, ("run.sample_interval", "10 ms"))
    else:
        text, path = _scenario(options), "shell.toml"
        pairs = files.parse_overrides(options.overrides)
        if any(key.startswith("path.return.") for key, _ in pairs):
            # A return direction of its own begins as the one that it replaces.
            rate = ("path.return.rate", _rate(options.up or options.rate))
            pairs = [rate, ("path.return.queue.size", json.dumps(options.queue)), *pairs]
            options = replace(options, up=None)
    _refuse_option(words)
    if not words:
        if not sys.stdin.isatty():
            hint = "paceline shell ... -- curl http://server/"
            raise Failure("usage", "without a terminal, name a client", hint=hint)
        words = [_interactive(options, path)]
    flows = options.rate is None
    up = None if options.up is None else [("path.rate", _rate(options.up))]
    plan = files.plan(text, path, pairs, "emu")
    if up is not None:
        files.plan(text, path, [*pairs, *up], "emu")
    place = options.out
    if place is not None:
        store.check(place, force=None)
    with files.running(path), failing(RunError, "run-failed", code=Exit.SHELL_FAILED):
        programs = (words, options.server, flows, up)
        inner, code = _paceline.shell(text, path, pairs, options.seed, *programs)
    run = Run(inner)
    if place is None:
        name = plan.name if options.rate else f"{plan.name}-shell"
        places = store.numbered(Path("runs") / store.readable(name), 1)
        kept = store.keep_anew(places, inner.write)
    else:
        kept, _ = store.keep(place, inner.write)
    if options.json:
        summary: answers.Shell = {
            "run": str(kept),
            "exit": code,
            "metrics": run.metrics,
            "flows": run.flow_metrics,
            "emulation": run.emulation,
        }
        console.stderr().print_json(data=summary)
    elif not options.quiet:
        _print(run, kept)
    return code


def _refuse_option(words: list[str]) -> None:
    """No file or client begins with a hyphen: it is a mistyped option."""
    if words and words[0].startswith("-"):
        hint = "`paceline shell --help` lists the options; the client's follow --"
        raise Failure("usage", f"unknown option: {words[0]}", hint=hint)


def _scenario(options: Options) -> str:
    """Return a scenario of the path that the options describe."""
    with failing(ValueError, "bad-value", '--delay "20 ms"', what="--delay"):
        rtt = f"{2 * duration_ns(options.delay)} ns"
    # For a link without delay, a BDP is zero.
    least = "1 us" if rtt == "0 ns" else rtt
    # A JSON string is also a TOML string.
    return _TEXT.format(
        about=json.dumps(f"Programs on a path of {options.rate} and {least}"),
        rate=_rate(str(options.rate)),
        rtt=json.dumps(least),
        queue=json.dumps(options.queue),
        time=json.dumps(options.time),
    )


def _interactive(options: Options, path: str) -> str:
    """Return the user's shell; its prompt names the path, after those of outer sessions."""
    name = f"{options.rate}, {options.delay}" if options.rate else Path(path).stem
    around = os.environ.get("PACELINE_PATH", "") if "PACELINE_SERVER" in os.environ else ""
    prompt = f"{around}[{visible(name)}] "
    os.environ["PACELINE_PATH"] = prompt
    # dash and similar shells read the first; bash prefers the second to its start-up files.
    os.environ["PS1"] = f"{prompt}$ "
    os.environ["PROMPT_COMMAND"] = f"PS1={shlex.quote(prompt)}$PS1; unset PROMPT_COMMAND"
    return os.environ.get("SHELL") or "/bin/sh"


def _rate(text: str) -> str:
    """Return a rate or the path of a trace, as TOML."""
    trace = Path(text)
    if trace.is_file():
        return f"{{ trace = {json.dumps(str(trace.resolve()))} }}"
    # `mbps` means bytes per second in tc, so only units of bits are accepted.
    short = re.fullmatch(r"([0-9.]+) *([kmgt]?)bit", text.strip(), re.IGNORECASE)
    if short is not None:
        number, power = short.groups()
        text = f"{number} {power.lower() if power in 'kK' else power.upper()}bit/s"
    return json.dumps(text)


def _print(run: Run, kept: Path) -> None:
    """Print on stderr what the path carried."""
    links = console.table("Link", "Carried", "Link rate", "Queue p50", "Queue p95", "Dropped")
    for number, (name, rate, _) in enumerate(run.links):
        queue = run.queue.filter(link=number)
        if queue.is_empty():
            continue
        seconds = int(queue["t_ns"][-1]) / 1e9 or 1.0
        delays = queue["delay_ns"].drop_nulls()
        links.add_row(
            name,
            quantity("_bps", int(queue["delivered_bytes"][-1]) * 8 / seconds),
            "" if rate is None else quantity("_bps", rate),
            quantity("_ns", delays.quantile(0.5, "nearest")),
            quantity("_ns", delays.quantile(0.95, "nearest")),
            str(queue["dropped_packets"][-1]),
        )
    flows = console.table("Flow", *(FLOW_COLUMNS[name] for name in RECORD_COLUMNS))
    for flow in run.flow_metrics:
        cells = (quantity(name, flow.get(name)) for name in RECORD_COLUMNS)
        flows.add_row(str(flow["label"]), *cells)
    out = console.stderr()
    for table in (links, flows):
        if table.row_count:
            out.print(table)
    if run.emulation is not None and run.emulation["beyond"]:
        console.print_distrust([bound["message"] for bound in run.emulation["beyond"]])
    out.print(f"record: {kept}", soft_wrap=True)
