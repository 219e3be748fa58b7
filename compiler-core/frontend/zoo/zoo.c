#include "compiler-core/frontend/zoo/zoo.h"

#include "compiler-core/frontend/zoo/networks.h"
#include "compiler-core/frontend/zoo/workloads.h"

static const struct {
    const char *name;
    kiln_zoo_network build;
    const char *what;
} network_table[] = {
#define X(name, function, what) {name, kiln_zoo_net_##function, what},
#include "compiler-core/frontend/zoo/networks.def"
#undef X
};

static const struct {
    const char *prefix;
    kiln_zoo_workload build;
    const char *form, *what;
} workload_table[] = {
#define X(prefix, function, form, what) {prefix, kiln_zoo_workload_##function, form, what},
#include "compiler-core/frontend/zoo/workloads.def"
#undef X
};

static kiln_status unknown_entry(void) {
    kiln_strbuf known = {0};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(network_table); i++)
        kiln_strbuf_printf(&known, " %s", network_table[i].name);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(workload_table); i++)
        kiln_strbuf_printf(&known, " %s:%s", workload_table[i].prefix, workload_table[i].form);
    kiln_status st =
        KILN_ERROR(INVALID_ARGUMENT, "the zoo has no such entry; it has%s", known.data);
    kiln_strbuf_deinit(&known);
    return st;
}

static kiln_status add_entry(kiln_zoo_builder *b, kiln_str name, kiln_zoo_value *out) {
    for (size_t i = 0; i < KILN_ARRAY_COUNT(network_table); i++) {
        if (!kiln_str_is(name, network_table[i].name)) continue;
        *out = network_table[i].build(b);
        return KILN_OK;
    }
    kiln_str rest = name, prefix = kiln_str_cut(&rest, ':');
    for (size_t i = 0; i < KILN_ARRAY_COUNT(workload_table); i++) {
        if (kiln_str_is(prefix, workload_table[i].prefix))
            return kiln_status_note(workload_table[i].build(b, rest, out), "%s:%s",
                                    workload_table[i].prefix, workload_table[i].form);
    }
    return unknown_entry();
}

kiln_status kiln_zoo_build(kiln_str name, uint64_t seed, kiln_strbuf *out) {
    kiln_arena arena;
    kiln_zoo_builder b;
    kiln_zoo_value y;
    kiln_arena_init(&arena, (size_t)1 << 20);
    kiln_zoo_begin(&b, &arena, seed);
    kiln_status st = add_entry(&b, name, &y);
    if (!st) kiln_zoo_end(&b, name, y, out);
    kiln_arena_deinit(&arena);
    return kiln_status_note(st, "%.*s", KILN_STR_ARG(name));
}

void kiln_zoo_list(kiln_strbuf *out) {
    for (size_t i = 0; i < KILN_ARRAY_COUNT(network_table); i++)
        kiln_strbuf_printf(out, "%-14s %s\n", network_table[i].name, network_table[i].what);
    kiln_zoo_list_convs(out);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(workload_table); i++)
        kiln_strbuf_printf(out, "%s:%s  %s\n", workload_table[i].prefix, workload_table[i].form,
                           workload_table[i].what);
}
