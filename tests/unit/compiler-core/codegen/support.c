#include "tests/unit/compiler-core/codegen/support.h"

#include <string.h>

#include "base/check.h"
#include "compiler-core/build.h"
#include "compiler-core/codegen/codegen.h"
#include "compiler-core/ir/eval.h"
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/lower/lower.h"
#include "deploy/runtime/kernel.h"
#include "tests/support/interpreter.h"

#define ARGS_MAX 64

static void manifest_args(const kiln_program *scheduled, const kiln_lowered *lowered,
                          kiln_arena *arena, kiln_manifest *m) {
    m->arg_count = lowered->arg_count;
    m->arg = KILN_ARENA_ARRAY(arena, kiln_manifest_arg, m->arg_count);
    for (uint32_t i = 0; i < m->arg_count; i++) {
        kiln_buffer in_run = lowered->arg[i].in_run, in_prepare = lowered->arg[i].in_prepare;
        const kiln_program *p = in_run ? lowered->run : in_prepare ? lowered->prepare : scheduled;
        const kiln_buffer_info *info = &p->buffer.data[in_run       ? in_run
                                                       : in_prepare ? in_prepare
                                                                    : lowered->arg[i].in_scheduled];
        m->arg[i] = (kiln_manifest_arg){.name = info->name,
                                        .dtype = info->dtype,
                                        .role = info->role,
                                        .shape = info->shape,
                                        .layout = info->layout,
                                        .fill = info->range.step ? KILN_FILL_RANGE : info->fill,
                                        .range = info->range,
                                        .read_by_run = in_run != 0};
    }
}

kiln_status compile_scheduled(const kiln_program *scheduled, const kiln_target *target,
                              uint32_t optimise, kiln_arena *arena, kiln_artefact *out_artefact) {
    return compile_scheduled_as(scheduled, target, NULL, optimise, arena, out_artefact);
}

kiln_status compile_scheduled_as(const kiln_program *scheduled, const kiln_target *target,
                                 const char *backend, uint32_t optimise, kiln_arena *arena,
                                 kiln_artefact *out_artefact) {
    const kiln_codegen_options options = {
        .emit = KILN_EMIT_OBJECT, .optimise = optimise, .backend = backend};
    if (target->group_threads) /* launches have no levels of optimisation */
        return kiln_build_scheduled(scheduled, KILN_STR("test"), scheduled, target, arena,
                                    out_artefact);
    kiln_lowered lowered;
    kiln_artefact artefact = {.manifest = {.abi_version = KILN_KERNEL_ABI_VERSION,
                                           .payload_kind = kiln_payload_of(target->kind),
                                           .codegen_version = kiln_str_from(kiln_codegen_version()),
                                           .task_key = KILN_STR("test"),
                                           .algorithm = KILN_STR("direct"),
                                           .threads_max = target->threads}};
    kiln_manifest *m = &artefact.manifest;
    m->target = text_of_target(target, arena);
    kiln_status st = kiln_lower(scheduled, target, arena, &lowered);
    if (!st)
        st = kiln_codegen(&lowered, target, &options, arena, &artefact.payload, &m->scratch_bytes,
                          &m->scratch_worker_bytes);
    if (st) return st;
    m->has_prepare = lowered.prepare != NULL;
    manifest_args(scheduled, &lowered, arena, m);
    *out_artefact = artefact;
    return KILN_OK;
}

kiln_str device_text(const kiln_program *scheduled, const char *target_text, const char *backend,
                     kiln_arena *arena, kiln_lowered *out_lowered) {
    const kiln_codegen_options options = {
        .emit = KILN_EMIT_OBJECT, .optimise = 2, .backend = backend};
    kiln_target target = target_of(arena, target_text);
    kiln_str text;
    uint64_t scratch, worker;
    expect_ok(kiln_lower(scheduled, &target, arena, out_lowered));
    expect_ok(kiln_codegen(out_lowered, &target, &options, arena, &text, &scratch, &worker));
    return text;
}

const kiln_tensor *tensor_named(const kiln_program *te, const kiln_tensor *args, kiln_str name) {
    kiln_arg_buffers buffer = kiln_program_args(te);
    for (uint32_t i = 0; i < buffer.count; i++)
        if (kiln_str_equal(te->buffer.data[buffer.buffer[i]].name, name)) return &args[i];
    fail_msg("no argument is called %.*s", KILN_STR_ARG(name));
    return NULL;
}

typedef struct running {
    kiln_kernel *kernel;
    kiln_call *call;
    kiln_pages pages[ARGS_MAX], scratch;
    kiln_pool *pool;
} running;

static void running_deinit(running *r) {
    kiln_call_destroy(r->call);
    kiln_kernel_unload(r->kernel);
    for (uint32_t i = 0; i < ARGS_MAX; i++) kiln_pages_destroy(&r->pages[i]);
    kiln_pages_destroy(&r->scratch);
    kiln_pool_destroy(r->pool);
}

static kiln_status bind_arg(running *r, const kiln_program *te, const kiln_tensor *args,
                            uint32_t i) {
    const kiln_manifest_arg *arg = &kiln_kernel_manifest(r->kernel)->arg[i];
    if (arg->role == KILN_ROLE_PACKED) return KILN_OK;
    size_t bytes = kiln_kernel_arg_bytes(r->kernel, i);
    kiln_status st =
        kiln_pages_create(bytes, i % 2 ? KILN_GUARD_BEFORE : KILN_GUARD_AFTER, &r->pages[i]);
    if (st) return st;
    kiln_pages_poison(&r->pages[i], KILN_POISON_FIRST);
    if (arg->role != KILN_ROLE_OUTPUT)
        kiln_layout_pack(&arg->layout, &arg->shape, arg->dtype,
                         tensor_named(te, args, arg->name)->data, r->pages[i].data);
    return kiln_call_bind(r->call, i, r->pages[i].data, bytes);
}

