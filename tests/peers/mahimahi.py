"""Compare ``paceline shell`` with mahimahi's mm-delay and mm-link: the same programs, in turn.

    python tests/peers/mahimahi.py --bin FOLDER --user USER [--traces FOLDER]

Runs as root of a machine with iperf3 and curl. FOLDER has mahimahi's setuid programs; they refuse
root, so USER runs them, and they ask for `sysctl net.ipv4.ip_forward=1`. A cell is a link and a
kind of transfer: `iperf3`, `curl` (HTTP), `quic` (aioquic, with the Python of `--python`); each is
run `--times` times, the two tools in turn. Goodput is what the receiver got in the second half of
the transfer. Delay is the RTT of UDP probes, 50 a second, through the same queue, less twice the
delay that was asked for.
"""

from __future__ import annotations

import argparse
import itertools
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

#: Answers HTTP with zeros without end.
HTTP = """
import socket, threading
listener = socket.create_server(("0.0.0.0", 8080))
def serve(connection):
    try:
        connection.recv(4000)
        connection.sendall(b"HTTP/1.0 200 OK\\r\\n\\r\\n")
        while True:
            connection.sendall(bytes(65536))
    except OSError:
        connection.close()
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""

#: Both ends of QUIC: the server answers a stream with zeros, and the client writes them to stdout.
QUIC = """
import asyncio, ssl, sys
from pathlib import Path
from aioquic.asyncio import QuicConnectionProtocol, connect, serve
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import StreamDataReceived

def config(client):
    made = QuicConfiguration(is_client=client, alpn_protocols=["zeros"])
    made.max_data = made.max_stream_data = 64 << 20
    return made

class Server(QuicConnectionProtocol):
    def quic_event_received(self, event):
        if isinstance(event, StreamDataReceived):
            self._quic.send_stream_data(event.stream_id, bytes(int(event.data)))
            self.transmit()

class Client(QuicConnectionProtocol):
    def quic_event_received(self, event):
        if isinstance(event, StreamDataReceived):
            sys.stdout.buffer.write(event.data)
            sys.stdout.buffer.flush()

async def main():
    if sys.argv[1] == "server":
        server = config(False)
        place = Path(__file__).parent
        server.load_cert_chain(place / "cert.pem", place / "key.pem")
        await serve("0.0.0.0", 4433, configuration=server, create_protocol=Server)
        await asyncio.Event().wait()
    client = config(True)
    client.verify_mode = ssl.CERT_NONE
    async with connect(sys.argv[1], 4433, configuration=client, create_protocol=Client) as end:
        end._quic.send_stream_data(end._quic.get_next_available_stream_id(), sys.argv[3].encode())
        end.transmit()
        await asyncio.sleep(float(sys.argv[2]))

asyncio.run(main())
"""

#: Probes and the transfer, at the client's end; prints both: bytes by their time.
CLIENT = """
import json, os, signal, socket, struct, subprocess, sys, threading, time
kind, server, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
# Not every server listens when the first does.
time.sleep(1)
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
got = []
if kind == "iperf3":
    command = ["iperf3", "-c", server, "-t", str(seconds), "-J", "-R", *sys.argv[4:]]
    report = json.loads(subprocess.run(command, capture_output=True, text=True).stdout)
    got = [(one["sum"]["end"], one["sum"]["bytes"]) for one in report["intervals"]]
else:
    address = socket.gethostbyname(server)
    command = ["curl", "-s", f"http://{address}:8080/"]
    if kind == "quic":
        command = [*sys.argv[4:6], address, str(seconds), sys.argv[6]]
    transfer = subprocess.Popen(command, stdout=subprocess.PIPE)
    while time.monotonic() - begin < seconds:
        data = os.read(transfer.stdout.fileno(), 1 << 16)
        if not data:
            break
        got.append((time.monotonic() - begin, len(data)))
    transfer.kill()
