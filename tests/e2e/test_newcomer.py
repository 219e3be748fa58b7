#!/usr/bin/env python3
"""Mistakes of new users: outputs that cannot be written, misunderstood options, files of other
users, programs that are started twice."""
import csv
import io
import json
import os
import pathlib
import pwd
import re
import shutil
import stat
import subprocess
import sys

import harness

DIGITS = str(pathlib.Path(__file__).resolve().parents[2] / "examples/digits/digits.onnx")
MATMUL = "gemm:8x8x8"


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def kiln(world, *argv, umask=-1, user=None, env=None):
    """Runs it as another user or with another umask, and returns what it did."""
    return subprocess.run([harness.program("kiln"), *map(str, argv)], env=env or world.env, cwd=world.folder, umask=umask, user=user,
                          capture_output=True, text=True, timeout=harness.DEADLINE_S)


def stranger(world):
    """A user who may read nothing of `secret`, and has a home of its own; (user, environment, folder)."""
    secret, home = world.folder / "secret", world.folder / "theirs"
    secret.mkdir()
    home.mkdir()
    if os.getuid() != 0:
        secret.chmod(0)
        return None, {**world.env, "KILN_HOME": str(home)}, secret
    secret.chmod(0o700)
    world.folder.chmod(0o755)
    (world.folder / "tmp").chmod(0o777)
    home.chmod(0o777)
    env = {**world.env, "KILN_HOME": str(home), "USER": ""}
    if kiln_is_beyond_reach(env):
        raise harness.Skip("the programs lie in a folder of root's own")
    return 65534, env, secret


def kiln_is_beyond_reach(env):
    try:
        return subprocess.run([harness.program("kiln"), "--version"], env=env, user=65534, capture_output=True, check=False).returncode
    except PermissionError:
        return True


def test_files_respect_the_umask(world):
    for umask, of_module, of_text in ((0o027, 0o640, 0o640), (0, 0o644, 0o666)):
        world.json("tune", world.zoo(MATMUL), "--trials", 1, "--db", world.path("t.db"))
        for argv, file, expected in ((["zoo", MATMUL, "-o", "g.onnx"], "g.onnx", of_text),
                                     (["compile", DIGITS, "-o", "d.kiln"], "d.kiln", of_module),
                                     (["compile", DIGITS, "--emit", "static-c", "-o", "d.c"], "d.h", of_text),
                                     (["run", "d.kiln", "--output", "out"], "out/probability.npy", of_module),
                                     (["tune", "g.onnx", "--trials", "0", "--db", "t.db", "--out", "t.kiln"], "t.kiln", of_module),
                                     (["db", "plot", "--db", "t.db", "-o", "p.html"], "p.html", of_text),
                                     (["key", "new", "board/b", "--keys", "keys", "-o", "b.key"], "b.key", 0o600)):
            path = world.folder / file
            path.unlink(missing_ok=True)
            done = kiln(world, *argv, umask=umask)
            assert done.returncode == 0 and mode(path) == expected, (argv, oct(umask), oct(mode(path)), done.stderr)


def test_an_output_that_cannot_be_written_is_noticed_before_the_work(world):
    """Before the model is read, even: it does not exist. A folder and one that is missing; nothing is left."""
    db, gone, folder = world.path("t.db"), world.path("gone/x"), world.path("folder")
    os.mkdir(folder)
    world.run("compile", DIGITS, "-o", world.path("d.kiln"))
    for argv in (["tune", DIGITS, "--db", db, "--out"], ["compile", "no.onnx", "-o"], ["zoo", MATMUL, "-o"], ["trace", "no.json", "-o"],
                 ["compile", "no.onnx", "--emit", "llvm", "-o"]):
        world.refused(*argv, gone, says="gone/x")
        world.refused(*argv, folder, says="is a folder")
    world.refused("compile", "no.onnx", "--emit", "static-c", "-o", world.path("gone/x.c"), says="gone/x.c")
    world.refused("run", world.path("d.kiln"), "--output", world.path("d.kiln"), says="d.kiln")
    assert not os.path.exists(db) and not os.listdir(folder)
    world.json("tune", world.zoo(MATMUL), "--trials", 1, "--db", db)
    world.refused("db", "plot", "--db", db, "-o", gone, says="gone/x")


