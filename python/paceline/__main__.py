"""``python -m paceline`` is the command ``paceline``."""

import sys

from paceline.cli import main

sys.exit(main())
