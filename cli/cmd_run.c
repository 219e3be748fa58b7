/* Runs a module on given or seeded random inputs, or times it; here, or on a board of a tracker. */
#include "base/file.h"
#include "base/stats.h"
#include "cli/bench.h"
#include "cli/cli.h"
#include "cli/common/run_on.h"
#include "cli/display.h"
#include "cli/module_trust.h"
#include "cli/run_check.h"
#include "cli/wasm_file.h"
#include "deploy/runtime/module_open.h"

typedef struct options {
    kiln_opt_list given, trust;
    const char *module, *folder, *dim, *model;
    uint64_t threads;
    bool bench, perf, json, check;
    kiln_run_check reference;  /* with --check */
    kiln_run_on_options there; /* `on` NULL: here */
} options;

static void print_json(const kiln_run *run) {
    for (uint32_t i = 0; i < kiln_module_output_count(run->module); i++) {
        const kiln_run_range range = kiln_run_range_of(run, i);
        kiln_json_line(json_pack("{s:s, s:s, s:I, s:f, s:f, s:f}", "event", "output", "name",
                                 kiln_module_output(run->module, i)->name, "elements",
                                 (json_int_t)range.count, "min", range.low, "max", range.high,
                                 "mean", range.mean));
    }
}

static void print_checked(const options *o, const char *name, const kiln_run_checked *checked) {
    if (o->json) {
        kiln_json_line(json_pack("{s:s, s:s, s:b, s:I, s:f, s:f}", "event", "checked", "name", name,
                                 "right", (int)checked->right, "different",
                                 (json_int_t)checked->different, "max_error", checked->error,
                                 "max_reference", checked->size));
        return;
    }
    kiln_print_text(kiln_str_from(name), KILN_TEXT_LINE, stdout);
    printf(": %s", checked->right ? "right" : "WRONG");
    if (checked->error > 0)
        printf(", at most %.3g off a reference of at most %.3g", checked->error, checked->size);
    putchar('\n');
}

static kiln_status check_run(const options *o, const kiln_run *run, kiln_arena *process) {
    kiln_run_checked *checked = NULL;
    uint32_t wrong = 0;
    kiln_status st = kiln_run_check_finish(&o->reference, run, &o->given, process, &checked);
    for (uint32_t i = 0; !st && i < kiln_module_output_count(run->module); i++) {
        print_checked(o, kiln_module_output(run->module, i)->name, &checked[i]);
        wrong += !checked[i].right;
    }
    if (st || !wrong) return st;
    return KILN_ERROR(INTERNAL, "%u outputs of %s are not what %s computes as it is written", wrong,
                      o->module, o->reference.model);
}

static kiln_status show_outputs(const options *o, const kiln_run *run, kiln_arena *process) {
    if (o->json)
        print_json(run);
    else
        kiln_run_print(run);
    kiln_status st = o->folder ? kiln_run_write(run, o->folder, process) : KILN_OK;
    return !st && o->check ? check_run(o, run, process) : st;
}

/* What can be known before anything runs. */
static kiln_status check_outputs(const options *o, const kiln_module *module, kiln_arena *process) {
    kiln_run_note_threads(module, o->threads);
    return o->folder ? kiln_run_check_output(module, o->folder, process) : KILN_OK;
}

/* With --trust in memory of our own, so that nobody changes the file after it was checked. */
static kiln_status load_trusted(const options *o, kiln_arena *process, kiln_str *out_bytes) {
    kiln_status st = kiln_module_read_trusted(o->module, &o->trust, process, out_bytes);
    return kiln_status_note(st, "module %s", o->module);
}

static kiln_status load_here(const options *o, kiln_arena *process, kiln_module **out_module) {
    const uint32_t threads = (uint32_t)KILN_MIN(o->threads, 1024);
    kiln_str bytes;
    if (o->trust.count == 0) return kiln_module_load(o->module, threads, out_module);
    kiln_status st = load_trusted(o, process, &bytes);
    if (st) return st;
    return kiln_status_note(kiln_module_load_bytes(bytes, threads, out_module), "module %s",
                            o->module);
}

static kiln_status run_here(const options *o, kiln_arena *process) {
    kiln_module *module = NULL;
    kiln_run run = {0};
    kiln_status st = load_here(o, process, &module);
    if (!st) st = kiln_run_set_dim(module, o->dim);
    if (!st) st = check_outputs(o, module, process);
    if (!st) st = kiln_run_init(&run, module, &o->given, kiln_read_tensor, process);
    if (!st) kiln_run_move_near(&run);
    if (!st && o->perf) st = kiln_run_write_perf_map(module, process);
    if (!st && o->bench) st = kiln_bench_print(&run, o->json, process);
    if (!st && !o->bench) st = kiln_run_samples(&run);
    if (!st && !o->bench) st = show_outputs(o, &run, process);
    kiln_module_close(module);
    return st;
}

