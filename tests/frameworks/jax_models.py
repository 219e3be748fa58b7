"""Functions of JAX and modules of Flax through kiln.from_jax, beside what JAX computes. Runs where python/kiln/frameworks/jax.txt
is installed, with the package kiln; prints a line per model that differs, and last how many there were."""
import os

os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax import lax

import kiln
from compared import differs, runs

rng = np.random.default_rng(1)


def array(*shape):
    return rng.standard_normal(shape).astype("f")


def perceptron():
    a, b = array(16, 32), array(32, 10)
    return lambda x: jax.nn.softmax(jnp.tanh(x @ a) @ b), [array(4, 16)]


def convolution():
    w, b = array(3, 3, 4, 8), array(8)
    return lambda x: jax.nn.relu(lax.conv_general_dilated(x, w, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")) + b), [array(1, 12, 12, 4)]


def depthwise():
    w = array(3, 3, 1, 6)
    return lambda x: lax.conv_general_dilated(x, w, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=6), [array(1, 9, 9, 6)]


def normalised():
    g = array(24)
    return lambda x: g * (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5), [array(5, 24)]


def attention():
    def f(q, k, v):
        return jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(jnp.einsum("hqd,hkd->hqk", q, k) / 4), v)

    return f, [array(2, 6, 16) for _ in range(3)]


def gated():
    a = array(8, 16)
    return lambda x: jax.nn.gelu(x @ a) * jax.nn.sigmoid(x @ a), [array(3, 8)]


def chosen():
    return lambda x, y: jnp.where(x > y, jnp.clip(x, -1, 1), jnp.exp(-jnp.abs(y))), [array(4, 7), array(4, 7)]


def pooled():
    return lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"), [array(1, 8, 8, 3)]


def rearranged():
    return lambda x: jnp.concatenate([jnp.transpose(x, (1, 0, 2))[:, ::2], jnp.pad(x[:2], ((0, 3), (0, 0), (0, 0)))[:, :2]], axis=1), [array(4, 5, 6)]


def summed():
    return lambda x: jnp.cumsum(x, axis=1) - jax.scipy.special.logsumexp(x, axis=1, keepdims=True), [array(3, 9)]


def recurrent():
    w, u = array(4, 8) / 4, array(8, 8) / 4

    def f(x):
        return lax.scan(lambda h, one: ((h := jnp.tanh(one @ w + h @ u)), h), jnp.zeros((2, 8)), x)[1]

    return f, [array(5, 2, 4)]


class Network(nnx.Module):
    def __init__(self, rngs):
        self.conv = nnx.Conv(3, 8, (3, 3), rngs=rngs)
        self.norm = nnx.BatchNorm(8, use_running_average=True, rngs=rngs)
        self.dense = nnx.Linear(8, 5, rngs=rngs)

    def __call__(self, x):
        return self.dense(nnx.relu(self.norm(self.conv(x))).mean((1, 2)))


def flax_network():
    return Network(nnx.Rngs(0)), [array(2, 8, 8, 3)]


models = [perceptron, convolution, depthwise, normalised, attention, gated, chosen, pooled, rearranged, summed, recurrent, flax_network]
for make in models:
    function, inputs = make()
    want = jax.tree.leaves(function(*inputs))
    differs(make.__name__, runs(kiln.from_jax(function, tuple(inputs)))(*inputs), want)
print(len(models), "models")
