"""A sweep as one data set: a row for each run, for each of its flows, and for each point.

The tables of runs are Parquet below a folder for each point of the first axis
(``runs/path.rate=10 Mbit%2Fs/part-0.parquet``), as Hive lays them out: polars, DuckDB, pyarrow and
Spark read the folder as one table, and leave out what they need not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from paceline import answers, store
from paceline.grid import Axis, Grid, measured, places
from paceline.later import polars as pl
from paceline.measures import names as metrics
from paceline.measures import times
from paceline.reading import read_parquet
from paceline.statistics import aggregate

#: Maximum number of points of the first axis that have their own folder.
_PARTITIONS = 64

#: Maximum length of a folder's name.
_NAME = 200

#: A partition is one file.
_FILE = "part-0.parquet"


def partition(grid: Grid, point: int) -> Path:
    """Return the folder of a point within a table's."""
    paths = _partitions(grid.axes[0])
    return paths[point * len(paths) // len(grid.points)]


@lru_cache(maxsize=8)
def _partitions(axis: Axis) -> list[Path]:
    paths = [
        Path(*(f"{key}={quote(value, safe=' ,+')}" for key, value in point.overrides))
        for point in axis.points
    ]
    # A draw has no name. A long name is that of a trace, or in another script with three bytes per
    # character.
    too_long = axis.drawn or any(len(part) > _NAME for path in paths for part in path.parts)
    return [Path()] if too_long or len(paths) > _PARTITIONS else paths


def keys(grid: Grid) -> dict[str, Any]:
    """Return the columns with a run's position in the grid, with their types."""
    known = ((int, pl.Int64), (float, pl.Float64))
    types: dict[str, Any] = {}
    for axis in grid.axes:
        for nth, key in enumerate(axis.keys):
            values = [point.overrides[nth][1] for point in axis.points]
            types[key] = next((t for read, t in known if _all(read, values)), pl.String)
    return types


def _all(read: Any, values: Iterable[str]) -> bool:
    try:
        return all(str(read(value)) == value for value in values)
    except ValueError:
        return False


def _metrics(scope: str) -> dict[str, Any]:
    return {name: pl.Float64 if name.endswith("_ratio") else pl.Int64 for name in metrics(scope)}


def limit_of(metric: str) -> str:
    """Return the column with what an undefined time is longer than."""
    return f"{metric.removesuffix('_ns')}_censored_ns"


def _limits(scope: str, rows: Iterable[Mapping[str, Any]]) -> dict[str, list[int | None]]:
    limits = [row.get("censored", {}) for row in rows]
    return {limit_of(name): [limit.get(name) for limit in limits] for name in times(scope)}


def runs(grid: Grid, records: Mapping[int, Mapping[str, Any]]) -> pl.DataFrame:
    """Return a row for each run: its position, its seed, and its metrics."""
    columns = _metrics("run")
    kept = [records[number] for number in sorted(records)]
    every = [record.get("metrics", {}) for record in kept]
    values = {
        **_where(grid, sorted(records)),
        "error": [record.get("error") for record in kept],
        **{name: [metrics.get(name) for metrics in every] for name in columns},
        **_limits("run", kept),
    }
    limits = dict.fromkeys(map(limit_of, times("run")), pl.Int64)
    schema = {**_where_types(grid), "error": pl.String, **columns, **limits}
    return _typed(grid, pl.DataFrame(values, schema=schema))


def flows(grid: Grid, records: Mapping[int, Mapping[str, Any]]) -> pl.DataFrame:
    """Return a row for each flow of each run."""
    columns = {"flow": pl.UInt32, "cc": pl.String, "label": pl.String, **_metrics("flow")}
    pairs = [(number, f) for number in sorted(records) for f in records[number].get("flows", [])]
    values = {
        **_where(grid, [number for number, _ in pairs]),
        **{name: [flow.get(name) for _, flow in pairs] for name in columns},
        **_limits("flow", [flow for _, flow in pairs]),
    }
    columns |= dict.fromkeys(map(limit_of, times("flow")), pl.Int64)
    return _typed(grid, pl.DataFrame(values, schema={**_where_types(grid), **columns}))


def settings(grid: Grid) -> dict[str, list[Any]]:
    """Return the settings of each point as columns, whose names end in the unit.

    Times, rates and volumes are whole numbers in ns, bit/s and bytes, and per cent are ratios. What
    has several units, or none, is as it was written.
    """
    columns = {}
    for axis in grid.axes:
        for nth, key in enumerate(axis.keys):
            texts = [point.overrides[nth][1] for point in axis.points]
            end, values = _read(texts)
            known = dict(zip(texts, values, strict=True))
            columns[key + end] = [known[dict(point)[key]] for point in grid.points]
    return columns


def _read(texts: list[str]) -> tuple[str, list[Any]]:
    """Return the unit of values as the end of a name, and the values."""
    if table := measured(texts):
        return table
    at, unit = places(texts)
    if unit == "%":
        return "_ratio", [at[text] / 100 for text in texts]
    if unit:
        return f"_{unit}", [at[text] for text in texts]
    for number in (int, float):
        with suppress(ValueError):
            return "", [number(text) for text in texts]
    return "", texts


def _where(grid: Grid, numbers: list[int]) -> dict[str, list[Any]]:
    """Return the columns that identify their runs."""
    places = [dict(point) for point in grid.points]
    at = [places[grid.point_of(number)] for number in numbers]
    return {
        "run": numbers,
        **{key: [place[key] for place in at] for key in keys(grid)},
        "seed": [grid.seed_of(number) for number in numbers],
    }


def _where_types(grid: Grid) -> dict[str, Any]:
    return {"run": pl.UInt32, **_text(grid), "seed": pl.Int64}


def _text(grid: Grid) -> dict[str, Any]:
    return dict.fromkeys(keys(grid), pl.String)


def _typed(grid: Grid, frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.col(key).cast(type_) for key, type_ in keys(grid).items())


def together(grid: Grid, frame: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each point and metric: its mean, its median and their 95 % intervals."""
    seeds = len(grid.seeds)
    columns = {name: (frame[name].to_list(), limits_in(frame, name)) for name in _metrics("run")}
    rows = []
    for point, place in enumerate(grid.points):
        part = slice(point * seeds, (point + 1) * seeds)
        for name, (cells, limits) in columns.items():
            statistics = over_seeds(cells[part], limits[part])
            if statistics is not None:
                rows.append({**dict(place), "metric": name, **statistics})
    schema = {**_text(grid), "metric": pl.String}
    schema |= {name: getattr(pl, kind) for name, kind in _STATISTICS.items()}
    return _typed(grid, pl.DataFrame(rows, schema=schema))


#: Statistics of a metric at a point, by the columns that hold them.
_STATISTICS = {
    **dict.fromkeys(("mean", "median", "low", "high", "median_low", "median_high"), "Float64"),
    **dict.fromkeys(("count", "runs", "censored"), "UInt32"),
    "coverage_ratio": "Float64",
}


def limits_in(frame: pl.DataFrame, metric: str) -> list[int | None]:
    """Return what an undefined time is longer than, for each row; an old data set has none."""
    column = limit_of(metric)
    return frame[column].to_list() if column in frame.columns else [None] * frame.height


def over_seeds(
    values: Sequence[float | None], limits: Sequence[float | None]
) -> answers.Statistics | None:
    """Return the statistics of a metric over the seeds of a point."""
    return aggregate([None if v is None else float(v) for v in values], limits)


def means(grid: Grid, frame: pl.DataFrame, metric: str) -> list[dict[str, Any] | None]:
    """Return a metric's statistics at each point, from the result of `together`."""
    places = _typed(grid, pl.DataFrame(list(map(dict, grid.points)), schema=_text(grid)))
    those = frame.filter(pl.col("metric") == metric)
    joined = places.join(those, on=list(keys(grid)), how="left", maintain_order="left")
    columns = joined.select(name for name in _STATISTICS if name in joined.columns)
    # What an older version wrote has no number of runs.
    rest = {"runs": len(grid.seeds), "censored": 0, "coverage_ratio": 0.95}
    return [None if row["mean"] is None else rest | row for row in columns.iter_rows(named=True)]


def table(grid: Grid, name: str, number: int) -> Path:
    """Return the path of a table of a run, in the sweep's folder."""
    return Path(name) / partition(grid, grid.point_of(number)) / f"run-{number:06}.parquet"


def names(grid: Grid, tables: Iterable[str]) -> list[str]:
    """Return the names of all files of a data set, in the sweep's folder."""
    parts = [Path(name) / path / _FILE for name in ("runs", "flows") for path in _parts(grid)]
    runs = (table(grid, name, number) for name in tables for number in range(len(grid)))
    return [path.as_posix() for path in (*parts, *runs)]


def write(grid: Grid, folder: Path, name: str, frame: pl.DataFrame) -> None:
    """Write a table as a folder of partitions."""
    points = frame["run"] // len(grid.seeds)
    for path, those in _parts(grid).items():
        place = folder / name / path / _FILE
        place.parent.mkdir(parents=True, exist_ok=True)
        # The folder's name gives what its rows have in common.
        store.replace(place, store.parquet(frame.filter(points.is_in(those)).drop(_hive(grid))))


def _hive(grid: Grid) -> list[str]:
    return list(grid.axes[0].keys) if partition(grid, 0) != Path() else []


def _parts(grid: Grid) -> dict[Path, list[int]]:
    """Return the points of each partition."""
    parts: dict[Path, list[int]] = {}
    for point in range(len(grid.points)):
        parts.setdefault(partition(grid, point), []).append(point)
    return parts


def read(grid: Grid, folder: Path, name: str) -> pl.DataFrame:
    """Read a table, its columns in their original order."""
    types, hive = keys(grid), _hive(grid)
    frames = []
    for path, points in _parts(grid).items():
        # A literal path, not a pattern, whatever the folder's name contains.
        frame = read_parquet(folder / name / path / _FILE)
        common = dict(grid.points[points[0]])
        frames.append(frame.with_columns(pl.lit(common[key]).alias(key) for key in hive))
    first = ["run", *types]
    frame = pl.concat(frames).select(*first, pl.exclude(first)).sort("run", maintain_order=True)
    return _typed(grid, frame)
