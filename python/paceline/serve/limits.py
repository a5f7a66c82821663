"""The server's limits; `paceline serve --help` prints them."""

from __future__ import annotations

#: Simultaneous connections; an additional one is closed at once.
CONNECTIONS = 64
#: Seconds for a request's header, including the first, and for its body.
HEADER_S, BODY_S = 15.0, 10.0
#: Seconds for which a response may wait for its reader.
WRITE_S = 20.0
#: Bytes of a request's header and of its body.
HEADER_BYTES, BODY_BYTES = 64 << 10, 256 << 10
#: Nesting depth of a request's JSON.
DEPTH = 16
#: Settings of one request.
SETTINGS = 100
#: Threads that read and draw.
THREADS = 4
#: Runs in a plot, and their lines.
OVERLAID, LINES = 40, 10_000

#: Jobs waiting or running, and those kept after their end.
JOBS, ENDED = 8, 8
#: Maximum duration of a job in seconds.
JOB_S = 1800.0

#: Runs and sweeps that are listed, folders that are searched, and their depth.
ENTRIES, FOLDERS, DEEP = 20_000, 100_000, 8
#: Bytes of a picture, rows of a table, and bytes of tables kept in memory.
PICTURE, ROWS, TABLES = 32 << 20, 20_000_000, 1 << 30

#: Number of repeats of a run that are included in a comparison.
REPEATS = 200
#: Number of points up to which a sweep shows all; of more, this many of the lowest and the highest.
POINTS, POINTS_SHOWN = 400, 50

#: All of them in words for the user.
TEXT = f"""Limits:

- Server: {CONNECTIONS} connections and {THREADS} threads.
- Times: {HEADER_S:.0f} s for a request's header, from the start of the connection or the end of the
  previous response; {BODY_S:.0f} s for a request's body; {WRITE_S:.0f} s until the client accepts a
  response.
- Requests: {HEADER_BYTES >> 10} KiB of header, {BODY_BYTES >> 10} KiB of body, {DEPTH} levels of
  nesting in JSON, {SETTINGS} settings.
- Jobs: {JOBS} jobs waiting or running, of which one runs; {JOB_S / 60:.0f} min per job;
  {ENDED} finished jobs are kept.
- Overview: {ENTRIES:,} runs and sweeps, {DEEP} levels of folders.
- Plots: {OVERLAID} runs and {LINES:,} lines per plot, {PICTURE >> 20} MiB per picture.
- Tables: {ROWS:,} rows per table, {TABLES >> 30} GiB of tables in memory."""
