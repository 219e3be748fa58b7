/* Functions: entries, bodies of parallel loops, scratch memory. */
#include <string.h>

#include "base/check.h"
#include "base/integer.h"
#include "compiler-core/codegen/walk.h"
#include "compiler-core/ir/device.h"

/* Nested serial loops, without the level of the function. */
#define LOOPS_MAX (KILN_WALK_LEVELS_MAX - 1)

/* ---- the plan of scratch memory -------------------------------------------------------------- */

/* Temps that live at different times share memory: an allocation begins where those around it end.
 * A temp that is allocated in several places (parts of a loop that was split) has one offset for
 * all of them: true when one had to move, and the plan must be made again. */
static bool plan_scratch(kiln_walk *w, kiln_stmt stmt, uint64_t used, bool in_parallel) {
    const kiln_stmt_info *s = &w->p->stmt.data[stmt];
    bool moved = false;
    if (s->kind == KILN_STMT_FOR && s->loop_kind == KILN_LOOP_PARALLEL && !in_parallel) {
        in_parallel = true;
        used = 0;
    }
    if (s->kind == KILN_STMT_ALLOC && w->p->buffer.data[s->buffer].scope != KILN_SCOPE_REGISTER) {
        const kiln_buffer_info *info = &w->p->buffer.data[s->buffer];
        kiln_shape physical = kiln_layout_physical(&info->layout, &info->shape);
        uint64_t *offset = &w->scratch_offset[s->buffer];
        moved = *offset < used;
        *offset = KILN_MAX(*offset, used);
        used = KILN_ALIGN_UP(*offset + (uint64_t)kiln_shape_count(&physical) *
                                           kiln_dtype_size(info->dtype),
                             KILN_KERNEL_ALIGNMENT);
        uint64_t *total = in_parallel ? &w->worker_bytes : &w->scratch_bytes;
        *total = KILN_MAX(*total, used);
    }
    for (uint32_t i = 0; i < s->child.count; i++)
        moved |= plan_scratch(w, s->child.data[i], used, in_parallel);
    return moved;
}

/* ---- unsupported programs ---------------------------------------------------------------- */

/* `levels`: serial loops around; `in_lanes`: a vectorized loop is among them. `in_launch`: `stmt`
 * is in the body of a launch's threads. */
static kiln_status check_stmt(const kiln_program *p, kiln_stmt stmt, uint32_t levels, bool in_lanes,
                              bool in_launch) {
    const kiln_stmt_info *s = &p->stmt.data[stmt];
    switch ((kiln_stmt_kind)s->kind) {
    case KILN_STMT_SEQ:
    case KILN_STMT_IF:
    case KILN_STMT_ALLOC:
    case KILN_STMT_STORE: break;
    case KILN_STMT_BARRIER:
        if (in_launch) break;
        return KILN_ERROR(UNIMPLEMENTED, "a barrier outside of the threads of a launch");
    case KILN_STMT_COPY:
    case KILN_STMT_COMMIT:
    case KILN_STMT_WAIT:
        if (in_launch) break;
        return KILN_ERROR(UNIMPLEMENTED, "a copy outside of the threads of a launch");
    case KILN_STMT_FOR:
        if (s->loop_kind == KILN_LOOP_BIND || s->loop_kind == KILN_LOOP_VTHREAD)
            return KILN_ERROR(UNIMPLEMENTED, "code generation has no loops of threads");
        if (s->loop_kind == KILN_LOOP_VECTORIZE && !in_lanes) {
            if (s->extent > KILN_LOWER_LANES_MAX)
                return KILN_ERROR(UNIMPLEMENTED, "a vector of %lld lanes; code generation takes %d",
                                  (long long)s->extent, KILN_LOWER_LANES_MAX);
            in_lanes = true;
        } else if (++levels > LOOPS_MAX) {
            return KILN_ERROR(UNIMPLEMENTED, "loops nested more than %d deep", LOOPS_MAX);
        }
        break;
    case KILN_STMT_TOKEN_PUSH:
    case KILN_STMT_TOKEN_POP:
        if (in_launch && s->value) break;
        return KILN_ERROR(UNIMPLEMENTED, "a token outside of the threads of a launch");
    case KILN_STMT_BLOCK:
    case KILN_STMT_KIND_COUNT:
        return KILN_ERROR(UNIMPLEMENTED, "code generation has no blocks; lowering left one");
    }
    for (uint32_t i = 0; i < s->child.count; i++) {
        kiln_status st = check_stmt(p, s->child.data[i], levels, in_lanes, in_launch);
        if (st) return st;
    }
    return KILN_OK;
}

