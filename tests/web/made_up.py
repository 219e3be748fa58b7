"""Made-up answers of the API, in the shapes of decision 146: a lab of many boards, its jobs, records and modules. Names that try
to become markup are among them. The same seed gives the same answers."""
import hashlib
import math
import random

NOW_MS = 1_795_942_000_000
HOSTILE = ["<img src=x onerror=\"window.hostile=1\">", "</script><script>window.hostile=2</script>", "\"'><svg onload=window.hostile=3>", "javascript:window.hostile=4",
           "{{constructor.constructor('window.hostile=5')()}}", "=cmd|' /C calc'!A0"]
CPU = "cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v4,features=+avx512bf16+avx512vnni,cores=2,threads=2"
PI = "cpu:aarch64-unknown-linux-gnu,mcpu=cortex-a72,features=+neon,cores=4,threads=4"
PHONE = "cpu:aarch64-unknown-linux-android,mcpu=cortex-x1,features=+neon+dotprod,cores=4"
RISCV = "cpu:riscv64-unknown-linux-gnu,mcpu=spacemit-x60,features=+v,cores=8"
H200 = "cuda:sm_90a,model=h200"
TARGETS = [(PI, "Raspberry Pi 4", 40), (PHONE, "Pixel 6", 20), (CPU, "AMD EPYC 9354", 16), (RISCV, "Banana Pi F3", 14), (H200, "NVIDIA H200", 10)]
ROOMS = ["A1", "A2", "B1", "B2", "basement", ""]
STATES = [("leased", 58), ("free", 30), ("drained", 3), ("sick", 3), ("quarantined", 2), ("lost", 4)]
PROJECTS = [("vision", 3.0), ("speech", 2.0), ("embedded", 1.0), ("students", 0.5)]
PEOPLE = ["ana", "bo", "chen", "dara"]
OUTCOMES = [("ok", 940), ("wrong_result", 8), ("build_error", 20), ("timeout", 18), ("crash", 10), ("infra", 4)]
OPS = [("conv+relu", "conv+relu 64x56x56 over 3x3", 2.31e8), ("conv+add+relu", "conv+add+relu 128x28x28 over 3x3", 2.31e8), ("conv", "conv 256x14x14 over 1x1", 5.1e7),
       ("gemm", "gemm 1000x2048", 4.1e6), ("max_pool", "max_pool 64x56x56", 1.8e6), ("softmax", "softmax 1000", 5e3), ("conv+relu", "conv+relu 512x7x7 over 3x3", 2.31e8),
       ("conv+relu", "conv+relu 64x112x112 over 7x7", 2.36e8), ("convert", "convert 64x56x56", 0.0), ("global_average_pool", "global_average_pool 2048x7x7", 1e5)]
TRACE = """algorithm("winograd_4x4_3x3")
transform_layout(x0, "d0,d1/16,d2,d3,d1%16")
transform_layout(y3, "d0,d1/16,d2,d3,d1%16")
inline(conv.pad)
inline(conv.bias)
c0 = choice(3, 2, 2, 2) = 0
c1 = choice(3, 4, 1, 1, 4, 2, 1) = 0
cache_write(conv.products, "register")
cache_read(conv.products, conv.weights, "global")
pad(conv.weights.read, "d2", c0[2]*16)
split(conv.products.oc, -1, c0[2], 16)
t3 = perfect_tile(conv.products.oc.0, 2, 1000000) = [1, TILE]
reorder(conv.products.p, conv.products.q, conv.products.oc.0, conv.products.ic, conv.products.oc.1)
reverse_compute_at(conv.products.write, conv.products.q)
vectorize(conv.products.oc.1)
unroll(conv.products.ic)
parallel(conv.products.p)
set_scope(conv.products.acc, "register")"""
LOOPS = """program "conv+relu"
for n in 1
  parallel for oh.0 in 7
    for ow.0 in 28
      acc[4, 2, 16] = 0
      for kh in 3
        for kw in 3
          for ic in 64
            vectorize for oc.2 in 16
              acc[oh.1, ow.1, oc.2] += x[n, ic, oh+kh, ow+kw] * w[oc, ic, kh, kw]
      y[n, oc, oh, ow] = max(acc + bias[oc], 0)  # tile TILE"""