static void take_outputs(running *r, const kiln_program *te, const kiln_tensor *args) {
    const kiln_manifest *m = kiln_kernel_manifest(r->kernel);
    for (uint32_t i = 0; i < m->arg_count; i++) {
        const kiln_manifest_arg *arg = &m->arg[i];
        if (arg->role != KILN_ROLE_PACKED && !kiln_pages_intact(&r->pages[i]))
            fail_msg("%.*s: written outside", KILN_STR_ARG(arg->name));
        if (arg->role == KILN_ROLE_OUTPUT)
            kiln_layout_unpack(&arg->layout, &arg->shape, arg->dtype, r->pages[i].data,
                               tensor_named(te, args, arg->name)->data);
    }
}

static kiln_status run_in(running *r, const kiln_artefact *artefact, const kiln_program *te,
                          const kiln_tensor *args, uint32_t workers) {
    kiln_strbuf bytes = {0};
    kiln_artefact_encode(artefact, &bytes);
    kiln_status st = kiln_kernel_load(kiln_strbuf_view(&bytes), NULL, &r->kernel);
    kiln_strbuf_deinit(&bytes);
    if (!st) st = kiln_call_create(r->kernel, KILN_GUARD_AFTER, &r->call);
    if (st) return st;
    const kiln_manifest *m = kiln_kernel_manifest(r->kernel);
    for (uint32_t i = 0; !st && i < m->arg_count; i++) st = bind_arg(r, te, args, i);
    if (!st)
        st = kiln_pages_create(kiln_services_scratch_bytes(m, workers), KILN_GUARD_AFTER,
                               &r->scratch);
    const kiln_pool_options options = {.worker_count = workers};
    if (!st && workers > 1) st = kiln_pool_create(&options, &r->pool);
    if (st) return st;
    kiln_services services;
    kiln_services_init(&services, r->pool, workers, r->scratch.data);
    st = kiln_call_prepare(r->call, &services);
    /* Twice, with other garbage in scratch: what one run leaves must not matter to the next. */
    for (uint32_t round = 0; !st && round < 2; round++) {
        kiln_pages_poison(&r->scratch, round ? KILN_POISON_LAST : KILN_POISON_FIRST);
        if (kiln_call_run(r->call, &services) != KILN_KERNEL_OK)
            st = KILN_ERROR(INTERNAL, "the kernel failed");
    }
    if (!st && !kiln_pages_intact(&r->scratch)) fail_msg("written outside scratch");
    if (!st) take_outputs(r, te, args);
    return st;
}

kiln_status run_artefact(const kiln_artefact *artefact, const kiln_program *te,
                         const kiln_tensor *args, uint32_t workers) {
    running r = {0};
    kiln_status st = run_in(&r, artefact, te, args, workers);
    running_deinit(&r);
    return st;
}

static void fail_with_program(const kiln_program *p, uint64_t seed, kiln_status st) {
    kiln_strbuf text = {0};
    kiln_program_print(p, &text);
    print_error("%s\n", text.data);
    fail_msg("seed %llu: %s", (unsigned long long)seed, kiln_status_text(st));
}

static void double_bounds(const kiln_program *te, kiln_tensor *bound) {
    uint32_t output = 0;
    for (kiln_buffer b = 1; b < te->buffer.count; b++) {
        if (te->buffer.data[b].role != KILN_ROLE_OUTPUT) continue;
        float *value = bound[output++].data;
        int64_t count = kiln_shape_count(&te->buffer.data[b].shape);
        for (int64_t i = 0; value && i < count; i++) value[i] *= 2;
    }
}

static kiln_status run_here(void *context, const kiln_artefact *artefact, const kiln_program *te,
                            const kiln_tensor *args, uint32_t workers) {
    (void)context;
    return run_artefact(artefact, te, args, workers);
}

kiln_status expect_compiled_equals(const kiln_program *te, const kiln_program *scheduled,
                                   const kiln_target *target, uint32_t optimise, uint64_t seed) {
    return expect_runs_equal(te, scheduled, target, NULL, optimise, seed, run_here, NULL);
}

kiln_status expect_runs_equal(const kiln_program *te, const kiln_program *scheduled,
                              const kiln_target *target, const char *backend, uint32_t optimise,
                              uint64_t seed, artefact_runner run, void *context) {
    kiln_artefact artefact;
    kiln_tensor wanted[ARGS_MAX], got[ARGS_MAX], bound[ARGS_MAX];
    kiln_status st =
        compile_scheduled_as(scheduled, target, backend, optimise, te->arena, &artefact);
    if (st && kiln_status_code(st) == KILN_ILLEGAL_SCHEDULE) return st;
    if (st) fail_with_program(scheduled, seed, st);
    /* Expected is what the unscheduled loops give, in the dtypes of the program: halves overflow
     * there as they do in any schedule. Two orders of summation are two bounds apart. */
    kiln_program *loops = kiln_program_copy(te, te->arena);
    kiln_program_make_loops(loops);
    uint32_t count = make_args(te, seed, wanted);
    make_args(te, seed, got);
    st = kiln_te_eval_bounds(te, wanted, count, te->arena, bound);
    if (!st) st = kiln_loop_eval(loops, wanted, count);
    if (!st) st = run(context, &artefact, te, got, target->threads);
    if (st) fail_with_program(scheduled, seed, st);
    double_bounds(te, bound);
    expect_within_bounds(te, got, wanted, bound, count, seed);
    return KILN_OK;
}
