"""The files in the package: scenarios, claims, criteria, conformance cases and templates.

In the sources these are links to the folders of the same names. The golden traces of Linux are not
among them: they are larger than all the rest.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from paceline.names import nearest

Kind = Literal["scenarios", "claims", "evaluation", "conformance", "include", "templates"]


def folder(kind: Kind) -> Path:
    """Return a folder of the package's files."""
    return Path(str(files("paceline") / "shipped" / kind))


def nearest_folder(kind: Kind) -> Path:
    """Return the folder of that name in the current folder, or else ours."""
    return _here(kind) or folder(kind)


def scenarios() -> dict[str, Path]:
    """Return the included scenarios, by names such as ``bbr3/cellular``."""
    root = folder("scenarios")
    files = sorted(root.rglob("*.toml"))
    return {path.relative_to(root).with_suffix("").as_posix(): path for path in files}


def scenario(name: str) -> Path | None:
    """Return the scenario of this name, or one whose name begins with it.

    ``four-flows`` is ``bbr3/four-flows-50M-40ms-1bdp``: of several the shortest, and of these the
    first.
    """
    known = scenarios()
    name = name.removesuffix(".toml").removeprefix("scenarios/")
    exact = [full for full in known if name in (full, full.rpartition("/")[2])]
    begun = [full for full in known for one in (full, full.rpartition("/")[2]) if _of(one, name)]
    chosen = exact or sorted(begun, key=lambda full: (len(full.rpartition("/")[2]), full))
    return known[chosen[0]] if chosen else None


def lessons() -> dict[str, dict[str, Any]]:
    """Return the playground's lessons, by the names of their scenarios."""
    import tomllib  # only the lessons need it

    text = (files("paceline") / "web" / "lessons.toml").read_text("utf-8")
    return {lesson.pop("scenario"): lesson for lesson in tomllib.loads(text)["lesson"]}


def lesson(path: Path) -> dict[str, str]:
    """Return the texts of a scenario's lesson; nothing if the scenario is not one of a lesson."""
    import shlex  # only the lessons need it

    content = lessons().get(path.stem) if path.parent.name == "lessons" else None
    if content is None:
        return {}
    options = " ".join(f"--set {shlex.quote(one)}" for one in content["set"])
    return {
        "lesson": content["text"],
        "change": content["do"],
        "command": f"paceline run lessons/{path.stem} {options}",
        "question": f"{content['question']} {' / '.join(content['answers'])}",
        "metric": content["shows"]["metric"],
    }


def scenario_files() -> list[tuple[str, Path]]:
    """Return the scenarios that can be run by name: those below ``./scenarios``, or ours."""
    own = _here("scenarios")
    here = sorted(own.rglob("*.toml")) if own else []
    return [(str(path), path) for path in here] or list(scenarios().items())


def nearest_scenario(file: Path) -> str:
    """Return a hint: the scenario whose name is nearest, first among those beside the file."""
    beside = {path.name: str(path) for path in file.parent.glob("*.toml")}
    if near := nearest(file.name, beside):
        return f"did you mean {beside[near]}?"
    known = {Path(name).stem: name for name, _ in scenario_files()}
    near = nearest(file.stem, known)
    if near:
        return f"did you mean {known[near]}?"
    return "`paceline list scenarios` shows scenarios, `paceline init` writes one"


def _here(kind: Kind) -> Path | None:
    """Return the folder of that name in the current folder, if any: in the sources, in `data`."""
    return next((place for place in (Path(kind), Path("data", kind)) if place.is_dir()), None)


def _of(full: str, name: str) -> bool:
    return bool(name) and full.startswith(f"{name}-")
