#include "compiler-core/codegen/vta_calls.h"

#include "base/integer.h"
#include "compiler-core/codegen/vta_match.h"
#include "compiler-core/ir/device.h"
#include "compiler-core/ir/ir_text.h"
#include "vta/emit.h"

/* The places of an ALLOC with several. */
typedef struct staged {
    kiln_stmt alloc;
    kiln_vta_memory memory;
    uint32_t first, step; /* tile of the first place, and tiles from one place to the next */
    uint32_t count, next; /* number of places, and the next one to use */
} staged;

typedef struct walking {
    kiln_vta_matching m;
    uint32_t used[KILN_VTA_MEMORY_COUNT];  /* tiles that are taken */
    uint32_t limit[KILN_VTA_MEMORY_COUNT]; /* tiles that there are */
    uint32_t stages;                       /* of the innermost pipeline around; 1: none */
    const uint32_t *asked;                 /* [buffer count] places requested by stores, */
    uint32_t asked_most;                   /* limited to this number */
    uint32_t quarter; /* rotating places begin at multiples of this many accumulator tiles; 0:
                       * anywhere */
    KILN_VEC(staged) staged;
    bool is_full; /* there was no room for a place */
} walking;

static kiln_status walk(walking *w, kiln_stmt stmt);

/* ---- places ---------------------------------------------------------------------------------- */

static kiln_status take_places(walking *w, kiln_buffer buffer, uint64_t tiles,
                               uint32_t *out_first) {
    const kiln_buffer_info *b = &w->m.p->buffer.data[buffer];
    const kiln_vta_memory memory = kiln_vta_memory_of(b->scope);
    w->is_full = w->used[memory] + tiles > w->limit[memory];
    if (w->is_full)
        return KILN_ERROR(ILLEGAL_SCHEDULE,
                          "%.*s takes %llu tiles of %s, where %u are taken already; the machine "
                          "has %u",
                          KILN_STR_ARG(b->name), (unsigned long long)tiles,
                          kiln_vta_memory_name(memory), w->used[memory], w->limit[memory]);
    *out_first = w->used[memory];
    w->used[memory] += (uint32_t)tiles;
    return KILN_OK;
}

/* Frees all tiles from `tile` on. */
static void free_from(walking *w, kiln_vta_memory memory, uint32_t tile) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < w->staged.count; i++)
        if (w->staged.data[i].memory != memory || w->staged.data[i].first < tile)
            w->staged.data[kept++] = w->staged.data[i];
    w->staged.count = kept;
    w->used[memory] = tile;
}

/* Rotating places of a buffer. If the ALU is an engine it waits for GEMM in the same quarter of the
 * accumulators (vta/csim.h), so each place has its own quarter, separate from buffers before them.
 */
static kiln_status take_staged(walking *w, kiln_buffer buffer, staged *made) {
    const uint64_t tiles = kiln_vta_tiles_of(&w->m, buffer);
    made->step = (uint32_t)tiles;
    if (made->memory == KILN_VTA_ACC && w->quarter) {
        made->step = KILN_MAX(made->step, w->quarter);
        w->used[KILN_VTA_ACC] = KILN_ALIGN_UP(w->used[KILN_VTA_ACC], w->quarter);
    }
    return take_places(w, buffer, (uint64_t)made->step * (made->count - 1) + tiles, &made->first);
}

/* Takes the next of its places, which stay in use until the buffers before them are freed. */
static kiln_status take_next(walking *w, kiln_stmt alloc, uint32_t count) {
    const kiln_buffer buffer = w->m.p->stmt.data[alloc].buffer;
    staged *at = NULL;
    for (uint32_t i = 0; i < w->staged.count; i++)
        if (w->staged.data[i].alloc == alloc) at = &w->staged.data[i];
    if (!at) {
        staged made = {.alloc = alloc,
                       .memory = kiln_vta_memory_of(w->m.p->buffer.data[buffer].scope),
                       .count = count};
        kiln_status st = take_staged(w, buffer, &made);
        if (st) return st;
        kiln_vec_push_in(w->m.arena, &w->staged, made);
        at = &w->staged.data[w->staged.count - 1];
    }
    w->m.place[buffer] = at->first + at->next * at->step;
    at->next = (at->next + 1) % at->count;
    return KILN_OK;
}

