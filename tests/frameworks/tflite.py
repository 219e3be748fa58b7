"""Models of TensorFlow as TFLite files, and what LiteRT computes of them. Runs in the environment that tests/frameworks/tflite.txt
lists, for tests/e2e/test_frameworks.py.

    tflite.py make FOLDER        FOLDER/NAME.tflite, NAME.input.npy, NAME.expected.npy; prints a JSON object of names per model
    tflite.py compare FOLDER     FOLDER/NAME/OUTPUT.npy with what was expected; prints a line per model that differs
"""
import json
import os
import pathlib
import sys

os.environ.update(CUDA_VISIBLE_DEVICES="", TF_CPP_MIN_LOG_LEVEL="3")
import numpy as np

from keras_networks import networks, set_weights

# Largest and mean error. f32: over the largest magnitude. int8: in steps of the result, where kernels of LiteRT approximate
# by integers what is rounded once here. Weights of bytes with activations in f32: LiteRT rounds activations to bytes, too.
BOUNDS = {"f32": (1e-4, 1e-5), "f16": (1e-4, 1e-5), "int8": (2, 0.25), "weights8": (0.05, 0.02)}


def convert(tf, model, kind, rng):
    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    shape = (1, *model.input_shape[1:])
    if kind != "f32":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if kind == "f16":
        converter.target_spec.supported_types = [tf.float16]
    if kind == "int8":
        converter.representative_dataset = lambda: ([rng.standard_normal(shape).astype("f")] for _ in range(16))
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        converter.inference_input_type = converter.inference_output_type = tf.int8
    return converter.convert()


def make(folder):
    import tensorflow as tf
    from ai_edge_litert.interpreter import Interpreter

    ports = {}
    for name, model in networks(tf.keras).items():
        rng = np.random.default_rng(len(name))
        set_weights(model, rng)
        for kind in ("f32", "int8") + (("f16", "weights8") if name in ("images", "anomalies") else ()):
            place = f"{name}.{kind}"
            (folder / f"{place}.tflite").write_bytes(convert(tf, model, kind, rng))
            lite = Interpreter(str(folder / f"{place}.tflite"))
            lite.allocate_tensors()
            i, o = lite.get_input_details()[0], lite.get_output_details()[0]
            data = rng.standard_normal(i["shape"]).astype("f")
            if kind == "int8":
                scale, zero = i["quantization"]
                data = np.clip(np.round(data / scale) + zero, -128, 127).astype("i1")
            lite.set_tensor(i["index"], data)
            lite.invoke()
            np.save(folder / f"{place}.input.npy", data)
            np.save(folder / f"{place}.expected.npy", lite.get_tensor(o["index"]))
            ports[place] = {"input": i["name"], "output": o["name"]}
    (folder / "ports.json").write_text(json.dumps(ports))


def compare(folder):
    for place, port in json.loads((folder / "ports.json").read_text()).items():
        want, got = np.load(folder / f"{place}.expected.npy"), np.load(folder / place / f"{port['output']}.npy")
        kind = place.split(".")[1]
        if want.dtype != got.dtype or want.shape != got.shape:
            print(f"{place}: {got.dtype}{got.shape} instead of {want.dtype}{want.shape}")
            continue
        error = np.abs(got.astype("d") - want.astype("d")) / (1 if kind == "int8" else np.abs(want).max())
        print(f"{place}: largest error {error.max():.3g}, mean {error.mean():.3g}", file=sys.stderr)
        if np.ptp(want.astype("d")) < (10 if kind == "int8" else 0.01 * np.abs(want).max()):
            print(f"{place}: every element is about {want.flat[0]}, which shows nothing")
        if not error.max() <= BOUNDS[kind][0] or not error.mean() <= BOUNDS[kind][1]:
            print(f"{place}: largest error {error.max():.3g}, mean {error.mean():.3g}; allowed are {BOUNDS[kind]}")


{"make": make, "compare": compare}[sys.argv[1]](pathlib.Path(sys.argv[2]))
