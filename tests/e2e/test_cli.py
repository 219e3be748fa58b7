#!/usr/bin/env python3
"""Every command as a person uses it, and one clear error for each bad input."""
import json
import math
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import xml.etree.ElementTree

import harness
import onnx_file


def digits():
    return str(pathlib.Path(__file__).resolve().parents[2] / "examples/digits/digits.onnx")


def test_refused_schedule_steps_are_explained(world):
    world.run("zoo", "conv:C2", "-o", world.path("c2.onnx"))
    text = world.run("explain", world.path("c2.onnx"), "--stage", "space", "--refused").stdout
    assert "\nrule tile (plain): no sketch: no tensor intrinsic computes the reduction\n" in text, text
    world.refused("explain", world.path("c2.onnx"), "--stage", "loops", "--refused", says="only the stage space")


def test_every_stage_explains(world):
    for stage in ("graph", "tasks", "space", "loops", "llvm", "asm", "c"):
        text = world.run("explain", digits(), "--stage", stage).stdout
        assert len(text.splitlines()) > 3, f"{stage}: {text!r}"


def test_compile_run_and_bench(world):
    module = world.path("d.kiln")
    assert world.json("compile", digits(), "-o", module)[-1]["event"] == "compiled"
    output = world.json("run", module, "--output", world.path("out"))[-1]
    assert output["name"] == "probability" and abs(output["mean"] - 0.1) < 1e-5, output
    assert pathlib.Path(world.path("out/probability.npy")).exists()
    bench = world.json("run", module, "--bench")[-1]
    assert bench["event"] == "bench" and bench["kernels"] and bench["peak_gflops"] > 0, bench


PROGRAM = """config b1i2o2,i8w8a32,uop8,inp8,wgt8,acc8,bus32,clk100,alu2,pipe2,v1
buffer in argument 4
buffer out argument 4
buffer rows constant 4 010202ff
uop
uop dst=1 src=1
load memory=inp buffer=in y_size=1 x_size=2
load memory=wgt buffer=rows y_size=1 x_size=1 push_next
load memory=uop y_size=1 x_size=2 pop_prev
gemm reset uop_end=2 iter_out=1 iter_in=1
gemm uop_end=2 iter_out=1 iter_in=1 push_next
store memory=out buffer=out y_size=1 x_size=2 pop_prev push_prev
finish pop_next
"""


def test_programs_of_accelerators_are_made_checked_and_run(world):
    text, program, again = world.path("p.txt"), world.path("p.vta"), world.path("again.txt")
    pathlib.Path(text).write_text(PROGRAM, encoding="utf-8")
    pathlib.Path(world.path("in.bin")).write_bytes(bytes([1, 2, 3, 4]))
    world.run("vta", "asm", text, "-o", program)
    world.run("vta", "disasm", program, "-o", again)
    world.run("vta", "asm", again, "-o", world.path("again.vta"))
    assert pathlib.Path(program).read_bytes() == pathlib.Path(world.path("again.vta")).read_bytes()
    checked = world.json("vta", "check", program, "--redundant")[-1]
    assert checked["instructions"] == 7 and checked["redundant_tokens"] == 0, checked
    ran = world.json("vta", "run", program, "--input", f"in={world.path('in.bin')}", "-o", world.path("out"))[-1]
    assert ran["multiply_adds"] == 8 and all(sum(engine.values()) == ran["cycles"] for engine in ran["engines"].values()), ran
    assert pathlib.Path(world.path("out/out.bin")).read_bytes() == bytes([5, 0, 11, 2])
    grid = {(row["bytes"], row["latency"]): row["cycles"] for row in world.json("vta", "run", program, "--sensitivity")}
    assert len(grid) == 20 and grid[4, 256] > grid[8, 64] > grid[32, 16], grid
    events = json.loads(world.run("vta", "trace", program).stdout)["traceEvents"]
    assert sum(event["ph"] == "X" for event in events) == 7, events
    assert "256 multiply-adds a cycle" in world.run("vta", "info", "pynq").stdout
    pathlib.Path(text).write_text(PROGRAM.replace(" push_prev", ""), encoding="utf-8")
    world.refused("vta", "check", text, says="instruction 6 (finish pop_next): DEADLOCK")
    world.refused("vta", "run", program, "--input", "x=y", says="no argument 'x'")
    pathlib.Path(text).write_text(PROGRAM.replace("argument 4", "argument 4000000000"), encoding="utf-8")
    world.refused("vta", "asm", text, "-o", world.path("large.vta"), says="together more than 4294967296 bytes")
    world.refused("vta", "disasm", program, "--program", "1", says="has no program 1; it has 1")
    world.run("compile", world.zoo("gemm:16x32x24"), "-o", world.path("g.kiln"))
    world.refused("vta", "check", world.path("g.kiln"), says="no kernel of the module is for an accelerator")
    world.refused("vta", "fly", program, says="kiln vta has no 'fly'")


