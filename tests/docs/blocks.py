#!/usr/bin/env python3
"""Runs the command blocks of the documents: blocks.py BUILD PAGE..., or blocks.py BUILD --if NAME: all pages of the site where the environment has NAME.

A command block is an indented block that has a line beginning with one of Kiln's programs or with another of COMMANDS, after an optional prompt ("$ ",
"pi$ "). The blocks of a page run in their order in one shell, in an empty folder with a home of its own, the programs of BUILD on PATH, and namespaces of
its own, so that ports are free and servers end with the page. Lines of HTML comments before a block change that:

    <!-- test: COMMAND -->            runs COMMAND first, which readers do not see
    <!-- test: replace A B -->        A becomes B in all later blocks: what readers have to put in themselves
    <!-- test: not run, REASON -->    the next block is not run

A page fails where a command ends with an error; what it printed is shown. Prints TAP."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMANDS = ("kiln", "kiln-tracker", "kiln-tuner", "kiln-rpc-server", "kiln-run", "kiln-web", "./dev", "meson", "ninja", "curl", "python", "python3", "cc", "cp", "scp", "export", "eval", "pip",
            "systemctl", "createdb", "useradd", "runuser", "apt", "apt-get", "dpkg", "docker", "podman", "buildah", "npm", "adb", "ssh", "openssl", "echo", "v/bin/pip", "v/bin/python")
PROMPT = re.compile(r"^(?:[a-z]*\$ )")
DEADLINE_S = 600


class Block:
    def __init__(self, line):
        self.line, self.text = line, []


def commands_of(block):
    """The block's lines without prompts, or None where none is a command."""
    lines = [PROMPT.sub("", text) for text in block.text]
    return lines if any(line.split(" ", 1)[0] in COMMANDS and not re.match(r"kiln release \d", line) for line in lines) else None


def parts_of(text):
    """(line, kind, content): kind "hidden", "not run" or "block", in the order of the page."""
    block, fenced, listed = None, False, False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            fenced = not fenced
        found = re.match(r"<!-- test: (.*?) ?-->$", line)
        inside = line.startswith("    ") and not fenced and not listed
        if block and line.strip() and not inside:
            yield block.line, "block", block
            block = None
        if found:
            said = found.group(1)
            yield number, "not run" if said.startswith("not run, ") else "hidden", said
        elif inside:
            block = block or Block(number)
            block.text.append(line[4:])
        elif block and not line.strip():
            block.text.append("")
        if re.match(r"(\* |- |\d+\. )", line):
            listed = True
        elif line.strip() and not line.startswith(" "):
            listed = False
    if block:
        yield block.line, "block", block


def script_of(page):
    """A shell script of the page, the number of its blocks that run, and lines of blocks that do not, with reasons."""
    out = ["trap 'echo \"line $at: $BASH_COMMAND\" >&2; exit 1' ERR"]
    runs, left, excuse, replaced = 0, [], None, []
    for number, kind, content in parts_of(page.read_text(encoding="utf-8")):
        if kind == "not run":
            excuse = content
        elif kind == "hidden" and content.startswith("replace "):
            replaced.append(content.split(" ", 2)[1:])
        elif kind == "hidden":
            out += [f"at={number}", content]
        else:
            lines = commands_of(content)
            if lines is None:
                continue
            if excuse:
                left.append((number, excuse))
            else:
                runs += 1
                for old, new in replaced:
                    lines = [line.replace(old, new) for line in lines]
                for offset, line in enumerate(lines):
                    continued = offset and (lines[offset - 1].endswith("\\") or lines[offset - 1].startswith("  "))
                    out += ([] if continued or line.startswith("  ") else [f"at={number + offset}"]) + [line]
            excuse = None
    return "\n".join(out) + "\n", runs, left


def programs(build, folder):
    for name, where in (("kiln", "cli"), ("kiln-tracker", "tracker"), ("kiln-tuner", "tuner"), ("kiln-rpc-server", "rpc-server"), ("kiln-run", "deploy/run"), ("kiln-web", "web")):
        file = build / where / name
        if file.exists():
            (folder / name).symlink_to(file)


def namespaces_of_its_own():
    """What runs a command in a network and with processes of its own, all of which end with it; None where the system does not allow that."""
    argv = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", *([] if os.getuid() == 0 else ["--map-root-user"])]
    works = shutil.which("ip") and subprocess.run([*argv, "ip", "link", "set", "lo", "up"], capture_output=True, check=False).returncode == 0
    return [*argv, "bash", "-c", 'ip link set lo up && exec "$@"', "-"] if works else None


def run_page(page, build, own):
    script, runs, left = script_of(page)
    with tempfile.TemporaryDirectory(prefix="kiln-docs-") as folder:
        folder = pathlib.Path(folder)
        (folder / "work").mkdir()
        (folder / "bin").mkdir()
        programs(build, folder / "bin")
        env = {**os.environ, "HOME": str(folder), "KILN_HOME": str(folder / "home"), "KILN_CONFIG": "none", "KILN_ROOT": str(ROOT), "PATH": f"{folder}/bin:{os.environ['PATH']}"}
        with open(folder / "log", "wb") as log:
            child = subprocess.Popen([*own, "bash", "-c", script], env=env, cwd=folder / "work", stdout=log, stderr=log, stdin=subprocess.DEVNULL)
            try:
                child.wait(DEADLINE_S)
            except subprocess.TimeoutExpired:
                child.kill()
                log.write(f"\nit did not end in {DEADLINE_S} s\n".encode())
                child.wait()
        return child.returncode, (folder / "log").read_text(errors="replace"), runs, left


def site_pages():
    sys.path.insert(0, str(ROOT / "docs/site"))
    from make_site import chapters
    return [page for _, pages in chapters() for page in pages if page.parent.name != "decisions"]


def has_commands(page):
    return any(kind == "block" and commands_of(content) for _, kind, content in parts_of(page.read_text(encoding="utf-8")))


def main():
    build, pages = pathlib.Path(sys.argv[1]).resolve(), [ROOT / page for page in sys.argv[2:]]
    if sys.argv[2] == "--if":
        if not os.environ.get(sys.argv[3]):
            print("1..1\nok 1 - commands_of_all_pages # SKIP `./dev test docs` runs them")
            return 0
        pages = [page for page in site_pages() if has_commands(page)]
    own = namespaces_of_its_own()
    print(f"1..{len(pages)}")
    failed = 0
    for number, page in enumerate(pages, 1):
        name = page.relative_to(ROOT)
        if own is None:
            print(f"ok {number} - {name} # SKIP no namespaces here (unshare and ip)")
            continue
        code, said, runs, left = run_page(page, build, own)
        failed += code != 0
        print(f"{'not ok' if code else 'ok'} {number} - {name}: {runs} blocks")
        for line, reason in left:
            print(f"# {name}:{line}: {reason}")
        if code:
            print("\n".join("# " + line for line in said.splitlines()[-25:]), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
