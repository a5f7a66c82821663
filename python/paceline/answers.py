"""The JSON of commands: the objects that ``--json`` prints.

`docs/reference/json.md` and `web/src/api.ts` are generated from here and from `paceline.pages`.
A key's description follows it. Keys may be added, but existing keys keep their name and meaning.
The name of a quantity ends in its unit.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

Backend = Literal["sim", "emu", "vm"]

#: By name, as `paceline list metrics` defines them; null where one is undefined.
Metrics = dict[str, float | None]


class Statistics(TypedDict):
    """Statistics of a metric over repeats."""

    mean: float
    """Of the runs in which it is defined."""
    median: float | None
    """Of these and of those in which a time is longer than the run; null if it is one of these."""
    low: float | None
    """The 95 % interval of the mean, by Student's t; null with fewer than five runs, or if a time
    is longer than a run."""
    high: float | None
    median_low: float | None
    """Likewise of the median, between order statistics."""
    median_high: float | None
    count: int
    """The number of runs in which it is defined."""
    runs: int
    """The number of runs."""
    censored: int
    """The number of runs that ended before the time that this is."""
    coverage_ratio: float | None
    """The share of such intervals that hold the mean: less for skewed values."""


class Engine(TypedDict):
    """The cost of the runs of this call."""

    wall_ns: int
    packets: int
    events: int


class Expectation(TypedDict):
    """A bound of `[expect]`."""

    metric: str
    bound: str
    """As a comparison with a number in the metric's unit."""
    value: float | None
    """With repeats, their median."""
    held: bool


class Guest(TypedDict):
    """A controller from outside the program."""

    name: str
    language: str
    file: str
    sha256: str


class Run(TypedDict):
    """A run, or the summary of all its repeats."""

    schema: NotRequired[int]
    """Version of the record."""
    scenario: str
    seed: int
    """With repeats, the first one."""
    backend: Backend
    out: str
    """The folder."""
    metrics: Metrics | dict[str, Statistics | None]
    """With repeats, statistics."""
    censored: NotRequired[dict[str, int]]
    """Times that the run ended before, by metric: they are longer than this."""
    flows: list[dict[str, Any]]
    """Per flow: `flow` (its number), `cc`, `label`, its metrics, `censored`, and `state_ns`: the
    time its controller spent in each state. With repeats, statistics and neither of the last
    two."""
    engine: Engine
    expect: list[Expectation]
    repeats: NotRequired[dict[str, list[float | None]]]
    """The values of each run, by metric, and `seed`."""
    emulation: NotRequired[dict[str, Any] | list[dict[str, Any]]]
    """What the emulator measured of itself; `beyond` lists the bounds exceeded. With repeats, one
    per run."""
    guests: NotRequired[list[Guest]]
    notes: NotRequired[list[str]]
    """Remarks: a flow that moves nothing, a receiver that hands over nothing, a loss in a slowdown
    of LEDBAT++. With repeats, each with its seed."""
    incomplete: NotRequired[str]
    """Why it stopped before its end."""
    digests: NotRequired[list[str]]
    """SHA-256 of each run's tables, by seed: equal runs have equal ones."""
    reused: NotRequired[Literal[True]]
    """It already existed."""
    reports: NotRequired[list[str]]
    """With `--report`, the files."""
    cc: NotRequired[str]
    """In a comparison, the controller of all flows."""


class Compared(TypedDict):
    """A scenario whose `run.compare` names several controllers."""

    schema: NotRequired[int]
    scenario: str
    seed: int
    backend: Backend
    out: str
    compare: list[Run]
    """One per controller."""
    reused: NotRequired[Literal[True]]
    reports: NotRequired[list[str]]


class Runs(TypedDict):
    """Several scenario files."""

    schema: NotRequired[int]
    runs: list[Run | Compared]


class Axis(TypedDict):
    """Keys that a sweep varies together."""

    keys: list[str]
    drawn: NotRequired[bool]
    """Whether its points are draws of a population."""
    points: list[dict[str, Any]]
    """Per point: its `name` and its `values` by key."""


class Grid(TypedDict):
    """The `[sweep]` of a scenario."""

    seeds: list[int]
    metrics: list[str]
    axes: list[Axis]


class Check(TypedDict):
    """A valid scenario."""

    name: str
    file: str
    resolved: dict[str, Any]
    """The scenario with every default, as parsed TOML."""
    toml: str
    sweep: Grid | None
    sample_rows: int
    """Flows, times the duration over the sample interval."""