def test_an_accelerator_is_searched(world):
    svg = "{http://www.w3.org/2000/svg}"
    model, out = world.path("c8.onnx"), pathlib.Path(world.path("found"))
    world.run("zoo", "conv:64,14,14,64,1,1,1,1,0,0,0,0,1,1,1", "--int8", "-o", model)
    limits = ("--seconds", "60", "--evaluate", "4", "--channels", "1", "--bram", "130", "--candidates", "2", "--trials", "2")
    found = world.json("vta", "search", "--model", model, *limits, "--out", str(out))[-1]
    assert found["looked_at"] >= 20000 and found["evaluated"] >= 4 and found["gain"] >= 1.2, found
    assert found["schedules"] == "tuned" and 1 <= found["trials"] <= 2 and found["equal"]["bram36"] <= 130, found
    winner = (out / "winner.vta").read_text().strip()
    assert winner == found["winner"] and winner in world.run("vta", "info", winner).stdout
    rows = [row.split("\t") for row in (out / "candidates.tsv").read_text().splitlines()]
    assert rows[1][0] == winner and float(rows[1][9]) <= 130, rows
    # Each is a target of its own in the database; the module has the winner's schedules.
    assert len(rows) == 4 and all(row[-1] == "tuned" for row in rows[1:]), rows
    targets = {row[0] for row in world.sql(str(out / "tuning.db"), "SELECT DISTINCT target FROM record")}
    assert targets == {"vta:" + row[0] for row in rows[1:]}, targets
    assert world.json("inspect", str(out / "winner.kiln"))[0]["metadata"]["target"] == "vta:" + winner
    assert f"`define VTA_LUT_COLUMNS {found['lut_columns']}" in (out / "winner.vh").read_text()
    page = xml.etree.ElementTree.parse(out / "pareto.html")
    assert len(page.findall(f".//{svg}svg")) == 5 and len(page.findall(f".//{svg}polyline")) == len(rows) - 1
    world.run("zoo", "conv:C8", "-o", model)
    world.refused("vta", "search", "--model", model, says="quantize MODEL --shift")
    world.refused("vta", "search", "--layers", "C1", says="no layers 'C1'")
    world.refused("vta", "search", "--layers", "C9", "--device", "xc7z999", says="xc7z999")
    world.refused("vta", "search", says="either --model or --layers")
    world.refused("vta", "search", "--layers", "C9", "--lut", "5", "--out", str(out), says="no machine fits")


def test_zoo_lists_and_writes(world):
    assert "conv:C12" in world.run("zoo", "list").stdout
    world.run("compile", world.zoo("gemm:16x32x24"), "-o", world.path("g.kiln"))
    world.refused("zoo", "conv:C99", "-o", world.path("x.onnx"), says="conv:C")


def test_doctor_is_content_and_says_what_this_machine_is(world):
    found = {line["what"]: line["found"] for line in world.json("doctor") if line["event"] == "check"}
    assert found["processor"].startswith("cpu:") and "GHz" in found["speed"] and "GFLOP/s" in found["speed"], found
    assert found["measuring"].startswith("arithmetic ") and "; memory " in found["measuring"], found
    assert "lines of" in found["caches"] or "does not report" in found["caches"], found


