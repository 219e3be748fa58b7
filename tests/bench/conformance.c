/* bench-conformance TARGET RUNNER... -- CASE...: compiles the models of ONNX's backend tests for
 * another processor and runs their kernels there, in the order of each module's plan; whatever lies
 * between two kernels lies here. RUNNER speaks tests/boards/protocol.h. Without one, modules run
 * here; with "c COMPILER" in its place they become static C, which that compiler makes a library
 * of; with "file PROGRAM ARGUMENT..." modules for WebAssembly become files: what follows gets
 * MODULE FOLDER behind its arguments, reads FOLDER/in0, ... and writes FOLDER/out0, ... Prints a
 * line per case. */
#include <dlfcn.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/child.h"
#include "base/file.h"
#include "base/manifest.h"
#include "base/proc.h"
#include "base/wasm.h"
#include "cli/verify.h"
#include "deploy/runtime/kernel.h"
#include "deploy/runtime/module_read.h"
#include "tests/boards/protocol.h"

#define GARBAGE 0x7b
#define RUNNER_MAX 16
#define WAIT_MS 300000 /* the machine may be busy; a runner that ended is seen at once */

typedef struct board {
    const char *argv[RUNNER_MAX + 1];
    kiln_child child; /* started by the first kernel, and after one that ended it */
} board;

/* A module that runs: where each root buffer of its plan lies. */
typedef struct run {
    board *board;
    kiln_arena arena;
    kiln_module_plan plan;
    uint8_t **root; /* [buffer_count] */
} run;

/* ---- The runner ---- */

static kiln_status gone(board *b) {
    kiln_child_destroy(&b->child);
    b->child = (kiln_child){0};
    return KILN_ERROR(INTERNAL, "the runner ended");
}

/* Its pipes do not block. */
static bool wait_for(int fd, short events) {
    return poll(&(struct pollfd){.fd = fd, .events = events}, 1, WAIT_MS) == 1;
}

static kiln_status send_bytes(board *b, kiln_str bytes) {
    for (size_t at = 0; at < bytes.size;) {
        bool ready = wait_for(b->child.in_fd, POLLOUT);
        ssize_t n = ready ? write(b->child.in_fd, bytes.data + at, bytes.size - at) : 0;
        if (n <= 0) return gone(b);
        at += (size_t)n;
    }
    return KILN_OK;
}

static kiln_status take_bytes(board *b, void *to, size_t size) {
    for (size_t at = 0; at < size;) {
        bool ready = wait_for(b->child.out_fd, POLLIN);
        ssize_t n = ready ? read(b->child.out_fd, (char *)to + at, size - at) : 0;
        if (n <= 0) return gone(b);
        at += (size_t)n;
    }
    return KILN_OK;
}

static kiln_status start(board *b) {
    if (b->child.pid) return KILN_OK;
    return kiln_child_start(
        &(kiln_child_options){.argv = b->argv, .pipe_in = true, .pipe_out = true}, &b->child);
}

/* ---- One kernel ---- */

static uint8_t *address_of(const run *r, uint32_t buffer) {
    return r->root[kiln_module_plan_root(&r->plan, buffer)] +
           kiln_module_plan_offset(&r->plan, buffer);
}

/* Arguments as they are sent: what the kernel writes is garbage before, so that a result that lies
 * where an input does harms nothing. */
static kiln_status append_args(const run *r, const kiln_plan_step *step, const kiln_manifest *m,
                               kiln_strbuf *job) {
    for (uint32_t i = 0; i < m->arg_count; i++) {
        size_t bytes = 0;
        kiln_status st = kiln_manifest_arg_bytes(&m->arg[i], &bytes);
        if (st) return st;
        const uint64_t size = bytes;
        const bool given =
            m->arg[i].role == KILN_ROLE_INPUT || m->arg[i].role == KILN_ROLE_CONSTANT;
        kiln_strbuf_append(job, &size, sizeof size);
        if (given) kiln_strbuf_append(job, address_of(r, step->arg[i]), bytes);
        for (size_t k = 0; !given && k < bytes; k++) kiln_strbuf_char(job, GARBAGE);
    }
    return KILN_OK;
}

/* Arguments beyond those of the step are packed constants, which the kernel makes anew each time.
 */
