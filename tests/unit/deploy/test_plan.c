/* The rules of a module's plan: each row breaks one of them in a good plan. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/alloc.h"
#include "deploy/format.h"
#include "tests/unit/deploy/fixture.h"

static kiln_arena arena;

static void good_plan_is_accepted(void **state) {
    (void)state;
    kiln_module_plan plan = fixture_plan(&arena, "kernel_static.o");
    kiln_status st = kiln_module_plan_check(&plan);
    if (st) fail_msg("%s", kiln_status_text(st));
}

static uint32_t *args_of(kiln_module_plan *p, uint32_t step) {
    return (uint32_t *)(uintptr_t)p->step[step].arg;
}

static void too_many_metadata(kiln_module_plan *p) {
    p->metadata_count = KILN_MODULE_METADATA_MAX + 1;
}
static void metadata_twice(kiln_module_plan *p) { p->metadata[1].key = p->metadata[0].key; }
static void name_with_nul(kiln_module_plan *p) { p->input[0].name = (kiln_str){"a\0b", 3}; }
static void name_too_long(kiln_module_plan *p) {
    p->step[0].name = (kiln_str){kiln_arena_alloc(&arena, 600), 600};
}
static void no_thread(kiln_module_plan *p) { p->threads = 0; }
static void too_many_threads(kiln_module_plan *p) { p->threads = 5000; }
static void huge_arena(kiln_module_plan *p) { p->arena_bytes = KILN_MODULE_ARENA_BYTES_MAX + 64; }
static void small_arena(kiln_module_plan *p) { p->arena_bytes -= 64; }
static void offset_wraps(kiln_module_plan *p) { p->buffer[FIXTURE_A1].offset = UINT64_MAX - 63; }
static void offset_unaligned(kiln_module_plan *p) { p->buffer[FIXTURE_A0].offset = 32; }
static void size_huge(kiln_module_plan *p) { p->buffer[FIXTURE_A0].size_bytes = UINT64_MAX; }
static void constant_without_bytes(kiln_module_plan *p) { p->buffer[FIXTURE_W0].data = NULL; }
static void storage_unknown(kiln_module_plan *p) {
    p->buffer[FIXTURE_A0].storage = (kiln_module_storage)9;
}
static void alias_of_alias(kiln_module_plan *p) {
    p->buffer[FIXTURE_A1_ALIAS].source = FIXTURE_A1_ALIAS;
}
static void alias_of_nothing(kiln_module_plan *p) { p->buffer[FIXTURE_A1_ALIAS].source = 99; }
static void alias_beyond_its_source(kiln_module_plan *p) {
    p->buffer[FIXTURE_A1_ALIAS].offset = 64;
}
static void alias_unaligned(kiln_module_plan *p) {
    p->buffer[FIXTURE_A1_ALIAS].offset = 4;
    p->buffer[FIXTURE_A1_ALIAS].size_bytes = 64;
}
static void port_without_buffer(kiln_module_plan *p) { p->input[0].buffer = 99; }
static void port_in_the_arena(kiln_module_plan *p) { p->input[0].buffer = FIXTURE_A0; }
static void port_of_other_size(kiln_module_plan *p) { p->input[0].shape.dim[0] = 11; }
static void port_shared(kiln_module_plan *p) { p->output[1].buffer = FIXTURE_OUT0; }
static void input_without_port(kiln_module_plan *p) { p->input_count = 0; }
static void kernel_missing(kiln_module_plan *p) { p->step[0].kernel = 1; }
static void action_unknown(kiln_module_plan *p) { p->step[0].action = (kiln_plan_action)7; }
static void argument_missing(kiln_module_plan *p) { p->step[0].arg_count = 2; }
static void argument_out_of_range(kiln_module_plan *p) { args_of(p, 0)[0] = 99; }
static void output_count_wrong(kiln_module_plan *p) { p->step[0].output_count = 2; }
static void output_count_too_large(kiln_module_plan *p) { p->step[0].output_count = 4; }
static void constant_from_the_arena(kiln_module_plan *p) { args_of(p, 1)[1] = FIXTURE_A0; }
static void constant_written(kiln_module_plan *p) { args_of(p, 1)[2] = FIXTURE_W0; }
static void input_written(kiln_module_plan *p) { args_of(p, 1)[2] = FIXTURE_X; }
static void read_before_written(kiln_module_plan *p) { args_of(p, 0)[0] = FIXTURE_A1; }
static void written_twice(kiln_module_plan *p) { args_of(p, 1)[2] = FIXTURE_A0; }
static void output_unwritten(kiln_module_plan *p) { p->step_count--; }
static void in_place(kiln_module_plan *p) {
    p->buffer[FIXTURE_A1].offset = p->buffer[FIXTURE_A0].offset;
}
static void overlapping(kiln_module_plan *p) {
    in_place(p);
    args_of(p, 4)[0] = FIXTURE_A0;
}
static void overlapping_partly(kiln_module_plan *p) { p->buffer[FIXTURE_A1].offset -= 64; }
static void alias_of_another_buffer(kiln_module_plan *p) { args_of(p, 2)[0] = FIXTURE_A0; }
static void copy_onto_itself(kiln_module_plan *p) { args_of(p, 4)[1] = FIXTURE_A1; }
static void copy_of_other_size(kiln_module_plan *p) { p->buffer[FIXTURE_A1_ALIAS].size_bytes = 64; }
static void kernel_damaged(kiln_module_plan *p) { p->kernel[0].size /= 2; }

static void broken_rule_is_named(void **state) {
    (void)state;
    static const struct {
        void (*apply)(kiln_module_plan *plan);
        const char *text;
    } row[] = {
        {too_many_metadata, "metadata entries"},
        {metadata_twice, "comes twice"},
        {name_with_nul, "NUL"},
        {name_too_long, "600 bytes"},
        {no_thread, "no thread"},
        {too_many_threads, "5000 threads"},
        {huge_arena, "arena of"},
        {small_arena, "buffer 4"},
        {offset_wraps, "buffer 4"},
        {offset_unaligned, "buffer 3"},
        {size_huge, "buffer 3"},
        {constant_without_bytes, "buffer 1"},
        {storage_unknown, "buffer 3"},
        {alias_of_alias, "buffer 5"},
        {alias_of_nothing, "buffer 5"},
        {alias_beyond_its_source, "buffer 5"},
        {alias_unaligned, "buffer 5"},
        {copy_of_other_size, "argument x"},
        {port_without_buffer, "port 0 has no"},
        {port_in_the_arena, "disagree"},
        {port_of_other_size, "disagree"},
        {port_shared, "outputs: port 1"},
        {input_without_port, "buffer 0"},
        {kernel_missing, "kernel 1 of 1"},
        {action_unknown, "action 7"},
        {argument_missing, "more arguments"},
        {argument_out_of_range, "buffer 99 of 9"},
        {output_count_wrong, "1 of them outputs"},
        {output_count_too_large, "step 0: 3 arg"},
        {constant_from_the_arena, "argument w"},
        {constant_written, "at all"},
        {input_written, "at all"},
        {read_before_written, "read before"},
        {written_twice, "twice"},
        {output_unwritten, "output 1"},
        {overlapping, "overwrites buffer 3"},
        {overlapping_partly, "overwrites"},
        {alias_of_another_buffer, "aliases"},
        {copy_onto_itself, "twice"},
        {kernel_damaged, "kernel 0"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        kiln_module_plan plan = fixture_plan(&arena, "kernel_static.o");
        row[i].apply(&plan);
        kiln_status st = kiln_module_plan_check(&plan);
        if (!strstr(kiln_status_text(st), row[i].text))
            fail_msg("row %zu: '%s' does not say '%s'", i, kiln_status_text(st), row[i].text);
        assert_non_null(st);
        kiln_status_free(st);
    }
}

static void result_takes_the_place_of_an_input_read_for_the_last_time(void **state) {
    (void)state;
    kiln_module_plan plan = fixture_plan(&arena, "kernel_static.o");
    in_place(&plan);
    assert_null(kiln_module_plan_check(&plan));
}

static void memory_is_used_again_after_the_last_reader(void **state) {
    (void)state;
    kiln_module_plan plan = fixture_plan(&arena, "kernel_static.o");
    /* The third kernel's result goes through the arena, to where the first one's was. */
    kiln_plan_buffer *buffer = KILN_ARENA_ARRAY(&arena, kiln_plan_buffer, FIXTURE_BUFFER_COUNT + 1);
    memcpy(buffer, plan.buffer, FIXTURE_BUFFER_COUNT * sizeof *buffer);
    buffer[FIXTURE_BUFFER_COUNT] = buffer[FIXTURE_A0];
    kiln_plan_step *step = KILN_ARENA_ARRAY(&arena, kiln_plan_step, FIXTURE_STEP_COUNT + 1);
    memcpy(step, plan.step, FIXTURE_STEP_COUNT * sizeof *step);
    args_of(&plan, 3)[2] = FIXTURE_BUFFER_COUNT;
    static const uint32_t copied[2] = {FIXTURE_BUFFER_COUNT, FIXTURE_OUT0};
    step[FIXTURE_STEP_COUNT] = (kiln_plan_step){
        .action = KILN_ACTION_COPY, .arg_count = 2, .output_count = 1, .arg = copied};
    plan.buffer = buffer;
    plan.step = step;
    plan.buffer_count++;
    plan.step_count++;
    assert_null(kiln_module_plan_check(&plan));
}

