/* A worker process: one request at a time, nothing kept between them but the compiler's context. */
#include "compiler-core/worker/worker.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/child.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/isolated/isolated.h"
#include "base/macros.h"
#include "compiler-core/core.h"
#include "compiler-core/frontend/frontend.h"
#include "compiler-core/worker/assembler.h"
#include "compiler-core/worker/reference_run.h"
#include "deploy/runtime/kernel.h"
#include "proto/proto.h"

static void fail(kiln_work_reply *reply, kiln_status st, kiln_arena *arena) {
    reply->code = (uint32_t)kiln_status_code(st);
    reply->text = kiln_str_copy(arena, kiln_str_from(kiln_status_text(st)));
    kiln_status_free(st);
}

/* ---- TASKS ----------------------------------------------------------------------------------- */

/* The only place where a tuner needs the front end: for clients that send the model's own file.
 * Constants of a graph stay in `mapping`, which the caller unmaps. */
static kiln_status read_model(const kiln_work_request *request, kiln_arena *arena,
                              kiln_mapping *mapping, kiln_graph **out_graph) {
    kiln_status st = kiln_file_map_fd(KILN_WORK_MODEL_FD, "the model", mapping);
    if (st) return st;
    const kiln_str bytes = {mapping->data, mapping->size};
    return request->model_form == KILN_MODEL_FORM_ONNX
               ? kiln_import_bytes(bytes, NULL, NULL, arena, out_graph)
               : kiln_graph_decode(bytes, arena, out_graph);
}

static kiln_status find_tasks(const kiln_work_request *request, kiln_arena *arena,
                              kiln_mapping *mapping, kiln_strbuf *bytes, kiln_work_reply *reply) {
    kiln_graph *graph = NULL;
    kiln_target target;
    kiln_compilation *c = NULL;
    kiln_figures calibration;
    kiln_status st = read_model(request, arena, mapping, &graph);
    if (!st) st = kiln_target_parse(request->target, arena, &target);
    if (!st) st = kiln_target_find_host(&target, arena);
    if (!st) st = kiln_figures_decode(request->figures, &calibration);
    if (!st) kiln_target_calibrate(&target, &calibration);
    if (!st) st = kiln_compilation_of_model(graph, &target, &request->accuracy, arena, &c);
    if (!st && c->plan.tasks.count + c->searched.count > KILN_COMPILATION_TASKS_MAX)
        st = KILN_ERROR(RESOURCE_EXHAUSTED, "the model has %u tasks, at most %u are tuned",
                        c->plan.tasks.count + c->searched.count, KILN_COMPILATION_TASKS_MAX);
    if (st) return st;
    kiln_compilation_encode(c, false, bytes);
    reply->bytes = kiln_strbuf_view(bytes);
    return KILN_OK;
}

/* ---- BUILD ----------------------------------------------------------------------------------- */

/* Layouts of all arguments of one role, joined by ';'. */
static kiln_str layouts_of(const kiln_manifest *manifest, kiln_role role, kiln_arena *arena) {
    kiln_strbuf text = {0};
    for (uint32_t i = 0; i < manifest->arg_count; i++) {
        if (manifest->arg[i].role != role) continue;
        if (text.size) kiln_strbuf_char(&text, ';');
        kiln_layout_print(&manifest->arg[i].layout, &text);
    }
    return kiln_strbuf_end(&text, arena);
}

/* The most that a launch adds to what its function declares. */
static uint32_t launched_shared_bytes(const kiln_manifest *manifest) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < manifest->launch_count; i++)
        most = KILN_MAX(most, manifest->launch[i].scratch_bytes[KILN_MEMORY_SHARED]);
    return (uint32_t)KILN_MIN(most, KILN_ASSEMBLED_MAX / 2);
}

/* If NVIDIA's assembler is installed, it checks PTX: kernels that it refuses, or that spill, cost
 * no trial. */
