#!/usr/bin/env python3
"""What the Python package promises, case by case, in an environment where it is installed:

package.py CASE ARGUMENT...   asserts; prints nothing where all is well
"""
import array
import asyncio
import concurrent.futures
import gc
import importlib
import os
import pathlib
import subprocess
import sys
import threading
import tracemalloc

import kiln

KEPT_BYTES_MAX = 20_000  # what a loop may leave to Python's caches


def raises(error, says, function, *arguments):
    try:
        function(*arguments)
    except kiln.Error as caught:
        assert type(caught) is error, f"{type(caught).__name__}: {caught}"
        assert all(word in str(caught) for word in says), f"{says} are not in: {caught}"
        return
    raise AssertionError(f"no {error.__name__}, which should say {says}")


def ramp(shape, dtype="float32"):
    import numpy
    return (numpy.arange(numpy.prod(shape), dtype=dtype) % 7 - 3).reshape(shape)


def case_calls(path):
    """Every way to give memory and to get it computes the same, which is the product with the weights."""
    import numpy
    m = kiln.load(path)
    x = ramp((64, 64))
    weights = m(numpy.eye(64, dtype="float32"))  # the model is x times a constant
    assert weights.any() and numpy.allclose(m(x), x @ weights, rtol=1e-4, atol=1e-4)
    y = m(x)
    assert type(y) is numpy.ndarray and y.flags.c_contiguous and y.flags.writeable and y.ctypes.data % 64 == 0
    assert y is not m(x) and not numpy.shares_memory(y, m(x))
    out = numpy.empty((64, 64), "float32")
    assert m.run(x, out) is out and (out == y).all()
    for given in ([x], (x,), {"x": x}, x):
        out[:] = 0
        m.run(given, {"y": out})
        assert (out == y).all()
    assert (m(x=x) == y).all()
    assert (m(memoryview(x)) == y).all() and (m(memoryview(x.tobytes()).cast("f", (64, 64))) == y).all()
    assert (m(memoryview(array.array("f", x.ravel())).cast("B").cast("f", (64, 64))) == y).all()
    read_only = x.copy()
    read_only.flags.writeable = False
    assert (m(read_only) == y).all()
    call = m.bind()
    assert not call.inputs[0].any() and call.inputs[0].ctypes.data % 64 == 0
    call.inputs[0][:] = x
    assert call() is call.outputs[0] and (call.outputs[0] == y).all()
    call.inputs[0][:] = 2 * x  # the memory is read, not a copy of it
    assert numpy.allclose(call(), 2 * y)


def case_small_floats(path, packages=None):
    """Floats of 8 bits: as ml_dtypes has them, and as codes without that package. The model is y = x, z = float32(x)."""
    import numpy
    codes, numbers = numpy.array([0x38, 0xb8, 0x01, 0x7e], "uint8"), [1, -1, 2**-9, 448]
    if packages:
        sys.path.insert(0, packages)
    m = kiln.load(path)
    assert m.inputs[0].dtype == "float8_e4m3fn" == m.outputs[0].dtype and m.outputs[1].dtype == "float32"
    y, z = m(codes)
    assert (y.view("uint8") == codes).all() and (z == numbers).all()
    raises(kiln.InvalidArgument, ["is float32 [4]", "expected float8_e4m3fn [4]"], m, numpy.zeros(4, "float32"))
    if not packages:
        assert y.dtype == numpy.uint8
        return
    import ml_dtypes
    assert y.dtype == ml_dtypes.float8_e4m3fn and (y.astype("float32") == numbers).all()
    assert (m(y)[1] == numbers).all()
    out = numpy.zeros(4, ml_dtypes.float8_e4m3fn)
    m.run(y, [out, numpy.zeros(4, "float32")])
    assert (out.astype("float32") == numbers).all()
    raises(kiln.InvalidArgument, ["expected float8_e4m3fn [4]"], m, numpy.zeros(3, ml_dtypes.float8_e4m3fn))
    raises(kiln.InvalidArgument, ["input 'x'"], m, numpy.zeros(4, ml_dtypes.float8_e5m2))


