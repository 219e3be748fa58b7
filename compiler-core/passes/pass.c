/* The pass table and its order. */
#include "compiler-core/passes/pass.h"

#include "base/check.h"
#include "compiler-core/passes/rewrite.h"

static const kiln_pass_info pass_table[] = {
#define X(id, name, function, doc) {name, function, doc},
#include "compiler-core/passes/passes.def"
#undef X
};
_Static_assert(KILN_ARRAY_COUNT(pass_table) == KILN_PASS_COUNT, "one row per pass");

const kiln_pass_info *kiln_pass_get(kiln_pass pass) {
    KILN_CHECK((unsigned)pass < KILN_PASS_COUNT);
    return &pass_table[pass];
}

bool kiln_pass_find(kiln_str name, kiln_pass *out_pass) {
    for (uint32_t i = 0; i < KILN_PASS_COUNT; i++) {
        if (!kiln_str_is(name, pass_table[i].name)) continue;
        *out_pass = (kiln_pass)i;
        return true;
    }
    return false;
}

kiln_status kiln_pass_run(kiln_pass pass, kiln_graph *graph) {
    kiln_status st = kiln_pass_get(pass)->run(graph);
    if (!st) st = kiln_graph_verify(graph);
    return kiln_status_note(st, "pass %s", kiln_pass_get(pass)->name);
}

static kiln_status unknown_pass(kiln_str name) {
    kiln_strbuf list = {0};
    for (uint32_t i = 0; i < KILN_PASS_COUNT; i++)
        kiln_strbuf_printf(&list, "%s%s", i ? ", " : "", pass_table[i].name);
    kiln_status st = KILN_ERROR(INVALID_ARGUMENT, "no pass \"%.*s\"; there are %s",
                                KILN_STR_ARG(name), list.data);
    kiln_strbuf_deinit(&list);
    return st;
}

kiln_status kiln_passes_run(kiln_graph *graph, kiln_str last) {
    kiln_pass stop = KILN_PASS_COUNT - 1;
    if (last.size && !kiln_pass_find(last, &stop)) return unknown_pass(last);
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i <= (uint32_t)stop; i++) st = kiln_pass_run((kiln_pass)i, graph);
    return st;
}

kiln_status kiln_passes_run_without(kiln_graph *graph, uint32_t without) {
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i < KILN_PASS_COUNT; i++)
        if (!(without >> i & 1)) st = kiln_pass_run((kiln_pass)i, graph);
    return st;
}