def test_help_of_every_command(world):
    for command in ("tune", "compile", "run", "verify", "quantize", "explain", "fleet", "jobs", "db", "zoo", "doctor"):
        assert "Usage" in world.run(command, "--help").stdout or "usage" in world.run(command, "--help").stdout.lower()
    world.refused("frobnicate", says="no such command")
    world.refused("tnue", says="did you mean kiln tune?")
    world.refused("fleet", "drian", "x", says="did you mean 'drain'?")
    world.refused("fleet", "drain", says="BOARD is missing; usage: kiln fleet drain BOARD")
    world.refused("fleet", "list", "x", says="unexpected argument 'x'; usage: kiln fleet list")
    world.refused("db", says="the action is missing")
    world.refused("tune", digits(), "--trails", 3, says="--trials")


def test_help_is_found_by_every_door(world):
    top = world.run("--help").stdout
    assert world.run("-h").stdout == top == world.run("help").stdout and "kiln help COMMAND" in top
    for words in (["tune"], ["fleet"], ["fleet", "drain"], ["vta", "search"], ["key", "new"]):
        text = world.run(*words, "--help").stdout
        assert text == world.run(*words, "-h").stdout == world.run("help", *words).stdout, words
        assert text.startswith("usage: kiln " + " ".join(words)), text
        assert "--config FILE" in text and "--version, -V" in text, text
    assert "Let a board finish" in world.run("help", "fleet", "drain").stdout
    assert "drain BOARD" in world.run("help", "fleet").stdout
    world.refused("help", "fleet", "drian", says="did you mean 'drain'?")
    world.refused("help", "tnue", says="did you mean kiln tune?")


def test_versions_are_told_by_every_program(world):
    for name in ("kiln", "kiln-tracker", "kiln-tuner", "kiln-rpc-server", str(harness.PROGRAMS / "deploy/run/kiln-run")):
        said = world.run("--version", name=name).stdout
        assert re.fullmatch(rf"{pathlib.Path(name).name} \d+\.\d+\.\d+ \((\w+(-dirty)?|no git commit)\)(, protocol 1 to \d+(, codegen \S+)?)?\n", said), said
        assert world.run("-V", name=name).stdout == said
        assert ("protocol" in said) == (not name.endswith("kiln-run")), said
    assert world.run("tune", "--version").stdout == world.run("-V").stdout


def test_exit_codes_are_listed(world):
    listed = dict(re.findall(r"^ *(\d+)  (\w+) ", world.run("help", "exit-codes").stdout, re.M))
    assert listed["0"] == "OK" and listed["13"] == "NOT_FOUND" and len(listed) == 17, listed
    assert world.run("inspect", world.path("nothing"), ok=False).returncode == 13
    assert world.run("frobnicate", ok=False).returncode == 2


def write_config(world, text):
    """A user's file; the programs are told where it is as a person's are."""
    folder = world.folder / "config/kiln"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config").write_text(text, encoding="utf-8")
    (folder / "config").chmod(0o644)  # whatever the umask is: a file that everybody may write is refused
    world.env.update(XDG_CONFIG_HOME=str(world.folder / "config"), KILN_CONFIG="")
    return folder / "config"


def test_configuration_files_give_values_to_every_program(world):
    path = write_config(world, "[kiln zoo]\noutput = one.onnx\n[kiln inspect]\njson = yes\n[kiln-tracker]\nlisten = unix:here\nport-file = port\n")
    world.run("zoo", "gemm:16x32x24")
    assert (world.folder / "one.onnx").exists()
    world.run("zoo", "gemm:16x32x24", "-o", "two.onnx")
    assert (world.folder / "two.onnx").exists()
    world.run("compile", "one.onnx", "-o", "one.kiln")
    assert json.loads(world.run("inspect", "one.kiln").stdout.splitlines()[0])
    assert not world.run("inspect", "one.kiln", "--json=no").stdout.startswith("{")
    shown = world.run("config").stdout
    assert re.search(rf"\[kiln zoo\]\noutput = one.onnx +; {re.escape(str(path))}:2\n", shown) and "[kiln-tracker]\nlisten = unix:here" in shown, shown
    assert "zoo" not in world.run("config", "kiln-tracker").stdout
    assert "no file" in world.run("config", "--config", "none").stdout
    world.refused("config", "tnue", says="no program and no command 'tnue'")
    world.start("kiln-tracker")
    harness.until((world.folder / "here").is_socket, "the socket that the file names")