/* ---- functions ------------------------------------------------------------------------------- */

/* Resets the state for a new function. */
static void begin_function(kiln_walk *w) {
    memset(w->level, 0, sizeof w->level);
    w->level_count = 0;
    w->loads = (kiln_walk_table){0};
    w->stamp = ++w->last_stamp;
}

/* base + bytes. */
static kiln_ssa plus_bytes(kiln_walk *w, kiln_ssa base, uint64_t bytes) {
    return w->b->ops->offset(w->b, base, kiln_walk_i64(w, (int64_t)bytes));
}

/* ---- parallel loops -------------------------------------------------------------------------- */

/* Values passed from the function with a parallel loop to its body: scratch, the arguments, and the
 * counters of open serial loops. */
typedef struct closure {
    kiln_ssa value[1 + KILN_MANIFEST_ARGS_MAX + KILN_WALK_LEVELS_MAX];
    kiln_walk_slot slot[KILN_WALK_LEVELS_MAX]; /* of the counters, outside of the body */
    kiln_var counter[KILN_WALK_LEVELS_MAX];
    uint32_t counter_count, count;
} closure;

static void fill_closure(kiln_walk *w, closure *c) {
    *c = (closure){.count = 1, .value = {w->scratch}};
    for (uint32_t i = 0; i < w->arg_count; i++) c->value[c->count++] = w->data[w->arg[i]];
    for (kiln_var v = 1; v < w->var_count; v++) {
        if (w->slot[v].binding != KILN_WALK_SERIAL) continue;
        c->counter[c->counter_count] = v;
        c->slot[c->counter_count++] = w->slot[v];
        c->value[c->count++] = w->slot[v].value;
    }
}

/* Unpacks the closure, in the order in which it was filled, and finds this worker's scratch. */
static void unpack_closure(kiln_walk *w, const closure *c, const kiln_body_values *body) {
    const kiln_ssa *next = body->captured;
    w->scratch = *next++;
    for (uint32_t i = 0; i < w->arg_count; i++) w->data[w->arg[i]] = *next++;
    for (uint32_t i = 0; i < c->counter_count; i++)
        w->slot[c->counter[i]] = (kiln_walk_slot){.binding = KILN_WALK_SERIAL, .value = *next++};
    kiln_ssa worker = kiln_walk_convert(w, KILN_CONVERT_UNSIGNED, body->worker, KILN_SSA_I64);
    worker =
        kiln_walk_compute(w, KILN_BUILD_MUL, worker, kiln_walk_i64(w, (int64_t)w->worker_bytes));
    worker =
        kiln_walk_compute(w, KILN_BUILD_ADD, worker, kiln_walk_i64(w, (int64_t)w->scratch_bytes));
    w->worker_scratch = w->b->ops->offset(w->b, w->scratch, worker);
}

/* Temps around a parallel loop are shared by all workers. */
static void find_shared_temps(kiln_walk *w, kiln_ssa *const outer_data) {
    for (kiln_buffer b = 1; b < w->p->buffer.count; b++)
        if (outer_data[b] && w->p->buffer.data[b].role == KILN_ROLE_TEMP)
            w->data[b] = plus_bytes(w, w->scratch, w->scratch_offset[b]);
}

