"""Compare ``paceline shell`` with mahimahi's mm-delay and mm-link: the same programs, in turn.

    python tests/peers/mahimahi.py --bin FOLDER --user USER [--traces FOLDER]

Runs as root of a machine with iperf3. FOLDER has mahimahi's setuid programs; they refuse root, so
USER runs them, and they ask for `sysctl net.ipv4.ip_forward=1`. A cell is a link; each is run
`--times` times, the two tools in turn. Goodput is what iperf3's receiver got in the second half of
the transfer. Delay is the RTT of UDP probes, 50 a second, through the same queue, less twice the
delay that was asked for.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DELAY_MS = 20

#: Echoes datagrams, for a time.
ECHO = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("0.0.0.0", 7007))
while True:
    data, there = s.recvfrom(2000)
    s.sendto(data, there)
"""

#: Probes and the transfer, at the client's end; prints both.
CLIENT = """
import json, socket, struct, subprocess, sys, threading, time
server, seconds = sys.argv[1], float(sys.argv[2])
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect((server, 7007))
rtts, begin = [], time.monotonic()
def send():
    while time.monotonic() - begin < seconds:
        s.send(struct.pack("d", time.monotonic()).ljust(100))
        time.sleep(0.02)
def receive():
    # A recorded link may stand still for seconds.
    s.settimeout(0.5)
    while time.monotonic() - begin < seconds + 3:
        try:
            sent = struct.unpack("d", s.recv(2000)[:8])[0]
            rtts.append((sent - begin, time.monotonic() - sent))
        except TimeoutError:
            pass
threads = [threading.Thread(target=one) for one in (send, receive)]
for one in threads: one.start()
command = ["iperf3", "-c", server, "-t", str(seconds), "-J", *sys.argv[3:]]
told = subprocess.run(command, capture_output=True, text=True)
for one in threads: one.join()
print(json.dumps({"iperf3": json.loads(told.stdout), "rtts": rtts}))
"""


def fixed(rate: int, place: Path) -> Path:
    """Write a trace of a rate in Mbit/s: its opportunities of 1500 bytes in a second."""
    count = round(rate * 1e6 / 12_000)
    trace = place / f"{rate}.trace"
    trace.write_text("".join(f"{(n + 1) * 1000 // count}\n" for n in range(count)))
    return trace


def measured(said: str, seconds: float) -> dict[str, float]:
    """Return goodput in the second half and the delays of probes in it."""
    told = json.loads(said.splitlines()[-1])
    if "error" in told["iperf3"]:
        raise SystemExit(told["iperf3"]["error"])
    rows = [one["sum"] for one in told["iperf3"]["intervals"]]
    late = [row for row in rows if row["start"] >= seconds / 2 - 0.01]
    carried = sum(row["bytes"] for row in late) * 8 / sum(row["seconds"] for row in late)
    rtts = sorted(rtt for at, rtt in told["rtts"] if at >= seconds / 2)
    return {
        "goodput_bps": carried,
        "added_p50_ms": rtts[len(rtts) // 2] * 1e3 - 2 * DELAY_MS,
        "added_p99_ms": rtts[len(rtts) * 99 // 100] * 1e3 - 2 * DELAY_MS,
        "probes": len(rtts),
    }


def run(command: list[str]) -> str:
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if not ended.stdout.strip():
        raise SystemExit(f"{shlex.join(command)}: {ended.stderr[-2000:]}")
    return ended.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=Path, required=True)
    parser.add_argument("--user", required=True)
    parser.add_argument("--traces", type=Path)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--queue", type=int, default=300, help="packets")
    parser.add_argument("--rates", type=int, nargs="*", default=[12, 100, 200])
    options = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="peers-"))
    place.chmod(0o755)
    for name, text in (("echo.py", ECHO), ("client.py", CLIENT)):
        (place / name).write_text(text)
    cells = [(f"{rate} Mbit/s", fixed(rate, place), fixed(rate, place)) for rate in options.rates]
    for down in sorted(options.traces.glob("*.down")) if options.traces else []:
        cells.append((down.stem, down, down.with_suffix(".up")))
    # The user of mahimahi may not read this one's interpreter.
    client = ["/usr/bin/python3", str(place / "client.py")]
    words = [str(options.seconds), "-R"]
    server = f"/usr/bin/python3 {place / 'echo.py'} & iperf3 -s -1 > /dev/null; wait"
    queue = f"--{{}}link-queue=droptail --{{}}link-queue-args=packets={options.queue}"
    for name, down, up in cells:
        found: dict[str, list[dict[str, float]]] = {"mahimahi": [], "paceline": []}
        for turn in range(options.times):
            inner = shlex.join(client) + " $MAHIMAHI_BASE " + shlex.join(words)
            link = f"{options.bin}/mm-link {up} {down} {queue.format('up', 'up')}"
            link += f" {queue.format('down', 'down')} -- sh -c {shlex.quote(inner)}"
            outside = subprocess.Popen(["sh", "-c", server], start_new_session=True)
            time.sleep(0.5)
            try:
                said = run(["su", options.user, "-c", f"{options.bin}/mm-delay {DELAY_MS} {link}"])
            finally:
                subprocess.run(["pkill", "-s", str(outside.pid)], check=False)
                outside.wait()
            found["mahimahi"].append(measured(said, options.seconds))
            ours = ["shell", "--trace-down", down, "--trace-up", up, "--delay", f"{DELAY_MS} ms"]
            ours += ["--queue", f"{options.queue} packets", "--quiet"]
            ours += ["--out", place / f"{down.name}-{turn}", "--server", server, "--"]
            command = [sys.executable, "-m", "paceline", *map(str, ours)]
            said = run([*command, *client, "server", *words])
            found["paceline"].append(measured(said, options.seconds))
        for tool, rows in found.items():
            middle = {key: statistics.median(row[key] for row in rows) for key in rows[0]}
            sys.stdout.write(json.dumps({"cell": name, "tool": tool, **middle}) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
