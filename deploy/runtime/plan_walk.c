/* Walks through the steps once, in order, and tracks the state of each byte. A loop's body is
 * walked once too: every iteration may read the same bytes as the first, because no step reads a
 * value that the body writes later, and values from before the loop stay until its end. */
#include "deploy/runtime/plan_walk.h"

#include <stdlib.h>
#include <string.h>

#include "base/macros.h"

#define NEVER UINT32_MAX

/* Bytes of a root that a step writes; a root's ranges are chained and never overlap. Steps from
 * `from` to `until` may read them; if a device's queue writes them, only once the processor knows
 * that step `index` is done. */
typedef struct range {
    uint64_t begin, end;
    uint32_t from, until;
    uint32_t device, index; /* device 0: writes are visible at once */
    bool grows;             /* written row by row, from the first on, in an outermost loop */
    struct range *next;
} range;

/* A copy to the processor that no event covers yet. */
typedef struct copying {
    uint32_t index, root;
    struct copying *next;
} copying;

/* Live roots in arenas, by rank: the order of devices and offsets. A binary tree over the ranks
 * marks subtrees with live roots: node k has the children 2 k and 2 k + 1, the leaves come last. */
typedef struct live {
    uint32_t leaf_count;
    bool *any;                   /* [2 leaf_count] */
    uint32_t *rank_of, *root_at; /* [buffer_count] */
    uint32_t *ending, *next;     /* roots that are alive until a step: [step_count] the first one,
                                  * [buffer_count] the next one, + 1 */
} live;

typedef struct walk {
    const kiln_module_plan *plan;
    const uint32_t *loop_of;
    kiln_arena *scratch;
    kiln_flow_recorder *recorder;     /* NULL: nobody wants to know */
    uint32_t *first_write, *last_use; /* [buffer_count] by root; NEVER */
    uint32_t
        *kept_until;     /* [buffer_count] by root: the end of the last loop that reads it again; or
                          * 0 */
    range **written;     /* [buffer_count] by root */
    range **carried;     /* [buffer_count] by root: what steps of loops write over it */
    uint32_t *row_until; /* [buffer_count] for rows that an iteration wrote: the last step that may
                          * read them; or 0 */
    live live;
    copying *copying[KILN_MODULE_DEVICES_MAX + 1];
    uint32_t
        done[KILN_MODULE_DEVICES_MAX + 1]; /* in a device's queue, steps before this one are done */
    struct {
        uint32_t loop, done[KILN_MODULE_DEVICES_MAX + 1]; /* the values before the loop */
    } open[KILN_MODULE_LOOP_DEPTH_MAX];
    uint32_t depth;
} walk;

bool kiln_plan_is_in_loop(const uint32_t *loop_of, uint32_t step, uint32_t loop) {
    uint32_t around = loop_of[step];
    while (around != KILN_PLAN_NONE && around != loop) around = loop_of[around];
    return around == loop;
}

/* Whether it always runs trip_max times. */
static bool is_constant(const kiln_module_plan *plan, uint32_t loop) {
    return plan->step[loop].count == KILN_PLAN_NONE && plan->step[loop].condition == KILN_PLAN_NONE;
}

/* ---- data ------------------------------------------------------------------------------------ */

/* The range of bytes of its root that a buffer covers in all iterations of its loop. */
static void reach(const walk *w, uint32_t buffer, uint64_t *out_begin, uint64_t *out_end) {
    const kiln_plan_buffer *b = &w->plan->buffer[buffer];
    uint64_t begin = kiln_module_plan_offset(w->plan, buffer), end = begin + b->size_bytes;
    if (b->stride != 0) {
        uint64_t moves = w->plan->step[b->loop].trip_max - 1;
        if (b->stride < 0)
            begin -= moves * (0 - (uint64_t)b->stride);
        else
            end += moves * (uint64_t)b->stride;
    }
    *out_begin = begin;
    *out_end = end;
}

typedef enum question { WRITTEN_AT_ALL, READABLE, DONE_TOO } question;

