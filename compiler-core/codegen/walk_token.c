/* Launches whose threads are two units (ir/device.h): each unit gets its own code, since they run
 * concurrently. The walk goes through the body twice, each time skipping the other unit's
 * statements. Tokens are phases of barriers in shared memory: number k of a queue with n places is
 * phase k / n of place k mod n, and a wait names that phase's parity. A place is reused only after
 * the wait for its last phase, so one bit distinguishes phases. */
#include "base/check.h"
#include "compiler-core/codegen/walk.h"
#include "compiler-core/ir/device.h"

/* Registers of a producer's thread, for addresses and counters: fewer where its group's share is
 * small. */
#define PRODUCER_REGISTERS 40
#define PRODUCER_REGISTERS_FEW 32
#define PRODUCER_REGISTERS_ENOUGH 160 /* registers of a share that allow the larger number */
/* The assembler's limit for a thread, and the step of register counts. */
#define THREAD_REGISTERS_MAX 240
#define REGISTER_STEP 8
/* Registers of a consumer thread in addition to its sums, from which on the equal share is too
 * small. */
#define REGISTERS_BESIDE 40
#define GROUP_THREADS \
    (KILN_WARP_LANES * KILN_GROUP_WARPS) /* threads that change their registers together */

#define BOTH (1u << KILN_UNIT_LOAD | 1u << KILN_UNIT_COMPUTE)

/* ---- units of statements
 * --------------------------------------------------------------------------- */

static uint8_t own_units(const kiln_program *p, kiln_stmt stmt, kiln_unit unit) {
    const kiln_stmt_info *s = &p->stmt.data[stmt];
    switch ((kiln_stmt_kind)s->kind) {
    case KILN_STMT_BARRIER: return BOTH;
    case KILN_STMT_TOKEN_PUSH: return (uint8_t)(1u << s->from);
    case KILN_STMT_TOKEN_POP: return (uint8_t)(1u << s->to);
    case KILN_STMT_STORE:
    case KILN_STMT_COPY:
    case KILN_STMT_COMMIT:
    case KILN_STMT_WAIT: return (uint8_t)(1u << unit);
    case KILN_STMT_SEQ:
    case KILN_STMT_FOR:
    case KILN_STMT_IF:
    case KILN_STMT_ALLOC:
    case KILN_STMT_BLOCK:
    case KILN_STMT_KIND_COUNT: break;
    }
    return 0;
}

static uint8_t find_units(kiln_walk *w, kiln_stmt stmt, kiln_unit unit) {
    const kiln_attribute *own = kiln_stmt_attribute(w->p, stmt, KILN_ATTRIBUTE_UNIT);
    if (own) unit = (kiln_unit)own->row;
    uint8_t units = own_units(w->p, stmt, unit);
    for (uint32_t i = 0; i < w->p->stmt.data[stmt].child.count; i++)
        units |= find_units(w, w->p->stmt.data[stmt].child.data[i], unit);
    return w->units[stmt] = units;
}

bool kiln_walk_is_of_unit(const kiln_walk *w, kiln_stmt stmt) {
    return !w->units || (w->units[stmt] >> w->unit & 1) != 0;
}

/* ---- tokens ---------------------------------------------------------------------------------- */

/* The address of a place: those of full slots first, then those of empty ones. */
static kiln_ssa place_of(kiln_walk *w, kiln_unit from, kiln_ssa place) {
    kiln_ssa at =
        kiln_walk_compute(w, KILN_BUILD_MUL, place, kiln_walk_i64(w, KILN_TOKEN_PLACE_BYTES));
    kiln_ssa queue = w->tokens;
    if (from != KILN_UNIT_LOAD)
        queue = w->b->ops->offset(w->b, queue,
                                  kiln_walk_i64(w, w->token_slots * KILN_TOKEN_PLACE_BYTES));
    return w->b->ops->offset(w->b, queue, at);
}