def test_each_mistake_in_a_configuration_file_is_an_error_with_its_line(world):
    for text, says in (("[kiln zoo]\n\nouptut = x\n", ":3: unknown option --ouptut; did you mean --output?"),
                       ("[kiln zoo]\nseed = many\n", ":2: --seed wants a whole number, not 'many'"),
                       ("[kiln zoop]\nseed = 1\n", ":2: there is no section [kiln zoop]; did you mean [kiln zoo]?"),
                       ("[kiln]\nseed = 1\n", "'seed' goes into the section of a command, as [kiln zoo]"),
                       ("[kiln]\nlog-level = loud\n", "--log-level is error, warn, info or debug, not 'loud'"),
                       ("what\n", ":1: this is neither [section] nor option = value")):
        path = write_config(world, text)
        done = world.refused("zoo", "list", says=says)
        assert done.returncode == 2 and (str(path) in done.stderr or "loud" in text), done.stderr
    write_config(world, "[kiln-tracker]\nlisen = x\n")
    assert "did you mean --listen?" in world.refused(name="kiln-tracker", says="config:2").stderr
    world.run("zoo", "list")  # the section of another program
    write_config(world, "[kiln-tracker]\n\nlisten = here\n")  # only the daemon sees that this is no address
    assert "--listen" in world.refused(name="kiln-tracker", says="config:3: ").stderr
    world.refused("zoo", "list", "--config", "absent", says="absent")


def test_the_example_of_a_configuration_file_is_right(world):
    page = (pathlib.Path(__file__).resolve().parents[2] / "docs/reference/command-line.md").read_text(encoding="utf-8")
    example = page.split("## Configuration files", 1)[1].split("\n\n")[1]
    write_config(world, "\n".join(line[4:] for line in example.splitlines()) + "\n")
    shown = world.run("config").stdout
    for value in ("[kiln]\ntracker = lab.example:9477 ", "trials = 256 ", "[kiln vta search]\njobs = 4 ", "listen = unix:/run/kiln/tracker "):
        assert value in shown, shown


def test_a_private_fleet_reads_no_configuration_file(world):
    write_config(world, "[kiln-tracker]\nhttp = 1\nlisten = 127.0.0.1:1\n[kiln-tuner]\nbuilders = 0\n[kiln-rpc-server]\nexecutor = none such\n[kiln tune]\ntrials = 2\n")
    done = world.json("tune", world.zoo("gemm:16x32x24"), "--db", world.path("t.db"))[-1]
    assert done["event"] == "done", done
    assert len(world.json("db", "history", "--db", world.path("t.db"))) >= 2


def test_static_c_is_two_files_that_a_compiler_takes(world):
    source = world.path("d.c")
    world.refused("compile", digits(), "--emit", "static-c", "-o", world.path("d.txt"), says="NAME.c")
    [said] = world.json("compile", digits(), "--emit", "static-c", "-o", source)
    assert 90000 < said["constant_bytes"] < 100000 and said["arena_bytes"] > 0
    subprocess.run(["cc", "-std=c11", "-Wall", "-Werror", "-O2", "-c", source, "-o", world.path("d.o")], check=True)
    assert "int d_run(" in open(world.path("d.h"), encoding="utf-8").read()


def test_closed_pipe_ends_every_printer_quietly(world):
    db = world.path("t.db")
    world.json("tune", world.zoo("gemm:8x8x8"), "--trials", 1, "--db", db)
    for argv in (["--help"], ["db", "--help"], ["db", "export", "--db", db], ["db", "best", "--db", db, "--json"],
                 ["zoo", "list"], ["explain", digits(), "--stage", "tasks"],
                 ["tune", world.zoo("gemm:8x8x16"), "--trials", "1000000", "--db", db, "--json"]):
        read_end, write_end = os.pipe()
        os.close(read_end)
        done = subprocess.run([harness.program("kiln"), *argv], env=world.env, stdout=write_end, stderr=subprocess.PIPE,
                              text=True, timeout=harness.DEADLINE_S)
        os.close(write_end)
        assert done.returncode == -signal.SIGPIPE and done.stderr == "", f"{argv}: {done.returncode} {done.stderr!r}"
        assert not list((world.folder / "tmp").iterdir()), f"{argv} left something"


