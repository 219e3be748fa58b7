#!/usr/bin/env python3
"""kiln admin: backups of a fleet that works, what is refused of damaged ones, and that a restored home answers the same."""
import io
import json
import os
import pathlib
import random
import shutil
import signal
import sqlite3
import stat
import sys
import tarfile

import harness
from harness import until


def questions(world):
    """What a home's records say, word for word."""
    return {name: world.run("db", *name.split(), "--json").stdout for name in ("best", "top", "history", "stats", "export")}


def jobs(world, address):
    """What depends neither on the time of asking nor on the connected tuners."""
    rows = world.json("jobs", "list", "--tracker", address)
    return [{name: value for name, value in row.items() if name not in ("age_ms", "tuner_name")} for row in rows]


def backup(world, name="backup"):
    [made] = world.json("admin", "backup", world.path(name))
    return pathlib.Path(world.path(name)), made


def home_of(world, name):
    """From here on commands work in that home."""
    world.home = world.folder / name
    world.env["KILN_HOME"] = str(world.home)


def small_home(world):
    """Records, keys and a tracker's database without a fleet."""
    world.run("key", "new", "client/ann", "-o", world.path("ann.key"))
    tracker, address = world.tracker()
    world.run("zoo", "conv:C3", "-o", world.path("m.onnx"))
    world.run("tune", world.path("m.onnx"), "--trials", 1, "--tracker", address, "--detach")
    until(lambda: world.json("jobs", "list", "--tracker", address), "the job")
    job = world.json("jobs", "list", "--tracker", address)[0]["job"]
    world.run("jobs", "cancel", job, "--tracker", address)
    tracker.send_signal(signal.SIGTERM)
    world.ends(tracker)


def test_a_fleet_that_works_is_backed_up_and_a_restored_home_answers_the_same(world):
    world.run("key", "new", "client/ann", "-o", world.path("ann.key"))
    tracker, address = world.tracker()
    db = str(pathlib.Path(world.home) / "kiln.db")
    board = world.board(address, state="board")
    tuner = world.tuner(address, db=db)
    done = world.json("tune", world.zoo("conv:C3"), "--trials", 4, "--tracker", address, "--db", world.path("client.db"))[-1]
    assert done["measured"] == 4, done
    # One that goes on while the backup is made: the backup has what was committed at some moment of it.
    running = world.tune(world.zoo("gemm:256x256x256"), address, 200, db="second.db")
    until(lambda: any(row["state"] == "running" and row.get("done", 0) > 1 for row in jobs(world, address)), "trials of the second job")
    folder, made = backup(world)
    assert running.poll() is None, "the job ended before the backup was made"
    assert made["files"] == len(json.loads((folder / "manifest.json").read_text())["files"]) > 6
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700 and not (world.folder / "backup.partial").exists()
    assert "exists already" in world.run("admin", "backup", folder, ok=False).stderr
    for name, table in (("records.db", "record"), ("tracker.db", "tracker_job")):
        copy = sqlite3.connect(folder / name)
        assert copy.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert copy.execute(f"SELECT count(*) FROM {table}").fetchone()[0] >= 2
        copy.close()
    # Everything at rest: a second backup, whose answers are compared.
    running.send_signal(signal.SIGINT)
    running.wait()
    world.refused("admin", "restore", folder, "--replace", says="stop it before")
    tuner.send_signal(signal.SIGTERM)
    world.ends(tuner)
    before, listed = questions(world), jobs(world, address)
    old = world.json("key", "list")
    folder, _ = backup(world, "second")
    for program in board, tracker:
        program.send_signal(signal.SIGTERM)
        world.ends(program)
    blobs = sorted(os.listdir(world.home / "tracker" / "blobs"))
    assert blobs and {row["state"] for row in listed} <= {"done", "cancelled"}, listed

    home_of(world, "new")
    [restored] = world.json("admin", "restore", folder)
    assert restored["files"] > 6
    for name in ("keys", "signing.key"):
        assert stat.S_IMODE(os.stat(world.home / name).st_mode) == 0o600, name
    assert [{**row, "file": ""} for row in world.json("key", "list")] == [{**row, "file": ""} for row in old]
    assert questions(world) == before
    assert sorted(os.listdir(world.home / "tracker" / "blobs")) == blobs
    _, address = world.tracker()
    assert jobs(world, address) == listed
    # The restored fleet works, with boards that have seen leases of the old one.
    world.board(address, state="board")
    world.tuner(address, db=str(world.home / "kiln.db"))
    done = world.json("tune", world.zoo("conv:C3"), "--trials", 6, "--tracker", address, "--db", world.path("client.db"))[-1]
    assert done["measured"] >= 1, done


