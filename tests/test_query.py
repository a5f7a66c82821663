"""Queries of claims and cases: the tables of a run, and nothing else."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest

from conftest import Command
from paceline.query import Query, QueryError
from paceline.study.conformance.case import TABLES as STEP_TABLES

ROOT = Path(__file__).parents[1]
#: A row of /etc/passwd would answer each of the first.
FILE = "'/etc/passwd'"

HOSTILE = [
    # Table functions, however they are written.
    f"SELECT * FROM read_csv({FILE})",
    f"SELECT * FROM READ_CSV ({FILE})",
    f'SELECT * FROM "read_csv"({FILE})',
    f"SELECT * FROM `read_csv`({FILE})",
    f"SELECT * FROM read_csv/**/({FILE})",
    f"SELECT * FROM read_csv\u00a0({FILE})",
    f"SELECT * FROM read_csv -- a note\n({FILE})",
    f"SELECT * FROM (read_csv({FILE}))",
    f"SELECT * FROM TABLE(read_csv({FILE}))",
    f"SELECT * FROM LATERAL read_csv({FILE})",
    f"SELECT * FROM main.read_csv({FILE})",
    f"SELECT * FROM flows, read_csv({FILE})",
    f"SELECT * FROM flows JOIN read_csv({FILE}) ON 1 = 1",
    f"SELECT * FROM flows CROSS JOIN read_csv({FILE}) AS r",
    f"SELECT (SELECT * FROM read_csv({FILE})) AS x FROM flows",
    f"SELECT flow FROM flows WHERE flow IN (SELECT x FROM read_csv({FILE}))",
    f"SELECT flow FROM flows ORDER BY (SELECT x FROM read_csv({FILE}))",
    f"SELECT flow FROM flows LIMIT (SELECT x FROM read_csv({FILE}))",
    f"SELECT flow FROM flows UNION SELECT * FROM read_csv({FILE})",
    f"WITH x AS (SELECT * FROM read_csv({FILE})) SELECT * FROM x",
    f"WITH read_csv AS (SELECT 1) SELECT * FROM read_csv({FILE})",
    f"WITH flows AS (FROM read_csv({FILE})) SELECT * FROM flows",
    "SELECT * FROM read_csv('http://127.0.0.1:1/x')",
    "SELECT * FROM read_parquet('s3://bucket/x')",
    "SELECT * FROM read_ipc('x')",
    "SELECT * FROM read_json('x')",
    "SELECT * FROM scan_csv('x')",
    "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM generate_series(1, 10000000000)",
    "SELECT * FROM UNNEST(ARRAY[1, 2]) AS x",
    # Files as tables.
    f"SELECT * FROM {FILE}",
    'SELECT * FROM "/etc/passwd"',
    "SELECT * FROM `/etc/passwd`",
    "SELECT * FROM [/etc/passwd]",
    "SELECT * FROM a.b",
    "SELECT * FROM a.b.flows",
    "SELECT * FROM nowhere",
    "SELECT * FROM FLOWS2",
    # Other statements, and more than one.
    "COPY flows TO '/tmp/x'",
    "SELECT * INTO OUTFILE '/tmp/x' FROM flows",
    "SELECT * INTO other FROM flows",
    "SELECT 1; DROP TABLE flows",
    "WITH x AS (SELECT 1) DELETE FROM flows",
    "WITH x AS (SELECT 1) INSERT INTO flows SELECT 1",
    "WITH RECURSIVE x AS (SELECT 1 AS a) SELECT a FROM x",
    "CREATE TABLE x AS SELECT 1",
    "ATTACH '/tmp/x'",
    "PRAGMA x",
    "EXPLAIN SELECT 1",
    "FROM flows",
    "VALUES (1)",
    "TABLE flows",
    "",
    ";",
    "SELECT FROM WHERE",
    # Functions and types that are on no list.
    "SELECT getenv('HOME') FROM flows",
    "SELECT content FROM flows WHERE read_text('/etc/passwd') = 'x'",
    "SELECT REPEAT('x', 1000000000) FROM flows",
    "SELECT COLUMNS('x') FROM flows",
    "SELECT x -> y FROM flows",
    "SELECT [1, 2] FROM flows",
    "SELECT {'a': 1} FROM flows",
    "SELECT CAST(cc AS BLOB) FROM flows",
    # Quotation and characters that readers take differently.
    "SELECT 'a\\' FROM flows",
    "SELECT E'\\x41' FROM flows",
    "SELECT $$a$$ FROM flows",
    "SELECT 'a\x00b' FROM flows",
    "SELECT 'a\x1b[31m' FROM flows",
    'SELECT "a\\" FROM flows',
    "SELECT 'open FROM flows",
    "SELECT 1 /* open FROM flows",
    # Long and deep.
    "SELECT " + "1 + " * 2000 + "1 FROM flows",
    "SELECT " + "1+" * 500 + "1 FROM flows",
    "SELECT " + "(" * 500 + "1" + ")" * 500,
    "SELECT " + "(" * 40 + "1" + ")" * 40,
    "SELECT " + "NOT " * 900 + "TRUE",
    "SELECT " + "- " * 1900 + "1",
    "SELECT " + "[" * 1900,
    "SELECT " + "CASE WHEN " * 380 + "1",
    "SELECT * FROM (" * 30 + "flows" + ")" * 30,
]


@pytest.mark.parametrize("text", HOSTILE)
def test_what_asks_for_more_than_the_tables_is_refused(text: str) -> None:
    with pytest.raises(QueryError) as error:
        Query.read(text)
    message = str(error.value)
    assert message.isprintable()
    assert len(message) < 400


@pytest.mark.parametrize(
    "text",
    [
        "SELECT MAX(a) AS x FROM flows",
        "select max(a) as x from flows -- why",
        "SELECT LOG2(a) AS x FROM flows",
        "SELECT a // 2 AS x, a % 2 AS y, a / 2 AS z, -a AS w FROM flows",
        "SELECT CAST(a AS DOUBLE) AS x, CAST(a AS VARCHAR) AS y FROM flows",
        "SELECT COUNT(*) FILTER (WHERE a IS NOT NULL) AS x, COUNT(DISTINCT g) AS y FROM flows",
        "SELECT LAG(a, 1) OVER (PARTITION BY g ORDER BY a) AS x FROM flows ORDER BY a",
        "SELECT CASE WHEN t LIKE 'x%' THEN 1 ELSE COALESCE(g, 0) END AS x FROM flows",
        "WITH x AS (SELECT g, SUM(a) AS s FROM flows GROUP BY g) SELECT MAX(s) AS m FROM x",
        "SELECT f.a AS x FROM flows f JOIN queue q ON f.g = q.g WHERE f.t NOT IN ('y', 'it''s')",
        "SELECT f.a AS x FROM flows f, queue q WHERE q.g = 1 AND f.a BETWEEN 1 AND 2 LIMIT 1",
        'SELECT a AS "time (s)", (SELECT MAX(g) FROM queue) AS g FROM flows WHERE NOT a > 7',
    ],
)
def test_an_answer_is_that_of_the_text_as_it_was_written(text: str) -> None:
    table = pl.DataFrame({"a": [1, 2, 8], "g": [1, 1, 2], "t": ["x", "y", "z"]})
    tables = {"flows": table, "queue": table.head(1)}
    expected = pl.SQLContext(dict(tables), eager=True).execute(text)
    assert Query.read(text).execute(tables).equals(expected)


def shipped() -> Iterator[tuple[str, frozenset[str] | None]]:
    for file in (ROOT / "data" / "claims").glob("*.toml"):
        for claim in tomllib.loads(file.read_text())["claims"]:
            yield from ((query, None) for query in claim.get("values", {}).values())
            for picture in claim.get("pictures", []):
                yield from ((query, None) for query in picture.get("queries", []))
    for file in (ROOT / "data" / "conformance").rglob("*.steps.toml"):
        for step in tomllib.loads(file.read_text())["steps"]:
            yield step["query"], STEP_TABLES


def test_every_shipped_query_is_read() -> None:
    queries = list(shipped())
    assert len(queries) > 200
    for text, tables in queries:
        Query.read(text, *([] if tables is None else [tables]))


CLAIM = """
[[claims]]
id = "H"
topic = "hostile"
source = "none"
published = "nothing"
measured = "mean(c.v)"
accept = ["1 > 0"]
cases.c = {{ scenario = "nowhere.toml" }}
values.v = "{value}"
pictures = [{{ kind = "time", cases = ["c"], queries = ["{picture}"] }}]
"""


@pytest.mark.parametrize("place", ["value", "picture"])
def test_a_hostile_claim_is_refused_before_anything_runs(
    place: str, cli: Command, tmp_path: Path
) -> None:
    texts = dict.fromkeys(("value", "picture"), "SELECT 1 AS x FROM flows")
    texts[place] = "SELECT * FROM read_csv('/etc/passwd')"
    (tmp_path / "claims").mkdir()
    (tmp_path / "claims" / "h.toml").write_text(CLAIM.format(**texts))
    result = cli("claims")
    assert result.returncode == 2
    assert "may not read" in result.stderr
    assert "root:" not in result.stdout + result.stderr


def big(rows: int) -> dict[str, pl.DataFrame]:
    return {"samples": pl.DataFrame({"a": range(rows), "g": 1}), "flows": pl.DataFrame({"f": [7]})}


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) AS n FROM samples AS x, samples AS y",
        "SELECT COUNT(*) AS n FROM samples AS x CROSS JOIN samples AS y",
        "SELECT COUNT(*) AS n FROM samples AS x JOIN samples AS y ON x.g = y.g",
        "SELECT COUNT(*) AS n FROM samples AS x JOIN samples AS y ON x.a < y.a",
        "SELECT COUNT(*) AS n FROM samples AS x, (SELECT a FROM samples) AS y",
        "SELECT COUNT(*) AS n FROM (samples AS x JOIN samples AS y ON x.g = y.g)",
        "SELECT (SELECT COUNT(*) FROM samples AS x, samples AS y) AS n FROM flows",
        "SELECT f FROM flows WHERE f IN (SELECT x.a FROM samples AS x, samples AS y)",
        "SELECT f FROM flows ORDER BY (SELECT MAX(x.a) FROM samples AS x, samples AS y)",
        "WITH x AS (SELECT a FROM samples) SELECT COUNT(*) AS n FROM x, x AS y",
        "WITH x AS (SELECT s.a FROM samples AS s, samples AS t) SELECT MAX(a) AS n FROM x",
        "SELECT COUNT(*) AS n FROM samples, (SELECT (SELECT MAX(f) FROM flows) FROM samples) AS y",
        "SELECT COUNT(*) AS n FROM samples, (SELECT MAX(a) OVER () AS m FROM samples) AS y",
    ],
)
def test_a_join_that_would_be_too_large_is_refused(text: str) -> None:
    query = Query.read(text)
    with pytest.raises(QueryError, match=r"joins tables to up to [0-9,]+ rows of [0-9]+ columns"):
        query.execute(big(20_000))
    # With few rows it is none.
    assert query.execute(big(10)).height <= 10


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) AS n FROM samples, flows",
        "WITH x AS (SELECT a FROM samples WHERE a < 5) SELECT COUNT(*) AS n FROM samples, x",
        "WITH x AS (SELECT g, MAX(a) AS m FROM samples GROUP BY g) SELECT m FROM flows, x LIMIT 1",
        "WITH x AS (SELECT g AS h FROM samples GROUP BY g) SELECT MAX(a) AS n FROM samples, x",
        "SELECT MAX(a - m) AS n FROM samples, (SELECT MIN(a) + 1 AS m FROM samples) AS y",
        "SELECT COUNT(*) AS n FROM samples, (SELECT a AS b FROM samples LIMIT 3) AS y",
    ],
)
def test_a_join_of_a_table_with_few_rows_is_answered(text: str) -> None:
    assert Query.read(text).execute(big(10_000)).height == 1


def test_what_a_query_defines_is_done_once() -> None:
    """Each part names the one before twice: in one piece that would be done 2^40 times."""
    names = [f"x{n}" for n in range(40)]
    parts = ["x0 AS (SELECT f AS v FROM flows)"]
    again = "(SELECT v + (SELECT MAX(v) FROM {last}) - v AS v FROM {last})"
    parts += [f"{name} AS {again.format(last=last)}" for last, name in pairwise(names)]
    answer = Query.read(f"WITH {', '.join(parts)} SELECT v FROM {names[-1]}").execute(big(1))
    assert answer["v"].to_list() == [7]


def test_a_query_goes_through_its_tables_so_often_and_no_more() -> None:
    inner = ", ".join(f"(SELECT COUNT(*) FROM samples x, samples y) m{n}" for n in range(60))
    query = Query.read(f"SELECT {inner} FROM flows")
    assert query.execute(big(10)).width == 60
    with pytest.raises(QueryError, match="too often"):
        query.execute(big(2_000))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("WITH flows AS (SELECT 1 AS a FROM queue) SELECT a FROM flows", "another table"),
        ("WITH x AS (SELECT 1 AS a), x AS (SELECT 2 AS a) SELECT a FROM x", "another table"),
        ("SELECT a FROM (WITH x AS (SELECT 1 AS a) SELECT a FROM x) AS y", "only at its start"),
    ],
)
def test_a_name_means_one_table(text: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        Query.read(text)
