#!/usr/bin/env python3
"""Takes the pictures of docs/web: every view of the dashboard over made-up data.

usage: KILN_BIN=build python3 tests/web/screenshots.py [FOLDER]
"""
import base64
import contextlib
import pathlib
import sys

from dashboard import ROOT, VIEWS, Dashboard, harness
from fake_server import Server
from made_up import Lab

WIDTH, HEIGHT_MAX, QUALITY = 1280, 1500, 60
BYTES_MAX = 1_000_000  # of all together, in the repository
PICTURES = [(view, "light", WIDTH) for view in VIEWS if view not in ("records-counts", "compile")] + [("fleet", "dark", WIDTH), ("job", "dark", WIDTH), ("fleet", "light", 360), ("job", "dark", 360)]


@contextlib.contextmanager
def server():
    one = Server(Lab(400, trials=20_000, hostile=False))
    try:
        yield one
    finally:
        one.stop()


def take(browser, folder, view, scheme, width):
    browser.scheme(scheme)
    browser.size(width, 900)
    browser.go(view)
    browser.size(width, min(max(browser.whole(), 640), HEIGHT_MAX))
    browser.settle(view)
    name = "-".join([view, *(["dark"] if scheme == "dark" else []), *([str(width)] if width != WIDTH else [])])
    content = base64.b64decode(browser.send("Page.captureScreenshot", format="webp", quality=QUALITY)["data"])
    (folder / f"{name}.webp").write_bytes(content)
    return len(content)


def main(folder=ROOT / "docs/web"):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    world = harness.World()
    try:
        with server() as one, Dashboard(world, one.link, one.fake.lab) as browser:
            browser.send("Emulation.setScrollbarsHidden", hidden=True)
            total = sum(take(browser, folder, *picture) for picture in PICTURES)
    finally:
        world.close()
    print(f"{len(PICTURES)} pictures, {total} bytes in {folder}")
    return int(total > BYTES_MAX)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
