#!/usr/bin/env python3
"""What kiln.te and kiln.sched promise, case by case, as package.py has them:

operators.py CASE ARGUMENT...   asserts; prints nothing where all is well
"""
import gc
import pathlib
import sys
import tracemalloc

import numpy

import kiln
from kiln import te
from package import raises

RANDOM = numpy.random.default_rng(7)


def data(*shape):
    return RANDOM.random(shape, "f")


def max_plus():
    op = te.Operator("maxplus")
    a, b = op.input("a", (20, 12)), op.input("b", (12, 32))
    k = te.axis("k", 12)
    op.output("c", (20, 32), lambda i, j: te.reduce(te.max, a[i, k] + b[k, j], over=k))
    return op, lambda a, b: (a[:, :, None] + b[None]).max(1)


def softmax():
    """With sums and maxima as stages of their own."""
    op = te.Operator("softmax")
    x, r = op.input("x", (6, 33)), te.axis("r", 33)
    most = op.compute("most", (6,), lambda i: te.reduce(te.max, x[i, r], over=r))
    power = op.compute("power", (6, 33), lambda i, j: te.exp(x[i, j] - most[i]))
    total = op.compute("total", (6,), lambda i: te.sum(power[i, r], over=r))
    op.output("y", (6, 33), lambda i, j: power[i, j] / total[i])

    def expected(x):
        power = numpy.exp(x - x.max(1, keepdims=True))
        return power / power.sum(1, keepdims=True)

    return op, expected


def convolution():
    """With constant weights, and what follows it."""
    weights = data(4, 2, 3, 3)
    op = te.Operator("conv")
    x, w = op.input("x", (1, 2, 8, 8)), op.constant("w", weights)
    ic, kh, kw = (te.axis(name, extent) for name, extent in (("ic", 2), ("kh", 3), ("kw", 3)))
    conv = op.compute("conv", (1, 4, 6, 6), lambda n, oc, oh, ow: te.sum(x[n, ic, oh + kh, ow + kw] * w[oc, ic, kh, kw], over=(ic, kh, kw)))
    op.output("y", conv.shape, lambda *i: te.select(conv[i] > 1, conv[i], conv[i] * 0.5 - 1))

    def expected(x):
        window = numpy.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
        conv = numpy.einsum("nchwij,ocij->nohw", window, weights)
        return numpy.where(conv > 1, conv, conv * 0.5 - 1)

    return op, expected


def log_sum():
    """By a combiner that no block has."""

    def both(a, b):
        most = te.max(a, b)
        return most + te.log(te.exp(a - most) + te.exp(b - most))

    op = te.Operator("logsum")
    x, r, s = op.input("x", (5, 13, 3)), te.axis("r", 13), te.axis("s", 3)
    op.output("y", (5,), lambda i: te.reduce(both, x[i, r, s], over=[r, s]))
    return op, lambda x: numpy.log(numpy.exp(x).sum((1, 2)))


def running():
    op = te.Operator("running")
    x = op.input("x", (3, 21))
    op.scan("sums", te.add, x)
    op.scan("most", te.max, x, along=0)
    op.scan("one", te.add, op.scan("column", te.add, op.compute("first", (3, 1), lambda i, j: x[i, j]), output=False))
    return op, lambda x: (numpy.cumsum(x, 1), numpy.maximum.accumulate(x, 0), x[:, :1])


def biquad():
    """A recursive filter of the second order, over 50 samples of 8 channels."""
    b, a = (0.2, 0.4, 0.2), (-0.6, 0.3)
    op = te.Operator("biquad")
    first, second, x = op.input("first", (8,)), op.input("second", (8,)), op.input("x", (8,))
    y = op.compute("sample", (8,), lambda i: b[0] * x[i] + first[i])
    op.output("first.next", (8,), lambda i: b[1] * x[i] - a[0] * y[i] + second[i])
    op.output("second.next", (8,), lambda i: b[2] * x[i] - a[1] * y[i])
    op.output("y", (8,), lambda i: y[i])
    op.repeat(50, states=2, rows=1)

    def expected(first, second, x):
        samples = []
        for row in x:
            y = b[0] * row + first
            first, second = b[1] * row - a[0] * y + second, b[2] * row - a[1] * y
            samples.append(y)
        return first, second, numpy.array(samples)

    return op, expected


