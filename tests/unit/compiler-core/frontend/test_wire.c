#include "compiler-core/frontend/onnx/wire.h"

#include "compiler-core/frontend/onnx/proto.h"
#include "tests/unit/compiler-core/frontend/support.h"

static kiln_status check(kiln_str bytes) {
    return kiln_onnx_wire_check(bytes, &onnx__model_proto__descriptor);
}

static void whole_models_pass(void **state) {
    model_parts parts = {.opset = 13,
                         .input = "x:2,3",
                         .output = "y:2,3",
                         .node_count = 1,
                         .node = {node_of(*state, "Relu", "x", "y")}};
    expect_ok(check(model_of(*state, &parts)));
    expect_ok(check((kiln_str){0})); /* no field at all is a message, too */
}

/* Every prefix is refused or ends between two fields; none is read past its end (address
 * sanitizer). */
static void truncated_models_are_refused(void **state) {
    model_parts parts = {.opset = 13,
                         .input = "x:2,3",
                         .output = "y:2,3",
                         .node_count = 1,
                         .node = {node_of(*state, "Relu", "x", "y")}};
    kiln_str bytes = model_of(*state, &parts);
    for (size_t size = 0; size < bytes.size; size++) {
        kiln_graph *graph = NULL;
        kiln_str prefix = {kiln_arena_copy(*state, bytes.data, size), size};
        kiln_status st = kiln_import_bytes(prefix, NULL, NULL, *state, &graph);
        assert_non_null(st);
        assert_int_equal(kiln_status_code(st), KILN_INVALID_ARGUMENT);
        kiln_status_free(st);
    }
}

static void nesting_is_bounded(void **state) {
    message type = message_of(*state); /* a sequence of sequences of ... */
    for (uint32_t i = 0; i < 100; i++)
        type = with_message(message_of(*state), 4, with_message(message_of(*state), 1, type));
    message port = with_message(with_text(message_of(*state), 1, "x"), 2, type);
    message model = with_message(message_of(*state), 7, with_message(message_of(*state), 11, port));
    expect_error(check(model.bytes), INVALID_ARGUMENT, "nesting too deep at byte");
}

static void bad_tags_and_lengths_are_told_by_place(void **state) {
    (void)state;
    expect_error(check(KILN_STR("\x0f")), INVALID_ARGUMENT, "a bad tag at byte"); /* wire type 7 */
    expect_error(check(KILN_STR("\x02\x00")), INVALID_ARGUMENT,
                 "a bad tag at byte 0"); /* field 0 */
    expect_error(check(KILN_STR("\x3a\x7f")), INVALID_ARGUMENT,
                 "a length that is past the end at byte 1");
    expect_error(check(KILN_STR("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")),
                 INVALID_ARGUMENT, "a bad number");
    expect_error(check(KILN_STR("\x15\x01\x02")), INVALID_ARGUMENT, "the end of the data");
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(whole_models_pass),
        test_with_arena(truncated_models_are_refused),
        test_with_arena(nesting_is_bounded),
        test_with_arena(bad_tags_and_lengths_are_told_by_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