static kiln_status take_results(run *r, const kiln_plan_step *step, const kiln_manifest *m) {
    board_answer answer;
    kiln_status st = take_bytes(r->board, &answer, sizeof answer);
    answer.text[sizeof answer.text - 1] = 0;
    if (!st && answer.text[0]) return KILN_ERROR(INTERNAL, "there: %s", answer.text);
    for (uint32_t i = 0; !st && i < m->arg_count; i++) {
        size_t bytes = 0;
        st = kiln_manifest_arg_bytes(&m->arg[i], &bytes);
        const bool kept = i < step->arg_count && m->arg[i].role == KILN_ROLE_OUTPUT;
        uint8_t *to = kept ? address_of(r, step->arg[i]) : kiln_arena_alloc(&r->arena, bytes + 1);
        if (!st) st = take_bytes(r->board, to, bytes);
    }
    return st;
}

static kiln_status run_kernel(run *r, const kiln_plan_step *step) {
    kiln_artefact artefact;
    kiln_strbuf job = {0};
    kiln_status st = kiln_artefact_decode(r->plan.kernel[step->kernel], &r->arena, &artefact);
    if (!st) st = start(r->board);
    if (st) return st;
    const kiln_manifest *m = &artefact.manifest;
    const board_job head = {.object_bytes = artefact.payload.size,
                            .arg_count = m->arg_count,
                            .scratch_bytes = m->scratch_bytes,
                            .worker_scratch_bytes = m->scratch_worker_bytes,
                            .workers = 1,
                            .prepares = m->has_prepare};
    kiln_strbuf_append(&job, &head, sizeof head);
    kiln_strbuf_str(&job, artefact.payload);
    st = append_args(r, step, m, &job);
    if (!st) st = send_bytes(r->board, kiln_strbuf_view(&job));
    if (!st) st = take_results(r, step, m);
    kiln_strbuf_deinit(&job);
    return st;
}

/* ---- A module ---- */

static void lay_out(run *r, const void *const *inputs, void *const *outputs) {
    const kiln_module_plan *plan = &r->plan;
    uint8_t *activations = kiln_arena_alloc(&r->arena, (size_t)plan->arena_bytes + 1);
    r->root = KILN_ARENA_ARRAY(&r->arena, uint8_t *, plan->buffer_count);
    for (uint32_t i = 0; i < plan->buffer_count; i++) {
        const kiln_plan_buffer *b = &plan->buffer[i];
        switch (b->storage) {
        case KILN_STORAGE_ARENA: r->root[i] = activations + b->offset; break;
        case KILN_STORAGE_CONSTANT: r->root[i] = (uint8_t *)(uintptr_t)b->data; break;
        case KILN_STORAGE_INPUT: r->root[i] = (uint8_t *)(uintptr_t)inputs[b->source]; break;
        case KILN_STORAGE_OUTPUT: r->root[i] = outputs[b->source]; break;
        case KILN_STORAGE_ALIAS: break; /* part of its root */
        }
    }
}

static kiln_status run_steps(run *r) {
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i < r->plan.step_count; i++) {
        const kiln_plan_step *step = &r->plan.step[i];
        if (step->action == KILN_ACTION_KERNEL) st = run_kernel(r, step);
        if (step->action == KILN_ACTION_COPY)
            memmove(address_of(r, step->arg[1]), address_of(r, step->arg[0]),
                    (size_t)r->plan.buffer[step->arg[0]].size_bytes);
        st = kiln_status_note(st, "step %u, %.*s", i, KILN_STR_ARG(step->op));
    }
    return st;
}

static kiln_status run_there(void *context, kiln_str bytes, const void *const *inputs,
                             void *const *outputs, int64_t *rows) {
    (void)rows;
    run r = {.board = context};
    size_t constant_bytes = 0;
    kiln_module_sizes sizes;
    kiln_arena_init(&r.arena, 0);
    char *aligned = kiln_arena_alloc_aligned(&r.arena, KILN_MODULE_SECTION_ALIGNMENT, bytes.size);
    memcpy(aligned, bytes.data, bytes.size);
    kiln_status st =
        kiln_module_decode((kiln_str){aligned, bytes.size}, &r.arena, &sizes, &constant_bytes);
    if (!st) r.plan = sizes.bucket->plan;
    if (!st && !kiln_module_plan_is_plain(&r.plan))
        st = KILN_ERROR(UNIMPLEMENTED, "a module with loops or devices");
    if (!st) {
        lay_out(&r, inputs, outputs);
        st = run_steps(&r);
    }
    kiln_arena_deinit(&r.arena);
    return st;
}

