#include "compiler-core/facts/loads.h"

#include <string.h>

#include "base/alloc.h"

typedef struct collection {
    KILN_VEC(kiln_expr) load;
} collection;

static void collect(kiln_program *p, kiln_expr load, void *context) {
    collection *c = context;
    kiln_vec_push_in(p->arena, &c->load, load);
}

/* Each walk visits a load once; one that both walks visit is dropped from the second. */
static void collect_init(kiln_program *p, kiln_expr init, collection *c) {
    uint32_t of_value = c->load.count, kept = of_value;
    kiln_expr_visit_loads(p, init, 0, collect, c);
    for (uint32_t i = of_value; i < c->load.count; i++) {
        bool seen = false;
        for (uint32_t k = 0; k < of_value && !seen; k++) seen = c->load.data[k] == c->load.data[i];
        if (!seen) c->load.data[kept++] = c->load.data[i];
    }
    c->load.count = kept;
}

static void grow_lists(kiln_program *p) {
    uint32_t old = p->loads.count;
    if (old >= p->block.count) return;
    if (p->loads.capacity < p->block.count)
        p->loads.data = kiln_vec_grow_in(p->arena, p->loads.data, sizeof *p->loads.data,
                                         &p->loads.capacity, p->block.count);
    p->loads.count = p->block.count;
    memset(p->loads.data + old, 0, (p->loads.count - old) * sizeof *p->loads.data);
}

kiln_loads kiln_block_loads(kiln_program *p, kiln_block block) {
    grow_lists(p);
    kiln_expr value = p->block.data[block].value, init = p->block.data[block].init;
    kiln_load_list *list = &p->loads.data[block];
    if (list->value != value || list->init != init) {
        collection c = {0};
        kiln_expr_visit_loads(p, value, 0, collect, &c);
        if (init) collect_init(p, init, &c);
        *list = (kiln_load_list){value, init, c.load.count, c.load.data};
    }
    return (kiln_loads){list->count, list->load};
}

void kiln_block_visit_loads(kiln_program *p, kiln_block block, kiln_expr_visitor visit,
                            void *context) {
    const kiln_block_info b = p->block.data[block];
    kiln_expr_visit_loads(p, b.value, 0, visit, context);
    kiln_expr_visit_loads(p, b.init, 0, visit, context);
    kiln_expr_visit_loads(p, b.predicate, 0, visit, context);
    for (uint32_t i = 0; i < b.iter_count; i++)
        kiln_expr_visit_loads(p, b.iter[i].binding, 0, visit, context);
}

void kiln_loads_forget(kiln_program *p) { p->loads.count = 0; }

kiln_buffer kiln_load_buffer(const kiln_program *p, kiln_expr load) {
    return (kiln_buffer)kiln_expr_get(p, load)->payload.id;
}

uint32_t kiln_load_index(const kiln_program *p, kiln_expr load, kiln_expr *out) {
    uint32_t count = kiln_expr_get(p, load)->operand_count;
    for (uint32_t d = 0; d < count; d++) out[d] = kiln_expr_operand(p, load, d);
    return count;
}

bool kiln_block_reads(kiln_program *p, kiln_block block, kiln_buffer buffer) {
    kiln_loads loads = kiln_block_loads(p, block);
    for (uint32_t i = 0; i < loads.count; i++)
        if (kiln_load_buffer(p, loads.load[i]) == buffer) return true;
    return false;
}

uint32_t kiln_buffer_readers(kiln_program *p, kiln_buffer buffer, kiln_block *out) {
    uint32_t count = 0;
    for (kiln_block b = 1; b < p->block.count; b++)
        if (!p->block.data[b].removed && kiln_block_reads(p, b, buffer)) out[count++] = b;
    return count;
}

/* Whether the block reads only constants and results of earlier blocks, which are noted in `asked`;
 * false without any load. */
static bool ask_producers(kiln_program *p, kiln_block block, bool *asked) {
    kiln_loads loads = kiln_block_loads(p, block);
    for (uint32_t i = 0; i < loads.count; i++) {
        const kiln_buffer buffer = kiln_load_buffer(p, loads.load[i]);
        if (p->buffer.data[buffer].role == KILN_ROLE_CONSTANT) continue;
        const kiln_block producer = kiln_program_producer(p, buffer);
        if (!producer || producer >= block) return false;
        asked[producer] = true;
    }
    return loads.count > 0;
}

/* Each block is visited once. */
bool kiln_block_reads_only_constants(kiln_program *p, kiln_block block) {
    bool *asked = kiln_alloc((size_t)block + 1), all = true;
    asked[block] = true;
    for (kiln_block b = block; b > 0 && all; b--)
        if (asked[b]) all = ask_producers(p, b, asked);
    kiln_free(asked);
    return all;
}
