/* kiln-run: runs a module on a board. One static file without dependencies except the kernel. */
#include <stdio.h>

#include "base/macros.h"
#include "base/proc.h"
#include "base/version.h"
#include "deploy/run/run.h"

typedef struct options {
    kiln_opt_list input;
    const char *output, *dim;
    uint64_t threads;
    bool bench, perf, version;
} options;

static kiln_status bench(const kiln_run *run, kiln_arena *process) {
    const char *emulator = kiln_proc_emulator(process);
    kiln_run_times times;
    kiln_status st = kiln_run_time(run, process, &times);
    if (st) return st;
    if (emulator) {
        printf("emulated by %s: these times say nothing of the processor\n", emulator);
        times.peak_flops = 0; /* the peak of an emulator is meaningless */
    }
    kiln_run_print_times(run->module, &times);
    return KILN_OK;
}

static kiln_status run_module(const options *o, const char *path, kiln_arena *process) {
    kiln_module *module = NULL;
    kiln_run run = {0};
    kiln_status st = kiln_module_load(path, (uint32_t)KILN_MIN(o->threads, 1024), &module);
    if (!st) st = kiln_run_set_dim(module, o->dim);
    if (!st) kiln_run_note_threads(module, o->threads);
    if (!st && o->output) st = kiln_run_check_output(module, o->output, process);
    if (!st) st = kiln_run_init(&run, module, &o->input, kiln_tensor_read_npy, process);
    if (!st) kiln_run_move_near(&run);
    if (!st && o->perf) st = kiln_run_write_perf_map(module, process);
    if (!st && o->bench) st = bench(&run, process);
    if (!st && !o->bench) st = kiln_run_samples(&run);
    if (!st && !o->bench) kiln_run_print(&run);
    if (!st && !o->bench && o->output) st = kiln_run_write(&run, o->output, process);
    kiln_module_close(module);
    return st;
}

static kiln_status start(kiln_arena *process, int argc, char **argv) {
    options o = {0};
    const kiln_opt option[] = {
        {"input", KILN_OPT_LIST, &o.input, "NAME=FILE",
         "an input from a .npy file; several samples may be stacked"},
        {"dim", KILN_OPT_TEXT, &o.dim, "NAME=N", kiln_run_dim_help},
        {"output", KILN_OPT_TEXT, &o.output, "DIR", "write each output to DIR/NAME.npy"},
        {"bench", KILN_OPT_FLAG, &o.bench, NULL, "time runs, and each kernel"},
        {"perf", KILN_OPT_FLAG, &o.perf, NULL, "name kernels for perf, in /tmp/perf-PID.map"},
        {"threads", KILN_OPT_COUNT, &o.threads, "N",
         "at most N threads (default and limit: as compiled)"},
        {"version|V", KILN_OPT_FLAG, &o.version, NULL, "print the version and end"},
    };
    const kiln_opt_table table = {"kiln-run MODULE [options]",
                                  "Runs a module once per sample; inputs that are not given are "
                                  "seeded random data.",
                                  option,
                                  KILN_ARRAY_COUNT(option),
                                  0, /* --version has none */
                                  1};
    kiln_args args;
    kiln_status st = kiln_opt_parse(&table, argc, argv, process, &args);
    if (st) return st;
    if (o.version) {
        printf("kiln-run %s\n", kiln_version_text);
        return KILN_OK;
    }
    if (!args.help && !args.count)
        return KILN_ERROR(INVALID_ARGUMENT, "MODULE is missing; usage: %s", table.usage);
    if (!args.help) return run_module(&o, args.positional[0], process);
    kiln_strbuf text = {0};
    kiln_opt_print_help(&table, &text);
    fputs(text.data, stdout);
    kiln_strbuf_deinit(&text);
    return KILN_OK;
}

int main(int argc, char **argv) {
    kiln_arena process;
    kiln_arena_init(&process, 0);
    kiln_status st = start(&process, argc, argv);
    if (!st && (fflush(stdout) || ferror(stdout)))
        st = KILN_ERROR(RESOURCE_EXHAUSTED, "standard output cannot be written");
    if (st) fprintf(stderr, "kiln-run: %s\n", kiln_status_text(st));
    int exit_code = kiln_code_exit(kiln_status_code(st));
    kiln_status_free(st);
    kiln_arena_deinit(&process);
    return exit_code;
}
