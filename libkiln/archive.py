#!/usr/bin/env python3
"""Joins static libraries to one of a single object in which only public names are global, so that it links like any
other archive, and nothing of it meets a name of its user's.

archive.py OUT.a MAP "compiler command" "objcopy" "ar" ARCHIVE|-l:NAME...   names that MAP lists are public; what no public function needs is left out
"""
import pathlib
import re
import subprocess
import sys
import tempfile


def main(out, symbol_map, compiler, objcopy, ar, *archives):
    names = re.findall(r"^ +(kiln_\w+);$", pathlib.Path(symbol_map).read_text(encoding="utf-8"), re.M)
    with tempfile.TemporaryDirectory() as folder:
        joined, keep = f"{folder}/{pathlib.Path(out).stem}.o", f"{folder}/names"
        pathlib.Path(keep).write_text("".join(name + "\n" for name in names), encoding="utf-8")
        wanted = [f"-Wl,-u,{name}" for name in names]
        subprocess.run([*compiler.split(), "-r", "-nostdlib", "-Wl,--gc-sections", *wanted, "-o", joined, "-Wl,--start-group", *archives,
                        "-Wl,--end-group"], check=True)
        subprocess.run([objcopy, f"--keep-global-symbols={keep}", joined], check=True)
        pathlib.Path(out).unlink(missing_ok=True)
        subprocess.run([ar, "rcsD", out, joined], check=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
