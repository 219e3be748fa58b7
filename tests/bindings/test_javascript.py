#!/usr/bin/env python3
"""The package for JavaScript, used by an application under node as npm would install it."""
import json
import pathlib
import re
import shutil
import struct
import sys

import harness
import onnx_file
from page_fleet import PageFleet
from test_install import run

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
DIGITS = ROOT / "examples/digits"
PACKAGE = harness.PROGRAMS / "js"
APP, BOARD = HERE / "app.mjs", HERE / "board.mjs"
SOCKETS = pathlib.Path("/usr/share/nodejs/ws/wrapper.mjs")  # node 18 has none of its own


def app(world, case, *args, file=APP):
    if not shutil.which("node"):
        raise harness.Skip("node is missing: install nodejs")
    folder = world.folder / "app"
    if not folder.exists():
        (folder / "node_modules").mkdir(parents=True)
        (folder / "node_modules/kiln").symlink_to(PACKAGE)
        shutil.copy(APP, folder)
        shutil.copy(BOARD, folder)
    return run("node", folder / file.name, case, *args).strip()


def digits(world, target=None):
    module = world.path("digits.wasm" if target else "digits.kiln")
    world.run("compile", DIGITS / "digits.onnx", "--db", "none", "-o", module, *(("--target", target) if target else ()))
    return module


def test_digits_are_recognised_as_natively(world):
    world.run("run", digits(world), "--input", f"image={DIGITS}/images.npy", "--output", world.path("out"))
    said = app(world, "digits", digits(world, "wasm"), DIGITS / "images.npy", DIGITS / "labels.npy", world.path("out") + "/probability.npy")
    accuracy, alike = said.split()
    assert float(accuracy) > 0.97 and alike == "359/359", said


def test_inputs_and_outputs_may_stay_in_the_modules_memory(world):
    app(world, "memory", digits(world, "wasm"))


def test_each_error_is_a_class_and_says_what_was_expected(world):
    app(world, "errors", digits(world, "wasm"), digits(world))


def test_threads_share_the_loops_of_kernels(world):
    world.run("compile", DIGITS / "digits.onnx", "--db", "none", "--target", "wasm", "--threads", 2, "-o", world.path("two.wasm"))
    app(world, "threads", world.path("two.wasm"), digits(world, "wasm"))


def test_results_have_as_many_rows_as_the_data_say(world):
    model = pathlib.Path(world.path("compress.onnx"))
    model.write_bytes(onnx_file.model([onnx_file.node("Compress", "x c", "y", axis=0)],
                                      [onnx_file.port("x", [4, 3]), onnx_file.port("c", [4], onnx_file.BOOL)], [onnx_file.port("y", ["n", 3])]))
    world.run("compile", model, "--db", "none", "--target", "wasm", "-o", world.path("rows.wasm"))
    app(world, "rows", world.path("rows.wasm"))


def doubling(world, shape):
    """A model of y = x + x."""
    model = pathlib.Path(world.path("sizes.onnx"))
    model.write_bytes(onnx_file.model([onnx_file.node("Add", "x x", "y")], [onnx_file.port("x", shape)], [onnx_file.port("y", shape)]))
    return model


def test_one_module_takes_every_size_up_to_the_largest(world):
    for axis, shape in enumerate((["batch", 8], [8, "batch"])):
        model = doubling(world, shape)
        made = world.json("compile", model, "--dim", "batch=1,4,8", "--db", "none", "--target", "wasm", "-o", world.path("all.wasm"))[-1]
        assert made["sizes"] == [1, 4, 8] and made["takes_all"], made
        app(world, "sizes", world.path("all.wasm"), axis)


def test_rows_that_depend_on_each_other_are_not_padded(world):
    model = pathlib.Path(world.path("softmax.onnx"))
    model.write_bytes(onnx_file.model([onnx_file.node("Softmax", "x", "y", axis=0)], [onnx_file.port("x", ["batch", 8])], [onnx_file.port("y", ["batch", 8])]))
    world.run("compile", model, "--dim", "batch=2..6", "--db", "none", "--target", "wasm", "-o", world.path("listed.wasm"))
    app(world, "listed_sizes", world.path("listed.wasm"), digits(world, "wasm"))