void kiln_walk_parallel(kiln_walk *w, kiln_stmt stmt) {
    const kiln_stmt_info s = w->p->stmt.data[stmt];
    const kiln_walk saved = *w;
    kiln_body_values body;
    closure *c = KILN_ARENA_NEW(w->arena, closure);
    fill_closure(w, c);
    const char *name = kiln_arena_printf(w->arena, "%s.body%u", w->name, ++w->function_count);
    w->b->ops->parallel_begin(w->b, name, w->level[0]->mark, c->value, c->count, &body);
    w->data = KILN_ARENA_ARRAY(w->arena, kiln_ssa, w->p->buffer.count);
    w->in_parallel = true;
    begin_function(w);
    unpack_closure(w, c, &body);
    find_shared_temps(w, saved.data);
    kiln_ssa first = kiln_walk_i64(w, s.first);
    kiln_ssa begin = kiln_walk_compute(w, KILN_BUILD_ADD, body.begin, first);
    kiln_ssa end = kiln_walk_compute(w, KILN_BUILD_ADD, body.end, first);
    kiln_walk_push_level(w, NULL, NULL);
    kiln_walk_tiles_begin(w, s.child.data[0]);
    kiln_walk_counted(w, stmt, begin, end);
    kiln_walk_tiles_end(w);
    kiln_walk_pop_level(w);
    w->b->ops->parallel_end(w->b, s.extent);

    for (uint32_t i = 0; i < c->counter_count; i++) w->slot[c->counter[i]] = c->slot[i];
    /* Tables that grew keep their size; the state of the function is restored. */
    w->scratch = saved.scratch;
    w->data = saved.data;
    memcpy(w->level, saved.level, sizeof w->level);
    w->level_count = saved.level_count;
    w->loads = saved.loads;
    w->tiles = saved.tiles;
    w->tiles_differ = saved.tiles_differ;
    w->in_parallel = false;
    w->stamp = ++w->last_stamp;
    kiln_walk_tiles_resume(w);
}

kiln_ssa kiln_walk_scratch(kiln_walk *w, kiln_buffer buffer) {
    void *here = w->b->ops->enter_mark(w->b, w->level[0]->mark);
    kiln_ssa base = w->in_parallel ? w->worker_scratch : w->scratch;
    kiln_ssa data = plus_bytes(w, base, w->scratch_offset[buffer]);
    w->b->ops->leave(w->b, here);
    return data;
}

/* ---- entries --------------------------------------------------------------------------------- */

static void begin_entry(kiln_walk *w, const kiln_lowered *lowered, bool is_prepare) {
    bool touched[KILN_MANIFEST_ARGS_MAX];
    uint32_t number[KILN_MANIFEST_ARGS_MAX]; /* of arg */
    kiln_buffer *arg = KILN_ARENA_ARRAY(w->arena, kiln_buffer, lowered->arg_count + 1);
    kiln_entry_values entry;
    w->arg = arg;
    for (uint32_t i = 0; i < lowered->arg_count; i++) {
        kiln_buffer buffer = is_prepare ? lowered->arg[i].in_prepare : lowered->arg[i].in_run;
        touched[i] = buffer != 0;
        if (!buffer) continue;
        number[w->arg_count] = i;
        arg[w->arg_count++] = buffer;
    }
    w->b->ops->entry_begin(w->b, w->name, lowered->arg_count, touched, &entry);
    begin_function(w);
    w->scratch = entry.scratch;
    for (uint32_t i = 0; i < w->arg_count; i++) w->data[arg[i]] = entry.data[number[i]];
    kiln_walk_push_level(w, NULL, NULL);
}

static kiln_walk *new_walk(kiln_builder *b, kiln_program *p, const char *name,
                           const kiln_target *target, kiln_arena *arena) {
    kiln_walk *w = KILN_ARENA_NEW(arena, kiln_walk);
    *w = (kiln_walk){
        .b = b, .p = p, .target = target, .arena = arena, .name = name, .var_count = p->var.count};
    w->slot = KILN_ARENA_ARRAY(arena, kiln_walk_slot, p->var.count);
    w->constant_of = KILN_ARENA_ARRAY(arena, kiln_expr, p->var.count);
    w->data = KILN_ARENA_ARRAY(arena, kiln_ssa, p->buffer.count);
    w->registers = KILN_ARENA_ARRAY(arena, kiln_walk_registers, p->buffer.count);
    w->epoch = KILN_ARENA_ARRAY(arena, uint32_t, p->buffer.count);
    return w;
}

