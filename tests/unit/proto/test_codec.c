#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/macros.h"
#include "base/mpack.h"
#include "base/opt.h"
#include "tests/support/test.h"
#include "tests/unit/proto/sample.h"

/* Runs `body` for every message of the table, with an arena of its own. */
static void for_each(void (*body)(kiln_message_type type, kiln_arena *arena)) {
    kiln_message_type type = 0;
    while ((type = kiln_message_next(type))) {
        kiln_arena arena = {0};
        body(type, &arena);
        kiln_arena_deinit(&arena);
    }
}

static void check_round_trip(kiln_message_type type, sample_size size, kiln_arena *arena) {
    kiln_message sent = sample_message(type, size, arena), got;
    kiln_strbuf bytes = {0}, again = {0}, text = {0}, text_again = {0};
    expect_ok(kiln_message_encode(&sent, &bytes));
    expect_ok(kiln_message_decode(type, sent.stream, kiln_strbuf_view(&bytes), arena, &got));
    assert_int_equal(got.type, type);
    assert_int_equal(got.stream, sent.stream);
    expect_ok(kiln_message_encode(&got, &again));
    assert_true(kiln_str_equal(kiln_strbuf_view(&bytes), kiln_strbuf_view(&again)));
    kiln_message_print(&sent, &text);
    kiln_message_print(&got, &text_again);
    assert_string_equal(text.data, text_again.data);
    kiln_strbuf_deinit(&bytes);
    kiln_strbuf_deinit(&again);
    kiln_strbuf_deinit(&text);
    kiln_strbuf_deinit(&text_again);
}

static void round_trips(kiln_message_type type, kiln_arena *arena) {
    check_round_trip(type, SAMPLE_EMPTY, arena);
    check_round_trip(type, SAMPLE_SMALL, arena);
}

static void every_message_round_trips(void **state) {
    (void)state;
    for_each(round_trips);
}

/* Pages of rows alone may hold more than a frame at their limits: their maker takes fewer rows. */
static void fits_at_its_limits(kiln_message_type type, kiln_arena *arena) {
    bool is_page = type == KILN_MSG_ANSWER || type == KILN_MSG_CHANGE || type == KILN_MSG_PROJECTS;
    if (!is_page) check_round_trip(type, SAMPLE_FULL, arena);
}

static void every_message_at_its_limits_fits_a_frame(void **state) {
    (void)state;
    for_each(fits_at_its_limits);
}

static void what_fits_no_frame_is_refused_by_its_maker(void **state) {
    kiln_message answer = sample_message(KILN_MSG_ANSWER, SAMPLE_FULL, *state);
    kiln_strbuf bytes = {0};
    expect_error(kiln_message_encode(&answer, &bytes), OUT_OF_RANGE, "larger than a frame");
    assert_int_equal(bytes.size, 0);
    expect_error(kiln_frame_write_message(&bytes, &answer), OUT_OF_RANGE, "larger than a frame");
    assert_int_equal(bytes.size, 0);
    kiln_strbuf_deinit(&bytes);
}

static void what_the_tracker_keeps_fits_at_its_limits(void **state) {
    kiln_msg_kept_job kept = {0}, got;
    kiln_strbuf bytes = {0};
    sample_fill(kiln_schema_of_record(KILN_RECORD_kept_job), &kept, SAMPLE_FULL, *state);
    expect_ok(kiln_record_encode(KILN_RECORD_kept_job, &kept, &bytes));
    expect_ok(kiln_record_decode(KILN_RECORD_kept_job, kiln_strbuf_view(&bytes), *state, &got));
    assert_int_equal(got.tasks.count, KILN_MESSAGES_TASKS);
    kiln_strbuf_deinit(&bytes);
}

static void no_prefix_decodes(kiln_message_type type, kiln_arena *arena) {
    kiln_message message = sample_message(type, SAMPLE_SMALL, arena), got;
    kiln_strbuf bytes = {0};
    expect_ok(kiln_message_encode(&message, &bytes));
    for (size_t size = 0; size < bytes.size; size++) {
        kiln_status st = kiln_message_decode(type, 0, (kiln_str){bytes.data, size}, arena, &got);
        expect_error(st, DATA_LOSS, kiln_message_name(type));
    }
    kiln_strbuf_deinit(&bytes);
}

static void every_truncation_is_an_error(void **state) {
    (void)state;
    for_each(no_prefix_decodes);
}