static void forget_outputs(walking *w, kiln_buffer buffer) {
    const uint64_t tiles = kiln_vta_tiles_of(&w->m, buffer);
    uint32_t **output = &w->m.output[buffer];
    if (!*output) *output = KILN_ARENA_ARRAY(w->m.arena, uint32_t, tiles);
    for (uint64_t i = 0; i < tiles; i++) (*output)[i] = KILN_VTA_NO_PLACE;
}

static kiln_status walk_alloc(walking *w, kiln_stmt stmt) {
    const kiln_stmt_info *s = &w->m.p->stmt.data[stmt];
    const kiln_vta_memory memory = kiln_vta_memory_of(w->m.p->buffer.data[s->buffer].scope);
    if (memory == KILN_VTA_MEMORY_COUNT)
        return KILN_ERROR(ILLEGAL_SCHEDULE, "%.*s has scope %s, which the machine does not have",
                          KILN_STR_ARG(w->m.p->buffer.data[s->buffer].name),
                          kiln_scopes[w->m.p->buffer.data[s->buffer].scope].text);
    const uint32_t asked = KILN_MIN(w->asked[s->buffer], w->asked_most);
    const uint32_t stages = w->stages * KILN_MAX(asked, 1);
    const uint32_t before = w->used[memory];
    kiln_status st = KILN_OK;
    if (memory == KILN_VTA_OUT)
        forget_outputs(w, s->buffer); /* outputs lie in the place of their accumulators */
    else if (stages > 1)
        st = take_next(w, stmt, stages);
    else
        st = take_places(w, s->buffer, kiln_vta_tiles_of(&w->m, s->buffer), &w->m.place[s->buffer]);
    if (!st) st = walk(w, s->child.data[0]);
    if (stages <= 1 && memory != KILN_VTA_OUT) free_from(w, memory, before);
    return st;
}

/* ---- loops ----------------------------------------------------------------------------------- */

static kiln_status run_loop(walking *w, kiln_stmt stmt) {
    kiln_program *p = w->m.p;
    const kiln_stmt_info s = p->stmt.data[stmt];
    kiln_status st = KILN_OK;
    w->m.runs[s.var] = true;
    for (int64_t i = 0; i < s.extent && !st; i++) {
        w->m.interp.var[s.var] = s.first + i;
        kiln_interp_moved(&w->m.interp);
        st = walk(w, s.child.data[0]);
    }
    w->m.runs[s.var] = false;
    return st;
}

static kiln_status run_pipeline(walking *w, kiln_stmt stmt, uint32_t stages) {
    const uint32_t before = w->stages;
    uint32_t used[KILN_VTA_MEMORY_COUNT];
    for (uint32_t i = 0; i < KILN_VTA_MEMORY_COUNT; i++) used[i] = w->used[i];
    w->stages = stages;
    kiln_status st = run_loop(w, stmt);
    w->stages = before;
    for (uint32_t i = 0; i < KILN_VTA_MEMORY_COUNT; i++) free_from(w, (kiln_vta_memory)i, used[i]);
    return st;
}

/* The only store inside the loops from `stmt` on, and these loops; false: they contain more, or one
 * of them is unrolled or a pipeline. */
static bool find_chain(walking *w, kiln_stmt stmt, kiln_stmt *out_store) {
    const kiln_program *p = w->m.p;
    w->m.loop_count = w->m.guard_count = 0;
    for (;; stmt = p->stmt.data[stmt].child.data[0]) {
        const kiln_stmt_info *s = &p->stmt.data[stmt];
        if (s->kind == KILN_STMT_STORE) {
            *out_store = stmt;
            return true;
        }
        if (s->kind == KILN_STMT_IF && s->child.count == 1 &&
            w->m.guard_count < KILN_VTA_GUARDS_MAX) {
            w->m.guard[w->m.guard_count++] = s->condition;
            continue;
        }
        if (s->kind != KILN_STMT_FOR || s->loop_kind == KILN_LOOP_UNROLL ||
            kiln_stmt_attribute(p, stmt, KILN_ATTRIBUTE_PIPELINE) ||
            w->m.loop_count == KILN_VTA_CHAIN_LOOPS_MAX)
            return false;
        w->m.loop[w->m.loop_count++] = stmt;
    }
}

