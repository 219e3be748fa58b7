#include "tests/unit/compiler-core/codegen/vta_run.h"

#include <string.h>

#include "compiler-core/codegen/codegen.h"
#include "compiler-core/ir/eval.h"
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/ir/loop_eval.h"
#include "compiler-core/lower/pass.h"
#include "tests/support/targets.h"
#include "tests/unit/compiler-core/sched/support.h"
#include "vta/csim.h"

static void fill(kiln_tensor *t, kiln_rand *r) {
    for (int64_t i = 0; i < kiln_shape_count(&t->shape); i++)
        kiln_dtype_store_i64(t->dtype, t->data, (size_t)i,
                             t->dtype == KILN_I8 ? (int64_t)kiln_rand_below(r, 15) - 7
                                                 : (int64_t)kiln_rand_below(r, 4000) - 1000);
}

static uint64_t bytes_of(const kiln_tensor *t) {
    return (uint64_t)kiln_shape_count(&t->shape) * kiln_dtype_size(t->dtype);
}

kiln_lowered vta_lower_text(const char *text, const kiln_target *target, kiln_arena *arena) {
    kiln_lowering l = {
        .target = target, .arena = arena, .run = parsed(arena, text), .list = KILN_LOWER_CORE};
    kiln_lowered lowered = {.run = l.run};
    expect_ok(kiln_lower_vthread(&l));
    expect_ok(kiln_lower_place(&l));
    expect_ok(kiln_program_verify(l.run));
    expect_ok(
        kiln_launches_describe_whole(l.run, target, KILN_STR("run"), arena, &lowered.run_launches));
    return lowered;
}

static kiln_status compile(const char *text, const char *machine,
                           const kiln_codegen_options *options, kiln_arena *arena,
                           kiln_str *out_bytes) {
    const kiln_target target = target_of(arena, machine);
    const kiln_lowered lowered = vta_lower_text(text, &target, arena);
    uint64_t scratch, worker;
    return kiln_codegen(&lowered, &target, options, arena, out_bytes, &scratch, &worker);
}

kiln_status vta_compile_text(const char *text, const char *machine, kiln_arena *arena,
                             kiln_vta_program *out_program) {
    kiln_str bytes;
    kiln_status st =
        compile(text, machine, &(kiln_codegen_options){.emit = KILN_EMIT_OBJECT}, arena, &bytes);
    return st ? st : kiln_vta_program_decode(bytes, arena, out_program);
}

const char *vta_tokens_of(const char *text, const char *machine, kiln_arena *arena) {
    kiln_str bytes;
    expect_ok(compile(text, machine, &(kiln_codegen_options){.backend = "tokens"}, arena, &bytes));
    return kiln_arena_printf(arena, "%.*s", KILN_STR_ARG(bytes));
}

/* What a program is run on. */
typedef struct running {
    const kiln_vta_program *program;
    const uint64_t *place;
    uint32_t count;      /* of arguments */
    kiln_tensor *tensor; /* [count] */
    uint32_t *buffer;    /* [count] of each; 0: the program does not touch it */
} running;

static uint32_t buffer_named(const kiln_vta_program *program, kiln_str name) {
    uint32_t found = 0;
    for (uint32_t i = 1; i < program->buffer_count; i++)
        if (kiln_str_equal(program->buffer[i].name, name)) found = i;
    return found;
}

static void expect_arguments(const running *r, const uint8_t *dram, const char *what) {
    for (uint32_t i = 0; i < r->count; i++)
        if (r->buffer[i] &&
            memcmp(dram + r->place[r->buffer[i]], r->tensor[i].data, bytes_of(&r->tensor[i])) != 0)
            fail_msg("argument %u differs on %s", i, what);
}

uint64_t vta_expect_equal(const char *text, const char *machine, uint64_t seed, uint32_t orders,
                          kiln_arena *arena) {
    kiln_program *p = parsed(arena, text);
    kiln_vta_program program;
    kiln_vta_fault fault;
    kiln_vta_counts counts;
    kiln_vta_timing timing;
    kiln_rand r;
    kiln_rand_init(&r, seed);
    const kiln_arg_buffers args = kiln_program_args(p);
    running run = {.program = &program,
                   .count = args.count,
                   .tensor = KILN_ARENA_ARRAY(arena, kiln_tensor, args.count),
                   .buffer = KILN_ARENA_ARRAY(arena, uint32_t, args.count)};
    expect_ok(vta_compile_text(text, machine, arena, &program));
    for (uint32_t i = 0; i < args.count; i++) {
        const kiln_buffer_info *info = &p->buffer.data[args.buffer[i]];
        run.tensor[i] = kiln_tensor_create(arena, info->dtype, &info->shape);
        run.buffer[i] = buffer_named(&program, info->name);
        fill(&run.tensor[i], &r);
    }
    uint64_t *place = KILN_ARENA_ARRAY(arena, uint64_t, program.buffer_count);
    const uint64_t size = kiln_vta_program_place(&program, place);
    uint8_t *before = kiln_arena_alloc(arena, size), *dram = kiln_arena_alloc(arena, size);
    kiln_vta_program_fill(&program, place, before);
    run.place = place;
    for (uint32_t i = 0; i < args.count; i++)
        if (run.buffer[i])
            memcpy(before + place[run.buffer[i]], run.tensor[i].data, bytes_of(&run.tensor[i]));
    expect_ok(kiln_loop_eval(p, run.tensor, args.count));
    for (uint32_t order = 0; order < orders; order++) {
        memcpy(dram, before, size);
        if (!kiln_vta_fsim_run(&program, dram, size, order, &counts, &fault))
            fail_msg("%s: instruction %u: %s", machine, fault.instruction, fault.text);
        expect_arguments(&run, dram, machine);
    }
    memcpy(dram, before, size);
    if (!kiln_vta_csim_run(&program, dram, size, &(kiln_vta_csim_options){0}, arena, &timing,
                           &fault))
        fail_msg("%s: instruction %u: %s", machine, fault.instruction, fault.text);
    expect_arguments(&run, dram, machine);
    return timing.cycles;
}