/* ---- Static C ---- */

#define NET_HEADER "int net_run(const void *const *inputs, void *const *outputs);\n"

#define NET_ROWS "unsigned long net_rows["

typedef int (*net_entry)(const void *const *inputs, void *const *outputs);

/* What compiles, and where. */
typedef struct c_context {
    const char *compiler, *folder;
    uint32_t count; /* libraries so far: each is a file of its own */
} c_context;

/* How many outputs the text counts rows of. */
static uint32_t counted_outputs(kiln_str text) {
    const char *at = memmem(text.data, text.size, NET_ROWS, strlen(NET_ROWS));
    return at ? (uint32_t)strtoul(at + strlen(NET_ROWS), NULL, 10) : 0;
}

static kiln_status run_library(const char *path, const void *const *inputs, void *const *outputs,
                               uint32_t counted, int64_t *rows) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) return KILN_ERROR(INTERNAL, "%s", dlerror());
    net_entry entry = (net_entry)(uintptr_t)dlsym(library, "net_run");
    const unsigned long *net_rows = dlsym(library, "net_rows");
    kiln_status st = KILN_OK;
    if (!entry) st = KILN_ERROR(INTERNAL, "there is no net_run");
    if (!st && entry(inputs, outputs) != 0) st = KILN_ERROR(INTERNAL, "net_run failed");
    for (uint32_t i = 0; !st && rows && net_rows && i < counted; i++)
        rows[i] = (int64_t)net_rows[i];
    dlclose(library);
    return st;
}

static kiln_status run_as_c(void *context, kiln_str text, const void *const *inputs,
                            void *const *outputs, int64_t *rows) {
    c_context *c = context;
    kiln_arena arena;
    kiln_proc_result result;
    kiln_arena_init(&arena, 0);
    const char *library = kiln_arena_printf(&arena, "%s/net%u.so", c->folder, c->count++);
    const char *source = kiln_arena_printf(&arena, "%s/net.c", c->folder);
    const char *const argv[] = {c->compiler, "-std=c11", "-O1",  "-Wno-psabi", "-shared", "-fPIC",
                                "-o",        library,    source, "-lm",        NULL};
    const kiln_proc_options options = {.argv = argv, .output_max = 4096};
    kiln_status st = kiln_file_write(source, text, 0600);
    if (!st)
        st = kiln_file_write(kiln_arena_printf(&arena, "%s/net.h", c->folder), KILN_STR(NET_HEADER),
                             0600);
    if (!st) st = kiln_proc_run(&options, &arena, &result);
    if (!st && result.exit_code != 0)
        st = KILN_ERROR(INTERNAL, "%s: %.300s", c->compiler, result.err.data);
    if (!st) st = run_library(library, inputs, outputs, counted_outputs(text), rows);
    unlink(library);
    kiln_arena_deinit(&arena);
    return st;
}

/* ---- WebAssembly ---- */

#define PLAN_SECTION "kiln.plan"

/* What runs a module, and where. */
typedef struct file_context {
    const char *const *argv; /* ends with NULL */
    const char *folder;
} file_context;

/* The plan of a module for WebAssembly (docs/reference/wasm.md), or NULL. */
static json_t *plan_of(kiln_str module) {
    kiln_str plan;
    return kiln_wasm_find_custom(module, PLAN_SECTION, &plan)
               ? json_loadb(plan.data, plan.size, 0, NULL)
               : NULL;
}

static size_t bytes_of_port(const json_t *port) {
    const char *dtype = json_string_value(json_object_get(port, "dtype"));
    kiln_dtype type = KILN_DTYPE_NONE;
    if (!dtype || !kiln_dtype_find(kiln_str_from(dtype), &type)) return 0;
    size_t bytes = kiln_dtype_size(type), index;
    const json_t *extent;
    json_array_foreach(json_object_get(port, "shape"), index, extent) {
        bytes *= (size_t)json_integer_value(extent);
    }
    return bytes;
}