/* Raises the scratch sizes to the needs of this program. */
static kiln_status add_entry(kiln_builder *b, const kiln_lowered *lowered, bool is_prepare,
                             const kiln_target *target, kiln_arena *arena,
                             kiln_codegen_output *output) {
    kiln_program *p = is_prepare ? lowered->prepare : lowered->run;
    kiln_status st = check_stmt(p, p->root, 0, false, false);
    if (st) return st;
    kiln_walk *w = new_walk(b, p, is_prepare ? "kiln_prepare" : "kiln_run", target, arena);
    w->scratch_bytes = output->scratch_bytes;
    w->worker_bytes = output->worker_bytes;
    w->scratch_offset = KILN_ARENA_ARRAY(arena, uint64_t, p->buffer.count);
    while (plan_scratch(w, p->root, 0, false)) {}

    begin_entry(w, lowered, is_prepare);
    kiln_walk_tiles_begin(w, p->root);
    kiln_walk_stmt(w, p->root);
    kiln_walk_tiles_end(w);
    b->ops->entry_end(b);
    kiln_walk_pop_level(w);
    output->scratch_bytes = w->scratch_bytes;
    output->worker_bytes = w->worker_bytes;
    return KILN_OK;
}

/* ---- launches -------------------------------------------------------------------------------- */

/* Manifests have no launch without arguments: such a launch gets an unused one. The assembler moves
 * registers between threads only if the number of groups on a unit is given. */
static void describe_head(const kiln_walk *w, const kiln_launch *launch, uint32_t registers,
                          kiln_launch_head *head) {
    *head = (kiln_launch_head){.name = w->name,
                               .arg_count = launch->arg_count,
                               .uses_scratch = launch->uses_scratch,
                               .shared_bytes = launch->shared_bytes,
                               .resident = launch->resident,
                               .cluster = launch->cluster,
                               .local_bytes = launch->local_bytes,
                               .map_count = launch->map_count,
                               .shared_alignment = kiln_scopes[KILN_SCOPE_SHARED].alignment};
    for (uint32_t i = 0; i < launch->shared_count; i++)
        head->shared_alignment =
            KILN_MAX(head->shared_alignment, kiln_buffer_alignment(w->p, launch->shared[i].buffer));
    if (!head->resident && kiln_walk_moves_registers(w, launch, registers)) head->resident = 1;
    memcpy(head->group_size, launch->group_size, sizeof head->group_size);
    if (launch->arg_count == 0 && !launch->uses_scratch) head->arg_count = 1;
    for (uint32_t i = 0; i < head->arg_count; i++) head->arg[i].alignment = KILN_KERNEL_ALIGNMENT;
    for (uint32_t i = 0; i < launch->arg_count; i++) {
        const kiln_role role = w->p->buffer.data[launch->arg[i]].role;
        head->arg[i].is_written = w->written[launch->arg[i]];
        head->arg[i].is_alone = role != KILN_ROLE_INPUT && role != KILN_ROLE_OUTPUT;
    }
}

static void place_temps(kiln_walk *w, const kiln_launch_temp *temp, uint32_t count, kiln_ssa base) {
    for (uint32_t i = 0; i < count; i++)
        w->data[temp[i].buffer] = plus_bytes(w, base, temp[i].offset);
}

/* This group's part of device scratch. */
static kiln_ssa own_part(kiln_walk *w, const kiln_launch *launch,
                         const kiln_launch_values *values) {
    kiln_ssa group = values->grid[KILN_LAUNCH_DIMS - 1];
    for (uint32_t d = KILN_LAUNCH_DIMS - 1; d-- > 0;) {
        group = kiln_walk_compute(w, KILN_BUILD_MUL, group, kiln_walk_i64(w, launch->grid_size[d]));
        group = kiln_walk_compute(w, KILN_BUILD_ADD, group, values->grid[d]);
    }
    group =
        kiln_walk_compute(w, KILN_BUILD_MUL, group, kiln_walk_i64(w, (int64_t)launch->own_bytes));
    return w->b->ops->offset(w->b, plus_bytes(w, values->scratch, launch->own_offset), group);
}

/* Splits the group's number along x into those of its cluster, and in it. */
static void split_cluster(kiln_walk *w, const kiln_launch *launch, kiln_ssa group_x) {
    kiln_ssa groups = kiln_walk_i64(w, launch->cluster);
    if (launch->cluster == 1) return;
    w->slot[launch->grid_var[0]] =
        (kiln_walk_slot){.binding = KILN_WALK_SERIAL,
                         .value = kiln_walk_compute(w, KILN_BUILD_UDIV, group_x, groups)};
    w->slot[launch->cluster_var] =
        (kiln_walk_slot){.binding = KILN_WALK_SERIAL,
                         .value = kiln_walk_compute(w, KILN_BUILD_UREM, group_x, groups)};
}

