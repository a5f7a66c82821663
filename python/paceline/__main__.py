"""``python -m paceline`` is the command ``paceline``."""

import sys


def main() -> int:
    """Run the command as a process, and return its exit code."""
    try:
        # Loading takes long enough for a Ctrl-C.
        from paceline.cli import main as command
        from paceline.cli import streams

        streams.prepare()
        code = command()
        streams.finish()
    except KeyboardInterrupt:
        return 130
    return code


if __name__ == "__main__":
    sys.exit(main())
