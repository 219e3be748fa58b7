#!/usr/bin/env python3
"""The dashboard as kiln-web serves it, over a real tracker, board and tuner, while and after a model is tuned."""
import json
import re
import sys

from dashboard import ROOT, Dashboard, harness
from web_data import Server

HOSTILE = "<img src=x onerror=hostile()>"  # a label has no = in its value
TRIALS = 40


def start(world):
    """A server, a board with a hostile label, a tuner, and a job that runs."""
    if not (harness.PROGRAMS / "web/kiln-web").exists():
        raise harness.Skip("kiln-web is missing: it was not built")
    server = Server(world, records=world.path("tuner.db"))
    world.board(server.address, "--labels", f"room={HOSTILE}")
    world.tuner(server.address)
    return server


def tune(world, server):
    return world.start("kiln", "tune", ROOT / "examples/digits/digits.onnx", "--trials", TRIALS, "--tracker", server.address, "--db", world.path("client.db"), "--json")


def open_dashboard(world, server):
    return Dashboard(world, f"{server.base}/#token={server.token}")


def no_view_complains(browser):
    assert not browser.evaluate("document.querySelectorAll('.problem').length"), browser.evaluate("document.querySelector('.problem').textContent")
    bad = [error for error in browser.errors() if "404" not in json.dumps(error)]  # what this server does not have; the view says so
    assert not bad, bad


def test_a_job_is_followed_from_its_start_to_its_records(world):
    server = start(world)
    with open_dashboard(world, server) as browser:
        browser.until("document.querySelectorAll('a.tile').length === 1", "the board")
        tuning = tune(world, server)
        browser.go("jobs")
        browser.until("[...document.querySelectorAll('tbody a')].some(link => link.textContent === 'digits.onnx')", "the job without a reload")
        job = browser.evaluate("document.querySelector('tbody a').getAttribute('href').split('/').at(-1)")
        browser.go(f"jobs/{job}")
        browser.until("document.querySelector('.lead').textContent.includes('done')", "the end of the job, by events")
        assert tuning.wait() == 0
        browser.until("document.querySelectorAll('figure path.curve').length > 0", "convergence")
        told = browser.evaluate("document.querySelector('.kpis').textContent")
        assert f"of {TRIALS}" in told and "×" in told, told
        assert browser.evaluate("[...document.querySelectorAll('.kpi')].find(one => one.textContent.startsWith('Device time')).textContent.includes('–')") is False, told
        tasks = [task["key"] for task in server.get(f"jobs/{job}")["tasks"]]
        for view in ("fleet", f"boards/{server.get('boards')['items'][0]['node']}", "queue", "jobs", f"jobs/{job}", "records", "records?tab=top", "records?tab=history", "records?tab=stats", "records?tab=compare", "records?tab=compare&kind=dates", "cost-model", "submit"):
            browser.go(view)
            no_view_complains(browser)
        browser.go(f"boards/{server.get('boards')['items'][0]['node']}")
        assert browser.evaluate("[...document.querySelectorAll('figure')].filter(one => one.textContent.includes('Drift over time') && one.querySelector('path.curve')).length") == 1
        browser.go(f"tasks/{tasks[1]}")
        trials = len(server.get(f"tasks/{tasks[1]}/trials")["rows"])
        assert browser.evaluate("document.querySelector('table[aria-rowcount]').getAttribute('aria-rowcount')") == str(trials + 1)
        for tab, says in (("words", "reduced over"), ("trace", "Split the loop"), ("steps", "split("), ("loops", "loops:"), ("assembly", ".text")):
            browser.go(f"tasks/{tasks[1]}?tab={tab}")
            browser.until(f"document.querySelector('main').textContent.includes({json.dumps(says)})", tab)
        no_view_complains(browser)