/* Sets the places of buffers and the indices of the thread. */
static void unpack_launch(kiln_walk *w, const kiln_launches *launches, const kiln_launch *launch,
                          const kiln_launch_values *values) {
    for (uint32_t i = 0; i < launch->arg_count; i++) w->data[launch->arg[i]] = values->data[i];
    if (launch->uses_scratch) place_temps(w, launches->temp, launches->temp_count, values->scratch);
    place_temps(w, launch->shared, launch->shared_count, values->shared);
    place_temps(w, launch->local, launch->local_count,
                launch->own_bytes ? own_part(w, launch, values) : values->local);
    for (uint32_t d = 0; d < KILN_LAUNCH_DIMS; d++) {
        w->slot[launch->grid_var[d]] =
            (kiln_walk_slot){.binding = KILN_WALK_SERIAL, .value = values->grid[d]};
        w->slot[launch->group_var[d]] =
            (kiln_walk_slot){.binding = KILN_WALK_SERIAL, .value = values->group[d]};
    }
    split_cluster(w, launch, values->grid[0]);
    w->slot[0] = (kiln_walk_slot){0}; /* of dimensions without a loop */
    if (launch->group_size[0] != KILN_WARP_LANES) return;
    w->warp_lane = launch->group_var[0];
    if (launch->group_size[1] == KILN_GROUP_WARPS) w->group_warp = launch->group_var[1];
}

static void walk_threads(kiln_walk *w, const kiln_launch *launch) {
    kiln_walk_push_level(w, NULL, NULL);
    kiln_walk_stmt(w, launch->body);
    kiln_walk_group_wait(w);
    kiln_walk_pop_level(w);
}

static kiln_status add_launch(kiln_builder *b, kiln_program *p, const kiln_launches *launches,
                              const kiln_launch *launch, const kiln_target *target,
                              uint32_t registers, kiln_arena *arena) {
    kiln_launch_head head;
    kiln_launch_values values;
    kiln_status st = check_stmt(p, launch->body, 0, false, true);
    if (!st && launch->token_slots && !b->ops->token_place)
        st = KILN_ERROR(UNIMPLEMENTED, "the back end has no tokens between threads");
    if (!st && launch->cluster > 1 && !b->ops->cluster_sync)
        st = KILN_ERROR(UNIMPLEMENTED, "the back end has no clusters of groups");
    if (!st && launch->box_count && !b->ops->box_copy)
        st = KILN_ERROR(UNIMPLEMENTED, "the back end has no copies of boxes");
    if (st) return st;
    kiln_walk *w = new_walk(b, p, kiln_str_dup(arena, launch->entry), target, arena);
    w->in_parallel = true;
    w->copy_tokens = kiln_walk_copy_tokens(p, launch->body);
    w->has_groups = b->ops->group_product && kiln_walk_has_groups(p, launch->body);
    w->written = kiln_walk_stored_below(w, launch->body);
    describe_head(w, launch, registers, &head);
    b->ops->launch_begin(b, &head, &values);
    begin_function(w);
    unpack_launch(w, launches, launch, &values);
    w->launch = launch;
    w->map = values.map;
    if (launch->token_slots)
        kiln_walk_units(w, launch, &values, registers);
    else
        walk_threads(w, launch);
    b->ops->launch_end(b);
    return KILN_OK;
}

static kiln_status add_launches(kiln_builder *b, kiln_program *p, const kiln_launches *launches,
                                const kiln_target *target, uint32_t registers, kiln_arena *arena) {
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; i < launches->count && !st; i++)
        st = add_launch(b, p, launches, &launches->launch[i], target, registers, arena);
    return st;
}

kiln_status kiln_walk_lowered(kiln_builder *b, const kiln_lowered *lowered,
                              const kiln_target *target, kiln_arena *arena,
                              kiln_codegen_output *output) {
    if (lowered->has_launches) {
        kiln_status failed = add_launches(b, lowered->prepare, &lowered->prepare_launches, target,
                                          lowered->registers, arena);
        return failed ? failed
                      : add_launches(b, lowered->run, &lowered->run_launches, target,
                                     lowered->registers, arena);
    }
    kiln_status st =
        lowered->prepare ? add_entry(b, lowered, true, target, arena, output) : KILN_OK;
    return st ? st : add_entry(b, lowered, false, target, arena, output);
}