ASM = """kiln_run:
	movq	8(%rdi), %rax
	vxorps	%xmm0, %xmm0, %xmm0
.LBB0_TILE:
	vmovups	(%rsi,%rcx,4), %zmm1
	vfmadd231ps	(%rdx){1to16}, %zmm1, %zmm0
	addq	$64, %rdx
	decq	%rcx
	jne	.LBB0_TILE
	vmovups	%zmm0, (%rax)
	vzeroupper
	retq"""
PROGRAM = f"""program "conv+relu"
# {HOSTILE[1]}
input x0: f32[1,64,56,56]
constant w1: f32[64,64,3,3]
constant w2: f32[64]
output y3: f32[1,64,56,56]
block conv(n:1, oc:64, oh:56, ow:56 | ic:64, kh:3, kw:3): conv.sum[n, oc, oh, ow] sum= conv.pad[n, ic, oh + kh, ow + kw]*w1[oc, ic, kh, kw] init 0.0"""
WORDS = """conv computes 64 oc 56 oh 56 ow, reduced over 64 ic 3 kh 3 kw:
  for TILE tiles of 8 oh
    as straight code: 32 oc x 8 ow, 16 at a time, 16 accumulators in registers
relu makes y3 inside the oh one by one; 16 elements at a time"""
FEATURES = [("program.ns", "log2 ns", "time predicted by the analytic model"), ("vector.bytes", "log2 byte", "loaded as vectors: distinct memory"), ("fit.reduction_l1", "log2", "memory touched by one reduction of a tile, over L1"),
            ("loop3.extent", "log2", "iterations of loop number 3 around the tile"), ("program.registers", "register", "vector registers of register buffers"), ("nest.reduce_trips", "log2", "tiles between loading and storing the accumulators")]
TRIAL_COLUMNS = ["row", "task", "trial", "time_ms", "outcome", "median_ns", "raced", "final", "searcher"]
TRIAL_FEATURES = ["gflops", "share_of_peak", "gain_low", "relative_error", "search_ns", "build_ns", "board_ns", "threads", "registers", "spill_bytes", "shared_bytes"]
SEARCHERS = ["default", "sa", "transfer"]


def name_of(*parts, digits=32):
    return hashlib.sha256("/".join(map(str, parts)).encode()).hexdigest()[:digits]


def weighted(rng, rows):
    return rng.choices([row[0] for row in rows], weights=[row[-1] for row in rows])[0]


def task_key(index):
    return "v2:" + name_of("task", index)


