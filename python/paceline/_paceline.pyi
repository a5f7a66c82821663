"""The extension module: scenarios in, runs out."""

from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from typing import Any, Literal, TypedDict

__version__: str
__build__: str
RECORD_SCHEMA: int

Backend = Literal["sim", "emu", "vm"]
_Overrides = Sequence[tuple[str, str]]

class Option(TypedDict):
    name: str
    default: str
    range: str
    doc: str

class Controller(TypedDict):
    name: str
    summary: str
    source: str
    options: list[Option]
    state: list[str]

class Column(TypedDict):
    name: str
    unit: str | None
    type: str
    nullable: bool
    since: int
    doc: str
    words: list[tuple[str, str]]

class TableDefinition(TypedDict):
    name: str
    doc: str
    columns: list[Column]

class MetricDefinition(TypedDict):
    name: str
    label: str
    scope: str
    better: str
    formula: str
    window: str
    censored: str | None

class Outcome(TypedDict):
    metric: str
    bound: str
    value: float | None
    held: bool

class StartupRow(TypedDict):
    growth: float
    t: float
    round: int
    cwnd: int
    pif: int
    bw: float

class StartupDerivation(TypedDict):
    pacing_gain: float
    cwnd_gain: float
    drain_gain: float

class Case(TypedDict):
    id: str
    suite: str
    controller: str
    verdict: str
    evidence: str

class LiveCase(Case):
    trace: tuple[str, str] | None

class Table:
    columns: list[str]
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __len__(self) -> int: ...

class Packets:
    min_rtt_ns: int | None
    def __init__(
        self,
        at: _Buffer,
        kind: _Buffer,
        seq: _Buffer,
        length: _Buffer,
        mss: int,
        handshake: int | None = None,
    ) -> None: ...
    def shifted(self, by_ns: int) -> Packets: ...
    def judge(
        self, controller: str, option: tuple[str, float] | None, thorough: bool
    ) -> tuple[float, list[dict[str, Any]]]: ...
    def moments(self, controller: str) -> Table: ...

class Run:
    scenario_toml: str
    def outcomes(self) -> list[Outcome]: ...
    def links(self) -> list[tuple[str, int | None, int | None]]: ...
    def returns(self) -> list[int | None]: ...
    def table(self, name: str) -> Table | None: ...
    def summary_json(self) -> str: ...
    def digest(self) -> str: ...
    def record(self) -> dict[str, Any]: ...
    def measured(self) -> Run: ...
    def write(self, folder: str | PathLike[str]) -> None: ...
    @staticmethod
    def read(
        folder: str | PathLike[str], memory: int, beneath: str | PathLike[str] | None = None
    ) -> Run: ...
    @staticmethod
    def unfinished(
        root: str | PathLike[str], stream: str | PathLike[str], memory: int
    ) -> Run | None: ...

class KernelRecord:
    """A record of what BBRv3 in the running kernel tells, in the making."""

    def __init__(
        self,
        layout: dict[str, tuple[int, int]],
        size: int,
        begin: int,
        port: int | None,
        memory: int,
    ) -> None: ...
    def take(self, entries: bytes) -> bool: ...
    def finish(
        self, name: str, at: int, missed: int, kernel: str, incomplete: str | None
    ) -> Run: ...

class SweepPoint(TypedDict):
    name: str
    values: list[str]

class SweepAxis(TypedDict):
    keys: list[str]
    drawn: bool
    points: list[SweepPoint]

class Sweep(TypedDict):
    seeds: list[int]
    metrics: list[str]
    axes: list[SweepAxis]

class CheckedScenario:
    name: str
    seed: int
    duration_ns: int
    repeats: int
    compare: list[str]
    flow_groups: int
    flow_count: int
    toml: str
    traces: list[PathLike[str]]
    about: str | None
    sweep: Sweep | None
    sample_rows: int
    def evaluate(self, metrics: Sequence[tuple[str, float | None]]) -> list[Outcome]: ...

#: What has the buffer protocol, for which Python 3.11 has no type.
_Buffer = object

class Worlds:
    columns: list[tuple[str, str, float, float, str]]
    def __init__(
        self,
        text: str,
        file: str,
        overrides: _Overrides,
        flows: Sequence[int],
        count: int,
        interval_ns: int | None,
        control: Literal["window", "rate"],
        threads: int,
        memory: int,
    ) -> None: ...
    def paths(self) -> list[tuple[int, int]]: ...
    def step(
        self,
        actions: _Buffer,
        seeds: Sequence[int | None],
        observations: _Buffer,
        times: _Buffer,
        states: _Buffer,
    ) -> None: ...
    def progress(self, world: int) -> tuple[int, int]: ...
    def finish(self, world: int) -> Run | None: ...

class Guest:
    name: str
    options: list[str]
    stack: tuple[list[str], str, str, list[tuple[str, str]]] | None
    @staticmethod
    def python(
        name: str, file: str, sha256: str, class_: type, options: Sequence[tuple[str, str]]
    ) -> Guest: ...
    @staticmethod
    def library(
        name: str, file: str, sha256: str, path: str | PathLike[str], which: str | None
    ) -> Guest: ...

