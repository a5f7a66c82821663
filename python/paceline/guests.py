"""User-defined controllers and stacks: where their code comes from, and which runs may name.

A scenario, a claim or a record never says what code to load; only the command line and the API do.
"""

from __future__ import annotations

import inspect
import linecache
import re
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from paceline import _paceline
from paceline.controller import Controller
from paceline.errors import PacelineError
from paceline.reading import read_bytes

#: The maximum size of a controller's file: libraries with their symbols are large.
_LARGEST = 1 << 30
#: A name that a scenario can use for a controller.
_NAME = re.compile(r"[A-Za-z0-9_+.-]+")


class GuestError(PacelineError):
    """A user-defined controller that cannot be used; `hint` says what to do."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True)
class Guest:
    """A controller or a stack of the user: its name in scenarios, and its code, sent where runs go.

    A library that defines `paceline_stack_get` is a stack; scenarios name its controllers
    ``NAME:CONTROLLER``.
    """

    name: str
    #: Where its code was read.
    path: str
    #: Which class, or which controller of a library; `None` if there is only one.
    which: str | None = None
    #: The bytes of the file.
    content: bytes = field(default=b"", repr=False)
    #: The class itself, if the caller passed one.
    given: type[Controller] | None = None

    @classmethod
    def parse(cls, text: str) -> Guest:
        """Read ``NAME=FILE`` or ``NAME=FILE:CLASS``."""
        name, equals, place = text.partition("=")
        if not equals or not place or not _NAME.fullmatch(name):
            example = "mine=aimd.py:Aimd, or mine=./libmine.so"
            if not equals and Path(text.partition(":")[0]).is_file():
                example = f"mine={text}"
            hint = f"for example --controller {example}"
            raise GuestError(f"--controller takes NAME=FILE, not {text!r}", hint)
        path, which = Path(place), None
        head, colon, tail = place.rpartition(":")
        if colon and not path.exists():
            path, which = Path(head), tail
        try:
            content = read_bytes(path, _LARGEST)
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            hint = "`paceline init --controller` writes one to begin with"
            raise GuestError(f"cannot read the controller {path}: {why}", hint) from None
        return cls(name, str(path.resolve()), which, content)

    @classmethod
    def folder(cls, path: Path) -> list[Guest]:
        """Read the stacks of a folder, each called as its file."""
        files = sorted(path.glob("*.so"))
        guests = [guest for file in files if (guest := cls.parse(f"{file.stem}={file}")).is_stack]
        if not guests:
            hint = "`make guests` builds some into target/guests of a checkout"
            raise GuestError(f"no library in {path} is a stack", hint)
        return guests

    @classmethod
    def of(cls, name: str, controller: type[Controller]) -> Guest:
        """Use an existing class."""
        if not _NAME.fullmatch(name):
            raise GuestError(f"no controller can be called {name!r}")
        try:
            path = inspect.getsourcefile(controller) or "?"
            content = inspect.getsource(controller).encode()
        except (OSError, TypeError):
            # What has no source, such as what `exec` made, is known by its code.
            codes = [getattr(f, "__code__", None) for f in vars(controller).values()]
            code = [(c.co_code, c.co_consts, c.co_names) for c in codes if c is not None]
            path, content = "?", repr((controller, code)).encode()
        return cls(name, path, getattr(controller, "__qualname__", None), content, controller)

    @property
    def sha256(self) -> str:
        """The hash of its file, in hexadecimal."""
        import hashlib  # the command starts without it

        return hashlib.sha256(self.content).hexdigest()

    @property
    def is_stack(self) -> bool:
        """Whether it is a library of stacks, as far as a look at the file can tell."""
        return (
            not self.is_python
            and b"paceline_stack_get" in self.content
            and b"paceline_controller_get" not in self.content
        )

    @property
    def is_python(self) -> bool:
        """Whether it is written in Python; otherwise it is a shared library."""
        return self.given is not None or self.path.endswith(".py")

    def load(self) -> _paceline.Guest:
        """Load its code into this process."""
        file = Path(self.path).name
        if self.is_python:
            controller = self.given or self._class()
            options = _options(self.name, controller)
            return _paceline.Guest.python(self.name, file, self.sha256, controller, options)
        try:
            with self._library() as path:
                return _paceline.Guest.library(self.name, file, self.sha256, path, self.which)
        except ValueError as error:
            headers = "paceline_controller.h or paceline_endpoint.h"
            hint = f"it takes a .py file, or a library as in {headers}"
            raise GuestError(f"cannot use the controller {self.path}: {error}", hint) from None

    @contextmanager
    def _library(self) -> Iterator[Path]:
        """Yield a file with its bytes: the original, or a copy if that has changed or is gone."""
        own = Path(self.path)
        if own.is_file() and own.read_bytes() == self.content:
            yield own
            return
        import tempfile  # only a file that has changed needs it

        with tempfile.TemporaryDirectory(prefix="paceline-") as folder:
            copy = Path(folder) / own.name
            copy.write_bytes(self.content)
            yield copy

    def _class(self) -> type[Controller]:
        module = self._module()
        mine = {
            name: value
            for name, value in vars(module).items()
            if isinstance(value, type) and value.__module__ == module.__name__
        }
        known = [name for name, value in mine.items() if issubclass(value, Controller)]
        if self.which is not None:
            chosen = getattr(module, self.which, None)
            if chosen is None:
                there = f"; it has {', '.join(known)}" if known else ""
                raise GuestError(f"{self.path} has no class {self.which}{there}")
        elif len(known) == 1:
            chosen = mine[known[0]]
        elif known:
            hint = f"name one: --controller {self.name}={self.path}:{known[0]}"
            raise GuestError(f"{self.path} has the controllers {', '.join(known)}", hint)
        else:
            hint = "derive it from paceline.Controller; `paceline init --controller` writes one"
            raise GuestError(f"{self.path} has no class that is a controller", hint)
        return chosen

    def _module(self) -> ModuleType:
        """Execute the file, as a module with a unique name."""
        name = f"paceline_guest_{self.sha256[:12]}"
        if name in sys.modules:
            return sys.modules[name]
        module = ModuleType(name)
        module.__file__ = self.path
        folder = str(Path(self.path).parent)
        if folder not in sys.path:
            # It may import modules from its folder.
            sys.path.append(folder)
        try:
            text = self.content.decode()
            # A traceback shows its lines even where the file is missing.
            linecache.cache[self.path] = (len(text), None, text.splitlines(True), self.path)
            sys.modules[name] = module
            exec(compile(text, self.path, "exec"), vars(module))
        except Exception as error:
            sys.modules.pop(name, None)
            # Without our own frame.
            error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
            trace = "".join(traceback.format_exception(error)).rstrip()
            raise GuestError(f"cannot load the controller {self.path}\n{trace}") from None
        return module


#: The type of an option, by the type of its default.
_KINDS = {bool: "flag", int: "number", float: "number", str: "text"}


def _options(name: str, controller: Any) -> list[tuple[str, str]]:
    """Return the options of a class, and their types; say why it is not a controller."""
    if not (isinstance(controller, type) and issubclass(controller, Controller)):
        hint = "class Mine(paceline.Controller): ...; `paceline init --controller` writes one"
        raise GuestError(f"the controller `{name}` does not derive from paceline.Controller", hint)
    if controller.on_ack is Controller.on_ack:
        what = controller.__qualname__
        hint = "define it: without it nothing changes the window"
        raise GuestError(f"the controller `{name}` ({what}) has no on_ack(self, ack)", hint)
    if controller.__init__ is Controller.__init__:
        return []
    parameters = list(inspect.signature(controller.__init__).parameters.values())[2:]
    options = []
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        if parameter.default is parameter.empty:
            message = f"option `{parameter.name}` of the controller `{name}` has no default"
            raise GuestError(message, f"def __init__(self, config, {parameter.name}=...)")
        options.append((parameter.name, _KINDS.get(type(parameter.default), "any")))
    return options


@dataclass(frozen=True)
class Stack:
    """A transport that brings controllers of its own, which are named ``STACK:CONTROLLER``."""

    name: str
    controllers: Sequence[str]
    version: str
    summary: str
    #: Name and description of each option of its controllers.
    options: Sequence[tuple[str, str]] = ()
    #: The library that brings it; `None` of the program's own.
    path: str | None = None


_chosen: tuple[Guest, ...] = ()
_loaded: dict[Guest, _paceline.Guest] = {}
_using = threading.RLock()


def choose(guests: Sequence[Guest]) -> None:
    """Set which user-defined controllers scenarios may name in this process."""
    global _chosen
    _chosen = tuple(guests)


def chosen() -> tuple[Guest, ...]:
    """Return those that were set."""
    return _chosen


@contextmanager
def using(controllers: Mapping[str, type[Controller]] | None) -> Iterator[None]:
    """Set these classes temporarily; nobody else sets others meanwhile."""
    if not controllers:
        yield
        return
    with _using:
        before = chosen()
        choose([Guest.of(name, given) for name, given in controllers.items()])
        try:
            yield
        finally:
            choose(before)


def interrupt(threads: Sequence[int]) -> None:
    """Raise `KeyboardInterrupt` in threads, because an endless loop does not notice it."""
    import ctypes  # only an interrupted run needs it

    for thread in threads:
        raised = ctypes.py_object(KeyboardInterrupt)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), raised)


def key() -> list[list[str]]:
    """Return a key that distinguishes the code of the current controllers from other code."""
    return [[guest.name, guest.sha256, guest.which or ""] for guest in _chosen]


def loaded() -> list[_paceline.Guest]:
    """Load the current controllers, once per process."""
    for guest in _chosen:
        if guest not in _loaded:
            _loaded[guest] = guest.load()
    return [_loaded[guest] for guest in _chosen]


def stacks() -> list[Stack]:
    """Return the QUIC stacks of the program, and those that libraries bring."""
    every = [Stack(*stack) for stack in _paceline.stacks()]
    for guest in loaded():
        if guest.stack is not None:
            where = next(one.path for one in _chosen if one.name == guest.name)
            every.append(Stack(guest.name, *guest.stack, where))
    return every


def names() -> list[str]:
    """Return the name of every controller that a scenario can use now."""
    own = [controller["name"] for controller in _paceline.controllers()]
    own += [f"{stack.name}:{name}" for stack in stacks() for name in stack.controllers]
    return own + [guest.name for guest in loaded() if guest.stack is None]


def is_foreign(name: str) -> bool:
    """Whether a controller is the user's or a stack's: it does not show `bbr3`'s variables."""
    return ":" in name or any(guest.name == name for guest in _chosen)


def check(
    text: str,
    file: str,
    overrides: Sequence[tuple[str, str]] = (),
    sweep: bool = True,
    backend: _paceline.Backend = "sim",
    files: bool = True,
    here: bool = True,
) -> _paceline.CheckedScenario:
    """Check a scenario, which may name the current controllers.

    Unless `here` is false, `UnavailableError` says what this machine lacks to run it.
    """
    return _paceline.check(text, file, overrides, sweep, backend, files, loaded(), here)
