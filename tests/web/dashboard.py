"""The dashboard in headless Chromium: signing in, going to views, and what tests ask of them."""
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "tests/e2e"), str(ROOT / "tests/bindings"), str(ROOT / "tests/support")]
import harness
from chromium import Chromium

# Every view, by the name of its picture in docs/web. {names} are put in from the data.
VIEWS = {
    "fleet": "fleet", "board": "boards/{board}", "queue": "queue", "jobs": "jobs", "job": "jobs/{job}", "task": "tasks/{task}", "task-compared": "tasks/{task}?tab=assembly&trial={trial}&with={other}",
    "model": "modules/{module}", "records": "records", "records-compared": "records?tab=compare", "records-counts": "records?tab=stats", "cost-model": "cost-model", "submit": "submit", "compile": "compile/c1",
}


def names(lab):
    from made_up import name_of, task_key
    return {"board": lab.boards[9]["node"], "job": lab.jobs[0]["job"], "task": task_key(0), "trial": name_of(task_key(0), 3), "other": name_of(task_key(0), 4), "module": "0" * 64}


class Dashboard(Chromium):
    """A tab that is signed in. `lab`: the made-up data behind `link`."""

    def __init__(self, world, link, lab=None, *options):
        super().__init__(world, *options)
        self.link, self.lab = link, lab
        self.send("Log.enable")

    def __enter__(self):
        self.open(self.link)
        self.until("Boolean(document.querySelector('.view h1') && document.querySelector('.side nav a')) && !document.querySelector('[aria-busy]')", "the first view")
        self.settle("the first view")
        return self

    def size(self, width, height=900, ratio=1):
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=ratio, mobile=False)

    def scheme(self, scheme):
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def go(self, view):
        """Shows a view and waits until its data are there."""
        fragment = "#/" + VIEWS.get(view, view).format(**(names(self.lab) if self.lab else {}))
        self.evaluate(f"location.hash = {json.dumps(fragment)}")
        self.until("Boolean(document.querySelector('.view h1, .problem'))", view)
        self.settle(view)

    def settle(self, view):
        """No question to the server is open, and figures are drawn."""
        self.until("""(async () => {
            const count = () => performance.getEntriesByType('resource').length, before = count();
            await new Promise(done => setTimeout(done, 120));
            return count() === before && !document.querySelector('.figure-place:empty, [aria-busy]');
        })()""", f"{view} at rest")

    def errors(self):
        """What the console and the content security policy complained about."""
        self.evaluate("1")
        return [event["params"] for event in self.events if event["method"] == "Runtime.exceptionThrown"
                or event["method"] == "Log.entryAdded" and event["params"]["entry"]["level"] == "error"]

    def key(self, name, code=None, **more):
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=code or 0, **more)

    def whole(self):
        """The height of the page."""
        return self.evaluate("Math.ceil(document.querySelector('main').scrollHeight)")
