#include "compiler-core/cost/estimate_gpu.h"

#include <math.h>

#include "base/macros.h"
#include "compiler-core/cost/grid.h"
#include "compiler-core/cost/launch_gpu.h"
#include "compiler-core/cost/warp.h"
#include "compiler-core/ir/device.h"

typedef enum pipe { F32, F64, INTEGER, SPECIAL, PIPES = KILN_GPU_PIPES, NONE = PIPES } pipe;

/* Instructions of one operation of a thread, their pipe, and slots of it. Quotients and calls count
 * as the sequences of ptxas; halves are computed in f32. */
static const struct {
    double instructions, slots;
    pipe of;
} op_table[KILN_OPS_COUNT] = {
    [KILN_OPS_F32_MAC] = {1, 1, F32},       [KILN_OPS_F32_ADD] = {1, 1, F32},
    [KILN_OPS_F32_MUL] = {1, 1, F32},       [KILN_OPS_F32_DIV] = {10, 1, SPECIAL},
    [KILN_OPS_F32_CALL] = {20, 2, SPECIAL}, [KILN_OPS_F64] = {1, 1, F64},
    [KILN_OPS_F16] = {1, 1, INTEGER},       [KILN_OPS_I8_MAC] = {1, 1, INTEGER},
    [KILN_OPS_INT_MAC] = {1, 1, INTEGER},   [KILN_OPS_INT_OPS] = {1, 1, INTEGER},
    [KILN_OPS_CASTS] = {1, 1, INTEGER},     [KILN_OPS_SELECTS] = {2, 1, INTEGER},
};

#define BOX_INSTRUCTIONS 8  /* of one thread: coordinates, expected bytes, the copy */
#define LOOP_INSTRUCTIONS 3 /* counting, comparing, branching */
/* An address and a condition, of an access outside of the main tile. */
#define COPY_INSTRUCTIONS 2
/* Turns up to which compilers unroll a copying loop, so that its loads begin together; longer ones
 * have one load in each turn in the machine code of sm_90, for which its store waits. */
#define COPIED_TURNS_MAX 32.0
/* Cycles, as others have measured them on A100 and H100. */
#define CHAIN_CYCLES 4.0         /* from one multiply-add to the next */
#define TENSOR_CHAIN_CYCLES 32.0 /* from one product of a warp to the next */
#define CACHE_FULL 0.6           /* share of a cache that data may fill and stay */
#define CACHE_NONE 1.2

static double stays(double bytes, double cache_bytes) {
    const double share = cache_bytes > 0 ? bytes / cache_bytes : CACHE_NONE;
    return fmin(fmax((CACHE_NONE - share) / (CACHE_NONE - CACHE_FULL), 0), 1);
}

/* ---- properties of a launch
 * ------------------------------------------------------------------------ */

static void measure_group(const kiln_facts *facts, const kiln_facts_statement *s,
                          kiln_gpu_launch *l) {
    l->used = true;
    l->producers |= kiln_grid_has(facts, s, KILN_ATTRIBUTE_PRODUCER);
    l->groups = fmax(l->groups, kiln_grid_loops_of(facts, s).groups);
    for (uint32_t k = 1; k < s->depth; k++) {
        const kiln_attribute *resident =
            kiln_stmt_attribute(facts->p, facts->loop[s->path[k]].stmt, KILN_ATTRIBUTE_RESIDENT);
        if (resident) l->held.resident = resident->row;
        if (facts->loop[s->path[k]].level != KILN_LEVEL_GROUP) continue;
        const kiln_facts_loop *loop = &facts->loop[s->path[k]];
        const uint32_t d = kiln_axes[facts->p->stmt.data[loop->stmt].axis].dimension;
        l->group_size[d] = KILN_MAX(l->group_size[d], (uint32_t)loop->extent);
    }
}

/* The level of the path from which one thread runs without interruption. */
static uint32_t thread_level(const kiln_facts *facts, const kiln_facts_statement *s) {
    uint32_t level = 1;
    for (uint32_t k = 1; k < s->depth; k++)
        if (facts->loop[s->path[k]].level != KILN_LEVEL_NONE) level = k + 1;
    return level;
}