def recurrent():
    """A recurrent layer with gates: products inside of the step, weights, and a bias that is the same in each step."""
    weights, back = data(3, 6, 5) - 0.5, data(3, 5, 5) - 0.5
    op = te.Operator("recurrent")
    h, c, x, bias = op.input("h", (5,)), op.input("c", (5,)), op.input("x", (6,)), op.input("bias", (3, 5))
    w, u, k, j = op.constant("w", weights), op.constant("u", back), te.axis("k", 6), te.axis("j", 5)
    of_x = op.compute("of_x", (3, 5), lambda g, i: te.sum(x[k] * w[g, k, i], over=k))
    of_h = op.compute("of_h", (3, 5), lambda g, i: te.sum(h[j] * u[g, j, i], over=j))
    gate = op.compute("gate", (3, 5), lambda g, i: 1 / (1 + te.exp(-(of_x[g, i] + of_h[g, i] + bias[g, i]))))
    most = op.compute("cell", (5,), lambda i: gate[0, i] * c[i] + gate[1, i] * (2 * gate[2, i] - 1))
    op.output("h.next", (5,), lambda i: te.tanh(most[i]))
    op.output("c.next", (5,), lambda i: most[i])
    op.repeat(40, 2, 1)

    def expected(h, c, x, bias):
        for row in x:
            gate = 1 / (1 + numpy.exp(-(row @ weights + h @ back + bias)))
            c = gate[0] * c + gate[1] * (2 * gate[2] - 1)
            h = numpy.tanh(c)
        return h, c

    return op, expected


def clamped_product():
    """Its names are those that a loop's own values could have."""
    op = te.Operator("clamped")
    p, x = op.input("p", (3,)), op.input("step", (3,))
    op.output("last", (3,), lambda i: te.min(te.max(p[i] * (x[i] + 0.5), 0.5), 2))
    op.output("steps", (3,), lambda i: te.Tensor("last", (3,), "f32")[i] + 1)
    op.repeat(35, states=1, rows=1)

    def expected(p, x):
        each = []
        for row in x:
            p = numpy.clip(p * (row + 0.5), 0.5, 2)
            each.append(p + 1)
        return p, numpy.array(each)

    return op, expected


RECURRENCES = (biquad, recurrent, clamped_product)
OPERATORS = (max_plus, softmax, convolution, log_sum, running, *RECURRENCES)


def given(op):
    return [data(*port.shape) for port in op.inputs]


def assert_close(found, expected):
    for one, other in zip(found if isinstance(found, tuple) else [found], expected if isinstance(expected, tuple) else [expected]):
        assert one.dtype == numpy.float32 and numpy.allclose(one, other, rtol=1e-5, atol=1e-5), (one, other)


def case_compute():
    for make in OPERATORS:
        op, expected = make()
        inputs = given(op)
        assert_close(op(*inputs), expected(*inputs))
    op, _ = max_plus()
    assert str(op) == (
        "program maxplus\ninput a: f32[20,12]\ninput b: f32[12,32]\noutput c: f32[20,32]\n"
        "block c(i:20, j:32 | k:12): c[i, j] max= a[i, k] + b[k, j] init -inf\n"
    ), str(op)
    assert repr(op) == "<kiln.te.Operator maxplus (a: float32[20, 12], b: float32[12, 32]) -> (c: float32[20, 32])>"


def case_repeat():
    """A recurrence has the caller's shapes, a schedule of its step, and refuses what does not go on from step to step."""
    op, expected = clamped_product()
    assert repr(op) == "<kiln.te.Operator clamped (p: float32[3], step: float32[35, 3]) -> (last: float32[3], steps: float32[35, 3])>"
    assert str(op).splitlines()[-1] == "# repeated 35 times, then p = last; by rows: step"
    x = given(op)
    s = op.schedule()
    s.vectorize("last.i")
    assert_close(s(*x), expected(*x))
    op.repeat(1, states=0, rows=2)  # takes the place of the first
    assert op.outputs[0].shape == op.inputs[0].shape == (1, 3)
    assert_close(s(*x), expected(*x))
    text = str(op)
    raises(kiln.InvalidArgument, ["0 steps", "expected 1"], op.repeat, 0, 1)
    raises(kiln.InvalidArgument, ["at least 0"], op.repeat, 5, -1)
    raises(kiln.InvalidArgument, ["3 states", "an input and an output"], op.repeat, 5, 3)
    raises(kiln.InvalidArgument, ["2 inputs are given by rows", "only 1"], op.repeat, 5, 1, 2)
    other = te.Operator("other")
    x = other.input("x", (2,))
    other.output("y", (3,), lambda i: x[0] + te.cast(i, "float32"))
    raises(kiln.InvalidArgument, ["'other'", "state 'x'", "'y'", "another type or shape"], other.repeat, 5, 1)
    assert str(op) == text


