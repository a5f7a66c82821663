"""Queries of claims and cases: a part of SQL that reads a run's own tables and nothing else.

A query is data from outside, and polars' SQL opens files and addresses. So it is parsed first, and
refused unless every node, type, function and table is on the lists below. What runs is text
generated from the parsed tree, not the text that was given, so the two readers cannot differ.

It is asked part by part: first what its WITH defines, each once and kept. So the sizes of all that
a part reads are known before it runs, and a join that would be too large is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import sqlglot
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import SqlglotError

from paceline.later import polars as pl

#: The column with the result of a query that judges.
HOLDS = "holds"

#: The tables of a run.
TABLES = frozenset({"flows", "samples", "queue", "events", "packets"})

#: Maximum length of a query, depth of parentheses, and depth of its tree.
_LENGTH, _PARENTHESES, _DEPTH = 4000, 32, 64

#: Values (rows times the columns that are named) of joined tables, every row with every other; rows
#: that a query goes through, or that many times all rows of the run.
_JOINED, _ROWS, _TIMES = 100_000_000, 100_000_000, 64

_KINDS: frozenset[type[exp.Expr]] = frozenset({
    # Clauses and names
    exp.Select, exp.From, exp.Join, exp.Where, exp.Group, exp.Having, exp.Order, exp.Ordered,
    exp.Limit, exp.Distinct, exp.With, exp.CTE, exp.Subquery, exp.Window, exp.Filter, exp.Paren,
    exp.Table, exp.TableAlias, exp.Column, exp.Alias, exp.Identifier, exp.Star,
    # Values and operators
    exp.Literal, exp.Boolean, exp.Null, exp.Cast, exp.DataType, exp.Case, exp.If, exp.Neg,
    exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.And, exp.Or, exp.Not,
    exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between, exp.In, exp.Is, exp.Like,
    # Functions
    exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max, exp.Median, exp.Stddev, exp.Variance,
    exp.Abs, exp.Ceil, exp.Floor, exp.Round, exp.Sqrt, exp.Exp, exp.Ln, exp.Log, exp.Pow,
    exp.Coalesce, exp.Nullif, exp.Greatest, exp.Least, exp.Lag, exp.Lead,
})  # fmt: skip
_TYPES = frozenset({"DOUBLE", "FLOAT", "INT", "BIGINT", "UBIGINT", "TEXT", "BOOLEAN"})


class QueryError(ValueError):
    """An invalid query, or one that asks for more than the tables of its run."""


class _Polars(DuckDB):
    """DuckDB's SQL, which is polars' as far as it is used here, except for the order in `LOG`."""

    LOG_BASE_FIRST = False


@dataclass(frozen=True)
class Query:
    """A query that has been parsed and checked."""

    #: The original text.
    text: str
    #: The generated text: of each WITH definition by name, and of the query itself by none.
    parts: tuple[tuple[str, str], ...]
    _trees: tuple[exp.Expr, ...] = field(compare=False, repr=False)

    @classmethod
    def read(cls, text: str, tables: frozenset[str] = TABLES) -> Query:
        """Read one over these tables; raises `QueryError`."""
        if not re.match(r"\s*(SELECT|WITH)\b", text, re.IGNORECASE):
            raise QueryError("is a query: SELECT ... FROM ...")
        if len(text) > _LENGTH:
            raise QueryError(f"is longer than {_LENGTH} characters")
        if _nesting(text) > _PARENTHESES:
            raise QueryError(f"has more than {_PARENTHESES} nested parentheses")
        try:
            [tree] = sqlglot.parse(text, read=_Polars)
            if tree is None:
                raise QueryError("is empty")
            _check(tree, tables)
            for division in tree.find_all(exp.Div):
                # Polars divides by zero to infinity or NaN, which it takes to be above any bound.
                zero = exp.Literal.number(0)
                division.set("expression", exp.Nullif(this=division.expression, expression=zero))
            parts = [(cte.alias, cte.this) for cte in tree.find_all(exp.CTE)] + [("", tree)]
            tree.set("with_", None)
            clauses = ((name, _written(part)) for name, part in parts)
            return cls(text, tuple(clauses), tuple(part for _, part in parts))
        except SqlglotError as error:
            errors = getattr(error, "errors", None) or [{"description": "cannot be read"}]
            raise QueryError(_plain(errors[0].get("description"))) from error
        except RecursionError as error:
            raise QueryError("is nested too deeply") from error
        except ValueError as error:
            if isinstance(error, QueryError):
                raise
            raise QueryError("is more than one statement") from error

    @property
    def names(self) -> frozenset[str]:
        """The tables and columns that it names."""
        named = (exp.Table, exp.Column)
        return frozenset(node.name for tree in self._trees for node in tree.find_all(*named))

    @property
    def words(self) -> frozenset[str]:
        """The texts that it compares with."""
        texts = (node for tree in self._trees for node in tree.find_all(exp.Literal))
        return frozenset(node.name for node in texts if node.is_string)

    def execute(self, tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
        """Return the result; raises polars' errors, and `QueryError` if it is too expensive."""
        return self._frames(tables)[""]

    def judge(self, tables: Mapping[str, pl.DataFrame]) -> tuple[pl.DataFrame, bool]:
        """Return the result as `execute`, and whether it comes from something.

        No row breaks a rule where there is no row, or where what the rule asks for is null in each;
        and none is later than an event that did not happen.
        """
        frames = self._frames(tables)
        result = frames.pop("")
        context = pl.SQLContext(frames, eager=True)
        grounds = (context.execute(_written(select)) for select in self._grounds())
        return result, all(frame.to_series().drop_nulls().len() for frame in grounds)

    def _grounds(self) -> Iterator[exp.Expr]:
        """Yield queries, each of which has a value if the result comes from something."""
        for tree in self._trees:
            for where in tree.find_all(exp.Where):
                yield from (inner.this for inner in where.find_all(exp.Subquery))
        for cell in self._trees[-1].expressions:
            # The other columns are not judged.
            if cell.alias == HOLDS:
                for rule in cell.find_all(exp.Filter):
                    known = exp.Count(this=exp.Paren(this=rule.expression.this.copy()))
                    ground = rule.find_ancestor(exp.Select).copy()
                    zero = exp.Literal.number(0)
                    ground.set("expressions", [exp.Nullif(this=known, expression=zero)])
                    yield ground

    def _frames(self, tables: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
        """Return the tables, those that WITH defines, and the result by no name."""
        left = max(_ROWS, _TIMES * sum(frame.height for frame in tables.values()))
        frames = dict(tables)
        for (name, sql), tree in zip(self.parts, self._trees, strict=True):
            left -= _measure(tree, {name: frame.shape for name, frame in frames.items()})[2]
            if left < 0:
                raise QueryError("reads its tables too often")
            frames[name] = pl.SQLContext(frames, eager=True).execute(sql)
        return frames


def _written(tree: exp.Expr) -> str:
    return tree.sql(_Polars, identify=True, comments=False)


def _check(tree: exp.Expr, tables: frozenset[str]) -> None:
    """Refuse everything that is not on the lists."""
    named = [cte.alias for cte in tree.find_all(exp.CTE)]
    twice = next((name for name in named if name in tables or named.count(name) > 1), None)
    if twice is not None:
        raise QueryError(f"may not define {twice!r}: that is another table")
    known = tables.union(named)
    for node in tree.walk():
        if type(node) not in _KINDS:
            raise QueryError(f"may not use {_named(node)}")
        if node.depth > _DEPTH:
            raise QueryError("is nested too deeply")
        match node:
            case exp.Table():
                if not isinstance(node.this, exp.Identifier) or node.args.get("db"):
                    raise QueryError(f"may not read {_plain(node.sql(_Polars))}: it is not a table")
                if node.name not in known:
                    there = ", ".join(sorted(tables))
                    raise QueryError(f"asks for a table {node.name!r}; there are {there}")
            case exp.Column() if node.args.get("db"):
                raise QueryError(f"may not read {_plain(node.sql(_Polars))}: it is not a column")
            case exp.DataType() if node.this.value not in _TYPES or node.expressions:
                raise QueryError(f"may not use the type {_plain(node.sql(_Polars))}")
            case exp.With() if node.args.get("recursive"):
                raise QueryError("may not be recursive")
            case exp.With() if node.parent is not tree:
                raise QueryError("may have WITH only at its start")
            case exp.Identifier() | exp.Literal():
                if not node.name.isprintable() or "\\" in node.name:
                    raise QueryError(f"may not use the characters of {node.name!r}")


def _measure(select: exp.Expr, tables: Mapping[str, tuple[int, int]]) -> tuple[int, int, int]:
    """Return the maximum rows and columns of a query's result, and the rows it reads.

    Raises `QueryError` for a join that may be too large: it is taken for all pairs of rows.
    """
    rows, width, work, several = 1, 0, 0, 0
    for part in [select.args.get("from_"), *select.args.get("joins", ())]:
        for source in _nodes(part, exp.Table, exp.Select):
            if isinstance(source, exp.Table):
                high, wide = tables.get(source.name, (0, 0))
                more = high
            else:
                high, wide, more = _measure(source, tables)
            rows, width, work = rows * max(high, 1), width + wide, work + more
            several += high > 1
    if not any(cell.is_star for cell in select.expressions):
        width = len({column.name for column in select.find_all(exp.Column)}) or 1
    if several > 1 and rows * width > _JOINED:
        joined = f"{rows:,} rows of {width} columns"
        raise QueryError(f"joins tables to up to {joined}; {_JOINED:,} values are the limit")
    others = (clause for name, clause in select.args.items() if name not in ("from_", "joins"))
    for clause in others:
        for part in clause if isinstance(clause, list) else [clause]:
            work += sum(_measure(inner, tables)[2] for inner in _nodes(part, exp.Select))
    limit = select.args.get("limit")
    most = int(limit.expression.name) if limit and limit.expression.is_int else rows
    if not select.args.get("group") and all(map(_is_one, select.expressions)):
        most = 1
    return min(rows, most), width, work + rows


def _nodes(part: object, *kinds: type[exp.Expr]) -> list[exp.Expr]:
    """Return the nodes of a kind in a clause, except those in nested queries."""
    if not isinstance(part, exp.Expr):
        return []
    nodes = part.walk(prune=lambda node: isinstance(node, exp.Select))
    return [node for node in nodes if isinstance(node, kinds)]


def _is_one(cell: exp.Expr) -> bool:
    """Return whether an expression gives one value for all rows: only aggregates."""
    nodes = list(cell.walk(prune=lambda node: isinstance(node, exp.AggFunc | exp.Select)))
    others = exp.Column | exp.Window | exp.Star
    return any(isinstance(node, exp.AggFunc) for node in nodes) and not any(
        isinstance(node, others) for node in nodes
    )


def _named(node: exp.Expr) -> str:
    name = node.name if isinstance(node, exp.Anonymous) else node.key
    return f"{name.upper()!r}"


def _nesting(text: str) -> int:
    depth = deepest = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        deepest = max(deepest, depth)
    return deepest


def _plain(text: object) -> str:
    """Return one line of a message."""
    return " ".join(str(text).split())[:200]
