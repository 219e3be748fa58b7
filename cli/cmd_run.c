/* Runs a module on given or seeded random inputs, or times it. */
#include "base/stats.h"
#include "cli/bench.h"
#include "cli/cli.h"
#include "deploy/run/run.h"

static kiln_status read_tensor(const char *path, kiln_arena *process, kiln_tensor *out) {
    if (kiln_str_ends(kiln_str_from(path), ".pb")) {
        kiln_named_tensor named;
        kiln_status st = kiln_onnx_tensor_load(path, process, &named);
        if (!st) *out = named.tensor;
        return st;
    }
    return kiln_tensor_read_npy(path, process, out);
}

static void print_json(const kiln_run *run) {
    for (uint32_t i = 0; i < kiln_module_output_count(run->module); i++) {
        const kiln_run_range range = kiln_run_range_of(run, i);
        kiln_json_line(json_pack("{s:s, s:s, s:I, s:f, s:f, s:f}", "event", "output", "name",
                                 kiln_module_output(run->module, i)->name, "elements",
                                 (json_int_t)range.count, "min", range.low, "max", range.high,
                                 "mean", range.mean));
    }
}

static kiln_status run_samples(kiln_run *run, const char *folder, bool json, kiln_arena *process) {
    kiln_status st = kiln_run_samples(run);
    if (st) return st;
    if (json)
        print_json(run);
    else
        kiln_run_print(run);
    return folder ? kiln_run_write(run, folder, process) : KILN_OK;
}

kiln_status kiln_cmd_run(kiln_arena *process, int argc, char **argv) {
    kiln_opt_list given = {0};
    const char *folder = NULL;
    uint64_t threads = 0;
    bool bench = false, perf = false, json = false;
    const kiln_opt option[] = {
        {"input", KILN_OPT_LIST, &given, "NAME=FILE",
         "an input from a .npy or .pb file; several samples may be stacked"},
        {"output", KILN_OPT_TEXT, &folder, "DIR", "write each output to DIR/NAME.npy"},
        {"bench", KILN_OPT_FLAG, &bench, NULL, "time runs, and each kernel"},
        {"perf", KILN_OPT_FLAG, &perf, NULL, "name kernels for perf, in /tmp/perf-PID.map"},
        {"threads", KILN_OPT_COUNT, &threads, "N", "threads to use (default: as compiled)"},
        {"json", KILN_OPT_FLAG, &json, NULL, "print one object per line"},
    };
    const kiln_opt_table table = {"kiln run MODULE [options]",
                                  "Runs a module once per sample; inputs that are not given are "
                                  "seeded random data.",
                                  option,
                                  KILN_ARRAY_COUNT(option),
                                  1,
                                  1};
    kiln_args args;
    kiln_status st = kiln_args_parse(&table, argc, argv, process, &args);
    if (st || args.help) return st;
    kiln_module *module = NULL;
    kiln_run run = {0};
    st = kiln_module_load(args.positional[0], (uint32_t)KILN_MIN(threads, 1024), &module);
    if (!st) st = kiln_run_init(&run, module, &given, read_tensor, process);
    if (!st && perf) st = kiln_run_write_perf_map(module, process);
    if (!st && !bench) st = run_samples(&run, folder, json, process);
    if (!st && bench) st = kiln_bench_print(module, run.inputs, json, process);
    kiln_module_close(module);
    return st;
}
