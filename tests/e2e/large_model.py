"""Models of many large matrices, written piece by piece: a chain of products whose results are all outputs. Weights and what
lies between the products are small integers, so that exact results are known."""
import array
import random

from onnx_file import FLOAT, field, graph, model, node, port, varint

PIECE = 1 << 20  # weights that are drawn at once
LEAST, COUNT = -8, 16  # of the integers

# By a random byte, the upper two bytes of such an integer as a float of 32 bits; the lower two are 0.
UPPER = [bytes(array.array("f", [LEAST + i % COUNT]).tobytes()[at] for i in range(256)) for at in (3, 2)]


class Chain:
    """y0 = x w0, y1 = sign(y0) w1, ... with matrices of `wide` x `narrow` and `narrow` x `wide` in turn."""

    def __init__(self, wide, narrow):
        self.wide, self.narrow, self.matrix_bytes = wide, narrow, 4 * wide * narrow

    def _extents(self, i):
        return (self.narrow, self.wide) if i % 2 else (self.wide, self.narrow)

    def _weights(self, i):
        """The bytes of a matrix in pieces."""
        draw, left = random.Random(i), self.wide * self.narrow
        while left:
            count = min(left, PIECE)
            drawn, piece = draw.randbytes(count), bytearray(4 * count)
            piece[3::4], piece[2::4] = (drawn.translate(table) for table in UPPER)
            yield piece
            left -= count

    def _head(self, i, place):
        """A TensorProto without its data; `place`: the name of the file that holds them, or None."""
        out = b"".join(field(1, d) for d in self._extents(i)) + field(2, FLOAT) + field(8, f"w{i}")
        if not place:
            return out + varint(9 << 3 | 2) + varint(self.matrix_bytes)
        entries = {"location": place, "offset": i * self.matrix_bytes, "length": self.matrix_bytes}
        return out + b"".join(field(13, field(1, k) + field(2, str(v))) for k, v in entries.items()) + field(14, 1)

    def write(self, path, matrices, beside=None):
        """Writes an ONNX model, with its weights in the file `beside` of the same folder if that is named."""
        nodes = []
        for i in range(matrices):
            nodes += [node("Sign", f"y{i - 1}", f"s{i}")] if i else []
            nodes += [node("MatMul", f"{f's{i}' if i else 'x'} w{i}", f"y{i}")]
        body = graph(nodes, [port("x", [1, self.wide])], [port(f"y{i}", [1, self._extents(i)[1]]) for i in range(matrices)])
        heads = [self._head(i, beside and beside.name) for i in range(matrices)]
        inside = 0 if beside else self.matrix_bytes
        begins = [varint(5 << 3 | 2) + varint(len(head) + inside) + head for head in heads]
        size = len(body) + sum(len(begin) + inside for begin in begins)
        empty = graph([], [], [])
        with open(path, "wb") as out, open(beside or "/dev/null", "wb") as other:
            out.write(model([], [], [])[:-len(varint(len(empty)) + empty)] + varint(size) + body)
            for i, begin in enumerate(begins):
                out.write(begin)
                for piece in self._weights(i):
                    (other if beside else out).write(piece)

    def check(self, x, results, error_max):
        """Compares some columns of each product with what the result before it gives; errors are relative to the largest."""
        for i, y in enumerate(results):
            rows, wide = self._extents(i)
            assert len(x) == rows and len(y) == wide, (i, len(x), len(y))
            columns = range(i % 7, wide, wide // 9)
            wanted, row, kept = [0.0] * len(columns), 0, array.array("f")
            for piece in self._weights(i):
                kept.frombytes(piece)
                whole = len(kept) // wide
                for at in range(whole):
                    wanted = [sum_of + x[row + at] * kept[at * wide + column] for sum_of, column in zip(wanted, columns)]
                kept, row = kept[whole * wide:], row + whole
            error = max(abs(y[column] - right) for column, right in zip(columns, wanted)) / max(map(abs, y))
            assert row == rows and any(wanted) and error <= error_max, f"product {i}: an error of {error}"
            x = [(v > 0) - (v < 0) for v in y]
