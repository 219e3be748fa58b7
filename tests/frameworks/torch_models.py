"""Modules of PyTorch through kiln.from_torch and through torch.compile, beside what PyTorch computes. Runs where
python/kiln/frameworks/torch.txt is installed, with the package kiln; prints a line per model that differs, and last how many there were.

    torch_models.py FOLDER      also goes through python -m kiln.convert, with files in FOLDER
"""
import pathlib
import subprocess
import sys
import warnings

import torch
from torch import nn
from torch.nn import functional

import kiln
import kiln._tune
from compared import differs, runs

torch.manual_seed(1)


def perceptron():
    return nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 10), nn.Softmax(-1)), torch.randn(4, 16)


def convolutions():
    return nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 5)), torch.randn(2, 3, 16, 16)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.norm = nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.GroupNorm(2, 8)

    def forward(self, x):
        return functional.relu(x + self.norm(self.b(functional.silu(self.a(x)))))


def residual():
    return Residual(), torch.randn(1, 8, 10, 10)


class Squeezed(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Conv2d(8, 2, 1), nn.Conv2d(2, 8, 1)

    def forward(self, x):
        return x * torch.sigmoid(self.up(functional.hardswish(self.down(functional.adaptive_avg_pool2d(x, 1)))))


def squeezed():
    return Squeezed(), torch.randn(1, 8, 6, 6)


class Upward(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.last = nn.ConvTranspose2d(4, 4, 2, stride=2), nn.Conv2d(8, 3, 3, padding=1)

    def forward(self, x):
        return self.last(torch.cat([self.up(x), functional.interpolate(x, scale_factor=2, mode="bilinear")], 1))


def upward():
    return Upward(), torch.randn(1, 4, 7, 7)


def transformer():
    return nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), torch.randn(2, 6, 16)


class Attention(nn.Module):
    def forward(self, q, k, v):
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def attention():
    return Attention(), tuple(torch.randn(1, 2, 8, 16) for _ in range(3))


class Embedded(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.norm, self.last = nn.Embedding(50, 12), nn.LayerNorm(12), nn.Linear(12, 50, bias=False)

    def forward(self, tokens):
        return self.last(self.norm(self.table(tokens)))


def embedded():
    return Embedded(), torch.randint(0, 50, (2, 7))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.gru = nn.LSTM(4, 6, batch_first=True, bidirectional=True), nn.GRU(12, 5, batch_first=True)

    def forward(self, x):
        return self.gru(self.lstm(x)[0])


def recurrent():
    return Recurrent(), torch.randn(2, 5, 4)


def signals():
    return nn.Sequential(nn.Conv1d(2, 6, 5, dilation=2), nn.PReLU(), nn.AvgPool1d(2), nn.Conv1d(6, 3, 3)), torch.randn(1, 2, 40)


def volumes():
    return nn.Sequential(nn.Conv3d(1, 4, 3), nn.ELU(), nn.AdaptiveMaxPool3d(1)), torch.randn(1, 1, 6, 6, 6)


class Chosen(nn.Module):
    def forward(self, x, y):
        return torch.where(x > y, torch.einsum("ij,kj->ik", x, y)[:, :6], torch.cumsum(x, 1)), x.argmax(1)


def chosen():
    return Chosen(), (torch.randn(6, 6), torch.randn(6, 6))


MODELS = (perceptron, convolutions, residual, squeezed, upward, transformer, attention, embedded, recurrent, signals, volumes, chosen)
COMPILED = (perceptron, convolutions, residual, attention, embedded, chosen)


def made(make):
    module, inputs = make()
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    return module.eval(), inputs


def results(outputs):
    return list(outputs) if isinstance(outputs, tuple) else [outputs]


def imports(folder):
    with torch.no_grad():
        for make in MODELS:
            module, inputs = made(make)
            differs(make.__name__, runs(kiln.from_torch(module, inputs))(*inputs), results(module(*inputs)))
        torch.export.save(torch.export.export(module, inputs), folder / "m.pt2")
        subprocess.run([sys.executable, "-m", "kiln.convert", folder / "m.pt2", "-o", folder / "m.onnx"], check=True)
        differs("m.pt2", runs(folder / "m.onnx")(*inputs), results(module(*inputs)))
        module, (x,) = made(perceptron)
        data = kiln.from_torch(module, x, dynamic_shapes=({0: "batch"},))
        differs("open batch", runs(data, dim={"batch": 2})(x[:2]), [module(x[:2])])
    try:
        kiln.from_torch(module.train(), x)
        print("a module in training mode is taken")
    except kiln.FailedPrecondition as error:
        assert "eval()" in str(error), error


def compiled(function, **options):
    return torch.compile(function, backend="kiln", options={"db": "none", "fallback": "error", **options})


def backend(folder):
    count = []
    real = kiln._tune.compile
    kiln._tune.compile = lambda *arguments, **named: (count.append(1), real(*arguments, **named))
    with torch.no_grad():
        for make in COMPILED:
            module, inputs = made(make)
            fast = compiled(module)
            for given in (inputs, tuple(x.flip(0) for x in inputs)):
                differs("compiled " + make.__name__, results(fast(*given)), results(module(*given)))
        assert len(count) == len(COMPILED), f"{len(count)} modules were made of {len(COMPILED)} graphs"

        module, (x,) = made(perceptron)
        fast = compiled(module)
        fast(x)
        module[0].weight.mul_(2)
        differs("changed weights", [fast(x)], [module(x)])
        for rows in (3, 2, 3, 2):
            differs(f"{rows} rows", [fast(x[:rows])], [module(x[:rows])])
        assert len(count) == len(COMPILED) + 4, f"{len(count) - len(COMPILED)} modules of one graph with 3 sizes and weights that changed once"
        tuned = compiled(module, trials=2, db=str(folder / "torch.db"))
        differs("tuned", [tuned(x)], [module(x)])
        assert kiln.Database(folder / "torch.db").best(), "nothing was tuned"
        turned = torch.randn(16, 4).t()
        differs("turned input", [fast(turned)], [module(turned)])

        def adds(y):
            y.add_(1)
            return y * 2

        for name, function, says in (("bessel", lambda x: torch.special.bessel_j0(x) + 1, "bessel_j0"), ("writes", adds, "writes into"),
                                     ("random", lambda x: x + 0 * torch.rand_like(x), "RandomUniformLike")):
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                fast = compiled(function, fallback="eager")
                for _ in range(2):
                    differs(name, [fast(x.clone())], [function(x.clone())])
            seen = [str(one.message) for one in seen if "PyTorch itself" in str(one.message)]
            assert len(seen) == 1 and says in seen[0], seen
            try:
                compiled(function)(x.clone())
                print(f"{name}: no error")
            except kiln.Unimplemented as error:
                assert says in str(error), error
        try:
            compiled(module, target="no such")(x)
            print("a wrong target is not noticed")
        except kiln.InvalidArgument as error:
            assert "no such" in str(error), error
    try:
        compiled(module)(x)
        print("gradients are wanted and nothing is said")
    except kiln.Unimplemented as error:
        assert "no_grad" in str(error), error


place = pathlib.Path(sys.argv[1])
imports(place)
backend(place)
print(len(MODELS), "models")
