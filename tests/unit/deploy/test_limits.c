/* What cannot be packed is known before anything is measured or built. */
#include "deploy/pack/limits.h"

#include <string.h>

#include "deploy/format.h"
#include "deploy/pack/pack.h"
#include "tests/unit/compiler-core/graph/support.h"

static kiln_compilation *compilation_of(kiln_arena *arena, const char *text) {
    kiln_target *target = KILN_ARENA_NEW(arena, kiln_target);
    kiln_compilation *c = NULL;
    expect_ok(kiln_target_parse(KILN_STR("x86-64-v3"), arena, target));
    expect_ok(
        kiln_compilation_of_model(graph_of(arena, text), target, &(kiln_accuracy){0}, arena, &c));
    return c;
}

/* A model of `count` inputs and outputs. */
static kiln_compilation *with_ports(kiln_arena *arena, uint32_t count) {
    kiln_strbuf text = {0};
    kiln_strbuf_text(&text, "graph ports\n");
    for (uint32_t i = 0; i < count; i++) kiln_strbuf_printf(&text, "input x%u: f32[4]\n", i);
    for (uint32_t i = 0; i < count; i++)
        kiln_strbuf_printf(&text, "y%u: f32[4] = relu(x%u)\n", i, i);
    for (uint32_t i = 0; i < count; i++) kiln_strbuf_printf(&text, "output y%u\n", i);
    kiln_compilation *c = compilation_of(arena, text.data);
    kiln_strbuf_deinit(&text);
    return c;
}

static void as_many_ports_as_a_module_has_are_fine(void **state) {
    expect_ok(kiln_limits_check(with_ports(*state, KILN_MODULE_PORTS_MAX)));
}

static void more_are_refused_by_pack_as_well(void **state) {
    kiln_compilation *c = with_ports(*state, KILN_MODULE_PORTS_MAX + 1);
    kiln_strbuf bytes = {0};
    kiln_pack_options options = {.model_name = KILN_STR("ports")};
    expect_error(kiln_limits_check(c), RESOURCE_EXHAUSTED,
                 "the model needs 257 inputs; a module has at most 256");
    expect_error(kiln_pack(c, &options, *state, &bytes, NULL), RESOURCE_EXHAUSTED,
                 "packing ports: the model needs 257 inputs");
    assert_int_equal(bytes.size, 0);
}

static void a_name_that_is_too_long_is_refused(void **state) {
    char name[KILN_MODULE_NAME_MAX + 2];
    memset(name, 'n', sizeof name);
    name[KILN_MODULE_NAME_MAX + 1] = 0;
    const char *text = kiln_arena_printf(
        *state, "graph g\ninput x: f32[4]\ny: f32[4] = relu(x) name \"%s\"\noutput y\n", name);
    expect_error(kiln_limits_check(compilation_of(*state, text)), RESOURCE_EXHAUSTED,
                 "the name of a node has 513 bytes; in a module it has at most 512");
    text = kiln_arena_printf(*state, "graph g\ninput x: f32[4]\n%s: f32[4] = relu(x)\noutput %s\n",
                             name, name);
    expect_error(kiln_limits_check(compilation_of(*state, text)), RESOURCE_EXHAUSTED,
                 "the name of an output has 513 bytes");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(as_many_ports_as_a_module_has_are_fine),
        test_with_arena(more_are_refused_by_pack_as_well),
        test_with_arena(a_name_that_is_too_long_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