/* Stages of the pipeline around the statement; 1: none. */
static uint32_t stages_of(const kiln_facts *facts, const kiln_facts_statement *s) {
    for (uint32_t k = 1; k < s->depth; k++) {
        const kiln_attribute *a =
            kiln_stmt_attribute(facts->p, facts->loop[s->path[k]].stmt, KILN_ATTRIBUTE_PIPELINE);
        if (a) return a->row;
    }
    return 1;
}

/* Memory and registers of temporaries, by the launch of the statement that writes them first. */
static void add_temp(kiln_gpu_estimate *e, kiln_buffer buffer) {
    const kiln_facts *facts = e->facts;
    const kiln_buffer_info *b = &facts->p->buffer.data[buffer];
    if (b->role != KILN_ROLE_TEMP || facts->home[buffer] == KILN_FACTS_NO_HOME) return;
    const kiln_seen_by seen = kiln_grid_seen_by(facts, buffer);
    const double bytes = (double)kiln_dtype_size(b->dtype);
    for (uint32_t i = 0; i < facts->statement_count; i++) {
        const kiln_facts_statement *s = &facts->statement[i];
        if (s->prepare || s->access[0].buffer != buffer) continue;
        kiln_gpu_launch *l = &e->launch[s->nest];
        const kiln_facts_access *a = &s->access[0];
        const uint32_t own = thread_level(facts, s);
        if (seen == KILN_SEEN_BY_GROUP) /* each virtual thread around its home has one */
            l->shared_bytes += (double)kiln_shape_count(&facts->shape[buffer]) * bytes *
                               kiln_grid_virtual_threads(facts, s, a, a->home_level, true) *
                               stages_of(facts, s);
        if (seen == KILN_SEEN_BY_THREAD)
            l->accumulators += a->elements[own] *
                               kiln_grid_virtual_threads(facts, s, a, own, true) *
                               fmax(bytes / 4, 1);
        return;
    }
}

/* ---- statements ------------------------------------------------------------------------------ */

/* One statement while it is counted. */
typedef struct counted {
    const kiln_facts_statement *s;
    kiln_gpu_launch *l;
    uint32_t group_level,
        round_level; /* of the path: where the work of a group, and of its threads, begins */
    double warps;    /* that run it */
    double tiles;    /* executions of the tile by one thread */
    double passes;   /* iterations of the loops around it, shared by virtual threads */
    double rounds;   /* executions by the group */
    bool reads_device, writes_group, reads_group;
    bool fetches; /* for the others: run by the threads that do nothing else */
    bool boxes;   /* these may be boxes (lower/boxes.h) */
    bool copied;  /* by the device itself, past the registers of threads */
} counted;

/* Whether each iteration of the loop runs the statement. Virtual threads with the same result
 * compute it once. */
static bool counts(const kiln_facts *facts, const kiln_facts_statement *s, uint32_t k) {
    const kiln_facts_loop *loop = &facts->loop[s->path[k]];
    bool moved = loop->kind != KILN_LOOP_VTHREAD;
    for (uint32_t i = 0; i < s->access_count && !moved; i++)
        moved = kiln_grid_moves(&s->access[i], loop->var);
    return moved;
}

static counted begin(const kiln_gpu_estimate *e, const kiln_facts_statement *s) {
    const kiln_facts *facts = e->facts;
    counted c = {.s = s, .l = &e->launch[s->nest], .group_level = 1, .tiles = 1, .passes = 1};
    const kiln_warp_shape shape = {e->target->gpu->warp,
                                   {c.l->group_size[0], c.l->group_size[1], c.l->group_size[2]}};
    c.warps = kiln_warps_of(facts, s, &shape);
    c.rounds = kiln_grid_loops_of(facts, s).rounds;
    for (uint32_t k = 1; k < s->depth; k++) {
        const uint8_t level = facts->loop[s->path[k]].level;
        if (level == KILN_LEVEL_GRID) c.group_level = k + 1;
        if (level == KILN_LEVEL_GROUP && !c.round_level) c.round_level = k;
        if (level != KILN_LEVEL_NONE || k >= s->tile.level) continue;
        const kiln_facts_loop *loop = &facts->loop[s->path[k]];
        if (counts(facts, s, k)) c.tiles *= (double)loop->extent;
        if (loop->kind != KILN_LOOP_VTHREAD) c.passes *= (double)loop->extent;
    }
    if (!c.round_level) c.round_level = c.group_level;
    return c;
}