def test_data_are_replaced_only_if_told_and_only_of_programs_that_do_not_run(world):
    small_home(world)
    folder, _ = backup(world)
    world.refused("admin", "restore", folder, says="exists already: name another place with $KILN_HOME, or replace it with --replace")
    db = sqlite3.connect(world.home / "tracker" / "tracker.db")
    lease = lambda: db.execute("SELECT epoch FROM tracker_epoch").fetchall()
    db.execute("DELETE FROM tracker_job")
    db.commit()
    db.close()
    tracker, _ = world.tracker()
    world.refused("admin", "restore", folder, "--replace", says="stop it before its data are replaced")
    tracker.send_signal(signal.SIGTERM)
    world.ends(tracker)
    world.run("admin", "restore", folder, "--replace")
    db = sqlite3.connect(world.home / "tracker" / "tracker.db")
    assert db.execute("SELECT count(*) FROM tracker_job").fetchone() == (1,)
    assert lease()[0][0] >= 1 << 40
    db.close()
    assert not [name for name in os.listdir(world.home / "tracker") if "restored" in name]


def test_parts_are_left_out_and_an_empty_home_has_nothing(world):
    small_home(world)
    world.refused("admin", "backup", world.path("x"), "--without", "logs", says="the parts are tracker, records, blobs and keys")
    world.run("admin", "backup", world.path("keys-only"), "--without", "tracker,records,blobs")
    assert sorted(os.listdir(world.path("keys-only"))) == ["keys", "manifest.json"]
    folder, _ = backup(world)
    home_of(world, "empty")
    world.refused("admin", "backup", world.path("nothing"), says="there is nothing to back up")
    assert not os.path.exists(world.path("nothing")) and not os.path.exists(world.path("nothing.partial"))
    world.run("admin", "restore", folder, "--without", "keys,blobs")
    assert not (world.home / "keys").exists() and (world.home / "tracker" / "tracker.db").exists()
    world.refused("admin", "restore", world.path("keys-only"), "--without", "keys", says="has none of these parts")
    # A server's database: refused before anything is dialled, with what to do.
    built = world.run("db", "stats", "--db", "postgres://127.0.0.1:1/kiln", ok=False).stderr
    world.refused("admin", "backup", world.path("pg"), "--db", "postgres://ann:secret@127.0.0.1:1/kiln",
                  says="files only" if "files only" in built else "postgres://127.0.0.1:1/kiln is on a server, which copies it")
    world.refused("admin", "restore", folder, "--replace", "--db", "postgres://127.0.0.1:1/kiln", says="pg_restore")


def test_one_file_is_an_archive_that_tar_reads(world):
    small_home(world)
    folder, made = backup(world)
    file = pathlib.Path(world.path("backup.tar"))
    [packed] = world.json("admin", "backup", file)
    assert packed["files"] == made["files"] and stat.S_IMODE(os.stat(file).st_mode) == 0o600
    assert not [name for name in os.listdir(world.folder) if name.startswith("backup.tar.")]
    world.refused("admin", "backup", file, says="exists already")
    with tarfile.open(file) as archive:
        names = [member.name for member in archive]
        assert names[-1] == "manifest.json" and set(names[:-1]) == {row["name"] for row in json.loads((folder / "manifest.json").read_text())["files"]}
        assert archive.extractfile("keys").read() == (folder / "keys").read_bytes()
    [verified] = world.json("admin", "verify", file)
    assert verified["files"] == made["files"]
    home_of(world, "new")
    world.run("admin", "restore", file)
    assert stat.S_IMODE(os.stat(world.home / "keys").st_mode) == 0o600 and (world.home / "keys").read_bytes() == (folder / "keys").read_bytes()
    db = sqlite3.connect(world.home / "tracker" / "tracker.db")
    assert db.execute("SELECT count(*) FROM tracker_job").fetchone() == (1,)
    db.close()
    # One that tar packed from a folder is taken, too.
    home_of(world, "third")
    with tarfile.open(world.path("own.tar"), "w", format=tarfile.USTAR_FORMAT) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.add(path, arcname=str(path.relative_to(folder)))
    world.run("admin", "restore", world.path("own.tar"))


