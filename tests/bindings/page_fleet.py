"""A tracker that pages dial, and what a test asks of the fleet with such a board."""
import pathlib
import re

import harness


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

    def until_here(self):
        harness.until(lambda: "board=page" in self.log.read_text(), "the page")

    def tune(self, model, trials=4):
        """Measures tasks of the model there: every record must be ok, and checked. Returns the module's file."""
        world, module = self.world, self.world.path("tuned.wasm")
        lines = world.json("tune", model, "--target", "wasm", "--tasks", "conv+relu", "--trials", trials, "--tracker", self.address,
                           "--db", world.path("client.db"), "--out", module)
        done = next(line for line in lines if line["event"] == "done")
        assert all(task["best_ms"] > 0 for task in done["tasks"] if task["trials"]), done
        rows = world.sql("client.db", "select outcome, checked, count(*) from record group by outcome, checked")
        assert rows and all(row[:2] == ["ok", "1"] for row in rows), rows
        assert world.sql("client.db", "select distinct name from device") == [["page"]]
        return module
