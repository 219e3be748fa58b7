#!/usr/bin/env python3
"""Boards with a compiler build candidates from traces, and their objects equal the tuner's byte by byte."""
import os
import pathlib
import re
import signal
import sys

import harness
from harness import until

TRIALS = 28
FINALISTS = 6  # that stand in a final, the default included: KILN_TUNER_FINALISTS and one
BUILDING = os.environ["KILN_BUILDING_SERVER"]


def needs_a_core_for_builders():
    if len(os.sched_getaffinity(0)) < 2:
        raise harness.Skip("builders stay off the core that is timed on, and there is no other")


def objects(world, board, builders, name, seed):
    """A fleet of its own searches at random, so that it tries what any other tries: {hash of a trace: (how its build
    ended, digest of its object, what is known of it)}, and the labels of its board."""
    tracker, address = world.tracker()
    server = world.board(address, key=name, state=name, name=board)
    tuner = harness.connected(world.start("kiln-tuner", "--tracker", address, "--db", world.path(f"{name}.db"), "--builders", builders,
                                          "--state", world.path(f"{name}-tuner")))
    world.run("tune", world.zoo("conv:32,14,14,32,3,3,1,1,1,1,1,1,1,1,1"), "--search", "random", "--seed", seed, "--trials", TRIALS,
              "--tracker", address, "--db", world.path(f"{name}-client.db"))
    shown = world.run("fleet", "show", name, "--tracker", address).stdout
    for child in (tuner, server, tracker):
        world.kill(child)
    rows = world.sql(f"{name}.db", "SELECT trace_hash, iif(artefact_digest = '', outcome, 'built'), artefact_digest, codegen_version, "
                     "layout_in, layout_out, algorithm FROM record WHERE final = 0")
    assert len(rows) == TRIALS, rows
    # What a busy machine did not let them finish says nothing.
    ended = {row[0]: tuple(row[1:]) for row in rows if row[1] in ("built", "build_error", "link_error")}
    return ended, dict(re.findall(r"^ +(\S+) = (.*)$", shown, re.MULTILINE))


def expect_same(one, other):
    """Objects are the same, and what cannot be built ends with the same name. Returns their digests."""
    both = [trace for trace in one if trace in other]
    assert not {trace for trace in both if one[trace] != other[trace]}, (one, other)
    return {one[trace][1] for trace in both if one[trace][0] == "built"}


def test_objects_that_servers_build_are_those_of_the_tuner(world):
    needs_a_core_for_builders()
    compared, seed = set(), 7
    while len(compared) < 20 and seed < 12:  # one round, where builders get their time
        here, labels = objects(world, "kiln-rpc-server", 1, f"here{seed}", seed)
        assert "builds" not in labels or os.environ["KILN_SERVER_BUILD"], labels
        there, labels = objects(world, BUILDING, 0, f"there{seed}", seed)
        built = expect_same(here, there)
        assert all(row[2] == labels["builds"] for row in here.values()), labels
        # The tuner built none of them but those that stood in a final: the others are on the board only.
        own = built & set(os.listdir(world.path(f"there{seed}-tuner/blobs")))
        assert len(own) <= FINALISTS, own
        assert built <= set(os.listdir(world.path(f"there{seed}/blobs")))
        compared, seed = compared | built, seed + 1
    assert len(compared) >= 20, f"{len(compared)} candidates were built in both places"
    shared, _ = objects(world, BUILDING, 1, "shared", seed - 1)  # whoever has time
    expect_same(here, shared)


def builders_of(server):
    """Its processes that compile."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and b"--worker" in (entry / "cmdline").read_bytes():
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                found += [int(entry.name)] if parent == server.pid else []
        except OSError:  # it ended
            continue
    return found


def test_a_builder_that_is_killed_costs_one_candidate_at_most(world):
    needs_a_core_for_builders()
    _, address = world.tracker()
    server = world.board(address, name=BUILDING)
    harness.connected(world.start("kiln-tuner", "--tracker", address, "--db", world.path("tuner.db"), "--builders", 0))
    job = world.tune(world.zoo("conv:C6"), address, TRIALS)
    os.kill(until(lambda: builders_of(server), "a builder")[0], signal.SIGKILL)
    world.ends(job)
    [[count, died]] = world.sql("tuner.db", "SELECT count(*), sum(detail LIKE '%worker died%') FROM record WHERE final = 0")
    assert count == str(TRIALS) and int(died) <= 1, (count, died)


def test_a_tuner_without_builders_reports_that_no_board_builds(world):
    if os.environ["KILN_SERVER_BUILD"]:
        raise harness.Skip("this kiln-rpc-server was built with -Dserver_build=enabled")
    _, address = world.tracker()
    world.board(address)
    harness.connected(world.start("kiln-tuner", "--tracker", address, "--db", world.path("tuner.db"), "--builders", 0))
    job = world.tune(world.zoo("conv:C6"), address, 4)
    until(lambda: "waiting for a board that builds" in job.log.read_text(), "the explanation")
    assert job.poll() is None


def test_only_a_server_that_was_asked_for_it_has_a_compiler(world):
    plain, building = (open(harness.program(name), "rb").read() for name in ("kiln-rpc-server", BUILDING))
    assert b"libLLVM" in building, "the server that builds is not linked with LLVM"
    world.refused("--tracker", "unix:nowhere", "--builders", "x", name=BUILDING, says="builders")
    if os.environ["KILN_SERVER_BUILD"]:
        raise harness.Skip("this kiln-rpc-server was built with -Dserver_build=enabled")
    assert b"LLVM" not in plain and b"kiln_build" not in plain, "a server for boards has a compiler in it"
    world.refused("--tracker", "unix:nowhere", "--builders", 1, name="kiln-rpc-server", says="-Dserver_build=enabled")


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
