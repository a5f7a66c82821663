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
from typing import Annotated

from cyclopts import Parameter

from paceline import answers
from paceline.cli import console
from paceline.cli.app import Browser, Controllers, Json, Memory, app, bounded, examples
from paceline.cli.failure import Exit, Failure
from paceline.serve import limits

_port = bounded(0, 65535, "from 0 to 65535")


@app.command(
    help_epilogue=f"{limits.TEXT}\n\n{examples('serve', 'serve RUNS --port 0 --no-browser')}"
)
def serve(
    folder: Annotated[Path, Parameter(help="Folder of runs and sweeps.")] = Path("runs"),
    /,
    *,
    port: Annotated[
        int, Parameter(validator=_port, help="Port on this machine; 0 chooses a free port.")
    ] = 8470,
    browser: Browser = True,
    controllers: Controllers = None,
    memory: Memory = None,
    json: Json = False,
) -> None:
    """Open a local page to browse, overlay, change and repeat runs.

    You can open the page only from this machine, at the printed address. The address contains a
    secret, which is new each time you start the command. A scenario that you run from the page must
    not refer to other files, such as capacity traces.
    """
    from paceline.serve.server import Server

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
        answer: answers.Serve = {"address": server.address, "folder": str(folder)}
        console.answer(answer, f"{folder} is at {server.address} until Ctrl-C")
        # A reader of the address from a pipe is waiting for it.
        sys.stdout.flush()
        with leading_to(server.address) as page:
            if browser:
                webbrowser.open(page.as_uri())
            server.serve()
    except KeyboardInterrupt:
        pass
    finally:
        server.close()


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