class Config:
    mss_bytes: int
    initial_window_bytes: int
    seed: int
    now_ns: int
    srtt_ns: int | None
    has_selective_acks: bool

class Ack:
    now_ns: int
    newly_acked_bytes: int
    newly_lost_bytes: int
    ce_bytes: int | None
    ece: bool
    prior_in_flight_bytes: int
    in_flight_bytes: int
    delivered_bytes: int
    lost_bytes: int
    sent_bytes: int
    rtt_ns: int | None
    srtt_ns: int
    min_rtt_ns: int
    delivery_rate_bps: int | None
    app_limited: bool
    sample_interval_ns: int
    sample_delivered_bytes: int
    sample_lost_bytes: int
    tx_in_flight_bytes: int
    round_start: bool
    round_count: int
    cwnd_limited: bool
    una_advanced: bool
    delayed: bool
    one_way_delay_ns: int | None
    network_rtt_ns: int | None
    receiver_delay_ns: int | None
    ca_state: str

class Loss:
    now_ns: int
    size_bytes: int
    sent_ns: int
    lost_bytes: int
    lost_since_send_bytes: int
    delivered_bytes: int
    in_flight_bytes: int
    tx_in_flight_bytes: int
    starts_range: bool
    retransmission: bool

class Sent:
    now_ns: int
    size_bytes: int
    in_flight_bytes: int
    app_limited: bool

def check(
    text: str,
    file: str,
    overrides: _Overrides = (),
    sweep: bool = True,
    backend: Backend = "sim",
    files: bool = True,
    guests: Sequence[Guest] = (),
    here: bool = True,
) -> CheckedScenario: ...
def axes(text: str, file: str, twice: bool = False) -> list[SweepAxis]: ...
def parse_quantity(kind: Literal["rate", "time", "volume"], text: str) -> int: ...
def scale(name: str, about: float) -> tuple[str, float]: ...
def number(value: float | None, size: float) -> str: ...
def quantity(name: str, value: float | None) -> str: ...
def plain(name: str) -> str: ...
def nearest(name: str, known: Sequence[str]) -> str | None: ...
def schema() -> str: ...
def pcapng(
    about: str,
    flows: Sequence[tuple[int, int, int, tuple[bool, str] | None]],
    packets: Iterable[object],
) -> bytes: ...
def doctor(quick: bool, step: Callable[[str], object]) -> str: ...
def vm_images() -> str: ...
def vm_prepare(
    kernel: PathLike[str] | None, modules: PathLike[str] | None, step: Callable[[str], object]
) -> str: ...
def vm_remove(sha256: str) -> bool: ...
def vm_trace(
    text: str, file: str | PathLike[str], seed: int | None = None
) -> tuple[str, str, int, bytes]: ...
def startup(gain: float, rounds: int) -> list[StartupRow]: ...
def startup_derivation() -> StartupDerivation: ...
def least_doubling_gain(tolerance: float) -> float: ...
def golden_traces(folder: str | PathLike[str], wanted: Callable[[str], bool]) -> list[Case]: ...
def recovery_scripts(folder: str | PathLike[str]) -> list[Case]: ...
def recovery_live(
    folder: str | PathLike[str], ids: Sequence[str], step: Callable[[str], object]
) -> list[LiveCase]: ...
def controllers() -> list[Controller]: ...
def metrics() -> list[MetricDefinition]: ...
def queues() -> list[tuple[str, str]]: ...
def stacks() -> list[tuple[str, list[str], str, str]]: ...
def tables() -> list[TableDefinition]: ...
def capture(file: str, form: str | None, memory: int) -> Run: ...
def capture_format(file: str) -> str | None: ...

class Perf:
    def __iter__(self) -> Perf: ...
    def __next__(self) -> str: ...
    def stop(self) -> None: ...
    @property
    def failed(self) -> tuple[str, str, bool] | None: ...
    @property
    def outcome(self) -> tuple[str, int, Run] | None: ...

def perf_client(
    server: str,
    token: str,
    cc: str,
    time: int | None,
    size: int | None,
    reverse: bool,
    streams: int,
    report: int,
) -> Perf: ...
def perf_server(listen: str, time: int, size: int, once: bool) -> Perf: ...
def shell(
    text: str,
    file: str | PathLike[str],
    overrides: Sequence[tuple[str, str]],
    seed: int | None,
    client: Sequence[str],
    server: str | None,
    flows: bool,
    up: Sequence[tuple[str, str]] | None,
) -> tuple[Run, int]: ...
def simulate(
    jobs: Sequence[tuple[str, str, _Overrides, int]],
    threads: int,
    memory: int,
    finished: Callable[[int, Run, tuple[int, int, int]], object],
    progress: Callable[[int, int, int, int, int], object] | None = None,
    failed: Callable[[int, str], object] | None = None,
    backend: Backend = "sim",
    guests: Sequence[Guest] = (),
    broken: Callable[[int, Run, str], object] | None = None,
    streams: Sequence[str | PathLike[str] | None] = (),
) -> None: ...
def parquet_size(
    file: str | PathLike[str], beneath: str | PathLike[str] | None = None
) -> tuple[int, int]: ...
