/* What PTX must declare for its launches. No driver is needed. */
#include "deploy/runtime/cuda_check.h"

#include <string.h>

#include "deploy/runtime/kernel.h"
#include "tests/support/test.h"
#include "tests/support/text_artefact.h"

#define POINTER(name) "    .param .u64 " name
#define MAP(name) "    .param .align 64 .b8 " name "[128]"
#define ENTRY(name, parameters, directives) \
    ".visible .entry " name "(\n" parameters "\n)\n" directives "\n{\n    ret;\n}\n"
#define OTHERS                                              \
    ENTRY("prepare_0", POINTER("w") ",\n" POINTER("p"), "") \
    ENTRY("run_2", POINTER("t") ",\n" POINTER("y") ",\n" POINTER("s"), "")
#define XPT POINTER("x") ",\n" POINTER("p") ",\n" POINTER("t")
#define RUN(parameters, directives) OTHERS ENTRY("run_1", parameters, directives)

static const kiln_manifest_map map[] = {
    {.dtype = KILN_F32, .rank = 1, .size = {16}, .stride_bytes = {4}, .box = {16}},
    {.arg = 1, .dtype = KILN_F32, .rank = 1, .size = {16}, .stride_bytes = {4}, .box = {16}}};

static kiln_status check(kiln_arena *arena, const char *text, uint32_t cluster, uint32_t maps,
                         const char *target) {
    const text_artefact a = {.kind = KILN_PAYLOAD_PTX,
                             .target = target,
                             .text = text,
                             .cluster = cluster,
                             .map_count = maps,
                             .map = map};
    return kiln_kernel_check(text_artefact_encode(&a, arena));
}

static void code_with_the_launches_parameters_is_accepted(void **state) {
    kiln_arena *arena = *state;
    expect_ok(check(arena, RUN(XPT, ""), 0, 0, "h200"));
    expect_ok(check(arena, RUN(XPT, ".maxntid 64, 1, 1"), 1, 0, "h200"));
    expect_ok(check(arena, RUN(XPT, ""), 0, 0, "cuda:sm_80"));
    expect_ok(check(arena, RUN(XPT ",\n" MAP("m"), ""), 0, 1, "h200"));
    expect_ok(check(arena, RUN(XPT ",\n" MAP("m") ",\n" MAP("n"), ""), 0, 2, "cuda:sm_90a"));
    expect_ok(check(
        arena,
        RUN("    .param .u64 .ptr .global .align 16 x,\n" POINTER("p") ",\n" POINTER("t"), ""), 0,
        0, "h200"));
}

static void clusters_of_the_code_are_those_of_the_launch(void **state) {
    kiln_arena *arena = *state;
    static const char *const two[] = {".reqnctapercluster 2", ".reqnctapercluster 2, 1, 1",
                                      ".maxntid 64, 1, 1\n.explicitcluster\n"
                                      ".reqnctapercluster\t2,1\n.minnctapersm 1"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(two); i++) {
        kiln_strbuf text = {0};
        kiln_strbuf_printf(&text, OTHERS ".visible .entry run_1(\n" XPT "\n)\n%s\n{\n}\n", two[i]);
        expect_ok(check(arena, text.data, 2, 0, "h200"));
        expect_error(check(arena, text.data, 0, 0, "h200"), DATA_LOSS,
                     "launch 1: the code is for clusters of 2 groups along x, the launch for 1");
        expect_error(check(arena, text.data, 4, 0, "h200"), DATA_LOSS,
                     "of 2 groups along x, the "
                     "launch for 4");
        kiln_strbuf_deinit(&text);
    }
    expect_error(check(arena, RUN(XPT, ""), 2, 0, "h200"), DATA_LOSS,
                 "clusters of 1 groups along x, the launch for 2");
    expect_error(check(arena, RUN(XPT, ".reqnctapercluster 1, 2, 1"), 2, 0, "h200"), DATA_LOSS,
                 "clusters of 0 groups along x");
    expect_error(check(arena, RUN(XPT, ".reqnctapercluster 99999999999999999999"), 2, 0, "h200"),
                 DATA_LOSS, "clusters of 999999999 groups");
    expect_ok(check(arena, RUN(XPT, ".reqnctapercluster 1, 1, 1"), 0, 0, "h200"));
    /* Of another entry, or in a body. */
    expect_ok(check(arena, RUN(XPT, "") ENTRY("more", "", ".reqnctapercluster 4"), 0, 0, "h200"));
    expect_error(check(arena,
                       OTHERS ".visible .entry run_1(\n" XPT "\n)\n{\n// .reqnctapercluster 2\n}\n",
                       2, 0, "h200"),
                 DATA_LOSS, "clusters of 1 groups");
}

