/* The dispatcher of primitives, and the undo that leaves a program unchanged on error. */
#include "compiler-core/sched/prim.h"

#include "base/check.h"
#include "compiler-core/ir/device.h"
#include "compiler-core/sched/dependence.h"
#include "compiler-core/sched/prim_all.h"

enum { KIND_APPLY, KIND_SAMPLE, KIND_BEGIN };
enum { MOVES_NOTHING, MOVES_ACCESSES, MOVES_LOOPS, MOVES_BOTH };

#define FUNCTION_APPLY(name) kiln_prim_##name
#define FUNCTION_SAMPLE(name) NULL
#define FUNCTION_BEGIN(name) NULL

static const struct {
    const char *name, *operands;
    uint32_t number;
    uint8_t kind, moves;
    kiln_prim_function apply;
} prim_table[] = {
#define X(NAME, name, number, operands, kind, moves) \
    {#name, operands, number, KIND_##kind, MOVES_##moves, FUNCTION_##kind(name)},
#include "compiler-core/sched/prims.def"
#undef X
};

const char *kiln_prim_name(kiln_prim prim) { return prim_table[prim].name; }
const char *kiln_prim_operands(kiln_prim prim) { return prim_table[prim].operands; }
uint32_t kiln_prim_number(kiln_prim prim) { return prim_table[prim].number; }
bool kiln_prim_is_sampler(kiln_prim prim) { return prim_table[prim].kind == KIND_SAMPLE; }
bool kiln_prim_begins(kiln_prim prim) { return prim_table[prim].kind == KIND_BEGIN; }

char kiln_prim_next_letter(const char **letters) {
    char now = **letters;
    *letters += !kiln_prim_may_end(*letters);
    return now;
}

bool kiln_prim_may_end(const char *letters) {
    return *letters == '\0' || *letters == 'I' || *letters == 'L';
}

bool kiln_prim_find(kiln_str name, kiln_prim *out_prim) {
    for (uint32_t i = 0; i < KILN_PRIM_COUNT; i++)
        if (kiln_str_is(name, prim_table[i].name)) {
            *out_prim = (kiln_prim)i;
            return true;
        }
    return false;
}

bool kiln_prim_from_number(uint64_t number, kiln_prim *out_prim) {
    for (uint32_t i = 0; i < KILN_PRIM_COUNT; i++)
        if (prim_table[i].number == number) {
            *out_prim = (kiln_prim)i;
            return true;
        }
    return false;
}

/* ---- undo ---- */

/* The tables that primitives change in place. Expressions are immutable: dropping the new ones is
 * enough. */
typedef struct snapshot {
    kiln_stmt root;
    uint32_t var_count, buffer_count, block_count, stmt_count, expr_count, operand_count;
    kiln_var_info *var;
    kiln_buffer_info *buffer;
    kiln_block_info *block;
    kiln_stmt_info *stmt;
    kiln_stmt **child; /* [stmt_count] copies of the children's ids */
} snapshot;

#define COPY(arena, v) \
    ((v).count ? kiln_arena_copy((arena), (v).data, (v).count * sizeof *(v).data) : NULL)

static snapshot snapshot_take(const kiln_program *p) {
    snapshot s = {.root = p->root,
                  .var_count = p->var.count,
                  .buffer_count = p->buffer.count,
                  .block_count = p->block.count,
                  .stmt_count = p->stmt.count,
                  .expr_count = p->expr.count,
                  .operand_count = p->operand.count};
    s.var = COPY(p->arena, p->var);
    s.buffer = COPY(p->arena, p->buffer);
    s.block = COPY(p->arena, p->block);
    s.stmt = COPY(p->arena, p->stmt);
    s.child = KILN_ARENA_ARRAY(p->arena, kiln_stmt *, s.stmt_count);
    for (uint32_t i = 1; i < s.stmt_count; i++) s.child[i] = COPY(p->arena, s.stmt[i].child);
    return s;
}

#define RESTORE(v, saved, saved_count)                                         \
    do {                                                                       \
        for (uint32_t i = 0; i < (saved_count); i++) (v).data[i] = (saved)[i]; \
        (v).count = (saved_count);                                             \
    } while (0)

/* The newest entries of the hash table end their probe chains, so clearing their slots breaks none.
 */
static void forget_expressions(kiln_program *p, const snapshot *s) {
    for (uint32_t i = 0; i < p->expr_slot.count; i++)
        if (p->expr_slot.data[i] >= s->expr_count) p->expr_slot.data[i] = 0;
    p->expr.count = s->expr_count;
    p->operand.count = s->operand_count;
    p->simplified.epoch++;
    kiln_loads_forget(p);
}

static void snapshot_restore(kiln_program *p, const snapshot *s) {
    forget_expressions(p, s);
    RESTORE(p->var, s->var, s->var_count);
    kiln_vars_enter_all(p);
    RESTORE(p->buffer, s->buffer, s->buffer_count);
    RESTORE(p->block, s->block, s->block_count);
    RESTORE(p->stmt, s->stmt, s->stmt_count);
    for (uint32_t i = 1; i < s->stmt_count; i++)
        for (uint32_t k = 0; k < p->stmt.data[i].child.count; k++)
            p->stmt.data[i].child.data[k] = s->child[i][k];
    p->root = s->root;
}

static bool has_bound_loops(const kiln_program *p) {
    for (kiln_stmt s = 1; s < p->stmt.count; s++)
        if (kiln_stmt_level(p, s) != KILN_LEVEL_NONE) return true;
    return false;
}

kiln_status kiln_prim_apply_once(kiln_program *p, kiln_prim prim, const kiln_prim_args *args) {
    KILN_CHECK(prim < KILN_PRIM_COUNT);
    KILN_CHECK(prim_table[prim].apply != NULL);
    KILN_CHECK(p->root != 0);
    uint8_t moves = prim_table[prim].moves;
    kiln_status st = prim_table[prim].apply(p, args);
    if (!st && (moves & MOVES_ACCESSES)) st = kiln_iterations_check_all(p);
    return !st && (moves & MOVES_LOOPS) && has_bound_loops(p) ? kiln_device_check(p) : st;
}

kiln_status kiln_prim_apply(kiln_program *p, kiln_prim prim, const kiln_prim_args *args) {
    snapshot before = snapshot_take(p);
    kiln_status st = kiln_prim_apply_once(p, prim, args);
    if (st) snapshot_restore(p, &before);
    return st;
}
