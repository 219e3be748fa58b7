#!/usr/bin/env bash
# The demo tunes a small network, one convolution and ResNet-18 on this machine (with MODEL.onnx that model instead of the
# networks) and shows before and after. Run it as `./dev demo [--target TARGET] [MODEL.onnx]`. Without a target it uses the
# processor, else this machine's device of that target (opencl,emulated; h200). KILN is the command,
# KILN_DEMO_TRIALS the budget per task of the small network, KILN_DEMO_SECONDS the time for everything.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
kiln=${KILN:-kiln}
digits=$here/digits/digits.onnx
on=()
if [ "${1:-}" = --target ]; then
    on=(--target "${2:?which target?}")
    shift 2
fi
model=${1:-$digits}
per_task=${KILN_DEMO_TRIALS:-32}
seconds=${KILN_DEMO_SECONDS:-270}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
db=$work/demo.db

say() { printf '\n== %s\n' "$*"; }
get() { python3 "$here/show.py" get "$@"; }

tune() { # NAME MODEL OPTION...: prints the table, leaves NAME.json and NAME.kiln
    local name=$1 onnx=$2
    "$kiln" tune "$onnx" "${on[@]}" "${@:3}" --db "$db" --out "$work/$name.kiln" --json > "$work/$name.json"
    python3 "$here/show.py" table "$work/$name.json"
}

say "The model: $(basename "$model")${on[1]:+, for ${on[1]}}"
"$kiln" explain "$model" "${on[@]}" --stage tasks | grep '^task' | head -20 || true
"$kiln" compile "$model" "${on[@]}" -o "$work/default.kiln" --db none --json > "$work/compiled.json"
tasks=$(get "$work/compiled.json" compiled tasks)

say "Tuning its $tasks tasks, $per_task trials each, on this machine (a private tracker, tuner and rpc-server)"
tune model "$model" --trials $((per_task * tasks))

say "Tuning one convolution of ResNet-18 (conv:C2)"
"$kiln" zoo conv:C2 -o "$work/c2.onnx"
tune c2 "$work/c2.onnx" --trials 48

say "The database remembers every trial"
"$kiln" db best --db "$db"

say "Why conv:C2 is fast"
"$kiln" explain "$work/c2.onnx" "${on[@]}" --why 0 --db "$db"

say "The module runs without a compiler"
"$kiln" run "$work/model.kiln" --bench
accuracy_before=- accuracy_after=-
if [ "$model" = "$digits" ]; then
    "$kiln" run "$work/default.kiln" --input image="$here/digits/images.npy" --output "$work/before" > /dev/null
    "$kiln" run "$work/model.kiln" --input image="$here/digits/images.npy" --output "$work/after"
    accuracy_before=$(python3 "$here/digits/accuracy.py" "$here/digits/labels.npy" "$work/before/probability.npy")
    accuracy_after=$(python3 "$here/digits/accuracy.py" "$here/digits/labels.npy" "$work/after/probability.npy" "$work/before/probability.npy")
    echo "the same class on every test image, before and after"
fi

if [ "$model" = "$digits" ] && [[ "${on[*]}" != *emulated* ]]; then
    # Its share of the time: the rest, less the time of references, finals and packing.
    left=$((seconds - SECONDS - 75))
    budget=$((left > 20 ? left : 20))
    say "Tuning ResNet-18 for $budget seconds"
    "$kiln" zoo resnet18 -o "$work/resnet18.onnx"
    tune resnet18 "$work/resnet18.onnx" --seconds "$budget"
    printf '\nresnet18: default %s ms, tuned %s ms, %s verified trials\n' "$(get "$work/resnet18.json" module default_ms)" \
        "$(get "$work/resnet18.json" module tuned_ms)" "$(get "$work/resnet18.json" done verified)"
fi

printf 'demo: default %s ms, tuned %s ms, accuracy %s -> %s, conv:C2 %.2f of peak\n' \
    "$(get "$work/model.json" module default_ms)" "$(get "$work/model.json" module tuned_ms)" \
    "$accuracy_before" "$accuracy_after" "$(get "$work/c2.json" done tasks 0 share_of_peak)"
