#!/usr/bin/env python3
"""A server for 64-bit ARM that loads a driver: Debian's PoCL for that machine, under emulation. `./dev test boards_drivers` makes what
it needs; other runs skip it by name."""
import array
import os
import pathlib
import shutil
import subprocess
import sys

import harness
from harness import until

ROOT = pathlib.Path(os.environ["KILN_BOARDS"])
POCL = ROOT / "build-sysroot/aarch64-pocl"
LINKER, LIBRARIES = "/usr/bin/aarch64-linux-gnu-ld.bfd", "/usr/lib/gcc-cross/aarch64-linux-gnu/12"


def emulated(world, path, *words):
    """The command that runs a program of build-aarch64-drivers. An emulator redirects what a program opens, but neither what it starts
    (PoCL's linker) nor what it asks access(2) of (PoCL's library of built-in functions): these are mounted where it looks, for this
    command alone."""
    program, qemu = ROOT / "build-aarch64-drivers" / path, shutil.which("qemu-aarch64")
    for needed, name in ((program, "./dev cross aarch64"), (POCL, "./dev test boards_drivers"), (qemu and pathlib.Path(qemu), "qemu-user"),
                         (pathlib.Path(LINKER), "gcc-aarch64-linux-gnu"), (pathlib.Path("/usr/share/pocl"), "pocl-opencl-icd")):
        if not needed or not needed.exists():
            raise harness.Skip(name)
    if os.getuid() or subprocess.run(["unshare", "-m", "mount", "--bind", "/usr/share/pocl", "/usr/share/pocl"], capture_output=True).returncode:
        raise harness.Skip("the right to mount")
    linker = world.folder / "ld"
    linker.write_text(f'#!/bin/sh\nexec {LINKER} -L{LIBRARIES} -L/usr/aarch64-linux-gnu/lib "$@"\n')
    linker.chmod(0o755)
    world.env |= {"QEMU_LD_PREFIX": str(POCL), "OCL_ICD_VENDORS": str(POCL / "etc/OpenCL/vendors")}
    mounts = f'mount --bind {linker} "$(readlink -f /usr/bin/ld)" && mount --bind {POCL}/usr/share/pocl /usr/share/pocl && exec "$@"'
    return shutil.which("unshare"), "-m", "sh", "-c", mounts, "sh", qemu, program, *words


def test_the_doctor_finds_the_driver(world):
    unshare, *words = emulated(world, "rpc-server/kiln-rpc-server", "--executor", "opencl", "--doctor")
    done = world.run(*words, name=unshare, ok=False)
    [device] = [line for line in done.stdout.splitlines() if line[5:].startswith("device")]
    assert device.startswith("ok") and "aarch64" in device and ",emulated" in device, done.stdout


def test_a_product_is_tuned_and_run_on_the_device_of_an_arm_board(world):
    _, address = world.tracker()
    world.tuner(address)
    harness.connected(world.start(*emulated(world, "rpc-server/kiln-rpc-server", "--tracker", address, "--executor", "opencl", "--key", "phone",
                                            "--state", world.path("phone"))))
    [row] = until(lambda: world.json("fleet", "list", "--tracker", address), "the board in the fleet")
    model, there, here = world.zoo("gemm:32x32x32"), world.path("there.kiln"), world.path("here.kiln")
    *_, done = world.json("tune", model, "--target", row["target"], "--trials", 2, "--tracker", address, "--db", world.path("t.db"), "--out", there)
    assert done["verified"] == 2, done
    world.run("compile", model, "--db", "none", "-o", here)
    world.run("run", "--on", "phone", "--tracker", address, there, "--output", world.path("there"))
    world.run("run", here, "--output", world.path("here"))
    its, mine = (array.array("f", next(pathlib.Path(world.path(folder)).iterdir()).read_bytes()[128:]) for folder in ("there", "here"))
    assert len(its) == len(mine) == 32 * 32 and max(abs(a - b) for a, b in zip(its, mine)) < 1e-4


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules["__main__"]))
