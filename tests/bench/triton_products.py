"""Machine code that Triton makes of a product of matrices, without a GPU: python triton_products.py FOLDER. One line of JSON for each row:
its target, tile and launch, and the path of its cubin in FOLDER. Run by the environment of tests/bench/peers_triton.txt."""
import json
import pathlib
import sys

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

# capability; rows, columns and steps of a tile; warps; stages. Those of Triton's tutorial on products that do not spill.
ROWS = [(80, 128, 128, 32, 4, 4), (80, 128, 256, 64, 8, 3), (90, 128, 128, 64, 4, 4), (90, 128, 256, 64, 8, 4)]


@triton.jit
def product(x, w, y, m, n, k, ROWS_OF: tl.constexpr, COLUMNS_OF: tl.constexpr, STEPS: tl.constexpr):
    """y[m, n] = x[m, k] @ w[k, n], row-major halves whose sizes are multiples of the tile."""
    tiles = n // COLUMNS_OF
    row = (tl.program_id(0) // tiles) * ROWS_OF + tl.arange(0, ROWS_OF)
    column = (tl.program_id(0) % tiles) * COLUMNS_OF + tl.arange(0, COLUMNS_OF)
    step = tl.arange(0, STEPS)
    from_x = x + row[:, None] * k + step[None, :]
    from_w = w + step[:, None] * n + column[None, :]
    total = tl.zeros((ROWS_OF, COLUMNS_OF), tl.float32)
    for _ in range(0, k, STEPS):
        total = tl.dot(tl.load(from_x), tl.load(from_w), total)
        from_x += STEPS
        from_w += STEPS * n
    tl.store(y + row[:, None] * n + column[None, :], total.to(tl.float16))


def compiled(capability, rows, columns, steps, warps, stages):
    source = ASTSource(fn=product,
                       signature={"x": "*fp16", "w": "*fp16", "y": "*fp16", "m": "i32", "n": "i32", "k": "i32",
                                  "ROWS_OF": "constexpr", "COLUMNS_OF": "constexpr", "STEPS": "constexpr"},
                       constexprs={"ROWS_OF": rows, "COLUMNS_OF": columns, "STEPS": steps},
                       attrs={(i,): [["tt.divisibility", 16]] for i in range(6)})
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options={"num_warps": warps, "num_stages": stages})


def main(folder):
    for number, (capability, rows, columns, steps, warps, stages) in enumerate(ROWS):
        made = compiled(capability, rows, columns, steps, warps, stages)
        cubin = pathlib.Path(folder) / f"triton{number}.cubin"
        cubin.write_bytes(made.asm["cubin"])
        print(json.dumps({"target": f"sm_{capability}", "tile": f"{rows}x{columns}x{steps}", "stages": stages, "threads": 32 * warps,
                          "cubin": str(cubin), "shared": made.metadata.shared}))


if __name__ == "__main__":
    main(sys.argv[1])
