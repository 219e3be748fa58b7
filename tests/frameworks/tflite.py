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

# Largest and mean error. f32: over the largest magnitude. int8: in steps of the result, where kernels of LiteRT approximate
# by integers what is rounded once here. Weights of bytes with activations in f32: LiteRT rounds activations to bytes, too.
BOUNDS = {"f32": (1e-4, 1e-5), "f16": (1e-4, 1e-5), "int8": (2, 0.25), "weights8": (0.05, 0.02)}


def networks(keras):
    layers = keras.layers

    def conv(x, channels, size=1, **how):
        return layers.Conv2D(channels, size, **{"padding": "same", **how})(x)

    def separable(x, channels, stride=1):
        x = layers.DepthwiseConv2D(3, strides=stride, padding="same")(x)
        x = layers.ReLU(6.0)(layers.BatchNormalization()(x))
        return layers.ReLU(6.0)(conv(x, channels))

    def images():  # MLPerf Tiny: a small residual network
        i = layers.Input((32, 32, 3))
        x = layers.ReLU()(layers.BatchNormalization()(conv(i, 16, 3)))
        x = layers.ReLU()(layers.Add()([x, conv(conv(x, 16, 3, activation="relu"), 16, 3)]))
        y = conv(conv(x, 32, 3, strides=2, activation="relu"), 32, 3)
        x = layers.ReLU()(layers.Add()([conv(x, 32, strides=2), y]))
        return i, layers.Dense(10, activation="softmax")(layers.Flatten()(layers.AveragePooling2D(16)(x)))

    def keywords():  # MLPerf Tiny: separable convolutions over a spectrogram
        i = layers.Input((49, 10, 1))
        x = conv(i, 32, (10, 4), strides=(2, 2), activation="relu")
        for _ in range(2):
            x = conv(layers.DepthwiseConv2D(3, padding="same", activation="relu")(x), 32, activation="relu")
        return i, layers.Dense(12, activation="softmax")(layers.Flatten()(layers.AveragePooling2D((25, 5))(x)))

    def anomalies():  # MLPerf Tiny: an autoencoder
        x = i = layers.Input((640,))
        for width in (64, 64, 8, 64):
            x = layers.Dense(width, activation="relu")(x)
        return i, layers.Dense(640)(x)

    def persons():  # MLPerf Tiny: MobileNet v1 with a quarter of its channels
        i = layers.Input((48, 48, 1))
        x = layers.ReLU(6.0)(conv(layers.ZeroPadding2D(((0, 1), (0, 1)))(i), 8, 3, strides=2, padding="valid"))
        for channels, stride in ((16, 1), (32, 2), (32, 1), (64, 2)):
            x = separable(x, channels, stride)
        x = layers.Reshape((2,))(conv(layers.GlobalAveragePooling2D(keepdims=True)(x), 2))
        return i, layers.Softmax()(x)

    def inverted():  # a block of MobileNet v2
        i = layers.Input((16, 16, 8))
        x = layers.Add()([i, conv(separable(layers.ReLU(6.0)(conv(i, 24)), 24), 8)])
        return i, layers.Dense(5)(layers.GlobalAveragePooling2D()(x))

    def squeezed():  # a block of MobileNet v3
        i = layers.Input((12, 12, 4))
        x = layers.Activation("hard_silu")(conv(i, 8, 3))
        x = layers.Multiply()([x, conv(layers.GlobalAveragePooling2D(keepdims=True)(x), 8, activation="sigmoid")])
        return i, layers.MaxPooling2D(3, strides=2, padding="same")(x)

    def upward():  # what segmentation has
        i = layers.Input((16, 16, 3))
        a = conv(i, 8, 3, activation="relu")
        b = conv(layers.MaxPooling2D()(a), 8, 3, activation="relu")
        up = [layers.UpSampling2D(interpolation=how)(b) for how in ("bilinear", "nearest")]
        x = layers.Concatenate()([a, *up, layers.Conv2DTranspose(4, 3, strides=2, padding="same")(b)])
        return i, conv(x, 3)

    def activations():
        i = layers.Input((8, 8, 4))
        x = layers.ELU()(layers.LeakyReLU(negative_slope=0.1)(layers.PReLU(shared_axes=[1, 2])(i)))
        x = layers.Subtract()([layers.Activation("gelu")(conv(x, 4, 3, dilation_rate=2)), i])
        return i, conv(x, 8, 3, groups=2, padding="valid")

    def sequence():
        i = layers.Input((12, 6))
        x = layers.MaxPooling1D(2)(layers.Conv1D(8, 3, padding="same", activation="relu")(i))
        x = layers.LayerNormalization()(layers.Dense(5)(layers.Permute((2, 1))(x)))
        return i, layers.Dense(3)(layers.Flatten()(x))

    def attention():
        i = layers.Input((8, 16))
        x = layers.Activation("tanh")(i)
        return i, layers.Add()([x, layers.MultiHeadAttention(2, 8)(x, x)])

    return {f.__name__: keras.Model(*f()) for f in (images, keywords, anomalies, persons, inverted, squeezed, upward, activations,
                                                    sequence, attention)}


def set_weights(model, rng):
    """Seeded ones, large enough for results that differ."""
    for w in model.weights:
        shape = tuple(w.shape)
        if w.name in ("gamma", "moving_variance"):
            w.assign(rng.uniform(0.5, 1.5, shape).astype("f"))
        elif len(shape) > 1:
            rows = max(1, int(np.prod(shape[:2] if "depthwise" in w.path else shape[:-1])))
            w.assign((rng.standard_normal(shape) * np.sqrt(2 / rows)).astype("f"))
        else:
            w.assign((rng.standard_normal(shape) * 0.1).astype("f"))


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
