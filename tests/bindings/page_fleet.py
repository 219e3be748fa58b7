"""A tracker for web pages, a proxy with TLS in front of it, and the questions of a test to a fleet with such a board."""
import os
import pathlib
import re
import shutil
import socket
import subprocess
import textwrap

import harness

HOW_TO = pathlib.Path(__file__).resolve().parents[2] / "docs/how-to/javascript.md"


class PageFleet:
    """A tracker, a tuner, and the key of a board in a page: `url` is where it dials to, `key` the text of its key."""

    def __init__(self, world, *origins):
        self.world = world
        file = world.path("page.key")
        world.run("key", "new", "board/page", "-o", file)
        self.key = pathlib.Path(file).read_text()
        tracker, self.address = world.tracker("--listen", "ws:127.0.0.1:0", *(word for origin in origins for word in ("--ws-origin", origin)))
        self.url = "ws://" + re.search(r"listening on ws:(\S+)", tracker.log.read_text())[1]
        self.log = tracker.log
        world.tuner(self.address)

    def put_proxy_before(self):
        """HAProxy with the configuration of the how-to, and a certificate of its own for localhost. Gives the certificate's file; `url` is the proxy's."""
        if not shutil.which("haproxy"):
            raise harness.Skip("HAProxy is missing: install haproxy")
        certificate, key, both, config = (self.world.path(name) for name in ("proxy.crt", "proxy.key", "fleet.pem", "haproxy.cfg"))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                        "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate], check=True, capture_output=True)
        pathlib.Path(both).write_text(pathlib.Path(certificate).read_text() + pathlib.Path(key).read_text())
        text = textwrap.dedent(re.search(r"^    defaults\n(?:    .*\n|\n)+", HOW_TO.read_text(), re.M)[0])
        for said, here in ((":443", "fd@0"), ("/etc/haproxy/fleet.pem", both), ("127.0.0.1:9479", self.url.removeprefix("ws://"))):
            assert said in text, text
            text = text.replace(said, here)
        pathlib.Path(config).write_text(text)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.url = f"wss://localhost:{listener.getsockname()[1]}"
            self.world.start(shutil.which("haproxy"), "-db", "-f", config, before=lambda: os.dup2(listener.fileno(), 0))
        return certificate

    def until_here(self):
        harness.until(lambda: "board=page" in self.log.read_text(), "the page")

    def tune(self, model, trials=4):
        """Measures tasks of the model there: every record must be ok, and checked. Returns the module's file."""
        world, module = self.world, self.world.path("tuned.wasm")
        lines = world.json("tune", model, "--target", "wasm", "--tasks", "conv+relu", "--trials", trials, "--tracker", self.address,
                           "--db", world.path("client.db"), "--out", module)
        done = next(line for line in lines if line["event"] == "done")
        assert all(task["best_ms"] > 0 and task["share_of_peak"] > 0 for task in done["tasks"] if task["trials"]), done
        rows = world.sql("client.db", "select outcome, checked, count(*) from record group by outcome, checked")
        assert rows and all(row[:2] == ["ok", "1"] for row in rows), rows
        assert world.sql("client.db", "select distinct name from device") == [["page"]]
        return module
