#!/bin/sh
# Everything that needs a device, on each that this machine has: doctor, kernels against their references through the contained
# child, cases of ONNX's backend tests, hostile device code. Skips by name what is not here. `./dev test device` runs it from
# the tree, a bundle (`./dev bundle gpu`) has it as test-device. The programs are on PATH; no other package is needed.
#
# usage: device.sh [CASES [TESTS]]: folders of cases and of test programs
cases=${1:-/usr/share/libonnx-testdata/data/node} tests=${2:-}
case_names="test_relu test_add_bcast test_matmul_2d test_softmax_axis_1 test_maxpool_2d_default test_reduce_sum_keepdims_example test_conv_with_strides_padding test_gemm_all_attributes"
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT || exit 16
export KILN_HOME="$folder/home" POCL_CACHE_DIR="$folder/driver"
mkdir "$folder/driver"
failed=0

run() { # PROGRAM: one that skips cases says how many, and why the first one
    "$tests/test-rpc-server-$1" > "$folder/log" 2>&1
    code=$?
    skipped=$(sed -n 's/^\[  SKIPPED \] \([0-9]*\) test.*/\1/p' "$folder/log")
    why=${skipped:+$skipped cases: $(sed -n 's/^# //p' "$folder/log" | head -1)}
    if [ $code = 0 ] && [ -n "$why" ] && ! grep -q '^\[  PASSED  \] [1-9]' "$folder/log"; then
        echo "skip $1: $why"
    else
        report $code "$1: faults of device code${why:+, without $why}"
    fi
}

report() { # EXIT-CODE NAME: with the last lines of what it said
    if [ "$1" = 0 ]; then echo "ok   $2"; else echo "FAIL $2" && tail -5 "$folder/log" && failed=1; fi
}

all_are_ok() { # RESULTS
    ! grep '^{"table":"record"' "$1" | grep -qv '"outcome":"ok"'
}

measure() { # EXECUTOR TARGET MODEL
    kiln zoo "$3" -o "$folder/m.onnx" > "$folder/log" 2>&1 &&
        kiln batch "$folder/m.onnx" --target "$2" --candidates 8 -o "$folder/b" >> "$folder/log" 2>&1 &&
        kiln-rpc-server --executor "$1" --batch "$folder/b" >> "$folder/log" 2>&1 &&
        all_are_ok "$folder/b/results.jsonl"
    report $? "$1: schedules of $3"
    rm -rf "$folder/b"
}

verify() { # EXECUTOR TARGET
    for name in $case_names; do
        if [ -d "$cases/$name" ]; then
            kiln verify --target "$2" "$cases/$name" > "$folder/log" 2>&1
            report $? "$1: $name"
        else
            echo "skip $1: $name: it is not in $cases"
        fi
    done
}

try_device() { # EXECUTOR
    kiln-rpc-server --executor "$1" --doctor > "$folder/log" 2>&1
    target=$(sed -n "s/^ok *device *\($1:[^ ]*\): .*/\1/p" "$folder/log")
    if [ -z "$target" ]; then
        echo "skip $1: $(sed -n 's/^[^ ]* *device *//p' "$folder/log" | head -1)"
        return
    fi
    echo "$1: $target"
    for model in gemm:64x64x64 conv:C12; do measure "$1" "$target" "$model"; done
    verify "$1" "$target"
}

for executor in opencl cuda; do try_device "$executor"; done
for name in gpu_served gpu_hostile gpu_hostile_ptx; do
    if [ -x "$tests/test-rpc-server-$name" ]; then
        run "$name"
    else
        echo "skip $name: the program is not here"
    fi
done
exit $failed
