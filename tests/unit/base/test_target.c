#include "base/target.h"

#include <string.h>

#include "base/macros.h"
#include "base/rand.h"
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

static void assert_same(const kiln_target *a, const kiln_target *b) {
    assert_true(a->kind == b->kind && kiln_str_equal(a->triple, b->triple) &&
                kiln_str_equal(a->mcpu, b->mcpu) && kiln_str_equal(a->features, b->features));
    assert_true(a->arch == b->arch && a->cores == b->cores && a->threads == b->threads &&
                a->emulated == b->emulated);
    assert_true(a->vector_bytes == b->vector_bytes && a->vector_registers == b->vector_registers &&
                a->has_fma == b->has_fma);
    assert_true(a->l1_bytes == b->l1_bytes && a->l2_bytes == b->l2_bytes &&
                a->l3_bytes == b->l3_bytes && a->line_bytes == b->line_bytes);
    assert_true(a->gpu == b->gpu && a->group_threads == b->group_threads &&
                a->shared_bytes == b->shared_bytes);
    assert_true(a->factor_lanes == b->factor_lanes && a->pointer_bytes == b->pointer_bytes &&
                a->word_bytes == b->word_bytes);
    assert_memory_equal(&a->core, &b->core, sizeof a->core);
}

static void every_name_expands_and_round_trips(void **state) {
    kiln_arena *arena = *state;
    static const char *const name[] = {
        "native",
#define X(name, expansion) name,
#include "base/targets.def"
#undef X
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(name); i++) {
        kiln_target target = parsed(arena, name[i]);
        kiln_target again = parsed(arena, printed(arena, &target));
        assert_same(&target, &again);
        kiln_target copy = kiln_target_copy(&target, arena);
        assert_same(&target, &copy);
    }
}

static void every_processor_and_feature_round_trips(void **state) {
    kiln_arena *arena = *state;
    static const struct {
        kiln_arch arch;
        const char *triple;
    } triple[] = {{KILN_ARCH_X86_64, "x86_64-unknown-linux-gnu"},
                  {KILN_ARCH_AARCH64, "aarch64-unknown-linux-gnu"},
                  {KILN_ARCH_ARM, "armv7-unknown-linux-gnueabihf"},
                  {KILN_ARCH_THUMB, "thumbv7em-none-eabihf"},
                  {KILN_ARCH_RISCV64, "riscv64-unknown-linux-gnu"},
                  {KILN_ARCH_WASM32, "wasm32-unknown-unknown"}};
    static const struct {
        kiln_arch arch;
        const char *name;
    } cpu[] =
        {
#define X(arch, name, ...) {KILN_ARCH_##arch, name},
#include "base/cpus.def"
#undef X
        },
      feature[] = {
#define X(arch, name, ...) {KILN_ARCH_##arch, name},
#include "base/cpu_features.def"
#undef X
      };
    kiln_rand r;
    kiln_rand_init(&r, 9);
    for (size_t c = 0; c < KILN_ARRAY_COUNT(cpu); c++)
        for (int round = 0; round < 20; round++) {
            const char *base = NULL;
            for (size_t t = 0; t < KILN_ARRAY_COUNT(triple); t++)
                if (triple[t].arch == cpu[c].arch) base = triple[t].triple;
            kiln_strbuf text = {0};
            kiln_strbuf_printf(&text, "cpu:%s,mcpu=%s", base, cpu[c].name);
            size_t before = text.size;
            for (size_t f = 0; f < KILN_ARRAY_COUNT(feature); f++) {
                if (feature[f].arch != cpu[c].arch || kiln_rand_below(&r, 3)) continue;
                if (text.size == before) kiln_strbuf_text(&text, ",features=");
                kiln_strbuf_printf(&text, "%c%s", kiln_rand_below(&r, 2) ? '+' : '-',
                                   feature[f].name);
            }
            kiln_strbuf_printf(&text, ",cores=%u,threads=%u", (unsigned)kiln_rand_range(&r, 1, 9),
                               (unsigned)kiln_rand_range(&r, 1, 9));
            kiln_target target = parsed(arena, text.data),
                        again = parsed(arena, printed(arena, &target));
            assert_same(&target, &again);
            assert_true(target.vector_bytes >= 4 && target.l1_bytes > 0 && target.line_bytes > 0);
            kiln_strbuf_deinit(&text);
        }
}

