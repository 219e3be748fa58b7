#!/usr/bin/env python3
"""Compiles Java sources and packs them with the library.

jar.py OUT.jar JAVAC JAR VERSION LIBRARY.so SOURCE.java...
"""
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile

JAVA = "11"  # the oldest that is served, so that Android's tools take the classes
ARCH = {"x86_64": "amd64"}  # as the virtual machine says it (os.arch)


def main(out, javac, jar, version, library, *sources):
    with tempfile.TemporaryDirectory() as folder:
        native = pathlib.Path(folder) / "native" / f"linux-{ARCH.get(platform.machine(), platform.machine())}"
        native.mkdir(parents=True)
        subprocess.run([javac, "--release", JAVA, "-Xlint:all,-serial,-options", "-Werror", "-encoding", "UTF-8", "-d", folder, *sources], check=True)
        shutil.copy(library, native / "libkiln-jni.so")
        subprocess.run(["strip", native / "libkiln-jni.so"], check=True)
        manifest = pathlib.Path(folder) / "manifest"
        manifest.write_text(f"Automatic-Module-Name: kiln\nImplementation-Title: Kiln\nImplementation-Version: {version}\n", encoding="utf-8")
        out = os.path.abspath(out)
        subprocess.run([jar, "--create", "--file", out, "--manifest", manifest, "-C", folder, "kiln", "-C", folder, "native"], check=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
