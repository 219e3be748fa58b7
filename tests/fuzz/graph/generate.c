#include "tests/fuzz/graph/generate.h"

#include <string.h>

#include "base/check.h"
#include "compiler-core/core.h"
#include "compiler-core/graph/op.h"
#include "tests/fuzz/graph/rules.h"

#define NODES_MIN 5
#define NODES_MAX 20
#define ATTEMPTS_MAX 300 /* draws of one graph, with those that are refused */
#define REASON_BYTES_MAX 20000u

static const rule rule_table[] = {
#define X(name, function, flags, low, high, last) {name, draw_##function, flags, low, high, last},
#include "tests/fuzz/graph/ops.def"
#undef X
};

typedef struct row {
    const char *name;
    int since;
    kiln_op op;
} row;

static const row row_table[] = {
#define X(name, since, op, how, spec) {name, since, KILN_OP_##op},
#include "compiler-core/frontend/onnx/nodes.def"
#undef X
};
#define ROW_COUNT ((uint32_t)KILN_ARRAY_COUNT(row_table))

uint32_t fuzz_row_count(void) { return ROW_COUNT; }

const char *fuzz_row_name(uint32_t index, int *out_since) {
    *out_since = row_table[index].since;
    return row_table[index].name;
}

static const rule *find_rule(const char *name) {
    for (size_t i = 0; i < KILN_ARRAY_COUNT(rule_table); i++)
        if (strcmp(rule_table[i].name, name) == 0) return &rule_table[i];
    return NULL;
}

const char *fuzz_missing_rule(void) {
    for (uint32_t i = 0; i < ROW_COUNT; i++)
        if (!find_rule(row_table[i].name)) return row_table[i].name;
    return NULL;
}

/* The last opset in which a row says what its operator means. */
static int last_opset(uint32_t index) {
    bool is_replaced =
        index + 1 < ROW_COUNT && strcmp(row_table[index].name, row_table[index + 1].name) == 0;
    return is_replaced ? row_table[index + 1].since - 1 : find_rule(row_table[index].name)->last;
}

/* One that ONNX Runtime runs as well (7 to 23), where the row has one. */
static int draw_opset(draw *d, uint32_t index) {
    int low = row_table[index].since, high = last_opset(index);
    if (high >= 7) low = KILN_MAX(low, 7);
    if (low <= 23) high = KILN_MIN(high, 23);
    return (int)between(d, low, high);
}

static uint32_t types_of(kiln_op op) {
    uint32_t types = 0;
    if (op == KILN_OP_NONE) return ANY;
    for (const char *c = kiln_op_get(op)->dtypes; *c; c++)
        types |= *c == 'f' ? FLOATS : *c == 'i' ? SIGNED : *c == 'u' ? UNSIGNED : TRUTHS;
    return types;
}

static void note_reason(fuzz_counts *counts, const draw *d, kiln_strbuf *why) {
    if (counts->reasons.size < REASON_BYTES_MAX)
        kiln_strbuf_printf(&counts->reasons, "graph %llu, %s of opset %d: %s\n",
                           (unsigned long long)d->g->number, d->rule->name, d->g->opset, why->data);
}

/* One attempt at a node of that row; takes everything back when it fails. */
static bool attempt(fuzz_graph *g, uint32_t index, fuzz_counts *counts) {
    uint32_t values = g->value_count, nodes = g->node_count;
    const rule *r = find_rule(row_table[index].name);
    fuzz_node *node = &g->node[g->node_count++];
    draw d = {g, node, r, types_of(row_table[index].op)};
    *node = (fuzz_node){.op = r->name,
                        .exact = fuzz_rule_has(r, 'e'),
                        .sums = fuzz_rule_has(r, 's'),
                        .absolute = fuzz_rule_has(r, 'a'),
                        .attributes = message_of(g->arena)};
    kiln_strbuf why = {0};
    fuzz_outcome outcome = FUZZ_ILL_CONDITIONED;
    if (r->draw(&d)) outcome = fuzz_graph_evaluate(g, &why);
    if (outcome == FUZZ_REFUSED) note_reason(counts, &d, &why);
    kiln_strbuf_deinit(&why);
    counts->drawn += outcome == FUZZ_DRAWN;
    counts->ill_conditioned += outcome == FUZZ_ILL_CONDITIONED;
    counts->unsupported += outcome == FUZZ_UNSUPPORTED;
    counts->refused += outcome == FUZZ_REFUSED;
    counts->drawn_of[index] += outcome == FUZZ_DRAWN;
    if (outcome == FUZZ_DRAWN) return true;
    g->value_count = values;
    g->node_count = nodes;
    return false;
}

static bool is_valid(const fuzz_graph *g, uint32_t index) {
    return row_table[index].since <= g->opset && g->opset <= last_opset(index);
}

void fuzz_generate(uint64_t number, kiln_arena *arena, fuzz_graph *g, fuzz_counts *counts) {
    uint32_t first = (uint32_t)(number % ROW_COUNT);
    *g = (fuzz_graph){.arena = arena, .number = number};
    kiln_rand_init(&g->rand, number);
    draw d = {.g = g};
    g->opset = draw_opset(&d, first);
    g->common = chance(&d, 60);
    uint32_t wanted_nodes = (uint32_t)between(&d, NODES_MIN, NODES_MAX), tries = 0;
    while (tries++ < ATTEMPTS_MAX / 3 && !attempt(g, first, counts)) continue;
    while (tries++ < ATTEMPTS_MAX && g->node_count < wanted_nodes &&
           g->value_count + 40 < FUZZ_VALUES_MAX) {
        uint32_t index = (uint32_t)between(&d, 0, ROW_COUNT - 1);
        if (is_valid(g, index)) attempt(g, index, counts);
    }
}
