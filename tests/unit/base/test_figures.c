/* What was measured of a processor: bytes of other machines, and its place in targets. */
#include "base/figures.h"

#include <math.h>
#include <string.h>

#include "base/target.h"
#include "tests/support/test.h"

static kiln_figures some(void) {
    kiln_figures c = {0};
    c.figure[KILN_FIGURE_VECTOR] = 2;
    c.figure[KILN_FIGURE_L1_BYTES] = 48 << 10;
    c.figure[KILN_FIGURE_L2_BYTES] = 1 << 20;
    c.figure[KILN_FIGURE_FORK] = 512.5;
    return c;
}

static kiln_target target_of(kiln_arena *arena, const char *text) {
    kiln_target target;
    expect_ok(kiln_target_parse(kiln_str_from(text), arena, &target));
    return target;
}

static void numbers_and_names_stand_once(void **state) {
    (void)state;
    for (uint32_t i = 0; i < KILN_FIGURE_COUNT; i++) {
        const kiln_figure_info *a = kiln_figure_info_of((kiln_figure)i);
        assert_true(a->least > 0 && a->least < a->most && *a->unit && *a->doc);
        for (uint32_t k = 0; k < i; k++) {
            const kiln_figure_info *b = kiln_figure_info_of((kiln_figure)k);
            assert_true(b->number < a->number); /* bytes are written in their order */
            assert_string_not_equal(a->name, b->name);
        }
    }
}

static void rates_are_of_the_clock_that_they_were_measured_in(void **state) {
    (void)state;
    kiln_figures c = some();
    assert_true(kiln_figures_bytes_per_second(&c, KILN_FIGURE_MEMORY_RATE) == 0);
    c.figure[KILN_FIGURE_MEMORY_RATE] = 3;
    assert_true(kiln_figures_bytes_per_second(&c, KILN_FIGURE_MEMORY_RATE) == 0); /* no clock */
    c.figure[KILN_FIGURE_CLOCK] = 4e9;
    assert_true(kiln_figures_bytes_per_second(&c, KILN_FIGURE_MEMORY_RATE) == 12e9);
    c.figure[KILN_FIGURE_WIDE_CLOCK] = 3e9; /* of vectors, which rates are measured with */
    assert_true(kiln_figures_bytes_per_second(&c, KILN_FIGURE_MEMORY_RATE) == 9e9);
}

static void processors_have_one_text_however_many_cores_are_offered(void **state) {
    (void)state;
    kiln_arena arena;
    kiln_strbuf one = {0}, two = {0}, other = {0};
    kiln_arena_init(&arena, 0);
    const kiln_target a = target_of(&arena, "cpu:x86_64-unknown-linux-gnu,cores=2,threads=2"),
                      b = target_of(&arena, "cpu:x86_64-unknown-linux-gnu"),
                      c = target_of(&arena, "cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v3");
    kiln_target_print_processor(&a, &one);
    kiln_target_print_processor(&b, &two);
    kiln_target_print_processor(&c, &other);
    assert_string_equal(one.data, two.data);
    assert_string_not_equal(one.data, other.data);
    kiln_strbuf_deinit(&one);
    kiln_strbuf_deinit(&two);
    kiln_strbuf_deinit(&other);
    kiln_arena_deinit(&arena);
}

static void bytes_bring_back_the_figures(void **state) {
    (void)state;
    kiln_strbuf bytes = {0};
    kiln_figures all = {0}, read = {0};
    const kiln_figures empty = {0}, few = some();
    for (uint32_t i = 0; i < KILN_FIGURE_COUNT; i++)
        all.figure[i] = kiln_figure_info_of((kiln_figure)i)->most;
    all.figure[KILN_FIGURE_L1_BYTES] = 4096;
    kiln_figures_encode(&all, &bytes);
    assert_true(bytes.size <= KILN_FIGURES_BYTES_MAX);
    expect_ok(kiln_figures_decode(kiln_strbuf_view(&bytes), &read));
    assert_true(kiln_figures_equal(&read, &all));
    kiln_strbuf_reset(&bytes);
    kiln_figures_encode(&few, &bytes);
    expect_ok(kiln_figures_decode(kiln_strbuf_view(&bytes), &read));
    assert_true(kiln_figures_equal(&read, &few) && !kiln_figures_is_empty(&read));
    kiln_strbuf_reset(&bytes);
    kiln_figures_encode(&empty, &bytes);
    assert_int_equal(bytes.size, 0);
    expect_ok(kiln_figures_decode((kiln_str){0}, &read));
    assert_true(kiln_figures_is_empty(&read));
    kiln_strbuf_deinit(&bytes);
}

