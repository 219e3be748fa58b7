"""TFLite models of layers with a state, which current converters no longer make, written field by field."""
import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

STATES = ("h", "c", "state")  # names of the variables


def model(tensors, operator, options, inputs, outputs):
    """One operator. `tensors`: (name, array) of constants, or (name, shape) with "variable" of states; `inputs`: numbers, -1: left out."""
    m, g = schema.ModelT(), schema.SubGraphT()
    m.version, m.buffers, g.tensors, g.name = 3, [schema.BufferT()], [], "main"
    for name, content, *variable in tensors:
        t = schema.TensorT()
        t.name, t.type, t.isVariable = name, schema.TensorType.FLOAT32, bool(variable)
        t.shape, t.buffer = list(np.shape(content) if isinstance(content, np.ndarray) else content), 0
        if isinstance(content, np.ndarray):
            b = schema.BufferT()
            b.data = np.frombuffer(content.astype("f").tobytes(), "u1")
            t.buffer = len(m.buffers)
            m.buffers.append(b)
        g.tensors.append(t)
    code, op = schema.OperatorCodeT(), schema.OperatorT()
    code.builtinCode, code.deprecatedBuiltinCode, code.version = operator, operator, 1
    op.opcodeIndex, op.inputs, op.outputs = 0, inputs, outputs
    op.builtinOptionsType, op.builtinOptions = options
    m.operatorCodes, g.operators = [code], [op]
    g.inputs, g.outputs = [0], outputs
    m.subgraphs = [g]
    builder = flatbuffers.Builder(1024)
    builder.Finish(m.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def lstm(rng, time_major=False, coupled=False, peephole=False, projection=0, clip=0.0):
    """A sequence of 7 steps, 3 samples, 5 inputs, 6 cells."""
    steps, batch, width, cells = 7, 3, 5, 6
    out = projection or cells
    tensors = [("x", (steps, batch, width) if time_major else (batch, steps, width)), ("y", (steps, batch, out) if time_major else (batch, steps, out)),
               ("h", (batch, out), "variable"), ("c", (batch, cells), "variable")]
    inputs = [0] + [-1] * 23

    def put(place, name, *shape):
        inputs[place] = len(tensors)
        tensors.append((name, rng.standard_normal(shape).astype("f") * 0.6))

    for gate in range(coupled, 4):
        put(1 + gate, f"w{gate}", cells, width)
        put(5 + gate, f"r{gate}", cells, out)
        put(12 + gate, f"b{gate}", cells)
    for gate in range(coupled, 3) if peephole else ():
        put(9 + gate, f"p{gate}", cells)
    if projection:
        put(16, "q", out, cells)
        put(17, "qb", out)
    inputs[18], inputs[19] = 2, 3
    options = schema.UnidirectionalSequenceLSTMOptionsT()
    options.fusedActivationFunction, options.timeMajor = schema.ActivationFunctionType.TANH, time_major
    options.cellClip = clip
    kind = schema.BuiltinOptions.UnidirectionalSequenceLSTMOptions
    return model(tensors, schema.BuiltinOperator.UNIDIRECTIONAL_SEQUENCE_LSTM, (kind, options), inputs, [1])


def svdf(rng, rank=2):
    batch, width, filters, memory = 2, 5, 8, 4
    tensors = [("x", (batch, width)), ("y", (batch, filters // rank)), ("state", (batch, filters * memory), "variable"),
               ("f", rng.standard_normal((filters, width))), ("t", rng.standard_normal((filters, memory))), ("b", rng.standard_normal(filters // rank))]
    options = schema.SVDFOptionsT()
    options.rank, options.fusedActivationFunction = rank, schema.ActivationFunctionType.RELU
    return model(tensors, schema.BuiltinOperator.SVDF, (schema.BuiltinOptions.SVDFOptions, options), [0, 3, 4, 5, 2], [1])


def models(rng):
    return {"lstm": lstm(rng), "lstm_time": lstm(rng, time_major=True), "lstm_coupled": lstm(rng, coupled=True, peephole=True),
            "lstm_projected": lstm(rng, peephole=True, projection=4, clip=0.4), "svdf": svdf(rng)}