def test_full_output_device_is_an_error(world):
    with open("/dev/full", "w") as full:
        done = subprocess.run([harness.program("kiln"), "zoo", "list"], env=world.env, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 16 and "standard output" in done.stderr, done


def test_inputs_of_run_have_the_shape_of_the_module(world):
    """Or hold several samples, stacked along the first dimension or along one before it."""
    path, module = pathlib.Path(world.path("m.onnx")), world.path("m.kiln")
    for dims, right, wrong in (([2, 3], {(2, 3): 1, (6, 3): 3, (5, 2, 3): 5}, [(3, 2), (6,), (3, 3), (1, 1, 2, 3), (0, 3), (2, 6)]),
                               ([0, 4], {(0, 4): 1, (2, 0, 4): 2}, [(4, 0), (0,), (0, 5), (1, 4)]),
                               ([], {(): 1, (4,): 4}, [(2, 2)])):
        path.write_bytes(onnx_file.model([onnx_file.node("Relu", "x", "y")], [onnx_file.port("x", dims)], [onnx_file.port("y", dims)]))
        world.run("compile", path, "-o", module)
        for shape, samples in right.items():
            shown = world.run("run", module, "--input", f"x={npy(world, shape)}").stdout
            assert f"{samples} sample" in shown, (dims, shape, shown)
        for shape in wrong:
            text = "f32[" + ",".join(map(str, shape)) + "], the module wants f32[" + ",".join(map(str, dims)) + "]"
            world.refused("run", module, "--input", f"x={npy(world, shape)}", says=text)


def npy(world, shape, descr="<f4", data=None):
    """A file of that shape, all zero where there is no data."""
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    file = pathlib.Path(world.path("x.npy"))
    content = bytes(4 * math.prod(shape)) if data is None else data
    file.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + content)
    return file


def test_floats_of_eight_bits_are_bytes_in_files(world):
    path, module, e4m3fn, e5m2 = pathlib.Path(world.path("m.onnx")), world.path("m.kiln"), 17, 19
    path.write_bytes(onnx_file.model([onnx_file.node("Cast", "x", "y", to=e5m2)], [onnx_file.port("x", [4], e4m3fn)], [onnx_file.port("y", [4], e5m2)], opset=19))
    world.run("compile", path, "-o", module)
    shown = world.run("run", module, "--input", f"x={npy(world, (4,), '|u1', bytes([0x38, 0xb8, 0x7e, 0x3c]))}", "--output", world.path("out")).stdout
    assert "y: f8e5m2[4], 1 sample, min -1, max 448" in shown, shown
    written = pathlib.Path(world.path("out/y.npy")).read_bytes()
    assert b"'|u1'" in written and written[-4:] == bytes([0x3c, 0xbc, 0x5f, 0x3e]), written
    world.refused("run", module, "--input", f"x={npy(world, (4,))}", says="f32[4], the module wants f8e4m3fn[4]")