def test_modules_come_from_servers(world):
    app(world, "server", digits(world, "wasm"))


def test_boards_make_the_same_inputs_and_layouts(world):
    app(world, "elements", file=BOARD)


def test_a_board_tells_how_each_candidate_ends_and_who_is_to_blame(world):
    app(world, "outcomes", file=BOARD)
    app(world, "rivals", file=BOARD)


def test_a_board_tells_when_it_is_slower_than_usual(world):
    app(world, "pace", file=BOARD)


def test_a_board_obeys_leases_and_comes_back(world):
    app(world, "leases", file=BOARD)
    app(world, "comes_back", file=BOARD)


def test_a_board_takes_the_next_key(world):
    app(world, "next_key", file=BOARD)
    fleet, kept = PageFleet(world), pathlib.Path(world.path("kept.key"))
    script = board_script(world, fleet, serve=f"keyChanged: async text => (await import('node:fs')).writeFileSync({json.dumps(str(kept))}, text),")
    world.start(shutil.which("node"), script, fleet.key)
    fleet.until_here()
    assert "board/page/2 has replaced the previous key" in world.run("key", "rotate", "board/page", "--wait", 600).stdout
    assert kept.read_text().splitlines()[1].startswith("board/page/2 ")
    other = world.start(shutil.which("node"), script, fleet.key)
    harness.until(lambda: other.poll() is not None, "the end of a board with the older key")
    assert other.wait() != 0 and "is not the tracker of this key" in other.log.read_text()


def test_a_board_tells_an_impostor_nothing(world):
    app(world, "impostor", file=BOARD)


def test_a_tracker_says_what_pages_need(world):
    for options, says in ((["ws:127.0.0.1:0"], "pages prove a key"), (["ws:0.0.0.0:0"], "proxy with TLS"), (["ws:unix:/x"], "pages cannot dial a Unix socket"),
                          (["127.0.0.1:0", "--ws-origin", "localhost:8000"], "is no origin as browsers write it")):
        world.refused("--listen", *options, says=says, name="kiln-tracker")


def board_script(world, fleet, options="{}", serve=""):
    """A program of node that is a board of the fleet: its argument is the key. `options`: of its WebSocket; `serve`: further ones of the board."""
    if not SOCKETS.exists():
        raise harness.Skip("WebSockets for node are missing: install node-ws")
    script = pathlib.Path(world.path("board.mjs"))
    script.write_text(f"""
        import {{WebSocket as Plain}} from {json.dumps(str(SOCKETS))};
        import {{serve}} from {json.dumps(str(PACKAGE / "board/board.js"))};
        class WebSocket extends Plain {{ constructor(url) {{ super(url, {options}); }} }}
        await serve({json.dumps(fleet.url)}, {{key: process.argv[2], WebSocket, {serve} log: console.log}}).closed;
    """)
    return script


def test_a_board_comes_through_a_proxy_with_tls(world):
    fleet = PageFleet(world, "https://fleet.example")
    world.env["NODE_EXTRA_CA_CERTS"] = fleet.put_proxy_before()
    stranger = world.start(shutil.which("node"), board_script(world, fleet, '{origin: "https://other.example"}'), fleet.key)
    harness.until(lambda: "closed the connection" in stranger.log.read_text(), "the end of a page of another site")
    assert "pages of https://other.example" in (pathlib.Path(world.home) / "tracker/audit.log").read_text()
    world.start(shutil.which("node"), board_script(world, fleet, '{origin: "https://fleet.example"}'), fleet.key)
    fleet.until_here()


