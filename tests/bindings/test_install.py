#!/usr/bin/env python3
"""The files of `meson install`, and programs that are built with these files only."""
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys

import harness
import onnx_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
PREFIX = pathlib.Path(os.environ["KILN_PREFIX"])
LIBDIR = PREFIX / os.environ["KILN_LIBDIR"]
VERSION = os.environ["KILN_VERSION"]
RUN_BYTES_MAX = 250_000  # of the part that runs modules, stripped
PROGRAMS = ("kiln", "kiln-tracker", "kiln-tuner", "kiln-rpc-server", "kiln-web")  # with a page each, beside those of kiln's commands
PUBLIC = {"run": ["libkiln/version.h", "deploy/module.h"], "query": ["libkiln/records.h"], "te": ["libkiln/operator.h"],
          "tune": ["libkiln/tune/tune.h"]}
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]


def run(*command, **how):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **how)
    assert done.returncode == 0, f"{command[0]} ended with {done.returncode}: {done.stderr or done.stdout}"
    return done.stdout


def install(world):
    """The tree below a DESTDIR of its own."""
    place = pathlib.Path(world.path("installed"))
    run("meson", "install", "-C", harness.PROGRAMS, "--no-rebuild", "--quiet", "--destdir", place)
    return place


def below(place, path):
    return place / path.relative_to("/")


def pkg_config(place, *words):
    env = {**os.environ, "PKG_CONFIG_PATH": str(below(place, LIBDIR / "pkgconfig")), "PKG_CONFIG_SYSROOT_DIR": str(place)}
    return run("pkg-config", *words, env=env).split()


def compile_app(world, place, source, output, *flags):
    run("cc", "-std=c99", *STRICT, "-o", world.path(output), pathlib.Path(__file__).parent / source, *flags, "-pthread")
    return world.path(output)


def module_of(world, *options):
    world.run("compile", world.zoo("gemm:64x64x64"), *options, "-o", world.path("m.kiln"))
    return world.path("m.kiln")


def header_functions(part):
    text = "".join((ROOT / name).read_text(encoding="utf-8") for name in PUBLIC[part])
    return set(re.findall(r"\b(kiln_\w+)\(", re.sub(r"/\*.*?\*/|typedef.*?;", "", text, flags=re.S)))


def sized_module_of(world, node=onnx_file.node("Relu", "x", "y"), name="rows"):
    """y = node(x [batch, 8]) for 1, 4 and 8 rows."""
    path = pathlib.Path(world.path(name + ".onnx"))
    path.write_bytes(onnx_file.model([node], [onnx_file.port("x", ["batch", 8])], [onnx_file.port("y", ["batch", 8])]))
    world.run("compile", path, "--dim", "batch=1,4,8", "--db", "none", "-o", world.path(name + ".kiln"))
    return world.path(name + ".kiln")


def kept_module_of(world):
    """t = s + x, y = t, of [1, 8]."""
    path = pathlib.Path(world.path("kept.onnx"))
    s, x, t, y = (onnx_file.port(name, [1, 8]) for name in "sxty")
    path.write_bytes(onnx_file.model([onnx_file.node("Add", "s x", "t"), onnx_file.node("Identity", "t", "y")], [s, x], [t, y]))
    world.run("compile", path, "--db", "none", "-o", world.path("kept.kiln"))
    return world.path("kept.kiln")


