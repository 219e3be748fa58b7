#!/usr/bin/env python3
"""Completions of bash, zsh and fish, in the shells themselves."""
import os
import pathlib
import re
import shutil
import socket
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
# The same of names: of networks, and of what make_fleet made.
NAMED = [
    ("kiln zoo resnet1\t-o m.onnx", "zoo resnet18 -o m.onnx"),
    ("kiln fleet drain board-o\t", "fleet drain board-one"),
    ("kiln fleet --json show board-t\t", "fleet --json show board-two"),
    ("kiln fleet upgrade board-one board-t\t", "fleet upgrade board-one board-two"),
    ("kiln tune --on board-o\tm.onnx", "tune --on board-one m.onnx"),
    ("kiln jobs cancel nigh\t", "jobs cancel nightly"),
    ("kiln jobs priority nigh\t40", "jobs priority nightly 40"),
    ("kiln project show vis\t", "project show vision"),
    ("kiln submit --project vis\tm.onnx", "submit --project vision m.onnx"),
    ("kiln key revoke client/an\t", "key revoke client/ann"),
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


def make_fleet(world):
    """A tracker with two boards, a job that waits for a tuner, a project and a key. Commands find it as this user's."""
    _, address = world.tracker()
    for key in ("board-one", "board-two"):
        world.board(address, key=key, state=key)
    world.run("tune", world.zoo("gemm:16x32x24"), "--tracker", address, "--job", "nightly", "--detach")
    world.run("project", "new", "vision")
    world.run("key", "new", "client/ann", "-o", "ann.key")


def with_kiln(world):
    """The environment of a shell: `command kiln` is the program under test, and takes its time on a busy machine."""
    path = f"{pathlib.Path(harness.program('kiln')).parent}:{world.env['PATH']}"
    return {key: value for key, value in world.env.items() if not key.startswith(("BASH", "ZSH"))} | {
        "HOME": str(world.folder), "HISTFILE": "", "PATH": path, "KILN_NAMES_WAIT": "60"}


def type_all(world, argv, set_up, cases):
    """Types each case into an interactive shell, whose programs of Kiln are functions that print their words."""
    env = with_kiln(world)
    terminal = harness.Terminal(argv, env, world.folder, columns=200, rows=40, term="xterm")
    functions = "".join(f"{name}() {{ printf 'GOT:%s:END\\n' \"$*\"; }}\n" for name in PROGRAMS)
    script = world.folder / "set-up"
    script.write_text(functions + set_up + "PS1='REA''DY> '\n")
    terminal.type(f". {script}\n".encode())
    for typed, words in cases:
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


def type_into_bash(world, cases):
    sources = "".join(f". {FOLDER / name}\n" for name in PROGRAMS)
    type_all(world, [shell("bash"), "--norc", "--noprofile", "-i"], sources, cases)


def type_into_zsh(world, cases):
    type_all(world, [shell("zsh"), "-f", "-i"], f"fpath=({FOLDER} $fpath)\nautoload -Uz compinit\ncompinit -D -u\n", cases)


def test_bash_completes_what_is_typed(world):
    make_files(world)
    type_into_bash(world, CASES)


def test_zsh_completes_what_is_typed(world):
    make_files(world)
    type_into_zsh(world, CASES)


def test_bash_completes_names(world):
    shell("bash")
    make_fleet(world)
    type_into_bash(world, NAMED)


def test_zsh_completes_names(world):
    shell("zsh")
    make_fleet(world)
    type_into_zsh(world, NAMED)


def ask_fish(world, lines):
    """For each command line the words that fish offers at its end."""
    sources = "".join(f"source {FOLDER / name}.fish\n" for name in PROGRAMS)
    asks = "".join(f"complete -C {quote(line)}; echo =====\n" for line in lines)
    done = subprocess.run([shell("fish"), "--no-config", "-c", sources + asks], env=with_kiln(world), cwd=world.folder,
                          capture_output=True, text=True, check=True)
    assert not done.stderr, done.stderr
    return [[row.split("\t")[0] for row in part.strip("\n").split("\n") if row] for part in done.stdout.split("=====\n")[:-1]]


def quote(line):
    return "'" + line.replace("\\", "\\\\").replace("'", "\\'") + "'"


def type_into_fish(world, cases):
    for (typed, words), offered in zip(cases, ask_fish(world, [typed[:typed.rindex("\t")].replace("\t", " ") for typed, _ in cases])):
        assert len(offered) == 1, f"{typed!r}: {offered}"
        assert offered[0].split("=")[-1].replace("\\", "").rstrip("/") in words, f"{typed!r}: {offered}"


def test_fish_completes_what_is_typed(world):
    make_files(world)
    type_into_fish(world, COMPLETE)


def test_fish_completes_names(world):
    shell("fish")
    make_fleet(world)
    type_into_fish(world, NAMED)


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
    done = subprocess.run([shell("bash"), "--norc", "-c", script], env=with_kiln(world), cwd=world.folder, capture_output=True, text=True, check=True)
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


def test_names_of_a_tracker_that_was_named_in_the_command_line(world):
    make_fleet(world)
    _, other = world.tracker(home="elsewhere")
    here = world.run("names", "boards").stdout
    assert here.split() == ["board-one", "board-two"], here
    assert world.run("names", "jobs").stdout == "nightly\n"
    for words in (["--tracker", other, "--insecure"], [f"--tracker={other}", "--insecure", "--unknown=1", "--tracker"]):
        assert "board" not in world.run("names", "boards", "--", "kiln", "fleet", "drain", *words, ok=False).stdout
    world.refused("names", "bords", says="did you mean boards?")
    world.refused("names", "boards", "--wait", 0, says="1 to 3600 seconds")


def test_every_list_that_arguments_name_is_there(world):
    kinds = world.run("names", "kinds").stdout.split()
    table = pathlib.Path(__file__).resolve().parents[2] / "cli/arguments.def"
    named = set(re.findall(r"^X\(.*, (\w+)\)$", table.read_text(), re.M))
    assert named - {"files", "folders", "targets", "networks"} == set(kinds) - {"kinds"}, (named, kinds)


def test_without_a_tracker_there_is_silence(world):
    """In the shells nothing is offered and nothing printed; the program says why."""
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        address = f"127.0.0.1:{deaf.getsockname()[1]}"
        world.home.mkdir()
        (world.home / "token").write_text("0" * 64 + "\n")
        (world.home / "token").chmod(0o600)
        done = world.run("names", "boards", "--tracker", address, ok=False)
        assert done.returncode == 12 and "did not answer" in done.stderr and not done.stdout, done
    (world.home / "token").unlink()
    line = "kiln fleet drain b"
    ask = f"COMP_WORDS=({line}); COMP_CWORD=3; COMP_LINE='{line}'; COMP_POINT={len(line)}; _kiln_complete; echo \"${{#COMPREPLY[@]}}\""
    done = subprocess.run([shell("bash"), "--norc", "-c", f". {FOLDER / 'kiln'}\n{ask}"], env=with_kiln(world), capture_output=True, text=True, check=True)
    assert done.stdout == "0\n" and not done.stderr, done
    if shutil.which("fish"):
        assert ask_fish(world, [line]) == [[]]


def test_names_that_others_chose_are_never_run(world):
    """A hostile tracker answers with what a shell would expand."""
    hostile = "b$(touch pwned);touch pwned"
    (world.folder / "bin").mkdir()
    (world.folder / "bin/kiln").write_text(f"#!/bin/sh\necho '{hostile}'\n")
    (world.folder / "bin/kiln").chmod(0o755)
    env = with_kiln(world)
    env["PATH"] = f"{world.folder}/bin:{env['PATH']}"
    line = "kiln fleet drain b"
    ask = f"COMP_WORDS=({line}); COMP_CWORD=3; COMP_LINE='{line}'; COMP_POINT={len(line)}; _kiln_complete; printf '%s\\n' \"${{COMPREPLY[0]}}\"; eval \"set -- ${{COMPREPLY[0]}}\"; printf '%s\\n' \"$@\""
    done = subprocess.run([shell("bash"), "--norc", "-c", f". {FOLDER / 'kiln'}\n{ask}"], env=env, cwd=world.folder, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[1:] == [hostile], done
    assert not (world.folder / "pwned").exists()


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