def test_a_task_that_cannot_be_measured_does_not_end_the_others(world):
    """The reference of a softmax of 400 MB needs over 1 GiB of temporaries."""
    path = pathlib.Path(world.path("large.onnx"))
    product, large = onnx_file.node("MatMul", "a b", "p"), onnx_file.node("Softmax", "x", "y", axis=-1)
    a, b, x = onnx_file.port("a", [64, 64]), onnx_file.port("b", [64, 64]), onnx_file.port("x", [2048, 50176])
    p, y = onnx_file.port("p", [64, 64]), onnx_file.port("y", [2048, 50176])
    path.write_bytes(onnx_file.model([product, large], [a, b, x], [p, y]))
    lines = world.json("tune", path, "--trials", 4, "--db", world.path("t.db"))
    [fault] = [line["faults"] for line in lines if line["event"] == "progress" and "faults" in line][-1]
    assert "temps need" in fault["text"], fault
    task = {task["op"]: task for task in lines[-1]["tasks"]}
    assert task["matmul"]["best_ms"] > 0 and task["matmul"]["trials"] == 4 and task["matmul"]["error"] == "", task
    assert task["softmax"]["trials"] == 0 and task["softmax"]["key"] == fault["key"] and task["softmax"]["error"] == fault["text"], task
    shown = world.run("tune", path, "--trials", 2, "--db", world.path("u.db")).stdout
    assert any("softmax" in line and "the default schedule is used" in line and "temps need" in line for line in shown.splitlines()), shown
    path.write_bytes(onnx_file.model([large], [x], [y]))
    world.refused("tune", path, "--trials", 1, "--db", world.path("t.db"), says="temps need")


def test_a_model_beyond_the_limits_of_modules_fails_before_anything_is_measured(world):
    """Nobody is asked for a board: the tracker that is named does not exist."""
    path, count = pathlib.Path(world.path("ports.onnx")), 257
    names = [str(i) for i in range(count)]
    path.write_bytes(onnx_file.model([onnx_file.node("Relu", "x" + i, "y" + i) for i in names],
                                     [onnx_file.port("x" + i, [4]) for i in names], [onnx_file.port("y" + i, [4]) for i in names]))
    world.refused("tune", path, "--trials", 2, "--tracker", "127.0.0.1:1",
                  says="the model needs 257 inputs; a module has at most 256")


def test_a_model_is_tuned_with_its_open_dimension_and_its_data_from_another_file(world):
    """What is sent is the graph: the tuner sees neither the files nor the option."""
    path, module = pathlib.Path(world.path("open.onnx")), world.path("open.kiln")
    pathlib.Path(world.path("w.bin")).write_bytes(bytes(8 * 8 * 4))
    path.write_bytes(onnx_file.model([onnx_file.node("MatMul", "x w", "y")], [onnx_file.port("x", ["n", 8])], [onnx_file.port("y", ["n", 8])],
                                     [onnx_file.tensor("w", onnx_file.FLOAT, [8, 8], external={"location": "w.bin"})]))
    done = world.json("tune", path, "--dim", "n=4", "--trials", 2, "--search", "random", "--out", module)[-1]
    assert done["event"] == "done" and done["verified"] == 2, done
    assert os.path.exists(module)


def test_damaged_models_are_refused(world):
    whole = pathlib.Path(digits()).read_bytes()
    generator = random.Random(1)
    file = pathlib.Path(world.path("bad.onnx"))
    for content in (b"", b"\x00", whole[:100], whole[:-7], generator.randbytes(5000)):
        file.write_bytes(content)
        world.refused("compile", file, "-o", world.path("bad.kiln"), says="bad.onnx")
    assert not pathlib.Path(world.path("bad.kiln")).exists()
    world.refused("compile", world.path("none.onnx"), says="none.onnx")


def test_bad_options_and_files_are_refused(world):
    world.refused("compile", digits(), "--target", "abacus", says="abacus")
    world.refused("run", digits(), says="digits.onnx")
    world.refused("tune", digits(), "--db", "/proc/kiln/no.db", says="/proc/kiln/no.db")
    text = pathlib.Path(world.path("text.db"))
    text.write_text("this is no database, but it is long enough to be read as one" * 20)
    world.refused("tune", digits(), "--db", text, says="text.db")
    world.refused("tune", digits(), "--trials", 1, "--tracker", "nonsense", "--db", world.path("t.db"), says="nonsense")
    world.refused("db", "best", "--db", world.path("missing.db"), says="missing.db")
    world.refused("explain", digits(), "--stage", "poetry", says="poetry")
    world.refused("verify", world.path("nowhere"), says="model.onnx")


