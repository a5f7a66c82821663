"""The path of a scenario as boxes from sender to receiver, for a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from paceline.reading import toml as parsed


class Box(NamedTuple):
    """A host or a link: its name, and its properties, line by line."""

    kind: str
    title: str
    lines: list[str]


#: The impairments of a link beyond queueing, and their labels.
_IMPAIRMENTS = {
    "loss": "loss",
    "jitter": "jitter",
    "reorder": "reordering",
    "duplicate": "duplication",
    "policer": "policer",
    "aggregation": "aggregation",
    "grant_delay": "grants after",
    "ack_thinning": "one ACK of",
    "ack_filter": "ACK filter",
}


_MARKING = {"mark": "marks above", "red": "RED"}


def about(toml: str) -> str:
    """Return a scenario's description."""
    return " ".join(str(_read(toml).get("about", "")).split())


def boxes(toml: str) -> list[Box]:
    """Return the boxes of a scenario: senders, the links in order, receivers."""
    scenario = _read(toml)
    path = next(_tables([scenario.get("path")]), {})
    flows = list(_tables(scenario.get("flows")))
    count: Counter[str] = Counter()
    for group in flows:
        cc = group.get("cc", "")
        name = str(cc.get("name", "") if isinstance(cc, dict) else cc)
        stack, many = group.get("stack", "paceline"), group.get("count", 1)
        count[name if stack == "paceline" else f"{name} on {stack}"] += (
            many if isinstance(many, int) else 1
        )
    total = sum(count.values())
    senders = [f"{number} x {name}" if number > 1 else name for name, number in count.items()]
    title = "1 sender" if total == 1 else f"{total} senders"
    links = [path, *_tables(scenario.get("links"))]
    crossed = [Box("link", str(link.get("name", "link")), _link(link)) for link in links]
    for box, link in zip(crossed, links, strict=True):
        if isinstance(back := link.get("return"), dict):
            box.lines.extend(f"return: {line}" for line in _link(back) or ["unlimited"])
    rtts = sorted({str(group["rtt"]) for group in flows if "rtt" in group})
    rtt = [f"RTT {path.get('rtt', '')}"] if len(rtts) != 1 else []
    if rtts:
        rtt.append("own RTTs " + ", ".join(rtts) if len(rtts) > 1 else f"RTT {rtts[0]}")
    return [
        Box("host", title, senders),
        *crossed,
        Box("host", "1 receiver" if total == 1 else f"{total} receivers", rtt),
    ]


def _read(toml: str) -> dict[str, Any]:
    try:
        return parsed(toml)
    except ValueError:
        return {}


def _tables(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the tables of a list: the scenario of a record may come from anyone."""
    for table in value if isinstance(value, list) else ():
        if isinstance(table, dict):
            yield table


def _link(link: dict[str, Any]) -> list[str]:
    lines = []
    rate = link.get("rate")
    if isinstance(rate, dict):
        lines.append(" ".join(f"{key} {value}" for key, value in rate.items()))
    elif rate is not None:
        lines.append(str(rate))
    if "delay" in link:
        lines.append(f"delay {link['delay']}")
    queue = link.get("queue")
    if isinstance(queue, dict):
        size = f"queue {queue['size']}" if "size" in queue else "queue"
        lines.append(f"{queue.get('kind', 'droptail')} {size}")
        marking = ((name, queue[key]) for key, name in _MARKING.items() if key in queue)
        lines += [f"{name} {_written(value)}" for name, value in marking]
    for key, name in _IMPAIRMENTS.items():
        value = link.get(key)
        if value not in (None, "0 s", "0 ns", "0 ms", "0 %", "off", "1 packet"):
            lines.append(f"{name} {_written(value)}")
    return lines


def _written(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_written(inner)}" for key, inner in value.items())
    return str(value)
