"""``paceline playground``: the simulator in a browser, with its lessons."""

from __future__ import annotations

import webbrowser
from pathlib import Path

from paceline.cli import console
from paceline.cli.app import Browser, app, examples
from paceline.cli.failure import Exit, Failure

#: The package, in a wheel or in a checkout.
_PACKAGE = Path(__file__).parents[2]


@app.command(help_epilogue=examples("playground", "playground --no-browser"))
def playground(*, browser: Browser = True) -> None:
    """Open the simulator in a browser: eleven lessons, sliders, and your own controller.

    The page is one file, and the command prints its path. The page needs no server and sends no
    data anywhere.
    """
    page = page_file(_PACKAGE)
    if page is None:
        what = "this Paceline comes without the playground: a released wheel has it"
        hint = (
            "in a checkout, build it: `rustup target add wasm32-unknown-unknown`, then "
            "`make playground`"
        )
        raise Failure("unavailable", what, hint=hint, code=Exit.UNAVAILABLE)
    if browser:
        webbrowser.open(page.as_uri())
    console.print_file(f"{page}\n")


def page_file(package: Path) -> Path | None:
    """Return the page: the one in the package, or else what `make playground` has built."""
    built = package.parents[1] / "target" / "playground" / "index.html"
    pages = (package / "web" / "playground.html", built)
    return next((page for page in pages if page.is_file()), None)
