#!/usr/bin/env python3
"""Draws the pictures of docs/explanation from real runs on this machine: pictures.py BUILD.

Tunes conv:C2 on a private fleet, and three jobs on a fleet of two boards, in a folder of its own, and writes search.svg, measuring.svg and leases.svg."""
import contextlib
import html
import math
import os
import pathlib
import sqlite3
import statistics
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "docs/explanation"
WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 720, 300, 64, 40, 28, 16
COLOURS = ["#1769aa", "#b4541a", "#2f8a4c", "#7a5cc4"]
DIM, GRID, TEXT = "#6b7480", "#d9dee4", "#30363d"


class Chart:
    """An SVG with one pair of axes; the colours stand out on white and on black."""

    def __init__(self, title, x, y, x_name, y_name, top=TOP, bottom=HEIGHT - BOTTOM):
        self.x, self.y, self.top, self.bottom, self.parts = x, y, top, bottom, []
        self.parts.append(f'<text x="{LEFT}" y="{top - 10}" font-weight="600">{html.escape(title)}</text>')
        for at in ticks(*y):
            self.parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{self.py(at):.1f}" y2="{self.py(at):.1f}" stroke="{GRID}"/>'
                              f'<text x="{LEFT - 6}" y="{self.py(at) + 4:.1f}" text-anchor="end" fill="{DIM}">{at:g}</text>')
        for at in ticks(*x):
            self.parts.append(f'<text x="{self.px(at):.1f}" y="{bottom + 16}" text-anchor="middle" fill="{DIM}">{at:g}</text>')
        self.parts.append(f'<text x="{WIDTH - RIGHT}" y="{bottom + 32}" text-anchor="end" fill="{DIM}">{html.escape(x_name)}</text>')
        self.parts.append(f'<text x="{WIDTH - RIGHT}" y="{top - 10}" text-anchor="end" fill="{DIM}">{html.escape(y_name)}</text>')

    def px(self, value):
        return LEFT + (value - self.x[0]) / (self.x[1] - self.x[0]) * (WIDTH - LEFT - RIGHT)

    def py(self, value):
        return self.bottom - (value - self.y[0]) / (self.y[1] - self.y[0]) * (self.bottom - self.top)

    def dot(self, x, y, colour):
        self.parts.append(f'<circle cx="{self.px(x):.1f}" cy="{self.py(y):.1f}" r="2.4" fill="{colour}"/>')

    def line(self, points, colour, dashed=False):
        text = " ".join(f"{self.px(x):.1f},{self.py(y):.1f}" for x, y in points)
        self.parts.append(f'<polyline points="{text}" fill="none" stroke="{colour}" stroke-width="1.8"{" stroke-dasharray=%s" % chr(34) + "6 4" + chr(34) if dashed else ""}/>')

    def bar(self, x, wide, row, rows, colour):
        high = (self.bottom - self.top) / rows
        self.parts.append(f'<rect x="{self.px(x):.1f}" width="{max(self.px(x + wide) - self.px(x), 1):.1f}" y="{self.top + row * high + high * 0.2:.1f}" height="{high * 0.6:.1f}" fill="{colour}" stroke="#ffffff" stroke-width="0.6"/>')

    def label(self, row, rows, text):
        high = (self.bottom - self.top) / rows
        self.parts.append(f'<text x="{LEFT - 6}" y="{self.top + (row + 0.5) * high + 4:.1f}" text-anchor="end" fill="{DIM}">{html.escape(text)}</text>')


