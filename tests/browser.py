"""A headless Chromium, driven over its debugging pipe: nothing but the browser is needed."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def executable() -> str | None:
    """Return the browser's command, if there is one."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class NavigatedError(Exception):
    """The page went elsewhere before it answered."""


class Browser:
    """One page."""

    def __init__(self, profile: Path) -> None:
        command = executable()
        assert command is not None
        orders, self._out = os.pipe()
        self._in, answers = os.pipe()
        # The browser reads orders from its descriptor 3 and writes answers to 4.
        shell = f'exec "$0" "$@" 3<&{orders} 4>&{answers}'
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]
        flags += [f"--user-data-dir={profile}", "--window-size=1280,1600", "about:blank"]
        self._process = subprocess.Popen(
            ["bash", "-c", shell, command, *flags],
            pass_fds=(orders, answers),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(orders)
        os.close(answers)
        self._rest = b""
        self._number = 0
        self._session: str | None = None
        #: What went wrong in the page.
        self.errors: list[str] = []
        page = next(
            target
            for target in self._call("Target.getTargets")["targetInfos"]
            if target["type"] == "page"
        )
        attached = self._call("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        order = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            order["sessionId"] = self._session
        os.write(self._out, json.dumps(order).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("method") == "Runtime.exceptionThrown":
                self.errors.append(json.dumps(answer["params"]["exceptionDetails"]))
            # What the page's policy forbids, among others.
            if (
                answer.get("method") == "Log.entryAdded"
                and answer["params"]["entry"]["source"] == "security"
            ):
                self.errors.append(json.dumps(answer["params"]["entry"]))
            if answer.get("id") == self._number:
                error = answer.get("error", {})
                if "navigated" in error.get("message", ""):
                    raise NavigatedError
                assert not error, answer
                result: dict[str, Any] = answer["result"]
                return result

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = os.read(self._in, 1 << 16)
            assert more, "the browser has gone"
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message

    def open(self, address: str) -> None:
        """Go to a page."""
        self._call("Page.navigate", url="about:blank")
        self._call("Page.navigate", url=address)

    def resize(self, width: int, height: int) -> None:
        """Show pages as a phone of this size does."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": True}
        self._call("Emulation.setDeviceMetricsOverride", **size)

    def type(self, text: str) -> None:
        """Type a text into what has the focus, and press Enter."""
        self._call("Input.insertText", text=text)
        enter = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"}
        for kind in ("keyDown", "keyUp"):
            self._call("Input.dispatchKeyEvent", type=kind, **enter)

    def prefer(self, scheme: str, media: str = "screen") -> None:
        """Show pages as whoever prefers ``light`` or ``dark`` sees them, or as they are printed."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._call("Emulation.setEmulatedMedia", media=media, features=features)

    def axe(self, script: Path) -> list[str]:
        """Return what axe-core, whose script is given, finds in the page."""
        self.evaluate(script.read_text("utf-8") + ";0")
        violations: list[str] = self.evaluate(
            "axe.run().then(({ violations }) => violations.map(({ id, nodes }) => "
            "`${id}: ${nodes.slice(0, 3).map(({ html }) => html).join(' | ').slice(0, 400)}`))"
        )
        return violations

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression in the page."""
        result = self._call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def wait(self, expression: str, seconds: float = 60) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + seconds
        while not self._holds(f"Boolean(document.body) && Boolean({expression})"):
            assert time.monotonic() < end, f"never: {expression}; {self.errors}"
            time.sleep(0.02)

    def _holds(self, expression: str) -> bool:
        try:
            return bool(self.evaluate(expression))
        except NavigatedError:
            return False

    def screenshot(self, path: Path) -> None:
        """Write a screenshot."""
        data = self._call("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(data))

    def close(self) -> None:
        """End the browser."""
        os.close(self._out)
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._in)
