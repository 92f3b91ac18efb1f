"""A page as a person's browser shows it: headless Chromium, driven through its DevTools pipe.

It has no network, unless a picture of a local server is wanted.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

#: Debian's package; other names of the same program.
_NAMES = ("chromium", "chromium-browser", "google-chrome")
_SWITCHES = (
    "--headless=new", "--no-sandbox", "--disable-quic", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
    "--force-device-scale-factor=1", "--remote-debugging-pipe", "about:blank",
)  # fmt: skip
#: Without WebGL, as a page of ours must work; and with WebGL computed by the processor.
NO_GRAPHICS = ("--disable-gpu",)
SOFTWARE_GRAPHICS = (
    "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist",
)  # fmt: skip
_PATIENCE_S = 60


def find_chromium() -> str:
    """The program. A test that needs it is skipped where it is absent, but never in CI."""
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    if found:
        return found
    reason = "no Chromium to open pages with; install Debian's package `chromium`"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


class Tab:
    """One page, opened at a width, and what happened while it was.

    Attributes:
        complaints: errors and warnings of the console, exceptions of scripts.
        requests: addresses that the page asked for beside itself.
    """

    def __init__(self, send: int, receive: int, *, offline: bool = True) -> None:
        self._send, self._receive = send, receive
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self._loaded = False
        self._address = ""
        self.complaints: list[str] = []
        self.requests: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        if offline:
            nothing = {"latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
            self.call("Network.emulateNetworkConditions", offline=True, **nothing)

    def open(self, page: Path, *, width: int, height: int = 900, dark: bool = False) -> None:
        """Open a file in a window of so many CSS pixels; a width below 600 is a phone."""
        self.visit(page.resolve().as_uri(), width=width, height=height, dark=dark)
        self.run("document.fonts.ready.then(() => true)")

    def visit(self, address: str, *, width: int, height: int = 900, dark: bool = False) -> None:
        """Go to an address, until it is loaded."""
        self.complaints.clear()
        self.requests.clear()
        phone = width < 600
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone
        )  # fmt: skip
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=features)
        self._loaded, self._address = False, address
        self.call("Page.navigate", url=self._address)
        deadline = time.monotonic() + _PATIENCE_S
        while not self._loaded:
            self._take(deadline)

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression in the page."""
        done = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def screenshot(self, out: Path) -> None:
        """The whole page, however long, as a PNG."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        data = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)["data"]
        out.write_bytes(base64.b64decode(data))

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the DevTools protocol."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._send, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            answer = self._take(deadline)
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer["error"])
                result: dict[str, Any] = answer["result"]
                return result

    def _take(self, deadline: float) -> dict[str, Any]:
        """The next message; what it tells about the page is kept."""
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._receive], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "Chromium does not answer"
            part = os.read(self._receive, 1 << 20)
            assert part, "Chromium ended"
            self._buffer += part
        data, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(data)
        self._keep(message.get("method"), message.get("params", {}))
        return message

    def _keep(self, method: str | None, told: dict[str, Any]) -> None:
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(told["exceptionDetails"])[:500])
        elif method == "Runtime.consoleAPICalled":
            self.complaints.append(f"console.{told['type']}: {json.dumps(told['args'])[:500]}")
        elif method == "Log.entryAdded":
            self.complaints.append(told["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            address = told["request"]["url"]
            if address.split("#")[0] != self._address and not address.startswith("data:"):
                self.requests.append(address)


@contextmanager
def chromium(graphics: tuple[str, ...] = NO_GRAPHICS, *, offline: bool = True) -> Iterator[Tab]:
    """A browser with one tab, ended at the end."""
    program = find_chromium()
    # Chromium reads commands from descriptor 3 and writes answers to descriptor 4.
    command_read, command_write = os.pipe()
    answer_read, answer_write = os.pipe()
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as profile:
        script = 'exec 3<&"$1" 4>&"$2"; shift 2; exec "$@"'
        command = [program, f"--user-data-dir={profile}", *graphics, *_SWITCHES]
        process = subprocess.Popen(
            ["bash", "-c", script, "bash", str(command_read), str(answer_write), *command],
            pass_fds=(command_read, answer_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(command_read)
        os.close(answer_write)
        try:
            yield Tab(command_write, answer_read, offline=offline)
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
            process.wait()
            os.close(command_write)
            os.close(answer_read)