def test_everything_lies_where_it_belongs(world):
    place = install(world)
    assert [entry.name for entry in place.iterdir()] == [PREFIX.parts[1]], list(place.iterdir())
    for name in (*PROGRAMS, "kiln-run"):
        assert os.access(below(place, PREFIX / "bin" / name), os.X_OK), name
    assert {entry.name for entry in below(place, PREFIX / "include/kiln").iterdir()} == {"kiln.h", "kiln.hpp", "te.hpp"}
    for part in PUBLIC:
        for name in (f"libkiln-{part}.so", f"libkiln-{part}.so.{VERSION}", f"libkiln-{part}.a", f"pkgconfig/kiln-{part}.pc"):
            assert below(place, LIBDIR / name).exists(), name
    for unit in below(place, PREFIX / "lib/systemd/system").iterdir():
        program = re.search(r"^ExecStart=(\S+)", unit.read_text(), re.M)[1]
        assert below(place, pathlib.Path(program)).exists(), (unit, program)
    assert pkg_config(place, "--modversion", "kiln") == [VERSION]
    assert world.run("--version").stdout.split()[1].rstrip(",") == VERSION


def test_a_manual_page_says_what_help_says(world):
    pages = below(install(world), PREFIX / "share/man/man1")
    commands = re.findall(r"^  (?!kiln)([a-z]+) +\S", world.run("--help").stdout, re.M)
    assert len(commands) > 10 and {f"kiln-{name}.1" for name in commands} < {page.name for page in pages.iterdir()}
    for page in pages.iterdir():
        name = page.stem
        program, words = (name, []) if name in PROGRAMS else ("kiln", name.split("-")[1:])
        text = page.read_text(encoding="utf-8").replace("\\-", "-").replace("\\e", "\\")
        help_text = world.run(*words, "--help", name=program).stdout
        options = re.findall(r"^  (--[a-z-]+)", help_text, re.M)
        assert text.startswith(".TH ") and ".SH NAME\n" + name + " - " in text, page
        assert [option for option in options if f"\n.B {option}" not in text] == [], page
        assert bool(options) == (".SH OPTIONS" in text), page
        assert re.search(r"\n\.B 13\nthe named thing does not exist\n", text), page
    if shutil.which("man"):
        assert "NAME" in run("man", "-l", pages / "kiln-tune.1", env={**os.environ, "MANPAGER": "cat", "LC_ALL": "C"})


def test_an_application_runs_a_module(world):
    place, module = install(world), module_of(world)
    app = compile_app(world, place, "app.c", "app", *pkg_config(place, "--cflags", "--libs", "kiln"))
    fixed = compile_app(world, place, "app.c", "fixed", *pkg_config(place, "--cflags", "kiln-run"), below(place, LIBDIR / "libkiln-run.a"), "-lm")
    folder, = pkg_config(place, "--variable=libdir", "kiln")
    assert folder.endswith(str(LIBDIR)), folder
    env = {**os.environ, "LD_LIBRARY_PATH": str(below(place, LIBDIR))}
    said = run(app, module, env=env)
    assert said == f"kiln {VERSION} of header {VERSION}\n1 1 steps, 0 0\n", said
    assert run(fixed, module) == said
    needs = set(re.findall(r"NEEDED.*\[(.*?)\]", run("readelf", "-d", fixed)))
    assert needs <= {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}, needs
    pathlib.Path(world.path("broken")).write_bytes(pathlib.Path(module).read_bytes()[:-5])
    refused = subprocess.run([app, world.path("broken")], env=env, capture_output=True, text=True)
    assert refused.returncode == 14 and "broken" in refused.stderr, refused
    refused = subprocess.run([app, world.path("absent")], env=env, capture_output=True, text=True)
    assert refused.returncode == 5, refused


