"""Calibration figures of a processor are shown, stored, sent to trackers, and used by commands and tuners alike."""
import pathlib
import struct
import sys

import harness

LATENCY = 4  # the number of this figure in base/figures.def


def measured(world):
    """The file that `kiln doctor --calibrate` leaves, and its figures."""
    world.env.pop("KILN_CALIBRATION", None)
    if world.env.get("KILN_NATIVE"):
        raise harness.Skip("a machine that is its own level")
    lines = world.json("doctor", "--calibrate")
    return (world.home / "calibration").read_bytes(), {line["what"]: line for line in lines if line["event"] == "figure"}


def with_latency(world, value):
    """A calibration with this latency of multiply-adds. Measures again where a busy machine had to leave it out."""
    content = harness.until(lambda: [c for c in [measured(world)[0]] if bytes([LATENCY, 0xCB]) in c], "a latency measured")[0]
    at = content.index(bytes([LATENCY, 0xCB]))
    return content[:at + 2] + struct.pack(">d", value) + content[at + 10:]


def plant(world, state, content):
    folder = pathlib.Path(world.path(state))
    folder.mkdir()
    (folder / "calibration").write_bytes(content)


def latency(world, address, key):
    """What the tracker keeps of that board's target."""
    shown = world.run("fleet", "show", key, "--tracker", address).stdout
    found = [line.split() for line in shown.splitlines() if "multiply-add latency" in line]
    return float(found[0][3]) if found else None


def test_doctor_shows_figures_beside_the_tables(world):
    content, figures = measured(world)
    assert content and len(content) < 4096
    for what in ("clock", "multiply-adds", "loads", "first cache", "multiply-add peak", "memory's bandwidth"):
        assert set(figures[what]) >= {"event", "what", "unit", "measured", "table"}, figures[what]
    clock = figures["clock"]  # left out where the machine disturbs the measurement
    assert clock["table"] is None and (clock["measured"] > 5e7 if clock["measured"] else clock["why"].startswith("left out")), clock
    assert figures["multiply-adds"]["table"] > 0, figures["multiply-adds"]
    left_out = [line for line in figures.values() if line["measured"] is None and line["table"]]
    assert all("why" in line for line in left_out if line["unit"] != "bytes/s"), left_out
    world.env["KILN_NATIVE"] = "x86-64"
    world.refused("doctor", "--calibrate", says="KILN_NATIVE")


def test_the_figures_of_the_first_board_count_until_a_new_calibration(world):
    plant(world, "one", with_latency(world, 33))
    plant(world, "two", with_latency(world, 34))
    tracker, address = world.tracker()
    world.board(address, key="first", state="one")
    second = world.board(address, key="second", state="two")
    assert latency(world, address, "first") == 33 and latency(world, address, "second") == 33
    world.kill(tracker)
    world.kill(second)
    tracker, address = world.tracker()  # its disk has them
    world.board(address, key="second", state="two")
    assert latency(world, address, "second") == 33
    world.board(address, "--calibrate", "again", key="third", state="three")
    assert latency(world, address, "second") not in (33, 34)
    assert (pathlib.Path(world.path("three")) / "calibration").exists()


def test_a_job_is_compiled_by_the_fleets_figures(world):
    plant(world, "one", with_latency(world, 33))
    _, address = world.tracker()
    world.board(address, state="one")
    world.tuner(address)
    done = world.json("tune", world.zoo("gemm:64x64x64"), "--trials", 4, "--tracker", address, "--db", world.path("c.db"))[-1]
    assert done["measured"] == 4, done


def test_a_private_fleet_measures_once(world):
    world.env.pop("KILN_CALIBRATION", None)
    if world.env.get("KILN_NATIVE"):
        raise harness.Skip("a machine that is its own level")
    kept = world.home / "calibration"
    model, db = world.zoo("gemm:64x64x64"), world.path("t.db")
    world.run("tune", model, "--trials", 1, "--db", db)
    before = kept.stat().st_mtime_ns
    world.run("tune", model, "--trials", 2, "--db", db)
    assert kept.stat().st_mtime_ns == before
    kept.unlink()
    world.run("tune", model, "--trials", 3, "--db", db, "--target", "x86-64")  # a name: the table's
    assert not kept.exists()


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
