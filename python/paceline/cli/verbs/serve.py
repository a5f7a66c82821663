"""``paceline serve``: a local page for the folder of runs."""

from __future__ import annotations

import errno
import html
import sys
import tempfile
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from paceline import answers
from paceline.cli import console
from paceline.cli.app import Controllers, Json, Memory, app, examples, limit_memory
from paceline.cli.failure import Exit, Failure
from paceline.cli.guests import bring
from paceline.serve import limits

if TYPE_CHECKING:
    from paceline.serve.server import Server


def _port(_: object, value: int) -> None:
    if not 0 <= value < 65536:
        raise ValueError("must be from 0 to 65535.")


@app.command(
    help_epilogue=f"{limits.TEXT}\n\n{examples('serve', 'serve RUNS --port 0 --no-browser')}"
)
def serve(
    folder: Annotated[Path, Parameter(help="Folder of runs and sweeps.")] = Path("runs"),
    /,
    *,
    port: Annotated[
        int, Parameter(validator=_port, help="Port on this machine; 0 takes any free one.")
    ] = 8470,
    browser: Annotated[bool, Parameter(help="Open the page in a browser.")] = True,
    controllers: Controllers = None,
    memory: Memory = None,
    json: Json = False,
) -> Exit:
    """Open a local page to browse, overlay, change and repeat runs.

    The page is reachable only from this machine, at the printed address. The address contains a new
    secret each time. A scenario that you run from the page may not name files.
    """
    from paceline.serve.server import Server

    limit_memory(memory)
    bring(controllers)
    if not folder.is_dir():
        hint = "`paceline run FILE` creates ./runs; or name another folder"
        raise Failure("not-found", f"no such folder: {folder}", hint=hint, file=str(folder))
    try:
        server = Server(folder, port)
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        message = f"cannot listen on 127.0.0.1:{port}: {error.strerror}"
        free = "choose another with --port; 0 takes any free one" if taken else None
        raise Failure("no-port", message, hint=free, code=Exit.RUN_FAILED) from None
    try:
        _tell(server, folder, as_json=json)
        with leading_to(server.address) as page:
            if browser:
                webbrowser.open(page.as_uri())
            server.serve()
    except KeyboardInterrupt:
        pass
    finally:
        server.close()
    return Exit.OK


@contextmanager
def leading_to(address: str) -> Iterator[Path]:
    """Yield a page that redirects to an address and that only this user can read.

    The address is a secret, and every user of the machine can see a browser's arguments.
    """
    with tempfile.TemporaryDirectory(prefix="paceline-") as folder:
        page = Path(folder) / "open.html"
        page.touch(0o600)
        leading = f'<meta http-equiv="refresh" content="0; url={html.escape(address)}">'
        page.write_text(f"<!DOCTYPE html>{leading}", encoding="utf-8")
        yield page


def _tell(server: Server, folder: Path, *, as_json: bool) -> None:
    if as_json:
        answer: answers.Serve = {"address": server.address, "folder": str(folder)}
        console.say_json(answer)
    else:
        text = f"{folder} is at {server.address} until Ctrl-C"
        console.stdout().print(text, soft_wrap=True)
    # A reader of the address from a pipe is waiting for it.
    sys.stdout.flush()