/* What the statement writes is known only after `begin`. */
static void find_way(const kiln_gpu_estimate *e, counted *c) {
    const kiln_facts *facts = e->facts;
    c->writes_group = kiln_grid_seen_by(facts, c->s->access[0].buffer) == KILN_SEEN_BY_GROUP;
    c->fetches = c->writes_group && kiln_grid_has(facts, c->s, KILN_ATTRIBUTE_PRODUCER);
    c->boxes = c->fetches && kiln_grid_has(facts, c->s, KILN_ATTRIBUTE_BOX);
    if (c->boxes) c->l->producer_instructions += BOX_INSTRUCTIONS * c->rounds;
    c->copied = c->writes_group && (c->fetches || stages_of(facts, c->s) > 2) &&
                e->target->gpu->capability >= KILN_COPIES_CAPABILITY;
}

/* Instructions of each warp that runs the statement. Threads that only fetch are one of the parts
 * in z that fetch otherwise, and make what these would; boxes are commands of one thread. */
static void issue(const kiln_gpu_estimate *e, const counted *c, double instructions) {
    if (c->boxes) return;
    const double own =
        ceil((double)c->l->group_size[0] * c->l->group_size[1] / e->target->gpu->warp);
    c->l->instructions += instructions * c->warps;
    if (c->fetches)
        c->l->producer_instructions += instructions * ceil(c->warps / own);
    else
        c->l->warp_instructions += instructions;
}

/* Tiles that a thread copies in one round of its group. */
static double turns_of(const counted *c) { return fmax(c->tiles / fmax(c->rounds, 1), 1); }

/* Whether runs of `width` elements begin at multiples of it, for all values of the other loops.
 * Quotients and remainders that are no digits have whole runs where the loop is vectorized: PTX has
 * such fetches as vectors. */
static bool is_aligned(const kiln_facts *facts, const kiln_facts_statement *s,
                       const kiln_facts_access *a, uint32_t along, uint32_t width) {
    for (uint32_t k = 1; k < s->depth; k++) {
        const kiln_facts_loop *loop = &facts->loop[s->path[k]];
        if (k != along && kiln_grid_moves(a, loop->var) &&
            kiln_facts_stride(facts, a, loop->var) % width != 0)
            return false;
    }
    const bool vector = facts->loop[s->path[along]].kind == KILN_LOOP_VECTORIZE;
    for (uint32_t d = 0; d < a->rank; d++)
        if (a->index[d].exact ? a->index[d].constant % width != 0 : !vector) return false;
    return true;
}

/* Elements that one load or store of a thread moves: neighbours along a vectorized or unrolled loop
 * of the tile, which compilers combine if they are aligned. */
static uint32_t width_of(const kiln_gpu_estimate *e, const kiln_facts_statement *s,
                         const kiln_facts_access *a) {
    const kiln_facts *facts = e->facts;
    uint32_t most = KILN_MAX(e->target->gpu->load_bytes / a->element_bytes, 1);
    for (uint32_t k = s->depth; k-- > s->tile.level;) {
        const kiln_facts_loop *loop = &facts->loop[s->path[k]];
        if (loop->extent < 2 || kiln_facts_stride(facts, a, loop->var) != 1) continue;
        for (; most > 1; most /= 2)
            if (loop->extent % most == 0 && is_aligned(facts, s, a, k, most)) return most;
    }
    return 1;
}

