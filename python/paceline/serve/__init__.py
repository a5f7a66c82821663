"""A local page over the folder of runs: browse, lay over each other, change and run again."""

from paceline.serve.server import Server

__all__ = ["Server"]
