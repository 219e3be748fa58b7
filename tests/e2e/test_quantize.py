#!/usr/bin/env python3
"""`kiln quantize`: quantised models that are as accurate as those in floats, and one clear error for each bad input."""
import math
import pathlib
import random
import struct
import subprocess
import sys

import harness
import onnx_file
from onnx_file import node, port, tensor

DIGITS = pathlib.Path(__file__).resolve().parents[2] / "examples/digits"


def floats(name, dims, data):
    return tensor(name, onnx_file.FLOAT, dims, data)


def small(world, opset=17, nodes=None, name="m.onnx", ports=("x", "y")):
    """A 1x1 convolution of two channels and a rectifier."""
    path = pathlib.Path(world.path(name))
    path.write_bytes(onnx_file.model(nodes or [node("Conv", "x w b", "c"), node("Relu", "c", "y")],
                                     [port(ports[0], [1, 2, 2, 2])], [port(ports[1], [1, 2, 2, 2])],
                                     [floats("w", [2, 2, 1, 1], [1, -2, 0.5, 3]), floats("b", [2], [0.5, -1])], opset=opset))
    return path


def npy(world, shape, values, name="x.npy"):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {tuple(shape)}, }}".ljust(117) + "\n"
    file = pathlib.Path(world.path(name))
    file.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + struct.pack(f"<{len(values)}f", *values))
    return file


def test_digits_as_typed(world):
    q, module = world.path("q.onnx"), world.path("q.kiln")
    said = world.json("quantize", DIGITS / "digits.onnx", "--data", DIGITS, "-o", q)
    layers, output, done = [s for s in said if s["event"] == "layer"], said[-2], said[-1]
    assert [s["op"] for s in layers] == ["Conv", "Conv", "Conv", "Add", "Gemm"], layers
    assert all(s["sqnr_db"] > 25 and 0 <= s.get("clipped", 0) < 1e-3 and s["low"] <= s["high"] for s in layers), layers
    assert output["event"] == "output" and output["cosine"] > 0.999, output
    assert done["event"] == "quantized" and done["samples"] == 359 and done["synthetic"] is False, done
    assert done["reference_accuracy"] > 0.98 and done["accuracy"] >= done["reference_accuracy"] - 0.005, done
    assert done["bytes"] == pathlib.Path(q).stat().st_size < (DIGITS / "digits.onnx").stat().st_size / 3, done
    world.json("tune", q, "--trials", 8, "--db", world.path("t.db"), "--out", module)
    world.run("run", module, "--input", f"image={DIGITS}/images.npy", "--output", world.path("out"))
    accuracy = subprocess.run([sys.executable, DIGITS / "accuracy.py", DIGITS / "labels.npy", world.path("out/probability.npy")],
                              check=True, capture_output=True, text=True).stdout
    assert abs(float(accuracy) - done["accuracy"]) < 1e-4, (accuracy, done)


def test_report_for_people(world):
    text = world.run("quantize", DIGITS / "digits.onnx", "--data", DIGITS, "--per-channel", "-o", world.path("q.onnx")).stdout
    assert text.startswith("layer ") and "\nconv1 " in text, text
    assert " % in bytes, 98.33 % in floats\n" in text and "calibrated on 359 samples in" in text, text


def test_every_method_and_shift(world):
    for options in (["--method", "minmax"], ["--method", "percentile", "--per-channel"], ["--method", "mse"], ["--shift"],
                    ["--shift", "--per-channel"], ["--activations", "i8"]):
        done = world.json("quantize", DIGITS / "digits.onnx", "--data", DIGITS, *options, "-o", world.path("q.onnx"))[-1]
        assert done["accuracy"] >= done["reference_accuracy"] - 0.005, (options, done)
    scales = [s["scale"] for s in world.json("quantize", DIGITS / "digits.onnx", "--data", DIGITS, "--shift", "-o", world.path("q.onnx"))
              if s["event"] == "layer" and "scale" in s]
    assert scales and all(s == 2.0 ** round(math.log2(s)) for s in scales), scales