for one in threads: one.join()
print(json.dumps({"got": got, "rtts": rtts}))
"""


def fixed(rate: int, place: Path) -> Path:
    """Write a trace of a rate in Mbit/s: its opportunities of 1500 bytes in a second."""
    count = round(rate * 1e6 / 12_000)
    trace = place / f"{rate}.trace"
    trace.write_text("".join(f"{(n + 1) * 1000 // count}\n" for n in range(count)))
    return trace


def measured(output: str, seconds: float) -> dict[str, float]:
    """Return goodput in the second half and the delays of probes in it."""
    report = json.loads(output.splitlines()[-1])
    before = max((at for at, _ in report["got"] if at <= seconds / 2 + 0.01), default=0.0)
    late = [(at, count) for at, count in report["got"] if at > before]
    if not late:
        raise SystemExit(f"nothing arrived in the second half: {output[-500:]}")
    carried = sum(count for _, count in late) * 8 / (late[-1][0] - before)
    rtts = sorted(rtt for at, rtt in report["rtts"] if at >= seconds / 2)
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
    parser.add_argument("--kinds", nargs="*", default=["iperf3"])
    parser.add_argument("--python", default="python3", help="one with aioquic, for quic")
    parser.add_argument("--cc", help="iperf3's congestion control")
    options = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="peers-"))
    place.chmod(0o755)
    texts = {"echo.py": ECHO, "http.py": HTTP, "quic.py": QUIC, "client.py": CLIENT}
    for name, text in texts.items():
        (place / name).write_text(text)
    if "quic" in options.kinds:
        certificate = "openssl req -x509 -newkey ed25519 -nodes -subj /CN=server -days 2"
        files = ["-keyout", str(place / "key.pem"), "-out", str(place / "cert.pem")]
        subprocess.run([*certificate.split(), *files], check=True, capture_output=True)
        (place / "key.pem").chmod(0o644)
    cells = [(f"{rate} Mbit/s", fixed(rate, place), fixed(rate, place)) for rate in options.rates]
    for down in sorted(options.traces.glob("*.down")) if options.traces else []:
        cells.append((down.stem, down, down.with_suffix(".up")))
    # The user of mahimahi may not read this one's interpreter.
    python = "/usr/bin/python3"
    server = f"{python} {place}/echo.py & {python} {place}/http.py & "
    if "quic" in options.kinds:
        server += f"{options.python} {place}/quic.py server & "
    server += "iperf3 -s > /dev/null; wait"
    queue = f"--{{}}link-queue=droptail --{{}}link-queue-args=packets={options.queue}"
    for kind, (name, down, up) in itertools.product(options.kinds, cells):
        client = [python, str(place / "client.py"), kind]
        words = [str(options.seconds)]
        if kind == "quic":
            # As much as the fastest link takes.
            size = round(max([*options.rates, 50]) * options.seconds * 150_000)
            words += [options.python, f"{place}/quic.py", str(size)]
        elif options.cc and kind == "iperf3":
            words += ["-C", options.cc]
        results: dict[str, list[dict[str, float]]] = {"mahimahi": [], "paceline": []}
        for turn in range(options.times):
            inner = shlex.join(client) + " $MAHIMAHI_BASE " + shlex.join(words)
            link = f"{options.bin}/mm-link {up} {down} {queue.format('up', 'up')}"
            link += f" {queue.format('down', 'down')} -- sh -c {shlex.quote(inner)}"
            outside = subprocess.Popen(["sh", "-c", server], start_new_session=True)
            time.sleep(0.5)
            try:
                output = run(
                    ["su", options.user, "-c", f"{options.bin}/mm-delay {DELAY_MS} {link}"]
                )
            finally:
                subprocess.run(["pkill", "-s", str(outside.pid)], check=False)
                outside.wait()
            results["mahimahi"].append(measured(output, options.seconds))
            ours = ["shell", "--trace-down", down, "--trace-up", up, "--delay", f"{DELAY_MS} ms"]
            ours += ["--queue", f"{options.queue} packets", "--quiet"]
            ours += ["--out", place / f"{down.name}-{kind}-{turn}", "--server", server, "--"]
            command = [sys.executable, "-m", "paceline", *map(str, ours)]
            output = run([*command, *client, "server", *words])
            results["paceline"].append(measured(output, options.seconds))
        for tool, rows in results.items():
            middle = {key: statistics.median(row[key] for row in rows) for key in rows[0]}
            sys.stdout.write(
                json.dumps({"cell": name, "kind": kind, "tool": tool, **middle}) + "\n"
            )
            sys.stdout.flush()


if __name__ == "__main__":
    main()