def ticks(low, high):
    """Two to six round values within: multiples of 1, 2 or 5 times a power of ten."""
    if high <= low:
        return []
    step = next(base * 10.0 ** power for power in range(-6, 12) for base in (1, 2, 5) if base * 10.0 ** power * 6 >= high - low)
    return [round(i * step, 9) for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


def write(name, title, *charts):
    body = "\n".join(part for chart in charts for part in chart.parts)
    high = max(chart.bottom for chart in charts) + BOTTOM
    (OUT / name).write_text(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {high}" font-family="system-ui, sans-serif" font-size="12" fill="{TEXT}" role="img">'
                            f"<title>{html.escape(title)}</title>\n<rect width=\"{WIDTH}\" height=\"{high}\" fill=\"#ffffff\"/>\n{body}\n</svg>\n", encoding="utf-8")


class Fleet:
    def __init__(self, build, home):
        self.build, self.home, self.children = pathlib.Path(build).resolve(), pathlib.Path(home), []
        self.env = {**os.environ, "KILN_HOME": str(home), "KILN_CONFIG": "none"}

    def argv(self, name, *argv):
        folder = {"kiln": "cli", "kiln-tracker": "tracker", "kiln-tuner": "tuner", "kiln-rpc-server": "rpc-server"}[name]
        return [self.build / folder / name, *map(str, argv)]

    def run(self, *argv):
        return subprocess.run(self.argv("kiln", *argv), env=self.env, cwd=self.home, check=True, capture_output=True, text=True).stdout

    def start(self, name, *argv):
        child = subprocess.Popen(self.argv(name, *argv), env=self.env, cwd=self.home, stderr=subprocess.DEVNULL)
        self.children.append(child)
        return child

    def rows(self, db, sql):
        with contextlib.closing(sqlite3.connect(self.home / db)) as connection:
            return connection.execute(sql).fetchall()


def draw_search(fleet):
    fleet.run("zoo", "conv:C2", "-o", "c2.onnx")
    fleet.run("tune", "c2.onnx", "--trials", 96, "--db", "c2.db", "--json")
    rows = fleet.rows("c2.db", "SELECT trial_index, median_ns, flops, raced FROM record WHERE outcome = 'ok' AND final = 0 ORDER BY trial_index")
    rate = [(i + 1, flops / ns, raced) for i, (_, ns, flops, raced) in enumerate(rows)]
    high = max(r for _, r, _ in rate) * 1.08
    chart = Chart("One search of conv:C2", (0, len(rate) + 1), (0, high), "trials", "GFLOP/s")
    best, steps = 0, []
    for index, value, raced in rate:
        chart.dot(index, value, "#9aa5b1" if raced else COLOURS[0])
        best = best if raced else max(best, value)
        steps += [(index, steps[-1][1] if steps else best), (index, best)]
    chart.line(steps, COLOURS[0])
    chart.line([(0, rate[0][1]), (len(rate) + 1, rate[0][1])], COLOURS[1], dashed=True)
    write("search.svg", "Speed of each trial of a search of conv:C2, with the best so far and the default schedule", chart)


def draw_measuring(fleet):
    rows = fleet.rows("c2.db", "SELECT samples_ns, drift FROM record WHERE outcome = 'ok' AND final = 0 AND raced = 0 ORDER BY trial_index LIMIT 48")
    spread, drift = [], []
    for index, (blob, value) in enumerate(rows):
        samples = struct.unpack(f"<{len(blob) // 8}d", blob)
        middle = statistics.median(samples)
        spread += [(index + 1, sample / middle) for sample in samples]
        if value > 0:
            drift.append((index + 1, value))
    near = [y for _, y in spread]
    upper = Chart("Samples of each trial, over their median", (0, len(rows) + 1), (min(near) - 0.01, min(max(near), 1.3) + 0.01), "", "")
    for x, y in spread:
        if y <= upper.y[1]:
            upper.dot(x, y, COLOURS[0])
    low, high = min(y for _, y in drift), max(y for _, y in drift)
    lower = Chart("Reference kernel beside the trial, over its usual time", (0, len(rows) + 1), (low - 0.01, high + 0.01), "trials", "", top=HEIGHT + 20, bottom=HEIGHT + 160)
    lower.line(drift, COLOURS[1])
    write("measuring.svg", "Samples of the trials of a search, and the time of the reference kernel beside each", upper, lower)


def draw_leases(fleet):
    fleet.start("kiln-tracker", "--listen", "unix:fleet", "--state", "tracker")
    for name in "bench-1", "bench-2":
        fleet.start("kiln-rpc-server", "--tracker", "unix:fleet", "--key", name, "--state", name)
    fleet.start("kiln-tuner", "--tracker", "unix:fleet", "--db", "fleet.db")
    for job, model in (("blue", "conv:C5"), ("orange", "conv:C8"), ("green", "conv:C11")):
        fleet.run("zoo", model, "-o", f"{job}.onnx")
        fleet.run("tune", f"{job}.onnx", "--trials", 40, "--tracker", "unix:fleet", "--project", job, "--job", job, "--detach")
    for job in "blue", "orange", "green":
        fleet.run("jobs", "watch", job, "--tracker", "unix:fleet")
    rows = fleet.rows("fleet.db", "SELECT job_id, device_id, stored_wall_ns, board_ns FROM record WHERE final = 0 ORDER BY stored_wall_ns")
    boards, jobs = sorted({row[1] for row in rows}), ["blue", "orange", "green"]
    first = min(at - took for _, _, at, took in rows)
    chart = Chart("Two boards and three jobs", (0, (rows[-1][2] - first) / 1e9 * 1.01), (0, 0), "seconds", "a colour for each job")
    for job, board, at, took in rows:
        chart.bar((at - took - first) / 1e9, took / 1e9, boards.index(board), len(boards), COLOURS[jobs.index(job.split(".")[0])])
    for row, _ in enumerate(boards):
        chart.label(row, len(boards), f"board {row + 1}")
    write("leases.svg", "Which job's trials ran on which of two boards over time", chart)


def main():
    with tempfile.TemporaryDirectory() as home:
        fleet = Fleet(sys.argv[1], home)
        try:
            draw_search(fleet)
            draw_measuring(fleet)
            draw_leases(fleet)
        finally:
            for child in fleet.children:
                child.terminate()
            for child in fleet.children:
                child.wait()


if __name__ == "__main__":
    main()