/* A map of one figure. */
static void expect_refused(uint32_t number, double value) {
    kiln_strbuf bytes = {0};
    kiln_figures read = some(), before = some();
    kiln_mpack_write_map(&bytes, 1);
    kiln_mpack_write_u64(&bytes, number);
    kiln_mpack_write_f64(&bytes, value);
    expect_error(kiln_figures_decode(kiln_strbuf_view(&bytes), &read), DATA_LOSS, "no processor");
    assert_true(kiln_figures_equal(&read, &before)); /* written only on success */
    kiln_strbuf_deinit(&bytes);
}

static void figures_out_of_bounds_are_refused(void **state) {
    (void)state;
    for (uint32_t i = 0; i < KILN_FIGURE_COUNT; i++) {
        const kiln_figure_info *info = kiln_figure_info_of((kiln_figure)i);
        expect_refused(info->number, info->most * 1.001);
        expect_refused(info->number, info->least * 0.999);
        expect_refused(info->number, -info->least);
        expect_refused(info->number, (double)NAN);
        expect_refused(info->number, (double)INFINITY);
    }
}

static void a_cache_is_no_larger_than_the_next(void **state) {
    (void)state;
    kiln_figures c = some();
    assert_true(kiln_figures_is_plausible(&c));
    c.figure[KILN_FIGURE_L1_BYTES] = 512 << 10;
    c.figure[KILN_FIGURE_L2_BYTES] = 256 << 10;
    assert_false(kiln_figures_is_plausible(&c));
    c.figure[KILN_FIGURE_L2_BYTES] = 0; /* not known */
    assert_true(kiln_figures_is_plausible(&c));
}

static void hostile_bytes_are_refused(void **state) {
    (void)state;
    kiln_strbuf bytes = {0};
    kiln_figures read;
    const kiln_figures c = some();
    kiln_figures_encode(&c, &bytes);
    for (size_t size = 1; size < bytes.size; size++)
        expect_error(kiln_figures_decode(kiln_str_slice(kiln_strbuf_view(&bytes), 0, size), &read),
                     DATA_LOSS, "");
    kiln_strbuf_char(&bytes, 0);
    expect_error(kiln_figures_decode(kiln_strbuf_view(&bytes), &read), DATA_LOSS, "behind");
    kiln_strbuf_reset(&bytes);
    kiln_mpack_write_map(&bytes, 2); /* the same figure twice */
    for (int i = 0; i < 2; i++) {
        kiln_mpack_write_u64(&bytes, 3);
        kiln_mpack_write_f64(&bytes, 2);
    }
    expect_error(kiln_figures_decode(kiln_strbuf_view(&bytes), &read), DATA_LOSS, "behind");
    kiln_strbuf_reset(&bytes);
    kiln_mpack_write_map(&bytes, 100); /* more than any version has */
    for (uint32_t i = 1; i <= 100; i++) {
        kiln_mpack_write_u64(&bytes, 100 + i);
        kiln_mpack_write_u64(&bytes, 1);
    }
    expect_error(kiln_figures_decode(kiln_strbuf_view(&bytes), &read), DATA_LOSS, "figures");
    kiln_strbuf_reset(&bytes);
    for (uint32_t i = 0; i <= KILN_FIGURES_BYTES_MAX; i++) kiln_strbuf_char(&bytes, 1);
    expect_error(kiln_figures_decode(kiln_strbuf_view(&bytes), &read), DATA_LOSS, "at most");
    kiln_strbuf_deinit(&bytes);
}

static void figures_of_later_versions_are_skipped(void **state) {
    (void)state;
    kiln_strbuf bytes = {0};
    kiln_figures read;
    kiln_mpack_write_map(&bytes, 2);
    kiln_mpack_write_u64(&bytes, 3);
    kiln_mpack_write_f64(&bytes, 2);
    kiln_mpack_write_u64(&bytes, 4000);
    kiln_mpack_write_str(&bytes, KILN_STR("of a later version"));
    expect_ok(kiln_figures_decode(kiln_strbuf_view(&bytes), &read));
    assert_true(read.figure[KILN_FIGURE_VECTOR] == 2 && read.figure[KILN_FIGURE_LATENCY] == 0);
    kiln_strbuf_deinit(&bytes);
}