void kiln_walk_token(kiln_walk *w, kiln_stmt stmt) {
    const kiln_stmt_info s = w->p->stmt.data[stmt];
    kiln_program *p = w->p;
    const kiln_expr slots = kiln_expr_index(p, w->token_slots);
    const kiln_expr number = kiln_expr_substitute(p, s.value, w->constant_of);
    kiln_expr place = kiln_expr_binary(p, KILN_EXPR_FLOORMOD, number, slots);
    kiln_expr phase = kiln_expr_binary(p, KILN_EXPR_FLOORDIV, number, slots);
    phase = kiln_expr_binary(p, KILN_EXPR_FLOORMOD, phase, kiln_expr_index(p, 2));
    w->stamp = ++w->last_stamp;
    kiln_ssa slot = kiln_walk_expr(w, kiln_expr_simplify(p, place, NULL));
    kiln_ssa at = place_of(w, (kiln_unit)s.from, slot);
    w->full = NULL;
    /* Groups of a cluster that copy for each other wait for each other's slots. */
    const bool of_cluster = w->launch->has_shared_boxes;
    if (s.kind == KILN_STMT_TOKEN_PUSH && s.from != KILN_UNIT_LOAD && of_cluster) {
        w->b->ops->token_push_all(w->b, at, w->launch->cluster);
        return;
    }
    if (s.kind == KILN_STMT_TOKEN_PUSH) {
        w->b->ops->token_push(w->b, at, s.from == KILN_UNIT_LOAD);
        return;
    }
    kiln_ssa parity = kiln_walk_expr(w, kiln_expr_simplify(p, phase, NULL));
    w->b->ops->token_pop(w->b, at, kiln_walk_convert(w, KILN_CONVERT_SIGNED, parity, KILN_SSA_I32),
                         of_cluster);
    if (s.to == KILN_UNIT_LOAD) w->full = place_of(w, KILN_UNIT_LOAD, slot);
    /* Orders accesses of threads to the slot before asynchronous ones. */
    if (s.to == KILN_UNIT_LOAD ? w->has_bulk_copies : w->has_groups) w->b->ops->group_fence(w->b);
}

/* Each thread of the producer that fetches arrives at a full slot twice, for its copies and its
 * stores; one thread of each consumer warp arrives at an empty one. */
static void make_places(kiln_walk *w, const kiln_launch *launch, const kiln_launch_values *values) {
    const uint32_t *size = launch->group_size;
    const uint32_t threads = size[0] * size[1], workers = threads * (size[2] - 1),
                   producers = launch->boxes_alone ? 1 : threads,
                   groups = launch->has_shared_boxes ? launch->cluster : 1;
    kiln_ssa any = kiln_walk_compute(w, KILN_BUILD_OR, values->group[0], values->group[1]);
    any = kiln_walk_compute(w, KILN_BUILD_OR, any, values->group[2]);
    kiln_ssa first = kiln_walk_compute(w, KILN_BUILD_EQ, any, kiln_walk_i64(w, 0));
    kiln_branch_handle branch = w->b->ops->branch_begin(w->b, first, false);
    for (uint32_t i = 0; i < w->token_slots; i++) {
        kiln_ssa place = kiln_walk_i64(w, i);
        w->b->ops->token_place(w->b, place_of(w, KILN_UNIT_LOAD, place), 2 * producers);
        w->b->ops->token_place(w->b, place_of(w, KILN_UNIT_COMPUTE, place),
                               groups * workers / KILN_WARP_LANES);
    }
    w->b->ops->branch_end(w->b, branch);
    if (launch->has_shared_boxes)
        w->b->ops->cluster_sync(w->b);
    else
        kiln_walk_barrier(w);
}

/* ---- units ----------------------------------------------------------------------------------- */

static uint32_t in_steps(uint32_t registers) { return registers / REGISTER_STEP * REGISTER_STEP; }

