#include "compiler-core/cost/warp.h"

#include <string.h>

#include "base/check.h"
#include "base/macros.h"
#include "compiler-core/cost/grid.h"

/* The statement's thread loops by their dimension. */
typedef struct thread_loops {
    kiln_var var[3];
    uint32_t size[3];
} thread_loops;

static thread_loops loops_of(const kiln_facts *facts, const kiln_facts_statement *s) {
    thread_loops loops = {.size = {1, 1, 1}};
    for (uint32_t k = 1; k < s->depth; k++) {
        const kiln_facts_loop *loop = &facts->loop[s->path[k]];
        if (facts->loop[s->path[k]].level != KILN_LEVEL_GROUP) continue;
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

static uint32_t find_digits(const kiln_facts_access *a, const thread_loops *loops,
                            kiln_warp_digit *out) {
    uint32_t count = 0;
    for (uint32_t dim = 0; dim < a->rank; dim++)
        for (uint32_t i = 0; i < a->index[dim].term_count; i++) {
            const kiln_form_term *t = &a->index[dim].term[i];
            for (uint32_t axis = 0; axis < 3; axis++)
                if (loops->size[axis] > 1 && loops->var[axis] == t->var)
                    out[count++] = (kiln_warp_digit){dim, axis, (uint32_t)t->divisor,
                                                     (uint32_t)t->extent, t->coefficient};
        }
    return count;
}

static int64_t value_of(const kiln_warp_digit *g, const uint32_t *at) {
    uint32_t value = at[g->axis];
    if (g->divisor > 1) value /= g->divisor;
    return value < g->extent ? value : value % g->extent;
}

/* The offset of the thread at `at`, with all loops except the thread loops at their beginning.
 * Offsets below 0 are guarded by a condition. */
static int64_t byte_offset(const kiln_facts *facts, const kiln_facts_access *a,
                           const kiln_warp_digit *digit, uint32_t digit_count, const uint32_t *at) {
    const kiln_layout *layout = &facts->p->buffer.data[a->buffer].layout;
    const kiln_shape *shape = &facts->shape[a->buffer];
    int64_t index[KILN_RANK_MAX];
    for (uint32_t d = 0; d < a->rank; d++) index[d] = a->index[d].constant;
    for (uint32_t i = 0; i < digit_count; i++)
        index[digit[i].dim] += digit[i].coefficient * value_of(&digit[i], at);
    for (uint32_t d = 0; d < a->rank; d++) index[d] = KILN_MAX(index[d], 0);
    return kiln_layout_offset(layout, shape, index) * a->element_bytes;
}

/* Whether an address is the sum of terms of each index: other constants would only shift all
 * addresses. */
static bool is_linear(const kiln_facts *facts, const kiln_facts_access *a,
                      const kiln_warp_digit *digit, uint32_t digit_count) {
    const kiln_layout *layout = &facts->p->buffer.data[a->buffer].layout;
    bool linear = true;
    for (uint32_t j = 0; j < layout->piece_count; j++)
        linear &= layout->piece[j].divisor == 1 && !layout->piece[j].modulus &&
                  !layout->piece[j].xor_modulus;
    for (uint32_t d = 0; d < a->rank; d++) linear &= a->index[d].constant >= 0;
    for (uint32_t i = 0; i < digit_count; i++) linear &= digit[i].coefficient >= 0;
    return linear;
}

/* Bytes that each value of the digits adds, where the access is linear. */
static void find_weights(const kiln_facts *facts, const kiln_facts_access *a,
                         const kiln_warp_digit *digit, uint32_t digit_count, int64_t *weight) {
    const kiln_layout *layout = &facts->p->buffer.data[a->buffer].layout;
    for (uint32_t i = 0; i < digit_count; i++) {
        int64_t index[KILN_RANK_MAX] = {0};
        index[digit[i].dim] = digit[i].coefficient;
        weight[i] = kiln_layout_offset(layout, &facts->shape[a->buffer], index) * a->element_bytes;
    }
}

/* The next thread of the group, x first. */
static void advance(uint32_t *at, const uint32_t *group_size) {
    for (uint32_t d = 0; d < 3; d++) {
        if (++at[d] < group_size[d] || d == 2) return;
        at[d] = 0;
    }
}

/* Inserts an offset in order. Most come in ascending order. */
static void insert(kiln_warp_places *places, int64_t offset) {
    uint32_t at = places->count;
    while (at > 0 && places->offset[at - 1] > offset) at--;
    if (at > 0 && places->offset[at - 1] == offset) return;
    for (uint32_t i = places->count++; i > at; i--) places->offset[i] = places->offset[i - 1];
    places->offset[at] = offset;
}

/* Fills `places` unless they are known; returns the first thread's offset. */
static int64_t find_places(const kiln_facts *facts, const kiln_facts_statement *s,
                           const kiln_facts_access *a, const kiln_warp_shape *shape,
                           kiln_warp_places *places) {
    static const uint32_t origin[3] = {0};
    const thread_loops loops = loops_of(facts, s);
    kiln_warp_digit digit[KILN_WARP_DIGITS_MAX];
    const uint32_t count = find_digits(a, &loops, digit);
    const int64_t first = byte_offset(facts, a, digit, count, origin);
    const bool linear = is_linear(facts, a, digit, count);
    if (linear && places->s == s && places->buffer == a->buffer && places->digit_count == count &&
        memcmp(places->digit, digit, count * sizeof *digit) == 0)
        return first;
    int64_t weight[KILN_WARP_DIGITS_MAX];
    if (linear) find_weights(facts, a, digit, count, weight);
    uint32_t at[3] = {0};
    places->s = linear ? s : NULL;
    places->buffer = a->buffer;
    places->digit_count = count;
    memcpy(places->digit, digit, count * sizeof *digit);
    places->threads = places->count = 0;
    for (uint32_t thread = 0; thread < shape->warp; thread++, advance(at, shape->group_size)) {
        if (at[0] >= loops.size[0] || at[1] >= loops.size[1] || at[2] >= loops.size[2]) continue;
        int64_t offset = 0;
        for (uint32_t i = 0; i < count && linear; i++)
            offset += value_of(&digit[i], at) * weight[i];
        if (!linear) offset = byte_offset(facts, a, digit, count, at) - first;
        places->threads++;
        insert(places, offset);
    }
    return first;
}

static bool is_chosen_by_data(const kiln_facts_access *a) {
    for (uint32_t d = 0; d < a->rank; d++)
        if (a->index[d].data) return true;
    return false;
}

kiln_warp_request kiln_warp_request_of(const kiln_facts *facts, const kiln_facts_statement *s,
                                       const kiln_facts_access *a, const kiln_warp_shape *shape,
                                       uint32_t bytes, kiln_warp_places *places) {
    const bool unknown = is_chosen_by_data(a);
    uint32_t words[KILN_WARP_BANKS] = {0};
    KILN_CHECK(shape->warp <= KILN_WARP_MAX);
    const int64_t begin = find_places(facts, s, a, shape, places);
    kiln_warp_request r = {.threads = places->threads, .cycles = 1};
    const uint32_t count = unknown ? places->threads : places->count;
    /* In ascending order, an offset behind the last counted sector and word is new. */
    int64_t sector = 0, word = 0;
    for (uint32_t i = 0; i < count; i++) {
        const int64_t first =
            unknown ? (int64_t)i * KILN_WARP_SECTOR_BYTES : begin + places->offset[i];
        const int64_t end = first + bytes, sector_end = (end - 1) / KILN_WARP_SECTOR_BYTES + 1,
                      word_end = (end - 1) / KILN_WARP_WORD_BYTES + 1;
        sector = KILN_MAX(sector, first / KILN_WARP_SECTOR_BYTES);
        r.sectors += (uint32_t)(sector_end - sector);
        sector = sector_end;
        for (word = KILN_MAX(word, first / KILN_WARP_WORD_BYTES); word < word_end; word++) {
            const uint32_t of_bank = ++words[word % KILN_WARP_BANKS];
            r.cycles = KILN_MAX(r.cycles, of_bank);
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
