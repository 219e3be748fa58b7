#!/usr/bin/env python3
"""Devices behind drivers: what the doctor says of them, and modules that run there."""
import glob
import os
import pathlib
import re
import shutil
import sys

import harness
from harness import until
from test_boards_tuned import DIGITS, floats

FAKE_CUDA = harness.PROGRAMS / "tests/support/libkiln_fake_cuda.so"  # a driver without a device
FAKE_NVML = harness.PROGRAMS / "tests/support/libkiln_fake_nvml.so"  # and what manages it


def checks(world, **env):
    world.env |= {name: str(value) for name, value in env.items()}
    found = {line["what"]: (line["ok"], line["found"]) for line in world.json("doctor") if line["event"] == "check"}
    for name in env:
        del world.env[name]
    return found


def finds_a_device(world, address, state):
    """Whether a server does, whose children may be of another user."""
    server = world.board(address, "--executor", "opencl", state=state, key=state, wait=False)
    until(lambda: "connected to the tracker" in server.log.read_text() or server.poll() is not None, "the server's devices")
    found = server.poll() is None
    assert found or "no driver" in server.log.read_text(), server.log.read_text()
    if found:
        world.kill(server)
    return found


def test_the_doctor_finds_the_drivers_that_children_of_a_server_find(world):
    library = sorted(glob.glob("/usr/lib/*/libpocl.so.*"))
    if not library:
        raise harness.Skip("no driver of OpenCL with a known place: install pocl-opencl-icd")
    _, address = world.tracker()
    vendors = pathlib.Path(world.path("vendors"))
    vendors.mkdir()
    (vendors / "pocl.icd").write_text(library[0] + "\n")
    for mode in (0o755, 0o700):  # closed to children that are another user, unless they see a copy of their own
        vendors.chmod(mode)
        _, found = checks(world, OCL_ICD_VENDORS=vendors)["opencl"]
        world.env["OCL_ICD_VENDORS"] = str(vendors)
        assert finds_a_device(world, address, f"board{mode}") == ("PoCL" in found), found
        del world.env["OCL_ICD_VENDORS"]
        assert (found.startswith("0: ") and "PoCL" in found) or "no driver" in found, found


def test_the_doctor_lists_devices_and_says_what_is_missing(world):
    found = checks(world, KILN_CUDA_LIBRARY=FAKE_CUDA, KILN_CUDA_FAKE_DEVICES=2, KILN_OPENCL_LIBRARY="libno-such-library.so.1",
                   KILN_NVML_LIBRARY="libno-such-library.so.1")
    assert found["opencl"][0] and "install ocl-icd-libopencl1" in found["opencl"][1], found["opencl"]
    for text in ("0: NVIDIA H200 (CUDA 12.4, 140.4 GiB) as cuda:sm_90a,mcpu=h200 (its state is not known: ", "; 1: NVIDIA H200"):
        assert text in found["cuda"][1], found["cuda"]
    found = checks(world, KILN_CUDA_LIBRARY=FAKE_CUDA, KILN_NVML_LIBRARY=FAKE_NVML)
    for text in ("CUDA 12.4, driver 550.54.15", "(GPU-5a5a5a5a-", "1830 of 1980 MHz", "41 degrees"):
        assert text in found["cuda"][1], found["cuda"]
    found = checks(world, KILN_CUDA_LIBRARY=FAKE_CUDA, KILN_CUDA_FAKE_DEVICES=0)
    assert "no device of it" in found["cuda"][1] and "/dev/nvidia" in found["cuda"][1], found["cuda"]
    found = checks(world, KILN_CUDA_LIBRARY=FAKE_CUDA, KILN_CUDA_FAKE_FAIL="cuInit:1:803")
    assert "starting the driver" in found["cuda"][1] and "803" in found["cuda"][1], found["cuda"]


def test_a_board_shows_the_state_of_its_device(world):
    _, address = world.tracker()
    world.env |= {"KILN_CUDA_LIBRARY": str(FAKE_CUDA), "KILN_NVML_LIBRARY": str(FAKE_NVML)}
    server = world.start("kiln-rpc-server", "--tracker", address, "--executor", "cuda", "--key", "gpu", "--state", world.path("gpu"))
    harness.connected(server)
    shown = world.run("fleet", "show", "gpu", "--tracker", address).stdout
    for text in ("device     NVIDIA H200", "driver     CUDA 12.4, driver 550.54.15", "state      GPU-5a5a5a5a-"):
        assert text in shown, shown