static kiln_status look_at(const options *o, kiln_str bytes, kiln_arena *process,
                           kiln_module **out_module) {
    kiln_status st =
        kiln_wasm_file_is(bytes)
            ? kiln_wasm_file_inspect(bytes, process, out_module)
            : kiln_module_inspect(bytes, (uint32_t)KILN_MIN(o->threads, 1024), out_module);
    return kiln_status_note(st, "module %s", o->module);
}

/* The module is only looked at here. A bench shows its times, and writes the outputs where it is
 * told to: they came as well. */
static kiln_status run_there(const options *o, kiln_arena *process) {
    kiln_module *module = NULL;
    kiln_run run = {0};
    kiln_run_on_done done = {0};
    kiln_mapping file = {0};
    if (o->perf)
        return KILN_ERROR(INVALID_ARGUMENT, "--perf names kernels of this process: leave out --on");
    kiln_run_on_options there = o->there;
    kiln_status st =
        o->trust.count ? load_trusted(o, process, &there.module) : kiln_file_map(o->module, &file);
    if (o->trust.count == 0) there.module = (kiln_str){file.data, file.size};
    if (!st) st = look_at(o, there.module, process, &module);
    if (!st) st = kiln_run_set_dim(module, o->dim);
    if (!st) st = check_outputs(o, module, process);
    if (!st) st = kiln_run_init(&run, module, &o->given, kiln_read_tensor, process);
    if (!st) st = kiln_run_on(&there, &run, process, &done);
    if (!st && o->bench && done.emulated)
        fprintf(stderr, "the board is emulated: these times say nothing about a real one\n");
    if (!st && o->bench) kiln_bench_print_times(module, &done.times, o->json);
    if (!st && !o->bench) st = show_outputs(o, &run, process);
    if (!st && o->bench && o->folder) st = kiln_run_write(&run, o->folder, process);
    kiln_module_close(module);
    kiln_file_unmap(&file);
    return st;
}

kiln_status kiln_cmd_run(kiln_arena *process, int argc, char **argv) {
    bool waits = false;
    options o = {.there.client = {.waits = kiln_waits_show, .waits_context = &waits}};
    const kiln_opt option[] = {
        {"input", KILN_OPT_LIST, &o.given, "NAME=FILE",
         "an input from a .npy or .pb file; several samples may be stacked"},
        {"dim", KILN_OPT_TEXT, &o.dim, "NAME=N", kiln_run_dim_help},
        {"output", KILN_OPT_TEXT, &o.folder, "DIR", "write each output to DIR/NAME.npy"},
        {"bench", KILN_OPT_FLAG, &o.bench, NULL, "time runs, and each kernel"},
        {"check", KILN_OPT_FLAG, &o.check, NULL,
         "compare each output with the model, run on this machine without passes and schedules"},
        {"model", KILN_OPT_TEXT, &o.model, "FILE",
         "check: the model's file (default: the one that the module names, in its folder or here)"},
        {"perf", KILN_OPT_FLAG, &o.perf, NULL, "name kernels for perf, in /tmp/perf-PID.map"},
        {"threads", KILN_OPT_COUNT, &o.threads, "N",
         "at most N threads (default and limit: as compiled)"},
        {"trust", KILN_OPT_LIST, &o.trust, "WHO", kiln_trust_help},
        {"on", KILN_OPT_TEXT, &o.there.on, "BOARD[,K=V...]",
         "run it on a board of this name, or with these labels, in its sandbox"},
        {"limit", KILN_OPT_COUNT, &o.there.limit_s, "S",
         "end a run on a board after S seconds (default 60)"},
        KILN_CLIENT_OPTIONS(&o.there.client),
        {"json", KILN_OPT_FLAG, &o.json, NULL, "print one object per line"},
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
    o.module = o.there.name = args.positional[0];
    o.there.bench = o.bench;
    if (o.check && o.bench)
        return KILN_ERROR(INVALID_ARGUMENT, "--check is of a run's outputs: leave out --bench");
    if (o.check) st = kiln_run_check_start(o.module, o.model, o.dim, process, &o.reference);
    if (st) return st;
    return o.there.on ? run_there(&o, process) : run_here(&o, process);
}