/* The fixture with its first two results side by side in one buffer. */
enum { WHOLE = FIXTURE_BUFFER_COUNT, FIRST_PART, SECOND_PART, PARTS_BUFFER_COUNT };

static kiln_module_plan plan_in_parts(void) {
    const uint64_t slot = 4032; /* FIXTURE_BYTES rounded up to 64 */
    kiln_module_plan plan = fixture_plan(&arena, "kernel_static.o");
    kiln_plan_buffer *buffer = KILN_ARENA_ARRAY(&arena, kiln_plan_buffer, PARTS_BUFFER_COUNT);
    memcpy(buffer, plan.buffer, FIXTURE_BUFFER_COUNT * sizeof *buffer);
    buffer[WHOLE] =
        (kiln_plan_buffer){.storage = KILN_STORAGE_ARENA, .size_bytes = slot + FIXTURE_BYTES};
    buffer[FIRST_PART] = (kiln_plan_buffer){
        .storage = KILN_STORAGE_ALIAS, .size_bytes = FIXTURE_BYTES, .source = WHOLE};
    buffer[SECOND_PART] = buffer[FIRST_PART];
    buffer[SECOND_PART].offset = slot;
    static uint32_t joined[2];
    memcpy(joined, (uint32_t[]){FIRST_PART, SECOND_PART}, sizeof joined);
    args_of(&plan, 0)[2] = args_of(&plan, 1)[0] = FIRST_PART;
    args_of(&plan, 1)[2] = args_of(&plan, 3)[0] = SECOND_PART;
    args_of(&plan, 4)[0] = FIRST_PART;
    plan.step[2].arg = joined;
    plan.buffer = buffer;
    plan.buffer_count = PARTS_BUFFER_COUNT;
    return plan;
}

