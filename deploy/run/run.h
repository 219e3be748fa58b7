/* Runs a module on given or random inputs and times it: shared by `kiln run` on a workstation and
 * `kiln-run` on a board. Example:
 *
 *     kiln_module_load("net.kiln", 0, &module);
 *     kiln_run_init(&run, module, &given, kiln_tensor_read_npy, arena);
 *     kiln_run_move_near(&run);            where runs are timed on devices
 *     kiln_run_samples(&run);              or kiln_run_time(&run, arena, &times)
 *     kiln_run_print(&run);
 *     kiln_module_close(module); */
#ifndef KILN_DEPLOY_RUN_H
#define KILN_DEPLOY_RUN_H

#include "base/opt.h"
#include "base/status.h"
#include "base/tensor.h"
#include "deploy/module.h"

/* kiln_module_open with a status. */
KILN_MUST_USE kiln_status kiln_module_load(const char *path, uint32_t threads,
                                           kiln_module **out_module);
/* kiln_module_open_memory likewise. */
KILN_MUST_USE kiln_status kiln_module_load_bytes(kiln_str bytes, uint32_t threads,
                                                 kiln_module **out_module);
/* Notes on standard error that a module uses fewer threads than `asked`. */
void kiln_run_note_threads(const kiln_module *module, uint64_t asked);
kiln_shape kiln_port_shape(const kiln_module_port *port);

/* --dim NAME=N: the size of a module of several. INVALID_ARGUMENT: another form or name, or the
 * module has one size; OUT_OF_RANGE: not a size of the module. NULL: does nothing. */
extern const char kiln_run_dim_help[];
KILN_MUST_USE kiln_status kiln_run_set_dim(kiln_module *module, const char *dim);
/* kiln_module_set_size with a status. */
KILN_MUST_USE kiln_status kiln_run_set_size(kiln_module *module, int64_t size);

/* Reads a file of one tensor into `arena`. */
typedef kiln_status (*kiln_run_reader)(const char *path, kiln_arena *arena,
                                       kiln_tensor *out_tensor);

/* Data of one input: [samples] stacked along the file's first dimension, or one. */
typedef struct kiln_run_feed {
    const char *data;
    size_t samples;
} kiln_run_feed;

typedef struct kiln_run {
    kiln_module *module;
    size_t samples;
    kiln_run_feed *feed; /* [input] */
    char **output;       /* [output] all samples, one after the other; NULL: inputs only */
    const void **inputs; /* [input] of one sample */
    void **outputs;      /* [output] of one sample */
} kiln_run;

/* `given`: "NAME=FILE" each; the other inputs are random, always the same. Memory in `arena`.
 * INVALID_ARGUMENT: no such input, a tensor of another type or size; errors of `reader`. */
KILN_MUST_USE kiln_status kiln_run_init(kiln_run *run, kiln_module *module,
                                        const kiln_opt_list *given, kiln_run_reader reader,
                                        kiln_arena *arena);
/* The same without outputs, for a caller that has memory for them. */
KILN_MUST_USE kiln_status kiln_run_init_inputs(kiln_run *run, kiln_module *module,
                                               const kiln_opt_list *given, kiln_run_reader reader,
                                               kiln_arena *arena);
/* Moves inputs and outputs of a single sample to the memory that the module's devices copy fastest
 * (kiln_module_input_memory), if there is one. They live as long as the module then. */
void kiln_run_move_near(kiln_run *run);
/* The same inputs and outputs for another module with equal ports, in the memory of its devices. */
kiln_run kiln_run_near(const kiln_run *run, kiln_module *module, kiln_arena *arena);
/* Sets `inputs`, and `outputs` where there are any, to those of a sample. */
void kiln_run_point(kiln_run *run, size_t sample);
/* Runs the module once per sample. INTERNAL: a kernel failed. */
KILN_MUST_USE kiln_status kiln_run_samples(kiln_run *run);

typedef struct kiln_run_range {
    size_t count;
    double low, high, mean;
} kiln_run_range;
/* The range of all elements of an output. */
kiln_run_range kiln_run_range_of(const kiln_run *run, uint32_t output);
/* A line per output, to standard output. */
void kiln_run_print(const kiln_run *run);
/* Makes the folder, and checks before the run whether kiln_run_write could write there. */
KILN_MUST_USE kiln_status kiln_run_check_output(const kiln_module *module, const char *folder,
                                                kiln_arena *arena);
/* FOLDER/NAME.npy per output; samples are stacked as the inputs were. An output whose rows are
 * stacked by a loop has the rows of that run; with several samples, or a run on another machine,
 * zeros up to the loop's bound. Errors: those of files. */
KILN_MUST_USE kiln_status kiln_run_write(const kiln_run *run, const char *folder,
                                         kiln_arena *arena);

/* Names the code of each kernel for `perf report`, in the file that perf looks for. Steps that
 * share a kernel go by the first. Errors: those of files. */
KILN_MUST_USE kiln_status kiln_run_write_perf_map(const kiln_module *module, kiln_arena *arena);
/* Prints its text: a line per kernel, address and bytes in hexadecimal, name. */
void kiln_run_print_perf_map(const kiln_module *module, kiln_strbuf *out);

/* ---- times -------------------------------------------------------------------------------- */

#define KILN_RUN_TIMES_MAX 2000u
#define KILN_RUN_TIMES_MIN 20u

typedef struct kiln_run_times {
    uint32_t runs;     /* at most KILN_RUN_TIMES_MAX */
    double *whole;     /* [runs] ns */
    double **step;     /* [step][runs] ns, from other runs */
    double peak_flops; /* of the core; 0: unknown */
} kiln_run_times;

/* Buffers for the outputs of one run, aligned. */
void **kiln_run_make_outputs(const kiln_module *module, kiln_arena *arena);
/* One run of `module`, and its time on the host. INTERNAL: a kernel failed. */
KILN_MUST_USE kiln_status kiln_run_once(kiln_module *module, const void *const *inputs,
                                        void *const *outputs, double *out_ns);
/* The same, and its time: where a device counts its times (devices.def), the sum of its steps
 * (kiln_run_step_ns), since a simulator takes longer than the simulated time. Takes the module's
 * hook. */
KILN_MUST_USE kiln_status kiln_run_timed(kiln_module *module, const void *const *inputs,
                                         void *const *outputs, double *out_ns);
/* Runs for a tenth of a second. */
KILN_MUST_USE kiln_status kiln_run_warm_up(kiln_module *module, const void *const *inputs,
                                           void *const *outputs);
/* Time of a step, in its hook call with `done` 1, `host_ns` after its beginning: by the clock of
 * its device, if it ran on one (kiln_module_step_device_ns). */
double kiln_run_step_ns(const kiln_module *module, uint64_t host_ns);
/* Warm-up, then at least 20 runs and 0.5 s, then as many runs step by step. The thread is pinned to
 * its core meanwhile when the module uses one. */
KILN_MUST_USE kiln_status kiln_run_time(const kiln_run *run, kiln_arena *arena,
                                        kiln_run_times *out_times);
/* The same into times whose arrays have room for `runs_max` runs (KILN_RUN_TIMES_MIN or more), on
 * the current core; allocates nothing unless a kernel fails. `peak_flops` is not set. Whole runs
 * come first, without the hook. */
KILN_MUST_USE kiln_status kiln_run_measure(kiln_module *module, const void *const *inputs,
                                           void *const *outputs, uint32_t runs_max,
                                           kiln_run_times *times);
/* A line per kernel and one for the whole, to standard output. */
void kiln_run_print_times(const kiln_module *module, const kiln_run_times *times);

#endif