def case_arithmetic():
    """Operators and functions of Python mean the program's, on each type."""
    op = te.Operator("arithmetic")
    x, n = op.input("x", (4,)), op.input("n", (4,), numpy.int32)
    results = {
        "precedence": (lambda i: (x[i] + 1) * (2 - x[i]) / (x[i] + x[i] * 2), lambda x, n: (x + 1) * (2 - x) / (x + x * 2)),
        "negatives": (lambda i: -1.5 - (x[i] - (x[i] - -2)), lambda x, n: -1.5 - (x - (x - -2))),
        "integers": (lambda i: (n[i] << 2 | 1) ^ n[i] & 6, lambda x, n: (n << 2 | 1) ^ n & 6),
        "rest": (lambda i: n[i] // 3 + n[i] % 3, lambda x, n: n // 3 + n % 3),
        "truth": (lambda i: (x[i] > 0.5) & ~(n[i] == 2) | (n[i] != 1), lambda x, n: (x > 0.5) & ~(n == 2) | (n != 1)),
        "casts": (lambda i: te.cast(x[i] * 10, "int64") + i, lambda x, n: (x * 10).astype("int64") + numpy.arange(4)),
        "doubles": (lambda i: te.cast(x[i], "float64") * 1e-300, lambda x, n: x.astype("float64") * 1e-300),
        "functions": (lambda i: te.sqrt(abs(x[i])) + te.pow(x[i], 2), lambda x, n: numpy.sqrt(abs(x)) + x**2),
        "infinite": (lambda i: te.min(x[i], float("inf")), lambda x, n: x),
    }
    for name, (function, _) in results.items():
        op.output(name, (4,), function)
    a, b = data(4), numpy.array([-5, 2, 7, 1], "i")
    for port, found, (_, expected) in zip(op.outputs, op(a, b), results.values()):
        want = expected(a, b)
        assert found.dtype == want.dtype and numpy.allclose(found, want, rtol=1e-6, atol=0), (port, found, want)


def case_refused():
    """What is wrong says so, and changes nothing."""
    op, expected = max_plus()
    a, text = te.Tensor("a", (20, 12), "f32"), str(op)
    axis = te.axis("i", 12)
    raises(kiln.InvalidArgument, ["two buffers named 'c'"], op.input, "c", (1,))
    raises(kiln.InvalidArgument, ["index 1 of a", "[12, 12]", "12"], op.output, "d", (20,), lambda i: a[i, 12])
    raises(kiln.InvalidArgument, ["'a' has 1 indices", "expected 2"], op.output, "d", (20,), lambda i: a[i])
    raises(kiln.InvalidArgument, ["takes 2 indices", "expected 1"], op.output, "d", (20,), lambda i, j: a[i, j])
    raises(kiln.InvalidArgument, ["f32", "i64", "kiln.te.cast"], op.output, "d", (20,), lambda i: a[i, 0] + i)
    raises(kiln.InvalidArgument, ["whole number"], op.output, "d", (20,), lambda i: a[i + 0.5, 0])
    raises(kiln.InvalidArgument, ["kiln.te.select"], op.output, "d", (20,), lambda i: a[i, 0] if a[i, 0] > 1 else 0)
    raises(kiln.InvalidArgument, ["two iterators are named 'i'"], op.output, "d", (20,), lambda i: te.sum(a[i, axis], over=axis))
    raises(kiln.InvalidArgument, ["'d' combines no values"], op.output, "d", (20,), lambda i: te.reduce(lambda x, y: x + y, a[i, 0], over=[]))
    raises(kiln.InvalidArgument, ["'complex64'", "float32"], op.input, "d", (1,), "complex64")
    raises(kiln.InvalidArgument, ["the name of an operator"], te.Operator, "two words")
    raises(kiln.InvalidArgument, ["is no word"], te.Operator, "two\ninput x: f32[1]")
    assert str(op) == text
    x, y = given(op)
    raises(kiln.InvalidArgument, ["1 inputs", "expected 2"], op, x)
    raises(kiln.InvalidArgument, ["input 'b'", "[20, 12]", "[12, 32]"], op, x, x)
    raises(kiln.InvalidArgument, ["has no input"], bytes, te.Operator("empty"))
    unfinished = te.Operator("unfinished")
    unfinished.input("a", (1,))
    raises(kiln.InvalidArgument, ["has no output"], unfinished.schedule)
    assert_close(op(x, y), expected(x, y))


def case_schedule():
    """Steps are shown, checked and computed; refused ones leave the schedule as it was."""
    op, expected = max_plus()
    x, y = given(op)
    s = op.schedule()
    assert s.loops == ("c.i", "c.j", "c.k") and s.blocks == ("c",) and s.buffers == ("x0", "x1", "y2")
    outer, inner = s.split("c.j", -1, 16).loops
    s.reorder("c.k", inner)
    s.vectorize(inner)
    s.parallel("c.i")
    assert s.loops_around("c") == ("c.i", outer, "c.k", inner) and outer == "c.j.0"
    before = str(s), s.trace
    assert "vectorize c.j.1 in 16:" in before[0] and before[1].splitlines()[0] == "split(c.j, -1, 16)"
    raises(kiln.IllegalSchedule, ["parallel", "c.k lies inside parallel loop c.i"], s.parallel, "c.k")
    raises(kiln.IllegalSchedule, ["there is no loop nope"], s.unroll, "nope")
    raises(kiln.InvalidArgument, ["there is no such primitive"], s.apply, "unroll(c.k)\nrol(c.k)")
    assert (str(s), s.trace) == before
    assert_close(s(x, y), expected(x, y))
    made = s.cache_read("c", "b", "global")
    assert made.blocks == made.buffers == ("x1.read",) and made.loops == ("x1.read.d0", "x1.read.d1")
    tile = s.perfect_tile("c.k", 2, 4, decision=[3, 4])
    s.split("c.k", tile[0], tile[1])
    assert s.trace.splitlines()[-2:] == ["t0 = perfect_tile(c.k, 2, 4) = [3, 4]", "split(c.k, t0[0], t0[1])"]
    assert_close(s(x, y), expected(x, y))
    again = op.schedule()
    again.apply(s.trace)
    assert str(again) == str(s) and again.task == s.task
    op, expected = softmax()
    s, (x,) = op.schedule(), given(op)
    raises(kiln.IllegalSchedule, ["total reads power", "before it is written"], s.compute_at, "power", "y.i")
    s.compute_at("most", "power.i")
    s.compute_at("total", "y.i")
    assert_close(s(x), expected(x))
    op.output("late", (6,), lambda i: te.Tensor("x", (6, 33), "f32")[i, 0])
    assert_close(s(x), expected(x))  # it is of the operator as it was
    op, expected = convolution()
    s, (x,) = op.schedule(), given(op)
    s.reverse_compute_at("y", "conv.ow")
    s.unroll("conv.kw")
    assert_close(s(x), expected(x))


def case_tune(folder):
    """Operators become modules like any model: tuned by a fleet, or by a schedule of one's own."""
    for make in OPERATORS:
        op, expected = make()
        inputs, output = given(op), f"{folder}/{op.name}.kiln"
        if make in (convolution, recurrent):
            kiln.tune(op, trials=4, db=folder + "/own.db", output=output, progress=False)
        else:
            kiln.compile(op, output, db="none")
        module = kiln.load(output)
        assert "expression" in [step.op for step in module.steps]
        assert [port.name for port in (*module.inputs, *module.outputs)] == [port.name for port in (*op.inputs, *op.outputs)]
        assert_close(module(*inputs), expected(*inputs))
    assert [row["op"] for row in kiln.Database(folder + "/own.db").best()][0] == "expression"
    op, expected = max_plus()
    inputs, s = given(op), op.schedule()
    s.apply("split(c.j, -1, 16)\nreorder(c.i, c.j.0, c.k, c.j.1)\nvectorize(c.j.1)")
    assert kiln.compile(op, folder + "/hand.kiln", db=folder + "/own.db", schedule=s)["tuned"] == 0
    module = kiln.load(folder + "/hand.kiln")
    assert_close(module(*inputs), expected(*inputs))
    assert module.steps[0].task == s.task
    other, _ = softmax()
    raises(kiln.NotFound, [s.task], lambda: kiln.compile(other, folder + "/no.kiln", db="none", schedule=s))
    tuned = kiln.submit(op, trials=1, db=folder + "/tuned.db", output=folder + "/tuned.kiln", schedule=s)
    module = tuned.result()
    assert_close(module(*inputs), expected(*inputs))
    tried = {row["searcher"] for row in kiln.Database(folder + "/tuned.db").find(order="newest")}
    assert {"hand", "default"} <= tried, tried  # beside the one trial
    [task] = tuned.summary["tasks"]
    assert task["by_hand"] == (task["trace"] == s.trace), task
    raises(kiln.NotFound, [s.task], lambda: kiln.tune(other, trials=1, db=folder + "/none.db", schedule=s, progress=False))
    s.bind("c.i", "thread.x")  # of a GPU
    raises(kiln.IllegalSchedule, ["c.i", "no launches"], lambda: kiln.compile(op, folder + "/no.kiln", target="x86-64-v3", db="none", schedule=s))
    assert not pathlib.Path(folder, "no.kiln").exists()


def case_leaks():
    def use():
        op, _ = convolution()
        op(*given(op))
        s = op.schedule()
        s.unroll("conv.kw")
        s(*given(op))
        bytes(op)
        for wrong in (lambda: s.unroll("no"), lambda: op.input("x", (1,)), lambda: op(3)):
            try:
                wrong()
            except kiln.Error:
                pass

    use()
    tracemalloc.start()
    use()
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(20):
        use()
    gc.collect()
    assert tracemalloc.get_traced_memory()[0] - before < 20_000


if __name__ == "__main__":
    globals()["case_" + sys.argv[1]](*sys.argv[2:])
