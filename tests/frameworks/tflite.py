"""Models of TensorFlow as TFLite files, and what LiteRT computes of them. Runs in the environment that tests/frameworks/tflite.txt
lists, for tests/e2e/test_frameworks.py.

    tflite.py make FOLDER        FOLDER/NAME.tflite, and ports.json: per model the files of its inputs and of what is expected, by port
    tflite.py compare FOLDER     FOLDER/NAME/OUTPUT.npy with what was expected; prints a line per model that differs
"""
import json
import os
import pathlib
import sys

os.environ.update(CUDA_VISIBLE_DEVICES="", TF_CPP_MIN_LOG_LEVEL="3")
import numpy as np

import tflite_states
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


def data_for(tensor, rng):
    data = rng.standard_normal(tensor["shape"]).astype("f")
    if tensor["dtype"] is np.float32:
        return data
    scale, zero = tensor["quantization"]
    return np.clip(np.round(data / scale) + zero, -128, 127).astype("i1")


def run(folder, place, model, rng, states=()):
    """What LiteRT makes of random inputs and states: files by the names of ports. States are outputs as NAME.next, too."""
    from ai_edge_litert.interpreter import Interpreter

    (folder / f"{place}.tflite").write_bytes(model)
    lite = Interpreter(str(folder / f"{place}.tflite"))
    lite.allocate_tensors()
    state = [t for t in lite.get_tensor_details() if t["name"] in states]
    before, after = lite.get_input_details() + state, {o["name"]: o["index"] for o in lite.get_output_details()}
    after |= {f"{t['name']}.next": t["index"] for t in state}
    ports = {"inputs": {t["name"]: f"{place}.input{k}.npy" for k, t in enumerate(before)},
             "outputs": {name: f"{place}.expected{k}.npy" for k, name in enumerate(after)}}
    for t in before:
        data = data_for(t, rng)
        lite.set_tensor(t["index"], data)
        np.save(folder / ports["inputs"][t["name"]], data)
    lite.invoke()
    for name, index in after.items():
        np.save(folder / ports["outputs"][name], lite.get_tensor(index))
    return ports


def recurrent(keras):
    """Loops over steps. Without a fixed batch the converter makes resources of the weights."""
    layers = keras.layers
    i = layers.Input(batch_shape=(1, 12, 6))
    x = layers.LSTM(8, return_sequences=True, go_backwards=True)(i)
    return keras.Model(i, layers.Dense(3)(layers.Concatenate()([layers.LSTM(5)(x), layers.GRU(7)(x)])))


def loops(tf):
    """Functions with control flow."""
    x, c = tf.TensorSpec((3, 4), tf.float32), tf.TensorSpec((1, 4), tf.float32)

    def counted(x):
        step = lambda i, a, b: (i + 1, b, tf.tanh(a + b))  # noqa: E731
        return tf.while_loop(lambda i, a, b: i < 5, step, (tf.constant(0), x, x * 2))[1:]

    def until(x):
        return tf.while_loop(lambda a: tf.reduce_sum(a) < 100.0, lambda a: (a * a + 1.1,), (x,))

    def branch(c, x):
        return tf.cond(tf.reduce_sum(c) > 0, lambda: x * 2, lambda: tf.nn.relu(x))

    made = {"counted": (counted, (x,)), "until": (until, (x,)), "branch": (branch, (c, x))}
    return {name: tf.lite.TFLiteConverter.from_concrete_functions([tf.function(f).get_concrete_function(*specs)]).convert()
            for name, (f, specs) in made.items()}


def make(folder):
    import tensorflow as tf

    ports, kinds = {}, {"images": ("f16", "weights8"), "anomalies": ("f16", "weights8")}
    for name, model in {**networks(tf.keras), "recurrent": recurrent(tf.keras)}.items():
        rng = np.random.default_rng(len(name))
        set_weights(model, rng)
        for kind in ("f32", *(() if name == "recurrent" else ("int8",)), *kinds.get(name, ())):
            ports[f"{name}.{kind}"] = run(folder, f"{name}.{kind}", convert(tf, model, kind, rng), rng)
    rng = np.random.default_rng(1)
    for name, model in loops(tf).items():
        ports[f"{name}.f32"] = run(folder, f"{name}.f32", model, rng)
    for name, model in tflite_states.models(rng).items():
        ports[f"{name}.f32"] = run(folder, f"{name}.f32", model, rng, tflite_states.STATES)
    (folder / "ports.json").write_text(json.dumps(ports))


def compare(folder):
    ports = json.loads((folder / "ports.json").read_text())
    for place, name, file in [(place, *output) for place, port in ports.items() for output in port["outputs"].items()]:
        want, got = np.load(folder / file), np.load(folder / place / f"{name}.npy")
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