/* Distinct sectors that concurrent groups touch, for each wave separately. Grid loops run from
 * the innermost one outwards. */
static double sectors_of_waves(const kiln_gpu_estimate *e, const counted *c,
                               const kiln_facts_access *a) {
    const double at_once = c->l->occupancy * e->target->cores;
    double groups = 1, sectors = a->lines[c->group_level];
    for (uint32_t k = c->group_level; k-- > 1;) {
        if (e->facts->loop[c->s->path[k]].level != KILN_LEVEL_GRID) continue;
        const double extent = (double)e->facts->loop[c->s->path[k]].extent;
        const double part = fmin(fmax(at_once / groups, 1), extent);
        if (extent > 1) sectors += (a->lines[k] - sectors) * (part - 1) / (extent - 1);
        if (part < extent) return sectors * ceil(c->l->groups / at_once);
        groups *= extent;
    }
    return sectors;
}

static void add_traffic(const kiln_gpu_estimate *e, const counted *c, const kiln_facts_access *a,
                        double sectors) {
    const kiln_gpu *gpu = e->target->gpu;
    const double groups = c->l->groups, own = a->lines[c->group_level] * KILN_WARP_SECTOR_BYTES;
    /* Threads of one round share the sectors that their neighbours requested. */
    const double asked =
        fmin(sectors, a->lines[c->round_level] * c->rounds *
                          kiln_grid_virtual_threads(e->facts, c->s, a, c->round_level, true)) *
        KILN_WARP_SECTOR_BYTES;
    const double l1 = gpu->unit_shared_bytes - c->l->shared_bytes * c->l->occupancy;
    const double kept = a->stores ? 0 : stays(own * c->l->occupancy, l1);
    const double l2 = (kept * fmin(own, asked) + (1 - kept) * asked) * groups /
                      (c->boxes ? kiln_grid_sharers(e->facts, c->s, a) : 1);
    const double all = a->lines[0] * KILN_WARP_SECTOR_BYTES;
    const double waves = sectors_of_waves(e, c, a) * KILN_WARP_SECTOR_BYTES;
    const double in_l2 = stays(e->facts->bytes, (double)gpu->l2_bytes);
    const bool temp = e->facts->p->buffer.data[a->buffer].role == KILN_ROLE_TEMP;
    c->l->l2_bytes += l2;
    c->l->memory_bytes += temp ? (1 - in_l2) * all
                               : fmin(in_l2 * all + (1 - in_l2) * fmax(waves, all), fmax(l2, all));
}

static bool is_by_threads(const kiln_facts_statement *s) {
    return s->intrinsic && kiln_intrinsic_of_threads(s->intrinsic);
}

/* Whether an operand of such an instruction is the one of rows. */
static bool is_of_rows(const kiln_facts *facts, const kiln_facts_statement *s,
                       const kiln_facts_access *a) {
    return kiln_grid_moves(a, facts->loop[s->path[s->depth - 3]].var);
}

/* One thread's points of an instruction of several threads. */
static double piece_of(const kiln_facts *facts, const kiln_facts_statement *s) {
    double points = 1;
    for (uint32_t k = s->depth - 3; k < s->depth; k++)
        points *= (double)facts->loop[s->path[k]].extent;
    return points;
}

/* Reads of shared memory for products of warps. Four threads of a warp hold the same elements of
 * rows, eight the same of columns. Warps load the operands of one instruction at a time; groups of
 * warps read columns once for all, without an instruction. */