static kiln_status refuse_store(const walking *w, kiln_stmt store) {
    const kiln_stmt_info *s = &w->m.p->stmt.data[store];
    kiln_strbuf text = {0};
    kiln_strbuf_printf(&text, "%.*s[", KILN_STR_ARG(w->m.p->buffer.data[s->buffer].name));
    for (uint32_t i = 0; i < s->index_count; i++) {
        if (i) kiln_strbuf_text(&text, ", ");
        kiln_expr_print(w->m.p, s->index[i], &text);
    }
    kiln_strbuf_text(&text, "] = ");
    kiln_expr_print(w->m.p, s->value, &text);
    kiln_status st = KILN_ERROR(ILLEGAL_SCHEDULE, "the machine cannot do %.*s: %s",
                                KILN_STR_ARG(kiln_strbuf_view(&text)), w->m.reason);
    kiln_strbuf_deinit(&text);
    return st;
}

static kiln_status walk_for(walking *w, kiln_stmt stmt) {
    const kiln_stmt_info *s = &w->m.p->stmt.data[stmt];
    const kiln_attribute *pipeline = kiln_stmt_attribute(w->m.p, stmt, KILN_ATTRIBUTE_PIPELINE);
    kiln_stmt store;
    if (s->loop_kind != KILN_LOOP_SERIAL && s->loop_kind != KILN_LOOP_UNROLL)
        return KILN_ERROR(ILLEGAL_SCHEDULE, "loop %.*s is neither serial nor unrolled",
                          KILN_STR_ARG(w->m.p->var.data[s->var].name));
    if (pipeline) return run_pipeline(w, stmt, pipeline->row);
    if (find_chain(w, stmt, &store) && kiln_vta_match(&w->m, store)) return KILN_OK;
    return run_loop(w, stmt);
}

static kiln_status walk_if(walking *w, kiln_stmt stmt) {
    const kiln_stmt_info *s = &w->m.p->stmt.data[stmt];
    if (kiln_expr_get(w->m.p, s->condition)->uses & KILN_USES_LOAD)
        return KILN_ERROR(ILLEGAL_SCHEDULE, "a condition depends on data");
    return kiln_interp_eval(&w->m.interp, s->condition).i ? walk(w, s->child.data[0]) : KILN_OK;
}

static kiln_status walk(walking *w, kiln_stmt stmt) {
    const kiln_stmt_info *s = &w->m.p->stmt.data[stmt];
    kiln_status st = KILN_OK;
    if (w->m.calls->call.count > KILN_VTA_CALLS_MAX)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "the program is more than %u calls of the machine",
                          KILN_VTA_CALLS_MAX);
    switch ((kiln_stmt_kind)s->kind) {
    case KILN_STMT_SEQ:
        for (uint32_t i = 0; i < s->child.count && !st; i++) st = walk(w, s->child.data[i]);
        return st;
    case KILN_STMT_ALLOC: return walk_alloc(w, stmt);
    case KILN_STMT_FOR: return walk_for(w, stmt);
    case KILN_STMT_IF: return walk_if(w, stmt);
    case KILN_STMT_STORE:
        w->m.loop_count = w->m.guard_count = 0;
        return kiln_vta_match(&w->m, stmt) ? KILN_OK : refuse_store(w, stmt);
    case KILN_STMT_BLOCK:
    case KILN_STMT_BARRIER:
    case KILN_STMT_COPY:
    case KILN_STMT_COMMIT:
    case KILN_STMT_WAIT:
    case KILN_STMT_TOKEN_PUSH:
    case KILN_STMT_TOKEN_POP:
    case KILN_STMT_KIND_COUNT: break;
    }
    return KILN_ERROR(ILLEGAL_SCHEDULE, "the machine has no such statement");
}

/* `*most`: the largest number of places that a store requests. */
static void find_stages(const kiln_program *p, kiln_stmt stmt, uint32_t *stages, uint32_t *most) {
    const kiln_stmt_info *s = &p->stmt.data[stmt];
    const kiln_attribute *a = kiln_stmt_attribute(p, stmt, KILN_ATTRIBUTE_PIPELINE);
    if (a && s->kind == KILN_STMT_STORE) {
        stages[s->buffer] = a->row;
        *most = KILN_MAX(*most, a->row);
    }
    for (uint32_t i = 0; i < s->child.count; i++) find_stages(p, s->child.data[i], stages, most);
}

