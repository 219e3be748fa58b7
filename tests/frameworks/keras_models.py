"""Networks of Keras through kiln.from_keras, beside what Keras computes. Runs where python/kiln/frameworks/keras.txt is installed, with
the package kiln; prints a line per model that differs, and last how many there were.

    keras_models.py FOLDER      also goes through python -m kiln.convert, with files in FOLDER
"""
import os
import pathlib
import subprocess
import sys

os.environ.update(CUDA_VISIBLE_DEVICES="", TF_CPP_MIN_LOG_LEVEL="3")
import keras
import numpy as np

import kiln
from kiln import convert
from compared import differs, runs
from keras_networks import networks, set_weights

layers = keras.layers


def recurrent():
    i = layers.Input((7, 4))
    x = layers.Bidirectional(layers.LSTM(6, return_sequences=True))(i)
    return i, layers.Dense(3)(layers.GRU(5)(x))


def volumes():
    i = layers.Input((6, 6, 6, 2))
    return i, layers.GlobalMaxPooling3D()(layers.Conv3D(4, 3, activation="swish")(i))


folder = pathlib.Path(sys.argv[1])
models = networks(keras)
unknown = models.pop("activations")
models.update((make.__name__, keras.Model(*make())) for make in (recurrent, volumes))
for name, model in models.items():
    rng = np.random.default_rng(len(name))
    set_weights(model, rng)
    x = rng.standard_normal((2, *model.input_shape[1:])).astype("f")
    differs(name, runs(kiln.from_keras(model, batch=2))(x), [model(x, training=False)])
try:
    kiln.from_keras(unknown)
    print("an operator that tf2onnx does not know is let through")
except kiln.Unimplemented as error:
    assert "Erfc" in str(error), error

model = models["anomalies"]
x = rng.standard_normal((1, *model.input_shape[1:])).astype("f")
want = [model(x, training=False)]
differs("open batch", runs(kiln.from_keras(model, batch=None), dim={"batch": 1})(x), want)
model.save(folder / "m.keras")
subprocess.run([sys.executable, "-m", "kiln.convert", folder / "m.keras", "-o", folder / "m.onnx"], check=True)
differs("m.keras", runs(folder / "m.onnx")(x), want)
model.export(folder / "saved", verbose=False)
subprocess.run([sys.executable, "-m", "kiln.convert", folder / "saved", "-o", folder / "s.onnx"], check=True)
differs("saved", runs(folder / "s.onnx")(x), want)
differs("saved, open batch", runs(kiln.from_saved_model(folder / "saved", batch=None), dim={"batch": 1})(x), want)
try:
    kiln.from_saved_model(folder / "saved", signature="other")
    print("a signature that is not there is taken")
except kiln.NotFound as error:
    assert "serving_default" in str(error), error

# As if it were larger than a file of ONNX may be.
kiln._frameworks._BYTES_MAX = 1000
try:
    kiln.from_keras(model)
    print("bytes that do not fit a file are given")
except kiln.ResourceExhausted as error:
    assert "kiln.convert" in str(error), error
convert.write(convert._read(folder / "m.keras"), folder / "large.onnx")
assert (folder / "large.onnx").stat().st_size < 100_000 < (folder / "large.onnx.data").stat().st_size
differs("large", runs(folder / "large.onnx")(x), want)
print(len(models), "models")
