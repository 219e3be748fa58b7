#!/usr/bin/env python3
"""What ./dev cross builds, under emulation: one static file each, which registers with a native tracker and reports missing fences;
and the doctors' findings about boards."""
import array
import os
import pathlib
import shutil
import sys

import harness
from harness import until

BOARDS = pathlib.Path(os.environ["KILN_BOARDS"])  # the folder with build-ARCH
MB = 1 << 20


def board_program(arch, path):
    """A program of build-ARCH."""
    program = BOARDS / f"build-{arch}" / path
    if not program.exists():
        raise harness.Skip(f"{path} of ./dev cross {arch}")
    return program


def emulator(name):
    found = shutil.which(f"qemu-{name}") or shutil.which(f"qemu-{name}-static")
    if not found:
        raise harness.Skip(f"qemu-{name}")
    return found


def is_static(program):
    """No interpreter, no libraries: nothing of an ELF file's program headers asks for one."""
    data = program.read_bytes()
    wide = data[4] == 2
    at, size, count = (int.from_bytes(data[a:b], "little") for a, b in
                       (((32, 40), (54, 56), (56, 58)) if wide else ((28, 32), (42, 44), (44, 46))))
    kinds = {int.from_bytes(data[at + i * size:at + i * size + 4], "little") for i in range(count)}
    return not kinds & {2, 3}  # PT_DYNAMIC, PT_INTERP


def emulated_board(world, arch, qemu, key, address):
    """A board of that architecture, registered; what the tracker says of it, and the board's log."""
    program = board_program(arch, "rpc-server/kiln-rpc-server")
    board = harness.connected(world.start(emulator(qemu), program, "--tracker", address, "--key", key, "--state", world.path(key)))
    [row] = until(lambda: [r for r in world.json("fleet", "list", "--tracker", address) if r["key"] == key], "the board in the fleet")
    return row, board


def check_board(world, arch, qemu, key, target):
    _, address = world.tracker()
    row, board = emulated_board(world, arch, qemu, key, address.replace("127.0.0.1", "localhost"))
    assert row["target"].startswith(target), row
    assert row["device"].startswith("emulated"), row
    # What the emulator refuses is told, not assumed.
    contained = [line for line in board.log.read_text().splitlines() if "contained without" in line]
    assert len(contained) == 1, contained
    [row] = world.json("fleet", "show", row["node"], "--tracker", address)
    for fence in ("pids", "memory", "seccomp"):
        assert fence in row["missing"].split(",") and fence in contained[0], row
    board.terminate()
    world.ends(board)


def test_an_aarch64_board_registers_and_says_what_it_is(world):
    check_board(world, "aarch64", "aarch64", "rpi4", "cpu:aarch64-unknown-linux-gnu")


def test_an_armv7_board_registers_and_says_what_it_is(world):
    check_board(world, "armhf", "arm", "pynq", "cpu:armv7-unknown-linux-gnueabihf")


def test_programs_for_boards_are_static_and_small(world):
    # The C library of x86-64 has its mathematics four times over, for processors with and without AVX and FMA.
    limits = {"aarch64": (2, 6, 1), "armhf": (2, 6, 1), "x86_64-static": (2, 7, 1.5), "riscv64": (None, None, 1)}
    found = 0
    for arch, (plain, tls, runner) in limits.items():
        for folder, name, limit in ((f"build-{arch}", "rpc-server/kiln-rpc-server", plain), (f"build-{arch}", "deploy/run/kiln-run", runner),
                                    (f"build-{arch}-tls", "rpc-server/kiln-rpc-server", tls)):
            program = BOARDS / folder / name
            if limit and program.exists():
                found += 1
                assert is_static(program), f"{folder}/{name} wants libraries"
                assert program.stat().st_size <= limit * MB, f"{folder}/{name} has {program.stat().st_size} bytes"
    if not found:
        raise harness.Skip("a program of ./dev cross")


