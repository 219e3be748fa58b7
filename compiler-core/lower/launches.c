/* launches: every statement at the root is a launch, a grid of groups of threads. A temp's scope
 * follows from its accesses: a temp of each group cannot lie in memory that all groups see, and a
 * temp of several launches must. */
#include "base/check.h"
#include "base/integer.h"
#include "compiler-core/facts/nest.h"
#include "compiler-core/ir/device.h"
#include "compiler-core/lower/boxes.h"
#include "compiler-core/lower/launch.h"
#include "compiler-core/lower/pass.h"
#include "compiler-core/lower/registers.h"

#define REFUSE(...) KILN_ERROR(ILLEGAL_SCHEDULE, __VA_ARGS__)

/* ---- where temps are touched ----------------------------------------------------------------- */

typedef struct home_walk {
    kiln_stmt *home; /* [buffer count] smallest statement around all accesses; 0: none so far */
} home_walk;

static void add_access(kiln_program *p, home_walk *w, kiln_buffer buffer, kiln_stmt stmt) {
    w->home[buffer] = w->home[buffer] ? kiln_nest_common(p, w->home[buffer], stmt) : stmt;
}

static void add_load(kiln_program *p, kiln_stmt stmt, kiln_expr load, void *context) {
    add_access(p, context, kiln_expr_get(p, load)->payload.id, stmt);
}

static void walk_homes(kiln_program *p, kiln_stmt stmt, home_walk *w) {
    kiln_lower_visit_loads(p, stmt, 0, add_load, w);
    const kiln_stmt_info *s = &p->stmt.data[stmt];
    if (s->kind == KILN_STMT_STORE) add_access(p, w, s->buffer, stmt);
    for (uint32_t i = 0; i < p->stmt.data[stmt].child.count; i++)
        walk_homes(p, p->stmt.data[stmt].child.data[i], w);
}

kiln_stmt *kiln_lower_homes(kiln_program *p, kiln_stmt stmt) {
    home_walk w = {.home = KILN_ARENA_ARRAY(p->arena, kiln_stmt, p->buffer.count)};
    walk_homes(p, stmt, &w);
    return w.home;
}

bool kiln_lower_has_level(const kiln_program *p, kiln_stmt stmt, kiln_axis_level level) {
    bool found = kiln_stmt_level(p, stmt) == level;
    for (uint32_t i = 0; i < p->stmt.data[stmt].child.count && !found; i++)
        found = kiln_lower_has_level(p, p->stmt.data[stmt].child.data[i], level);
    return found;
}

/* ---- scopes ---------------------------------------------------------------------------------- */

/* The scope that a temp with this home has. */
static kiln_status settle_scope(kiln_program *p, kiln_buffer buffer, kiln_stmt home) {
    kiln_buffer_info *b = &p->buffer.data[buffer];
    kiln_seen_by seen = kiln_scopes[b->scope].seen_by;
    bool is_root = home == p->root;
    if (is_root && seen != KILN_SEEN_BY_DEVICE)
        return REFUSE("%.*s has scope %s and several launches touch it", KILN_STR_ARG(b->name),
                      kiln_scopes[b->scope].text);
    if (is_root) return KILN_OK;
    bool of_thread = kiln_stmt_outermost(p, home, KILN_LEVEL_GROUP) != 0;
    if (of_thread && seen == KILN_SEEN_BY_GROUP)
        return REFUSE("%.*s has scope %s and each thread has its own", KILN_STR_ARG(b->name),
                      kiln_scopes[b->scope].text);
    if (seen != KILN_SEEN_BY_DEVICE) return KILN_OK;
    kiln_stmt grid = kiln_stmt_outermost(p, home, KILN_LEVEL_GRID);
    if (of_thread || (grid && (!kiln_lower_has_level(p, grid, KILN_LEVEL_GROUP) ||
                               kiln_lower_is_owned(p, kiln_lower_group(p, grid), buffer))))
        b->scope = KILN_SCOPE_LOCAL;
    else if (grid)
        b->scope = KILN_SCOPE_SHARED;
    return KILN_OK;
}

static kiln_status settle_program(kiln_program *p) {
    if (!p || !p->root) return KILN_OK;
    if (p->stmt.data[p->root].kind != KILN_STMT_SEQ)
        kiln_stmt_wrap(p, p->root, kiln_stmt_create(p, KILN_STMT_SEQ));
    const kiln_stmt *home = kiln_lower_homes(p, p->root);
    kiln_status st = kiln_device_check(p);
    for (kiln_buffer b = 1; b < p->buffer.count && !st; b++)
        if (p->buffer.data[b].role == KILN_ROLE_TEMP && home[b]) st = settle_scope(p, b, home[b]);
    return st;
}