def case_dlpack(path):
    """Objects that know DLPack alone, of either version, are taken and let go."""
    import numpy

    class Old:
        def __init__(self, tensor):
            self.tensor = tensor

        def __dlpack__(self, stream=None):
            return self.tensor.__dlpack__()

    class New(Old):
        def __dlpack__(self, *, stream=None, max_version=None):
            assert max_version == (1, 0)
            return self.tensor.__dlpack__(max_version=max_version)

    m = kiln.load(path)
    x = ramp((64, 64))
    y = m(x)
    for wrap in (Old, New):
        held = sys.getrefcount(x)
        assert (m(wrap(x)) == y).all()
        assert sys.getrefcount(x) == held
        raises(kiln.InvalidArgument, ["float64 [64, 64]", "expected float32"], m, wrap(x.astype("float64")))
        raises(kiln.InvalidArgument, ["strides [1, 64]"], m, wrap(x.T))
        out = numpy.zeros((64, 64), "float32")
        m.run(x, wrap(out))
        assert (out == y).all()
    out.flags.writeable = False
    raises(kiln.InvalidArgument, ["output 'y' is read-only"], m.run, x, New(out))
    raises(kiln.InvalidArgument, ["output 'y' does not give its memory"], m.run, x, Old(out))


def case_own_arrays(path):
    """Without numpy, outputs are arrays that the standard library can read."""
    import numpy
    x = ramp((64, 64))
    expected = kiln.load(path)(x)
    hidden = {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] in ("kiln", "numpy")}
    sys.modules["numpy"] = None
    fresh = importlib.import_module("kiln")
    y = fresh.load(path)(memoryview(x))
    sys.modules.update(hidden)
    assert type(y) is fresh.Array and y.shape == (64, 64) and y.dtype == "float32" and y.nbytes == 4 * 64 * 64 and len(y) == 64
    assert memoryview(y).tobytes() == expected.tobytes() and memoryview(y).format == "f" and not memoryview(y).readonly
    assert (numpy.from_dlpack(y) == expected).all() and (numpy.asarray(y) == expected).all()
    kept = numpy.from_dlpack(y)
    del y
    gc.collect()
    assert (kept == expected).all()
    try:
        fresh.Array()
    except TypeError:
        return
    raise AssertionError("an array was made of nothing")


def case_frameworks(path):
    """Tensors of what is installed."""
    import numpy
    m = kiln.load(path)
    x = ramp((64, 64))
    y = m(x)
    for name in ("torch", "jax.numpy", "cupy"):
        try:
            framework = importlib.import_module(name)
        except ImportError:
            print(f"{name} is not installed")
            continue
        tensor = framework.asarray(x)
        assert (m(tensor) == y).all(), name
        if name == "torch":
            out = framework.empty(64, 64)
            m.run(tensor, out)
            assert numpy.array_equal(out.numpy(), y)


def case_converters(folder):
    """Without the framework, its importer says what to install; files of other kinds are refused by name."""
    for function, says in ((kiln.from_torch, "torch=="), (kiln.from_keras, "tf2onnx=="), (lambda x, y: kiln.from_jax(x, y), "jax2onnx==")):
        raises(kiln.FailedPrecondition, ["pip install", says], function, None, None)
    lite = b"\0\0\0\0TFL3"
    assert kiln.from_tflite(lite) is lite and kiln.from_onnx(b"\x08\x07") == b"\x08\x07"
    raises(kiln.InvalidArgument, ["not a TFLite model"], kiln.from_tflite, b"\x08\x07")
    raises(kiln.InvalidArgument, ["not an ONNX model"], kiln.from_onnx, lite)
    raises(kiln.InvalidArgument, ["type int"], kiln.from_onnx, 3)
    raises(kiln.NotFound, ["absent.tflite"], kiln.from_tflite, "absent.tflite")
    raises(kiln.NotFound, ["saved_model.pb"], kiln.from_saved_model, folder)
    for name, error, says in (("absent.keras", 13, "no such file"), ("w.safetensors", 2, "from_torch"), ("m.pt2", 17, "pip install")):
        if error != 13:
            pathlib.Path(folder, name).write_bytes(b"x")
        done = subprocess.run([sys.executable, "-m", "kiln.convert", name, "-o", "out.onnx"], cwd=folder, capture_output=True, text=True)
        assert done.returncode == error and says in done.stderr and name in done.stderr, (done.returncode, done.stderr)
    assert not list(pathlib.Path(folder).glob("out*"))