static void a_buffer_may_be_written_in_parts(void **state) {
    (void)state;
    kiln_module_plan plan = plan_in_parts();
    kiln_status st = kiln_module_plan_check(&plan);
    if (st) fail_msg("%s", kiln_status_text(st));
}

static void parts_overlap(kiln_module_plan *p) { p->buffer[SECOND_PART].offset -= 64; }
static void a_gap_is_read(
    kiln_module_plan *p) { /* the bytes between the parts, then the first part alone */
    p->buffer[FIXTURE_A1_ALIAS] = (kiln_plan_buffer){
        .storage = KILN_STORAGE_ALIAS, .size_bytes = FIXTURE_BYTES, .source = WHOLE, .offset = 64};
    args_of(p, 1)[0] = FIXTURE_A1_ALIAS;
}
static void whole_written_after_a_part(kiln_module_plan *p) {
    p->buffer[WHOLE].size_bytes = FIXTURE_BYTES;
    p->buffer[SECOND_PART].offset = 0;
    args_of(p, 1)[2] = WHOLE;
}
/* The first part's buffer lives on while others are written: nothing may lie in its second half
 * either. */
static void half_of_a_live_buffer_taken(kiln_module_plan *p) {
    p->buffer[FIXTURE_A1].offset = 4032;
    args_of(p, 1)[2] = FIXTURE_A1;
    args_of(p, 2)[1] = FIRST_PART;
    args_of(p, 3)[0] = FIXTURE_A1;
}
/* A kernel may write over its input, but not a part of a larger buffer. */
static void part_takes_over_an_input(kiln_module_plan *p) {
    p->buffer[FIXTURE_A0].offset = 0;
    args_of(p, 0)[2] = args_of(p, 1)[0] = FIXTURE_A0;
    args_of(p, 2)[0] = args_of(p, 4)[0] = SECOND_PART;
}
static void alias_of_two_buffers(kiln_module_plan *p) { args_of(p, 2)[1] = FIXTURE_X; }