class Lab:
    """The whole lab. `boards`, `jobs` are rows as the lists give them; everything else is asked for by name."""

    def __init__(self, boards=2000, jobs=60, trials=100_000, seed=1, hostile=True):
        self.rng, self.trial_count, self.seq = random.Random(seed), trials, 0
        self.jobs = [self.job(i, hostile) for i in range(jobs)]
        running = [job for job in self.jobs if job["state"] == "running"]
        self.boards = [self.board(i, running, hostile) for i in range(boards)]
        self.waiting = [job for job in self.jobs if job["state"] == "waiting"]
        self.trials = {}

    def job(self, i, hostile):
        rng, state = self.rng, ["running", "running", "waiting", "done", "done", "failed", "cancelled", "done"][i % 8]
        state = "running" if i == 0 else state
        model = rng.choice(["resnet50.onnx", "mobilenet_v2.onnx", "bert_base.onnx", "digits.onnx", "yolo_v8n.onnx", "whisper_tiny.onnx"])
        trials = rng.choice([1000, 2000, 10000])
        done = trials if state == "done" else 0 if state == "waiting" else rng.randrange(trials // 4, trials)
        row = {"job": name_of("job", i), "state": state, "model_name": HOSTILE[i % len(HOSTILE)] if hostile and i % 11 == 5 else model, "target": TARGETS[i % len(TARGETS)][0],
               "searcher": "sa", "trials": self.trial_count if i == 0 else trials, "done": self.trial_count if i == 0 else done, "tuner": name_of("tuner", i % 3), "tuner_name": f"tuner-{i % 3}", "user": rng.choice(PEOPLE), "age_ms": rng.randrange(10, 90000) * 1000,
               "project": PROJECTS[i % len(PROJECTS)][0], "priority": rng.choice([0, 0, 0, 5])}
        row["model_name"] = "resnet50.onnx" if i == 0 else row["model_name"]
        if state == "running":
            row.update(eta_ms=rng.randrange(60, 7200) * 1000, boards=rng.randrange(2, 40))
        if state == "waiting":
            row["text"] = self.why(i)
        if state == "failed":
            row["text"] = HOSTILE[0] if hostile else "no board of this target is left"
        return row

    def why(self, i):
        return ["all 12 boards of this target are leased; the next is free in about 40 s", "project vision holds 3 times its share; 2 requests of others come first",
                "no board offers cuda:sm_90a with label memory=141", "its project's quota of 40 boards is used up"][i // 8 % 4]

    def board(self, i, running, hostile):
        rng = self.rng
        target, device = weighted(rng, [((t, d), w) for t, d, w in TARGETS])
        state, kind = weighted(rng, STATES), device.split()[0].lower()
        row = {"node": name_of("board", i), "key": f"{kind}-{i:04d}", "target": target, "state": state, "device": device, "slots": 1, "busy": int(state == "leased"), "trials": rng.randrange(200, 90000),
               "silent_ms": rng.randrange(20, 900), "memory_bytes": rng.choice([4, 8, 16, 24]) << 30, "labels": [{"key": "room", "value": room}, {"key": "rack", "value": str(i % 8)}] if (room := ROOMS[i * 7 % len(ROOMS)]) else [],
               "env": {"temperature_mc": int(rng.gauss(51, 7) * 1000), "frequency_khz": int(rng.choice([1.5, 1.8, 2.4]) * 1e6), "load_milli": rng.randrange(900, 2100), "governor": "performance"},
               "noise": abs(rng.gauss(0.012, 0.006)), "drift": rng.gauss(1.0, 0.008), "faults": rng.choice([0, 0, 0, 0, 1, 3]), "fault_run": 0}
        row["ok"] = int(row["trials"] * 0.96)
        if hostile and i < len(HOSTILE):
            row["key"], row["device"] = HOSTILE[i], HOSTILE[-1 - i]
            row["labels"] = [{"key": "room", "value": HOSTILE[i % 2]}]
        if state == "leased" and running:
            job = running[i % len(running)]
            row.update(job=job["job"], user=job["user"], project=job["project"], held_ms=rng.randrange(1, 600) * 1000, eta_ms=rng.randrange(1, 240) * 1000)
        if state in ("drained", "quarantined"):
            row["text"] = "by ana: its fan is being replaced" if state == "drained" else "12 faults in a row"
        if state == "sick":
            row["text"] = "its reference kernel takes 1.4 times its usual time"
        return row

    def board_shown(self, row):
        history = [("came", "it was started", 9_000_000), ("sick", "its reference kernel takes 1.2 times its usual time", 5_000_000), ("well", "", 4_400_000), ("fault", HOSTILE[0], 2_000_000)]
        return {**row, "history": [{"wall_ms": NOW_MS - ago, "what": what, "text": text} for what, text, ago in history],
                "facts": [{"key": key, "value": value} for key, value in (("model", row["device"]), ("l1", "48"), ("l2", "1024"), ("kernel", "6.1.0-28-arm64"), ("libc", "glibc arm64"), ("pace", "482 ns within 5 %"))],
                "software": "kiln-rpc-server 0.1.0", "figures": [{"name": name, "value": value, "unit": unit} for name, value, unit in (("clock", 1.8e9, "Hz"), ("multiply-adds", 2.0, "vectors/cycle"), ("first cache", 49152, "bytes"), ("read from memory", 3.1, "bytes/cycle"))]}

    def drift(self, row):
        rng, level, rows = random.Random(row["node"]), 1.0, []
        for i in range(600):
            level += rng.gauss(0, 0.002) + (1.0 - level) * 0.02
            rows.append([NOW_MS - (600 - i) * 60_000, level + abs(rng.gauss(0, 0.003)), level + 0.01 + rng.gauss(0, 0.005), 0])
        return {"columns": ["time_ms", "drift", "drift_memory", "throttled"], "rows": rows}

    def log(self, since):
        lines = [(f"kiln-rpc-server trial {i} took {i * 7 % 90 + 4} ms", "info") for i in range(1, 60)] + [(f"candidate said {HOSTILE[1]}", "warn"), ("the link was lost for 2 s", "error")]
        rows = [{"number": n, "time": f"2026-11-29T08:{n % 60:02d}:10.503Z", "level": level, "text": text} for n, (text, level) in enumerate(lines, 1)]
        return {"lines": [row for row in rows if row["number"] > since], "newest": len(rows)}

    def job_shown(self, row):
        rng, tasks = random.Random(row["job"]), []
        for i, (op, label, flops) in enumerate(OPS):
            default = (flops / 4e10 + 2e-6) * 1e9
            gain = 1.0 if op == "softmax" else rng.uniform(1.1, 3.4)
            tasks.append({"key": task_key(i), "op": op, "label": label, "weight": rng.choice([1, 2, 3, 6]), "planned": row["trials"] // len(OPS), "done": row["done"] // len(OPS), "failed": row["done"] // len(OPS) // 17, "default_ns": default,
                          "best_ns": default / gain, "flops": flops, "rest": 2 if op == "softmax" else 0, "gain_low": gain * 0.98 if row["state"] == "done" else 0})
        if row["state"] == "waiting":
            tasks = []
        return {**row, "tasks": tasks, "faults": [{"key": task_key(4), "text": f"no board could run it: {HOSTILE[0]}"}] if row["state"] == "failed" else [], "module": name_of("module", 0, digits=64)}

    def job_trials(self, row, since, limit):
        """Trials as they fall: each task converges."""
        if row["job"] not in self.trials:
            self.trials[row["job"]] = self.make_trials(row)
        rows = self.trials[row["job"]][since:since + limit]
        return {"columns": [*TRIAL_COLUMNS, "board_ns"], "rows": rows, "next": since + len(rows), "more": since + limit < len(self.trials[row["job"]])}

    def make_trials(self, row):
        shown, rng, rows = self.job_shown(row), random.Random(row["job"]), []
        tasks, total = shown["tasks"], min(row["done"], self.trial_count)
        counts = [0] * max(1, len(tasks))
        for n in range(total if tasks else 0):
            k = n % len(tasks)
            counts[k] += 1
            task, outcome = tasks[k], "ok" if counts[k] == 1 else weighted(rng, OUTCOMES)
            progress = 1 - math.exp(-counts[k] / (total / len(tasks) / 5))
            floor = task["best_ns"] + (task["default_ns"] - task["best_ns"]) * (1 - progress)
            median = task["default_ns"] if counts[k] == 1 else floor * (1 + rng.expovariate(1.2)) if outcome == "ok" else 0
            rows.append([n + 1, task["key"], counts[k] - 1, NOW_MS - (total - n) * 900, outcome, round(median, 3), 0, 0, "sa" if counts[k] > 1 else "default", 1700000000])
        return rows

    def queue(self):
        waiting = [{"job": job["job"], "position": i + 1, "why": job["text"], "project": job["project"], "user": job["user"], "target": job["target"], "model_name": job["model_name"], "priority": job["priority"],
                    "age_ms": job["age_ms"]} for i, job in enumerate(self.waiting)]
        shares, weights = [0.52, 0.22, 0.19, 0.07], sum(weight for _, weight in PROJECTS)
        return {"jobs": waiting, "projects": [{"project": name, "share": share, "weight": weight, "fair_share": weight / weights, "boards": int(1100 * share), "queue": 3 * i, "board_seconds": 90000 * share}
                                              for i, ((name, weight), share) in enumerate(zip(PROJECTS, shares))]}

    def record(self, i, target, seed=0):
        op, label, flops = OPS[i % len(OPS)]
        rng = random.Random(f"{i}/{target}/{seed}")
        median = (flops / rng.uniform(6e10, 1.6e11) + 1e-6) * 1e9
        return {"trial_id": name_of("trial", i, target, seed), "attempt": 1, "job_id": self.jobs[0]["job"], "task_key": task_key(i % len(OPS)), "target": target, "trial_index": rng.randrange(4000), "algorithm": "winograd_4x4_3x3" if "3x3" in label else "direct",
                "layout_in": "d0,d1/16,d2,d3,d1%16", "layout_out": "d0,d1/16,d2,d3,d1%16", "searcher": "sa", "outcome": "ok", "blame": "none", "detail": "", "error": 0.08, "median_ns": median, "min_ns": median * 0.98, "flops": flops,
                "gflops": flops / median, "op": op, "label": HOSTILE[0] if i == 3 else label, "model": "resnet50.onnx", "user": PEOPLE[i % 4], "project": "vision", "stored_wall_ns": (NOW_MS - i * 3_600_000) * 1_000_000, "final": 1, "gain_low": 1.4, "drift": 1.01}

    def records(self, target=""):
        targets = [t for t, _, _ in TARGETS if not target or t == target]
        return [self.record(i, t) for t in targets for i in range(len(OPS))]

    def stats(self):
        return [{"task": row["task_key"], "op": row["op"], "label": row["label"], "target": row["target"], "records": 4000 + 13 * i, "ok": 3800 + 12 * i, "best_ns": row["median_ns"],
                 "outcomes": {"ok": 3800 + 12 * i, "build_error": 120, "timeout": 80 + i}, "origins": {"measured": 4000 + 13 * i}} for i, row in enumerate(self.records())]

    def compare(self, a, b):
        first, second = ({row["task_key"]: row for row in self.records(target)} for target in (a or PI, b or PHONE))
        side = lambda row: {"trial_id": row["trial_id"], "target": row["target"], "median_ns": row["median_ns"], "stored_wall_ns": row["stored_wall_ns"]}
        return [{"task": key, "label": row["label"], "a": side(row), "b": side(second[key]), "ratio": second[key]["median_ns"] / row["median_ns"]} for key, row in first.items() if key in second]

    def task(self, key):
        index = next((i for i in range(len(OPS)) if task_key(i) == key), None)
        if index is None:
            return None
        op, label, flops = OPS[index]
        return {"task": key, "op": op, "label": label, "flops": flops, "bytes": 1.75e6, "program": PROGRAM, "targets": [row for row in self.stats() if row["task"] == key]}

    def task_trials(self, key, since, count=4000):
        task, rng, rows = self.task(key), random.Random(key), []
        default = (task["flops"] / 4e10 + 2e-6) * 1e9
        for n in range(since, count):
            outcome = "ok" if n == 0 else weighted(rng, OUTCOMES)
            values = [rng.random(), rng.expovariate(1.0)]
            median = default if n == 0 else default * (0.33 + 0.5 * math.exp(-n / 900) + 0.4 * (1 - values[0]) + 0.1 * values[1]) * (1 + rng.expovariate(4)) if outcome == "ok" else 0
            gflops = task["flops"] / median if median else 0
            rows.append([n + 1, key, n, NOW_MS - (count - n) * 800, outcome, median, 0, int(n > count - 12 and outcome == "ok"), SEARCHERS[int(n > 0) + int(n % 9 == 8)], name_of(key, n), self.jobs[0]["job"],
                         "winograd_4x4_3x3" if n % 3 else "direct", "row", "d0,d1/16,d2,d3,d1%16", gflops, gflops / 270, 0, 1e-7, 8000000, 50000000, 1700000000, 4, 0, 0, 0])
        return {"columns": [*TRIAL_COLUMNS, "trial_id", "job", "algorithm", "layout_in", "layout_out", *TRIAL_FEATURES], "features": TRIAL_FEATURES, "rows": rows, "next": count, "more": False}

    def trial(self, trial_id):
        return {**self.record(int(trial_id[:4], 16), PI), "trial_id": trial_id}

    def program(self, trial_id, form):
        return {"trace": TRACE, "words": WORDS, "loops": LOOPS, "assembly": ASM}[form].replace("TILE", str(1 + int(trial_id[:2], 16) % 5))

    def roofline(self, target):
        rates = {"memory": 5.2e9, "third cache": 0, "second cache": 2.3e10, "first cache": 9.1e10}
        return {"target": target, "of": "core", "source": "measured by a board with this processor", "levels": [{"name": name, "bytes_per_s": rate} for name, rate in rates.items() if rate]}

    def cost_model(self, target, key=None):
        target = target or PI
        rng = random.Random(target)
        tasks = [{"task": task_key(i), "op": op, "samples": 1600, "held_out": 400, "rank_correlation": 0.94 - 0.02 * i, "pairs_right": 0.9 - 0.01 * i} for i, (op, _, _) in enumerate(OPS[:6])]
        rows = [[m := -abs(rng.gauss(0, 1.4)), m * 0.8 + rng.gauss(0, 0.25)] for _ in range(1200)]
        features = [{"feature": name, "unit": unit, "doc": doc, "gain": 10 / (i + 1) ** 1.4} for i, (name, unit, doc) in enumerate(FEATURES)]
        model = {"event": "cost model", "target": target, "records": 9600, "learnt_from": 7200, "held_out": 2400, "unreadable": 0, "tasks": len(tasks), "rank_correlation": 0.89, "top_recall": 0.86,
                 "points": {"columns": ["measured", "predicted"], "rows": rows}, "by_task": tasks, "importance": features}
        trials = [{"trial": name_of(key, n), "median_ns": 1e6, "score": 0.0, "held_out": False, "values": [rng.uniform(0, 12) for _ in FEATURES]} for n in range(4000 if key else 0)]
        return {"items": [model, *({"target": other, "records": 4000} for other, _, _ in TARGETS if other != target)], "trials": {"event": "trials", "task": key, "features": features, "trials": trials} if key else None}

    def module(self):
        """A residual network of stages, as `kiln inspect --steps --json` prints one."""
        steps, tensors = [], []

        def buffer(kind, size, name=None, **more):
            tensors.append({"event": "tensor", "buffer": len(tensors), "kind": kind, "name": name, "bytes": size, "device": 0, "offset": None, "part_of": None, "part_at": None, "first": None, "last": None, **more})
            return len(tensors) - 1

        def step(which, inputs, size, name=None):
            op, label, flops = OPS[which]
            weights = [buffer("constant", 1_400_000)] if "conv" in op or op == "gemm" else []
            out = buffer("output" if op == "softmax" else "workspace", size, "probability" if op == "softmax" else None)
            steps.append({"event": "step", "number": len(steps), "name": name or f"layer{len(steps)}", "op": op, "algorithm": "winograd_4x4_3x3" if "3x3" in label else "direct", "task": task_key(which), "flops": flops, "action": "kernel", "device": 0, "loop": None,
                          "sources": sorted(maker[one] for one in inputs if one in maker), "inputs": [*inputs, *weights], "outputs": [out], "layout_in": ";".join(["d0,d1/16,d2,d3,d1%16"] * len(inputs)), "layout_out": "row" if which in (9, 3, 5) else "d0,d1/16,d2,d3,d1%16",
                          "in_use": 0, "device_in_use": 0, "scratch_bytes": 900_000 if "3x3" in label else 0})
            maker[out] = len(steps) - 1
            return out

        maker = {}
        x = step(7, [buffer("input", 602_112, "image")], 802_816)
        for stage in range(4):
            for block in range(2):
                inside = step(6 * (stage % 2), [x], 802_816 >> stage, HOSTILE[0] if (stage, block) == (1, 1) else None)
                around = step(2, [x], 802_816 >> stage) if stage and not block else x
                x = step(1, [inside, around], 802_816 >> stage)
        x = step(9, [x], 2048)
        again = buffer("workspace", 2048, part_of=x, part_at=0)
        steps.append({**steps[-1], "number": len(steps), "name": "flat", "op": "flatten", "algorithm": "", "task": "", "flops": 0, "action": "alias", "sources": [maker[x]], "inputs": [x], "outputs": [again], "layout_in": "", "layout_out": "", "scratch_bytes": 0})
        maker[again] = len(steps) - 1
        step(5, [step(3, [again], 4000)], 4000)
        for one in tensors:
            root = one["buffer"] if one["part_of"] is None else one["part_of"]
            named = [line["number"] for line in steps if {root, again if root == x else root} & {*line["inputs"], *line["outputs"]}]
            one["first"], one["last"] = {"input": 0, "constant": 0}.get(one["kind"], min(named)), len(steps) - 1 if one["kind"] in ("constant", "output") else max(named)
        at = 0
        for one in tensors:
            if one["kind"] == "workspace" and one["part_of"] is None:
                one["offset"], at = at, at + one["bytes"]
        for line in steps:
            line["in_use"] = sum(one["bytes"] for one in tensors if one["offset"] is not None and one["first"] <= line["number"] <= one["last"])
        module = {"event": "module", "file": "m.kiln", "bytes": 128552, "format": 1, "metadata": {"model": "resnet50.onnx", "target": PI, "codegen": "20-llvm19.1.7", "tasks": "10", "tuned": "9", "software": "kiln 0.1.0"}, "signature": "none", "signer": "",
                  "threads": 4, "kernels": len(steps) - 1, "calls": len(steps) - 1, "steps": len(steps), "arena_bytes": max(line["in_use"] for line in steps), "device_bytes": 0, "constant_bytes": sum(one["bytes"] for one in tensors if one["kind"] == "constant")}
        return [module, {"event": "input", "name": "image", "dtype": "f32", "shape": [1, 3, 224, 224], "bytes": 602112}, {"event": "output", "name": "probability", "dtype": "f32", "shape": [1, 1000], "bytes": 4000}, *steps, *tensors]

    def change(self, count):
        """Some boards become another state: the rows of an event."""
        self.seq += 1
        rows = []
        for _ in range(count):
            board = self.rng.choice(self.boards)
            board["state"] = "free" if board["state"] == "leased" else "leased"
            board["busy"] = int(board["state"] == "leased")
            board["trials"] += 3
            rows.append(dict(board))
        return {"seq": self.seq, "rows": rows, "gone": []}