def test_an_application_asks_a_database(world):
    place = install(world)
    world.run("tune", world.zoo("gemm:64x64x64"), "--trials", 4, "--db", world.path("r.db"))
    best = world.json("db", "best", "--db", world.path("r.db"))
    env = {**os.environ, "LD_LIBRARY_PATH": str(below(place, LIBDIR))}
    flags = pkg_config(place, "--cflags", "kiln-query")
    shared = compile_app(world, place, "records.c", "records", *flags, *pkg_config(place, "--libs", "kiln-query"))
    needed = pkg_config(place, "--print-requires-private", "kiln-query")
    fixed = compile_app(world, place, "records.c", "fixed", *flags, below(place, LIBDIR / "libkiln-query.a"),
                        *pkg_config(place, "--libs", *needed), "-lm")
    said = run(shared, world.path("r.db"), env=env).splitlines()
    assert run(fixed, world.path("r.db")).splitlines() == said
    assert len(said) == len(best) + 1 and best, said
    for line, row in zip(said, best):
        op, trace, median, samples, attempt = line.split()
        assert (op, trace, int(samples), int(attempt)) == ("matmul", row["trace_hash"], len(row["samples_ns"]), row["attempt"]), line
        assert math.isclose(float(median), row["median_ns"], rel_tol=1e-8), (line, row["median_ns"])
    count = world.sql("r.db", "select count(*) from record")[0][0]
    assert said[-1].split() == [count, "1", "1.5", "4"], said
    for arguments, code, says in (((world.path("absent.db"),), 5, "absent.db"), ((world.path("r.db"), "rpi4"), 5, "has no records of"),
                                  ((world.path("r.db"), "no such"), 3, "no such")):
        refused = subprocess.run([shared, *arguments], env=env, capture_output=True, text=True)
        assert refused.returncode == code and says in refused.stderr, refused


SAID_OF_OPERATOR = """program maxplus
input a: f32[6,5]
input b: f32[5,32]
constant bias: f32[32]
temp t: f32[6,32]
output c: f32[6,32]
block t(i:6, j:32 | k:5): t[i, j] max= a[i, k] + b[k, j] init -inf
block c(i:6, j:32): c[i, j] = t[i, j] + bias[j]
2 inputs, the second b of 640 bytes
3 program text: d: index 1 of a is in [5, 5], the dimension is 5
3 expected a line that begins with input, constant, output, temp or block: "loops:"
5 there is no constant named 'b'
t.j.0 t.j.1 in 4 loops, a is x0, t is t, no is not there
16 instruction 4 (parallel): t.k lies inside parallel loop t.i
3 trace text 3:1: there is no such primitive
operator agrees
schedule agrees
3 repeating operator 'product': 1 inputs are given by rows: only 0 follow the states
16 bytes: 2 5 2.5 5, at last 5
"""


def test_an_application_has_an_operator_of_its_own(world):
    place = install(world)
    flags = pkg_config(place, "--cflags", "kiln-te")
    shared = compile_app(world, place, "operator.c", "operator", *flags, *pkg_config(place, "--libs", "kiln-te"))
    fixed = compile_app(world, place, "operator.c", "fixed", *flags, below(place, LIBDIR / "libkiln-te.a"), "-lm")
    model, schedule = world.path("own.graph"), world.path("own.txt")
    assert run(shared, model, schedule, env={**os.environ, "LD_LIBRARY_PATH": str(below(place, LIBDIR))}) == SAID_OF_OPERATOR
    assert run(fixed, model, schedule) == SAID_OF_OPERATOR
    needs = set(re.findall(r"NEEDED.*\[(.*?)\]", run("readelf", "-d", fixed)))
    assert needs <= {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}, needs
    key = pathlib.Path(schedule).read_text().split()[1]
    assert key in world.run("explain", model, "--stage", "tasks").stdout
    made = world.json("compile", model, "--schedule", schedule, "--db", "none")[-1]
    assert made["module"].endswith("own.kiln") and made["tasks"] == 1, made
    assert "vectorize(t.j.1)" in pathlib.Path(schedule).read_text()
    world.refused("compile", world.zoo("gemm:64x64x64"), "--schedule", schedule, "--db", "none", says=key)