def test_a_model_is_submitted_as_a_job(world):
    server = start(world)
    with open_dashboard(world, server) as browser:
        browser.go("submit")
        root = browser.send("DOM.getDocument")["root"]["nodeId"]
        file = browser.send("DOM.querySelector", nodeId=root, selector="input[type=file]")["nodeId"]
        browser.send("DOM.setFileInputFiles", files=[str(ROOT / "examples/digits/digits.onnx")], nodeId=file)
        browser.evaluate("document.querySelector('.form input[max]').value = '7'; document.querySelector('.form').requestSubmit(); 1")
        browser.until("location.hash.startsWith('#/jobs/')", "the job")
        browser.until("document.querySelector('h1')?.textContent.includes('digits.onnx')", "the job's page")
        [row] = server.get("jobs")["items"]
        assert (row["model_name"], row["priority"], row["trials"]) == ("digits.onnx", 7, 1000), row
        no_view_complains(browser)


def test_a_model_is_compiled_and_its_module_can_be_had(world):
    server = start(world)
    with open_dashboard(world, server) as browser:
        browser.go("submit")
        root = browser.send("DOM.getDocument")["root"]["nodeId"]
        file = browser.send("DOM.querySelector", nodeId=root, selector="input[type=file]")["nodeId"]
        browser.send("DOM.setFileInputFiles", files=[str(ROOT / "examples/digits/digits.onnx")], nodeId=file)
        browser.evaluate("for (const [at, value] of [[0, 'compile'], [2, 'none']]) { const select = document.querySelectorAll('.form select')[at]; select.value = value; select.dispatchEvent(new Event('change')); } document.querySelector('.form').requestSubmit(); 1")
        browser.until("location.hash.startsWith('#/compile/')", "the compilation")
        browser.until("document.querySelector('tbody .chip')?.textContent === 'done'", "the module")
        module = browser.evaluate("fetch(document.querySelector('tbody a.button').href).then(answer => answer.arrayBuffer()).then(bytes => bytes.byteLength)")
        assert module > 10000, module
        browser.evaluate("location.hash = document.querySelector('tbody a[href*=modules]').getAttribute('href')")
        browser.until("document.querySelectorAll('svg.graph .node').length >= 6", "the module's kernels")
        edges = browser.evaluate("[...document.querySelectorAll('svg.graph .edge')].map(edge => edge.getAttribute('class'))")
        assert edges.count("edge passing") == 1, (edges, "the network's skip goes around a convolution")
        memory = browser.evaluate("[...document.querySelectorAll('.figure svg')].map(svg => svg.getAttribute('aria-label')).find(text => text.startsWith('Memory over a run'))")
        used, reserved = re.search("At most (.*) of the workspace are in use at once, of (.*) reserved", memory).groups()
        assert used == reserved != "0 B", memory
        title = browser.evaluate("document.querySelector('h1').textContent")
        assert title.startswith("Model ") or title == "digits.onnx", title
        no_view_complains(browser)


def test_names_of_boards_stay_text(world):
    server = start(world)
    with open_dashboard(world, server) as browser:
        browser.until(f"[...document.querySelectorAll('.room h2')].some(one => one.textContent === {json.dumps(HOSTILE)})", "the room's name")
        assert browser.evaluate("[window.hostile ?? null, document.querySelectorAll('main img').length]") == [None, 0]
        no_view_complains(browser)


def test_a_board_is_drained_and_released_by_its_page(world):
    server = start(world)
    node = server.get("boards")["items"][0]["node"]
    with open_dashboard(world, server) as browser:
        browser.go(f"boards/{node}")
        for place, state in ((0, "drained"), (2, "free")):
            browser.evaluate(f"[...document.querySelectorAll('.actions button')][{place}].click(); document.querySelector('dialog input').value = 'a test'; document.querySelector('dialog form').requestSubmit(); 1")
            browser.until(f"!document.querySelector('dialog') && document.querySelector('.lead .chip').textContent === '{state}'", state)
            assert server.get(f"boards/{node}")["state"] == state
        no_view_complains(browser)


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