/* How many of a buffer's bytes are written before step `index`. */
static uint64_t count_bytes(const walk *w, uint32_t buffer, uint32_t index, question asked) {
    uint64_t begin, end, bytes = 0;
    reach(w, buffer, &begin, &end);
    for (const range *r = w->written[kiln_module_plan_root(w->plan, buffer)]; r; r = r->next) {
        if (r->begin >= end || begin >= r->end) continue;
        if (asked >= READABLE && (r->from > index || index > r->until)) continue;
        if (asked >= DONE_TOO && r->device > 0 && r->index >= w->done[r->device]) continue;
        bytes += KILN_MIN(r->end, end) - KILN_MAX(r->begin, begin);
    }
    return bytes;
}

static bool has_all(const walk *w, uint32_t buffer, uint32_t index, question asked) {
    uint64_t begin, end;
    reach(w, buffer, &begin, &end);
    return w->first_write[kiln_module_plan_root(w->plan, buffer)] != NEVER &&
           count_bytes(w, buffer, index, asked) == end - begin;
}

/* An output may have fewer rows than its size, one per iteration. Rows that a device copies are
 * waited for in the iteration (check_copying). */
static bool has_rows(const walk *w, uint32_t output) {
    const range *r = w->written[output];
    return r && !r->next && r->grows && r->end - r->begin == w->plan->buffer[output].size_bytes;
}

/* Whether no other value was written there, not even an empty one. */
static bool is_untouched(const walk *w, uint32_t buffer, uint32_t index) {
    bool part = w->plan->buffer[buffer].storage == KILN_STORAGE_ALIAS;
    return part ? count_bytes(w, buffer, index, WRITTEN_AT_ALL) == 0
                : w->first_write[buffer] == NEVER;
}

/* The last step that may read a value written in `loop`: a loop of unknown length may run no
 * iteration. */
static uint32_t last_reader(const walk *w, uint32_t loop) {
    for (; loop != KILN_PLAN_NONE; loop = w->loop_of[loop])
        if (!is_constant(w->plan, loop)) return kiln_plan_loop_end(w->plan, loop);
    return NEVER;
}

/* Whether step `index` writes adjacent strided results in each iteration of their loop. */
static bool are_rows(const walk *w, const kiln_plan_buffer *b, uint32_t index) {
    uint64_t apart = b->stride < 0 ? 0 - (uint64_t)b->stride : (uint64_t)b->stride;
    uint32_t loop = w->loop_of[index];
    while (loop != b->loop && is_constant(w->plan, loop)) loop = w->loop_of[loop];
    return apart == b->size_bytes && loop == b->loop;
}

/* An iteration may read the row that it wrote, by the same buffer: to the end of the innermost loop
 * around the writer that may end early, or of the one that the row belongs to. */
static void note_row(walk *w, uint32_t buffer, uint32_t loop, bool at_once) {
    const kiln_plan_buffer *b = &w->plan->buffer[buffer];
    if (b->stride == 0 || !at_once) return;
    while (loop != b->loop && is_constant(w->plan, loop)) loop = w->loop_of[loop];
    w->row_until[buffer] = kiln_plan_loop_end(w->plan, loop);
}

static void note_write(walk *w, uint32_t buffer, uint32_t index, uint32_t loop, uint32_t device) {
    const kiln_plan_buffer *b = &w->plan->buffer[buffer];
    uint32_t root = kiln_module_plan_root(w->plan, buffer);
    range *r = KILN_ARENA_NEW(w->scratch, range);
    reach(w, buffer, &r->begin, &r->end);
    bool rows = b->stride && are_rows(w, b, index);
    r->from = b->stride ? NEVER : index + 1;
    if (rows && is_constant(w->plan, b->loop)) r->from = kiln_plan_loop_end(w->plan, b->loop) + 1;
    r->grows = rows && b->stride > 0 && w->loop_of[b->loop] == KILN_PLAN_NONE;
    r->until = last_reader(w, b->stride ? w->loop_of[b->loop] : loop);
    r->device = b->device == 0 ? device : 0; /* a device's own queue is in order */
    r->index = index;
    r->next = w->written[root];
    w->written[root] = r;
    note_row(w, buffer, loop, r->device == 0);
    uint32_t first = b->stride ? b->loop : index;
    if (w->first_write[root] == NEVER) w->first_write[root] = first;
}

