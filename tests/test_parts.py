"""Verbs with parts: each part has its own options, examples and help."""

from __future__ import annotations

import re
from collections.abc import Iterator

from conftest import Command
from paceline.cli import verbs
from paceline.cli.app import app


def parts() -> Iterator[tuple[str, str]]:
    """Yield the verbs that have parts, and each part."""
    verbs.load()
    for verb in verbs.VERBS:
        yield from ((verb, name) for name in app[verb] if not name.startswith("-"))


def options(text: str) -> set[str]:
    return set(re.findall("--[a-z][a-z-]+", text))


def test_a_part_of_a_verb_shows_only_its_own_options(cli: Command) -> None:
    for verb, own, others in (
        ("vm prepare", {"--kernel", "--modules", "--quiet"}, {"--out", "--seed"}),
        ("vm trace", {"--out", "--seed"}, {"--kernel", "--quiet"}),
        ("kernel load", {"--set"}, {"--duration", "--out"}),
        ("kernel record", {"--duration", "--out", "--memory"}, {"--set"}),
        ("perf server", {"--once", "--max-time"}, {"--token", "--cc"}),
        ("perf client", {"--token", "--cc", "--streams"}, {"--once", "--max-time"}),
        ("reference list", {"--json"}, {"--packets", "--out"}),
        ("reference export", {"--packets", "--out"}, set()),
    ):
        said = cli(*verb.split(), "--help").stdout
        assert own <= options(said), verb
        assert options(said).isdisjoint(others), verb
        assert "For `" not in said
    found = set(parts())
    assert {verb for verb, _ in found} == {"kernel", "perf", "reference", "vm"}
    for verb, name in found:
        said = cli(verb, name, "--help").stdout
        examples = [line.split() for line in said.splitlines() if line.startswith(" paceline ")]
        assert examples, (verb, name)
        assert all(words[1:3] == [verb, name] for words in examples)


def test_a_verb_with_parts_says_which(cli: Command) -> None:
    for words, message in (
        (("vm",), "`paceline vm` needs a part"),
        (("vm", "lst"), "`paceline vm` has no part 'lst' hint: did you mean list?"),
        (("kernel", "list", "--set", "a=1"), "`paceline kernel load` has it"),
        (("perf", "client", "--once"), "`paceline perf server` has it"),
        (("reference", "list", "--kernel", "x"), "`paceline reference list` has no option"),
        (("vm", "list", "x"), "`paceline vm list` takes no argument, and 'x' is too much"),
    ):
        result = cli(*words)
        assert result.returncode == 2
        assert message in " ".join(result.stderr.split()), result


def test_an_option_may_come_before_the_part(cli: Command) -> None:
    after = cli("reference", "list", "b1", "--json")
    assert after.returncode == 0
    assert cli("reference", "--json", "list", "b1") == after
