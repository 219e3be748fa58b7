#include "proto/wire/schema.h"

#include <string.h>

#include "base/macros.h"
#include "tests/support/test.h"
#include "tests/unit/proto/sample.h"

static void check_keys(const kiln_schema *schema) {
    uint64_t seen = 0;
    for (uint32_t i = 0; i < schema->field_count; i++) {
        const kiln_field_info *field = &schema->field[i];
        assert_in_range(field->key, 1, KILN_FIELD_KEY_MAX);
        assert_true((seen >> field->key & 1u) == 0);
        seen |= UINT64_C(1) << field->key;
        assert_true(strlen(field->doc) > 0);
        bool counted = field->kind == KILN_FIELD_text || field->kind == KILN_FIELD_bytes ||
                       field->kind == KILN_FIELD_u64s || field->kind == KILN_FIELD_list;
        if (counted) assert_in_range(field->limit, 1, 1 << 20);
    }
}

static void keys_are_unique_and_every_length_is_limited(void **state) {
    (void)state;
    kiln_message_type type = 0;
    while ((type = kiln_message_next(type))) check_keys(kiln_schema_of_message(type));
    for (unsigned i = 0; i < KILN_RECORD_COUNT; i++)
        check_keys(kiln_schema_of_record((kiln_record_type)i));
}

static void numbers_are_unique_and_fit_a_header(void **state) {
    (void)state;
    bool seen[256] = {false};
    kiln_message_type type = 0;
    while ((type = kiln_message_next(type))) {
        assert_in_range(type, 1, KILN_MSG_DATA - 1);
        assert_false(seen[type]);
        seen[type] = true;
        const kiln_schema *schema = kiln_schema_of_message(type);
        assert_true(schema->from != 0);
        assert_true(schema->to != 0);
        assert_in_range(schema->since, 1, KILN_PROTO_VERSION_MAX);
    }
}

static void only_the_roles_of_the_table_may_send(void **state) {
    (void)state;
    assert_true(kiln_message_may_send(KILN_MSG_TRIAL_RESULT, KILN_PEER_BOARD));
    assert_true(kiln_message_may_send(KILN_MSG_TRIAL_RESULT, KILN_PEER_TRACKER));
    assert_false(kiln_message_may_send(KILN_MSG_TRIAL_RESULT, KILN_PEER_CLIENT));
    assert_false(kiln_message_may_send(KILN_MSG_LEASE_GRANT, KILN_PEER_TUNER));
    assert_true(kiln_message_may_send(KILN_MSG_LEASE_REQ, KILN_PEER_CLIENT));
    assert_false(kiln_message_may_send(KILN_MSG_LEASE_REQ, KILN_PEER_BOARD));
    assert_true(kiln_message_may_send(KILN_MSG_TAIL, KILN_PEER_ADMIN)); /* others' work is in it */
    assert_false(kiln_message_may_send(KILN_MSG_TAIL, KILN_PEER_CLIENT));
    assert_false(kiln_message_may_send(KILN_MSG_DATA, KILN_PEER_TUNER));
}

static void empty_means_that_no_field_says_anything(void **state) {
    kiln_message message = {.type = KILN_MSG_BOARD_STATE};
    const kiln_schema *schema = kiln_schema_of_message(KILN_MSG_BOARD_STATE);
    assert_true(kiln_field_is_empty(&schema->field[0], &message.board_state));
    sample_fill(schema, &message.board_state, SAMPLE_SMALL, *state);
    for (uint32_t i = 0; i < schema->field_count; i++)
        assert_false(kiln_field_is_empty(&schema->field[i], &message.board_state));
}

static void words_have_names(void **state) {
    (void)state;
    assert_string_equal(kiln_peer_role_name(KILN_PEER_TUNER), "tuner");
    assert_string_equal(kiln_phase_name(KILN_PHASE_RUN), "run");
    assert_string_equal(kiln_job_state_name(KILN_JOB_CANCELLED), "cancelled");
    assert_string_equal(kiln_stop_name(KILN_STOP_TIME_CAP), "capped by time");
    assert_string_equal(kiln_board_service_name(KILN_BOARD_QUARANTINED), "quarantined");
    assert_null(kiln_message_name(KILN_MSG_DATA));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_unique_and_every_length_is_limited),
        cmocka_unit_test(numbers_are_unique_and_fit_a_header),
        cmocka_unit_test(only_the_roles_of_the_table_may_send),
        test_with_arena(empty_means_that_no_field_says_anything),
        cmocka_unit_test(words_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
