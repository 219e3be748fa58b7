/* From a tensor expression and a trace to an artefact. */
#include "compiler-core/build.h"

#include "base/kernel_abi.h"
#include "compiler-core/algorithm/algorithm.h"
#include "compiler-core/ir/reference.h"
#include "compiler-core/lower/lower.h"
#include "compiler-core/sched/prim.h"

#define SCRATCH_ARENA_BYTES ((size_t)1 << 20)
#define REFERENCE_LANES_MIN 4

static const kiln_codegen_options as_object = {.emit = KILN_EMIT_OBJECT, .optimise = 2};

static bool has_parallel(const kiln_program *p, kiln_stmt stmt) {
    if (!stmt) return false;
    const kiln_stmt_info *s = &p->stmt.data[stmt];
    if (s->kind == KILN_STMT_FOR && s->loop_kind == KILN_LOOP_PARALLEL) return true;
    for (uint32_t i = 0; i < s->child.count; i++)
        if (has_parallel(p, s->child.data[i])) return true;
    return false;
}

static kiln_str copy_str(kiln_arena *arena, kiln_str s) { return kiln_str_copy(arena, s); }

/* An argument that neither program uses (an empty tensor) is described by the scheduled one. */
static void fill_args(const kiln_program *scheduled, const kiln_lowered *lowered, kiln_arena *arena,
                      kiln_manifest *m) {
    m->arg_count = lowered->arg_count;
    m->arg = KILN_ARENA_ARRAY(arena, kiln_manifest_arg, m->arg_count + 1); /* and the scratch */
    for (uint32_t i = 0; i < m->arg_count; i++) {
        kiln_buffer in_run = lowered->arg[i].in_run, in_prepare = lowered->arg[i].in_prepare;
        const kiln_program *p = in_run ? lowered->run : in_prepare ? lowered->prepare : scheduled;
        const kiln_buffer_info *info = &p->buffer.data[in_run       ? in_run
                                                       : in_prepare ? in_prepare
                                                                    : lowered->arg[i].in_scheduled];
        m->arg[i] = (kiln_manifest_arg){
            .name = copy_str(arena, info->name),
            .dtype = info->dtype,
            .role = info->role,
            .shape = info->shape,
            .layout = info->layout,
            .fill = info->range.step ? KILN_FILL_RANGE : info->fill,
            .range = info->range,
            .read_by_run = in_run != 0,
        };
    }
}

/* The name of the argument that temps between launches lie in. */
#define SCRATCH_NAME "scratch"

static kiln_status add_scratch(uint64_t bytes, kiln_manifest *m) {
    if (m->arg_count == KILN_MANIFEST_ARGS_MAX)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "the kernel has more than %d arguments",
                          KILN_MANIFEST_ARGS_MAX - 1);
    m->arg[m->arg_count++] = (kiln_manifest_arg){.name = KILN_STR(SCRATCH_NAME),
                                                 .dtype = KILN_U8,
                                                 .role = KILN_ROLE_TEMP,
                                                 .shape = {.rank = 1, .dim = {(int64_t)bytes}},
                                                 .fill = KILN_FILL_UNIFORM,
                                                 .read_by_run = true};
    return KILN_OK;
}

/* The manifest's arguments of a launch. Manifests have no launch without arguments: such a launch
 * gets an unused one. */
static void fill_launch_args(const kiln_lowered *lowered, const kiln_launch *launch, bool prepares,
                             kiln_arena *arena, kiln_manifest_launch *out) {
    uint32_t *arg = KILN_ARENA_ARRAY(arena, uint32_t, launch->arg_count + 2);
    for (uint32_t i = 0, k = 0; i < launch->arg_count; i++) {
        for (k = 0;
             (prepares ? lowered->arg[k].in_prepare : lowered->arg[k].in_run) != launch->arg[i];)
            k++;
        arg[out->arg_count++] = k;
    }
    if (launch->uses_scratch) arg[out->arg_count++] = lowered->arg_count;
    if (out->arg_count == 0) out->arg_count = 1;
    out->arg = arg;
}

static uint32_t add_launches(const kiln_lowered *lowered, const kiln_launches *from, bool prepares,
                             kiln_arena *arena, kiln_manifest_launch *to) {
    for (uint32_t i = 0; i < from->count; i++) {
        const kiln_launch *launch = &from->launch[i];
        to[i] =
            (kiln_manifest_launch){.phase = prepares ? KILN_LAUNCH_PREPARE : KILN_LAUNCH_RUN,
                                   .entry = copy_str(arena, launch->entry),
                                   .scratch_bytes = {[KILN_MEMORY_SHARED] = launch->shared_bytes,
                                                     [KILN_MEMORY_PRIVATE] = launch->local_bytes},
                                   .cluster = launch->cluster > 1 ? launch->cluster : 0};
        for (uint32_t d = 0; d < KILN_LAUNCH_DIMS; d++) {
            to[i].grid[d] = launch->grid_size[d];
            to[i].group[d] = launch->group_size[d];
        }
        fill_launch_args(lowered, launch, prepares, arena, &to[i]);
        to[i].map_count = launch->map_count;
        to[i].map = kiln_arena_copy(arena, launch->map, launch->map_count * sizeof *launch->map);
    }
    return from->count;
}

