#!/usr/bin/env python3
"""Alert rules and the Grafana dashboard of deploy/prometheus: every metric that they name is one of a live tracker, and
promtool agrees with the rules, with the page, and with alerts.yml, which says when each alert fires."""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.request

import harness
from harness import Skip, until

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "deploy/prometheus"
RULES, DASHBOARD = FOLDER / "kiln.rules.yml", FOLDER / "kiln-dashboard.json"
ALERTS = pathlib.Path(__file__).with_name("alerts.yml")
FOREIGN = {"up"}  # of Prometheus itself


def promtool(*argv, text=None):
    if not shutil.which("promtool"):
        raise Skip("promtool is missing: apt-get install prometheus")
    done = subprocess.run(["promtool", *map(str, argv)], input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def live(world):
    """The page of a tracker with a board, a project and a key that ends."""
    world.run("key", "new", "client/ann", "--expires", "2099-12-31", "-o", world.path("ann.key"))
    port = pathlib.Path(world.path("http"))
    _, address = world.tracker("--http", "0", "--http-port-file", port)
    world.board(address)
    world.run("tune", world.zoo("conv:C3"), "--trials", 1, "--tracker", address, "--detach")
    until(port.exists, "the port of the pages")
    page = lambda: urllib.request.urlopen(f"http://127.0.0.1:{port.read_text().strip()}/metrics").read().decode()
    until(lambda: "kiln_board_available{" in page() and "kiln_project_leases{" in page(), "the board and the project")
    return page()


def names_of(page):
    """Names as queries use them."""
    return {re.match(r"[a-zA-Z_:][\w:]*", line)[0] for line in page.splitlines() if line and not line.startswith("#")}


def expressions():
    """(where, expression) of all rules and panels."""
    rules = [("rule", line.split("expr:", 1)[1].strip()) for line in RULES.read_text().splitlines() if "expr:" in line]
    board = json.loads(DASHBOARD.read_text())
    panels = [(panel["title"], target["expr"]) for panel in board["panels"] for target in panel.get("targets", [])]
    variables = [(variable["name"], variable["query"]) for variable in board["templating"]["list"] if variable["type"] == "query"]
    return rules, panels, variables


def test_every_metric_that_is_named_is_one_of_a_live_tracker(world):
    page = live(world)
    names = names_of(page)
    rules, panels, variables = expressions()
    assert len(rules) >= 18 and len(panels) >= 25 and len(variables) == 2
    for where, expression in rules + panels + variables:
        used = set(re.findall(r"\b(kiln_\w+|up)\b(?=[\s{\[)<>=,]|$)", expression))
        assert used, f"{where}: {expression} names no metric"
        assert used <= names | FOREIGN, f"{where}: the tracker has no {sorted(used - names - FOREIGN)}"
    # Labels, too: those that queries group and select by.
    for label in "key", "node", "project", "le":
        assert re.search(rf'[{{,]{label}="', page), label
    assert re.search(r'^kiln_key_expires_timestamp_seconds\{key="client/ann/1"\} 4102444800$', page, re.M), page
    free, size = (float(re.search(rf"^kiln_disk_{what}_bytes (\S+)$", page, re.M)[1]) for what in ("free", "size"))
    assert 0 < free <= size


def test_the_page_is_as_prometheus_wants_it(world):
    page = live(world)
    assert "kiln_board_quarantined{" in page and "kiln_request_oldest_seconds 0\n" in page
    # promtool also has opinions on names that were given long ago; errors of the format end it with another code.
    done = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, text=True) if shutil.which("promtool") else None
    if not done:
        raise Skip("promtool is missing: apt-get install prometheus")
    said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    assert done.returncode in (0, 3) and not [line for line in said if "error" in line.lower()], said
    new = [line for line in said if re.match(r"kiln_(disk|key|keys|request|job)", line)]
    assert not new, new


def test_each_alert_fires_when_it_should_and_not_before(world):
    for file in RULES, ALERTS:
        shutil.copy(file, world.folder)
    said = promtool("check", "rules", world.folder / RULES.name)
    alerts = re.findall(r"- alert: (\w+)", RULES.read_text())
    assert f"{len(alerts)} rules found" in said, said
    text = ALERTS.read_text()
    for alert in alerts:
        assert f"name: {alert}\n" in text and f"alertname: {alert}, exp_alerts: []" in text, f"{alert} has no test"
    assert len(re.findall(r"action: ", RULES.read_text())) == len(alerts)  # each says what to do
    promtool("test", "rules", world.folder / ALERTS.name)
    # A threshold that is wrong is noticed.
    (world.folder / RULES.name).write_text(RULES.read_text().replace("> 1800", "> 18000"))
    assert subprocess.run(["promtool", "test", "rules", str(world.folder / ALERTS.name)], capture_output=True).returncode == 1


def test_the_dashboard_is_whole_and_its_queries_parse(world):
    board = json.loads(DASHBOARD.read_text())
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids) and board["title"] == "Kiln" and board["uid"] == "kiln"
    for panel in board["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24 and panel["title"]
        if panel["type"] != "row":
            assert panel["targets"] and panel["fieldConfig"]["defaults"]["unit"], panel["title"]
            assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
    _, panels, _ = expressions()
    rules = "groups:\n- name: dashboard\n  rules:\n"
    for number, (_, expression) in enumerate(panels):
        expression = expression.replace("$tracker", ".*").replace("$board", ".*").replace("'", "''")
        rules += f"  - record: panel:{number}\n    expr: '{expression}'\n"
    path = world.folder / "dashboard.rules.yml"
    path.write_text(rules)
    assert f"{len(panels)} rules found" in promtool("check", "rules", path)


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