def test_a_device_file_can_be_an_output(world):
    world.run("compile", DIGITS, "-o", "/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_module_that_cannot_be_written_any_more_is_packed_by_the_command_that_the_error_names(world):
    """The folder goes while the search runs."""
    model, folder = world.zoo(MATMUL), world.folder / "out"
    folder.mkdir()
    child = world.start("kiln", "tune", model, "--trials", 2, "--db", world.path("t.db"), "--out", folder / "m.kiln", "--json")
    harness.until(lambda: "progress" in child.log.read_text(), "a trial")
    folder.rmdir()
    child.wait(timeout=harness.DEADLINE_S)
    said = child.log.read_text()
    assert child.returncode != 0, said
    command = re.search(r"kiln (compile .*) -o FILE", said)
    assert command, said
    done = world.json(*command.group(1).split(), "-o", world.path("saved.kiln"))[-1]
    assert done["tuned"] == 1, done


def test_no_trials_measure_nothing_and_pack_what_is_stored(world):
    model, db = world.zoo(MATMUL), world.path("t.db")
    first = world.json("tune", model, "--trials", 3, "--db", db)[-1]
    lines = world.json("tune", model, "--trials", 0, "--db", db, "--out", world.path("m.kiln"))
    module, done = lines[-2:]
    assert done["measured"] == 0 and done["tasks"][0]["trials"] == first["tasks"][0]["trials"], done
    assert module["event"] == "module" and os.path.exists(world.path("m.kiln")), lines
    fresh = world.json("tune", model, "--trials", 0, "--db", world.path("fresh.db"))[-1]
    assert fresh["measured"] == 0 and fresh["tasks"][0]["trials"] == 0, fresh
    world.refused("tune", model, "--trials", 0, "--detach", "--tracker", "127.0.0.1:1", says="no job")
    text = world.run("tune", "--help").stdout
    assert "stored ones count towards a task's share" in text and "0: report and pack" in text, text


def test_threads_are_an_option_that_agrees_with_the_target(world):
    module = world.path("d.kiln")
    for command in ("tune", "compile", "explain"):
        text = world.run(command, "--help").stdout
        assert "--threads N" in text and "--dim NAME=N" in text and "--dim batch=8" in text, text
    world.run("compile", DIGITS, "--threads", 2, "-o", module)
    text = world.run("run", module, "--bench").stdout
    assert "2 threads" in text, text
    for command in ("tune", "compile"):
        world.refused(command, DIGITS, "--threads", 2, "--target", "cpu:x86_64-unknown-linux-gnu,threads=4", says="threads=4")
    world.refused("compile", DIGITS, "--threads", 2, "--target", "h100", says="for processors")
    done = world.run("run", module, "--threads", 99)
    assert "compiled for 2 threads and uses no more" in done.stderr and "kiln compile --threads" in done.stderr, done.stderr
    assert world.run("run", module, "--threads", 2).stderr == "" == world.run("run", module, "--threads", 1).stderr


def test_a_database_that_is_named_must_be_there(world):
    world.refused("compile", DIGITS, "--db", world.path("typo.db"), "-o", world.path("d.kiln"), says="no such database")
    assert not os.path.exists(world.path("d.kiln"))
    world.run("compile", DIGITS, "-o", world.path("d.kiln"))  # the usual one may be missing
    world.json("tune", DIGITS, "--tasks", "gemm", "--trials", 2, "--db", world.home / "kiln.db")
    tuned = lambda *options: world.json("compile", DIGITS, "-o", world.path("d.kiln"), *options)[-1]["tuned"]
    assert tuned() == 1 and tuned("--db", "none") == 0


def test_modules_for_machines_without_a_loader_are_refused_with_the_alternative(world):
    for target in ("cortex-m7",):
        for argv in (["compile", DIGITS, "-o"], ["tune", DIGITS, "--db", world.path("t.db"), "--out"]):
            said = world.refused(*argv, world.path("d.kiln"), "--target", target, says="cannot load modules").stderr
        command = re.search(r"kiln (compile .* -o )NAME.c", said).group(1).split()
        assert DIGITS in command, said
        world.run(*command, world.path("d.c"))
    assert not os.path.exists(world.path("d.kiln"))


def test_passes_that_do_not_exist_are_answered_with_those_that_do(world):
    for stage, some in (("graph", "fold-constants, remove-identity"), ("loops", "there are supported, split_prepare")):
        said = world.refused("explain", DIGITS, "--stage", stage, "--after", "nope", says=some).stderr
        assert said.count(":") <= 2, said
    world.refused("explain", DIGITS, "--stage", "asm", "--after", "fuse", says="graph and loops")


def test_unreadable_files_are_permission_errors(world):
    """Not to be missing."""
    user, env, secret = stranger(world)
    if user is not None:
        (secret / "m.onnx").write_bytes(b"")
    x = secret / "x"
    for argv in (["compile", secret / "m.onnx", "-o", "m.kiln"], ["verify", x], ["run", x], ["db", "best", "--db", x],
                 ["compile", DIGITS, "--db", x, "-o", "/dev/null"], ["zoo", MATMUL, "-o", x], ["tune", DIGITS, "--db", x / "y"],
                 ["key", "list", "--keys", x], ["db", "import", x], ["trace", x, "-o", "/dev/null"],
                 ["fleet", "list", "--tracker", "10.0.0.1:9", "--key-file", x]):
        done = kiln(world, *argv, user=user, env=env)
        said = done.stdout + done.stderr
        assert done.returncode != 0 and "No such" not in said and "not exist" not in said and "no such" not in said, (argv, said)
        assert "ermission denied" in said or "cannot be opened" in said, (argv, said)
    done = kiln(world, "doctor", user=user, env={**env, "KILN_HOME": str(x)})
    assert "ermission denied" in done.stdout, done.stdout


def test_two_tuners_do_not_share_a_state_folder(world):
    _, address = world.tracker()
    first = world.tuner(address)
    second = world.tuner(address, wait=False)
    assert second.wait(timeout=harness.DEADLINE_S) != 0
    said = second.log.read_text()
    assert f"in use by kiln-tuner (process {first.pid})" in said, said
    assert first.poll() is None and "connection" not in said
    world.kill(first)
    world.tuner(address)  # nothing is left of the lock


def test_jobs_know_the_user_without_help_of_the_environment(world):
    world.env.pop("USER", None)
    tracker, address = world.tracker()
    world.start("kiln", "tune", world.zoo(MATMUL), "--trials", 1, "--tracker", address, "--db", world.path("t.db"))
    harness.until(lambda: world.json("jobs", "list", "--tracker", address), "the job")
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = f"uid-{os.getuid()}"
    [job] = world.json("jobs", "list", "--tracker", address)
    assert job["user"] == name, job


def test_a_named_detached_job_runs_anew_after_its_end(world):
    """It fails neither while its job runs nor once that has ended; the name means the newest run."""
    tracker, address, board, tuner = world.fleet()
    argv = ["tune", world.zoo(MATMUL), "--tracker", address, "--db", world.path("t.db"), "--detach", "--job", "nightly", "--seconds", 5]
    first = world.json(*argv, "--trials", 2)[-1]["job"]
    assert first == "nightly" == world.json(*argv, "--trials", 2)[-1]["job"]
    world.run("jobs", "attach", "nightly", "--tracker", address, "--db", world.path("t.db"))
    second = world.json(*argv, "--trials", 4)[-1]["job"]
    assert second.startswith("nightly.") and second != first, second
    world.run("jobs", "attach", "nightly", "--tracker", address, "--db", world.path("t.db"))
    ended = {job["job"]: job for job in world.json("jobs", "list", "--tracker", address)}
    assert {job["state"] for job in ended.values()} == {"done"} and set(ended) == {first, second}, ended
    assert len(world.sql("t.db", f"SELECT trace_hash FROM record WHERE job_id = '{second}' AND \"final\" = 0")) == 2


def test_lost_boards_can_be_forgotten(world):
    tracker, address, board, _ = world.fleet()
    world.refused("fleet", "forget", "board", "--tracker", address, says="is connected")
    world.kill(board)
    harness.until(lambda: world.json("fleet", "list", "--tracker", address)[0]["state"] == "lost", "the board being lost")
    assert "board is forgotten" in world.run("fleet", "forget", "board", "--tracker", address).stdout
    assert world.json("fleet", "list", "--tracker", address) == []
    world.refused("fleet", "forget", "board", "--tracker", address, says="there is no board board")
    world.board(address)
    assert world.json("fleet", "list", "--tracker", address)[0]["state"] == "free"
    assert "--forget-boards DAYS" in world.run("--help", name="kiln-tracker").stdout
    for option in ("--forget-boards", "--keep-blobs", "--person-blobs"):
        world.refused(option, "-1", "--listen", "127.0.0.1:0", says="negative", name="kiln-tracker")


def test_records_are_listed_with_model_shape_and_time_as_text_csv_and_json(world):
    model, db = world.zoo("gemm:8x16x24"), world.path("t.db")
    world.json("tune", model, "--trials", 3, "--db", db)
    for action in ("best", "top", "history"):
        lines = world.run("db", action, "--db", db).stdout.splitlines()
        assert lines[0].split()[:5] == ["model", "task", "outcome", "median", "GFLOP/s"], lines
        assert lines[1].startswith("gemm_8x16x24.onnx  matmul 8x16 over 24  ok  "), lines
        assert re.search(r"  20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ  v2:[0-9a-f]{32}  [0-9a-f]{12}$", lines[1]), lines
        rows = list(csv.DictReader(io.StringIO(world.run("db", action, "--db", db, "--csv").stdout)))
        objects = world.json("db", action, "--db", db)
        assert len(rows) == len(objects) == len(lines) - 1 > 0, (rows, objects)
        for row, found in zip(rows, objects):
            assert row["model"] == found["model"] == "gemm_8x16x24.onnx" and row["label"] == found["label"] == "matmul 8x16 over 24", row
            assert abs(float(row["median_ns"]) - found["median_ns"]) < 1e-3 and isinstance(found["gflops"], float), (row, found)
    statement = "SELECT 'a,\"b\"' AS t, attempt, median_ns, NULL AS n, '12' AS d, x'0a' AS b FROM record WHERE median_ns > 0 LIMIT 1"
    [row] = world.json("db", "sql", statement, "--db", db)
    assert row["t"] == 'a,"b"' and row["attempt"] == 1 and isinstance(row["median_ns"], float), row
    assert row["n"] is None and row["d"] == "12" and row["b"] == "0a", row
    [row] = csv.DictReader(io.StringIO(world.run("db", "sql", statement, "--db", db, "--csv").stdout))
    assert row["t"] == 'a,"b"' and row["n"] == "" and row["d"] == "12", row
    shown = world.run("db", "sql", statement, "--db", db).stdout.splitlines()
    assert shown[0].split("\t") == ["t", "attempt", "median_ns", "n", "d", "b"] and shown[1].split("\t")[3] == "NULL", shown
    world.refused("db", "best", "--db", db, "--csv", "--json", says="not both")
    assert world.run("db", "best", "--db", db, "--task", "v2:none").stdout == "no records\n"


def test_why_shows_the_gain_of_the_summary(world):
    """Also where another default was measured after the final of the best."""
    model, db = world.zoo("gemm:48x48x48"), world.path("t.db")
    for seed in range(3):
        done = world.json("tune", model, "--trials", 5 + 4 * seed, "--seed", seed, "--db", db)[-1]
        [task], [why] = done["tasks"], world.json("explain", model, "--why", 0, "--db", db)
        assert why["best_ms"] == task["best_ms"] and why["default_ms"] == task["default_ms"], (why, task)
        text = world.run("explain", model, "--why", 0, "--db", db).stdout
        assert f"{task['default_ms'] / task['best_ms']:.2f}x of the default" in text, (text, task)


def test_gains_are_marked_until_the_final_and_then_equal_the_summary(world):
    lines = world.json("tune", world.zoo("gemm:64x64x64"), "--trials", 8, "--db", world.path("t.db"))
    done, states = lines[-1]["tasks"][0], [line["tasks"][0] for line in lines if line["event"] == "progress" and line["tasks"]]
    assert all(not state.get("gain_low") for state in states if state.get("done", 0) < 8), states
    last = states[-1]
    assert last["gain_low"] >= 1, last
    assert abs(last["best_ns"] / 1e6 - done["best_ms"]) < 1e-9 and abs(last["default_ns"] / 1e6 - done["default_ms"]) < 1e-9, (last, done)
    seen = world.terminal("tune", world.zoo("conv:C9"), "--trials", 16, "--tasks", "conv", "--db", world.path("u.db"), columns=120)
    seen.ends(0)
    frames = [frame for frame in seen.shown.split("\033[J") if re.search(r"\d x|\dx", frame)]
    assert not re.search(r"\dx\?", frames[-1].split("new trials")[0]), frames[-1]


def test_gains_are_judged_within_the_search(world):
    """A judged gain is told without a question mark while trials go on, and records of judgements are as good as any.
    Winograd is not the default of so small a convolution and halves its time: noise hides no such gain."""
    lines = world.json("tune", world.zoo("conv:16,28,28,16,3,3,1,1,1,1,1,1,1,1,1"), "--trials", 480, "--search", "random", "--db", world.path("t.db"))
    done, states = lines[-1]["tasks"][0], [line["tasks"][0] for line in lines if line["event"] == "progress" and line["tasks"]]
    judged = [state for state in states if 0 < state.get("done", 0) < states[-1]["done"] and state.get("gain_low")]
    assert judged and all(state["gain_low"] > 1 for state in judged), states
    assert all(state["best_ns"] <= state["default_ns"] for state in judged), judged
    assert states[-1]["gain_low"] > 1 and abs(states[-1]["best_ns"] / 1e6 - done["best_ms"]) < 1e-9, (states[-1], done)
    finals = world.sql("t.db", "SELECT stored_wall_ns, count(*), sum(searcher = 'default'), min(signer != '') FROM record WHERE final = 1 GROUP BY 1")
    assert all(stands[1] >= "2" and stands[2:] == ["1", "1"] for stands in finals), finals
    [[held, spent]] = world.sql("t.db", "SELECT sum(iif(final = 1 AND searcher = 'default', board_ns, 0)), sum(iif(final = 0, board_ns, 0)) FROM record")
    assert float(held) < 0.2 * float(spent), (held, spent)  # judgements and the final


def test_without_root_dev_names_every_package_and_the_update_before(world):
    tools = world.folder / "bin"
    tools.mkdir()
    for name in ("bash", "env", "dirname", "sed", "sort", "comm", "paste", "cat"):
        (tools / name).symlink_to(shutil.which(name))
    for name, text in (("id", "echo 1000"), ("dpkg-query", "echo libuv1-dev installed")):
        (tools / name).write_text(f"#!{shutil.which('bash')}\n{text}\n")
        (tools / name).chmod(0o755)
    dev = pathlib.Path(os.environ["KILN_BOARDS"]) / "dev"
    done = subprocess.run([shutil.which("bash"), dev, "build"], env={"PATH": str(tools)}, cwd=world.folder, capture_output=True, text=True)
    [line] = done.stderr.splitlines()
    assert done.returncode == 15 and "as root run: apt-get update && apt-get install --no-install-recommends " in line, done
    words = line.split()
    assert {"build-essential", "libxgboost-dev", "postgresql", "qemu-user"} <= set(words) and "libuv1-dev" not in words, line


def test_skipped_tests_are_reported_with_their_reason_and_fail_without(world):
    log = world.folder / "log.json"
    tests = [{"name": "kiln:e2e / a", "result": "OK", "stdout": "1..2\nok 1 - first\nok 2 - second # SKIP no phone here\n"},
             {"name": "kiln:e2e / b", "result": "SKIP", "stdout": "", "stderr": "qemu is missing\n"},
             {"name": "kiln:e2e / c", "result": "SKIP", "stdout": ""},
             {"name": "d", "result": "OK", "stdout": "1..2\n# no driver: install one\nnot ok 1 # SKIP on_it\nok 2 - other\n# ok - d\n"}]
    log.write_text("".join(json.dumps(test) + "\n" for test in tests))
    report = pathlib.Path(os.environ["KILN_BOARDS"]) / "tests/check/report.py"
    done = subprocess.run([sys.executable, report, f"test={log}"], capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert done.returncode == 1 and lines[-1] == "2 passed, 1 failed, 3 skipped", lines
    assert lines[:-1] == ["", "c: skipped without a reason", "skipped: a second: no phone here", "skipped: b: qemu is missing",
                          "skipped: d on_it: no driver: install one"], lines


def test_leftovers_of_killed_commands_are_removed_by_the_next(world):
    temporary = world.folder / "tmp"
    world.env["KILN_TRACKER"] = world.tracker()[1]
    child = world.start("kiln", "tune", world.zoo("conv:C3"), "--trials", 100000, "--db", world.path("t.db"))
    harness.until(lambda: len(list(temporary.iterdir())) == 2, "the command's folders")
    world.kill(child)
    harness.until(lambda: not harness.processes_with(str(temporary)), "the end of what it started")
    assert len(list(temporary.iterdir())) == 2
    world.run("fleet", "list")
    assert not list(temporary.iterdir())


def test_a_lost_tracker_is_reported_with_a_countdown(world):
    tracker, address = world.tracker()
    world.kill(tracker)
    done = kiln(world, "fleet", "list", "--tracker", address)
    first, *_, last = done.stderr.splitlines()
    assert re.match(rf"trying for (9|10) s more to reach the tracker at {address}: .*no tracker listens there", first), done.stderr
    assert last.startswith(f"kiln fleet: the tracker at {address}"), done.stderr
    seen = world.terminal("fleet", "list", "--tracker", address)
    seen.until(lambda shown: "trying for 8 s more" in shown, "the count")
    assert "\n" not in seen.shown.split("trying for 8 s")[0]
    seen.type(b"\x03")
    while seen.read():
        pass


def test_programs_of_a_first_fleet_may_start_in_any_order(world):
    """The token is not there before the first tracker."""
    tracker, address = world.tracker(home="elsewhere")  # has a port that is free when it is gone
    world.kill(tracker)
    tuner = world.tuner(address, wait=False)
    harness.until(lambda: "no tracker of this user has run here" in tuner.log.read_text(), "its word of it")
    world.tracker(address=address)
    harness.connected(tuner)


def test_figures_of_a_job_stay_when_its_tracker_is_lost(world):
    tracker, address, _, _ = world.fleet()
    model, db = world.zoo("gemm:96x96x96"), world.path("client.db")
    child = world.start("kiln", "tune", model, "--trials", 100000, "--tracker", address, "--db", db)
    harness.until(lambda: re.search(r"[1-9]\d* of \d+ trials", child.log.read_text()), "progress")
    world.kill(tracker)
    harness.until(lambda: "trying for" in child.log.read_text(), "the first word of it")
    assert child.wait(timeout=harness.DEADLINE_S) == 21
    said = child.log.read_text()
    table = said.split("trying for")[1]
    assert re.search(r"# task .*\n +0 matmul 96x96 over 96 ", table) and " of 100000 trials" in table, said
    assert re.search(r"to go on when it is back: kiln tune .* --job [0-9a-f]{32}\n", said), said


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