static void add_fragments(const kiln_gpu_estimate *e, counted *c, const kiln_facts_access *a) {
    const kiln_facts_statement *s = c->s;
    const kiln_intrinsic *in = s->intrinsic;
    const bool warp = in->owner == KILN_INTRINSIC_WARP, rows = is_of_rows(e->facts, s, a);
    const double held = rows ? KILN_WARP_LANES / 4.0 : KILN_WARP_LANES / 8.0;
    const double elements = c->tiles * a->elements[s->tile.level] * held,
                 loads = elements / (in->steps * (rows ? in->rows : in->lanes)),
                 bytes = elements * a->element_bytes / (warp || rows ? 1 : KILN_GROUP_WARPS);
    c->l->shared_cycles += bytes * c->warps / e->target->gpu->shared_rate;
    c->reads_group = true;
    if (!warp) return;
    const double words = kiln_fragments[rows ? KILN_FRAGMENT_A : KILN_FRAGMENT_B].registers,
                 rounded = kiln_intrinsic_rounds(in) ? words * KILN_ROUNDING_INSTRUCTIONS : 0;
    c->l->shared_requests += loads * c->warps;
    issue(e, c, loads * (1 + rounded));
}

/* Whether units of the buffer's rows are exchanged by XOR. */
static bool exchanges(const kiln_facts *facts, const kiln_facts_access *a) {
    const kiln_layout *layout = &facts->p->buffer.data[a->buffer].layout;
    bool found = false;
    for (uint32_t j = 0; j < layout->piece_count; j++) found |= layout->piece[j].xor_modulus > 0;
    return found;
}

static void add_access(const kiln_gpu_estimate *e, counted *c, const kiln_facts_access *a,
                       kiln_warp_places *places) {
    if (!a->in_memory) return;
    const kiln_seen_by seen = kiln_grid_seen_by(e->facts, a->buffer);
    if (is_by_threads(c->s) && seen == KILN_SEEN_BY_GROUP) {
        add_fragments(e, c, a);
        return;
    }
    const uint32_t width = width_of(e, c->s, a);
    const uint32_t level = c->s->tile.level;
    const double once =
        c->tiles / fmin(kiln_grid_virtual_threads(e->facts, c->s, a, level, false), c->tiles);
    const double requests = once * a->elements[level] / width * (1 + (a->loads && a->stores));
    kiln_gpu_launch *l = c->l;
    if (seen == KILN_SEEN_BY_THREAD) return; /* registers, once loops are unrolled */
    const kiln_warp_shape shape = {e->target->gpu->warp,
                                   {l->group_size[0], l->group_size[1], l->group_size[2]}};
    const kiln_warp_request one =
        kiln_warp_request_of(e->facts, c->s, a, &shape, width * a->element_bytes, places);
    /* A copy by the device is one instruction, and its data pass the port once. */
    if (!c->copied || a->stores) issue(e, c, requests);
    /* An exchange leaves no distance from one address to the next. */
    if (seen == KILN_SEEN_BY_GROUP && a->loads && exchanges(e->facts, a)) issue(e, c, requests);
    if (seen == KILN_SEEN_BY_GROUP) {
        l->shared_requests += requests * c->warps;
        l->shared_cycles += requests * c->warps * one.cycles;
        c->writes_group |= a->stores;
        c->reads_group |= a->loads;
        return;
    }
    const double per_cycle = e->target->gpu->shared_rate / KILN_WARP_SECTOR_BYTES;
    l->device_requests += requests * c->warps;
    if (!c->copied) l->device_cycles += requests * c->warps * ceil(one.sectors / per_cycle);
    l->sectors += requests * c->warps * one.sectors;
    c->reads_device |= a->loads;
    add_traffic(e, c, a, requests * c->warps * one.sectors);
}

/* Words that a thread holds: operands of one step of the tile, and the elements that a copy fetches
 * at once. */