def test_an_idle_static_server_needs_little_memory(world):
    _, address = world.tracker()
    board = world.start(board_program("x86_64-static", "rpc-server/kiln-rpc-server"), "--tracker", address, "--key", "pc")
    harness.connected(board)
    status = pathlib.Path(f"/proc/{board.pid}/status").read_text()
    resident = int(status.split("VmRSS:")[1].split()[0])
    assert resident <= 8 * 1024, f"{resident} KiB"


def check_module_of_another_machine(world, arch, qemu):
    model, module = world.zoo("conv:C3"), world.path("c3.kiln")
    program = board_program(arch, "deploy/run/kiln-run")
    world.run("compile", model, "--target", "x86-64", "-o", module)
    done = world.run(program, module, name=emulator(qemu), ok=False)
    assert done.returncode != 0 and "does not run on this machine" in done.stderr, done.stderr


def test_a_module_of_another_machine_is_refused_with_the_reason(world):
    check_module_of_another_machine(world, "aarch64", "aarch64")


def test_a_module_runs_remotely_on_an_emulated_board(world):
    _, address = world.tracker()
    model, here, there = world.zoo("gemm:32x32x32"), world.path("here.kiln"), world.path("there.kiln")
    emulated_board(world, "aarch64", "aarch64", "rpi4", address)
    world.run("compile", model, "-o", here)
    world.run("compile", model, "--target", "rpi4", "-o", there)
    world.run("run", here, "--output", world.path("here"))
    world.run("run", "--on", "rpi4", "--tracker", address, there, "--output", world.path("there"))
    [mine], [its] = (list(pathlib.Path(world.path(folder)).iterdir()) for folder in ("here", "there"))
    a, b = (array.array("f", file.read_bytes()[128:]) for file in (mine, its))
    assert len(a) == len(b) == 32 * 32 and max(abs(x - y) for x, y in zip(a, b)) < 1e-4
    done = world.run("run", "--on", "rpi4", "--tracker", address, there, "--bench")
    assert "say nothing about a real one" in done.stderr and "of peak" not in done.stdout, (done.stderr, done.stdout)
    world.refused("run", "--on", "rpi4", "--tracker", address, here, says="not x86_64")


def test_the_doctor_on_the_board_says_what_is_wrong_with_it(world):
    _, address = world.tracker()
    said = world.run("doctor", "--tracker", address).stdout
    assert f"{address} lets this board in" in said and "BAD" not in said, said
    done = world.run("--doctor", "--tracker", "127.0.0.1:1", name="kiln-rpc-server", ok=False)
    assert done.returncode == 17 and "no tracker listens there" in done.stdout, done.stdout
    done = world.run("--doctor", "--tracker", address, "--key-file", world.path("none.key"), name="kiln-rpc-server", ok=False)
    assert done.returncode == 17 and "none.key" in done.stdout, done.stdout
    done = world.run("--doctor", "--tracker", address, "--state", "/proc/none", name="kiln-rpc-server", ok=False)
    assert done.returncode == 17 and "BAD  state" in done.stdout, done.stdout


def test_the_doctor_leaves_a_serving_board_alone(world):
    _, address = world.tracker()
    board = world.board(address)
    said = world.run("--doctor", "--tracker", address, name="kiln-rpc-server", ok=False).stdout
    assert "a server already runs here" in said, said
    assert board.poll() is None and board.log.read_text().count("connected to the tracker") == 1


def test_the_workstation_checks_a_board(world):
    _, address = world.tracker()
    board = world.board(address)
    [found] = world.json("fleet", "doctor", "board", "--tracker", address)
    assert found["event"] == "doctor" and "not connected" not in found["text"], found
    world.kill(board)
    until(lambda: "not connected" in world.run("fleet", "doctor", "board", "--tracker", address).stdout, "the loss being told")
    world.refused("fleet", "doctor", "nobody", "--tracker", address, says="there is no board nobody")


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules["__main__"]))