/* Extends uses: a value from before a loop is needed in each iteration, and a stack is written
 * until the loop's end. */
static void note_use(walk *w, uint32_t buffer, uint32_t index, uint32_t loop) {
    uint32_t root = kiln_module_plan_root(w->plan, buffer);
    kiln_module_storage storage = w->plan->buffer[root].storage;
    bool given = storage == KILN_STORAGE_INPUT || storage == KILN_STORAGE_CONSTANT;
    uint32_t last = index;
    for (; loop != KILN_PLAN_NONE; loop = w->loop_of[loop])
        if (given || w->first_write[root] < loop ||
            (w->first_write[root] == loop && w->plan->step[loop].index != root)) {
            last = kiln_plan_loop_end(w->plan, loop);
            w->kept_until[root] = KILN_MAX(w->kept_until[root], last);
        }
    if (w->last_use[root] == NEVER || w->last_use[root] < last) w->last_use[root] = last;
}

/* Notes which earlier steps wrote the bytes that step `index` reads. */
static void record_read(const walk *w, uint32_t buffer, uint32_t index) {
    const uint32_t root = kiln_module_plan_root(w->plan, buffer);
    uint64_t begin, end;
    if (!w->recorder || kiln_flow_reads(w->recorder, buffer, index)) return;
    reach(w, buffer, &begin, &end);
    for (const range *r = w->written[root]; r; r = r->next)
        if (r->begin < end && begin < r->end) kiln_flow_add(w->recorder, r->index, index);
    for (const range *r = w->carried[root]; r; r = r->next)
        if (r->begin < end && begin < r->end) kiln_flow_add(w->recorder, r->index, index);
}

static kiln_status follow_read(const walk *w, uint32_t buffer, uint32_t index) {
    uint32_t root = kiln_module_plan_root(w->plan, buffer);
    const kiln_plan_buffer *b = &w->plan->buffer[root];
    bool given = b->storage == KILN_STORAGE_INPUT || b->storage == KILN_STORAGE_CONSTANT;
    record_read(w, buffer, index);
    if (w->row_until[buffer] > 0 && index <= w->row_until[buffer]) return KILN_OK;
    if (!given && !has_all(w, buffer, index, READABLE))
        return KILN_ERROR(INVALID_ARGUMENT, "buffer %u is read before it is written", buffer);
    if (!given && !has_all(w, buffer, index, DONE_TOO))
        return KILN_ERROR(INVALID_ARGUMENT,
                          "buffer %u is read before an event says that it is there", buffer);
    return KILN_OK;
}

static kiln_status follow_write(walk *w, uint32_t buffer, uint32_t index, uint32_t loop,
                                uint32_t device) {
    const kiln_plan_buffer *b = &w->plan->buffer[buffer];
    kiln_module_storage storage = w->plan->buffer[kiln_module_plan_root(w->plan, buffer)].storage;
    bool given = storage == KILN_STORAGE_INPUT || storage == KILN_STORAGE_CONSTANT;
    if (given || !is_untouched(w, buffer, index))
        return KILN_ERROR(INVALID_ARGUMENT, "buffer %u may not be written %s", buffer,
                          given ? "at all" : "twice");
    uint64_t apart = b->stride < 0 ? 0 - (uint64_t)b->stride : (uint64_t)b->stride;
    if (apart > 0 && apart < b->size_bytes)
        return KILN_ERROR(INVALID_ARGUMENT, "iterations write over each other in buffer %u",
                          buffer);
    note_write(w, buffer, index, loop, device);
    return KILN_OK;
}