kiln_status kiln_lower_launches(kiln_lowering *l) {
    kiln_status st = settle_program(l->run);
    return st ? st : settle_program(l->prepare);
}

/* ---- description ----------------------------------------------------------------------------- */

typedef struct describing {
    kiln_program *p;
    const kiln_target *target;
    kiln_arena *arena;
    kiln_str prefix;
    kiln_launches *out;
    bool *touched; /* [buffer count] by the current launch */
} describing;

uint64_t kiln_lower_bytes(const kiln_program *p, kiln_buffer buffer) {
    const kiln_buffer_info *b = &p->buffer.data[buffer];
    const kiln_shape shape = kiln_layout_physical(&b->layout, &b->shape);
    return (uint64_t)kiln_shape_count(&shape) * kiln_dtype_size(b->dtype);
}

/* Appends the buffer at its place, if it has one, or else behind the others. */
static void add_temp(const kiln_program *p, kiln_buffer buffer, kiln_launch_temp *temp,
                     uint32_t *count, uint64_t *bytes) {
    const kiln_buffer_info *b = &p->buffer.data[buffer];
    for (uint32_t i = 0; i < *count; i++)
        if (temp[i].buffer == buffer) return; /* lowering copies code with its allocations */
    const uint64_t size = kiln_lower_bytes(p, buffer),
                   offset = b->is_placed ? b->offset
                                         : KILN_ALIGN_UP(*bytes, kiln_buffer_alignment(p, buffer));
    temp[(*count)++] = (kiln_launch_temp){.buffer = buffer, .offset = offset, .size_bytes = size};
    *bytes = KILN_MAX(*bytes, offset + size);
}

static void touch_load(kiln_program *p, kiln_stmt stmt, kiln_expr load, void *context) {
    (void)stmt;
    ((describing *)context)->touched[kiln_expr_get(p, load)->payload.id] = true;
}

static void describe_stmt(describing *d, kiln_stmt stmt, kiln_launch *launch) {
    kiln_program *p = d->p;
    const kiln_stmt_info s = p->stmt.data[stmt];
    kiln_lower_visit_loads(p, stmt, 0, touch_load, d);
    if (s.kind == KILN_STMT_STORE || s.kind == KILN_STMT_COPY) d->touched[s.buffer] = true;
    if (s.kind == KILN_STMT_BARRIER) launch->barrier_count++;
    if (s.kind == KILN_STMT_TOKEN_PUSH) launch->token_slots = s.pending;
    if (s.kind == KILN_STMT_ALLOC) {
        kiln_scope scope = p->buffer.data[s.buffer].scope;
        if (scope == KILN_SCOPE_SHARED)
            add_temp(p, s.buffer, launch->shared, &launch->shared_count, &launch->shared_bytes);
        if (scope == KILN_SCOPE_LOCAL)
            add_temp(p, s.buffer, launch->local, &launch->local_count, &launch->local_bytes);
        if (scope == KILN_SCOPE_GLOBAL)
            add_temp(p, s.buffer, d->out->temp, &d->out->temp_count, &d->out->scratch_bytes);
    }
    for (uint32_t i = 0; i < s.child.count; i++) describe_stmt(d, s.child.data[i], launch);
}

static void enter_loop(const kiln_stmt_info *loop, kiln_launch *launch) {
    const kiln_loop_axis_info *axis = &kiln_axes[loop->axis];
    const bool is_grid = axis->level == KILN_LEVEL_GRID;
    if (loop->axis == KILN_AXIS_CLUSTER) {
        launch->cluster = (uint32_t)loop->extent;
        launch->cluster_var = loop->var;
        return;
    }
    (is_grid ? launch->grid_size : launch->group_size)[axis->dimension] = (uint32_t)loop->extent;
    (is_grid ? launch->grid_var : launch->group_var)[axis->dimension] = loop->var;
}

/* The statement's only child, seen through allocations and sequences of one, while it is a loop of
 * that level; sets sizes and variables. */
static kiln_stmt enter_loops(const kiln_program *p, kiln_stmt stmt, kiln_axis_level level,
                             kiln_launch *launch) {
    for (kiln_stmt at = stmt; at;) {
        const kiln_stmt_info *s = &p->stmt.data[at];
        bool is_level = kiln_stmt_level(p, at) == level;
        bool through =
            s->kind == KILN_STMT_ALLOC || (s->kind == KILN_STMT_SEQ && s->child.count == 1);
        if (!is_level && !through) break;
        if (is_level) {
            enter_loop(s, launch);
            stmt = s->child.data[0];
        }
        at = s->child.data[0];
    }
    return stmt;
}