static void suffixes_of_a_name_change_its_expansion(void **state) {
    kiln_target target = parsed(*state, "rpi4,threads=4,cores=2");
    assert_string_equal(printed(*state, &target),
                        "cpu:aarch64-unknown-linux-gnu,mcpu=cortex-a72,cores=2,threads=4");
    assert_false(target.emulated);
    target = parsed(*state, "rpi4,emulated,threads=2");
    assert_true(target.emulated);
    assert_string_equal(printed(*state, &target),
                        "cpu:aarch64-unknown-linux-gnu,mcpu=cortex-a72,cores=4,threads=2,emulated");
    target = parsed(*state, "x86-64-v3,mcpu=x86-64-v4");
    assert_int_equal(target.vector_bytes, 64);
    assert_int_equal(target.vector_registers, 32);
    target = parsed(*state, "x86-64,features=+avx512f");
    assert_int_equal(target.vector_bytes, 64);
    target = parsed(*state, "x86-64-v2");
    assert_int_equal(target.vector_bytes, 16);
    assert_false(target.has_fma);
}

static void malformed_targets_are_refused_with_the_known_words(void **state) {
    static const struct {
        const char *text, *complaint;
    } row[] = {
        {"", "known names: native"},
        {"nativ", "unknown target 'nativ'; known names: native"},
        {"cpu:", "unknown processor"},
        {"cpu:sparc-sun-solaris", "unknown processor in triple"},
        {"cpu:x86_64-unknown-linux-gnu,mcpu=pentium", "known here: x86-64 "},
        {"cpu:x86_64-unknown-linux-gnu,mcpu=", "unknown mcpu"},
        {"rpi4,mcpu=x86-64", "known here: generic cortex-a53"},
        {"native,features=avx2", "unknown feature"},
        {"native,features=+", "unknown feature"},
        {"native,features=+avx9", "unknown feature 'avx9'"},
        {"native,features=+neon", "unknown feature 'neon'"},
        {"native,threads=0", "threads=0 is not a number from 1"},
        {"native,threads=-1", "threads=-1"},
        {"native,threads=4097", "threads=4097"},
        {"native,threads=two", "threads=two"},
        {"native,threads=2,threads=2", "threads is given twice"},
        {"native,speed=9", "known: mcpu= features= cores= threads= emulated"},
        {"native,emulated=1", "unknown part 'emulated=1'"},
        {"native,emulated,emulated", "emulated is given twice"},
        {"native,,threads=2", "unknown part ''"},
        {"cuda:90", "is not a CUDA architecture"},
        {"cuda", "is not a CUDA architecture"},
        {"cuda:sm_90,threads=2", "unknown part 'threads=2'; known: mcpu="},
        {"vta:pynq,threads=2", "unknown part"},
        {"vta:", "vta wants a configuration"},
        {"opencl:a b", "has a character"},
        {"cpu:x86_64-unknown-linux-gnu\n", "has a character"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_target target;
        expect_error_at(kiln_target_parse(kiln_str_from(row[i].text), *state, &target),
                        KILN_INVALID_ARGUMENT, row[i].complaint, row[i].text, (int)i);
    }
    static char large[1000];
    memset(large, 'a', sizeof large);
    kiln_target target;
    expect_error(kiln_target_parse((kiln_str){large, sizeof large}, *state, &target),
                 INVALID_ARGUMENT, "1000 characters");
}

static void random_text_never_crashes_the_parser(void **state) {
    static const char *const word[] = {
        "native", "cpu:", "x86_64-",  "rpi4",    ",",    "=",     "mcpu",  "features", "+",
        "-",      "avx2", "amx-tile", "threads", "2",    "cuda:", "sm_90", "\xff",     "x86-64-v3",
        "cores",  ":",    "emulated", "opencl",  "h200", "group", "a"};
    kiln_rand r;
    kiln_rand_init(&r, 13);
    for (int round = 0; round < 20000; round++) {
        kiln_arena_reset(*state);
        kiln_strbuf text = {0};
        for (uint64_t n = kiln_rand_below(&r, 10); n > 0; n--)
            kiln_strbuf_text(&text, word[kiln_rand_below(&r, KILN_ARRAY_COUNT(word))]);
        kiln_target target, again;
        kiln_status st = kiln_target_parse(kiln_strbuf_view(&text), *state, &target);
        if (!st) {
            again = parsed(*state, printed(*state, &target));
            assert_same(&target, &again);
        }
        kiln_status_free(st);
        kiln_strbuf_deinit(&text);
    }
}

static void code_runs_where_its_features_are(void **state) {
    static const struct {
        const char *wanted, *device, *reason;
    } row[] = {
        {"native", "native", NULL},
        {"x86-64", "x86-64-v4", NULL},
        {"x86-64-v3", "sapphirerapids", NULL},
        {"x86-64-v3,threads=2", "x86-64-v3", NULL},
        {"x86-64-v4", "x86-64-v3", "lacks avx512f"},
        {"x86-64-v3,features=-fma", "x86-64-v2,features=+avx+avx2+bmi+bmi2+f16c+lzcnt+movbe", NULL},
        {"x86-64-v3,features=+avx512vnni", "x86-64-v3", "lacks avx512vnni"},
        {"rpi5", "rpi4", "lacks lse"},
        {"rpi4", "rpi5", NULL},
        {"rpi4,emulated", "rpi5", NULL}, /* code knows no emulator */
        {"rpi4", "rpi5,emulated", NULL},
        {"rpi4", "android-arm64,features=+crc", NULL},
        {"rpi4", "native", "not aarch64"},
        {"h200", "native", "not cuda code"},
        {"h100", "h200", NULL},
        {"h100", "a100", "sm_80, not sm_90"},
    };
    kiln_arena *arena = *state;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_target wanted = parsed(arena, row[i].wanted), device = parsed(arena, row[i].device);
        if (device.arch == KILN_ARCH_AARCH64 && kiln_str_is(kiln_str_from(row[i].device), "native"))
            continue;
        kiln_strbuf reason = {0};
        assert_int_equal(kiln_target_runs_on(&wanted, &device, &reason), row[i].reason == NULL);
        if (row[i].reason)
            expect_contains(reason.data, row[i].reason);
        else
            assert_int_equal(reason.size, 0);
        kiln_strbuf_deinit(&reason);
    }
}

static void files_hold_texts_with_their_head_or_without(void **state) {
    static const char *const content[] = {"pynq,v2", " pynq,v2\n", "vta:pynq,v2\n",
                                          "\tvta:pynq,v2 "};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(content); i++)
        assert_string_equal(
            kiln_target_text_with_head(kiln_str_from(content[i]), "vta", *state).data,
            "vta:pynq,v2");
    assert_string_equal(kiln_target_text_with_head(KILN_STR("null:8"), "vta", *state).data,
                        "vta:null:8");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(every_name_expands_and_round_trips),
        test_with_arena(every_processor_and_feature_round_trips),
        test_with_arena(suffixes_of_a_name_change_its_expansion),
        test_with_arena(malformed_targets_are_refused_with_the_known_words),
        test_with_arena(random_text_never_crashes_the_parser),
        test_with_arena(files_hold_texts_with_their_head_or_without),
        test_with_arena(code_runs_where_its_features_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