/* Registers per thread if all threads on a unit share equally. */
static uint32_t share_of(const kiln_walk *w, const kiln_launch *launch) {
    const uint32_t *size = launch->group_size;
    const uint32_t threads = size[0] * size[1] * size[2] * KILN_MAX(launch->resident, 1u);
    return in_steps(w->target->gpu->unit_registers / threads);
}

bool kiln_walk_moves_registers(const kiln_walk *w, const kiln_launch *launch, uint32_t counted) {
    const uint32_t *size = launch->group_size;
    return launch->token_slots && w->b->ops->unit_registers &&
           kiln_str_is(w->target->triple, "sm_90a") && size[0] * size[1] % GROUP_THREADS == 0 &&
           share_of(w, launch) < THREAD_REGISTERS_MAX &&
           counted + REGISTERS_BESIDE >= share_of(w, launch);
}

/* Moves registers from the producer to the consumers. */
static void move_registers(kiln_walk *w, const kiln_launch *launch) {
    const uint32_t share = share_of(w, launch), workers = launch->group_size[2] - 1;
    const uint32_t few =
        share >= PRODUCER_REGISTERS_ENOUGH ? PRODUCER_REGISTERS : PRODUCER_REGISTERS_FEW;
    const uint32_t more = in_steps(share + (share - few) / workers);
    if (w->unit == KILN_UNIT_LOAD)
        w->b->ops->unit_registers(w->b, few, false);
    else
        w->b->ops->unit_registers(w->b, KILN_MIN(more, (uint32_t)THREAD_REGISTERS_MAX), true);
}

static void walk_unit(kiln_walk *w, const kiln_launch *launch, kiln_unit unit, uint32_t registers) {
    const kiln_var var = launch->group_var[2];
    const kiln_walk_slot slot = w->slot[var];
    const int64_t last = launch->group_size[2] - 1;
    w->unit = unit;
    w->loads = (kiln_walk_table){0};
    if (kiln_walk_moves_registers(w, launch, registers)) move_registers(w, launch);
    kiln_walk_push_level(w, NULL, NULL);
    if (unit == KILN_UNIT_LOAD)
        kiln_walk_bind(w, var, last);
    else
        kiln_var_set_range(w->p, var, 0, last - 1);
    w->stamp = ++w->last_stamp;
    kiln_walk_stmt(w, launch->body);
    kiln_walk_group_wait(w);
    kiln_var_set_range(w->p, var, 0, last);
    kiln_walk_unbind(w, var);
    w->slot[var] = slot;
    kiln_walk_pop_level(w);
}

void kiln_walk_units(kiln_walk *w, const kiln_launch *launch, const kiln_launch_values *values,
                     uint32_t registers) {
    w->units = KILN_ARENA_ARRAY(w->arena, uint8_t, w->p->stmt.count);
    find_units(w, launch->body, KILN_UNIT_COMPUTE);
    w->token_slots = launch->token_slots;
    w->has_bulk_copies = launch->box_count || kiln_walk_has_bulk_copies(w, launch->body);
    w->tokens =
        w->b->ops->offset(w->b, values->shared, kiln_walk_i64(w, (int64_t)launch->token_offset));
    make_places(w, launch, values);
    kiln_ssa is_producer = kiln_walk_compute(w, KILN_BUILD_EQ, values->group[2],
                                             kiln_walk_i64(w, launch->group_size[2] - 1));
    kiln_branch_handle branch = w->b->ops->branch_begin(w->b, is_producer, true);
    walk_unit(w, launch, KILN_UNIT_LOAD, registers);
    w->b->ops->branch_else(w->b, branch);
    walk_unit(w, launch, KILN_UNIT_COMPUTE, registers);
    w->b->ops->branch_end(w->b, branch);
    /* No group may leave while others write to its memory. */
    if (launch->has_shared_boxes) w->b->ops->cluster_sync(w->b);
}