/* Checks that the new value replaces one that was complete when the loop began, and does not
 * overlap it otherwise. */
static kiln_status follow_carry(walk *w, uint32_t index) {
    const kiln_plan_step *step = &w->plan->step[index];
    const uint32_t from = step->arg[0], to = step->arg[1], loop = w->loop_of[index];
    uint32_t root = kiln_module_plan_root(w->plan, to);
    kiln_module_storage storage = w->plan->buffer[root].storage;
    bool whole = storage != KILN_STORAGE_INPUT && storage != KILN_STORAGE_CONSTANT &&
                 w->plan->buffer[to].stride == 0 && has_all(w, to, loop, DONE_TOO);
    if (!whole)
        return KILN_ERROR(INVALID_ARGUMENT,
                          "buffer %u, which is carried, is not written before the loop", to);
    uint64_t from_begin, from_end, to_begin, to_end;
    reach(w, from, &from_begin, &from_end);
    reach(w, to, &to_begin, &to_end);
    if (kiln_module_plan_root(w->plan, from) == root && from_begin < to_end && to_begin < from_end)
        return KILN_ERROR(INVALID_ARGUMENT, "buffer %u is carried over itself", to);
    kiln_status st = follow_read(w, from, index);
    note_use(w, from, index, loop);
    note_use(w, to, index, loop);
    range *r = KILN_ARENA_NEW(w->scratch, range);
    *r = (range){.begin = to_begin, .end = to_end, .index = index, .next = w->carried[root]};
    w->carried[root] = r;
    return st;
}

static kiln_status follow_arguments(walk *w, uint32_t index) {
    const kiln_plan_step *step = &w->plan->step[index];
    uint32_t read_count = step->arg_count - step->output_count, loop = w->loop_of[index];
    for (uint32_t i = 0; i < step->arg_count; i++) {
        kiln_status st = i < read_count ? follow_read(w, step->arg[i], index)
                                        : follow_write(w, step->arg[i], index, loop, step->device);
        if (st) return st;
        note_use(w, step->arg[i], index, loop);
    }
    return KILN_OK;
}

/* ---- devices and loops ----------------------------------------------------------------------- */

static void note_copying(walk *w, uint32_t index) {
    const kiln_plan_step *step = &w->plan->step[index];
    if (step->action != KILN_ACTION_COPY || step->device == 0 ||
        w->plan->buffer[step->arg[1]].device != 0)
        return;
    copying *c = KILN_ARENA_NEW(w->scratch, copying);
    *c = (copying){.index = index,
                   .root = kiln_module_plan_root(w->plan, step->arg[1]),
                   .next = w->copying[step->device]};
    w->copying[step->device] = c;
}

/* Copied bytes keep their place until the event, even if they are not read. */
static void follow_event(walk *w, uint32_t index) {
    const kiln_plan_step *step = &w->plan->step[index];
    if (w->recorder) kiln_flow_add(w->recorder, step->after, index);
    w->done[step->device] = KILN_MAX(w->done[step->device], step->after + 1);
    copying **at = &w->copying[step->device];
    while (*at) {
        copying *c = *at;
        if (c->index <= step->after && w->loop_of[c->index] == w->loop_of[index]) {
            if (w->last_use[c->root] < index) w->last_use[c->root] = index;
            *at = c->next;
        } else {
            at = &c->next;
        }
    }
}

static kiln_status check_copying(const walk *w, uint32_t loop) {
    for (uint32_t d = 1; d <= w->plan->device_count; d++)
        for (const copying *c = w->copying[d]; c; c = c->next)
            if (w->loop_of[c->index] == loop)
                return KILN_ERROR(INVALID_ARGUMENT, "no step waits for the copy of step %u",
                                  c->index);
    return KILN_OK;
}

