"""``paceline serve``: a local page over the folder of runs."""

from __future__ import annotations

import errno
import html
import sys
import tempfile
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from paceline.cli import console
from paceline.cli.failure import Exit, Failure
from paceline.serve.server import Server


def show(folder: Path, port: int, *, browser: bool, as_json: bool) -> Exit:
    """Serve a folder until Ctrl-C."""
    if not folder.is_dir():
        hint = "`paceline run FILE` makes ./runs; another folder can be named"
        raise Failure("not-found", f"no such folder: {folder}", hint=hint, file=str(folder))
    try:
        server = Server(folder, port)
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        message = f"cannot listen on 127.0.0.1:{port}: {error.strerror}"
        free = "choose another with --port; 0 takes any that is free" if taken else None
        raise Failure("no-port", message, hint=free, code=Exit.RUN_FAILED) from None
    try:
        _tell(server, folder, as_json=as_json)
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
    """Yield a page of ours alone that leads to an address.

    The address is a secret, and everyone on a machine sees with what a browser was called.
    """
    with tempfile.TemporaryDirectory(prefix="paceline-") as folder:
        page = Path(folder) / "open.html"
        page.touch(0o600)
        leading = f'<meta http-equiv="refresh" content="0; url={html.escape(address)}">'
        page.write_text(f"<!DOCTYPE html>{leading}", encoding="utf-8")
        yield page


def _tell(server: Server, folder: Path, *, as_json: bool) -> None:
    if as_json:
        console.say_json({"address": server.address, "folder": str(folder)})
    else:
        text = f"{folder} is at {server.address} until Ctrl-C"
        console.stdout().print(text, soft_wrap=True)
    # Who reads the address from a pipe waits for it.
    sys.stdout.flush()
