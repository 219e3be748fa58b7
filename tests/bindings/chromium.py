"""Headless Chromium, driven through its debugging pipe (Chrome DevTools Protocol: JSON objects, a NUL behind each)."""
import base64
import json
import os
import select
import shutil
import subprocess
import time

import harness

DEADLINE_S = 120
# A user without rights of its own (root) has no sandbox; GPUs, sounds and pages of the maker are of no use here.
OPTIONS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--mute-audio", "--no-first-run", "--disable-background-networking",
           "--disable-component-update", "--disable-dev-shm-usage", "--remote-debugging-pipe"]
WIDTH, HEIGHT = 900, 600


class Chromium:
    """One tab. Used as a context: the browser is gone at its end."""

    def __init__(self, world, *options):
        if not shutil.which("chromium"):
            raise harness.Skip("chromium is missing: ./dev test browser installs it")
        to_browser, self.write_fd = os.pipe()
        self.read_fd, from_browser = os.pipe()

        def place():  # where the browser looks for its pipe
            high = [os.dup2(fd, target) for fd, target in ((to_browser, 103), (from_browser, 104))]
            for fd, target in zip(high, (3, 4)):
                os.dup2(fd, target, inheritable=True)

        self.log = open(world.path("chromium.log"), "wb")
        self.process = subprocess.Popen(["chromium", *OPTIONS, *options, f"--user-data-dir={world.path('profile')}", "about:blank"], env=world.env,
                                        stdout=self.log, stderr=self.log, preexec_fn=place, close_fds=False, start_new_session=True)
        os.close(to_browser)
        os.close(from_browser)
        self.rest, self.last, self.session, self.events = b"", 0, None, []
        target = harness.until(self.find_page, "the first tab")
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime"):
            self.send(f"{domain}.enable")
        self.send("Emulation.setDeviceMetricsOverride", width=WIDTH, height=HEIGHT, deviceScaleFactor=1, mobile=False)

    def find_page(self):
        pages = [info for info in self.send("Target.getTargets")["targetInfos"] if info["type"] == "page"]
        return pages[0]["targetId"] if pages else None

    def __enter__(self):
        return self

    def __exit__(self, *args):
        os.close(self.write_fd)  # then it ends by itself
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, 9)
            self.process.wait()
        os.close(self.read_fd)
        self.log.close()

    def receive(self):
        end = time.monotonic() + DEADLINE_S
        while b"\0" not in self.rest:
            ready = select.select([self.read_fd], [], [], max(0, end - time.monotonic()))[0]
            part = os.read(self.read_fd, 1 << 20) if ready else b""
            assert part, f"chromium said nothing: {open(self.log.name, errors='replace').read()[-600:]}"
            self.rest += part
        one, self.rest = self.rest.split(b"\0", 1)
        return json.loads(one)

    def send(self, method, **params):
        self.last += 1
        message = {"id": self.last, "method": method, "params": params, **({"sessionId": self.session} if self.session else {})}
        os.write(self.write_fd, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.last:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self.events.append(answer)

    def open(self, url):
        self.send("Page.navigate", url=url)

    def evaluate(self, expression):
        """The value of an expression in the page, a promise's when it is kept."""
        got = self.send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in got, f"{expression}: {got['exceptionDetails'].get('exception', {}).get('description', got)}"
        return got["result"].get("value")

    def until(self, expression, what):
        return harness.until(lambda: self.evaluate(expression), what)

    def draw(self, points):
        """Moves the pressed mouse through points of the page."""
        for i, (x, y) in enumerate(points):
            kind = "mousePressed" if i == 0 else "mouseMoved"
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)
        self.send("Input.dispatchMouseEvent", type="mouseReleased", x=points[-1][0], y=points[-1][1], button="left", clickCount=1)

    def screenshot(self, path):
        with open(path, "wb") as f:
            f.write(base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"]))