/* The allocation of places. */
typedef struct giving {
    bool quarters;         /* rotating accumulators have separate quarters */
    const uint32_t *asked; /* [buffer count] places requested by stores */
    uint32_t asked_most;   /* limit of these */
} giving;

static kiln_status make_calls(kiln_program *p, kiln_arena *arena, const giving *how,
                              kiln_vta_calls *calls, bool *out_is_full) {
    const uint32_t *tiles = calls->sizes.tile_count, accumulators = tiles[KILN_VTA_ACC];
    calls->call.count = calls->made.count = 0;
    walking w = {.stages = 1,
                 .quarter = how->quarters ? accumulators / 4 : 0,
                 .asked = how->asked,
                 .asked_most = how->asked_most,
                 .m = {.p = p,
                       .arena = arena,
                       .calls = calls,
                       .runs = KILN_ARENA_ARRAY(arena, bool, p->var.count),
                       .place = KILN_ARENA_ARRAY(arena, uint32_t, p->buffer.count),
                       .output = KILN_ARENA_ARRAY(arena, uint32_t *, p->buffer.count),
                       .number = KILN_ARENA_ARRAY(arena, uint32_t, p->buffer.count),
                       .held = KILN_ARENA_ARRAY(arena, uint8_t, accumulators),
                       .known = KILN_ARENA_ARRAY(arena, uint16_t, tiles[KILN_VTA_INP]),
                       .used = KILN_ARENA_ARRAY(arena, uint16_t, tiles[KILN_VTA_WGT]),
                       .store_offset = KILN_ARENA_ARRAY(arena, kiln_affine *, p->stmt.count),
                       .load_offset = KILN_ARENA_ARRAY(arena, kiln_affine *, p->expr.count)}};
    for (uint32_t i = 0; i < KILN_VTA_MEMORY_COUNT; i++) w.limit[i] = calls->sizes.tile_count[i];
    w.limit[KILN_VTA_ACC] -= kiln_vta_emit_reserved(&calls->config);
    for (uint32_t i = 0; i < calls->buffer.count; i++) w.m.number[calls->buffer.data[i]] = i + 1;
    kiln_interp_init(&w.m.interp, p, NULL, NULL);
    kiln_status st = walk(&w, p->root);
    kiln_interp_deinit(&w.m.interp);
    *out_is_full = w.is_full;
    return st;
}

kiln_status kiln_vta_calls_of(kiln_program *p, const kiln_buffer *arg, uint32_t arg_count,
                              const kiln_vta_config *config, kiln_arena *arena,
                              kiln_vta_calls *out_calls) {
    bool is_full;
    *out_calls = (kiln_vta_calls){.config = *config, .sizes = kiln_vta_sizes_of(config)};
    for (uint32_t i = 0; i < arg_count; i++) kiln_vec_push_in(arena, &out_calls->buffer, arg[i]);
    /* Tries the ways in order until one has enough room. */
    uint32_t *asked = KILN_ARENA_ARRAY(arena, uint32_t, p->buffer.count), most = 1;
    find_stages(p, p->root, asked, &most);
    kiln_status st = NULL;
    for (; most > 0; most--)
        for (int quarters = kiln_vta_config_has(config, KILN_VTA_ENGINE); quarters >= 0;
             quarters--) {
            kiln_status_free(st);
            const giving how = {quarters, asked, most};
            st = make_calls(p, arena, &how, out_calls, &is_full);
            if (!st || !is_full) return st;
        }
    return st;
}

/* ---- tiles of a call ------------------------------------------------------------------------- */

typedef struct visiting {
    kiln_vta_tile_visitor visit;
    void *context;
    kiln_vta_memory memory;
    bool reads, writes;
} visiting;

static void visit_tile(const visiting *v, uint32_t tile) {
    if (v->reads) v->visit(v->context, v->memory, tile, false);
    if (v->writes) v->visit(v->context, v->memory, tile, true);
}

/* Tiles that loops go over: base plus a multiple of each step. */
typedef struct tile_loops {
    uint32_t count;
    uint32_t extent[KILN_VTA_NEST_LOOPS_MAX], step[KILN_VTA_NEST_LOOPS_MAX];
} tile_loops;

