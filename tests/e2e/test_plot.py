#!/usr/bin/env python3
"""`kiln db plot`: the page is well-formed, needs nothing from elsewhere, says what the database says, and cannot be
broken by what is stored."""
import json
import pathlib
import re
import sys
import xml.etree.ElementTree

import harness

HTML, SVG = "{http://www.w3.org/1999/xhtml}", "{http://www.w3.org/2000/svg}"


def plot(world, db, *options):
    page = world.path("page.html")
    world.run("db", "plot", "--db", db, "-o", page, *options)
    return xml.etree.ElementTree.parse(page).getroot()


def tuned(world):
    db = world.path("t.db")
    world.json("tune", world.zoo("gemm:64x64x64"), "--trials", 6, "--db", db)
    world.json("tune", world.zoo("gemm:64x48x32"), "--trials", 3, "--db", db)
    return db


def words(element):
    return " ".join(element.itertext())


def test_the_page_has_every_task_and_figure(world):
    root = plot(world, tuned(world))
    assert [words(h) for h in root.iter(HTML + "h2")] == ["Convergence", "Roofline", "Where the time went"]
    titles = [words(svg.find(SVG + "title")) for svg in root.iter(SVG + "svg")]
    assert titles == ["matmul 64x64 over 64", "matmul 64x48 over 32", "Roofline", "Where the time went"], titles
    rows = [[words(cell) for cell in row] for row in root.iter(HTML + "tr")][1:]
    assert [(row[1], row[2], row[3]) for row in rows] == [("matmul 64x64 over 64", "6", "0"), ("matmul 64x48 over 32", "3", "0")], rows


def test_page_needs_nothing_from_elsewhere(world):
    root = plot(world, tuned(world))
    assert not list(root.iter(HTML + "script")) and not list(root.iter(HTML + "link"))
    for element in root.iter():
        for name in element.attrib:
            assert name.split("}")[-1] not in ("src", "href") and not name.startswith("on"), (element.tag, name)
    style = root.find(f".//{HTML}style").text
    assert "url(" not in style and "@import" not in style and "prefers-color-scheme:dark" in style


def test_convergence_is_that_of_the_records(world):
    db = tuned(world)
    root = plot(world, db)
    history = [r for r in world.json("db", "history", "--db", db) if not r["final"]]
    first = [r for r in history if r["task_key"] == history[0]["task_key"]]
    figure = next(root.iter(SVG + "svg"))
    assert len([c for c in figure.iter(SVG + "circle") if c.get("class") == "trial"]) == len(first)
    assert len([l for l in figure.iter(SVG + "line") if l.get("class") == "base"]) == 1
    points = [tuple(map(float, p.split(","))) for p in figure.find(SVG + "polyline").get("points").split()]
    *trials, _ = points
    assert trials == sorted(trials, key=lambda p: (p[0], -p[1])), "the best got slower"
    improved, best = 0, float("inf")
    for record in first:
        improved, best = improved + (record["median_ns"] < best), min(best, record["median_ns"])
    assert len(points) == 2 * improved + 1, (points, [r["median_ns"] for r in first])


def test_the_line_ends_at_the_figure_of_the_table(world):
    """What the final measured, in turns: the luckiest trial was faster."""
    root = plot(world, tuned(world))
    rows = [[words(cell) for cell in row] for row in root.iter(HTML + "tr")]
    figures = [svg for svg in root.iter(SVG + "svg") if svg.find(SVG + "polyline") is not None]
    assert len(figures) == len(rows) - 1 == 2
    for row, figure in zip(rows[1:], figures):
        [end] = [c for c in figure.iter(SVG + "circle") if c.get("class") == "best"]
        assert words(end) == f"best: {row[rows[0].index('GFLOP/s')]} GFLOP/s", (words(end), row)
        points = figure.find(SVG + "polyline").get("points").split()
        assert points[-1] == f"{end.get('cx')},{end.get('cy')}", points
    assert "white-space:nowrap" in root.find(f".//{HTML}style").text


def test_the_roofline_of_a_single_task_has_its_roof(world):
    db = tuned(world)
    for record in world.json("db", "best", "--db", db):
        roofline = list(plot(world, db, "--task", record["task_key"]).iter(SVG + "svg"))[-2]
        lines = [[float(l.get(k)) for k in ("x1", "y1", "x2", "y2")] for l in roofline.iter(SVG + "line") if l.get("class") == "roof"]
        flat, slopes = [l for l in lines if l[1] == l[3]], [l for l in lines if l[1] > l[3] + 50 and l[2] > l[0] + 50]
        assert len(flat) == 1 and len(slopes) == 1 and flat[0][2] - flat[0][0] > 50, lines
        [point] = [c for c in roofline.iter(SVG + "circle") if c.get("class") == "best"]
        assert 56 <= float(point.get("cx")) <= 680 and 20 <= float(point.get("cy")) <= 350, point.attrib


def test_roofline_and_times_are_drawn(world):
    root = plot(world, tuned(world))
    roofline, times = list(root.iter(SVG + "svg"))[-2:]
    assert len([c for c in roofline.iter(SVG + "circle") if c.get("class") == "best"]) == 2
    assert re.search(r"peak \d+ GFLOP/s", words(roofline)) and re.search(r"memory \d+ GB/s", words(roofline))
    for name in ("search", "build", "measure", "train"):
        assert re.search(rf"{name} [\d.]+ s", words(times)), words(times)
    for kind in ("build", "board"):
        bars = [float(r.get("width")) for r in times.iter(SVG + "rect") if r.get("class") == kind and r.get("height") == "12"]
        assert len(bars) == 2 and max(bars) > 0, bars


def test_stored_text_stays_text(world):
    db, other = tuned(world), world.path("other.db")
    hostile = "</text><script>alert(\"'&\")</script>"
    lines = []
    for line in world.run("db", "export", "--db", db).stdout.splitlines():
        row = json.loads(line)
        if row["table"] == "task":
            row["op"] = hostile
        lines.append(json.dumps(row))
    pathlib.Path(world.path("rows")).write_text("\n".join(lines) + "\n")
    world.run("db", "import", world.path("rows"), "--db", other)
    root = plot(world, other)
    assert not list(root.iter(HTML + "script")) and not list(root.iter(SVG + "script"))
    assert hostile in words(next(root.iter(SVG + "title")))
    assert hostile in [text[2:2 + len(hostile)] for text in map(words, list(root.iter(SVG + "svg"))[-1].iter(SVG + "text"))]


def test_filters_and_empty_databases(world):
    db = tuned(world)
    key = world.json("db", "best", "--db", db)[0]["task_key"]
    assert len(list(plot(world, db, "--task", key).iter(HTML + "tr"))) == 2
    empty = world.path("empty.db")
    pathlib.Path(world.path("nothing")).write_text("")
    world.run("db", "import", world.path("nothing"), "--db", empty)
    assert "No records yet" in words(plot(world, empty))
    world.refused("db", "plot", "--db", db, says="-o FILE")


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