static void rejects_a_tail(kiln_message_type type, kiln_arena *arena) {
    kiln_message message = sample_message(type, SAMPLE_SMALL, arena), got;
    kiln_strbuf bytes = {0};
    expect_ok(kiln_message_encode(&message, &bytes));
    kiln_mpack_write_nil(&bytes);
    expect_error(kiln_message_decode(type, 0, kiln_strbuf_view(&bytes), arena, &got), DATA_LOSS,
                 "1 more bytes");
    kiln_strbuf_deinit(&bytes);
}

static void bytes_after_the_map_are_an_error(void **state) {
    (void)state;
    for_each(rejects_a_tail);
}

/* Body of a message with `extra` put in as one more entry at the end of the map. */
static void encode_with(kiln_message_type type, kiln_arena *arena, kiln_str extra,
                        kiln_strbuf *out) {
    kiln_message message = sample_message(type, SAMPLE_SMALL, arena);
    kiln_strbuf body = {0};
    kiln_mpack_reader r;
    uint32_t count = 0;
    expect_ok(kiln_message_encode(&message, &body));
    kiln_mpack_reader_init(&r, body.data, body.size);
    expect_ok(kiln_mpack_read_map(&r, &count));
    kiln_mpack_write_map(out, count + 1);
    kiln_strbuf_append(out, body.data + r.offset, body.size - r.offset);
    kiln_strbuf_str(out, extra);
    kiln_strbuf_deinit(&body);
}

static void skips_an_unknown_key(kiln_message_type type, kiln_arena *arena) {
    kiln_strbuf extra = {0}, body = {0}, text = {0}, plain = {0};
    kiln_message message = sample_message(type, SAMPLE_SMALL, arena), got;
    kiln_mpack_write_u64(&extra, 5000);
    kiln_mpack_write_array(&extra, 2); /* a value of a kind that nobody knows */
    kiln_mpack_write_map(&extra, 1);
    kiln_mpack_write_str(&extra, KILN_STR("new"));
    kiln_mpack_write_f64(&extra, 1.5);
    kiln_mpack_write_nil(&extra);
    encode_with(type, arena, kiln_strbuf_view(&extra), &body);
    expect_ok(kiln_message_decode(type, 7, kiln_strbuf_view(&body), arena, &got));
    kiln_message_print(&message, &plain);
    kiln_message_print(&got, &text);
    assert_string_equal(text.data, plain.data);
    kiln_strbuf_deinit(&extra);
    kiln_strbuf_deinit(&body);
    kiln_strbuf_deinit(&text);
    kiln_strbuf_deinit(&plain);
}

static void fields_of_a_newer_version_are_skipped(void **state) {
    (void)state;
    for_each(skips_an_unknown_key);
}

static void rejects_a_key_twice(kiln_message_type type, kiln_arena *arena) {
    const kiln_field_info *field = &kiln_schema_of_message(type)->field[0];
    kiln_strbuf extra = {0}, body = {0};
    kiln_message got;
    kiln_mpack_write_u64(&extra, field->key);
    kiln_mpack_write_nil(&extra);
    encode_with(type, arena, kiln_strbuf_view(&extra), &body);
    expect_error(kiln_message_decode(type, 0, kiln_strbuf_view(&body), arena, &got), DATA_LOSS,
                 "comes twice");
    kiln_strbuf_deinit(&extra);
    kiln_strbuf_deinit(&body);
}

static void a_key_that_comes_twice_is_an_error(void **state) {
    (void)state;
    for_each(rejects_a_key_twice);
}

/* The body without entry `skipped`, which is the field's value. */
static void names_each_missing_field(kiln_message_type type, kiln_arena *arena) {
    const kiln_schema *schema = kiln_schema_of_message(type);
    for (uint32_t skipped = 0; skipped < schema->field_count; skipped++) {
        kiln_message message = sample_message(type, SAMPLE_SMALL, arena), got;
        kiln_strbuf body = {0}, cut = {0};
        kiln_mpack_reader r;
        uint32_t count = 0;
        expect_ok(kiln_message_encode(&message, &body));
        kiln_mpack_reader_init(&r, body.data, body.size);
        expect_ok(kiln_mpack_read_map(&r, &count));
        kiln_mpack_write_map(&cut, count - 1);
        for (uint32_t i = 0; i < count; i++) { /* fields are sent in the order of the table */
            size_t begin = r.offset;
            expect_ok(kiln_mpack_skip(&r));
            expect_ok(kiln_mpack_skip(&r));
            if (i != skipped) kiln_strbuf_append(&cut, body.data + begin, r.offset - begin);
        }
        kiln_status st = kiln_message_decode(type, 0, kiln_strbuf_view(&cut), arena, &got);
        if (schema->field[skipped].required)
            expect_error(st, DATA_LOSS, schema->field[skipped].name);
        else
            expect_ok(st);
        kiln_strbuf_deinit(&body);
        kiln_strbuf_deinit(&cut);
    }
}

