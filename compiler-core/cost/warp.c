#include "compiler-core/cost/warp.h"

#include <string.h>

#include "base/check.h"
#include "base/macros.h"
#include "compiler-core/cost/grid.h"

#define WARP_MAX 64
#define WORDS_MAX 4 /* that a thread asks for at once */

/* The statement's thread loops by their dimension. */
typedef struct thread_loops {
    kiln_var var[3];
    uint32_t size[3];
} thread_loops;

static thread_loops loops_of(const kiln_facts *facts, const kiln_facts_statement *s) {
    thread_loops loops = {.size = {1, 1, 1}};
    for (uint32_t k = 1; k < s->depth; k++) {
        const kiln_facts_loop *loop = &facts->loop[s->path[k]];
        if (kiln_grid_level(facts, s->path[k]) != KILN_LEVEL_GROUP) continue;
        const uint32_t d = kiln_axes[facts->p->stmt.data[loop->stmt].axis].dimension;
        loops.var[d] = loop->var;
        loops.size[d] = (uint32_t)loop->extent;
    }
    return loops;
}

/* Place of a thread of the group, by its number; false: it does not run the statement. */
static bool place_of(const thread_loops *loops, const uint32_t *group_size, uint32_t thread,
                     int64_t *at) {
    for (uint32_t d = 0; d < 3; d++) {
        at[d] = thread % group_size[d];
        thread /= group_size[d];
        if (at[d] >= loops->size[d]) return false;
    }
    return thread == 0;
}

/* Where all loops but the thread loops begin. Below 0 lies what a condition guards. */
static int64_t index_at(const kiln_form *form, const thread_loops *loops, const int64_t *at) {
    int64_t index = form->constant;
    for (uint32_t i = 0; i < form->term_count; i++) {
        const kiln_form_term *t = &form->term[i];
        for (uint32_t d = 0; d < 3; d++)
            if (loops->size[d] > 1 && loops->var[d] == t->var)
                index += t->coefficient * (at[d] / t->divisor % t->extent);
    }
    return KILN_MAX(index, 0);
}

static int64_t byte_offset(const kiln_facts *facts, const kiln_facts_access *a,
                           const thread_loops *loops, const int64_t *at) {
    const kiln_layout *layout = &facts->p->buffer.data[a->buffer].layout;
    const kiln_shape *shape = &facts->shape[a->buffer];
    int64_t index[KILN_RANK_MAX], offset = 0;
    for (uint32_t d = 0; d < a->rank; d++) index[d] = index_at(&a->index[d], loops, at);
    if (!kiln_layout_is_identity(layout))
        return kiln_layout_offset(layout, shape, index) * a->element_bytes;
    for (uint32_t d = 0; d < a->rank; d++) offset = offset * shape->dim[d] + index[d];
    return offset * a->element_bytes;
}

static bool is_chosen_by_data(const kiln_facts_access *a) {
    for (uint32_t d = 0; d < a->rank; d++)
        if (a->index[d].data) return true;
    return false;
}

/* Adds the value to the set; false: it is there already. */
static bool add(int64_t *set, uint32_t *count, int64_t value) {
    for (uint32_t i = *count; i-- > 0;)
        if (set[i] == value) return false;
    set[(*count)++] = value;
    return true;
}

kiln_warp_request kiln_warp_request_of(const kiln_facts *facts, const kiln_facts_statement *s,
                                       const kiln_facts_access *a, const kiln_warp_shape *shape,
                                       uint32_t bytes) {
    const thread_loops loops = loops_of(facts, s);
    const bool unknown = is_chosen_by_data(a);
    int64_t sector[WARP_MAX * 2], word[KILN_WARP_BANKS][WARP_MAX];
    uint32_t words[KILN_WARP_BANKS] = {0};
    kiln_warp_request r = {.cycles = 1};
    KILN_CHECK(shape->warp <= WARP_MAX && bytes <= 4 * WORDS_MAX);
    for (uint32_t thread = 0; thread < shape->warp; thread++) {
        int64_t at[3];
        if (!place_of(&loops, shape->group_size, thread, at)) continue;
        r.threads++;
        const int64_t first =
            unknown ? (int64_t)thread * KILN_WARP_SECTOR_BYTES : byte_offset(facts, a, &loops, at);
        const int64_t last = first + bytes - 1;
        for (int64_t i = first / KILN_WARP_SECTOR_BYTES; i <= last / KILN_WARP_SECTOR_BYTES; i++)
            (void)add(sector, &r.sectors, i);
        for (int64_t i = first / 4; i <= last / 4; i++) {
            const uint32_t bank = (uint32_t)(i % KILN_WARP_BANKS);
            if (words[bank] < WARP_MAX && add(word[bank], &words[bank], i))
                r.cycles = KILN_MAX(r.cycles, words[bank]);
        }
    }
    return r;
}

uint32_t kiln_warps_of(const kiln_facts *facts, const kiln_facts_statement *s,
                       const kiln_warp_shape *shape) {
    const thread_loops loops = loops_of(facts, s);
    const uint32_t threads = shape->group_size[0] * shape->group_size[1] * shape->group_size[2];
    uint32_t warps = 0;
    for (uint32_t first = 0; first < threads; first += shape->warp) {
        int64_t at[3];
        bool runs = false;
        for (uint32_t i = 0; i < shape->warp && first + i < threads && !runs; i++)
            runs = place_of(&loops, shape->group_size, first + i, at);
        warps += runs;
    }
    return warps;
}