def test_an_application_in_cxx_has_operators_of_its_own(world):
    place = install(world)
    flags = pkg_config(place, "--cflags", "--libs", "kiln-te")
    env = {**os.environ, "LD_LIBRARY_PATH": str(below(place, LIBDIR))}
    steps = "split(total.r, -1, 4)\nt0 = perfect_tile(most.r, 2, 3) = [3, 3]\nsplit(most.r, t0[0], t0[1])\nunroll(most.r.1)\n"
    repeated = "program decay\ninput s: f32[2]\noutput n: f32[2]\nblock n(i:2): n[i] = s[i]*0.5\n# repeated 3 times, then s = n\n"
    plain = "program plain\ninput x: f64[2]\nconstant w: f32[2]\noutput y: f64[2]\noutput n: i64[2]\n" \
            "block y(i:2): y[i] = x[i]*f64(w[i]) + 0.001f64\nblock n(i:2): n[i] = i - 9007199254740993\n" + repeated + "1 2\n16\n"
    expected = "3 program text: z: index 1 of x is in [9, 9], the dimension is 9\n3\ntotal.r.0 total.r.1 of 17 loops\n16\n" + steps + "right right\n"
    model, schedule = world.path("own.graph"), world.path("own.txt")
    for more, last in ((("-fno-exceptions", "-fno-rtti"), ""), ((), plain)):
        run("c++", "-std=c++17", *STRICT, *more, "-o", world.path("own"), pathlib.Path(__file__).parent / "operator.cpp", *flags)
        assert run(world.path("own"), model, schedule, env=env) == expected + last
    assert world.json("compile", model, "--schedule", schedule, "--db", "none")[-1]["tasks"] == 1


def test_an_application_tunes_in_threads_and_cancels(world):
    place, model, module = install(world), world.zoo("gemm:64x64x64"), world.path("m.kiln")
    env = {name: value for name, value in world.env.items() if name != "KILN_BIN"}  # the installed program is found
    shared = compile_app(world, place, "tune.c", "tune", *pkg_config(place, "--cflags", "--libs", "kiln-tune"))
    fixed = compile_app(world, place, "tune.c", "fixed", *pkg_config(place, "--cflags", "kiln-tune"), below(place, LIBDIR / "libkiln-tune.a"))
    needs = set(re.findall(r"NEEDED.*\[(.*?)\]", run("readelf", "-d", fixed)))
    assert needs <= {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}, needs
    for app, more in ((shared, {"LD_LIBRARY_PATH": str(below(place, LIBDIR))}), (fixed, {"PATH": f"{below(place, PREFIX / 'bin')}:{env['PATH']}"})):
        pathlib.Path(module).unlink(missing_ok=True)
        databases = [world.path(f"{pathlib.Path(app).name}{i}.db") for i in range(2)]
        said = run(app, model, module, *databases, env={**env, **more}).splitlines()
        assert said[:2] == ["0 ", "2 results, 4 measured"], said
        assert said[2].startswith("1 job ") and "cancelled" in said[2] and said[3] == "fewer", said
        assert said[4].startswith("3 unknown option --trails; did you mean --trials?"), said
        world.run("run", module)
        assert int(world.sql(pathlib.Path(databases[1]).name, "select count(*) from record")[0][0]) > 0  # what was measured is kept
        world.left_nothing()


def test_an_application_in_cxx_has_exceptions_or_none(world):
    place, module, sized, kept = install(world), module_of(world), sized_module_of(world), kept_module_of(world)
    world.run("tune", world.zoo("gemm:64x64x64"), "--trials", 2, "--db", world.path("r.db"))
    flags = pkg_config(place, "--cflags", "--libs", "kiln")
    env = {**os.environ, "LD_LIBRARY_PATH": str(below(place, LIBDIR))}
    expected = ["64 x 64: twice, 2 steps of 1", "3 input 'x' has no elements of type double", "3 the module has no input 'no such'",
                "3 the module has 1 inputs and 1 outputs; 0 and 0 were given"]
    for more, last in (((), ["equal rows, ", "5"]), (("-fno-exceptions", "-fno-rtti"), [])):
        run("c++", "-std=c++17", *STRICT, *more, "-o", world.path("cxx"), pathlib.Path(__file__).parent / "app.cpp", *flags)
        said = run(world.path("cxx"), module, world.path("r.db"), env=env).splitlines()
        assert said[:4] == expected, said
        assert re.fullmatch(r"matmul \d+", said[4]) and said[5] == "3", said
        assert len(said) == 6 + len(last) and all(line.startswith(start) for line, start in zip(said[6:], last)), said
        assert run(world.path("cxx"), module, world.path("r.db"), sized, env=env).splitlines()[-1] == "11 batch is 9; the module takes 1 to 8"
        assert run(world.path("cxx"), kept, env=env).splitlines() == [
            "output 0 (t) cannot be kept for input 0 (s): the input is kept already", "input 's' is kept by the module"]
        said = run(world.path("cxx"), module, world.path("r.db"), world.zoo("gemm:64x64x64"), world.path("cxx.kiln"), env={**world.env, **env})
        assert said == "1 results, 0\n1 results, 5\n", said
        refused = subprocess.run([world.path("cxx"), world.path("absent"), world.path("r.db")], env=env, capture_output=True, text=True)
        assert refused.returncode == 5 and refused.stderr.startswith("5: "), refused