def case_inspects(path):
    m = kiln.load(path, threads=1)
    assert m.inputs == (("x", "float32", (64, 64)),) and m.outputs == (("y", "float32", (64, 64)),), (m.inputs, m.outputs)
    assert m.inputs[0].name == "x" and str(m.inputs[0]) == "x: float32[64, 64]" and path in repr(m) and m.path == path
    assert m.metadata["model"] and m.metadata["target"].startswith("cpu:") and m.threads == 1 and m.device == (1, 0)
    assert len(m.steps) == 1 and m.steps[0].action == "kernel" and m.steps[0].flops == 2 * 64**3 and m.steps[0].task.startswith("v2:")
    assert m.memory["constant"] >= 4 * 64 * 64 and m.output_rows == (64,), m.output_rows
    (time,) = m.profile(ramp((64, 64)), runs=3)
    assert time.calls == 3 and time.total_ns > 0 and time.step == m.steps[0]
    assert m.profile(runs=2)[0].calls == 2 and m.profile(x=ramp((64, 64)))[0].calls == 10
    kiln.verify(path)
    raises(kiln.InvalidArgument, ["0", "expected 1"], lambda: m.profile(runs=0))
    assert kiln.__version__.count(".") == 2


def case_sizes(path, mixed):
    import numpy
    m = kiln.load(path)
    assert m.sizes == ("batch", True, (1, 4, 8)) and m.inputs[0].shape == (8, 8) and m.outputs[0].shape == (8, 8), m.sizes
    calls = []
    for size in (8, 3, 1, 5, 4):
        x = numpy.arange(-4 * size, 4 * size, dtype="float32").reshape(size, 8)
        calls.append((m.bind(x), numpy.maximum(x, 0)))
        assert numpy.array_equal(m(x), calls[-1][1]) and numpy.array_equal(m(memoryview(x)), calls[-1][1]), size
        out = numpy.zeros((size, 8), "float32")
        m.run(x, out)
        assert numpy.array_equal(out, calls[-1][1]), size
        assert m.profile(x, runs=2)[0].calls == 2 and m.output_rows == (size,), m.output_rows
    for call, right in reversed(calls):  # each keeps its size
        assert numpy.array_equal(call(), right)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for result, (_, right) in zip(pool.map(lambda pair: pair[0](), calls * 50), calls * 50):
            assert result.shape == right.shape
    raises(kiln.OutOfRange, ["batch is 9", "1 to 8"], m, numpy.zeros((9, 8), "float32"))
    raises(kiln.InvalidArgument, ["is float32 [0, 8]"], m, numpy.zeros((0, 8), "float32"))
    raises(kiln.InvalidArgument, ["is float32 [3, 7]", "expected float32 [8, 8]"], m, numpy.zeros((3, 7), "float32"))
    raises(kiln.InvalidArgument, ["output 'y' is float32 [4, 8]", "[3, 8]"], m.run, numpy.zeros((3, 8), "float32"), numpy.zeros((4, 8), "float32"))
    mixed = kiln.load(mixed)
    assert mixed.sizes == ("batch", False, (1, 4, 8)), mixed.sizes
    assert numpy.allclose(mixed(numpy.zeros((4, 8), "float32")), 0.25)
    raises(kiln.OutOfRange, ["batch is 3", "(1, 4, 8)"], mixed, numpy.zeros((3, 8), "float32"))