class Point(TypedDict):
    """A point of a sweep: its settings, and statistics over its seeds."""

    set: dict[str, str]
    metrics: dict[str, Statistics | None]


class Sweep(TypedDict):
    """A finished sweep."""

    scenario: str
    out: str
    runs: int
    failed: int
    seeds: list[int]
    metrics: list[str]
    points: list[Point]
    best: dict[str, str] | None
    """Where the first metric is best."""
    worst: dict[str, str] | None
    engine: NotRequired[Engine]
    """Absent if the sweep was already complete."""
    pictures: list[str]


Overall = Literal["worse", "better", "untested", "same"]
Verdict = Literal["worse", "better", "untested", "unclear", "lost", "gained", "same"]


class Finding(TypedDict):
    """A metric of two results."""

    point: str
    """The point of a sweep; empty for runs."""
    metric: str
    old: float | None
    new: float | None
    counts: list[int]
    """The number of runs on each side in which it is defined."""
    runs: list[int]
    """The number of runs on each side."""
    censored: list[int]
    """The number of runs that ended before the time that it is."""
    paired: bool
    difference: float | None
    """Null for times of which some are longer than a run."""
    low: float | None
    """The 95 % interval of the difference, corrected as `p_adjusted` is; null where pairs are
    compared by their ratios."""
    high: float | None
    change_ratio: float | None
    """Of pairs that are compared by their ratios, the geometric mean less 1."""
    change_low_ratio: float | None
    """The interval of `change_ratio`, likewise."""
    change_high_ratio: float | None
    higher: int | None
    """The number of pairs whose new value is higher."""
    lower: int | None
    effect: float | None
    """The difference in standard deviations."""
    test: Literal["t", "permutation", "sign flips", "log rank"] | None
    """Null if nothing was tested."""
    p: float | None
    p_adjusted: float | None
    """Corrected for multiple tests; null if so few runs cannot reach the level."""
    verdict: Verdict


class Stays(TypedDict):
    """The stays of two flows in states of BBR, side by side; null where one has no more."""

    old: str | None
    old_enter_ns: int | None
    new: str | None
    new_enter_ns: int | None


class Comparison(TypedDict):
    """Two compared results: `compare A B`."""

    old: str
    new: str
    tolerance_ratio: float
    correction: Literal["holm", "bh"]
    verdict: Overall
    counts: dict[str, int]
    """Findings by verdict."""
    findings: list[Finding]
    differing: list[str]
    """Keys in which the scenarios differ."""
    notes: list[str]
    states: list[Stays]
    """Of a comparison with a reference: BBR's states on both sides."""
    departs: str | None
    """Where they depart; null without a reference."""
    only_old: list[str]
    """Points that exist on one side only."""
    only_new: list[str]


class Versus(TypedDict):
    """A value of a key, compared with the first value."""

    old: str
    new: str
    sentence: str
    picture: str
    findings: list[Finding]


class Comparisons(TypedDict):
    """One sweep, compared by a key: `compare SWEEP --by KEY`."""

    by: str
    sweep: str
    comparisons: list[Versus]


class Changed(TypedDict):
    """A claim with a change in its runs."""

    name: str
    that: str
    """What is changed."""
    measured: float | None
    low: float | None
    high: float | None
    held: bool
    """Whether every bound holds with it, or the gap is at most half."""
    found: str
    """The bounds that fail, or the gap."""


class Claim(TypedDict):
    """A published claim that was re-run."""

    id: str
    topic: str
    source: str
    published: str
    measures: str
    """What `measured` is, with its unit."""
    measured: float | None
    seeds: int | None
    """The number of seeds, of cases that do not set their own; null without cases."""
    low: float | None
    high: float | None
    verdict: Literal["reproduced", "reproduced by choice", "not reproduced", "finding", "error"]
    why: str
    accept: list[dict[str, Any]]
    """Each `expression`, `that` (its sentence), whether it `held`, what was `found`, `by` whom it
    was set (`source` or `ours`), the `reason` of one of ours, and the bound that was
    `corrected`."""
    choice: str
    """What the source leaves open, and what was chosen; empty for nothing."""
    choices: list[Changed]
    """What the other choices give."""
    variants: list[Changed]
    """What a cause does that is changed on its own."""
    beside: list[dict[str, Any]]
    """Other figures."""
    tables: list[dict[str, Any]]


