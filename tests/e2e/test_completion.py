#!/usr/bin/env python3
"""Completions of bash, zsh and fish, in the shells themselves."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

import harness

FOLDER = pathlib.Path(os.environ["KILN_BIN"]) / "deploy/install"

# What is typed, with tabs, and the words that the program then gets; a space and '=' before a value mean the same.
CASES = [
    ("kiln tu\tm.onnx", "tune m.onnx"),
    ("kiln fle\tdra\tb1", "fleet drain b1"),
    ("kiln tune --targ\trpi4", "tune --target rpi4"),
    ("kiln tune --target cortex-m5\t", "tune --target cortex-m55"),
    ("kiln tune --target=cortex-m5\t", "tune --target cortex-m55"),
    ("kiln run my\t", "run my module.kiln"),
    ("kiln run --output res\t", "run --output results/"),
    ("kiln db import rec\t", "db import records.jsonl"),
    ("kiln db --db rec\tbe\t", "db --db records.jsonl best"),
    ("kiln key sign-r\tmy\t", "key sign-release my module.kiln"),
    ("kiln explain m.onnx --stage spa\t", "explain m.onnx --stage space"),
    ("kiln vta search --evalu\t3", "vta search --evaluate 3"),
    ("kiln help exit\t", "help exit-codes"),
    ("kiln jobs canc\tID", "jobs cancel ID"),
    ("kiln fleet drain b1 --wh\tdust", "fleet drain b1 --why dust"),
    ("kiln quantize --weight-b\t8", "quantize --weight-bits 8"),
    ("kiln-tracker --ws-o\thttp://localhost", "--ws-origin http://localhost"),
    ("kiln-rpc-server --calib\tnever", "--calibrate never"),
    ("kiln-tuner --log-level deb\t", "--log-level debug"),
    ("kiln-run my\t", "my module.kiln"),
    ("kiln-web --db rec\t", "--db records.jsonl"),
]
PROGRAMS = ["kiln", "kiln-tracker", "kiln-tuner", "kiln-rpc-server", "kiln-web", "kiln-run"]


def shell(name):
    path = shutil.which(name)
    if not path:
        raise harness.Skip(f"{name} is not installed")
    return path


def make_files(world):
    for name in ("my module.kiln", "records.jsonl"):
        (world.folder / name).write_text("x")
    (world.folder / "results").mkdir()


def type_all(world, argv, set_up):
    """Types each case into an interactive shell, whose programs of Kiln are functions that print their words."""
    make_files(world)
    env = {key: value for key, value in world.env.items() if not key.startswith(("BASH", "ZSH"))} | {"HOME": str(world.folder), "HISTFILE": ""}
    terminal = harness.Terminal(argv, env, world.folder, columns=200, rows=40, term="xterm")
    functions = "".join(f"{name}() {{ printf 'GOT:%s:END\\n' \"$*\"; }}\n" for name in PROGRAMS)
    script = world.folder / "set-up"
    script.write_text(functions + set_up + "PS1='REA''DY> '\n")
    terminal.type(f". {script}\n".encode())
    for typed, words in CASES:
        terminal.until(lambda shown: "READY> " in shown, "a prompt")
        terminal.shown = ""
        terminal.type(typed.encode() + b"\n")
        terminal.until(lambda shown: ":END" in shown, f"{typed!r}")
        got = re.search(r"GOT:(.*?) *:END", terminal.shown, re.S)[1]
        plain = re.sub(r"^(.*--[a-z0-9-]+)=", r"\1 ", " ".join(got.split())).rstrip("/")
        assert plain == words.rstrip("/"), f"{typed!r} became {got!r}, not {words!r}: {terminal.shown!r}"
    terminal.until(lambda shown: shown.rindex("READY> ") > shown.rindex(":END") if "READY> " in shown else False, "a prompt")
    terminal.type(b"exit\n")
    terminal.ends(0)


def test_bash_completes_what_is_typed(world):
    sources = "".join(f". {FOLDER / name}\n" for name in PROGRAMS)
    type_all(world, [shell("bash"), "--norc", "--noprofile", "-i"], sources)


def test_zsh_completes_what_is_typed(world):
    type_all(world, [shell("zsh"), "-f", "-i"], f"fpath=({FOLDER} $fpath)\nautoload -Uz compinit\ncompinit -D -u\n")


def ask_fish(world, lines):
    """For each command line the words that fish offers at its end."""
    sources = "".join(f"source {FOLDER / name}.fish\n" for name in PROGRAMS)
    asks = "".join(f"complete -C {quote(line)}; echo =====\n" for line in lines)
    done = subprocess.run([shell("fish"), "--no-config", "-c", sources + asks], env={**world.env, "HOME": str(world.folder)}, cwd=world.folder,
                          capture_output=True, text=True, check=True)
    assert not done.stderr, done.stderr
    return [[row.split("\t")[0] for row in part.strip("\n").split("\n") if row] for part in done.stdout.split("=====\n")[:-1]]


def quote(line):
    return "'" + line.replace("\\", "\\\\").replace("'", "\\'") + "'"


def test_fish_completes_what_is_typed(world):
    make_files(world)
    for (typed, words), offered in zip(CASES, ask_fish(world, [typed[:typed.rindex("\t")].replace("\t", " ") for typed, _ in COMPLETE])):
        assert len(offered) == 1, f"{typed!r}: {offered}"
        assert offered[0].split("=")[-1].replace("\\", "").rstrip("/") in words, f"{typed!r}: {offered}"


# fish is asked for the last word alone, so that those before it must be whole.
COMPLETE = [(typed.replace("fle\t", "fleet\t").replace("sign-r\t", "sign-release\t").replace("--db rec\t", "--db records.jsonl\t"), words) for typed, words in CASES]


def helps(world):
    """(words of a program, command or action; the long options that its help lists; the actions or commands)"""
    commands = re.findall(r"^  ([a-z]+) ", world.run("help").stdout, re.M)
    yield [], [], [name for name in commands if name != "kiln"]
    for command in (name for name in commands if name != "kiln"):
        text = world.run(command, "--help").stdout
        actions = re.findall(r"^  ([a-z][a-z-]*) ", text.partition("\noptions:")[0], re.M) if "ACTION" in text.split("\n")[0] else []
        yield [command], re.findall(r"^  (--[a-z0-9-]+)", text, re.M), actions
        for action in actions:
            yield [command, action], re.findall(r"^  (--[a-z0-9-]+)", world.run(command, action, "--help").stdout, re.M), []


def ask_bash(world, lines):
    """The same of bash, by its completion function."""
    asks = "".join(f"COMP_WORDS=({line} ''); COMP_CWORD={len(line.split())}; _kiln_complete; echo \"${{COMPREPLY[*]}}\"\n"
                   f"COMP_WORDS=({line} --); COMP_CWORD={len(line.split())}; _kiln_complete; echo \"${{COMPREPLY[*]}}\"\n" for line in lines)
    script = f"compopt() {{ :; }}\n. {FOLDER / 'kiln'}\n{asks}"
    done = subprocess.run([shell("bash"), "--norc", "-c", script], cwd=world.folder, capture_output=True, text=True, check=True)
    assert not done.stderr, done.stderr
    rows = [row.split() for row in done.stdout.split("\n")]
    return [(rows[i], rows[i + 1]) for i in range(0, 2 * len(lines), 2)]


def test_all_options_and_commands_of_the_help_texts_are_offered(world):
    wanted = list(helps(world))
    assert len(wanted) > 40, wanted
    lines = [" ".join(["kiln", *words]) for words, _, _ in wanted]
    offered = ask_bash(world, lines)
    for (words, options, below), (arguments, given) in zip(wanted, offered):
        assert set(options) <= set(given), f"bash offers for {words} no {set(options) - set(given)}"
        assert set(below) <= set(arguments), f"bash offers for {words} no {set(below) - set(arguments)}"
    if shutil.which("fish"):
        answers = iter(ask_fish(world, [line + end for line in lines for end in (" ", " --")]))
        for words, options, below in wanted:
            arguments, given = next(answers), next(answers)
            assert set(options) <= set(given), f"fish offers for {words} no {set(options) - set(given)}"
            assert set(below) <= set(arguments), f"fish offers for {words} no {set(below) - set(arguments)}"


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