/* The most memory of a thread on the stack of a driver's worker. PoCL's have 8 MiB. */
#define STACK_BYTES_MAX (UINT64_C(1) << 20)

/* Gives groups that need too much memory for a stack their own part of device scratch, behind the
 * temps between launches. Launches run one after another, so they share that part. */
static void place_own(const kiln_target *target, kiln_launches *out) {
    const uint64_t offset =
        KILN_ALIGN_UP(out->scratch_bytes, kiln_scopes[KILN_SCOPE_GLOBAL].alignment);
    for (uint32_t i = 0; i < out->count; i++) {
        kiln_launch *l = &out->launch[i];
        if (!target->gpu || !target->gpu->is_cpu || l->local_bytes <= STACK_BYTES_MAX) continue;
        const uint64_t groups = (uint64_t)l->grid_size[0] * l->grid_size[1] * l->grid_size[2];
        l->own_offset = offset;
        l->own_bytes = KILN_ALIGN_UP(l->local_bytes, kiln_scopes[KILN_SCOPE_GLOBAL].alignment);
        l->local_bytes = 0;
        l->uses_scratch = true;
        out->scratch_bytes = KILN_MAX(out->scratch_bytes, offset + groups * l->own_bytes);
    }
}

static void place_tokens(kiln_launch *launch) {
    if (!launch->token_slots) return;
    launch->token_offset = KILN_ALIGN_UP(launch->shared_bytes, (uint64_t)KILN_TOKEN_PLACE_BYTES);
    launch->shared_bytes =
        launch->token_offset + UINT64_C(2) * launch->token_slots * KILN_TOKEN_PLACE_BYTES;
}

/* A limit that a kind of targets does not have is 0. */
static kiln_status check_limits(const describing *d, const kiln_launch *launch) {
    const kiln_target *target = d->target;
    const uint32_t *size = launch->group_size;
    const uint32_t threads = size[0] * size[1] * size[2]; /* at most KILN_GROUP_THREADS_MAX */
    if (target->group_threads && threads > target->group_threads)
        return REFUSE(
            "launch %.*s: thread.x %u, thread.y %u, thread.z %u make %u threads; a group of "
            "the target has %u at most",
            KILN_STR_ARG(launch->entry), size[0], size[1], size[2], threads, target->group_threads);
    if (!target->shared_bytes || launch->shared_bytes <= target->shared_bytes) return KILN_OK;
    const kiln_launch_temp *largest = &launch->shared[0];
    for (uint32_t i = 1; i < launch->shared_count; i++)
        if (launch->shared[i].size_bytes > largest->size_bytes) largest = &launch->shared[i];
    return REFUSE("launch %.*s: its groups share %llu bytes, %llu of them %.*s; the target has %u",
                  KILN_STR_ARG(launch->entry), (unsigned long long)launch->shared_bytes,
                  (unsigned long long)largest->size_bytes,
                  KILN_STR_ARG(d->p->buffer.data[largest->buffer].name), target->shared_bytes);
}