def test_records_say_where_the_time_went(world):
    world.json("tune", world.zoo("gemm:32x32x32"), "--trials", 3, "--db", world.path("t.db"))
    [[search, build, board, train]] = world.sql(
        "t.db", "SELECT min(search_ns), min(build_ns), min(board_ns), min(train_ns) FROM record")
    world.json("tune", world.zoo("gemm:32x48x32"), "--trials", 40, "--search", "sa", "--db", world.path("sa.db"))
    [[trained]] = world.sql("sa.db", "SELECT max(train_ns) FROM record")
    assert float(trained) > 0, trained
    assert float(search) > 0 and float(build) > 0 and float(board) > 0 and float(train) >= 0, (search, build, board, train)


def test_the_best_is_compared_with_the_default_of_its_own_final(world):
    """In whatever order records came home: a fleet's come with the finals first."""
    model = world.zoo("gemm:16x16x16")
    world.json("tune", model, "--trials", 1, "--db", world.path("t.db"))
    rows = [json.loads(line) for line in world.run("db", "export", "--db", world.path("t.db")).stdout.splitlines()]
    [searched] = [r for r in rows if r["table"] == "record" and r["searcher"] == "default" and not r["final"]]
    [job] = [r for r in rows if r["table"] == "job"]
    yes = type(searched["final"])(1)
    del searched["signer"], searched["signature"] # what is changed here its tuner did not sign
    timed = lambda number, ns, **more: {**searched, "trial_id": f"{number:032x}", "samples_ns": [ns] * 9, "drift": 0.0,
                                        "drift_memory": 0.0, **more}
    rows = [r for r in rows if r["table"] not in ("record", "job")] + [
        job, {**job, "id": "f" * 32},
        timed(1, 1000.0, final=yes, gain_low=1.5, searcher="sa", trace_hash="e" * 32),
        timed(2, 2000.0, final=yes, gain_low=1.0),
        timed(3, 7000.0, final=yes, gain_low=1.0, job_id="f" * 32),
        timed(4, 9000.0)]
    pathlib.Path(world.path("rows.jsonl")).write_text("".join(json.dumps(r) + "\n" for r in rows))
    world.run("db", "import", world.path("rows.jsonl"), "--db", world.path("made.db"))
    world.run("key", "trust", "unsigned", "--db", world.path("made.db"))
    done = world.json("tune", model, "--trials", 1, "--db", world.path("made.db"))[-1]
    assert done["measured"] == 0, done
    [task] = done["tasks"]
    assert (task["best_ms"], task["default_ms"]) == (0.001, 0.002), (task["best_ms"], task["default_ms"])


def plant(world, model, key, copy):
    """A database in which the task has a record of no schedule at all, plain loops, with the times of the default, which looks ten times slower."""
    world.json("tune", model, "--trials", 20, "--db", world.path("honest.db"))
    rows = [json.loads(line) for line in world.run("db", "export", "--db", world.path("honest.db")).stdout.splitlines()]
    rows = [row for row in rows if row["table"] != "record" or not row["final"]]
    for row in rows:  # what is changed here its tuner did not sign
        if row["table"] == "record":
            del row["signer"], row["signature"]
    [base] = [row for row in rows if row["table"] == "record" and row["task_key"] == key and row["searcher"] == "default"]
    plain = lambda layouts: ";".join("row" for _ in layouts.split(";"))
    rows.append({**base, "trial_id": "f" * 32, "trial_index": 1000, "searcher": "sa", "trace": "93019090", "trace_hash": "e" * 32,
                 "layout_in": plain(base["layout_in"]), "layout_out": plain(base["layout_out"])})
    base["samples_ns"] = [10 * sample for sample in base["samples_ns"]]
    rows = [row for row in rows if row["table"] != "record" or row["task_key"] != key or row["trial_id"] in ("f" * 32, base["trial_id"])]
    pathlib.Path(world.path("rows.jsonl")).write_text("".join(json.dumps(row) + "\n" for row in rows))
    world.run("db", "import", world.path("rows.jsonl"), "--db", copy)
    world.run("key", "trust", "unsigned", "--db", copy)


