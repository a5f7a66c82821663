"""The readers in Python with libFuzzer, by atheris: inputs that reach more of a reader lead to others.

PYTHONPATH=python:tests python fuzz/readers.py claim fuzz/corpus/claim fuzz/seeds/claim -runs=1000000

`tests/test_fuzz.py` has the readers, and asks the same of inputs that are bent at random. Whatever follows the name
of a reader is for libFuzzer; the seeds of the reader are read besides. Needs a Python that atheris has a wheel for.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["paceline", "tomllib", "json", "tornado"]):
    import paceline.cli
    import test_fuzz


def main() -> None:
    """Give a reader what libFuzzer makes."""
    name, *arguments = sys.argv[1:]
    reader, _ = test_fuzz.READERS[name]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for part in ("runs", "seeds", "given"):
            (folder / part).mkdir()
        with test_fuzz.prepared(folder / "runs"):
            for nth, octets in enumerate(test_fuzz.corpus(name)):
                (folder / "seeds" / str(nth)).write_bytes(octets)
            given = ["readers", *arguments, str(folder / "seeds")]
            atheris.Setup(given, lambda octets: reader(octets, folder / "given"))
            atheris.Fuzz()


if __name__ == "__main__":
    main()
