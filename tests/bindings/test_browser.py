#!/usr/bin/env python3
"""The page of examples/browser in Chromium. The screenshot stays in the build folder: browser.png."""
import base64
import json
import pathlib
import struct
import subprocess
import sys

import harness
from chromium import Chromium
from page_fleet import PageFleet

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCREENSHOT = harness.PROGRAMS / "browser.png"


def npy(path, kind):
    data = pathlib.Path(path).read_bytes()
    start = 10 + int.from_bytes(data[8:10], "little")
    return struct.unpack(f"<{(len(data) - start) // struct.calcsize(kind)}{kind}", data[start:])


def page(world):
    world.env.update(KILN=harness.program("kiln"), KILN_JS=str(harness.PROGRAMS / "js"))
    server = world.start(sys.executable, ROOT / "examples/browser/serve.py")
    return harness.until(lambda: server.log.read_text().strip(), "the server's address")


def test_a_drawn_digit_is_recognised(world):
    with Chromium(world) as browser:
        browser.open(page(world))
        browser.until("document.querySelectorAll('#kernels tr').length", "the first answer")
        assert browser.evaluate("document.getElementById('answer').textContent") == "7"
        rows = browser.evaluate("[...document.querySelectorAll('#kernels tr')].map(row => [...row.cells].map(cell => cell.textContent))")
        assert rows[0][:2] == ["conv1", "conv+relu"] and all(float(ms) >= 0 for _, _, ms in rows) and len(rows) >= 6, rows
        said = browser.evaluate("document.getElementById('said').textContent")
        left, top = browser.evaluate("(({left, top}) => [left, top])(document.getElementById('drawing').getBoundingClientRect())")
        drawn = {"0": [(128, 30), (70, 60), (60, 128), (75, 200), (128, 226), (185, 200), (196, 128), (180, 60), (128, 30)],
                 "4": [(150, 230), (150, 30), (60, 160), (200, 160)]}
        for digit, line in drawn.items():
            browser.evaluate("document.getElementById('clear').click()")
            browser.draw([(left + x, top + y) for x, y in line])
            browser.until(f"document.getElementById('answer').textContent === '{digit}'", f"a drawn {digit}")
        browser.screenshot(SCREENSHOT)
        png = SCREENSHOT.read_bytes()
        assert png.startswith(b"\x89PNG") and struct.unpack(">II", png[16:24])[0] == 900 and len(png) > 8000
        print(f"# {said}; {SCREENSHOT.name}: {len(png)} bytes")


def test_accuracy_is_that_of_the_native_module(world):
    images, labels = npy(ROOT / "examples/digits/images.npy", "f"), npy(ROOT / "examples/digits/labels.npy", "q")
    world.run("compile", ROOT / "examples/digits/digits.onnx", "--db", "none", "-o", world.path("d.kiln"))
    world.run("run", world.path("d.kiln"), "--input", f"image={ROOT}/examples/digits/images.npy", "--output", world.path("out"))
    native = npy(world.path("out") + "/probability.npy", "f")
    classes = [max(range(10), key=lambda c: native[10 * i + c]) for i in range(len(labels))]
    with Chromium(world) as browser:
        browser.open(page(world))
        browser.until("document.getElementById('answer')?.textContent === '7'", "the first answer")
        got = browser.evaluate(f"""(async () => {{
            const {{classify}} = await import('./page.js'), x = new Float32Array({json.dumps(images)}), answers = [];
            for (let i = 0; i < x.length; i += 64) answers.push((await classify(x.slice(i, i + 64))).digit);
            return answers;
        }})()""")
    assert got == classes
    accuracy = sum(a == b for a, b in zip(got, labels)) / len(labels)
    assert accuracy > 0.97, accuracy
    print(f"# accuracy {accuracy:.4f}, as natively")


def test_an_isolated_page_runs_a_module_on_threads(world):
    world.run("compile", ROOT / "examples/digits/digits.onnx", "--db", "none", "--target", "wasm", "--threads", 2, "-o", world.path("two.wasm"))
    module = base64.b64encode(pathlib.Path(world.path("two.wasm")).read_bytes()).decode()
    with Chromium(world) as browser:
        browser.open(page(world))
        browser.until("document.getElementById('answer')?.textContent === '7'", "the first answer")
        threads, difference = browser.evaluate(f"""(async () => {{
            const kiln = await import('./kiln/kiln.js'), bytes = Uint8Array.from(atob('{module}'), c => c.charCodeAt(0));
            const image = new Float32Array(64).map((_, i) => i / 64), two = await kiln.load(bytes), one = await kiln.load(bytes, {{threads: 1}});
            const a = (await one.run({{image}})).probability;
            let difference = 0;
            for (let i = 0; i < 100; i++) {{
                const b = (await two.run({{image}})).probability;
                a.forEach((p, k) => difference = Math.max(difference, Math.abs(p - b[k])));
            }}
            return [two.threads, difference];
        }})()""")
    assert threads == 2 and difference < 1e-5, (threads, difference)


def test_a_page_measures_for_the_fleet(world):
    address = page(world)
    fleet = PageFleet(world, address.rstrip("/"))
    serve = f"""(await import('./kiln/board/board.js')).serve({json.dumps(fleet.url)}, {{key: {json.dumps(fleet.key)}, log: text => (window.told ??= []).push(text)}})"""
    with Chromium(world) as browser:
        browser.open(address)
        browser.until("document.getElementById('answer')?.textContent === '7'", "the first answer")
        browser.evaluate(f"(async () => {{ window.board = {serve}; }})()")
        fleet.until_here()
        fleet.tune(ROOT / "examples/digits/digits.onnx")
        print(f"# {browser.evaluate('window.told.length')} lines; {world.json('fleet', 'list', '--tracker', fleet.address)[0]['device']}")


def test_a_page_comes_through_a_proxy_with_tls(world):
    address = page(world)
    fleet = PageFleet(world, address.rstrip("/"))
    fleet.put_proxy_before()
    with Chromium(world, "--ignore-certificate-errors") as browser: # the proxy's is its own
        browser.open(address)
        browser.until("document.getElementById('answer')?.textContent === '7'", "the first answer")
        browser.evaluate(f"(async () => {{ (await import('./kiln/board/board.js')).serve({json.dumps(fleet.url)}, {{key: {json.dumps(fleet.key)}}}); }})()")
        fleet.until_here()


def test_a_page_of_another_origin_is_refused(world):
    fleet = PageFleet(world, "http://localhost:1")
    with Chromium(world) as browser:
        browser.open(page(world))
        browser.evaluate(f"{{ const socket = new WebSocket({json.dumps(fleet.url)}); window.ended = null; socket.onclose = ({{code}}) => {{ window.ended = code; }}; }}")
        browser.until("window.ended === 1006", "the refusal")
    assert "pages of http://127.0.0.1" in (pathlib.Path(world.home) / "tracker/audit.log").read_text()


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
