#!/usr/bin/env python3
"""The documentation site builds, its links and headings lead somewhere, and it loads nothing from elsewhere. Prints TAP."""
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def main():
    print("1..1")
    if not shutil.which("mkdocs"):
        print("ok 1 - the_site_is_whole # SKIP mkdocs is missing: ./dev docs installs it")
        return 0
    with tempfile.TemporaryDirectory() as out:
        done = subprocess.run([sys.executable, ROOT / "docs/site/make_site.py", out, "--check"], capture_output=True, text=True, check=False)
    print(f"{'not ok' if done.returncode else 'ok'} 1 - the_site_is_whole")
    print("\n".join("# " + line for line in (done.stdout + done.stderr).splitlines()[-20:]))
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