/* Two loops with the same step cover the tiles of one loop with the extent of both. */
static void add_tile_loop(tile_loops *loops, uint32_t extent, uint32_t step) {
    if (step == 0) return;
    for (uint32_t i = 0; i < loops->count; i++) {
        if (loops->step[i] != step) continue;
        loops->extent[i] += extent - 1;
        return;
    }
    loops->extent[loops->count] = extent;
    loops->step[loops->count++] = step;
}

static void visit_loops(const visiting *v, const tile_loops *loops, uint32_t loop, uint32_t tile) {
    if (loop == loops->count) {
        visit_tile(v, tile);
        return;
    }
    for (uint32_t i = 0; i < loops->extent[loop]; i++)
        visit_loops(v, loops, loop + 1, tile + i * loops->step[loop]);
}

static void visit_copy(const kiln_vta_copy *copy, visiting *v) {
    uint32_t tiles = 1;
    for (uint32_t d = 0; d < copy->dim_count; d++)
        tiles *= copy->dim[d].before + copy->dim[d].extent + copy->dim[d].behind;
    const bool is_store = copy->memory == KILN_VTA_OUT;
    v->memory = is_store || copy->memory == KILN_VTA_ACC_BYTES ? KILN_VTA_ACC
                                                               : (kiln_vta_memory)copy->memory;
    v->reads = is_store;
    v->writes = !is_store;
    for (uint32_t i = 0; i < tiles; i++) visit_tile(v, copy->sram_base + i);
}

bool kiln_vta_call_has_sources(const kiln_vta_call *call) {
    bool found = false;
    for (uint32_t i = 0; i < call->operation_count; i++) found |= !call->operation[i].use_imm;
    return found;
}

void kiln_vta_call_visit(const kiln_vta_call *call, kiln_vta_tile_visitor visit, void *context) {
    visiting v = {.visit = visit, .context = context};
    const kiln_vta_nest *nest = &call->nest;
    const bool is_gemm = call->kind == KILN_VTA_CALL_GEMM;
    const bool multiplies = is_gemm && call->gemm != KILN_VTA_GEMM_RESET;
    tile_loops dst = {0}, src = {0}, wgt = {0};
    if (call->kind == KILN_VTA_CALL_COPY) {
        visit_copy(&call->copy, &v);
        return;
    }
    for (uint32_t i = 0; i < nest->loop_count; i++) {
        add_tile_loop(&dst, nest->loop[i].extent, nest->loop[i].step.dst);
        add_tile_loop(&src, nest->loop[i].extent, nest->loop[i].step.src);
        add_tile_loop(&wgt, nest->loop[i].extent, nest->loop[i].step.wgt);
    }
    v.memory = is_gemm ? KILN_VTA_INP : KILN_VTA_ACC;
    v.reads = true;
    if (multiplies || kiln_vta_call_has_sources(call)) visit_loops(&v, &src, 0, nest->base.src);
    v.memory = KILN_VTA_WGT;
    if (multiplies) visit_loops(&v, &wgt, 0, nest->base.wgt);
    v.memory = KILN_VTA_ACC;
    v.reads = !is_gemm || call->gemm == KILN_VTA_GEMM_ADD;
    v.writes = true;
    visit_loops(&v, &dst, 0, nest->base.dst);
}

static void mark_result(void *context, kiln_vta_memory memory, uint32_t tile, bool writes) {
    bool *result = context;
    if (memory == KILN_VTA_ACC && writes) result[tile] = true;
}

bool kiln_vta_call_reads_results(const kiln_vta_call *call, const kiln_vta_sizes *sizes,
                                 kiln_arena *arena) {
    const uint32_t tiles = sizes->tile_count[KILN_VTA_ACC];
    bool *result = KILN_ARENA_ARRAY(arena, bool, tiles),
         *source = KILN_ARENA_ARRAY(arena, bool, tiles), found = false;
    kiln_vta_call other = *call; /* the same call with sources in place of results */
    if (!kiln_vta_call_has_sources(call)) return false;
    other.nest.base.dst = other.nest.base.src;
    for (uint32_t i = 0; i < other.nest.loop_count; i++)
        other.nest.loop[i].step.dst = other.nest.loop[i].step.src;
    kiln_vta_call_visit(call, mark_result, result);
    kiln_vta_call_visit(&other, mark_result, source);
    for (uint32_t t = 0; t < tiles; t++) found |= result[t] && source[t];
    return found;
}