static void broken_rules_of_parts_are_named(void **state) {
    (void)state;
    static const struct {
        void (*apply)(kiln_module_plan *plan);
        const char *text;
    } row[] = {
        {parts_overlap, "twice"},
        {a_gap_is_read, "read before"},
        {whole_written_after_a_part, "twice"},
        {half_of_a_live_buffer_taken, "overwrites"},
        {part_takes_over_an_input, "overwrites"},
        {alias_of_two_buffers, "aliases"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        kiln_module_plan plan = plan_in_parts();
        row[i].apply(&plan);
        kiln_status st = kiln_module_plan_check(&plan);
        assert_non_null(st);
        if (!strstr(kiln_status_text(st), row[i].text))
            fail_msg("row %zu: '%s' does not say '%s'", i, kiln_status_text(st), row[i].text);
        kiln_status_free(st);
    }
}

static void blocked_layout_is_refused_at_the_edge(void **state) {
    (void)state;
    kiln_module_plan plan = fixture_plan(&arena, "kernel_static.o");
    kiln_manifest manifest = fixture_manifest(&arena);
    /* 1000 = 125 * 8: the same size, so only the layout tells. */
    manifest.arg[0].shape = (kiln_shape){2, {125, 8}};
    assert_null(kiln_layout_parse(KILN_STR("d1,d0"), 2, &manifest.arg[0].layout));
    plan.kernel[0] = fixture_artefact(&arena, &manifest, "kernel_static.o");
    kiln_status st = kiln_module_plan_check(&plan);
    assert_int_equal(kiln_status_code(st), KILN_INVALID_ARGUMENT);
    assert_non_null(strstr(kiln_status_text(st), "argument x"));
    kiln_status_free(st);
}

static void root_of_an_alias_is_its_source(void **state) {
    (void)state;
    kiln_module_plan plan = fixture_plan(&arena, "kernel_static.o");
    assert_int_equal(kiln_module_plan_root(&plan, FIXTURE_A1_ALIAS), FIXTURE_A1);
    assert_int_equal(kiln_module_plan_root(&plan, FIXTURE_X), FIXTURE_X);
}

int main(int argc, char **argv) {
    fixture_init(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_plan_is_accepted),
        cmocka_unit_test(broken_rule_is_named),
        cmocka_unit_test(result_takes_the_place_of_an_input_read_for_the_last_time),
        cmocka_unit_test(memory_is_used_again_after_the_last_reader),
        cmocka_unit_test(a_buffer_may_be_written_in_parts),
        cmocka_unit_test(broken_rules_of_parts_are_named),
        cmocka_unit_test(blocked_layout_is_refused_at_the_edge),
        cmocka_unit_test(root_of_an_alias_is_its_source),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    kiln_arena_deinit(&arena);
    return failed;
}
