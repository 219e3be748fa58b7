/* Targets of kind cpu: what follows from a processor's row and from features. */
#include "base/target.h"

#include "base/macros.h"
#include "tests/support/test.h"

static kiln_target parsed(kiln_arena *arena, const char *text) {
    kiln_target target = {0};
    expect_ok(kiln_target_parse(kiln_str_from(text), arena, &target));
    return target;
}

static const char *printed(kiln_arena *arena, const kiln_target *target) {
    kiln_strbuf text = {0};
    kiln_target_print(target, &text);
    char *copy = kiln_str_dup(arena, kiln_strbuf_view(&text));
    kiln_strbuf_deinit(&text);
    return copy;
}

/* Every row of a core, so that one with a zero left in it fails here. */
static void every_processor_has_widths_and_rates(void **state) {
    static const struct {
        const char *text;
        uint32_t vector_bytes, registers, factor_lanes, pointer_bytes, word_bytes;
        bool fma;
    } row[] = {
        {"x86-64", 16, 16, 1, 8, 8, false},
        {"x86-64-v3", 32, 16, 1, 8, 8, true},
        {"x86-64-v4", 64, 32, 1, 8, 8, true},
        {"rpi3", 16, 32, 4, 8, 8, true},
        {"rpi4", 16, 32, 4, 8, 8, true},
        {"rpi5", 16, 32, 4, 8, 8, true},
        {"android-arm64", 16, 32, 4, 8, 8, true},
        {"pynq", 16, 16, 1, 4, 4, false},
        {"pynq,mcpu=cortex-a7", 16, 16, 1, 4, 4, true},
        {"riscv64", 16, 32, 1, 8, 8, true},
        {"cortex-m4", 16, 8, 1, 4, 4, true},
        {"wasm", 16, 16, 1, 4, 8, false},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_target t = parsed(*state, row[i].text);
        assert_int_equal(t.vector_bytes, row[i].vector_bytes);
        assert_int_equal(t.vector_registers, row[i].registers);
        assert_int_equal(t.factor_lanes, row[i].factor_lanes);
        assert_int_equal(t.pointer_bytes, row[i].pointer_bytes);
        assert_int_equal(t.word_bytes, row[i].word_bytes);
        assert_true(t.has_fma == row[i].fma);
    }
    static const kiln_core core[] = {
#define X(arch, name, level, features, l1, l2, l3, line, issue_, vector_, loads_, stores_, \
          latency_, forward_, divide_, l2_rate_, l3_rate_, memory_rate_)                   \
    {.issue = issue_,                                                                      \
     .vector = vector_,                                                                    \
     .loads = loads_,                                                                      \
     .stores = stores_,                                                                    \
     .latency = latency_,                                                                  \
     .forward = forward_,                                                                  \
     .divide = divide_,                                                                    \
     .l2_rate = l2_rate_,                                                                  \
     .l3_rate = l3_rate_,                                                                  \
     .memory_rate = memory_rate_},
#include "base/cpus.def"
#undef X
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(core); i++)
        assert_true(core[i].issue > 0 && core[i].vector > 0 && core[i].loads > 0 &&
                    core[i].stores > 0 && core[i].latency > 0 &&
                    core[i].forward > core[i].latency && core[i].divide > 0 &&
                    core[i].l2_rate >= core[i].l3_rate && core[i].memory_rate > 0);
}

static void features_are_spelled_for_compilers(void **state) {
    static const char *const row[][2] = {
        {"rpi5", "+neon,+crc,+lse,+fullfp16,+dotprod"},
        {"rpi4,features=-crc", "+neon,+crc,-crc"},
        {"x86-64-v3", ""},
        {"sapphirerapids,features=-fma", "-fma"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_target target = parsed(*state, row[i][0]);
        kiln_strbuf text = {0};
        kiln_target_spell_features(&target, &text);
        expect_str(kiln_strbuf_view(&text), row[i][1]);
        kiln_strbuf_deinit(&text);
    }
}

static void features_are_sorted_and_the_last_mention_wins(void **state) {
    kiln_target target = parsed(*state, "x86-64-v3,features=+fma+amx-tile-avx2-fma+avx2");
    expect_str(target.features, "+amx-tile,+avx2,-fma");
    assert_false(target.has_fma);
    assert_string_equal(printed(*state, &target),
                        "cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v3,features=+amx-tile+avx2-fma");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(every_processor_has_widths_and_rates),
        test_with_arena(features_are_spelled_for_compilers),
        test_with_arena(features_are_sorted_and_the_last_mention_wins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