class Claims(TypedDict):
    """Claims that were re-run."""

    claims: list[Claim]
    quick: bool
    emulated: NotRequired[dict[str, Any]]
    """The number of emulated runs, and of those repeated."""
    report: NotRequired[str]
    """With `--out`, the path of the page."""


class Mutant(TypedDict):
    """A mutant of a claim: the subject of the claim is removed."""

    claim: str
    mutant: str
    that: str
    outcome: Literal["fails", "survives", "not judged", "error"]
    """`fails` is as it must be; `not judged` if the claim itself does not hold."""
    found: str
    """The bounds that fail with it."""
    draws: int
    """Draws of the seeds in which the claim holds and the mutant fails."""
    of: int


class Mutants(TypedDict):
    """`claims --mutants`."""

    mutants: list[Mutant]
    quick: bool


class Claimed(TypedDict):
    """A claim that has not been run."""

    id: str
    topic: str
    backend: str
    source: str
    published: str


class ClaimList(TypedDict):
    """`claims --list`."""

    claims: list[Claimed]


class Case(TypedDict):
    """A conformance case."""

    id: str
    suite: str
    controller: str
    title: NotRequired[str]
    verdict: Literal["pass", "fail", "expected fail", "not applicable"]
    evidence: Any


class PacketCheck(TypedDict):
    """What a flow's packets say of one requirement."""

    id: str
    section: str
    """Of draft-ietf-ccwg-bbr-06, or with its RFC."""
    requires: str
    verdict: Literal["held", "broken", "not seen", "cannot be told"]
    measured: float | None
    """In `unit`; null if nothing was."""
    least: float | None
    """The least that holds; null without a bound."""
    most: float | None
    """The most that holds; null without a bound."""
    unit: str
    count: int
    """Of what was measured: bursts, windows of time, probes."""
    t_ns: int | None
    """When it was first broken."""
    why: str | None
    """Why it cannot be told."""


class Cause(TypedDict):
    """A change that would explain what is broken."""

    option: str
    value: float
    """A time in seconds."""


class Departure(TypedDict):
    """What a shadow allowed after an ACK, and what the flow did."""

    t_ns: int
    pace_bps: float | None
    """The pace that it allowed; null leaves it to the ACK clock."""
    window_bytes: int
    """What it allowed in flight."""
    in_flight_bytes: int
    sent_bytes: int
    """All that the flow had sent."""
    phase: str
    """The state of the shadow."""


class Flow(TypedDict):
    """A flow, laid beside what each algorithm allows."""

    target: str
    """The recording, or the controller."""
    path: str | None
    """The scenario in which a controller was run."""
    flow: int
    judged_as: str
    """The algorithm: that of `--as`, or the one that fits best."""
    verdict: Literal["fits", "broken", "cannot be told"]
    sentence: str
    likeness: dict[str, float]
    """The share of time in which the flow does what each algorithm allows."""
    states_share: float | None
    """The share of reported states that the shadow was in; null if none is told."""
    departure: Departure | None
    """What was allowed when it first departed; null if nothing is broken."""
    causes: list[Cause]
    """Options of `bbr3` with which nothing would be broken, the likeliest first."""
    checks: list[PacketCheck]


class Conformance(TypedDict):
    """Cases that were run, and flows that were judged by their packets."""

    cases: list[Case]
    flows: list[Flow]
    worse: list[str]
    """With `--against`: what held then and is broken now, or is gone."""


class Reference(TypedDict):
    """A scenario whose run with `bbr3` is a reference."""

    id: str
    about: str
    """What its trace shows."""
    section: str | None
    """Of the draft, with its title; null for a baseline."""
    path: str
    """The scenario."""


class References(TypedDict):
    """`reference list`."""

    draft: str
    """The draft's name with its number."""
    references: list[Reference]


class ExportedReference(TypedDict):
    """A folder of a reference."""

    id: str
    """Also the folder's name."""
    seed: int
    files: dict[str, str]
    """The SHA-256 of each file, by its name."""


class ReferencePack(TypedDict):
    """`reference export`."""

    draft: str
    out: str
    """The folder."""
    references: list[ExportedReference]


class Criterion(TypedDict):
    """A criterion of RFC 9743."""

    section: str
    source: str
    criterion: str
    about: str
    measures: str
    """What `measured` is, with its unit."""
    measured: float | None
    low: float | None
    high: float | None
    verdict: Literal["met", "not met", "error"]
    why: str


