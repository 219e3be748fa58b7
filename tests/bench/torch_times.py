"""What PyTorch takes for entries of Kiln's zoo on the first CUDA device: python torch_times.py NAME..., a line of JSON each.

cuBLAS and cuDNN behind it, each call captured in a graph; of convolutions the best of cuDNN's algorithms, in both orders of memory. Operators: time of one of
many in a graph, by the device's events. Networks: time from the replay to its end. `copy:MIB` copies so many MiB. Data are random."""
import json
import re
import statistics
import sys
import time

import torch
from torch import nn

TOGETHER, ROUNDS = 20, 15
DTYPES = {"f16": torch.half, "bf16": torch.bfloat16, "f32": torch.float}


def forms(name):
    """(the name without them, dtype, images)"""
    dtype, images = torch.float, 1
    while found := re.search(r"_(f16|bf16|n\d+)$", name):
        name = name[:found.start()]
        if found[1] in DTYPES:
            dtype = DTYPES[found[1]]
        else:
            images = int(found[1][1:])
    return name, dtype, images


def random(*shape, dtype):
    return torch.rand(*shape, device="cuda", dtype=torch.float).mul_(2).sub_(1).to(dtype)


def captured(call, times):
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(times):
            call()
    return graph


def of_one(call):
    graph, took = captured(call, TOGETHER), []
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for _ in range(ROUNDS):
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        took.append(begin.elapsed_time(end) * 1e3 / TOGETHER)
    return took


def of_run(call):
    graph, took = captured(call, 1), []
    for _ in range(5 * ROUNDS):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        graph.replay()
        torch.cuda.synchronize()
        took.append((time.perf_counter() - begin) * 1e6)
    return took


def convolution(numbers, dtype, images):
    channels, height, width, filters, kh, kw, sh, sw, top, left, bottom, right, dh, dw, groups = numbers
    x, w = random(images, channels, height, width, dtype=dtype), random(filters, channels // groups, kh, kw, dtype=dtype)
    if (top, left) != (bottom, right):
        x, top, left = nn.functional.pad(x, (left, right, top, bottom)), 0, 0
    orders = []
    for order in (torch.contiguous_format, torch.channels_last):
        data, weights = x.contiguous(memory_format=order), w.contiguous(memory_format=order)
        orders.append(of_one(lambda a=data, b=weights: nn.functional.conv2d(a, b, None, (sh, sw), (top, left), (dh, dw), groups)))
    return min(orders, key=statistics.median)


class Bottleneck(nn.Module):
    def __init__(self, channels, width, stride):
        super().__init__()
        def layer(cin, cout, size, stride=1):
            return nn.Sequential(nn.Conv2d(cin, cout, size, stride, size // 2, bias=False), nn.BatchNorm2d(cout))
        self.branch = nn.Sequential(layer(channels, width, 1), nn.ReLU(True), layer(width, width, 3, stride), nn.ReLU(True), layer(width, 4 * width, 1))
        self.skip = layer(channels, 4 * width, 1, stride) if stride > 1 or channels != 4 * width else nn.Identity()

    def forward(self, x):
        return torch.relu(self.branch(x) + self.skip(x))


def resnet50():
    parts, channels = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(True), nn.MaxPool2d(3, 2, 1)], 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for block in range(blocks):
            parts.append(Bottleneck(channels, 64 << stage, 2 if stage and not block else 1))
            channels = 4 * (64 << stage)
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


def measure(entry):
    name, dtype, images = forms(entry)
    kind, _, rest = name.partition(":")
    if kind == "resnet50":
        net = resnet50().cuda().eval().to(dtype).to(memory_format=torch.channels_last)
        x = random(images, 3, 224, 224, dtype=dtype).contiguous(memory_format=torch.channels_last)
        return of_run(lambda: net(x))
    if kind == "copy":
        a = random(int(rest), 1 << 18, dtype=torch.float)
        b = torch.empty_like(a)
        return of_one(lambda: b.copy_(a))
    if kind == "conv":
        return convolution([int(n) for n in rest.split(",")], dtype, images)
    extents = [int(n) for n in rest.split("x")]
    if kind == "gemm":
        x, w = random(extents[0], extents[2], dtype=dtype), random(extents[2], extents[1], dtype=dtype)
        y = torch.empty(extents[0], extents[1], device="cuda", dtype=dtype)
        return of_one(lambda: torch.matmul(x, w, out=y))
    x = random(*extents, dtype=dtype)
    if kind == "softmax":
        return of_one(lambda: torch.softmax(x, 1))
    return of_one(lambda: nn.functional.layer_norm(x, x.shape[1:]))


torch.backends.cudnn.benchmark = True
with torch.inference_mode():
    for argument in sys.argv[1:]:
        microseconds = measure(argument)
        print(json.dumps({"name": argument, "us": statistics.median(microseconds), "least_us": min(microseconds)}), flush=True)
        torch.cuda.empty_cache()