def test_the_header_is_c99_and_cxx(world):
    place = install(world)
    include = below(place, PREFIX / "include")
    for compiler, language, header in (("cc", "c99", "kiln.h"), ("c++", "c++11", "kiln.h"), ("c++", "c++17", "kiln.hpp"),
                                       ("clang++-19", "c++17", "kiln.hpp"), ("clang++-19", "c++20", "kiln.hpp"), ("c++", "c++17", "te.hpp"),
                                       ("clang++-19", "c++20", "te.hpp")):
        pathlib.Path(world.path("one.cc")).write_text(f"#include <kiln/{header}>\n")
        run(compiler, f"-std={language}", *STRICT, "-fsyntax-only", "-x", "c" if language == "c99" else "c++", f"-I{include}", world.path("one.cc"))


def test_only_what_the_header_has_is_public(world):
    place = install(world)
    for part in PUBLIC:
        library = below(place, LIBDIR / f"libkiln-{part}.so.{VERSION}")
        shown = dict(re.findall(r" [TDBVW] (kiln\w*)@@(\w+\.\w+)", run("nm", "-D", "--with-symbol-versions", "--defined-only", library)))
        assert set(shown) == header_functions(part), set(shown) ^ header_functions(part)
        assert set(shown.values()) == {"KILN_" + ".".join(VERSION.split(".")[:2])}, shown
        in_archive = set(re.findall(r" [TDBVW] (\w+)", run("nm", "--defined-only", below(place, LIBDIR / f"libkiln-{part}.a"))))
        assert in_archive == header_functions(part), in_archive ^ header_functions(part)


def test_the_run_part_is_small(world):
    library = below(install(world), LIBDIR / f"libkiln-run.so.{VERSION}")
    run("strip", library)
    if os.uname().machine != "x86_64":
        raise harness.Skip("the figure is of x86-64")
    assert library.stat().st_size <= RUN_BYTES_MAX, library.stat().st_size


def test_the_abi_is_the_stored_one(world):
    """A difference is a new major version, or, when something was only added, `./dev golden --update`."""
    if not shutil.which("abidiff"):
        raise harness.Skip("abidiff is missing: install abigail-tools")
    headers = pathlib.Path(world.path("headers"))
    headers.mkdir()
    for name in {name for names in PUBLIC.values() for name in names}:
        shutil.copy(ROOT / name, headers)
    for part in PUBLIC:
        stored, now = ROOT / f"libkiln/{part}.abi", world.path(f"{part}.abi")
        library = harness.PROGRAMS / f"libkiln/libkiln-{part}.so.{VERSION}"
        run("abidw", "--exported-interfaces-only", "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "--drop-private-types",
            "--headers-dir", headers, "--out-file", now, library)
        if os.environ.get("KILN_GOLDEN_UPDATE"):
            shutil.copy(now, stored)
        done = subprocess.run(["abidiff", stored, now], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
