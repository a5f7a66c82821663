"""``python -m paceline`` is the command ``paceline``."""

import atexit
import os
import sys

#: After Ctrl-C the user need not wait for libraries to shut down.
_INTERRUPTED = (129, 130, 143)


def _print_version() -> bool:
    """Print the version without loading the command, which says what is wrong if this fails."""
    from paceline._paceline import __version__

    try:
        sys.stdout.write(f"{__version__}\n")
        sys.stdout.flush()
    except (AttributeError, OSError):
        return False
    return True


def main() -> int:
    """Run the command as a process, and return its exit code."""
    code = 0

    def leave() -> None:
        if code in _INTERRUPTED:
            os._exit(code)

    # The handler registered first is called last.
    atexit.register(leave)
    try:
        if sys.argv[1:] == ["--version"] and _print_version():
            return 0
        # Loading takes long enough for a Ctrl-C.
        from paceline.cli import main as command
        from paceline.cli import streams

        streams.prepare()
        code = command()
        streams.finish()
    except KeyboardInterrupt:
        code = 130
    return code


if __name__ == "__main__":
    sys.exit(main())