class Evaluation(TypedDict):
    """A controller judged by the criteria of RFC 9743."""

    controller: str
    quick: bool
    criteria: list[Criterion]
    matrix: dict[str, Any]
    """Share and harm of each pair of controllers."""
    report: NotRequired[str]


class StartupRow(TypedDict):
    """The first ACK of a round."""

    growth: float
    """0 while there is no estimate to compare with."""
    t: float
    """In seconds."""
    round: int
    cwnd: int
    """In packets."""
    pif: int
    """Packets in flight."""
    bw: float
    """In packets per second."""


class Startup(TypedDict):
    """BBR's start-up."""

    derivation: dict[str, float]
    gain: NotRequired[float]
    rows: NotRequired[list[StartupRow]]
    least_doubling_gain: NotRequired[float]
    """With a growth of at least 1.9995 in each of rounds 10 to 15."""
    plot: NotRequired[str]


class Report(TypedDict):
    """A report that was written."""

    report: str
    format: str


class Export(TypedDict):
    """Files that were written."""

    files: list[str]
    format: str
    runs: list[str]


class Note(TypedDict):
    """A part of an import that is only an approximation."""

    line: int | None
    text: str


class ImportedScenario(TypedDict):
    """A scenario made from a file."""

    name: str
    file: str | None
    """The file written; null without `--out`."""
    toml: str
    notes: list[Note]


class Shell(TypedDict):
    """The traffic of programs on a path; on stderr, because stdout is the client's."""

    run: str
    """The folder."""
    exit: int
    """The client's exit code."""
    metrics: Metrics
    flows: list[dict[str, Any]]
    emulation: dict[str, Any] | None
    """What the emulator measured of itself."""


class PerfStart(TypedDict):
    """The request."""

    server: str
    """Its address and port."""
    cc: str
    time_ns: int | None
    bytes: int | None
    reverse: bool
    """Whether the server sent."""
    streams: int
    handshake_ns: int
    """From the first packet to the end of the handshake."""


class PerfPart(TypedDict):
    """A part of a test, or all of it; times count from its start."""

    start_ns: int
    end_ns: int
    bytes: int
    """What the receiver received."""
    goodput_bps: float | None
    rtt_ns: int | None
    """The sender's latest RTT; of all of it, the smoothed RTT at its end. Null where unknown."""
    cwnd_bytes: int | None
    """The sender's window at its end."""
    lost_packets: int | None
    """Packets that the sender declared lost."""


class Perf(TypedDict):
    """A test of `perf client`."""

    start: PerfStart
    intervals: list[PerfPart]
    """One a second."""
    end: PerfPart
    run: str | None
    """The folder; null without `--out`."""
    metrics: Metrics
    failed: Error | None
    """Why it ended early; what was measured until then is here."""


class PerfServer(TypedDict):
    """The messages of `perf server`, one object a line; the first is `listening`."""

    event: Literal["listening", "started", "ended", "refused"]
    address: NotRequired[str]
    """Where it listens."""
    token: NotRequired[str]
    """What a client needs."""
    client: NotRequired[str]
    """The client's address and port."""
    cc: NotRequired[str]
    """The controller of whoever sends."""
    reverse: NotRequired[bool]
    bytes: NotRequired[int]
    """Received; if the server sent, acknowledged, with QUIC's headers."""
    time_ns: NotRequired[int]
    failed: NotRequired[str | None]
    """Why the test ended early."""
    why: NotRequired[str]
    """Why the client was refused."""


class ImportedRecord(TypedDict):
    """A record read from a file of another program."""

    run: str
    """The folder."""
    incomplete: str | None
    """Why it stops before the end of the file; null if not."""
    notes: list[str]
    """What the file does not say, and what was left out."""
    metrics: Metrics
    flows: list[dict[str, Any]]


class Import(TypedDict):
    """A file's format, and the scenarios made from it, or the record."""

    format: str
    scenarios: NotRequired[list[ImportedScenario]]
    record: NotRequired[ImportedRecord]


class FittedRate(TypedDict):
    """The rate of a fitted path from a given time on."""

    begin_ns: int
    rate_bps: float | None
    low_bps: float | None
    """From here to `high_bps` is a 95 % interval."""
    high_bps: float | None
    """Null if the link was never busy: it is at least `low_bps`."""


class FittedParameter(TypedDict):
    """A parameter of a model, in the unit at the end of its name."""

    value: float | None
    """Null if the record does not show it."""
    low: float | None
    """From here to `high` is a 95 % interval; null if there is none."""
    high: float | None