def case_keeps(cache, cell, sized):
    """State stays in the module: a cache of keys, an LSTM, and a state beside rows of any number."""
    import numpy
    m = kiln.load(cache)
    assert m.kept == {}
    m.keep("past", "present")
    assert m.kept == {"past": "present"} and [port.name for port in m.inputs] == ["past", "k", "at"]
    right = numpy.zeros((1, 2, 6, 4), "float32")
    call = m.bind()
    assert len(call.inputs) == 2 and len(call.outputs) == 1
    for at in range(5):
        k = numpy.random.default_rng(at).random((1, 2, 1, 4), "float32")
        right[:, :, at] = k[:, :, 0]
        index = numpy.array([at])
        if at == 2:
            call.inputs[0][:], call.inputs[1][:] = k, index
        y = (m(k, index), m(at=index, k=k), call() if at == 2 else m.run({"k": k, "at": index}))  # the same row again
        assert all((one == -right).all() for one in y)
        assert (m.state("past") == right).all() and m.state("past") is not m.state("past")
    raises(kiln.InvalidArgument, ["input 'k' is float64"], m, k.astype("float64"), index)
    raises(kiln.InvalidArgument, ["the module keeps past", "2 inputs (k, at)"], m.bind, {"past": right, "k": k, "at": index})
    raises(kiln.InvalidArgument, ["the number of those given is 3", "2 inputs (k, at)"], m, right, k, index)
    raises(kiln.InvalidArgument, ["output 0 (present) cannot be kept for input 0 (past): the input is kept already"], m.keep, "past", "present")
    raises(kiln.InvalidArgument, ["there is no before"], m.keep, "before", "y")
    raises(kiln.InvalidArgument, ["output 1 (y) cannot be kept for input 1 (k): they must have one type and shape"], m.keep, "k", "y")
    raises(kiln.InvalidArgument, ["input 1: it is not kept"], m.state, "k")
    assert (m.state("past") == right).all()
    m.set_state("past", right + 1)
    assert (m.state("past") == right + 1).all()
    raises(kiln.InvalidArgument, ["input 'past' is float32 [6, 4]"], m.set_state, "past", right[0, 0])
    m.reset()
    assert not m.state("past").any()
    assert m.profile(k, index, runs=2)[0].calls == 2
    late = kiln.load(cache)
    call = late.bind()
    late.keep("past", "present")
    raises(kiln.InvalidArgument, ["input 0 (past): the module keeps it"], call)

    by_hand, m = kiln.load(cell), kiln.load(cell)
    m.keep("h", "h.next")
    m.keep(input="c", output="c.next")
    h = c = numpy.zeros((1, 1, 3), "float32")
    for i in range(4):
        x = numpy.random.default_rng(i).random((1, 1, 2), "float32")
        right, h, c = by_hand(x, h, c)
        assert numpy.array_equal(m(x), right) and right.any(), i
    assert numpy.array_equal(m.state("h"), h) and numpy.array_equal(m.state("c"), c)

    m = kiln.load(sized)
    raises(kiln.InvalidArgument, ["output 0 (t) cannot be kept for input 0 (s)", "must not depend on the size"], m.keep, "s", "t")
    m.keep("w", "u")
    for i, size in enumerate((4, 1, 3, 2), 1):
        x = numpy.ones((size, 8), "float32")
        t = m(x, x, numpy.ones(8, "float32"))
        assert t.shape == (size, 8) and (t == 2).all() and (m.state("w") == i).all()


def case_refuses(path, foreign, damaged, future):
    import numpy
    m = kiln.load(path)
    x = ramp((64, 64))
    wrong = kiln.InvalidArgument
    raises(wrong, ["input 'x' is float64 [64, 64]", "expected float32 [64, 64]"], m, x.astype("float64"))
    raises(wrong, ["is int32"], m, x.astype("int32"))
    raises(wrong, ["is float32 [64]", "expected float32 [64, 64]"], m, x[0])
    raises(wrong, ["is float32 []"], m, numpy.float32(1))
    raises(wrong, ["strides [1, 64]", "without gaps"], m, x.T)
    raises(wrong, ["strides"], m, numpy.zeros((64, 128), "float32")[:, ::2])
    raises(wrong, ["format '>f'"], m, x.astype(">f4"))
    raises(wrong, ["format", "expected float32"], m, numpy.zeros((64, 64), "complex64"))
    raises(wrong, ["type list", "__dlpack__"], m, [1.0])
    raises(wrong, ["missing is x"], m)
    raises(wrong, ["is 2", "(x)"], m, x, x)
    raises(wrong, ["unknown", "'z'", "(x)"], lambda: m(z=x))
    raises(wrong, ["twice", "x"], lambda: m(x, x=x))
    raises(wrong, ["is 2"], m.bind, [x, x])
    frozen = numpy.zeros((64, 64), "float32")
    frozen.flags.writeable = False
    raises(wrong, ["output 'y' is read-only"], m.run, x, frozen)
    raises(wrong, ["output 'y' is float64"], m.run, x, x.astype("float64"))
    raises(wrong, ["output 'y' shares memory with input 'x'"], m.run, x, x)
    raises(wrong, ["threads is 0"], lambda: kiln.load(path, threads=0))
    raises(kiln.NotFound, ["absent"], kiln.load, path + ".absent")
    raises(kiln.FailedPrecondition, ["aarch64"], kiln.load, foreign)
    raises(kiln.DataLoss, ["damaged"], kiln.load, damaged)
    raises(kiln.DataLoss, ["damaged"], kiln.verify, damaged)
    raises(kiln.DataLoss, ["version 99"], kiln.load, future)
    call = m.bind(x)
    with m as same:
        assert same is m and not m.closed
    m.close()
    assert m.closed and "closed" in repr(m)
    for use in (call, lambda: m(x), lambda: m.inputs, lambda: m.steps, lambda: m.bind(), lambda: m.metadata, lambda: m.profile()):
        raises(kiln.FailedPrecondition, ["closed", path], use)
    assert issubclass(kiln.DataLoss, kiln.Error) and kiln.DataLoss.number == 14 and kiln.DataLoss.name == "DATA_LOSS"


