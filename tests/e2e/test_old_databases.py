#!/usr/bin/env python3
"""Databases of every earlier schema, made by the migrations themselves and filled with the rows of a real fleet, are
opened by today's programs, which keep the data."""
import os
import pathlib
import signal
import sqlite3
import sys

import harness
from harness import until

SCHEMA = pathlib.Path(__file__).resolve().parents[2] / "db/schema/sqlite"
APPLICATION = {"records": 0x4B4C4E52, "tracker": 0x4B4C4E54}


def scripts(kind):
    return [path.read_text() for path in sorted((SCHEMA / kind).glob("*.sql"))]


def tables(db):
    return [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")]


def columns(db, table):
    return [row[1] for row in db.execute(f'PRAGMA table_info("{table}")')]


def make_old(path, kind, level, source):
    """A database of that schema with what the source has, as far as tables and columns existed then."""
    db, new = sqlite3.connect(path), sqlite3.connect(source)
    db.executescript("PRAGMA journal_mode = WAL;")
    for script in scripts(kind)[:level]:
        db.executescript(f"BEGIN; {script}; COMMIT;")
    db.executescript(f"PRAGMA application_id = {APPLICATION[kind]}; PRAGMA user_version = {level};")
    for table in tables(db):
        if table not in tables(new) or table.startswith("record_stat"):
            continue  # counts are kept by triggers
        shared = [name for name in columns(db, table) if name in columns(new, table)]
        names = ", ".join(f'"{name}"' for name in shared)
        rows = new.execute(f'SELECT {names} FROM "{table}" ORDER BY rowid').fetchall()
        db.executemany(f'INSERT INTO "{table}" ({names}) VALUES ({", ".join("?" * len(shared))})', rows)
    db.commit()
    db.close()
    new.close()


def stop(world, *programs):
    for program in programs:
        program.send_signal(signal.SIGTERM)
        world.ends(program)


def rows_of(path, table, names):
    db = sqlite3.connect(path)
    got = db.execute(f'SELECT {", ".join(names)} FROM {table} ORDER BY rowid').fetchall()
    db.close()
    return got


def fleet_with_data(world):
    """Paths of a tracker's and a tuner's database, after a job."""
    tracker, address = world.tracker()
    board = world.board(address)
    tuner = world.tuner(address)
    done = world.json("tune", world.zoo("gemm:64x64x64"), "--trials", 4, "--tracker", address, "--db", world.path("client.db"))[-1]
    assert done["measured"] == 4, done
    world.run("project", "new", "vision", "--tracker", address)
    world.run("project", "add", "vision", "ann", "--role", "viewer", "--tracker", address)
    stop(world, tuner, board, tracker)
    return str(pathlib.Path(world.home) / "tracker" / "tracker.db"), world.path("tuner.db")


def version(path):
    db = sqlite3.connect(path)
    number = db.execute("PRAGMA user_version").fetchone()[0]
    db.close()
    return number


def test_records_of_every_earlier_schema_are_kept_by_a_tuner(world):
    _, source = fleet_with_data(world)
    newest = len(scripts("records"))
    said = ("trial_id", "job_id", "task_key", "target", "trace", "samples_ns", "outcome", "median_ns", "checked")
    expected = rows_of(source, "record", said)
    assert version(source) == newest and len(expected) >= 4
    _, address = world.tracker()
    for level in range(1, newest + 1):
        old = world.path(f"old-{level}.db")
        make_old(old, "records", level, source)
        if level < newest:
            world.refused("db", "stats", "--db", old, says=f"has schema {level}, older than this program's {newest}")
        tuner = world.tuner(address, "--state", world.path(f"state-{level}"), db=old)
        stop(world, tuner)
        assert version(old) == newest, level
        assert rows_of(old, "record", said) == expected, level
        [counts] = world.json("db", "stats", "--db", old)
        assert counts["records"] + sum(row[0] for row in rows_of(old, "record", ("final",))) == len(expected), (level, counts)
        best = world.json("db", "best", "--db", old)
        assert [row["task_key"] for row in best] == [counts["task"]], level
        check = sqlite3.connect(old)
        assert check.execute("PRAGMA integrity_check").fetchall() == [("ok",)] and not check.execute("PRAGMA foreign_key_check").fetchall()
        check.close()


def test_jobs_and_projects_of_every_earlier_schema_are_kept_by_a_tracker(world):
    source, _ = fleet_with_data(world)
    newest = len(scripts("tracker"))
    tracker, address = world.tracker()
    shown = lambda where: [(row["job"], row["state"], row["model_name"]) for row in world.json("jobs", "list", "--tracker", where)]
    jobs = shown(address)
    projects = [row["project"] for row in world.json("project", "list", "--tracker", address)]
    assert jobs and "vision" in projects
    stop(world, tracker)
    had_projects = False
    for level in range(1, newest + 1):
        old = world.path(f"old-{level}.db")
        make_old(old, "tracker", level, source)
        db = sqlite3.connect(old)
        has_projects = any("project" in table for table in tables(db))
        db.close()
        tracker, address = world.tracker("--db", old, "--state", world.path(f"state-{level}"))
        assert shown(address) == jobs, level
        if has_projects:
            assert [row["project"] for row in world.json("project", "list", "--tracker", address)] == projects, level
        had_projects |= has_projects
        stop(world, tracker)
        assert version(old) == newest, level
    assert had_projects


def test_programs_refuse_a_schema_of_the_future(world):
    tracker, _ = world.tracker()
    stop(world, tracker)
    path = pathlib.Path(world.home) / "tracker" / "tracker.db"
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 999")
    db.close()
    world.refused("--listen", "127.0.0.1:0", says="has schema 999 and this program knows up to", name="kiln-tracker")
    assert version(path) == 999 and os.path.getsize(path) > 0


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
