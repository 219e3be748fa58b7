/* Lives and places of buffers. */
#include "deploy/pack/places.h"

#include "base/macros.h"

#define NEVER UINT32_MAX

typedef struct life {
    uint32_t first, last; /* steps that touch it or parts of it; first NEVER: none */
    uint32_t kept;  /* the end of the last loop that needs it again in each iteration; 0: none */
    uint32_t place; /* the buffer whose place it has: itself or an earlier one */
} life;

static uint32_t root_of(const kiln_places *p, uint32_t buffer) {
    const kiln_plan_buffer *b = &p->buffer[buffer];
    return b->storage == KILN_STORAGE_ALIAS ? b->source : buffer;
}

static bool in_arena(const kiln_places *p, uint32_t buffer) {
    return p->buffer[buffer].storage == KILN_STORAGE_ARENA && p->buffer[buffer].device == p->device;
}

static void touch(life *l, uint32_t step) {
    l->first = KILN_MIN(l->first, step);
    l->last = KILN_MAX(l->last, step);
}

static void keep(life *l, uint32_t loop, uint32_t end) {
    if (l->first >= loop) return;
    l->last = KILN_MAX(l->last, end);
    l->kept = KILN_MAX(l->kept, end);
}

/* A value that an iteration reads from before the loop must live in all iterations; a stacked value
 * lives from the first one on. The rules are those of kiln_module_plan_check. */
static void keep_for_loop(const kiln_places *p, life *life_of, uint32_t loop) {
    const uint32_t end = loop + p->step[loop].body_count;
    for (uint32_t s = loop + 1; s <= end; s++) {
        for (uint32_t i = 0; i < p->step[s].arg_count; i++) {
            const kiln_plan_buffer *b = &p->buffer[p->step[s].arg[i]];
            life *l = &life_of[root_of(p, p->step[s].arg[i])];
            if (b->stride != 0 && b->loop == loop && l->first > loop) l->first = loop;
            keep(l, b->stride != 0 && b->loop == loop ? loop + 1 : loop, end);
        }
        if (p->step[s].action != KILN_ACTION_LOOP) continue;
        const uint32_t own[] = {p->step[s].count, p->step[s].condition, p->step[s].index};
        for (size_t i = 0; i < KILN_ARRAY_COUNT(own); i++)
            if (own[i] != KILN_PLAN_NONE) keep(&life_of[root_of(p, own[i])], loop, end);
    }
    if (p->step[loop].condition != KILN_PLAN_NONE)
        keep(&life_of[root_of(p, p->step[loop].condition)], loop, end);
}

static void find_lives(const kiln_places *p, life *life_of) {
    for (uint32_t i = 0; i < p->buffer_count; i++) life_of[i] = (life){NEVER, 0, 0, i};
    for (uint32_t s = 0; s < p->step_count; s++) {
        for (uint32_t i = 0; i < p->step[s].arg_count; i++)
            touch(&life_of[root_of(p, p->step[s].arg[i])], s);
        if (p->step[s].action != KILN_ACTION_LOOP) continue;
        const uint32_t own[] = {p->step[s].count, p->step[s].condition, p->step[s].index};
        for (size_t i = 0; i < KILN_ARRAY_COUNT(own); i++)
            if (own[i] != KILN_PLAN_NONE) touch(&life_of[root_of(p, own[i])], s);
    }
    for (uint32_t s = 0; s < p->step_count; s++)
        if (p->step[s].action == KILN_ACTION_LOOP) keep_for_loop(p, life_of, s);
}

/* The input whose place result `arg` of step `s` takes over: read once, and not later. */
static bool takes_over(const kiln_places *p, const life *life_of, uint32_t s, uint32_t arg,
                       uint32_t *out_input) {
    const kiln_plan_step *step = &p->step[s];
    uint32_t over = step->action == KILN_ACTION_KERNEL ? p->in_place[step->kernel][arg] : 0;
    if (!over || !in_arena(p, step->arg[arg])) return false;
    uint32_t input = root_of(p, step->arg[over - 1]), reads = 0;
    for (uint32_t i = 0; i < step->arg_count; i++) reads += root_of(p, step->arg[i]) == input;
    *out_input = input;
    return reads == 1 && in_arena(p, input) && life_of[input].last == s &&
           life_of[input].kept < s &&
           p->buffer[input].size_bytes == p->buffer[step->arg[arg]].size_bytes;
}

/* A later buffer at the same place extends the life of that place. */
static void share_places(const kiln_places *p, life *life_of, kiln_arena *scratch) {
    uint32_t *last = KILN_ARENA_ARRAY(scratch, uint32_t, p->buffer_count), input = 0;
    for (uint32_t i = 0; i < p->buffer_count; i++) last[i] = life_of[i].last;
    for (uint32_t s = 0; s < p->step_count; s++) {
        const kiln_plan_step *step = &p->step[s];
        for (uint32_t i = step->arg_count - step->output_count; i < step->arg_count; i++) {
            if (!takes_over(p, life_of, s, i, &input)) continue;
            life_of[step->arg[i]].place = life_of[input].place;
            last[life_of[input].place] = life_of[step->arg[i]].last;
        }
    }
    for (uint32_t i = 0; i < p->buffer_count; i++) life_of[i].last = last[i];
}

/* Sizes that are multiples of an alignment give aligned places. */
static uint64_t round_up(uint64_t size_bytes, uint32_t alignment) {
    return alignment ? (size_bytes + alignment - 1) / alignment * alignment : size_bytes;
}

kiln_memory_peak kiln_places_find(const kiln_places *p, kiln_arena *scratch) {
    life *life_of = KILN_ARENA_ARRAY(scratch, life, p->buffer_count);
    uint32_t *index = KILN_ARENA_ARRAY(scratch, uint32_t, p->buffer_count), count = 0;
    kiln_memory_value *value = KILN_ARENA_ARRAY(scratch, kiln_memory_value, p->buffer_count);
    find_lives(p, life_of);
    if (p->overwrite) share_places(p, life_of, scratch);
    for (uint32_t i = 0; i < p->buffer_count; i++) {
        if (!in_arena(p, i) || life_of[i].place != i) continue;
        uint64_t size_bytes = round_up(p->buffer[i].size_bytes, p->alignment);
        value[count] = (kiln_memory_value){size_bytes, life_of[i].first, life_of[i].last, 0};
        index[count++] = i;
    }
    kiln_memory_peak peak = kiln_memory_plan(value, count, p->reuse, scratch);
    peak.value_bytes = 0;
    for (uint32_t i = 0; i < count; i++) p->buffer[index[i]].offset = value[i].offset;
    for (uint32_t i = 0; i < p->buffer_count; i++) {
        if (!in_arena(p, i)) continue;
        p->buffer[i].offset = p->buffer[life_of[i].place].offset;
        peak.value_bytes += p->buffer[i].size_bytes;
    }
    return peak;
}