def test_shifts_as_typed(world):
    """Powers of two cost less than half a point; between the ends there are integers alone, and modules compute what the interpreter does."""
    q, module = world.path("q.onnx"), world.path("q.kiln")
    said = world.json("quantize", DIGITS / "digits.onnx", "--data", DIGITS, "--shift", "-o", q)
    assert said[-1]["accuracy"] >= said[-1]["reference_accuracy"] - 0.005, said[-1]
    graph = world.run("explain", q).stdout
    assert graph.count('direction="RIGHT"') == 3 and graph.count("quantize_linear") == 1, graph
    world.run("compile", q, "--db", "none", "-o", module)
    world.run("run", module, "--input", f"image={DIGITS}/images.npy", "--output", world.path("out"))
    found = subprocess.run([sys.executable, DIGITS / "accuracy.py", DIGITS / "labels.npy", world.path("out/probability.npy")],
                           check=True, capture_output=True, text=True).stdout
    assert abs(float(found) - said[-1]["accuracy"]) < 1e-4, (found, said[-1])


def test_operators_of_the_zoo_on_bytes(world):
    model = world.path("c.onnx")
    world.run("zoo", "conv:16,14,14,16,3,3,1,1,1,1,1,1,1,1,1", "--int8", "-o", model)
    assert pathlib.Path(model).read_bytes() == pathlib.Path(world.zoo("conv:16,14,14,16,3,3,1,1,1,1,1,1,1,1,1_int8")).read_bytes()
    world.run("compile", model, "--db", "none", "-o", world.path("c.kiln"))
    world.run("run", world.path("c.kiln"))
    world.refused("zoo", "softmax:4x4", "--int8", "-o", model, says="nothing to quantise")


RUN_PEER = """import sys, numpy, onnxruntime as ort
model, x, y = sys.argv[1:]
numpy.save(y, ort.InferenceSession(model, providers=["CPUExecutionProvider"]).run(["y"], {"x": numpy.load(x)})[0])"""


def test_onnx_runtime_gives_the_same_bytes(world):
    """Where `./dev bench NAME --peers` has installed it."""
    peer = harness.PROGRAMS / "peers/bin/python"
    if not peer.exists():
        raise harness.Skip("build/peers has no ONNX Runtime")
    for name, shape in (("conv:C11", (1, 256, 14, 14)), ("conv:D9", (1, 1024, 7, 7)), ("gemm:64x64x512", (64, 512))):
        model, module, x = world.zoo(name + "_int8"), world.path("p.kiln"), world.path("x.npy")
        data = bytes(random.Random(1).randrange(256) for _ in range(math.prod(shape)))
        header = f"{{'descr': '|i1', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
        pathlib.Path(x).write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + data)
        world.run("compile", model, "--db", "none", "-o", module)
        world.run("run", module, "--input", f"x={x}", "--output", world.path("out"))
        subprocess.run([peer, "-c", RUN_PEER, model, x, world.path("y.npy")], check=True)
        ours, theirs = (pathlib.Path(world.path(f)).read_bytes() for f in ("out/y.npy", "y.npy"))
        assert ours[-100:] != bytes(100) and ours[128:] == theirs[128:], name


def test_without_data_it_is_calibrated_on_random_ones(world):
    said = world.json("quantize", small(world), "--shift", "-o", world.path("q.onnx"))[-1]
    assert said["synthetic"] is True and said["samples"] == 4, said


def test_networks_of_the_zoo_keep_their_direction(world):
    for name in ("resnet18", "mobilenet_v2"):
        said = world.json("quantize", world.zoo(name), "--synthetic", 2, "--per-channel", "-o", world.path("q.onnx"))
        assert said[-2]["cosine"] >= 0.99, said[-2]
        assert said[-1]["synthetic"] is True and "accuracy" not in said[-1], said[-1]


