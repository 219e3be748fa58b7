/* Lives and places of buffers. */
#include "deploy/pack/places.h"

#include "base/macros.h"

#define NEVER UINT32_MAX

typedef struct life {
    uint32_t first, last; /* steps that touch it, parts of it included; first NEVER: none */
    uint32_t place;       /* the buffer at whose place it stands: itself or an earlier one */
} life;

static uint32_t root_of(const kiln_places *p, uint32_t buffer) {
    const kiln_plan_buffer *b = &p->buffer[buffer];
    return b->storage == KILN_STORAGE_ALIAS ? b->source : buffer;
}

static bool in_arena(const kiln_places *p, uint32_t buffer) {
    return p->buffer[buffer].storage == KILN_STORAGE_ARENA;
}

static void find_lives(const kiln_places *p, life *life_of) {
    for (uint32_t i = 0; i < p->buffer_count; i++) life_of[i] = (life){NEVER, 0, i};
    for (uint32_t s = 0; s < p->step_count; s++) {
        for (uint32_t i = 0; i < p->step[s].arg_count; i++) {
            life *l = &life_of[root_of(p, p->step[s].arg[i])];
            l->first = KILN_MIN(l->first, s);
            l->last = s;
        }
    }
}

/* The input whose place result `arg` of step `s` takes over: read once, by nobody later. */
static bool takes_over(const kiln_places *p, const life *life_of, uint32_t s, uint32_t arg,
                       uint32_t *out_input) {
    const kiln_plan_step *step = &p->step[s];
    uint32_t over = step->action == KILN_ACTION_KERNEL ? p->in_place[step->kernel][arg] : 0;
    if (!over || !in_arena(p, step->arg[arg])) return false;
    uint32_t input = root_of(p, step->arg[over - 1]), reads = 0;
    for (uint32_t i = 0; i < step->arg_count; i++) reads += root_of(p, step->arg[i]) == input;
    *out_input = input;
    return reads == 1 && in_arena(p, input) && life_of[input].last == s &&
           p->buffer[input].size_bytes == p->buffer[step->arg[arg]].size_bytes;
}

/* What stands at a buffer's place later makes that place live as long. */
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

kiln_memory_peak kiln_places_find(const kiln_places *p, kiln_arena *scratch) {
    life *life_of = KILN_ARENA_ARRAY(scratch, life, p->buffer_count);
    uint32_t *index = KILN_ARENA_ARRAY(scratch, uint32_t, p->buffer_count), count = 0;
    kiln_memory_value *value = KILN_ARENA_ARRAY(scratch, kiln_memory_value, p->buffer_count);
    find_lives(p, life_of);
    if (p->overwrite) share_places(p, life_of, scratch);
    for (uint32_t i = 0; i < p->buffer_count; i++) {
        if (!in_arena(p, i) || life_of[i].place != i) continue;
        value[count] =
            (kiln_memory_value){p->buffer[i].size_bytes, life_of[i].first, life_of[i].last, 0};
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