def test_schedules_that_are_slow_in_the_module_are_taken_back(world):
    model, db, module = digits(), world.path("planted.db"), world.path("m.kiln")
    tasks = world.json("tune", model, "--trials", 0, "--db", world.path("none.db"))[-1]["tasks"]
    [key] = [task["key"] for task in tasks if task["label"] == "conv+relu 32x8x8 over 32x3x3"]
    plant(world, model, key, db)
    events = world.json("tune", model, "--trials", 0, "--db", db, "--out", module)
    whole = [event for event in events if event["event"] == "module"][0]
    [loser] = [row for row in whole["taken_back"] if key in row["tasks"]]
    assert loser["tuned_ms"] > 2 * loser["default_ms"], loser  # plain loops take more than ten times as long
    assert 1 <= whole["variants"] <= 8 and 0 < whole["turns_s"] and 0 < whole["turns_share"] <= 1, whole
    assert whole["tuned_ms"] < 2 * whole["default_ms"], whole  # without it
    text = world.run("tune", model, "--trials", 0, "--db", db, "--out", module).stdout
    assert "taken back: conv+relu 32x8x8 over 32x3x3" in text and "inside of the module" in text, text
    assert world.run("run", module).stdout.startswith("prob")


def test_newer_database_is_refused(world):
    db = world.path("new.db")
    world.json("tune", world.zoo("gemm:8x8x8"), "--trials", 1, "--db", db)
    import sqlite3
    with sqlite3.connect(db) as connection:
        connection.execute("PRAGMA user_version = 9999")
    world.refused("tune", digits(), "--db", db, says="newer")


def test_busy_port_is_refused(world):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        world.refused("--listen", f"127.0.0.1:{taken.getsockname()[1]}", name="kiln-tracker", says=str(taken.getsockname()[1]))


def test_export_and_import_keep_every_record(world):
    db, copy = world.path("t.db"), world.path("copy.db")
    world.json("tune", world.zoo("gemm:16x16x16"), "--trials", 2, "--db", db)
    exported = world.run("db", "export", "--db", db).stdout
    pathlib.Path(world.path("rows.jsonl")).write_text(exported)
    said = world.run("db", "import", world.path("rows.jsonl"), "--db", copy).stdout
    assert said == "4 records: 4 count\n", said
    by_file = {"origin", "standing"}
    rows = lambda text: [{k: v for k, v in json.loads(line).items() if k not in by_file} for line in text.splitlines()]
    assert rows(world.run("db", "export", "--db", copy).stdout) == rows(exported)
    [verified] = world.json("db", "verify", "--db", copy)
    assert (verified["right"], verified["wrong"], verified["counting"]) == (4, 0, 4), verified
    world.refused("db", "sql", "DELETE FROM record", "--db", db, says="")
    assert len([r for r in world.json("db", "history", "--db", db) if not r["final"]]) == 2


def test_records_of_one_target_begin_the_search_on_another(world):
    db, model = world.path("t.db"), world.zoo("gemm:32x48x32")
    for target, trials in (("native,cores=31", 8), ("native,cores=33", 24)):
        world.json("tune", model, "--target", target, "--trials", trials, "--db", db)
    found = world.sql("t.db", "SELECT target LIKE '%cores=33%', trial_index, searcher FROM record WHERE final = 0")
    assert ["1", "0", "default"] in found and ["1", "1", "transfer"] in found, found
    assert not [row for row in found if row[0] == "0" and row[2] == "transfer"], found
    assert ["1", "sa"] in [[row[0], row[2]] for row in found], "the search goes on by itself"


def test_records_are_asked_by_target(world):
    db = world.path("t.db")
    world.json("tune", world.zoo("gemm:8x8x8"), "--target", "native,cores=31", "--trials", 1, "--db", db)
    for action in ("best", "top", "history"):
        every, one = (world.json("db", action, "--db", db, *words) for words in ([], ["--target", "native,cores=31"]))
        assert one and one == every, (action, one, every)
        refused = world.refused("db", action, "--db", db, "--target", "rpi4", says="mcpu=cortex-a72")
        assert "cores=31" in refused.stderr, "what is recorded is said"
        world.refused("db", action, "--db", db, "--target", "rpi9", says="rpi4")


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