def test_few_bits_as_typed(world):
    """Four bits cost nothing, two little, one weighs; the file gets smaller. The first and the last layer keep 8 bits."""
    least = {(4, 4): 0.97, (2, 2): 0.93, (1, 2): 0.80}
    for (weights, activations), accuracy in least.items():
        q = world.path("few.onnx")
        said = world.json("quantize", DIGITS / "digits.onnx", "--data", DIGITS, "--weight-bits", weights, "--activation-bits", activations, "-o", q)
        layers = [(s.get("weight_bits"), s["activation_bits"]) for s in said if s["event"] == "layer"]
        assert layers == [(8, 8), (weights, activations), (weights, activations), (None, 8), (8, 8)], layers
        assert said[-1]["accuracy"] >= accuracy, said[-1]
        assert said[-1]["bytes"] < (DIGITS / "digits.onnx").stat().st_size / 4, said[-1]
    module = world.path("few.kiln")
    world.run("compile", q, "--db", "none", "-o", module)
    world.run("run", module, "--input", f"image={DIGITS}/images.npy", "--output", world.path("out"))
    found = subprocess.run([sys.executable, DIGITS / "accuracy.py", DIGITS / "labels.npy", world.path("out/probability.npy")],
                           check=True, capture_output=True, text=True).stdout
    assert abs(float(found) - said[-1]["accuracy"]) < 1e-4, (found, said[-1])


def test_few_bits_of_the_zoo(world):
    for name, size in (("dqn_w1a2", 2.6e6), ("dqn_w4a4", 2.6e6)):
        model = world.zoo(name)
        assert pathlib.Path(model).stat().st_size < size, pathlib.Path(model).stat()
        world.run("compile", model, "--db", "none", "-o", world.path("z.kiln"))
        world.run("run", world.path("z.kiln"))
    assert pathlib.Path(world.zoo("conv:C6_w1a2")).stat().st_size < 128 * 128 * 9 / 4 + 10000
    for name in ("dqn_w3a2", "none_w1a2", "dqn_w1", "dqn_a2w1"):
        world.refused("zoo", name, "-o", world.path("m.onnx"), says="NAME_wWaA")
    world.refused("zoo", "conv:C0_w1a2", "-o", world.path("m.onnx"), says="no such convolution")


def test_same_data_same_file(world):
    model = small(world)
    for name in ("a.onnx", "b.onnx"):
        world.run("quantize", model, "--synthetic", 3, "-o", world.path(name))
    assert pathlib.Path(world.path("a.onnx")).read_bytes() == pathlib.Path(world.path("b.onnx")).read_bytes()


def test_weights_beside_the_model_come_into_the_file(world):
    path, out = pathlib.Path(world.path("sub/m.onnx")), pathlib.Path(world.path("q.onnx"))
    path.parent.mkdir()
    (path.parent / "w.bin").write_bytes(struct.pack("<4f", 1, -2, 0.5, 3))
    weights = tensor("w", onnx_file.FLOAT, [2, 2, 1, 1], external={"location": "w.bin"})
    path.write_bytes(onnx_file.model([node("Conv", "x w", "y")], [port("x", [1, 2, 2, 2])], [port("y", [1, 2, 2, 2])], [weights]))
    world.run("quantize", path, "--synthetic", 1, "-o", out)
    assert b"w.bin" not in out.read_bytes()
    world.run("compile", out, "-o", world.path("q.kiln"))


def test_open_dimensions_stay_open(world):
    path, out = pathlib.Path(world.path("open.onnx")), world.path("q.onnx")
    path.write_bytes(onnx_file.model([node("MatMul", "x w", "y")], [port("x", ["n", 2])], [port("y", ["n", 2])], [floats("w", [2, 2], [1, -2, 0.5, 3])]))
    world.refused("quantize", path, "--synthetic", 2, "-o", out, says="give it a size: --dim n=N")
    world.run("quantize", path, "--synthetic", 2, "--dim", "n=3", "-o", out)
    world.refused("compile", out, "-o", world.path("q.kiln"), says="--dim n=N")
    world.run("compile", out, "--dim", "n=5", "-o", world.path("q.kiln"))