static kiln_status check_registers(const kiln_artefact *artefact, const kiln_target *target,
                                   int *assembler, kiln_arena *arena, kiln_assembled *out) {
    kiln_ptxas_report report;
    if (artefact->manifest.payload_kind != KILN_PAYLOAD_PTX || *assembler < 0) return KILN_OK;
    kiln_status st =
        kiln_assembler_ask(*assembler, target->triple, artefact->payload, arena, &report);
    if (!st) {
        *out = kiln_ptxas_assembled(&report);
        out->shared_bytes = KILN_MIN(out->shared_bytes, KILN_ASSEMBLED_MAX / 2) +
                            launched_shared_bytes(&artefact->manifest);
        return kiln_ptxas_check_spills(&report);
    }
    if (kiln_status_code(st) == KILN_ILLEGAL_SCHEDULE ||
        kiln_status_code(st) == KILN_DEADLINE_EXCEEDED)
        return st;
    dprintf(STDERR_FILENO, "worker: PTX is not checked any more: %s\n", kiln_status_text(st));
    kiln_status_free(st);
    *assembler = -1;
    return KILN_OK;
}

static kiln_status build(const kiln_work_request *request, kiln_codegen_context *context,
                         int *assembler, kiln_arena *arena, kiln_strbuf *bytes,
                         kiln_work_reply *reply) {
    kiln_program *te = NULL;
    kiln_trace trace;
    kiln_target target;
    kiln_artefact artefact;
    kiln_status st = kiln_program_parse(request->te, arena, &te);
    if (!st) st = kiln_trace_decode(request->trace, arena, &trace);
    if (!st) st = kiln_target_parse(request->target, arena, &target);
    if (!st)
        st = kiln_build_keeping(context, te, request->task_key, &trace, &target, arena, &artefact);
    if (!st) st = check_registers(&artefact, &target, assembler, arena, &reply->assembled);
    if (st) return st;
    kiln_artefact_encode(&artefact, bytes);
    reply->bytes = kiln_strbuf_view(bytes);
    reply->algorithm = artefact.manifest.algorithm;
    reply->codegen_version = artefact.manifest.codegen_version;
    reply->layout_in = layouts_of(&artefact.manifest, KILN_ROLE_INPUT, arena);
    reply->layout_out = layouts_of(&artefact.manifest, KILN_ROLE_OUTPUT, arena);
    st = kiln_kernel_check(reply->bytes);
    reply->link_error = st != KILN_OK;
    return st;
}

/* ---- REFERENCE ------------------------------------------------------------------------------- */

static kiln_status make_reference(const kiln_work_request *request, const kiln_target *native,
                                  kiln_arena *arena, kiln_strbuf *bytes, kiln_work_reply *reply) {
    kiln_program *te = NULL;
    kiln_artefact artefact;
    kiln_strbuf encoded = {0};
    kiln_status st = kiln_program_parse(request->te, arena, &te);
    if (!st) st = kiln_build_reference(te, request->task_key, native, arena, &artefact);
    if (!st) {
        kiln_artefact_encode(&artefact, &encoded);
        st = kiln_reference_run(te, kiln_strbuf_view(&encoded), request->seed, arena, bytes);
    }
    if (!st) reply->bytes = kiln_strbuf_view(bytes);
    kiln_strbuf_deinit(&encoded);
    return kiln_status_note(st, "the reference of %.*s", KILN_STR_ARG(request->task_key));
}

/* ---- the loop -------------------------------------------------------------------------------- */

static void serve(const kiln_work_request *request, const kiln_target *native,
                  kiln_codegen_context *context, int *assembler, kiln_arena *arena,
                  kiln_strbuf *out_frame) {
    uint64_t start_ns = kiln_clock_ns();
    kiln_work_reply reply = {.id = request->id};
    kiln_strbuf bytes = {0};
    kiln_mapping model = {0};
    kiln_status st = KILN_OK;
    switch (request->work) {
    case KILN_WORK_TASKS: st = find_tasks(request, arena, &model, &bytes, &reply); break;
    case KILN_WORK_BUILD: st = build(request, context, assembler, arena, &bytes, &reply); break;
    case KILN_WORK_REFERENCE: st = make_reference(request, native, arena, &bytes, &reply); break;
    }
    if (st) fail(&reply, st, arena);
    reply.elapsed_ns = kiln_clock_ns() - start_ns;
    kiln_work_reply_write(&reply, out_frame);
    kiln_file_unmap(&model);
    kiln_strbuf_deinit(&bytes);
}