static void a_missing_required_field_is_named_and_an_optional_one_is_not_missed(void **state) {
    (void)state;
    for_each(names_each_missing_field);
}

/* Makes one field larger than its limit. False when the kind has none. */
static bool exceed(const kiln_field_info *field, void *owner, kiln_arena *arena) {
    void *at = (char *)owner + field->offset;
    size_t over = (size_t)field->limit + 1;
    switch ((int)field->kind) {
    case KILN_FIELD_u32:
        if (field->limit >= UINT32_MAX) return false;
        *(uint32_t *)at = (uint32_t)over;
        return true;
    case KILN_FIELD_u64:
        if (field->limit == UINT64_MAX) return false;
        *(uint64_t *)at = over;
        return true;
    case KILN_FIELD_f64: *(double *)at = NAN; return true;
    case KILN_FIELD_text:
    case KILN_FIELD_bytes: {
        char *text = kiln_arena_alloc(arena, over);
        memset(text, 'y', over);
        *(kiln_str *)at = (kiln_str){text, over};
        return true;
    }
    case KILN_FIELD_u64s:
        *(kiln_u64s *)at = (kiln_u64s){KILN_ARENA_ARRAY(arena, uint64_t, over), (uint32_t)over};
        return true;
    case KILN_FIELD_list:
        *(kiln_any_list *)at = (kiln_any_list){
            kiln_arena_alloc(arena, over * kiln_schema_of_record(field->record)->size),
            (uint32_t)over};
        return true;
    default: return false;
    }
}

static void encoder_refuses_each_excess(kiln_message_type type, kiln_arena *arena) {
    const kiln_schema *schema = kiln_schema_of_message(type);
    for (uint32_t i = 0; i < schema->field_count; i++) {
        kiln_message message = sample_message(type, SAMPLE_SMALL, arena);
        if (!exceed(&schema->field[i], kiln_message_struct(&message), arena)) continue;
        kiln_strbuf body = {0};
        kiln_strbuf_text(&body, "kept");
        expect_error(kiln_message_encode(&message, &body), OUT_OF_RANGE, schema->field[i].name);
        assert_string_equal(body.data, "kept");
        kiln_strbuf_deinit(&body);
    }
}

static void the_encoder_refuses_what_is_over_a_limit_and_appends_nothing(void **state) {
    (void)state;
    for_each(encoder_refuses_each_excess);
}

/* A value over the limit as another program would write it; false when the kind has no such value.
 */
static bool write_excess(const kiln_field_info *field, kiln_arena *arena, kiln_strbuf *out) {
    size_t over = (size_t)field->limit + 1;
    switch ((int)field->kind) {
    case KILN_FIELD_u32: kiln_mpack_write_u64(out, field->limit + 1); return true;
    case KILN_FIELD_u64:
        if (field->limit < UINT64_MAX)
            kiln_mpack_write_u64(out, field->limit + 1);
        else
            kiln_mpack_write_i64(out, -1);
        return true;
    case KILN_FIELD_f64: kiln_mpack_write_f64(out, INFINITY); return true;
    case KILN_FIELD_text:
        kiln_mpack_write_str(out, (kiln_str){kiln_arena_alloc(arena, over), over});
        return true;
    case KILN_FIELD_bytes:
        kiln_mpack_write_bin(out, kiln_arena_alloc(arena, over), over);
        return true;
    case KILN_FIELD_digest: kiln_mpack_write_bin(out, kiln_arena_alloc(arena, 33), 33); return true;
    case KILN_FIELD_u64s:
    case KILN_FIELD_list:
        kiln_mpack_write_array(out, (uint32_t)over);
        for (size_t i = 0; i < over; i++) kiln_mpack_write_u64(out, 0);
        return true;
    default: return false;
    }
}

static void decoder_refuses_each(kiln_message_type type, kiln_arena *arena, bool wrong_kind) {
    const kiln_schema *schema = kiln_schema_of_message(type);
    for (uint32_t i = 0; i < schema->field_count; i++) {
        const kiln_field_info *field = &schema->field[i];
        kiln_strbuf body = {0};
        kiln_message got;
        kiln_mpack_write_map(&body, 1);
        kiln_mpack_write_u64(&body, field->key);
        bool made = true;
        if (wrong_kind)
            kiln_mpack_write_nil(&body);
        else
            made = write_excess(field, arena, &body);
        if (made)
            expect_error(kiln_message_decode(type, 0, kiln_strbuf_view(&body), arena, &got),
                         DATA_LOSS, field->name);
        kiln_strbuf_deinit(&body);
    }
}