def test_bad_calls_end_with_one_error(world):
    model, out = small(world), world.path("q.onnx")
    data = npy(world, (2, 2, 2, 2), [float(i) for i in range(16)])
    world.refused("quantize", model, "--synthetic", 1, says="-o OUT.onnx is missing")
    world.refused("quantize", model, "--synthetic", 1, "--data", ".", "-o", out, says="more than one kind of data")
    world.refused("quantize", model, "--synthetic", 1, "--method", "entropy", "-o", out, says="minmax, percentile, mse")
    world.refused("quantize", model, "--synthetic", 1, "--activations", "i4", "-o", out, says="there are u8 and i8")
    world.refused("quantize", model, "--synthetic", 1, "--shift", "--activations", "u8", "-o", out, says="leave out --activations")
    for bits in ("0", "3", "16"):
        world.refused("quantize", model, "--synthetic", 1, "--weight-bits", bits, "-o", out, says=f"--weight-bits {bits}: there are 1, 2, 4 and 8")
    world.refused("quantize", model, "--synthetic", 1, "--activation-bits", 5, "-o", out, says="--activation-bits 5")
    world.refused("quantize", model, "--synthetic", 1, "--activation-bits", 2, "--shift", "-o", out, says="leave out --activation-bits")
    world.refused("quantize", model, "--synthetic", 1, "-o", "/proc/kiln/q.onnx", says="/proc/kiln/q.onnx")
    world.refused("quantize", model, "--data", world.path("none"), "-o", out, says="no such folder")
    pathlib.Path(world.path("empty")).mkdir()
    world.refused("quantize", model, "--data", world.path("empty"), "-o", out, says="it has no data")
    world.refused("quantize", model, "--input", f"z={data}", "-o", out, says="no data for input x")
    world.refused("quantize", model, "--input", f"x={npy(world, (1, 3, 2, 2), [0.0] * 12, 'w.npy')}", "-o", out,
                  says="f32[1,3,2,2], the module wants f32[1,2,2,2]")
    world.refused("quantize", model, "--input", f"x={npy(world, (1, 2, 2, 2), [0.0] * 7 + [float('nan')], 'n.npy')}", "-o", out,
                  says="an element that is no number")
    world.refused("quantize", model, "--input", f"x={npy(world, (1, 2, 2, 2), [3e38] * 8, 'h.npy')}", "-o", out,
                  says="infinite element")
    world.refused("quantize", model, "--input", f"x={data}", "--labels", data, "-o", out, says="labels are a vector of integers")
    assert not pathlib.Path(out).exists()
    world.run("quantize", model, "--input", f"x={data}", "-o", out)
    world.refused("quantize", out, "--synthetic", 1, "-o", world.path("qq.onnx"), says="quantised already")


def test_bad_models_end_with_one_error(world):
    out = world.path("q.onnx")
    for opset in (7, 9, 11):
        world.run("quantize", small(world, opset=opset, name="old.onnx"), "--synthetic", 1, "--per-channel", "-o", out)
    world.refused("quantize", small(world, opset=6), "--synthetic", 1, "-o", out, says="operator set is 6")
    world.refused("quantize", small(world, nodes=[node("Relu", "x", "y")]), "--synthetic", 1, "-o", out, says="nothing to quantise")
    world.refused("quantize", small(world, nodes=[node("Unheard", "x", "c"), node("Conv", "c w", "y")]), "--synthetic", 1, "-o", out,
                  says="Unheard")
    whole = (DIGITS / "digits.onnx").read_bytes()
    for cut in (0, 1, 100, len(whole) // 2, len(whole) - 1):
        pathlib.Path(world.path("cut.onnx")).write_bytes(whole[:cut])
        world.refused("quantize", world.path("cut.onnx"), "--synthetic", 1, "-o", out, says="cut.onnx")


def test_models_whose_nodes_contradict_themselves_are_refused(world):
    """Cycles, names twice, a normalisation of other channels, weights that lack data."""
    nodes = {
        "cycle": [node("Conv", "r w", "c"), node("Relu", "c", "r"), node("Identity", "r", "y")],
        "twice": [node("Conv", "x w", "c"), node("Conv", "x w", "c"), node("Relu", "c", "y")],
        "norm": [node("Conv", "x w", "c"), node("BatchNormalization", "c b b b w", "y")],
        "self": [node("Relu", "y", "y"), node("Conv", "x w", "z")],
        "nothing": [node("Conv", "x", "y")],
    }
    for name, list_of in nodes.items():
        done = world.run("quantize", small(world, nodes=list_of), "--synthetic", 1, "-o", world.path("q.onnx"), ok=False)
        assert done.returncode > 0 and "m.onnx" in done.stderr, (name, done)


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