def opencl(world):
    """The first OpenCL device's target; the test is skipped where there is none."""
    found = re.match(r"0: .* as (opencl:[^ ;]*)", checks(world)["opencl"][1])
    if not found:
        raise harness.Skip("no OpenCL device: install pocl-opencl-icd")
    return found[1]


def outputs(world, module, place, *options):
    world.run("run", module, "--output", world.path(place), *options)
    [file] = pathlib.Path(world.path(place)).iterdir()
    return floats(file)


def test_a_module_gives_the_same_results_on_a_device_and_the_processor(world):
    opencl(world)
    on_device, here = world.path("device.kiln"), world.path("here.kiln")
    world.run("compile", DIGITS, "--target", "opencl", "-o", on_device)
    world.run("compile", DIGITS, "-o", here)
    got, wanted = outputs(world, on_device, "got"), outputs(world, here, "wanted")
    assert len(got) == len(wanted) and max(abs(a - b) for a, b in zip(got, wanted)) < 1e-5, (got, wanted)
    [bench] = world.json("run", on_device, "--bench")
    kernels = sum(kernel["median_ms"] for kernel in bench["kernels"])
    assert kernels > 0.1 * bench["median_ms"], bench  # steps are timed to their end, not to their entry into the queue
    assert bench["peak_gflops"] == 0, bench  # a core's says nothing of a device


def test_a_module_runs_on_a_board_that_is_a_device(world):
    opencl(world)
    _, address = world.tracker()
    world.board(address, "--executor", "opencl", key="pocl", state="pocl")
    until(lambda: any(row["state"] == "free" for row in world.json("fleet", "list", "--tracker", address)), "the board")
    module = world.path("device.kiln")
    world.run("compile", DIGITS, "--target", "opencl", "-o", module)
    there = outputs(world, module, "there", "--on", "pocl", "--tracker", address)
    assert there == outputs(world, module, "here")


def test_a_module_for_a_device_that_is_not_here_is_refused(world):
    target = opencl(world)
    module, none = world.path("device.kiln"), world.path("none.kiln")
    world.run("compile", DIGITS, "--target", "opencl:no-such-device", "-o", none)
    world.refused("run", none, says="the device is")
    world.run("compile", DIGITS, "--target", "opencl", "-o", module)
    world.env["KILN_OPENCL_LIBRARY"] = "libno-such-library.so.1"
    world.refused("run", module, says="install ocl-icd-libopencl1")
    del world.env["KILN_OPENCL_LIBRARY"]
    world.refused("verify", "--target", f"{target},no-such-part", DIGITS.parent, says="no-such-part")


def test_a_module_runs_under_oclgrind(world):
    if not shutil.which("oclgrind") or os.environ.get("KILN_SANITIZED"):
        raise harness.Skip("no oclgrind, or a sanitizer whose runtime has to be the first library")
    module, findings = world.path("small.kiln"), world.path("findings")
    world.run("compile", world.zoo("gemm:16x16x16"), "--target", "opencl,group=64,shared=32768", "-o", module)
    argv = "--data-races", "--check-api", "--log", findings, harness.PROGRAMS / "deploy/run/kiln-run", module
    done = world.run(*argv, "--output", world.path("there"), name=shutil.which("oclgrind"))
    assert "y: f32[16,16]" in done.stdout, done
    assert pathlib.Path(findings).read_text() == ""
    assert len(floats(next(pathlib.Path(world.path("there")).iterdir()))) == 256


def test_cases_of_onnx_pass_on_a_device(world):
    opencl(world)
    cases = [f"/usr/share/libonnx-testdata/data/node/test_{name}" for name in
             ("relu", "add", "matmul_2d", "softmax_axis_0", "conv_with_strides_padding", "maxpool_2d_default", "reduce_sum_keepdims_example")]
    done = world.run("verify", "--target", "opencl", *[case for case in cases if pathlib.Path(case).exists()])
    assert "0 failed" in done.stdout and " 0 passed" not in done.stdout, done.stdout


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