static void decoder_refuses_each_excess(kiln_message_type type, kiln_arena *arena) {
    decoder_refuses_each(type, arena, false);
}

static void the_decoder_refuses_what_is_over_a_limit(void **state) {
    (void)state;
    for_each(decoder_refuses_each_excess);
}

static void decoder_refuses_each_wrong_kind(kiln_message_type type, kiln_arena *arena) {
    decoder_refuses_each(type, arena, true);
}

static void the_decoder_refuses_another_kind(void **state) {
    (void)state;
    for_each(decoder_refuses_each_wrong_kind);
}

static void a_text_with_a_nul_is_refused(void **state) {
    kiln_strbuf body = {0};
    kiln_message got;
    kiln_mpack_write_map(&body, 1);
    kiln_mpack_write_u64(&body, 1);
    kiln_mpack_write_str(&body, KILN_STR("a\0b"));
    expect_error(kiln_message_decode(KILN_MSG_GOAWAY, 0, kiln_strbuf_view(&body), *state, &got),
                 DATA_LOSS, "NUL");
    kiln_strbuf_deinit(&body);
}

static void an_unknown_type_is_unimplemented(void **state) {
    kiln_message got;
    expect_error(kiln_message_decode((kiln_message_type)99, 0, KILN_STR("\x80"), *state, &got),
                 UNIMPLEMENTED, "99");
}

static void copy_of_size(kiln_message_type type, sample_size size) {
    kiln_arena own = {0}, source = {0};
    kiln_strbuf before = {0}, after = {0};
    kiln_message message = sample_message(type, size, &source);
    kiln_message_print(&message, &before);
    kiln_message copy = kiln_message_copy(&message, &own);
    kiln_arena_deinit(&source); /* whatever the copy still shares is gone: sanitizers see it */
    kiln_message_print(&copy, &after);
    assert_string_equal(before.data, after.data);
    kiln_strbuf_deinit(&before);
    kiln_strbuf_deinit(&after);
    kiln_arena_deinit(&own);
}

static void copies_deeply(kiln_message_type type, kiln_arena *arena) {
    (void)arena;
    copy_of_size(type, SAMPLE_EMPTY);
    copy_of_size(type, SAMPLE_SMALL);
}

/* Only what comes from others is made printable, once. */
static void a_copy_keeps_every_byte_of_a_text(void **state) {
    const kiln_message message = kiln_message_error(KILN_ABORTED, 0, "\x1b[0m\x80");
    const kiln_message copy = kiln_message_copy(&message, *state);
    assert_true(kiln_str_is(copy.error.text, "\x1b[0m\x80"));
}

/* Error texts may have lines, as they are escaped where they are shown. */
static void short_texts_of_a_message_are_checked_wherever_they_are(void **state) {
    (void)state;
    kiln_msg_label label = {KILN_STR("room"), KILN_STR("a\nb")};
    kiln_message message = {.type = KILN_MSG_JOB_OPEN, .job_open = {.job = KILN_STR("j")}};
    expect_ok(kiln_message_check_lines(&message));
    message.job_open.spec.model_name = KILN_STR("\x1b[2J");
    expect_error(kiln_message_check_lines(&message), INVALID_ARGUMENT, "model_name \"\\x1b[2J\"");
    message.job_open.spec.model_name = KILN_STR("m");
    message.job_open.spec.labels.item = &label;
    message.job_open.spec.labels.count = 1;
    expect_error(kiln_message_check_lines(&message), INVALID_ARGUMENT, "JOB_OPEN");
    const kiln_message error = kiln_message_error(KILN_ABORTED, 0, "\x1b[0m\n");
    expect_ok(kiln_message_check_lines(&error));
}

static void statements_of_releases_have_lines(void **state) {
    (void)state;
    kiln_msg_release_statement statement = {KILN_STR("kiln release 1\nname kiln-board\n")};
    kiln_message message = {.type = KILN_MSG_UPGRADE_ORDER,
                            .upgrade_order = {.releases = {&statement, 1}}};
    expect_ok(kiln_message_check_lines(&message));
    message.upgrade_order.reason = KILN_STR("a\nb");
    expect_error(kiln_message_check_lines(&message), INVALID_ARGUMENT, "reason");
}

static void a_copy_shares_nothing(void **state) {
    (void)state;
    for_each(copies_deeply);
}