static void add_registers(const kiln_gpu_estimate *e, const counted *c) {
    const kiln_facts_statement *s = c->s;
    const double stages = c->writes_group ? stages_of(e->facts, s) : 1;
    const bool fetches = c->writes_group && !c->fetches;
    double words = 0, fragments = 0;
    kiln_gpu_held_add(e->facts, s, &c->l->held);
    for (uint32_t i = 1; i < s->access_count; i++) {
        const kiln_facts_access *a = &s->access[i];
        double elements = 0;
        if (a->in_memory && kiln_grid_seen_by(e->facts, a->buffer) != KILN_SEEN_BY_THREAD)
            elements = a->elements[s->tile.level] / s->tile.reduce *
                       kiln_grid_virtual_threads(e->facts, s, a, s->tile.level, true);
        words += elements * fmax(a->element_bytes / 4.0, 1);
        if (elements > 0 && fetches)
            kiln_gpu_held_fetch(&c->l->held, a, turns_of(c), elements, width_of(e, s, a), stages);
        if (is_by_threads(s))
            fragments += kiln_gpu_fragment_words(s->intrinsic, is_of_rows(e->facts, s, a), elements,
                                                 a->element_bytes);
    }
    if (c->writes_group) c->l->held.stages = fmax(c->l->held.stages, stages);
    if (c->writes_group) /* pipelines of more than two stages bypass registers */
        c->l->fetched += fetches && stages <= 2 ? words : 0;
    else
        c->l->operands = fmax(c->l->operands, words);
    if (fetches && stages > 2) c->l->held.copies += turns_of(c);
    if (!c->writes_group)
        c->l->held.operands = fmax(c->l->held.operands, is_by_threads(s) ? fragments : words);
}

static void add_operations(const kiln_gpu_estimate *e, const counted *c) {
    const kiln_facts_statement *s = c->s;
    const kiln_gpu *gpu = e->target->gpu;
    const double rate[PIPES] = {gpu->multiply_adds[KILN_F32], gpu->multiply_adds[KILN_F64],
                                gpu->multiply_adds[KILN_I32], gpu->special};
    const double points = s->tile.lanes * s->tile.spatial * s->tile.reduce * c->tiles;
    double instructions = 0;
    if (is_by_threads(s)) {
        const double tensor = gpu->tensor_multiply_adds[s->intrinsic->operand[0]];
        instructions = points / piece_of(e->facts, s);
        c->l->tensor += points * c->warps * gpu->warp / fmax(tensor, 1);
    }
    for (uint32_t k = 0; k < KILN_OPS_COUNT && !is_by_threads(s); k++) {
        const double ops = s->ops[k] * points;
        instructions += ops * op_table[k].instructions;
        const double throughput = fmax(rate[op_table[k].of], 1);
        c->l->pipe[op_table[k].of] += ops * op_table[k].slots * c->warps * gpu->warp / throughput;
    }
    const bool main_tile = s->reduction && s->tile.reduce > 1;
    instructions += c->passes * LOOP_INSTRUCTIONS;
    if (!main_tile) instructions += c->tiles * COPY_INSTRUCTIONS * s->access_count;
    issue(e, c, instructions);
    const double chain =
        is_by_threads(s) ? TENSOR_CHAIN_CYCLES / s->intrinsic->steps : CHAIN_CYCLES;
    if (s->reduction) c->l->chain += c->tiles * s->tile.reduce * chain;
}

/* The innermost loop around the statement's thread loops, 0: none. */
static uint32_t round_loop(const kiln_facts *facts, const kiln_facts_statement *s) {
    uint32_t found = 0;
    for (uint32_t k = 1; k < s->depth; k++) {
        const uint8_t level = facts->loop[s->path[k]].level;
        if (level == KILN_LEVEL_GROUP) break;
        if (level == KILN_LEVEL_NONE && facts->loop[s->path[k]].kind != KILN_LOOP_VTHREAD &&
            facts->loop[s->path[k]].extent > 1)
            found = s->path[k];
    }
    return found;
}

/* A group waits once a round for its loads from device memory, or in each turn if turns are not
 * unrolled. If threads share the data there is a barrier behind the writes, and one before those of
 * the next round. Without sharing each tile waits for its own loads. */