/* Copies the launches from lowering; kernels of processors have none. */
static kiln_status fill_launches(const kiln_lowered *lowered, kiln_arena *arena, kiln_manifest *m) {
    const kiln_launches *prepare = &lowered->prepare_launches, *run = &lowered->run_launches;
    const uint64_t scratch = KILN_MAX(prepare->scratch_bytes, run->scratch_bytes);
    if (run->count == 0) return KILN_OK;
    kiln_manifest_launch *launch =
        KILN_ARENA_ARRAY(arena, kiln_manifest_launch, prepare->count + run->count);
    m->launch_count = add_launches(lowered, prepare, true, arena, launch);
    m->launch_count += add_launches(lowered, run, false, arena, launch + m->launch_count);
    m->launch = launch;
    if (scratch > KILN_BUILD_SCRATCH_MAX)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "temps between launches need %llu bytes",
                          (unsigned long long)scratch);
    return scratch ? add_scratch(scratch, m) : KILN_OK;
}

static kiln_str target_text(const kiln_target *target, kiln_arena *arena) {
    kiln_strbuf text = {0};
    kiln_target_print(target, &text);
    kiln_str copy = copy_str(arena, kiln_strbuf_view(&text));
    kiln_strbuf_deinit(&text);
    return copy;
}

static kiln_status compile(const kiln_program *scheduled, const kiln_target *target,
                           const kiln_codegen_options *options, kiln_arena *scratch,
                           kiln_arena *arena, kiln_artefact *out) {
    kiln_lowered lowered;
    kiln_manifest *m = &out->manifest;
    kiln_status st = kiln_lower(scheduled, target, scratch, &lowered);
    if (!st)
        st = kiln_codegen(&lowered, target, options, arena, &out->payload, &m->scratch_bytes,
                          &m->scratch_worker_bytes);
    if (st) return st;
    if (m->scratch_bytes > KILN_BUILD_SCRATCH_MAX ||
        m->scratch_worker_bytes > KILN_BUILD_SCRATCH_MAX)
        return KILN_ERROR(RESOURCE_EXHAUSTED,
                          "temps need %llu bytes and %llu per worker; at most %llu are allowed",
                          (unsigned long long)m->scratch_bytes,
                          (unsigned long long)m->scratch_worker_bytes,
                          (unsigned long long)KILN_BUILD_SCRATCH_MAX);
    m->has_prepare = lowered.prepare != NULL;
    m->threads_max = has_parallel(lowered.run, lowered.run->root) ? target->threads : 1;
    fill_args(scheduled, &lowered, arena, m);
    return fill_launches(&lowered, arena, m);
}

/* Fields of the manifest for a task that is not computed in its direct form. */
static void describe_algorithm(const kiln_program *te, kiln_algorithm algorithm,
                               kiln_arena *scratch, kiln_manifest *m) {
    m->algorithm = kiln_str_from(kiln_algorithm_name(algorithm));
    m->error_factor = kiln_algorithm_error_factor(algorithm, te);
    const kiln_program *alternative = kiln_algorithm_apply(algorithm, te, scratch);
    m->executed_flops = kiln_algorithm_executed_flops(algorithm, alternative);
}

static kiln_status build_in(const kiln_program *te, kiln_str task_key, kiln_algorithm algorithm,
                            const kiln_program *scheduled, const kiln_target *target,
                            const kiln_codegen_options *options, kiln_arena *scratch,
                            kiln_arena *arena, kiln_artefact *out_artefact) {
    kiln_artefact artefact = {
        .manifest = {
            .abi_version = KILN_KERNEL_ABI_VERSION,
            .payload_kind = options->backend ? KILN_PAYLOAD_C : kiln_payload_of(target->kind),
            .target = target_text(target, arena),
            .codegen_version = kiln_str_from(kiln_codegen_version()),
            .task_key = copy_str(arena, task_key),
            .flops = kiln_program_flops(te),
        }};
    describe_algorithm(te, algorithm, scratch, &artefact.manifest);
    kiln_status st = compile(scheduled, target, options, scratch, arena, &artefact);
    if (!st) *out_artefact = artefact;
    return st;
}