static kiln_status follow_loop(walk *w, uint32_t index) {
    const kiln_plan_step *step = &w->plan->step[index];
    const uint32_t outer = w->loop_of[index], given[] = {step->count, step->condition};
    kiln_status st = KILN_OK;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(given) && !st; i++) {
        if (given[i] == KILN_PLAN_NONE) continue;
        st = follow_read(w, given[i], index);
        note_use(w, given[i], index, outer);
    }
    if (!st && step->condition != KILN_PLAN_NONE) note_use(w, step->condition, index, index);
    if (!st && step->index != KILN_PLAN_NONE) {
        st = follow_write(w, step->index, index, index, 0);
        note_use(w, step->index, index, index);
    }
    w->open[w->depth].loop = index;
    memcpy(w->open[w->depth++].done, w->done, sizeof w->done);
    return st;
}

/* A body may run no iteration, so its events prove nothing behind it. */
static kiln_status close_loops(walk *w, uint32_t index) {
    while (w->depth > 0 && kiln_plan_loop_end(w->plan, w->open[w->depth - 1].loop) < index) {
        uint32_t loop = w->open[--w->depth].loop;
        if (!is_constant(w->plan, loop)) memcpy(w->done, w->open[w->depth].done, sizeof w->done);
        kiln_status st = check_copying(w, loop);
        if (st) return st;
    }
    return KILN_OK;
}

