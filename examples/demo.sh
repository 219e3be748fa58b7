#!/usr/bin/env bash
# The demo: tunes a small network (or the one you name) and one convolution on this machine and shows before and
# after. Run it as `./dev demo [MODEL.onnx]`. KILN is the command, KILN_DEMO_TRIALS the budget per task.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
kiln=${KILN:-kiln}
model=${1:-$here/digits/digits.onnx}
per_task=${KILN_DEMO_TRIALS:-48}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
db=$work/demo.db

# One field of the last JSON line with that event: field FILE EVENT EXPRESSION(on e).
field() {
    python3 - "$@" <<'PY'
import json, sys
events = [json.loads(line) for line in open(sys.argv[1]) if line.startswith("{")]
e = [x for x in events if x.get("event") == sys.argv[2]][-1]
print(eval(sys.argv[3], {"e": e, "len": len, "sum": sum, "max": max}))
PY
}

say() { printf '\n== %s\n' "$*"; }

tune() { # tune MODEL TASKS NAME: prints the table, leaves NAME.json and NAME.kiln
    "$kiln" tune "$1" --trials $((per_task * $2)) --db "$db" --out "$work/$3.kiln" --json > "$work/$3.json"
    python3 - "$work/$3.json" <<'PY'
import json, sys
events = [json.loads(line) for line in open(sys.argv[1]) if line.startswith("{")]
done = [x for x in events if x["event"] == "done"][-1]
module = [x for x in events if x["event"] == "module"][-1]
print(f"{'task':<34} {'default':>11} {'tuned':>11} {'':>7} {'GFLOP/s':>8} {'of peak':>8}")
for t in done["tasks"]:
    gain = t["default_ms"] / t["best_ms"] if t["best_ms"] and t["default_ms"] else 0
    print(f"{t['op'][:34]:<34} {t['default_ms']:>8.4f} ms {t['best_ms']:>8.4f} ms {gain:>6.2f}x {t['gflops']:>8.1f} {t['share_of_peak']:>8.2f}")
equal = module["low"] <= 1 <= module["high"]
word = "equal" if equal else "faster" if module["ratio"] > 1 else "slower: the default is shipped"
print(f"whole model, interleaved runs: default {module['default_ms']:.4f} ms, tuned {module['tuned_ms']:.4f} ms: {word}"
      f" ({module['ratio']:.2f}x, 95 % interval {module['low']:.2f} to {module['high']:.2f})")
print(f"{done['verified']} verified trials, {done['trials_per_s']:.1f} per second; FMA peak of a core {done['peak_gflops']:.1f} GFLOP/s")
PY
}

say "The model: $(basename "$model")"
"$kiln" explain "$model" --stage tasks | grep -E '^(task|[0-9v])' | head -20 || true
tasks=$("$kiln" compile "$model" -o "$work/default.kiln" --db "$work/empty.db" --json | python3 -c 'import json,sys; print(json.load(sys.stdin)["tasks"])')

say "Tuning its $tasks tasks, $per_task trials each, on this machine (a private tracker, tuner and rpc-server)"
tune "$model" "$tasks" model

say "Tuning one convolution of ResNet-18 (conv:C2)"
"$kiln" zoo conv:C2 -o "$work/c2.onnx"
tune "$work/c2.onnx" 1 c2

say "The database remembers every trial"
"$kiln" db stats --db "$db"
"$kiln" db best --db "$db"

say "The module runs without a compiler"
"$kiln" run "$work/model.kiln" --bench
accuracy_before=- accuracy_after=-
if [ "$model" = "$here/digits/digits.onnx" ]; then
    "$kiln" run "$work/default.kiln" --input image="$here/digits/images.npy" --output "$work/before" > /dev/null
    "$kiln" run "$work/model.kiln" --input image="$here/digits/images.npy" --output "$work/after"
    accuracy_before=$(python3 "$here/digits/accuracy.py" "$here/digits/labels.npy" "$work/before/probability.npy")
    accuracy_after=$(python3 "$here/digits/accuracy.py" "$here/digits/labels.npy" "$work/after/probability.npy" "$work/before/probability.npy")
    echo "the same class on every test image, before and after"
fi

printf '\ndemo: default %.4f ms, tuned %.4f ms, accuracy %s -> %s, conv:C2 %.2f of peak\n' \
    "$(field "$work/model.json" module 'e["default_ms"]')" "$(field "$work/model.json" module 'e["tuned_ms"]')" \
    "$accuracy_before" "$accuracy_after" "$(field "$work/c2.json" done 'e["tasks"][0]["share_of_peak"]')"