kiln_status kiln_build_scheduled(const kiln_program *te, kiln_str task_key,
                                 const kiln_program *scheduled, const kiln_target *target,
                                 kiln_arena *arena, kiln_artefact *out_artefact) {
    kiln_arena scratch;
    kiln_arena_init(&scratch, SCRATCH_ARENA_BYTES);
    kiln_status st = build_in(te, task_key, KILN_ALGORITHM_DIRECT, scheduled, target, &as_object,
                              &scratch, arena, out_artefact);
    kiln_arena_deinit(&scratch);
    return st;
}

static kiln_status build_trace(const kiln_program *te, kiln_str task_key, const kiln_trace *trace,
                               const kiln_target *target, const kiln_codegen_options *options,
                               kiln_arena *arena, kiln_artefact *out_artefact) {
    kiln_arena scratch;
    kiln_arena_init(&scratch, SCRATCH_ARENA_BYTES);
    kiln_program *scheduled = NULL;
    kiln_status st = kiln_trace_replay(trace, te, NULL, &scratch, &scheduled, NULL);
    if (!st)
        st = build_in(te, task_key, kiln_trace_algorithm(trace), scheduled, target, options,
                      &scratch, arena, out_artefact);
    kiln_arena_deinit(&scratch);
    return kiln_status_note(st, "building a candidate of %.*s", KILN_STR_ARG(te->name));
}

kiln_status kiln_build(const kiln_program *te, kiln_str task_key, const kiln_trace *trace,
                       const kiln_target *target, kiln_arena *arena, kiln_artefact *out_artefact) {
    return build_trace(te, task_key, trace, target, &as_object, arena, out_artefact);
}

kiln_status kiln_build_keeping(kiln_codegen_context *context, const kiln_program *te,
                               kiln_str task_key, const kiln_trace *trace,
                               const kiln_target *target, kiln_arena *arena,
                               kiln_artefact *out_artefact) {
    kiln_codegen_options options = as_object;
    options.context = context;
    return build_trace(te, task_key, trace, target, &options, arena, out_artefact);
}

kiln_status kiln_build_c(const kiln_program *te, kiln_str task_key, const kiln_trace *trace,
                         const kiln_target *target, kiln_arena *arena,
                         kiln_artefact *out_artefact) {
    kiln_codegen_options options = as_object;
    options.backend = "c";
    return build_trace(te, task_key, trace, target, &options, arena, out_artefact);
}

/* Vectorises over outputs only: every sum keeps the order of the expression. Serial sums of a real
 * layer would take seconds instead of a few hundredths. Skipped where a block does not allow it. */
static void vectorize_sums(kiln_program *p, kiln_block block) {
    kiln_loops around = kiln_block_loops(p, block);
    const kiln_stmt *loop = around.loop;
    const kiln_block_info *b = &p->block.data[block];
    kiln_prim_args decompose = {.block = block, .loop_count = 1}, order = {.loop_count = 0},
                   lanes = {.loop_count = 1};
    uint32_t count = around.count;
    if (b->init_of || b->combiner == KILN_COMBINE_NONE || count != b->iter_count) return;
    for (uint32_t i = 0; i < count; i++) {
        if (!b->iter[i].reduce && b->iter[i].extent >= REFERENCE_LANES_MIN) lanes.loop[0] = loop[i];
        if (b->iter[i].reduce && !decompose.loop[0]) decompose.loop[0] = loop[i];
    }
    if (!lanes.loop[0] || !decompose.loop[0]) return;
    for (uint32_t i = 0; i < count; i++)
        if (loop[i] != lanes.loop[0]) order.loop[order.loop_count++] = loop[i];
    order.loop[order.loop_count++] = lanes.loop[0];
    kiln_status st = kiln_prim_apply(p, KILN_PRIM_REORDER, &order);
    if (!st) st = kiln_prim_apply(p, KILN_PRIM_DECOMPOSE_REDUCTION, &decompose);
    if (!st) st = kiln_prim_apply(p, KILN_PRIM_VECTORIZE, &lanes);
    kiln_status_free(st); /* the block stays scalar, and slower */
}

kiln_status kiln_build_reference(const kiln_program *te, kiln_str task_key,
                                 const kiln_target *target, kiln_arena *arena,
                                 kiln_artefact *out_artefact) {
    kiln_arena scratch;
    kiln_arena_init(&scratch, SCRATCH_ARENA_BYTES);
    kiln_program *reference = kiln_te_reference(te, &scratch);
    kiln_program_make_loops(reference);
    uint32_t block_count = reference->block.count;
    for (kiln_block b = 1; b < block_count; b++) vectorize_sums(reference, b);
    kiln_status st = build_in(te, task_key, KILN_ALGORITHM_DIRECT, reference, target, &as_object,
                              &scratch, arena, out_artefact);
    kiln_arena_deinit(&scratch);
    return kiln_status_note(st, "building the reference of %.*s", KILN_STR_ARG(te->name));
}