static void measured_figures_take_the_place_of_the_tables(void **state) {
    kiln_target target = target_of(*state, "x86-64-v3"), table = target;
    const kiln_figures c = some(), empty = {0};
    kiln_target_calibrate(&target, &c);
    assert_true(target.core.vector == 2 && target.l1_bytes == 48 << 10 &&
                target.l2_bytes == 1 << 20 && target.core.fork == 512.5);
    assert_true(target.l3_bytes == table.l3_bytes && target.core.latency == table.core.latency);
    assert_true(kiln_figures_equal(&target.calibration, &c));
    assert_true(kiln_target_figure(&target, KILN_FIGURE_FORK) == 512.5 &&
                kiln_target_figure(&target, KILN_FIGURE_CLOCK) == 0);
    kiln_target_calibrate(&target, &empty);
    assert_int_equal(target.l1_bytes, table.l1_bytes);
    assert_true(target.core.fork == table.core.fork && kiln_figures_is_empty(&target.calibration));
}

static void texts_of_targets_do_not_tell_of_it(void **state) {
    kiln_target target = target_of(*state, "x86-64-v3"), again;
    const kiln_figures c = some();
    kiln_strbuf before = {0}, after = {0};
    kiln_target_print(&target, &before);
    kiln_target_calibrate(&target, &c);
    kiln_target_print(&target, &after);
    assert_string_equal(before.data, after.data);
    expect_ok(kiln_target_parse(kiln_strbuf_view(&after), *state, &again));
    assert_true(kiln_figures_is_empty(&again.calibration));
    kiln_strbuf_deinit(&before);
    kiln_strbuf_deinit(&after);
}

static void known_figures_are_printed(void **state) {
    (void)state;
    const kiln_figures c = some();
    kiln_strbuf text = {0};
    kiln_figures_print(&c, &text);
    expect_str(kiln_strbuf_view(&text), "multiply-adds 2 vectors/cycle\nfirst cache 49152 bytes\n"
                                        "second cache 1048576 bytes\nfork and join 512.5 cycles\n");
    kiln_strbuf_deinit(&text);
}

/* Rows of the table are what machines can have, so that one takes the other's place. */
static void rows_are_within_the_bounds(void **state) {
    static const char *const name[] = {
#define CPU_X86_64(name) "cpu:x86_64-unknown-linux-gnu,mcpu=" name,
#define CPU_AARCH64(name) "cpu:aarch64-unknown-linux-gnu,mcpu=" name,
#define CPU_ARM(name) "cpu:armv7-unknown-linux-gnueabihf,mcpu=" name,
#define CPU_THUMB(name) "cpu:thumbv7em-none-eabihf,mcpu=" name,
#define CPU_RISCV64(name) "cpu:riscv64-unknown-linux-gnu,mcpu=" name,
#define CPU_WASM32(name) "cpu:wasm32-unknown-unknown,mcpu=" name,
#define X(arch, name, ...) CPU_##arch(name)
#include "base/cpus.def"
#undef X
    };
    for (size_t i = 0; i < sizeof name / sizeof name[0]; i++) {
        const kiln_target target = target_of(*state, name[i]);
        for (uint32_t f = 0; f < KILN_FIGURE_COUNT; f++) {
            const kiln_figure_info *info = kiln_figure_info_of((kiln_figure)f);
            const double value = kiln_target_figure(&target, (kiln_figure)f);
            const bool absent = value == 0 && (f == KILN_FIGURE_L3_BYTES || info->unit[0] == 'H');
            if (value == 0 && f >= KILN_FIGURE_L1_RATE && f <= KILN_FIGURE_MEMORY_LATENCY) continue;
            if (!absent && !(value >= info->least && value <= info->most))
                fail_msg("%s: %s is %g", name[i], info->name, value);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_and_names_stand_once),
        cmocka_unit_test(rates_are_of_the_clock_that_they_were_measured_in),
        cmocka_unit_test(processors_have_one_text_however_many_cores_are_offered),
        cmocka_unit_test(bytes_bring_back_the_figures),
        cmocka_unit_test(figures_out_of_bounds_are_refused),
        cmocka_unit_test(a_cache_is_no_larger_than_the_next),
        cmocka_unit_test(hostile_bytes_are_refused),
        cmocka_unit_test(figures_of_later_versions_are_skipped),
        test_with_arena(measured_figures_take_the_place_of_the_tables),
        test_with_arena(texts_of_targets_do_not_tell_of_it),
        cmocka_unit_test(known_figures_are_printed),
        test_with_arena(rows_are_within_the_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