def case_closes_meanwhile(path):
    """A module that is closed while its tensors' code or other threads run ends when they have."""
    import numpy
    x = ramp((64, 64))
    m = kiln.load(path)

    class Closes:
        def __dlpack__(self, **_):
            m.close()
            return x.__dlpack__()

    expected = kiln.load(path)(x)
    assert (m(Closes()) == expected).all() and m.closed
    for _ in range(20):
        m = kiln.load(path)
        call = m.bind(x)
        ended = []

        def work():
            try:
                while True:
                    call()
            except kiln.FailedPrecondition:
                ended.append(True)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        m.close()
        for thread in threads:
            thread.join()
        assert len(ended) == 3 and not numpy.isnan(call.outputs[0]).any()


def case_threads(path):
    """Threads share a module and use several; each gets its own answer."""
    import numpy
    shared = kiln.load(path)
    wrong = []

    def work(number):
        own = kiln.load(path)
        x = numpy.full((64, 64), number, "float32")
        expected = own(x)
        for _ in range(200):
            if not (shared(x) == expected).all() or not (own(x) == expected).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong


def case_gil(path):
    """While a module runs, another thread of Python does."""
    m = kiln.load(path)
    call = m.bind()
    turns = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # from here on a thread gives way only where it says so
    seen, stop = [], threading.Event()

    def count():
        seen.append(1)
        stop.set()

    thread = threading.Thread(target=count)
    thread.start()
    for _ in range(1_000_000):
        call()
        if stop.is_set():
            break
    sys.setswitchinterval(turns)
    assert seen, "the other thread never ran"
    thread.join()


def leaks(function):
    for _ in range(50):
        function()
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(500):
        function()
    gc.collect()
    kept = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return kept


def case_leaks(path, database):
    """Right and wrong use leave nothing behind: neither Python's memory nor files."""
    import numpy
    m = kiln.load(path)
    x = ramp((64, 64))

    class Old:
        def __dlpack__(self):
            return x.__dlpack__()

    def refused():
        for bad in (x.T, x.astype("float64"), 3, x[0]):
            try:
                m(bad)
            except kiln.Error:
                pass

    def opened():
        with kiln.load(path) as one:
            one(x)

    def asked():
        with kiln.Database(database) as db:
            db.best()

    files = len(list(pathlib.Path("/proc/self/fd").iterdir()))
    uses = {"call": lambda: m(x), "dlpack": lambda: m(Old()), "bind": lambda: m.bind(x)(), "refused": refused, "load": opened,
            "inspect": lambda: (m.inputs, m.steps, m.metadata, m.memory), "profile": lambda: m.profile(x, runs=1), "ask": asked,
            "export": lambda: numpy.from_dlpack(m.bind().outputs[0])}
    kept = {name: leaks(use) for name, use in uses.items()}
    assert max(kept.values()) < KEPT_BYTES_MAX, kept
    assert len(list(pathlib.Path("/proc/self/fd").iterdir())) == files


