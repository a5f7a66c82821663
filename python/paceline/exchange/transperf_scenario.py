"""Converts an experiment of transperf into a scenario."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

from paceline.exchange.declared import Import, Imported, ImportFailedError, ImportOptions, Note
from paceline.exchange.mahimahi import quote
from paceline.exchange.transperf import Call, Experiment, Setting, experiments

#: Linux's names, and the nearest controllers here.
CONTROLLERS = {
    name: {"bbr": "bbr1"}.get(name, name)
    for name in ("cubic", "reno", "bbr", "bbr1", "bbr2", "bbr3", "dctcp", "prague")
}

#: The maximum number of characters of all scenarios of one file.
LARGEST = 10_000_000

#: A packet of transperf's BDP: an Ethernet frame.
FRAME = 1514


def read(text: str, options: ImportOptions) -> list[Imported]:
    """Return a scenario for each experiment of a configuration."""
    return scenarios(text, options.file.stem, ignore_commands=options.ignore_commands)


def scenarios(text: str, name: str, *, ignore_commands: bool = False) -> list[Imported]:
    """Return a scenario for each experiment of a configuration."""
    every = list(experiments(text))
    width = len(str(len(every)))
    made: list[Imported] = []
    length = 0
    for number, experiment in enumerate(every, 1):
        label = name if len(every) == 1 else f"{name}-{number:0{width}}"
        made.append(_Writer(experiment, ignore_commands=ignore_commands).scenario(label))
        length += len(made[-1].toml)
        if length > LARGEST:
            raise ImportFailedError(f"the scenarios have more than {LARGEST} characters")
    return made


class _Writer:
    """Writes one experiment, and notes the differences from the original."""

    def __init__(self, experiment: Experiment, *, ignore_commands: bool) -> None:
        self.experiment = experiment
        self.ignore_commands = ignore_commands
        self.notes: list[Note] = []
        self.events: list[tuple[float, str]] = []
        #: The largest of them in Mbit/s and ms.
        self.bw = 0.0
        self.rtt = 0.0
        self.sender_rtts: dict[int, float] = {}

    def scenario(self, name: str) -> Imported:
        self._commands()
        path = [*self._bandwidth(), *self._delay(), *self._buffer()]
        path += [*self._losses(), *self._policer()]
        slot = self._setting("slot")
        if slot.value is not None:
            why = "transperf draws the slots' lengths; path.aggregation has one length"
            raise self._fail(slot.line, "`slot` cannot be expressed in a scenario", why)
        flows = self._flows()
        duration = _digits(self._number("dur", 30.0))
        lines = ["schema = 1", f"name = {quote(name)}", 'source = "transperf"', ""]
        lines += ["[run]", f'duration = "{duration} s"', "", "[path]", *path]
        for flow in flows:
            lines += ["", "[[flows]]", *flow]
        for time, change in sorted(self.events):
            lines += ["", "[[events]]", f'when = "{_digits(time)} s"', change]
        lines += self._expectations()
        return Imported(name, "\n".join(lines) + "\n", self.notes)

    # Reading.

    def _setting(self, key: str) -> Setting:
        return self.experiment.get(key, Setting(0, None))

    def _fail(self, line: int | None, message: str, hint: str | None = None) -> ImportFailedError:
        return ImportFailedError(message, line or None, hint)

    def _note(self, line: int, text: str) -> None:
        self.notes.append(Note(line or None, text))

    def _as_number(self, value: Any, what: str, line: int) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._fail(line, f"{what} is not a number")
        if not 0 <= value < 1e12:
            raise self._fail(line, f"{what} is out of range", "from 0 to 1e12")
        return float(value)

    def _number(self, key: str, default: float) -> float:
        setting = self._setting(key)
        if setting.value is None:
            return default
        return self._as_number(setting.value, f"`{key}`", setting.line)

    def _argument(self, call: Call, key: str, default: float = 0.0) -> float:
        value = call.arguments.get(key)
        what = f"`{key}` of `{call.name}`"
        return default if value is None else self._as_number(value, what, call.line)

    def _given(self, call: Call, key: str, unit: str) -> str:
        return f'"{_digits(self._argument(call, key))} {unit}"'

    def _absent(self, call: Call, keys: Iterable[str], why: str) -> None:
        for key in keys:
            if call.arguments.get(key) not in (None, 0, "", False):
                message = f"`{key}` of `{call.name}` cannot be expressed in a scenario"
                raise self._fail(call.line, message, why)

    def _steps(self, setting: Setting, plain: str, varying: str) -> list[Call]:
        """Return a value, or several that follow each other, as builders."""
        value = setting.value
        varies = isinstance(value, Call) and value.name == varying
        first = {"bw": "downlink", "rtt": "val", "policer": "bw"}[plain]
        calls = [
            item if isinstance(item, Call) else Call(plain, setting.line, {first: item})
            for item in (value.items if varies else [value])
        ]
        for call in calls:
            if call.name != plain:
                raise self._fail(call.line, f"`{plain}` cannot be made with `{call.name}`")
        if not calls:
            raise self._fail(setting.line, f"`{varying}` is empty")
        return calls

    def _schedule(self, calls: list[Call], change: Callable[[Call], str]) -> None:
        """Note the changes after the first; each value lasts for its `dur`."""
        time = 0.0
        for call, after in pairwise(calls):
            lasts = self._argument(call, "dur", 10.0)
            if lasts == 0:
                raise self._fail(call.line, f"`{call.name}` has no duration", "give it a dur")
            time += lasts
            self.events.append((time, change(after)))

    # Writing.

    def _commands(self) -> None:
        for key in ("machine_cmd", "cmd"):
            setting = self._setting(key)
            if setting.value is None:
                continue
            if not self.ignore_commands:
                message = f"`{key}` runs a command, which a scenario cannot do"
                hint = "--ignore-commands skips it; a queue is path.queue.kind"
                raise self._fail(setting.line, message, hint)
            self._note(setting.line, f"`{key}` is left out")

    def _bandwidth(self) -> list[str]:
        setting = self._setting("bw")
        if setting.value is None:
            raise self._fail(None, "`bw` is not set", "a scenario needs the bottleneck's rate")
        calls = self._steps(setting, "bw", "var_bw")
        rates = []
        for call in calls:
            rate = self._argument(call, "downlink")
            if rate == 0:
                raise self._fail(call.line, "`bw` is 0: no limit", "a scenario needs a rate")
            if self._argument(call, "uplink") not in (0, rate):
                why = "path.return.rate and a queue limit the return path"
                self._note(call.line, f"`uplink` is left out: {why}")
            rates.append(rate)
        self.bw = max(rates)
        self._schedule(calls, lambda call: f"path.rate = {self._given(call, 'downlink', 'Mbit/s')}")
        return [f'rate = "{_digits(rates[0])} Mbit/s"']

    def _delay(self) -> list[str]:
        setting = self._setting("rtt")
        if setting.value is None:
            raise self._fail(None, "`rtt` is not set", "a scenario needs a round-trip time")
        value = setting.value
        if isinstance(value, Call) and value.name == "mixed_rtt":
            return self._mixed(value)
        calls = self._steps(setting, "rtt", "var_rtt")
        rtts = [self._one_rtt(call) for call in calls]
        self.rtt = max(rtts)
        self._schedule(calls, lambda call: f"path.rtt = {self._given(call, 'val', 'ms')}")
        spread = self._argument(calls[0], "var")
        if spread == 0:
            return [f'rtt = "{_digits(rtts[0])} ms"']
        if len(calls) > 1 or spread > rtts[0]:
            message = "this `var` has no equivalent"
            raise self._fail(calls[0].line, message, "path.jitter is one bound")
        self._note(calls[0].line, "`var` is path.jitter: the mean is kept, and so is the order")
        return [f'rtt = "{_digits(rtts[0] - spread)} ms"', f'jitter = "{_digits(2 * spread)} ms"']

    def _one_rtt(self, call: Call) -> float:
        why = "path.jitter is uniform and on the forward path"
        self._absent(call, ("out_var", "in_dist", "out_dist"), why)
        rtt = self._argument(call, "val")
        if rtt == 0:
            raise self._fail(call.line, "`rtt` is 0", "more than 0 ms")
        return rtt

    def _mixed(self, mixed: Call) -> list[str]:
        for call in mixed.items:
            if not isinstance(call, Call) or call.name != "rtt":
                raise self._fail(mixed.line, "`mixed_rtt` takes only rtt(...) values")
            self._absent(call, ("var", "dur"), "each sender has one round-trip time")
            sender = int(self._argument(call, "sender"))
            self.sender_rtts[sender] = self._one_rtt(call)
        if not self.sender_rtts:
            raise self._fail(mixed.line, "`mixed_rtt` is empty")
        self.rtt = max(self.sender_rtts.values())
        return [f'rtt = "{_digits(self.rtt)} ms"']

    def _buffer(self) -> list[str]:
        setting = self._setting("buf")
        value = setting.value
        if isinstance(value, Call) and value.name == "bdp":
            # Largest rate and time, in frames, as transperf counts.
            bdp = self._argument(value, "ratio", 1.0) * self.bw * self.rtt * 1000 / 8 / FRAME
            packets = max(1, math.floor(bdp))
        else:
            packets = int(self._number("buf", 0.0))
        if packets == 0:
            message = "`buf` is not set, or 0"
            raise self._fail(setting.line, message, "a scenario needs the queue's size")
        return [f'queue = {{ kind = "droptail", size = "{packets} packets" }}']

    def _losses(self) -> list[str]:
        if self._number("out_loss", 0.0) > 0:
            hint = "write it as path.return.loss"
            raise self._fail(self._setting("out_loss").line, "`out_loss` is not imported", hint)
        loss = self._number("loss", 0.0)
        return [f'loss = "{_digits(loss)} %"'] if loss > 0 else []

    def _policer(self) -> list[str]:
        setting = self._setting("policer")
        if setting.value is None:
            return []
        calls = self._steps(setting, "policer", "var_policer")

        def table(call: Call) -> str:
            rate, burst = self._argument(call, "bw"), self._argument(call, "burst")
            if rate == 0 or burst == 0:
                raise self._fail(call.line, "a policer needs a rate and a burst")
            return f'{{ rate = "{_digits(rate)} Mbit/s", burst = "{_digits(burst)} MB" }}'

        self._schedule(calls, lambda call: f"path.policer = {table(call)}")
        return [f"policer = {table(calls[0])}"]

    def _flows(self) -> list[list[str]]:
        setting = self._setting("conn")
        value = "cubic" if setting.value is None else setting.value
        items = value.items if isinstance(value, Call) and value.name == "conns" else (value,)
        if not items:
            raise self._fail(setting.line, "`conns` is empty", "a scenario needs a flow")
        return [self._flow(item, setting.line) for item in items]

    def _flow(self, item: Any, line: int) -> list[str]:
        call = item if isinstance(item, Call) else Call("conn", line, {"cc": item})
        if call.name != "conn":
            message = f"a connection is made with `conn(...)`, not `{call.name}(...)`"
            raise self._fail(call.line, message)
        cc = call.arguments.get("cc", "cubic")
        cc = cc if isinstance(cc, str) else type(cc).__name__
        if cc not in CONTROLLERS:
            message = f"no controller is known for `{cc[:40]}`"
            raise self._fail(call.line, message, "known are " + ", ".join(CONTROLLERS))
        self._absent(call, ("burst",), "there is no request-response application here")
        why = 'data flows in one direction; direction = "up" turns a flow'
        self._absent(call, ("upload",), why)
        if call.arguments.get("params"):
            self._note(call.line, "`params` is left out: options of a module are `cc = { ... }`")
        lines = [f'cc = "{CONTROLLERS[cc]}"']
        count = int(self._argument(call, "num", 1.0))
        if count == 0:
            raise self._fail(call.line, "`num` of `conn` is 0")
        if count > 1:
            lines.append(f"count = {count}")
        start, lasts = self._argument(call, "start"), self._argument(call, "dur")
        if start > 0:
            lines.append(f'start = "{_digits(start)} s"')
        if lasts > 0:
            lines.append(f'stop = "{_digits(start + lasts)} s"')
        size = self._argument(call, "size")
        if size > 0:
            lines.append(f'app = {{ size = "{int(size)} B" }}')
        if self.sender_rtts:
            sender = int(self._argument(call, "sender"))
            if sender not in self.sender_rtts:
                raise self._fail(call.line, f"`mixed_rtt` has no rtt for sender {sender}")
            lines.append(f'rtt = "{_digits(self.sender_rtts[sender])} ms"')
        return lines

    def _expectations(self) -> list[str]:
        value = self._setting("check").value
        if not isinstance(value, Call) or value.name != "check_with_scores":
            return []
        scores = value.arguments.get("scores")
        if not isinstance(scores, dict):
            raise self._fail(value.line, "`check_with_scores` takes a table of scores")
        lines = []
        for key, score in scores.items():
            least = self._as_number(score, f"`{key}`", value.line)
            if key == "tput":
                lines.append(f'goodput_bps = ">= {_digits(self.bw * least / 100)} Mbit/s"')
            elif key == "rtt_med" and least > 0:
                lines.append(f'rtt_p50_ns = "<= {_digits(self.rtt * 100 / least)} ms"')
            elif key == "loss_avoid":
                lines.append(f'retransmit_ratio = "<= {_digits(max(0.0, 100 - least))} %"')
            else:
                self._note(value.line, f"`{key}` has no metric of the same definition")
        return ["", "[expect]", *lines] if lines else []


def _digits(value: float) -> str:
    """Return a decimal number with at most as many places as units keep."""
    return f"{value:.6f}".rstrip("0").rstrip(".")


IMPORT = Import(
    "transperf",
    "a transperf configuration, parsed and never executed",
    # Its configurations are Python programs, some without an extension.
    lambda _, path: path.suffix in (".py", ""),
    read,
)