static kiln_status run_file(file_context *c, const json_t *plan, kiln_arena *arena,
                            const void *const *inputs, void *const *outputs, int64_t *rows) {
    const char *argv[RUNNER_MAX + 3];
    uint32_t count = 0;
    for (; c->argv[count]; count++) argv[count] = c->argv[count];
    argv[count++] = kiln_arena_printf(arena, "%s/m.wasm", c->folder);
    argv[count++] = c->folder;
    argv[count] = NULL;
    const kiln_proc_options options = {.argv = argv, .output_max = 4096};
    kiln_proc_result result;
    kiln_status st = KILN_OK;
    size_t i;
    const json_t *port;
    json_array_foreach(json_object_get(plan, "inputs"), i, port) {
        const kiln_str bytes = {inputs[i], bytes_of_port(port)};
        if (!st)
            st = kiln_file_write(kiln_arena_printf(arena, "%s/in%zu", c->folder, i), bytes, 0600);
    }
    if (!st) st = kiln_proc_run(&options, arena, &result);
    if (!st && result.exit_code != 0)
        st = KILN_ERROR(INTERNAL, "%s: %.300s", argv[0], result.err.data);
    json_array_foreach(json_object_get(plan, "outputs"), i, port) {
        const size_t size = bytes_of_port(port);
        kiln_str bytes;
        if (!st)
            st = kiln_file_read(kiln_arena_printf(arena, "%s/out%zu", c->folder, i), size, arena,
                                &bytes);
        if (!st && bytes.size == size) memcpy(outputs[i], bytes.data, size);
    }
    json_t *counted =
        st ? NULL : json_load_file(kiln_arena_printf(arena, "%s/rows", c->folder), 0, NULL);
    for (i = 0; rows && i < json_array_size(counted); i++)
        rows[i] = json_integer_value(json_array_get(counted, i));
    json_decref(counted);
    return st;
}

static kiln_status run_as_file(void *context, kiln_str module, const void *const *inputs,
                               void *const *outputs, int64_t *rows) {
    file_context *c = context;
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    json_t *plan = plan_of(module);
    kiln_status st =
        plan ? kiln_file_write(kiln_arena_printf(&arena, "%s/m.wasm", c->folder), module, 0600)
             : KILN_ERROR(DATA_LOSS, "the module has no plan");
    if (!st) st = run_file(c, plan, &arena, inputs, outputs, rows);
    json_decref(plan);
    kiln_arena_deinit(&arena);
    return st;
}

int main(int argc, char **argv) {
    board there = {0};
    int at = 2, count = 0;
    while (at < argc && strcmp(argv[at], "--") != 0 && count < RUNNER_MAX)
        there.argv[count++] = argv[at++];
    if (at >= argc || strcmp(argv[at], "--") != 0) return 2;
    signal(SIGPIPE, SIG_IGN);
    kiln_arena arena;
    kiln_target target;
    kiln_arena_init(&arena, 0);
    kiln_status st = kiln_target_parse(kiln_str_from(argv[1]), &arena, &target);
    const bool as_c = count == 2 && strcmp(there.argv[0], "c") == 0;
    const bool as_file = count > 1 && strcmp(there.argv[0], "file") == 0;
    c_context compiler = {.compiler = there.argv[1]};
    file_context runner = {.argv = there.argv + 1};
    kiln_verify_options options = {
        .target = &target, .run = count ? run_there : kiln_verify_here, .context = &there};
    char *folder = NULL;
    if (!st && (as_c || as_file))
        st = kiln_folder_create_temp("kiln-conformance-", &arena, &folder);
    if (!st && as_file) {
        runner.folder = folder;
        options = (kiln_verify_options){.target = &target, .run = run_as_file, .context = &runner};
    }
    if (!st && as_c) {
        compiler.folder = folder;
        options = (kiln_verify_options){
            .target = &target, .as_c = true, .run = run_as_c, .context = &compiler};
    }
    for (at++; !st && at < argc; at++) {
        kiln_strbuf why = {0};
        kiln_verdict verdict = kiln_verify_case(argv[at], &options, &why);
        printf("%s %s %.*s\n", kiln_verdict_name(verdict), argv[at], (int)why.size,
               why.size ? why.data : "");
        fflush(stdout);
        kiln_strbuf_deinit(&why);
    }
    if (st) fprintf(stderr, "bench-conformance: %s\n", kiln_status_text(st));
    int code = kiln_code_exit(kiln_status_code(st));
    kiln_status_free(st);
    kiln_child_destroy(&there.child);
    if (folder) kiln_status_free(kiln_folder_remove(folder)); /* it is only a temporary one */
    kiln_arena_deinit(&arena);
    return code;
}