def case_database(path, task_count):
    db = kiln.Database(path)
    best = db.best()
    assert len(best) == int(task_count) and isinstance(best[0], dict) and set(best[0]) == set(best.columns), len(best)
    row = best[0]
    assert row["op"] == "matmul" and row["median_ns"] > 0 and row["samples_ns"] and type(row["samples_ns"][0]) is float
    assert db.best(task=row["task_key"])[0]["trace_hash"] == row["trace_hash"] and db.best(task="v2:none") == []
    found = db.find(order="oldest")
    assert len(found) >= len(best) and db.find(order="newest", limit=1)[0] == found[-1]
    assert db.sql("select count(*) as n, null as missing, 1.5 as half from record")[0] == {"n": len(found), "missing": None, "half": 1.5}
    try:
        frame = best.frame()
    except kiln.FailedPrecondition as error:
        assert "pandas" in str(error)
    else:
        assert list(frame.columns) == list(best.columns) and len(frame) == len(best)
    raises(kiln.InvalidArgument, ["no such"], lambda: db.best(target="no such"))
    raises(kiln.NotFound, ["has no records of"], lambda: db.best(target="rpi4"))
    raises(kiln.InvalidArgument, ["'quick'", "fastest"], lambda: db.find(order="quick"))
    raises(kiln.InvalidArgument, ["limit"], lambda: db.find(limit=0))
    raises(kiln.NotFound, ["absent"], kiln.Database, path + ".absent")
    db.close()
    db.close()
    raises(kiln.FailedPrecondition, ["closed"], db.best)


def case_tunes(model, folder):
    import numpy
    seen = []
    data = pathlib.Path(model).read_bytes()
    db = folder + "/python.db"
    said = kiln.compile(data, folder + "/c.kiln", db="none")
    plain = kiln.load(folder + "/c.kiln")
    assert said["tasks"] == 1 and said["bytes"] > 0
    x = ramp((64, 64))
    tuned = kiln.tune(data, trials=2, db=db, progress=seen.append)
    assert numpy.allclose(tuned(x), plain(x), rtol=1e-3, atol=1e-3)
    assert seen and seen[-1].done == seen[-1].planned == 2 and seen[-1].tasks[0]["op"] == "matmul"
    assert kiln.Database(db).best()[0]["op"] == "matmul"

    async def later():
        return await kiln.submit(model, trials=2, db=db, output=folder + "/t.kiln")

    assert asyncio.run(later())(x).shape == (64, 64) and pathlib.Path(folder, "t.kiln").exists()
    job = kiln.submit(model, trials=100_000, db=db)
    while not job.progress.planned and not job.done:
        job.wait(0.01)
    job.cancel()
    raises(kiln.Cancelled, [], job.result)
    assert job.done

    class Model:
        def SerializeToString(self):
            return data

    assert kiln.compile(Model(), folder + "/p.kiln", db="none")["tasks"] == 1
    raises(kiln.NotFound, ["absent.onnx"], lambda: kiln.compile("absent.onnx", folder + "/a.kiln"))
    raises(kiln.InvalidArgument, ["type int", "ModelProto"], lambda: kiln.compile(3, folder + "/a.kiln"))
    raises(kiln.NotFound, ["absent.onnx"], lambda: kiln.tune("absent.onnx", trials=2, db=db))
    try:
        kiln.tune(model, trials=4, db=folder + "/other.db", progress=lambda _: 1 // 0)
    except ZeroDivisionError:
        return
    raise AssertionError("the error of a callback is lost")


def case_dies(folder):
    """What a program that dies logged is in the error, whole: what, where, what to do."""
    program = pathlib.Path(folder, "kiln")
    program.write_text("#!/bin/sh\necho 'no memory for a kernel' >&2\necho 'task v2:a: ask for less' >&2\nkill -9 $$\n")
    program.chmod(0o755)
    os.environ["PATH"] = folder + ":" + os.environ["PATH"]
    says = ["died of signal 9: no memory for a kernel\n  task v2:a: ask for less"]
    raises(kiln.Internal, says, lambda: kiln.compile(b"", folder + "/a.kiln"))
    raises(kiln.Internal, says, lambda: kiln.tune(b"", trials=1, progress=False))


def case_fleet(address, model, db):
    """Jobs that go on without the program that made them."""
    fleet = kiln.Fleet(address)
    job = fleet.leave(model, trials=2)
    row = fleet.attach(job, db)
    assert row["job"] == job and row["state"] == "done" and row["done"] == 2, row
    assert [one["job"] for one in fleet.jobs()] == [job]
    assert kiln.Database(db).best()[0]["op"] == "matmul"
    endless = fleet.leave(model, trials=100_000, seed=1)
    fleet.cancel(endless)
    raises(kiln.Cancelled, [], fleet.attach, endless, db)
    raises(kiln.NotFound, ["no such job"], fleet.attach, "no such job", db)


if __name__ == "__main__":
    globals()["case_" + sys.argv[1]](*sys.argv[2:])
