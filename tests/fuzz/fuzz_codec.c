/* Fuzzes the decoder of every message: the first byte chooses the type. What decodes encodes, and
 * the second decoding says the same; copies and prints of it hold together. */
#include "base/check.h"
#include "proto/proto.h"
#include "tests/fuzz/fuzz.h"

static kiln_message_type choose_type(uint8_t byte) {
    kiln_message_type type = kiln_message_next((kiln_message_type)0);
    while (byte-- && type) type = kiln_message_next(type);
    return type;
}

static void check_decoded(const kiln_message *message, kiln_arena *arena) {
    kiln_strbuf body = {0}, text = {0}, again = {0};
    kiln_message second;
    kiln_message copy = kiln_message_copy(message, arena);
    kiln_message_print(message, &text);
    /* Unknown keys and long forms of numbers are gone now, so it is not longer than it was. */
    KILN_CHECK(kiln_message_encode(&copy, &body) == NULL);
    KILN_CHECK(kiln_message_decode(message->type, message->stream, kiln_strbuf_view(&body), arena,
                                   &second) == NULL);
    kiln_message_print(&second, &again);
    KILN_CHECK(kiln_str_equal(kiln_strbuf_view(&text), kiln_strbuf_view(&again)));
    kiln_strbuf_deinit(&body);
    kiln_strbuf_deinit(&text);
    kiln_strbuf_deinit(&again);
}

int kiln_fuzz_one(const uint8_t *data, size_t size) {
    kiln_message_type type = size ? choose_type(data[0]) : (kiln_message_type)0;
    if (!type || size - 1 > KILN_FRAME_CONTROL_MAX) return 0;
    kiln_arena arena = {0};
    kiln_message message;
    kiln_status st = kiln_message_decode(type, 1, (kiln_str){(const char *)data + 1, size - 1},
                                         &arena, &message);
    if (!st) check_decoded(&message, &arena);
    kiln_status_free(st);
    kiln_arena_deinit(&arena);
    return 0;
}
