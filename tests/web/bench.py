#!/usr/bin/env python3
"""Times of the dashboard in Chromium over made-up data, beside what it aims at. Nothing fails: the machine may be busy.

usage: KILN_BIN=build python3 tests/web/bench.py [RUNS]
"""
import statistics
import sys

from dashboard import Dashboard, harness, names
from fake_server import Server
from made_up import Lab

BOARDS, TRIALS, CHANGES = 2000, 100_000, 50
# What an update costs the main thread: the callback that takes the rows, and the layout after it.
WATCH = """(() => {
    window.costs = [];
    const {setTimeout} = window;
    window.setTimeout = (run, ms) => setTimeout(() => { const start = performance.now(); run(); document.body.offsetHeight; window.costs.push(performance.now() - start); }, ms);
    return 1;
})()"""


def since_start(browser, fragment, ready):
    """Milliseconds from following a link, everything loaded anew, to the second frame in which `ready` holds."""
    browser.open("about:blank")
    script = browser.send("Page.addScriptToEvaluateOnNewDocument", source=f"""
        const timer = setInterval(() => {{ if ({ready}) {{ clearInterval(timer); requestAnimationFrame(() => requestAnimationFrame(() => {{ window.ready = performance.now(); }})); }} }}, 2);""")["identifier"]
    browser.open(f"{browser.server.url}#/{fragment}")
    browser.until("window.ready ?? 0", fragment)
    browser.send("Page.removeScriptToEvaluateOnNewDocument", identifier=script)
    return browser.evaluate("window.ready")


def updates(browser):
    """Milliseconds of the main thread for each update of the fleet, layout included."""
    script = browser.send("Page.addScriptToEvaluateOnNewDocument", source=WATCH)["identifier"]
    browser.open("about:blank")
    browser.open(f"{browser.server.url}#/fleet")
    browser.until("document.querySelectorAll('a.tile').length", "the fleet")
    browser.server.changes = CHANGES
    browser.until("window.costs.length >= 20", "20 updates")
    browser.server.changes = 0
    browser.send("Page.removeScriptToEvaluateOnNewDocument", identifier=script)
    return browser.evaluate("window.costs.slice(1, 20)")


def main(runs=3):
    server, world = Server(Lab(BOARDS, trials=TRIALS)), harness.World()
    try:
        lab = server.fake.lab
        server.fake.job_trials(lab.jobs[0]["job"], {"limit": TRIALS})  # before the clock runs: what Python takes is not the page's time
        with Dashboard(world, server.link, lab) as browser:
            browser.server = server
            fleet = [since_start(browser, "fleet", f"document.querySelectorAll('a.tile').length === {BOARDS}") for _ in range(runs)]
            job = [since_start(browser, f"jobs/{names(lab)['job']}", "document.querySelector('figure path.curve') && !document.querySelector('[aria-busy]')") for _ in range(runs)]
            costs = updates(browser)
            memory = browser.evaluate("performance.memory?.usedJSHeapSize ?? 0")
        print(f"page of {BOARDS} boards interactive      {statistics.median(fleet):8.0f} ms  (aim 1000)")
        print(f"job page with {TRIALS} trials       {statistics.median(job):8.0f} ms  (aim 1500)")
        print(f"update of {CHANGES} of {BOARDS} boards, median  {statistics.median(costs):8.1f} ms  (aim 50), largest {max(costs):.1f} ms")
        print(f"memory of the page                   {memory / 2 ** 20:8.1f} MiB")
    finally:
        server.stop()
        world.close()


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
