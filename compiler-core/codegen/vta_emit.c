/* Programs for accelerators of the VTA class: a lowered program becomes calls (vta_calls.h), these
 * get waits and signals (vta_order.h), and vta/builder.h makes a stream of them. */
#include "compiler-core/codegen/backend.h"
#include "compiler-core/codegen/vta_calls.h"
#include "compiler-core/codegen/vta_ends.h"
#include "compiler-core/codegen/vta_improve.h"
#include "compiler-core/codegen/vta_order.h"
#include "vta/check.h"

static kiln_status add_buffers(const kiln_program *p, const kiln_vta_calls *calls,
                               kiln_arena *arena, kiln_vta_builder *b) {
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i < calls->buffer.count; i++) {
        const kiln_buffer_info *info = &p->buffer.data[calls->buffer.data[i]];
        const kiln_shape physical = kiln_layout_physical(&info->layout, &info->shape);
        const uint64_t bytes = (uint64_t)kiln_shape_count(&physical) * kiln_dtype_size(info->dtype);
        uint32_t number;
        const kiln_str name = kiln_vta_name_is_legal(info->name)
                                  ? info->name
                                  : kiln_str_printf(arena, "argument_%u", i);
        st =
            kiln_vta_builder_buffer(b, name, KILN_VTA_ROLE_ARGUMENT, bytes, (kiln_str){0}, &number);
    }
    for (uint32_t i = 0; !st && i < calls->made.count; i++) {
        uint32_t number;
        const kiln_str name = kiln_str_printf(arena, "made_%u", i), content = calls->made.data[i];
        st = kiln_vta_builder_buffer(b, name, KILN_VTA_ROLE_CONSTANT, content.size, content,
                                     &number);
    }
    return st;
}

static kiln_status add_call(kiln_vta_builder *b, const kiln_vta_call *call) {
    switch (call->kind) {
    case KILN_VTA_CALL_COPY: return kiln_vta_builder_copy(b, &call->copy);
    case KILN_VTA_CALL_GEMM: return kiln_vta_builder_gemm(b, call->gemm, &call->nest);
    case KILN_VTA_CALL_ALU:
        return kiln_vta_builder_alu(b, &call->nest, call->operation, call->operation_count);
    }
    return KILN_OK;
}

static kiln_status add_steps(const kiln_program *p, const kiln_vta_calls *calls,
                             const kiln_vta_steps *steps, kiln_arena *arena, kiln_vta_builder *b) {
    kiln_status st = add_buffers(p, calls, arena, b);
    for (uint32_t i = 0; !st && i < steps->step.count; i++) {
        const kiln_vta_step *step = &steps->step.data[i];
        switch (step->kind) {
        case KILN_VTA_STEP_WAIT: st = kiln_vta_builder_wait(b, step->engine, step->other); break;
        case KILN_VTA_STEP_SIGNAL: kiln_vta_builder_signal(b, step->engine, step->other); break;
        case KILN_VTA_STEP_CALL: st = add_call(b, &calls->call.data[step->call]); break;
        }
    }
    return st;
}

/* A program that the machine cannot run is the schedule's fault. */
static kiln_status refuse(kiln_status st) {
    if (!st) return KILN_OK;
    kiln_status refusal =
        KILN_ERROR(ILLEGAL_SCHEDULE, "the machine cannot do it: %s", kiln_status_text(st));
    kiln_status_free(st);
    return refusal;
}

/* The calls of the machine, in order. */
typedef struct call_plan {
    kiln_vta_calls calls;
    kiln_vta_steps steps;
} call_plan;

static kiln_status make_plan(const kiln_lowered *lowered, const kiln_target *target,
                             kiln_arena *arena, call_plan *out) {
    const kiln_launch *launch = lowered->run_launches.launch;
    if (lowered->prepare)
        return KILN_ERROR(ILLEGAL_SCHEDULE,
                          "the machine cannot prepare constants; give them their layout instead");
    kiln_status st = kiln_vta_calls_of(lowered->run, launch->arg, launch->arg_count, &target->vta,
                                       arena, &out->calls);
    if (st) return st;
    kiln_vta_join_operations(&out->calls, arena);
    kiln_vta_place_resets(&out->calls, arena);
    kiln_vta_cut_begin(&out->calls, arena);
    kiln_vta_cut_end(&out->calls, arena);
    kiln_vta_order(&out->calls, arena, &out->steps);
    return KILN_OK;
}

