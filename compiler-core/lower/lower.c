/* The pass manager of lowering. */
#include "compiler-core/lower/lower.h"

#include "base/check.h"
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/lower/pass.h"

enum {
    CPU = KILN_LOWER_CPU,
    GRID = KILN_LOWER_GRID,
    ITEMS = KILN_LOWER_ITEMS,
    CORE = KILN_LOWER_CORE
};

static const struct pass_row {
    const char *name;
    kiln_lower_pass run;
    uint32_t lists;
} pass_table[] = {
#define X(name, function, lists) {#name, function, lists},
#include "compiler-core/lower/lower.def"
#undef X
};

static kiln_status run_passes(kiln_lowering *l, uint32_t count) {
    kiln_status st = NULL;
    for (uint32_t i = 0; !st && i < count; i++) {
        if (!(pass_table[i].lists & l->list)) continue;
        st = pass_table[i].run(l);
        if (st) st = kiln_status_note(st, "lowering: %s", pass_table[i].name);
    }
    return st;
}

/* Argument buffers keep their ids in both programs; a role of TEMP says that a program does not
 * touch one. */
static kiln_buffer buffer_in(const kiln_program *p, kiln_buffer b) {
    return p && p->buffer.data[b].role != KILN_ROLE_TEMP ? b : 0;
}

static kiln_status add_args(const kiln_lowering *l, const kiln_program *scheduled, kiln_role role,
                            kiln_lowered *out) {
    for (kiln_buffer b = 1; b < scheduled->buffer.count; b++) {
        bool packed = l->prepare && l->prepare->buffer.data[b].role == KILN_ROLE_PACKED;
        kiln_role is = packed ? KILN_ROLE_PACKED : scheduled->buffer.data[b].role;
        if (is != role) continue;
        if (out->arg_count == KILN_MANIFEST_ARGS_MAX)
            return KILN_ERROR(RESOURCE_EXHAUSTED, "the kernel has more than %d arguments",
                              KILN_MANIFEST_ARGS_MAX);
        out->arg[out->arg_count].name = l->run->buffer.data[b].name;
        out->arg[out->arg_count].in_scheduled = b;
        out->arg[out->arg_count].in_prepare = buffer_in(l->prepare, b);
        out->arg[out->arg_count].in_run = buffer_in(l->run, b);
        out->arg_count++;
    }
    return KILN_OK;
}

static const kiln_lower_list list_of[] = {
#define X(NAME, name, rules, lowering, features, PAYLOAD, executor, doc) \
    [KILN_TARGET_##NAME] = KILN_LOWER_##lowering,
#include "base/target_kinds.def"
#undef X
};

kiln_status kiln_lower(const kiln_program *scheduled, const kiln_target *target, kiln_arena *arena,
                       kiln_lowered *out_lowered) {
    return kiln_lower_by(scheduled, target, list_of[target->kind], arena, out_lowered);
}

static kiln_lowering begin(const kiln_program *scheduled, const kiln_target *target,
                           kiln_lower_list list, kiln_arena *arena) {
    return (kiln_lowering){
        .target = target, .arena = arena, .run = kiln_program_copy(scheduled, arena), .list = list};
}

typedef kiln_status (*launch_describer)(kiln_program *lowered, const kiln_target *target,
                                        kiln_str prefix, kiln_arena *arena, kiln_launches *out);

static kiln_status describe(const kiln_lowering *l, kiln_lowered *out) {
    out->has_launches = l->list != KILN_LOWER_CPU;
    if (!out->has_launches) return KILN_OK;
    const launch_describer by =
        l->list == KILN_LOWER_CORE ? kiln_launches_describe_whole : kiln_launches_describe;
    kiln_status st =
        by(l->prepare, l->target, KILN_STR("prepare"), l->arena, &out->prepare_launches);
    return st ? st : by(l->run, l->target, KILN_STR("run"), l->arena, &out->run_launches);
}

kiln_status kiln_lower_by(const kiln_program *scheduled, const kiln_target *target,
                          kiln_lower_list list, kiln_arena *arena, kiln_lowered *out_lowered) {
    kiln_lowering l = begin(scheduled, target, list, arena);
    static const kiln_role order[] = {KILN_ROLE_INPUT, KILN_ROLE_CONSTANT, KILN_ROLE_OUTPUT,
                                      KILN_ROLE_PACKED};
    kiln_status st = run_passes(&l, KILN_ARRAY_COUNT(pass_table));
    if (st) return st;
    kiln_lowered lowered = {.prepare = l.prepare, .run = l.run, .registers = l.registers};
    for (uint32_t i = 0; !st && i < KILN_ARRAY_COUNT(order); i++)
        st = add_args(&l, scheduled, order[i], &lowered);
    if (!st) st = describe(&l, &lowered);
    if (!st) *out_lowered = lowered;
    return st;
}

static kiln_status unknown_pass(kiln_str name) {
    kiln_strbuf list = {0};
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(pass_table); i++)
        kiln_strbuf_printf(&list, "%s%s", i ? ", " : "", pass_table[i].name);
    kiln_status st = KILN_ERROR(INVALID_ARGUMENT, "no lowering pass \"%.*s\"; there are %s",
                                KILN_STR_ARG(name), list.data);
    kiln_strbuf_deinit(&list);
    return st;
}

kiln_status kiln_lower_explain(const kiln_program *scheduled, const kiln_target *target,
                               kiln_str after, kiln_arena *arena, kiln_strbuf *out) {
    return kiln_lower_explain_by(scheduled, target, list_of[target->kind], after, arena, out);
}

kiln_status kiln_lower_explain_by(const kiln_program *scheduled, const kiln_target *target,
                                  kiln_lower_list list, kiln_str after, kiln_arena *arena,
                                  kiln_strbuf *out) {
    uint32_t count = 0;
    if (after.size == 0) after = kiln_str_from(pass_table[KILN_ARRAY_COUNT(pass_table) - 1].name);
    while (count < KILN_ARRAY_COUNT(pass_table) && !kiln_str_is(after, pass_table[count].name))
        count++;
    if (count == KILN_ARRAY_COUNT(pass_table)) return unknown_pass(after);
    kiln_lowering l = begin(scheduled, target, list, arena);
    kiln_lowered described = {0};
    kiln_status st = run_passes(&l, count + 1);
    if (!st && count + 1 == KILN_ARRAY_COUNT(pass_table)) st = describe(&l, &described);
    if (st) return st;
    if (l.prepare) {
        kiln_strbuf_text(out, "# prepare\n");
        kiln_launches_print(&described.prepare_launches, out);
        kiln_program_print(l.prepare, out);
        kiln_strbuf_text(out, "# run\n");
    }
    kiln_launches_print(&described.run_launches, out);
    kiln_program_print(l.run, out);
    return KILN_OK;
}