static kiln_status follow_step(walk *w, uint32_t index) {
    switch (w->plan->step[index].action) {
    case KILN_ACTION_LOOP: return follow_loop(w, index);
    case KILN_ACTION_EVENT: follow_event(w, index); return KILN_OK;
    case KILN_ACTION_CARRY: return follow_carry(w, index);
    case KILN_ACTION_KERNEL:
    case KILN_ACTION_ALIAS:
    case KILN_ACTION_COPY: break;
    }
    kiln_status st = follow_arguments(w, index);
    note_copying(w, index);
    return st;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static bool overlap(const kiln_plan_buffer *a, const kiln_plan_buffer *b) {
    return a->device == b->device && a->offset < b->offset + b->size_bytes &&
           b->offset < a->offset + a->size_bytes;
}

/* A whole result may have exactly the place of an input that is not needed after the step: the
 * kernel reads each element before it writes the one at the same place, which only code generation
 * can know. */
static bool takes_over(const walk *w, uint32_t index, uint32_t written, uint32_t root) {
    const kiln_plan_buffer *input = &w->plan->buffer[root], *result = &w->plan->buffer[written];
    return w->plan->step[index].action == KILN_ACTION_KERNEL &&
           result->storage == KILN_STORAGE_ARENA && w->first_write[root] < index &&
           w->last_use[root] == index && w->kept_until[root] < index &&
           result->offset == input->offset && result->size_bytes == input->size_bytes;
}

static bool is_live(const live *l, uint32_t rank) { return l->any[l->leaf_count + rank]; }

static void set_live(live *l, uint32_t rank, bool alive) {
    uint32_t node = l->leaf_count + rank;
    l->any[node] = alive;
    for (node /= 2; node > 0; node /= 2) l->any[node] = l->any[2 * node] || l->any[2 * node + 1];
}

/* The next live rank above (or below); NEVER: none. */
static uint32_t neighbour(const live *l, uint32_t rank, bool above) {
    uint32_t node = l->leaf_count + rank;
    while (node > 1 && (node % 2 == above || !l->any[node ^ 1])) node /= 2;
    if (node <= 1) return NEVER;
    for (node ^= 1; node < l->leaf_count;) {
        uint32_t near = 2 * node + !above;
        node = l->any[near] ? near : near ^ 1;
    }
    return node - l->leaf_count;
}

/* Notes that the bytes of a root are in use from now on, or no longer, unless another live root has
 * exactly its place. */
static void count_place(walk *w, uint32_t root, bool alive) {
    const kiln_plan_buffer *buffer = &w->plan->buffer[root];
    for (int above = 0; w->recorder && above < 2; above++) {
        const uint32_t near = neighbour(&w->live, w->live.rank_of[root], above);
        if (near != NEVER && overlap(buffer, &w->plan->buffer[w->live.root_at[near]])) return;
    }
    if (w->recorder) kiln_flow_count(w->recorder, root, alive);
}

/* Adds the results of step `index` in the arena to the live buffers, which must lie elsewhere. Live
 * buffers do not overlap, unless they have the same place, so it suffices to check the nearest
 * ones. */
static kiln_status enter(walk *w, uint32_t index, uint32_t written) {
    const uint32_t root = kiln_module_plan_root(w->plan, written), rank = w->live.rank_of[root];
    const kiln_plan_buffer *buffer = &w->plan->buffer[root];
    if (buffer->storage != KILN_STORAGE_ARENA || buffer->size_bytes == 0 || is_live(&w->live, rank))
        return KILN_OK;
    for (int above = 0; above < 2; above++) {
        uint32_t near = rank, other;
        while ((near = neighbour(&w->live, near, above)) != NEVER) {
            other = w->live.root_at[near];
            if (!overlap(buffer, &w->plan->buffer[other])) break;
            if (!takes_over(w, index, written, other))
                return KILN_ERROR(INVALID_ARGUMENT,
                                  "buffer %u overwrites buffer %u, which is still needed", root,
                                  other);
        }
    }
    count_place(w, root, true);
    set_live(&w->live, rank, true);
    if (w->recorder) kiln_flow_lives(w->recorder, root, index, KILN_MAX(w->last_use[root], index));
    uint32_t *ending = &w->live.ending[KILN_MAX(w->last_use[root], index)];
    w->live.next[root] = *ending;
    *ending = root + 1;
    return KILN_OK;
}

static bool is_stacked(const walk *w, uint32_t buffer, uint32_t loop) {
    const kiln_plan_buffer *b = &w->plan->buffer[buffer];
    return b->stride != 0 && b->loop == loop;
}

/* A stack is live from the beginning of its loop. */
static kiln_status enter_stacked(walk *w, uint32_t loop) {
    kiln_status st = KILN_OK;
    for (uint32_t s = loop + 1; s <= kiln_plan_loop_end(w->plan, loop); s++) {
        const kiln_plan_step *step = &w->plan->step[s];
        for (uint32_t i = step->arg_count - step->output_count; !st && i < step->arg_count; i++)
            if (is_stacked(w, step->arg[i], loop)) st = enter(w, loop, step->arg[i]);
    }
    if (!st && w->plan->step[loop].index != KILN_PLAN_NONE)
        st = enter(w, loop, w->plan->step[loop].index);
    return st;
}

static kiln_status follow_memory(walk *w, uint32_t index) {
    const kiln_plan_step *step = &w->plan->step[index];
    for (uint32_t root = index ? w->live.ending[index - 1] : 0; root;
         root = w->live.next[root - 1]) {
        set_live(&w->live, w->live.rank_of[root - 1], false);
        count_place(w, root - 1, false);
    }
    kiln_status st = step->action == KILN_ACTION_LOOP ? enter_stacked(w, index) : KILN_OK;
    for (uint32_t i = step->arg_count - step->output_count; !st && i < step->arg_count; i++)
        st = enter(w, index, step->arg[i]);
    if (!st && w->recorder) kiln_flow_end_step(w->recorder, index);
    return st;
}

/* Buffers that take no room in an arena: constants and inputs are there from the beginning, outputs
 * until the end; empty ones as their values are. */
static void record_lives(const walk *w) {
    for (uint32_t i = 0; w->recorder && i < w->plan->buffer_count; i++) {
        const kiln_module_storage storage = w->plan->buffer[i].storage;
        const uint32_t end = w->plan->step_count ? w->plan->step_count - 1 : 0;
        if (storage == KILN_STORAGE_OUTPUT && w->first_write[i] != NEVER)
            kiln_flow_lives(w->recorder, i, w->first_write[i], end);
        if (storage == KILN_STORAGE_ARENA && w->plan->buffer[i].size_bytes == 0 &&
            w->first_write[i] != NEVER)
            kiln_flow_lives(w->recorder, i, w->first_write[i],
                            KILN_MAX(w->first_write[i], w->last_use[i]));
        if (storage == KILN_STORAGE_INPUT) kiln_flow_lives(w->recorder, i, 0, w->last_use[i]);
        if (storage == KILN_STORAGE_CONSTANT) kiln_flow_lives(w->recorder, i, 0, end);
    }
}

static kiln_status follow(walk *w) {
    const kiln_module_plan *plan = w->plan;
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        st = close_loops(w, i);
        if (!st) st = follow_step(w, i);
        if (st) return kiln_status_note(st, "step %u", i);
    }
    st = close_loops(w, plan->step_count);
    if (!st) st = check_copying(w, KILN_PLAN_NONE);
    for (uint32_t i = 0; !st && i < plan->output_count; i++)
        if (!has_all(w, plan->output[i].buffer, plan->step_count, DONE_TOO) &&
            !has_rows(w, plan->output[i].buffer))
            st = KILN_ERROR(INVALID_ARGUMENT, "output %u is never written", i);
    for (uint32_t i = 0; !st && i < plan->step_count; i++)
        st = kiln_status_note(follow_memory(w, i), "step %u", i);
    if (!st) record_lives(w);
    return st;
}

