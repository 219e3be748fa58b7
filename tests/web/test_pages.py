#!/usr/bin/env python3
"""The dashboard without a browser: its pure modules in node, and rules that its files obey."""
import json
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[0] / "e2e"))
import harness

PAGES = HERE.parents[1] / "web/pages"
FILE_LINES_MAX = 400


def sources(suffix):
    return {path: path.read_text() for path in sorted(PAGES.rglob(f"*{suffix}"))}


def in_node(world, name):
    if not shutil.which("node"):
        raise harness.Skip("node is missing: install nodejs")
    copy = world.folder / "pages"
    shutil.copytree(PAGES, copy)
    (copy / "package.json").write_text(json.dumps({"type": "module"}))  # which browsers need not be told
    done = subprocess.run(["node", "--test-reporter=tap", HERE / "unit" / name], env={**world.env, "KILN_PAGES": str(copy)}, capture_output=True, text=True)
    count = int(re.search(r"^# pass (\d+)$", done.stdout, re.M).group(1)) if done.returncode == 0 else 0
    assert done.returncode == 0 and count > 0, done.stdout + done.stderr
    print(f"# {name}: {count} tests")


def test_texts_are_as_people_say_them(world):
    in_node(world, "format.mjs")


def test_rows_filters_and_links(world):
    in_node(world, "rows.mjs")


def test_layout_of_charts(world):
    in_node(world, "charts.mjs")


def test_traces_comparisons_and_gains(world):
    in_node(world, "words.mjs")


def test_text_cannot_become_markup(world):
    """There is no call in the dashboard that makes elements, styles or code from a string."""
    banned = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|\beval\(|new Function|setTimeout\(['\"`]|\.cssText|setAttribute\('style'|\bstyle:"
    for path, text in sources(".js").items():
        assert not re.search(banned, text), f"{path.name}: {re.search(banned, text).group(0)}"
    for path, text in sources(".html").items():
        assert not re.search(r"\sstyle=|<style|\son\w+=|<script(?![^>]*\ssrc=)", text), f"{path.name} has code or style inline"


def test_nothing_comes_from_elsewhere(world):
    """All imports are relative and exist; no address of another host is loaded."""
    for path, text in sources(".js").items():
        for name in map("".join, re.findall(r"^(?:import|export) .*from '([^']+)'|^import '([^']+)'", text, re.M)):
            assert name.startswith(".") and (path.parent / name).is_file(), f"{path.name} imports {name}"
    for path, text in {**sources(".js"), **sources(".css"), **sources(".html")}.items():
        found = [url for url in re.findall(r"https?://[^'\"\s)]+", text) if url not in ("http://www.w3.org/2000/svg",)]
        assert not found, f"{path.name}: {found}"


def test_every_view_of_the_address_has_its_module(world):
    named = set(re.findall(r"\['[\w-]+', \d, '(\w+)'\]", (PAGES / "main.js").read_text()))
    assert named and all((PAGES / "views" / f"{name}.js").is_file() for name in named), named


def test_files_are_small(world):
    for path, text in sources(".js").items():
        assert text.count("\n") <= FILE_LINES_MAX, f"{path.name} has {text.count(chr(10))} lines"


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
