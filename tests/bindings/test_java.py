#!/usr/bin/env python3
"""The library in Java: a program that uses only the jar."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

import harness
from test_install import kept_module_of, module_of, run, sized_module_of

VERSION = os.environ["KILN_VERSION"]
JAR = harness.PROGRAMS / "java/kiln.jar"
HERE = pathlib.Path(__file__).parent


def compile_app(world):
    if not shutil.which("javac") or not JAR.exists():
        raise harness.Skip("no Java compiler was there: install openjdk-17-jdk-headless")
    run("javac", "-Xlint:all", "-Werror", "-encoding", "UTF-8", "-cp", JAR, "-d", world.path("classes"), HERE / "App.java")
    return ["java", "-Xcheck:jni", "-Dfile.encoding=UTF-8", f"-Djava.io.tmpdir={world.folder}/tmp", "-cp", f"{JAR}:{world.path('classes')}", "App"]


def test_an_application_runs_a_module(world):
    app, module = compile_app(world), module_of(world)
    (world.folder / "broken").write_bytes(pathlib.Path(module).read_bytes()[:-5])
    done = subprocess.run([*app, module], cwd=world.folder, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C.UTF-8"})
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"kiln {VERSION} null", "f32 [64, 64] to f32 [64, 64]: twice"], done.stdout
    assert "WARNING" not in done.stderr, done.stderr
    assert not [entry for entry in (world.folder / "tmp").iterdir() if "kiln" in entry.name], "the copy of the library stayed"


def test_a_module_takes_several_sizes(world):
    app = compile_app(world)
    assert run(*app, sized_module_of(world), "sizes", cwd=world.folder) == "sizes\n"


def test_state_stays_in_the_module(world):
    app = compile_app(world)
    assert run(*app, kept_module_of(world), "keep", cwd=world.folder) == "kept\n"


def test_the_jar_has_no_other_names(world):
    compile_app(world)
    names = zipfile.ZipFile(JAR).namelist()
    assert {*names} >= {"kiln/Module.class", "kiln/KilnException$NotFound.class"} and names[0] == "META-INF/MANIFEST.MF", names
    assert all(re.match(r"META-INF/|kiln/|native/", name) for name in names), names
    assert run("nm", "-D", "--defined-only", harness.PROGRAMS / "java/libkiln-jni.so").split()[2:] == ["JNI_OnLoad"]


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