static kiln_status make_stream(const kiln_program *p, const call_plan *plan, kiln_arena *arena,
                               kiln_vta_stream *out) {
    kiln_vta_fault fault;
    kiln_vta_builder *b = kiln_vta_builder_create(&plan->calls.config, arena);
    kiln_status st = add_steps(p, &plan->calls, &plan->steps, arena, b);
    if (!st) st = kiln_vta_builder_finish(b, &(kiln_vta_limits){0}, out);
    kiln_vta_builder_destroy(b);
    if (!st && !kiln_vta_check(&out->program[0], &fault))
        st = KILN_ERROR(ILLEGAL_SCHEDULE, "instruction %u: %s", fault.instruction, fault.text);
    return refuse(st);
}

kiln_status kiln_vta_codegen(const kiln_lowered *lowered, const kiln_target *target,
                             const kiln_codegen_options *options, kiln_arena *arena,
                             kiln_codegen_output *out_output) {
    kiln_arena scratch;
    kiln_vta_stream stream;
    call_plan plan;
    kiln_arena_init(&scratch, 1 << 20);
    kiln_status st = make_plan(lowered, target, &scratch, &plan);
    if (!st) st = make_stream(lowered->run, &plan, &scratch, &stream);
    if (!st) {
        kiln_strbuf bytes = {0};
        if (options->emit == KILN_EMIT_OBJECT)
            kiln_vta_program_encode(&stream.program[0], &bytes);
        else
            kiln_vta_program_print(&stream.program[0], &bytes);
        *out_output = (kiln_codegen_output){
            .bytes = {kiln_str_dup(arena, kiln_strbuf_view(&bytes)), bytes.size}};
        kiln_strbuf_deinit(&bytes);
    }
    kiln_arena_deinit(&scratch);
    return st;
}

/* ---- for people ------------------------------------------------------------------------------ */

/* Tiles of one memory, from the first to the last. */
typedef struct tile_range {
    uint32_t first, last;
    bool reads, writes;
} tile_range;

static void widen_range(void *context, kiln_vta_memory memory, uint32_t tile, bool writes) {
    tile_range *range = (tile_range *)context + memory;
    if (!range->reads && !range->writes) range->first = range->last = tile;
    range->first = KILN_MIN(range->first, tile);
    range->last = KILN_MAX(range->last, tile);
    if (writes)
        range->writes = true;
    else
        range->reads = true;
}

/* "compute gemm writes acc[0..97], reads inp[0..29] wgt[0..17]: s" */
static void print_call(const kiln_program *p, const kiln_vta_call *call, kiln_strbuf *out) {
    static const char *const kind_name[] = {"copy", "gemm", "alu"};
    tile_range range[KILN_VTA_MEMORY_COUNT] = {{0}};
    kiln_vta_call_visit(call, widen_range, range);
    kiln_strbuf_printf(out, "%s %s", kiln_vta_engine_name(call->engine), kind_name[call->kind]);
    for (uint32_t writes = 0; writes < 2; writes++)
        for (uint32_t m = 0; m < KILN_VTA_MEMORY_COUNT; m++)
            if (writes ? range[m].writes : range[m].reads)
                kiln_strbuf_printf(out, " %s %s[%u..%u]", writes ? "writes" : "reads",
                                   kiln_vta_memory_name(m), range[m].first, range[m].last);
    kiln_strbuf_printf(out, ": %.*s\n",
                       KILN_STR_ARG(p->buffer.data[p->stmt.data[call->stmt].buffer].name));
}

kiln_status kiln_vta_codegen_tokens(const kiln_lowered *lowered, const kiln_target *target,
                                    const kiln_codegen_options *options, kiln_arena *arena,
                                    kiln_codegen_output *out_output) {
    kiln_arena scratch;
    call_plan plan;
    kiln_strbuf text = {0};
    (void)options;
    kiln_arena_init(&scratch, 1 << 20);
    kiln_status st = make_plan(lowered, target, &scratch, &plan);
    for (uint32_t i = 0; !st && i < plan.steps.step.count; i++) {
        const kiln_vta_step *step = &plan.steps.step.data[i];
        if (step->kind == KILN_VTA_STEP_CALL)
            print_call(lowered->run, &plan.calls.call.data[step->call], &text);
        else
            kiln_strbuf_printf(&text, "%s %s %s\n", kiln_vta_engine_name(step->engine),
                               step->kind == KILN_VTA_STEP_WAIT ? "waits for" : "signals",
                               kiln_vta_engine_name(step->other));
    }
    if (!st)
        *out_output = (kiln_codegen_output){
            .bytes = {kiln_str_dup(arena, kiln_strbuf_view(&text)), text.size}};
    kiln_strbuf_deinit(&text);
    kiln_arena_deinit(&scratch);
    return st;
}