/* As clang writes them. */
static void declarations_in_front_count_for_nothing(void **state) {
    kiln_arena *arena = *state;
    static const char declarations[] =
        ".visible .entry run_2\n(\n" POINTER("t") "\n)\n;\n"
                                                  ".visible .entry run_1\n(\n" XPT "\n)\n;\n";
    kiln_strbuf text = {0};
    kiln_strbuf_text(&text, declarations);
    kiln_strbuf_text(&text, RUN(XPT, ".reqnctapercluster 2, 1, 1"));
    expect_ok(check(arena, text.data, 2, 0, "h200"));
    kiln_strbuf_reset(&text);
    kiln_strbuf_text(&text, declarations);
    kiln_strbuf_text(&text, ENTRY("more", "", ".reqnctapercluster 2") RUN(XPT, ""));
    expect_ok(check(arena, text.data, 0, 0, "h200"));
    expect_error(check(arena, text.data, 2, 0, "h200"), DATA_LOSS, "clusters of 1 groups");
    kiln_strbuf_reset(&text);
    kiln_strbuf_text(&text, OTHERS);
    kiln_strbuf_text(&text, declarations); /* and no definition */
    expect_ok(check(arena, text.data, 0, 0, "h200"));
    kiln_strbuf_deinit(&text);
}

static void other_parameters_are_refused(void **state) {
    kiln_arena *arena = *state;
    static const struct {
        const char *text;
        uint32_t maps;
        const char *complaint;
    } row[] = {
        {RUN(XPT, ""), 1,
         "launch 1: the code has 3 parameters: 3 pointers and 0 tensor maps; the launch passes 3 "
         "pointers and 1 tensor maps"},
        {RUN(XPT ",\n" MAP("m"), ""), 0,
         "4 parameters: 3 pointers and 1 tensor maps; the launch "
         "passes 3 pointers and 0"},
        {RUN(XPT ",\n" MAP("m"), ""), 2,
         "3 pointers and 1 tensor maps; the launch passes 3 "
         "pointers and 2"},
        {RUN(XPT ",\n    .param .align 64 .b8 m[64]", ""), 1, "4 parameters: 3 pointers and 0"},
        {RUN(XPT ",\n    .param .align 8 .b8 m[128]", ""), 1, "4 parameters: 3 pointers and 0"},
        {RUN(XPT ",\n    .param .align 64 .b32 m[128]", ""), 1, "4 parameters: 3 pointers and 0"},
        {RUN(XPT ",\n    .param .u32 n", ""), 0, "4 parameters: 3 pointers and 0"},
        {RUN(XPT ",\n    .param .u64 n[2]", ""), 0, "4 parameters: 3 pointers and 0"},
        {RUN(MAP("m") ",\n" XPT, ""), 1, "tensor maps in front of pointers"},
        {RUN("", ""), 0, "0 parameters"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++)
        expect_error_at(check(arena, row[i].text, 0, row[i].maps, "h200"), KILN_DATA_LOSS,
                        row[i].complaint, __FILE__, __LINE__);
}

static void devices_without_clusters_are_named(void **state) {
    kiln_arena *arena = *state;
    expect_error(check(arena, RUN(XPT ",\n" MAP("m"), ""), 0, 1, "cuda:sm_80"), FAILED_PRECONDITION,
                 "launch 1: it has clusters or tensor maps, which devices before sm_90 lack; the "
                 "target is sm_80");
    expect_error(check(arena, RUN(XPT, ".reqnctapercluster 2"), 2, 0, "a100"), FAILED_PRECONDITION,
                 "the target is sm_80");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(code_with_the_launches_parameters_is_accepted),
        test_with_arena(clusters_of_the_code_are_those_of_the_launch),
        test_with_arena(declarations_in_front_count_for_nothing),
        test_with_arena(other_parameters_are_refused),
        test_with_arena(devices_without_clusters_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
