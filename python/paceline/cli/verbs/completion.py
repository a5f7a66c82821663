"""``paceline completion``: shell scripts that complete commands."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from paceline.cli import console, verbs
from paceline.cli.app import app, examples


@app.command(
    help_epilogue=examples(
        "completion bash > ~/.local/share/bash-completion/completions/paceline",
        "completion zsh > ~/.zfunc/_paceline",
        "completion fish > ~/.config/fish/completions/paceline.fish",
    )
)
def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="The shell.")], /
) -> None:
    """Print a shell script that completes commands, options and their values."""
    verbs.load()
    console.print_file(app.generate_completion(prog_name="paceline", shell=shell))