class FittedModel(TypedDict):
    """A loss model with its best parameters."""

    loss: str
    distance: float
    """How far its simulation is from the record: 0 is equal, 1 nothing alike."""


class Fit(TypedDict):
    """The path on which a record was taken."""

    run: str
    scenario: str | None
    """The file written; null in `advise`."""
    rates: list[FittedRate]
    rtt_ns: float | None
    rtt_low_ns: float | None
    """Null if the queue may never have been empty."""
    rtt_high_ns: float | None
    queue_bytes: float | None
    """Null if the record has no RTTs."""
    queue_low_bytes: float | None
    """From here to `queue_high_bytes` is a 95 % interval."""
    queue_high_bytes: float | None
    """Null if the queue was never seen full."""
    return_rate_bps: float | None
    """Null if the ACKs show no slow return path."""
    return_queue_packets: int | None
    """At most so many ACKs wait for it; null likewise."""
    loss: str
    """`none`, `droptail`, `random`, `droptail+random`, `policer`, `codel`, `fq_codel` or `pie`."""
    parameters: dict[str, FittedParameter]
    models: list[FittedModel]
    """All models that were simulated, the nearest first."""
    measured: dict[str, float | None]
    """Over the flows that carried at least 1 % of all; null is unknown."""
    fitted: dict[str, float | None]
    """The same of a simulation of the scenario."""
    notes: list[str]


class Advised(TypedDict):
    """A recording, and what it shows."""

    file: str
    sentences: list[str]
    limit: str | None
    """What no controller changes, in words; null if there is no such."""
    application_ratio: float | None
    """The share of the time in which the application was the limit."""
    window_ratio: float | None
    """The same of the receive window; null is unknown."""
    senders: list[str]
    """The controllers that sent, as far as they are known."""
    fit: Fit | None
    """The fitted path; null of a scenario."""


class Candidate(TypedDict):
    """A controller over the paths that recordings allow."""

    cc: str
    metrics: dict[str, float | None]
    """Means; `neighbour_bps` is the goodput of a CUBIC flow beside it."""
    ranges: dict[str, list[float] | None]
    """The ranges of the metrics over the paths, without the extreme tenth at each end."""
    harm_ratio: float | None
    """What CUBIC loses beside it, of what CUBIC has beside another CUBIC."""
    harm_low_ratio: float | None
    """From here to `harm_high_ratio` is a 95 % interval."""
    harm_high_ratio: float | None
    against_best: dict[str, Finding | None]
    """By aim, the comparison with the best; null for the best."""


class Turned(TypedDict):
    """A path on which another controller is ahead."""

    parameter: str
    """Or what causes the losses."""
    value: float | None
    """Null of a cause."""
    best: str
    lead_ratio: float


class Advice(TypedDict):
    """Which controller suits the path that recordings show."""

    limited: bool
    """Whether something else than the path was the limit in all."""
    recommended: str | None
    """Null if none is certainly better, or no model is near."""
    sentences: list[str]
    recordings: list[Advised]
    ranking: list[Candidate]
    """The best first."""
    best: dict[str, list[str]]
    """By aim, the controllers that none is certainly better than."""
    turns: list[Turned]
    unknown: list[str]
    commands: list[str]
    """They repeat it, and set the recommended controller."""
    page: str
    """The file written."""


class Found(TypedDict):
    """A path on which the sender fails."""

    file: str
    """A scenario whose `[expect]` fails; its picture is beside it."""
    group: dict[str, str]
    """What finds have in common: `state` of the controller, that of loss `recovery`, and the change
    of the path before (`after`)."""
    told: str
    """What the sender does."""
    value_ratio: float
    """What the goal bounds, as a part of the bound."""
    offsets_ratio: float | None
    """The share of start offsets with which it fails; null if not tried."""
    changes_ratio: float | None
    """The share of changes of a number by 5 %, likewise."""
    run: int
    """The run of the search that found it."""
    how: str
    """`random` or `evolution`."""
    alike: int
    """The number of paths that failed so."""


class Search(TypedDict):
    """What a search found."""

    schema: NotRequired[int]
    scenario: str
    goal: str
    seed: int
    explored: int
    """The runs of the search."""
    runs: int
    """All runs: also those that made finds small."""
    failed: int
    """The number of runs that ended early."""
    error: str | None
    """Why the first of them did."""
    accidents: int
    """Ways to fail that a small change of the path ends."""
    finds: list[Found]
    new: NotRequired[int]
    """The finds that `--against` has not; without it, all."""
    out: NotRequired[str]
    """The folder."""