static int by_place(const void *a, const void *b) {
    const kiln_plan_buffer *const x = *(const kiln_plan_buffer *const *)a,
                                  *const y = *(const kiln_plan_buffer *const *)b;
    if (x->device != y->device) return x->device < y->device ? -1 : 1;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return x < y ? -1 : x > y;
}

static void make_live(walk *w) {
    const uint32_t count = w->plan->buffer_count;
    const kiln_plan_buffer **order = KILN_ARENA_ARRAY(w->scratch, const kiln_plan_buffer *, count);
    w->live.rank_of = KILN_ARENA_ARRAY(w->scratch, uint32_t, count);
    w->live.root_at = KILN_ARENA_ARRAY(w->scratch, uint32_t, count);
    w->live.next = KILN_ARENA_ARRAY(w->scratch, uint32_t, count);
    w->live.ending = KILN_ARENA_ARRAY(w->scratch, uint32_t, w->plan->step_count);
    for (uint32_t i = 0; i < count; i++) order[i] = &w->plan->buffer[i];
    if (count > 0) qsort(order, count, sizeof *order, by_place);
    for (uint32_t i = 0; i < count; i++) {
        w->live.root_at[i] = (uint32_t)(order[i] - w->plan->buffer);
        w->live.rank_of[w->live.root_at[i]] = i;
    }
    for (w->live.leaf_count = 1; w->live.leaf_count < count;) w->live.leaf_count *= 2;
    w->live.any = KILN_ARENA_ARRAY(w->scratch, bool, 2 * (size_t)w->live.leaf_count);
}

kiln_status kiln_plan_walk(const kiln_module_plan *plan, const uint32_t *loop_of,
                           kiln_flow_recorder *recorder, kiln_arena *scratch) {
    size_t table_bytes = plan->buffer_count * sizeof(uint32_t);
    walk w = {
        .plan = plan,
        .loop_of = loop_of,
        .scratch = scratch,
        .recorder = recorder,
        .first_write = kiln_arena_alloc(scratch, table_bytes),
        .last_use = kiln_arena_alloc(scratch, table_bytes),
        .kept_until = KILN_ARENA_ARRAY(scratch, uint32_t, plan->buffer_count),
        .written = KILN_ARENA_ARRAY(scratch, range *, plan->buffer_count),
        .carried = KILN_ARENA_ARRAY(scratch, range *, plan->buffer_count),
        .row_until = KILN_ARENA_ARRAY(scratch, uint32_t, plan->buffer_count),
    };
    memset(w.first_write, 0xff, table_bytes); /* NEVER */
    memset(w.last_use, 0, table_bytes);
    make_live(&w);
    return follow(&w);
}
