"""Queries of claims and cases: a part of SQL that reads a run's own tables and nothing else.

A query is data from outside, and polars' SQL opens files and addresses. So it is parsed first, and
refused unless every node, type, function and table is on the lists below. What runs is text
generated from the parsed tree, not the text that was given, so the two readers cannot differ.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl
import sqlglot
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import SqlglotError

#: The tables of a run.
TABLES = frozenset({"flows", "samples", "queue", "events", "packets"})

#: Longest query, deepest parentheses, and deepest tree.
_LENGTH, _PARENTHESES, _DEPTH = 4000, 32, 64

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
    """A query that is not one, or that asks for more than the tables of its run."""


class _Polars(DuckDB):
    """DuckDB's SQL, which is polars' as far as it is used here, but for the order in `LOG`."""

    LOG_BASE_FIRST = False


@dataclass(frozen=True)
class Query:
    """A query that has been read and found harmless."""

    #: As it was written.
    text: str
    #: As it is asked.
    sql: str

    @classmethod
    def read(cls, text: str, tables: frozenset[str] = TABLES) -> Query:
        """Read one over these tables; raises `QueryError`."""
        if not re.match(r"\s*(SELECT|WITH)\b", text, re.IGNORECASE):
            raise QueryError("is a query: SELECT ... FROM ...")
        if len(text) > _LENGTH:
            raise QueryError(f"is longer than {_LENGTH} characters")
        if _nesting(text) > _PARENTHESES:
            raise QueryError(f"has more than {_PARENTHESES} parentheses in each other")
        try:
            trees = sqlglot.parse(text, read=_Polars)
            [tree] = trees
            if tree is None:
                raise QueryError("is empty")
            _check(tree, tables)
            return cls(text, tree.sql(_Polars, identify=True, comments=False))
        except SqlglotError as error:
            said = getattr(error, "errors", None) or [{"description": "cannot be read"}]
            raise QueryError(_plain(said[0].get("description"))) from error
        except RecursionError as error:
            raise QueryError("is nested too deeply") from error
        except ValueError as error:
            if isinstance(error, QueryError):
                raise
            raise QueryError("is more than one statement") from error

    def ask(self, tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
        """Return the answer; raises polars' errors."""
        return pl.SQLContext(dict(tables), eager=True).execute(self.sql)


def _check(tree: exp.Expr, tables: frozenset[str]) -> None:
    """Refuse what is not on the lists."""
    known = tables | {cte.alias for cte in tree.find_all(exp.CTE)}
    for node in tree.walk():
        if type(node) not in _KINDS:
            raise QueryError(f"may not use {_named(node)}")
        if node.depth > _DEPTH:
            raise QueryError("is nested too deeply")
        match node:
            case exp.Table():
                if not isinstance(node.this, exp.Identifier) or node.args.get("db"):
                    raise QueryError(f"may not read {_plain(node.sql(_Polars))}: it is no table")
                if node.name not in known:
                    there = ", ".join(sorted(tables))
                    raise QueryError(f"asks for a table {node.name!r}; there are {there}")
            case exp.Column() if node.args.get("db"):
                raise QueryError(f"may not read {_plain(node.sql(_Polars))}: it is no column")
            case exp.DataType() if node.this.value not in _TYPES or node.expressions:
                raise QueryError(f"may not use the type {_plain(node.sql(_Polars))}")
            case exp.With() if node.args.get("recursive"):
                raise QueryError("may not be recursive")
            case exp.Identifier() | exp.Literal():
                if not node.name.isprintable() or "\\" in node.name:
                    raise QueryError(f"may not use the characters of {node.name!r}")


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
