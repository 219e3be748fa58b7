#include "tuner/search/searcher.h"

#include "base/alloc.h"
#include "base/map.h"

/* Draws in vain, one after another, until the space counts as used up. Spaces are far larger than any
 * budget, except tiny ones, whose last members turn up within a few hundred draws. */
#define DRAWS_MAX 512

typedef struct searcher_row {
    const char *name;
    kiln_draw_function draw;
} searcher_row;

static const searcher_row searcher_table[] = {
#define X(name, text, draw, doc) [KILN_SEARCHER_##name] = {text, draw},
#include "tuner/search/searchers.def"
#undef X
};
_Static_assert(KILN_ARRAY_COUNT(searcher_table) == KILN_SEARCHER_COUNT, "one row per searcher");

struct kiln_searcher {
    kiln_draw_function draw;
    kiln_arena memory; /* of the space */
    kiln_space space;
    const kiln_target *target;
    kiln_rand seed;
    uint64_t attempts;
    uint32_t proposed;
    kiln_map seen; /* hashes of proposed and excluded traces */
    char default_hash[KILN_HASH128_TEXT];
};

kiln_status kiln_searcher_find(kiln_str name, kiln_searcher_kind *out_kind) {
    for (unsigned i = 0; i < KILN_SEARCHER_COUNT; i++) {
        if (!kiln_str_is(name, searcher_table[i].name)) continue;
        if (!searcher_table[i].draw)
            return KILN_ERROR(UNIMPLEMENTED, "the searcher '%s' is not there yet; use random or grid", searcher_table[i].name);
        *out_kind = (kiln_searcher_kind)i;
        return KILN_OK;
    }
    return KILN_ERROR(NOT_FOUND, "no searcher is called '%.*s'; there are random, grid, sa, evolution", KILN_STR_ARG(name));
}

static kiln_status hash_default(kiln_searcher *s) {
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    kiln_trace trace;
    kiln_program *program = NULL;
    kiln_status st = kiln_space_default(&s->space, &scratch, &trace, &program);
    if (!st) kiln_hash128_print(kiln_trace_hash(&trace), s->default_hash);
    kiln_arena_deinit(&scratch);
    return st;
}

kiln_status kiln_searcher_create(kiln_searcher_kind kind, const kiln_program *te, const kiln_target *target, uint64_t seed,
                                 kiln_searcher **out_searcher) {
    kiln_searcher *s = kiln_alloc(sizeof *s);
    s->draw = searcher_table[kind].draw;
    s->target = target;
    kiln_rand_init(&s->seed, seed);
    kiln_map_init(&s->seen);
    kiln_arena_init(&s->memory, 0);
    kiln_status st = kiln_space_create(te, target, &s->memory, &s->space);
    if (!st) st = hash_default(s);
    if (st) {
        kiln_searcher_destroy(s);
        return st;
    }
    *out_searcher = s;
    return KILN_OK;
}

void kiln_searcher_destroy(kiln_searcher *searcher) {
    if (!searcher) return;
    kiln_map_deinit(&searcher->seen);
    kiln_arena_deinit(&searcher->memory);
    kiln_free(searcher);
}

void kiln_searcher_exclude(kiln_searcher *searcher, kiln_str trace_hash) {
    kiln_map_put(&searcher->seen, trace_hash, 1);
}

const char *kiln_searcher_default_hash(const kiln_searcher *searcher) { return searcher->default_hash; }

uint32_t kiln_searcher_proposed(const kiln_searcher *searcher) { return searcher->proposed; }

/* Marks the trace as seen; false when it was. */
static bool is_new(kiln_searcher *s, const kiln_trace *trace) {
    char text[KILN_HASH128_TEXT];
    kiln_hash128_print(kiln_trace_hash(trace), text);
    return kiln_map_put(&s->seen, kiln_str_from(text), 1);
}

static bool is_refused(kiln_status st) {
    kiln_code code = kiln_status_code(st);
    return code == KILN_ILLEGAL_SCHEDULE || code == KILN_RESOURCE_EXHAUSTED;
}

/* One draw taken through lowering, which knows the register bound. */
static kiln_status draw_once(kiln_searcher *s, kiln_arena *candidate, kiln_trace *out_trace) {
    kiln_program *program = NULL;
    kiln_status st;
    if (s->proposed == 0 && s->attempts == 0) {
        st = kiln_space_default(&s->space, candidate, out_trace, &program);
    } else {
        kiln_draw draw = {&s->space, kiln_rand_split(&s->seed, s->attempts), s->attempts};
        st = s->draw(&draw, candidate, out_trace, &program);
    }
    s->attempts++;
    if (st) return st;
    if (!is_new(s, out_trace)) return KILN_ERROR(ILLEGAL_SCHEDULE, "proposed before");
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    kiln_lowered lowered;
    st = kiln_lower(program, s->target, &scratch, &lowered);
    kiln_arena_deinit(&scratch);
    return st;
}

kiln_status kiln_searcher_propose(kiln_searcher *searcher, kiln_arena *candidate, kiln_trace *out_trace) {
    for (unsigned i = 0; i < DRAWS_MAX; i++) {
        kiln_trace trace;
        kiln_status st = draw_once(searcher, candidate, &trace);
        if (st && !is_refused(st)) return kiln_status_note(st, "proposal %u", searcher->proposed);
        if (st) {
            kiln_status_free(st); /* refused before any trial: drawn again, no record */
            continue;
        }
        searcher->proposed++;
        *out_trace = trace;
        return KILN_OK;
    }
    return KILN_ERROR(OUT_OF_RANGE, "no new candidate in %u draws after %u proposals: the space is used up", DRAWS_MAX,
                      searcher->proposed);
}