/* Reads until a whole frame has arrived; false at the end of input. */
static bool read_frame(kiln_strbuf *input, size_t *out_size) {
    for (;;) {
        kiln_status st = kiln_work_frame_size(kiln_strbuf_view(input), out_size);
        if (st) {
            kiln_status_free(st); /* the parent sends garbage: end */
            return false;
        }
        if (*out_size) return true;
        char bytes[65536];
        ssize_t n = read(STDIN_FILENO, bytes, sizeof bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        kiln_strbuf_append(input, bytes, (size_t)n);
    }
}

static bool write_all(const kiln_strbuf *frame) {
    for (size_t done = 0; done < frame->size;) {
        ssize_t n = write(STDOUT_FILENO, frame->data + done, frame->size - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        done += (size_t)n;
    }
    return true;
}

/* Stays off the cores that measurements own. A list that does not parse or fit is ignored: it is
 * advice. */
static void stay_on(const char *cores) {
    cpu_set_t set;
    CPU_ZERO(&set);
    kiln_str rest = kiln_str_from(cores);
    while (rest.size) {
        kiln_str word = kiln_str_cut(&rest, ',');
        kiln_str first = kiln_str_cut(&word, '-');
        uint64_t low = 0, high = 0;
        if (!kiln_str_to_u64(first, &low)) return;
        high = low;
        if (word.size && !kiln_str_to_u64(word, &high)) return;
        for (uint64_t core = low; core <= high && core < CPU_SETSIZE; core++) CPU_SET(core, &set);
    }
    if (CPU_COUNT(&set)) sched_setaffinity(0, sizeof set, &set);
}

bool kiln_worker_is_asked(int argc, char **argv) {
    return argc >= 2 && strcmp(argv[1], "--worker") == 0;
}

int kiln_worker_main(int argc, char **argv) {
    kiln_child_die_with_parent();
    kiln_child_leave_stopping();
    kiln_child_give_way(); /* to kernels that are timed on all cores of this machine */
    kiln_isolated_limits limits = {.memory_bytes = 0};
    int last_fd = STDERR_FILENO;
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--model") == 0) last_fd = KILN_WORK_MODEL_FD;
        if (i + 1 == argc) continue;
        if (strcmp(argv[i], "--cores") == 0) stay_on(argv[i + 1]);
        if (strcmp(argv[i], "--memory") == 0)
            kiln_str_to_u64(kiln_str_from(argv[i + 1]), &limits.memory_bytes);
    }
    int assembler = kiln_assembler_start(last_fd + 1) ? ++last_fd : -1;
    kiln_arena process, arena;
    kiln_target native; /* detected before the sandbox hides the machine */
    kiln_arena_init(&process, 0);
    kiln_arena_init(&arena, (size_t)1 << 20);
    kiln_status rights = kiln_target_native(&process, &native);
    if (!rights) rights = kiln_isolated_drop_rights(KILN_ISOLATED_COMPILE, last_fd, &limits);
    if (rights) {
        dprintf(STDERR_FILENO, "worker: %s\n", kiln_status_text(rights));
        return kiln_code_exit(kiln_status_code(rights));
    }
    kiln_codegen_context *context = kiln_codegen_context_create();
    kiln_strbuf input = {0}, frame = {0};
    size_t size = 0;
    bool ok = true;
    while (ok && read_frame(&input, &size)) {
        kiln_work_request request;
        kiln_status st =
            kiln_work_request_read(kiln_str_slice(kiln_strbuf_view(&input), 0, size), &request);
        ok = st == KILN_OK;
        if (ok) serve(&request, &native, context, &assembler, &arena, &frame);
        kiln_status_free(st);
        ok = ok && write_all(&frame);
        kiln_strbuf_reset(&frame);
        kiln_strbuf_reset(&input); /* one request is outstanding at a time */
        kiln_arena_reset(&arena);
    }
    kiln_strbuf_deinit(&input);
    kiln_strbuf_deinit(&frame);
    kiln_codegen_context_destroy(context);
    kiln_arena_deinit(&arena);
    kiln_arena_deinit(&process);
    return ok ? 0 : 1;
}