def test_a_board_in_node_measures_for_the_fleet(world):
    fleet = PageFleet(world)
    script = board_script(world, fleet)
    world.start(shutil.which("node"), script, fleet.key)
    fleet.until_here()
    tuned = fleet.tune(DIGITS / "digits.onnx")
    world.run("run", digits(world), "--input", f"image={DIGITS}/images.npy", "--output", world.path("out"))
    assert app(world, "digits", tuned, DIGITS / "images.npy", DIGITS / "labels.npy", world.path("out") + "/probability.npy").endswith("359/359")
    module = world.path("measured.wasm")
    done = world.json("tune", doubling(world, ["batch", 8]), "--dim", "batch=1,8", "--target", "wasm", "--trials", 2, "--tracker", fleet.address,
                      "--db", world.path("client.db"), "--out", module)[-1]
    assert done["sizes"] == [1, 8] and done["takes_all"], done
    times = re.findall(rb'"size":(\d+),"ns":(\d+)', pathlib.Path(module).read_bytes())
    assert [size for size, _ in times] == [b"1", b"8"] and all(int(ns) > 0 for _, ns in times), times
    stranger = world.start(shutil.which("node"), script, re.sub("[0-9a-f]{64}", "0" * 64, fleet.key, count=1))
    harness.until(lambda: stranger.poll() is not None, "the end of a board with a wrong key")
    assert "is not the tracker of this key" in stranger.log.read_text(), stranger.log.read_text()


def npy(path):
    data = pathlib.Path(path).read_bytes()
    start = 10 + int.from_bytes(data[8:10], "little")
    return struct.unpack(f"<{(len(data) - start) // 4}f", data[start:])


def test_a_board_runs_modules_that_it_is_sent(world):
    fleet, module, on = PageFleet(world), digits(world, "wasm"), ("--on", "page", "--tracker")
    world.start(shutil.which("node"), board_script(world, fleet), fleet.key)
    fleet.until_here()
    world.run("run", digits(world), "--input", f"image={DIGITS}/images.npy", "--output", world.path("here"))
    world.run("run", module, *on, fleet.address, "--input", f"image={DIGITS}/images.npy", "--output", world.path("there"))
    here, there = (npy(world.path(folder) + "/probability.npy") for folder in ("here", "there"))
    assert len(here) == len(there) == 3590 and all(abs(a - b) < 1e-4 for a, b in zip(here, there))
    bench = world.json("run", module, *on, fleet.address, "--bench")[-1]
    assert bench["median_ms"] > 0 and bench["runs"] >= 1 and bench["peak_gflops"] > 0.1, bench
    many = world.path("many.wasm")
    world.run("compile", doubling(world, ["batch", 8]), "--dim", "batch=1,4", "--db", "none", "--target", "wasm", "-o", many)
    assert world.json("run", many, *on, fleet.address)[0]["elements"] == 32
    large = world.path("large.wasm")  # its outputs are more than a stream may send at once
    world.run("compile", doubling(world, [400000]), "--db", "none", "--target", "wasm", "-o", large)
    world.run("compile", doubling(world, [400000]), "--db", "none", "-o", world.path("large.kiln"))
    for file, *where in ((world.path("large.kiln"), "--output", world.path("here")), (large, *on, fleet.address, "--output", world.path("there"))):
        world.run("run", file, *where)
    assert npy(world.path("here") + "/y.npy") == npy(world.path("there") + "/y.npy")
    damaged = pathlib.Path(world.path("damaged.wasm"))
    damaged.write_bytes(pathlib.Path(module).read_bytes().replace(b'"inputs"', b'"imputs"'))
    world.refused("run", damaged, *on, fleet.address, says="no module of Kiln, or is damaged")
    damaged.write_bytes(pathlib.Path(module).read_bytes()[:-5])
    world.refused("run", damaged, *on, fleet.address, says="link_error: the module is damaged")


def test_the_package_is_whole_and_has_types_for_what_it_exports(world):
    package = json.loads((PACKAGE / "package.json").read_text())
    for file in (*package["exports"]["."].values(), *package["exports"]["./board"].values(), package["exports"]["./kernel.js"]):
        assert (PACKAGE / file).exists(), file
    classes = lambda file: set(re.findall(r"export class (\w+)", (PACKAGE / file).read_text()))
    assert classes("errors.js") == classes("errors.d.ts") >= {"KilnError", "NotFound", "DataLoss"}


def test_a_module_is_compiled_where_its_name_says_what_it_is(world):
    shutil.copy(DIGITS / "digits.onnx", world.folder)
    world.run("compile", world.path("digits.onnx"), "--target", "wasm")
    assert pathlib.Path(world.path("digits.wasm")).read_bytes().startswith(b"\0asm\1\0\0\0")


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