/* The nests of a launch have been joined: its body has no thread loops. */
static kiln_status describe_launch(describing *d, kiln_stmt nest) {
    kiln_program *p = d->p;
    if (d->out->count == KILN_LAUNCHES_MAX)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "the program has more than %d launches",
                          KILN_LAUNCHES_MAX);
    kiln_launch *launch = &d->out->launch[d->out->count];
    *launch =
        (kiln_launch){.nest = nest, .grid_size = {1, 1, 1}, .group_size = {1, 1, 1}, .cluster = 1};
    launch->entry = kiln_str_from(
        kiln_arena_printf(d->arena, "%.*s_%u", KILN_STR_ARG(d->prefix), d->out->count++));
    const kiln_attribute *resident = kiln_stmt_attribute(p, nest, KILN_ATTRIBUTE_RESIDENT);
    launch->resident = resident ? resident->row : kiln_registers_many(p, nest);
    launch->group = enter_loops(p, nest, KILN_LEVEL_GRID, launch);
    launch->body = enter_loops(p, launch->group, KILN_LEVEL_GROUP, launch);
    const uint64_t groups_x = (uint64_t)launch->grid_size[0] * launch->cluster;
    if (groups_x > (uint64_t)kiln_axes[KILN_AXIS_BLOCK_X].extent_max)
        return REFUSE("launch %.*s has %llu groups along x, %u in each cluster; %lld at most",
                      KILN_STR_ARG(launch->entry), (unsigned long long)groups_x, launch->cluster,
                      (long long)kiln_axes[KILN_AXIS_BLOCK_X].extent_max);
    launch->grid_size[0] = (uint32_t)groups_x;
    if (kiln_lower_has_level(p, launch->body, KILN_LEVEL_GROUP))
        return REFUSE("launch %.*s has several thread nests", KILN_STR_ARG(launch->entry));
    launch->shared = KILN_ARENA_ARRAY(d->arena, kiln_launch_temp, p->buffer.count);
    launch->local = KILN_ARENA_ARRAY(d->arena, kiln_launch_temp, p->buffer.count);
    launch->arg = KILN_ARENA_ARRAY(d->arena, kiln_buffer, p->buffer.count);
    d->touched = KILN_ARENA_ARRAY(d->arena, bool, p->buffer.count);
    describe_stmt(d, nest, launch);
    for (kiln_buffer b = 1; b < p->buffer.count; b++) {
        if (!d->touched[b] || p->buffer.data[b].scope != KILN_SCOPE_GLOBAL) continue;
        if (p->buffer.data[b].role == KILN_ROLE_TEMP)
            launch->uses_scratch = true;
        else
            launch->arg[launch->arg_count++] = b;
    }
    place_tokens(launch);
    kiln_lower_find_boxes(p, d->out, d->arena, launch);
    return check_limits(d, launch);
}

/* Describes the root's statements and the bodies of allocations of device memory, in order. */
static kiln_status describe_root(describing *d, kiln_stmt stmt) {
    const kiln_program *p = d->p;
    const kiln_stmt_info *s = &p->stmt.data[stmt];
    bool is_memory =
        s->kind == KILN_STMT_ALLOC && p->buffer.data[s->buffer].scope == KILN_SCOPE_GLOBAL;
    kiln_status st = KILN_OK;
    if (!is_memory && s->kind != KILN_STMT_SEQ) return describe_launch(d, stmt);
    if (is_memory)
        add_temp(p, s->buffer, d->out->temp, &d->out->temp_count, &d->out->scratch_bytes);
    for (uint32_t i = 0; i < s->child.count && !st; i++) st = describe_root(d, s->child.data[i]);
    return st;
}

static kiln_status describe(kiln_program *lowered, const kiln_target *target, kiln_str prefix,
                            bool whole, kiln_arena *arena, kiln_launches *out) {
    *out = (kiln_launches){.count = 0};
    if (!lowered || !lowered->root) return KILN_OK;
    out->launch = KILN_ARENA_ARRAY(arena, kiln_launch, KILN_LAUNCHES_MAX);
    out->temp = KILN_ARENA_ARRAY(arena, kiln_launch_temp, lowered->buffer.count);
    describing d = {.p = lowered, .target = target, .arena = arena, .prefix = prefix, .out = out};
    kiln_status st = whole ? KILN_OK : describe_root(&d, lowered->root);
    if (!st && !out->count) st = describe_launch(&d, lowered->root);
    if (!st) place_own(target, out);
    return st;
}

kiln_status kiln_launches_describe(kiln_program *lowered, const kiln_target *target,
                                   kiln_str prefix, kiln_arena *arena, kiln_launches *out) {
    return describe(lowered, target, prefix, false, arena, out);
}

kiln_status kiln_launches_describe_whole(kiln_program *lowered, const kiln_target *target,
                                         kiln_str prefix, kiln_arena *arena, kiln_launches *out) {
    return describe(lowered, target, prefix, true, arena, out);
}

void kiln_launches_print(const kiln_launches *launches, kiln_strbuf *out) {
    for (uint32_t i = 0; i < launches->count; i++) {
        const kiln_launch *l = &launches->launch[i];
        kiln_strbuf_printf(out, "# launch %.*s: grid %u x %u x %u, ", KILN_STR_ARG(l->entry),
                           l->grid_size[0], l->grid_size[1], l->grid_size[2]);
        if (l->cluster > 1) kiln_strbuf_printf(out, "cluster %u, ", l->cluster);
        kiln_strbuf_printf(out, "group %u x %u x %u, barriers %u, bytes %llu shared, %llu local",
                           l->group_size[0], l->group_size[1], l->group_size[2], l->barrier_count,
                           (unsigned long long)l->shared_bytes, (unsigned long long)l->local_bytes);
        if (l->box_count) kiln_strbuf_printf(out, ", boxes %u", l->box_count);
        kiln_strbuf_text(out, "\n");
    }
}