/* ---- Golden vectors: bytes that other versions of Kiln have sent. ---- */

static void print_vector(kiln_message_type type, kiln_arena *arena, kiln_strbuf *out) {
    kiln_message message = sample_message(type, SAMPLE_SMALL, arena);
    kiln_strbuf frame = {0};
    expect_ok(kiln_frame_write_message(&frame, &message));
    kiln_message_print(&message, out);
    for (size_t i = 0; i < frame.size; i++)
        kiln_strbuf_printf(out, "%s%02x", i % 48 ? "" : "\n  ", (uint8_t)frame.data[i]);
    kiln_strbuf_char(out, '\n');
    kiln_strbuf_deinit(&frame);
}

static void bytes_of_every_message_are_as_they_were(void **state) {
    static const char path[] = "tests/golden/messages.txt";
    kiln_strbuf vectors = {0};
    kiln_message_type type = 0;
    kiln_str golden = {0};
    while ((type = kiln_message_next(type))) print_vector(type, *state, &vectors);
    if (kiln_env("KILN_GOLDEN_UPDATE"))
        expect_ok(kiln_file_write(path, kiln_strbuf_view(&vectors), 0644));
    expect_ok(kiln_file_read(path, 1 << 20, *state, &golden));
    assert_true(kiln_str_equal(golden, kiln_strbuf_view(&vectors)));
    kiln_strbuf_deinit(&vectors);
}

/* Reads "  HEX" lines up to the next that does not begin so. */
static void read_hex(kiln_str *text, kiln_strbuf *out) {
    while (kiln_str_starts(*text, "  ")) {
        kiln_str line = kiln_str_trim(kiln_str_cut(text, '\n'));
        for (size_t i = 0; i + 1 < line.size; i += 2) {
            const char digits[] = {'0', 'x', line.data[i], line.data[i + 1]};
            uint64_t byte = 0;
            assert_true(kiln_str_to_u64((kiln_str){digits, sizeof digits}, &byte));
            kiln_strbuf_char(out, (char)byte);
        }
    }
}

/* messages-1.txt is messages.txt as version 1 wrote it; it is never written again. */
static void what_version_1_said_still_means_the_same(void **state) {
    kiln_str golden = {0};
    uint32_t count = 0;
    expect_ok(kiln_file_read("tests/golden/messages-1.txt", 1 << 20, *state, &golden));
    for (; golden.size; count++) {
        kiln_str line = kiln_str_cut(&golden, '\n');
        kiln_strbuf bytes = {0}, text = {0};
        read_hex(&golden, &bytes);
        kiln_str body =
            kiln_str_slice(kiln_strbuf_view(&bytes), KILN_FRAME_HEADER_BYTES, bytes.size);
        kiln_message message = {0};
        expect_ok(kiln_message_decode((kiln_message_type)(uint8_t)bytes.data[4], 7, body, *state,
                                      &message));
        kiln_message_print(&message, &text);
        assert_true(kiln_str_equal(kiln_strbuf_view(&text), line));
        kiln_strbuf_deinit(&bytes);
        kiln_strbuf_deinit(&text);
    }
    assert_int_equal(count, 31);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_message_round_trips),
        cmocka_unit_test(every_message_at_its_limits_fits_a_frame),
        test_with_arena(what_fits_no_frame_is_refused_by_its_maker),
        test_with_arena(what_the_tracker_keeps_fits_at_its_limits),
        cmocka_unit_test(every_truncation_is_an_error),
        cmocka_unit_test(bytes_after_the_map_are_an_error),
        cmocka_unit_test(fields_of_a_newer_version_are_skipped),
        cmocka_unit_test(a_key_that_comes_twice_is_an_error),
        cmocka_unit_test(a_missing_required_field_is_named_and_an_optional_one_is_not_missed),
        cmocka_unit_test(the_encoder_refuses_what_is_over_a_limit_and_appends_nothing),
        cmocka_unit_test(the_decoder_refuses_what_is_over_a_limit),
        cmocka_unit_test(the_decoder_refuses_another_kind),
        test_with_arena(a_text_with_a_nul_is_refused),
        test_with_arena(an_unknown_type_is_unimplemented),
        test_with_arena(a_copy_keeps_every_byte_of_a_text),
        cmocka_unit_test(short_texts_of_a_message_are_checked_wherever_they_are),
        cmocka_unit_test(statements_of_releases_have_lines),
        cmocka_unit_test(a_copy_shares_nothing),
        test_with_arena(bytes_of_every_message_are_as_they_were),
        test_with_arena(what_version_1_said_still_means_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
