#!/usr/bin/env python3
"""Mistakes of users with GPUs: each gives one error that says what and where, an exit code, and no file left behind."""
import pathlib
import sys

import harness
from harness import until
from test_gpu_run import FAKE_CUDA, checks, opencl

NODES = pathlib.Path("/usr/share/libonnx-testdata/data/node")
MIB = 1 << 20


def compiled(world, target, model=None):
    """A module for the target."""
    module = world.path(f"{len(list(world.folder.glob('*.kiln')))}.kiln")
    world.run("compile", model or world.zoo("gemm:64x64x64"), "--target", target, "-o", module)
    return module


def files(world):
    """But for those of the user and of the driver's compiler."""
    others = {world.home, world.folder / "driver"}
    return sorted(path for path in world.folder.rglob("*") if not others & {path, *path.parents})


def refused(world, *argv, says, **env):
    """Every text of `says` is in the one line of the error."""
    world.env |= {name: str(value) for name, value in env.items()}
    before = files(world)
    done = world.run(*argv, ok=False)
    for name in env:
        del world.env[name]
    assert 0 < done.returncode < 124, (argv, done.returncode, done.stderr)
    [error] = [line for line in done.stderr.splitlines() if line.startswith("kiln ")]
    missing = [text for text in says if text not in error]
    assert not missing, f"{argv}: {missing} is not in {error!r}"
    assert files(world) == before, "something was left"


def test_targets_that_no_device_has(world):
    model, out = world.zoo("gemm:64x64x64"), world.path("out.kiln")
    for target, says in (("cuda:sm_10", "'sm_10' is not a CUDA architecture; known: sm_80"), ("cuda:sm_90,threads=2", "unknown part 'threads=2'"),
                         ("cuda:sm_90,mcpu=abacus", "abacus"), ("opencl,group=2048", "group=2048 is not a number from 1 to 1024"),
                         ("opencl,shared=2097152", "shared=2097152 is not a number from 1 to 1048576")):
        for command in (("compile", model, "--target", target, "-o", out), ("tune", model, "--target", target, "--trials", 2),
                        ("explain", model, "--target", target, "--stage", "space")):
            refused(world, *command, says=(f"target '{target}'", says))


def test_an_unsuitable_driver_is_an_error(world):
    """Each row: what the driver's environment is, and what the error says."""
    cuda, cl = compiled(world, "cuda:sm_90"), compiled(world, "opencl")
    refused(world, "run", cuda, KILN_CUDA_LIBRARY="libno-such-library.so.1", says=("there is no driver", "install NVIDIA's driver"))
    refused(world, "run", cl, KILN_OPENCL_LIBRARY="libno-such-library.so.1", says=("install ocl-icd-libopencl1",))
    refused(world, "tune", world.zoo("gemm:32x32x32"), "--target", "cuda:sm_90", "--trials", 1, KILN_CUDA_LIBRARY="libno-such-library.so.1",
            says=("libno-such-library.so.1 is not installed; install NVIDIA's driver",))
    for env, says in (({"VERSION": 9000}, ("CUDA 9.0", "11.0")), ({"DEVICES": 0}, ("no device of it", "/dev/nvidia")),
                      ({"FAIL": "cuInit:1:803"}, ("starting the driver", "803")),
                      ({"FAIL": "cuDevicePrimaryCtxRetain:1:2"}, ("opening the device", "2"))):
        refused(world, "run", cuda, KILN_CUDA_LIBRARY=FAKE_CUDA, **{f"KILN_CUDA_FAKE_{name}": value for name, value in env.items()}, says=says)


def test_code_that_the_device_cannot_run(world):
    """The limit is named, with what the code wants and what the device has."""
    newer = compiled(world, "cuda:sm_90")
    fake = {"KILN_CUDA_LIBRARY": FAKE_CUDA}
    refused(world, "run", newer, **fake, KILN_CUDA_FAKE_MAJOR=8, says=("none runs the code", "sm_80, not sm_90"))
    refused(world, "run", newer, **fake, KILN_CUDA_FAKE_THREADS=8, says=("groups of 1024 threads; the device runs 8",))
    refused(world, "run", newer, **fake, KILN_CUDA_FAKE_SHARED=64, says=("bytes shared by a group; the device has 64",))
    refused(world, "run", newer, **fake, KILN_CUDA_FAKE_FAIL="cuModuleLoadDataEx:1:218", says=("payload 0", "does not compile"))
    refused(world, "run", newer, **fake, KILN_CUDA_FAKE_FAIL="cuLaunchKernel:1:700", says=("a kernel failed", "the device is lost"))


def test_types_that_the_device_lacks(world):
    double = NODES / "test_max_float64/model.onnx"
    if not double.exists():
        raise harness.Skip("no cases of ONNX: install libonnx-testdata")
    refused(world, "compile", double, "--target", "opencl,features=-f64", "-o", world.path("none.kiln"), says=("the device lacks f64", "max"))
    opencl(world)
    case = NODES / "test_max_float16"
    half = compiled(world, "opencl,features=+f16", case / "model.onnx")
    if world.run("run", half, ok=False).returncode != 0:  # PoCL lacks it, others have it
        refused(world, "run", half, says=("the device lacks f16",))
    done = world.run("verify", "--target", "opencl", case)  # computed in f32 and rounded
    assert "1 passed, 0 failed" in done.stdout, done.stdout


def test_memory_that_the_device_does_not_have(world):
    """What was asked for, what is free, and how much there is."""
    module = compiled(world, "cuda:sm_90", world.zoo("gemm:1024x1024x1024"))
    refused(world, "run", module, KILN_CUDA_LIBRARY=FAKE_CUDA, KILN_CUDA_FAKE_MEMORY_MIB=2, says=("bytes on a device with", f"left of {2 * MIB}"))


def test_two_devices_need_a_name(world):
    if "PoCL" not in checks(world)["opencl"][1]:
        raise harness.Skip("no driver that offers two devices: install pocl-opencl-icd")
    module = compiled(world, "opencl")
    says = ("2 devices run code for 'opencl'", "name one in the target", "pthread-", "basic-")
    refused(world, "run", module, POCL_DEVICES="pthread basic", says=says)
    refused(world, "tune", world.zoo("gemm:32x32x32"), "--target", "opencl", "--trials", 1, POCL_DEVICES="pthread basic", says=says)


def test_a_board_without_a_gpu_takes_no_module_for_one(world):
    _, address = world.tracker()
    world.board(address)
    until(lambda: any(row["state"] == "free" for row in world.json("fleet", "list", "--tracker", address)), "the board")
    refused(world, "run", compiled(world, "cuda:sm_90"), "--on", "board", "--tracker", address, says=("cuda",))


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