static void add_waits(const kiln_gpu_estimate *e, const counted *c, uint8_t *met) {
    if (c->writes_group) {
        uint8_t *at = &met[round_loop(e->facts, c->s)];
        c->l->stages = fmax(c->l->stages, stages_of(e->facts, c->s));
        if (!*at && !c->fetches)
            c->l->barriers += c->l->threads > 1 ? (c->rounds > 1 ? 2 : 1) * c->rounds : 0;
        if (!*at && c->reads_device) c->l->fetches += c->rounds;
        const double turns = turns_of(c);
        if (c->reads_device && turns > COPIED_TURNS_MAX && stages_of(e->facts, c->s) == 1)
            c->l->fetches += c->rounds * (turns - 1);
        *at = 1;
    } else if (c->reads_device) {
        c->l->fetches += c->tiles;
    }
    if (c->reads_group && is_by_threads(c->s) && c->s->intrinsic->owner == KILN_INTRINSIC_GROUP)
        c->l->drains += c->tiles;
    else if (c->reads_group && c->s->reduction)
        c->l->turns += c->tiles;
    else if (c->reads_group)
        c->l->chain += c->tiles * KILN_GPU_SHARED_LATENCY;
}

void kiln_gpu_estimate_make(const kiln_facts *facts, const kiln_target *target, kiln_arena *arena,
                            kiln_gpu_estimate *out) {
    *out = (kiln_gpu_estimate){.facts = facts, .target = target};
    for (uint32_t i = 0; i < facts->statement_count; i++)
        out->launch_count = KILN_MAX(out->launch_count, facts->statement[i].nest + 1);
    out->launch = KILN_ARENA_ARRAY(arena, kiln_gpu_launch, out->launch_count);
    uint8_t *met = KILN_ARENA_ARRAY(arena, uint8_t, facts->loop_count * out->launch_count);
    for (uint32_t i = 0; i < out->launch_count; i++) {
        kiln_gpu_launch *l = &out->launch[i];
        l->groups = l->group_size[0] = l->group_size[1] = l->group_size[2] = 1;
    }
    for (uint32_t i = 0; i < facts->statement_count; i++)
        if (!facts->statement[i].prepare)
            measure_group(facts, &facts->statement[i], &out->launch[facts->statement[i].nest]);
    for (kiln_buffer b = 1; b < facts->p->buffer.count; b++) add_temp(out, b);
    for (uint32_t i = 0; i < out->launch_count; i++) {
        kiln_gpu_launch *l = &out->launch[i];
        l->group_size[2] += l->producers;
        l->threads = (double)l->group_size[0] * l->group_size[1] * l->group_size[2];
    }
    /* Registers first: the number of concurrent groups determines the contents of caches. */
    counted *c = KILN_ARENA_ARRAY(arena, counted, facts->statement_count);
    kiln_warp_places *places = KILN_ARENA_NEW(arena, kiln_warp_places);
    for (uint32_t i = 0; i < facts->statement_count; i++) {
        const kiln_facts_statement *s = &facts->statement[i];
        if (s->prepare) continue;
        c[i] = begin(out, s);
        find_way(out, &c[i]);
        add_registers(out, &c[i]);
    }
    for (uint32_t i = 0; i < out->launch_count; i++)
        if (out->launch[i].used) kiln_gpu_launch_hold(target, &out->launch[i]);
    for (uint32_t i = 0; i < facts->statement_count; i++) {
        const kiln_facts_statement *s = &facts->statement[i];
        if (s->prepare) continue;
        for (uint32_t k = 0; k < s->access_count; k++)
            add_access(out, &c[i], &s->access[k], places);
        add_operations(out, &c[i]);
        add_waits(out, &c[i], &met[s->nest * facts->loop_count]);
        for (uint32_t k = 0; k < KILN_OPS_COUNT; k++) {
            out->executed += s->ops[k] * s->points;
            out->work += s->ops[k] * s->domain;
        }
    }
    for (uint32_t i = 0; i < out->launch_count; i++) {
        kiln_gpu_launch *l = &out->launch[i];
        if (!l->used) continue;
        kiln_gpu_launch_finish(target, l);
        if (!out->used++ || l->ns > out->launch[out->main].ns) out->main = i;
        out->ns += l->ns;
        for (uint32_t t = 0; t < KILN_GPU_TERM_COUNT; t++) out->term[t] += l->term[t];
    }
}