class Sequence(TypedDict):
    """A diagram that was written."""

    sequence: str
    format: str
    runs: list[str]


class Init(TypedDict):
    """A template file."""

    file: str
    then: str
    """The command that runs it."""


class Checked(TypedDict):
    """A capability of a machine."""

    name: str
    state: str
    found: str
    fix: str | None
    """The command that fixes it."""


class Doctor(TypedDict):
    """The capabilities of this machine."""

    kernel: str
    controllers: list[str]
    able: bool
    checks: list[Checked]
    rates: NotRequired[list[dict[str, Any]]]
    """Accuracy by rate; absent with `--quick`."""


class Serve(TypedDict):
    """The address of the page."""

    address: str
    folder: str


class Listed(TypedDict):
    """`list`, without a name."""

    lists: list[dict[str, str]]
    """Each with its `name` and `summary`."""


class Snapshot(TypedDict):
    """A guest of `run --backend vm`."""

    hash: str
    kernel: str
    qemu: str
    program: str
    modules: list[str]
    size_bytes: int


class Snapshots(TypedDict):
    """`vm list`."""

    snapshots: list[Snapshot]


class LoadedController(TypedDict):
    """A controller in the running kernel."""

    name: str
    registered: bool
    """Whether it can be chosen; else connections still use it."""
    user: str
    """Who loaded it."""
    since_ns: int
    """When, since 1970."""
    options: dict[str, str]


class LoadedControllers(TypedDict):
    """`kernel load` and `kernel list`."""

    controllers: list[LoadedController]


class Unloaded(TypedDict):
    """`kernel unload`."""

    unloaded: str
    held: bool
    """Whether connections still use it; the kernel frees it after the last."""


class LiveConnection(TypedDict):
    """A connection of the running kernel, as its controller sees it; unknown values are null."""

    pid: int
    local: str
    remote: str
    phase: str
    cwnd_bytes: int
    in_flight_bytes: int
    pacing_bps: int
    bw_bps: int | None
    max_bw_bps: int
    min_rtt_ns: int | None
    bw_shortterm_bps: int | None
    inflight_shortterm_bytes: int | None
    inflight_longterm_bytes: int | None


class LiveConnections(TypedDict):
    """`kernel show`."""

    connections: list[LiveConnection]


class RecordedConnections(TypedDict):
    """A record of live connections."""

    run: str
    """The folder."""
    incomplete: str | None
    """Why it stops before its time; null if not."""
    notes: list[str]
    """What the record does not have."""
    metrics: Metrics
    flows: list[dict[str, Any]]


class LiveRecord(TypedDict):
    """`kernel record`."""

    record: RecordedConnections


class Problem(TypedDict):
    """An error in a scenario."""

    kind: str
    message: str
    file: str | None
    line: int | None
    column: int | None
    key: str | None
    hint: str | None


class Error(TypedDict):
    """An error."""

    kind: str
    message: str
    file: str | None
    line: int | None
    column: int | None
    hint: str | None
    """How to fix it."""
    all: NotRequired[list[Problem]]
    """Every problem of a scenario, if there are several."""


class Failed(TypedDict):
    """The output of every command that fails."""

    schema: NotRequired[int]
    error: Error
    finished: NotRequired[list[dict[str, Any]]]
    """Of `run`: the finished runs, which are kept."""
    runs: NotRequired[list[Run | Compared]]


#: The output of each command with `--json`, in addition to `schema`.
COMMANDS: dict[str, tuple[type, ...]] = {
    "run": (Run, Compared, Runs),
    "check": (Check,),
    "sweep": (Sweep,),
    "compare": (Comparison, Comparisons),
    "claims": (Claims, ClaimList, Mutants),
    "conformance": (Conformance,),
    "reference": (References, ReferencePack),
    "evaluate": (Evaluation,),
    "startup": (Startup,),
    "report": (Report,),
    "export": (Export,),
    "import": (Import,),
    "fit": (Fit,),
    "advise": (Advice,),
    "search": (Search,),
    "shell": (Shell,),
    "perf": (Perf, PerfServer),
    "sequence": (Sequence,),
    "init": (Init,),
    "doctor": (Doctor,),
    "serve": (Serve,),
    "vm": (Snapshots, Snapshot),
    "kernel": (LoadedControllers, Unloaded, LiveConnections, LiveRecord),
    "list": (Listed,),
}