def test_hostile_archives_are_refused(world):
    small_home(world)
    file = pathlib.Path(world.path("backup.tar"))
    world.run("admin", "backup", file)
    good = file.read_bytes()
    home_of(world, "new")
    bad = pathlib.Path(world.path("bad.tar"))

    def refused(content, says):
        bad.write_bytes(content)
        world.refused("admin", "restore", bad, says=says)
        assert not [name for name in os.listdir(world.folder) if name.startswith("bad.tar.")]
        assert not (world.home / "tracker" / "tracker.db").exists()

    def with_member(name, kind=tarfile.REGTYPE, link=""):
        whole = io.BytesIO()
        with tarfile.open(fileobj=whole, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, link
            archive.addfile(member)
        return whole.getvalue()

    for name in "../keys", "/etc/passwd", "blobs/../../keys", "records.db/x", "other":
        refused(with_member(name), says="has something that is no file of a backup")
    for kind in tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE:
        refused(with_member("keys", kind, "/etc/passwd"), says="has something that is no file of a backup")
    refused(with_member("manifest.json"), says="manifest.json: line 1")
    refused(with_member("keys"), says="is no backup, or one that was not finished")
    refused(b"", says="")
    refused(b"no archive" * 100, says="is no archive, or damaged")
    refused(good[:len(good) // 2], says="ends ")
    flipped = bytearray(good)
    flipped[20] ^= 1  # of the first header
    refused(bytes(flipped), says="is no archive, or damaged")
    flipped = bytearray(good)
    flipped[512] ^= 1  # of the first content
    refused(bytes(flipped), says="is damaged: 1 of its")
    header = bytearray(good[:512])
    header[124:136] = b"\x80" + b"\xff" * 11  # a size beyond all disks
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    refused(bytes(header) + good[512:], says="ends within the file")
    chance = random.Random(1)
    for _ in range(60):  # any one byte: an error of one line, or the manifest's checksums still hold
        flipped = bytearray(good)
        flipped[chance.randrange(len(good))] ^= 1 << chance.randrange(8)
        bad.write_bytes(flipped)
        done = world.run("admin", "verify", bad, ok=False)
        assert done.returncode >= 0 and (done.returncode == 0 or done.stderr.startswith("kiln admin: ")), done.stderr


def test_damaged_backups_are_refused_with_what_is_wrong(world):
    small_home(world)
    folder, made = backup(world)
    world.run("admin", "verify", folder)
    home_of(world, "new")
    manifest = json.loads((folder / "manifest.json").read_text())
    blob = next(row["name"] for row in manifest["files"] if row["name"].startswith("blobs/"))

    def refused(change, says):
        bad = pathlib.Path(world.path("bad"))
        shutil.rmtree(bad, ignore_errors=True)
        shutil.copytree(folder, bad)
        change(bad)
        for action in ("verify", "restore"):
            world.refused("admin", action, bad, says=says)
        assert not (world.home / "tracker" / "tracker.db").exists()

    def rewrite(**changes):
        return lambda bad: (bad / "manifest.json").write_text(json.dumps({**manifest, **changes}))

    def row(**changes):
        return rewrite(files=[{**manifest["files"][0], **changes}, *manifest["files"][1:]])

    def flip(bad):
        data = bytearray((bad / "tracker.db").read_bytes())
        data[len(data) // 2] ^= 1
        (bad / "tracker.db").write_bytes(data)

    def link(bad):
        (bad / "tracker.db").unlink()
        (bad / "tracker.db").symlink_to(folder / "tracker.db")

    refused(flip, says=f"1 of its {made['files']} files; the content of tracker.db is not what was written")
    refused(lambda bad: (bad / "keys").write_text(""), says="keys has 0 bytes instead of")
    refused(lambda bad: (bad / blob).unlink(), says=blob)
    refused(link, says="goes through a link")
    refused(lambda bad: (bad / "manifest.json").unlink(), says="is no backup, or one that was not finished")
    refused(lambda bad: (bad / "manifest.json").write_text('{"format"'), says="manifest.json: line 1")
    refused(lambda bad: (bad / "manifest.json").write_text("{}"), says="it is no manifest of a backup")
    refused(rewrite(format=2), says="a newer Kiln made it")
    refused(rewrite(schema={"tracker.db": 9999}), says="tracker.db has schema 9999 and this program knows up to")
    refused(rewrite(files={}), says="it lists no files")
    refused(row(name="../../keys"), says='"../../keys" is no file of a backup')
    refused(row(name="/etc/passwd"), says='"/etc/passwd" is no file of a backup')
    refused(row(name="blobs/../keys"), says="is no file of a backup")
    for change in ({"size": -1}, {"size": "9"}, {"mode": 0o4755}, {"xxh3": "0"}, {"name": 7}):
        refused(row(**change), says="a file's row is damaged")


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
