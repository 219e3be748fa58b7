#include <string.h>

#include "base/alloc.h"
#include "proto/proto.h"
#include "tests/support/test.h"

static kiln_strbuf three_frames(void) {
    kiln_strbuf bytes = {0};
    static char data[1000];
    expect_ok(kiln_frame_write_message(
        &bytes, &(kiln_message){.type = KILN_MSG_PING, .stream = 3, .ping = {.t_ns = 12345}}));
    kiln_frame_write(&bytes, KILN_MSG_DATA, KILN_FRAME_END, 4, (kiln_str){data, sizeof data});
    kiln_frame_write(&bytes, KILN_MSG_DATA, 0, 5, (kiln_str){0});
    return bytes;
}

/* Reads all frames of `bytes`, offered in pieces of `step`. */
static void read_in_pieces(kiln_str bytes, size_t step) {
    kiln_frame_reader reader = {0};
    uint32_t count = 0;
    static const uint32_t streams[] = {3, 4, 5};
    static const size_t sizes[] = {7, 1000, 0};
    for (size_t at = 0; at < bytes.size; at += step) {
        kiln_str piece = kiln_str_slice(bytes, at, at + step);
        kiln_frame frame;
        bool ready = true;
        while (ready) {
            expect_ok(kiln_frame_read(&reader, &piece, &frame, &ready));
            if (!ready) break;
            assert_true(count < 3);
            assert_int_equal(frame.stream, streams[count]);
            if (count) assert_int_equal(frame.body.size, sizes[count]);
            assert_int_equal(frame.flags, count == 1 ? KILN_FRAME_END : 0);
            count++;
        }
        assert_int_equal(piece.size, 0);
    }
    assert_int_equal(count, 3);
    kiln_frame_reader_deinit(&reader);
}

static void frames_come_out_whatever_the_pieces(void **state) {
    (void)state;
    kiln_strbuf bytes = three_frames();
    for (size_t step = 1; step <= bytes.size; step++)
        read_in_pieces(kiln_strbuf_view(&bytes), step);
    kiln_strbuf_deinit(&bytes);
}

static void expect_broken(const uint8_t header[16], const char *needle) {
    for (size_t step = 1; step <= 16; step += 15) { /* byte by byte, and at once */
        kiln_frame_reader reader = {0};
        kiln_status st = KILN_OK;
        kiln_frame frame;
        bool ready = false;
        for (size_t at = 0; !st && at < 16; at += step) {
            kiln_str piece = {(const char *)header + at, step};
            st = kiln_frame_read(&reader, &piece, &frame, &ready);
            assert_false(ready);
        }
        expect_error(st, DATA_LOSS, needle);
        kiln_str more = KILN_STR("x");
        expect_error(kiln_frame_read(&reader, &more, &frame, &ready), DATA_LOSS, "broken");
        kiln_frame_reader_deinit(&reader);
    }
}

static void every_bad_header_breaks_the_stream(void **state) {
    (void)state;
    const uint8_t good[16] = {'K', 'L', 'N', '1', KILN_MSG_PING, 0, 0, 0, 1};
    static const struct {
        int at;
        uint8_t value;
        const char *needle;
    } spoil[] = {
        {0, 'G', "not Kiln's protocol"},
        {3, '2', "not Kiln's protocol"},
        {4, 0, "type 0"},
        {4, 128, "type 128"},
        {5, 1, "flags"},
        {6, 1, "flags"},
        {7, 0x80, "flags"},
        {14, 5, "the limit is 262144"},
        {15, 0x80, "the limit is"},
    };
    for (size_t i = 0; i < sizeof spoil / sizeof spoil[0]; i++) {
        uint8_t header[16];
        memcpy(header, good, sizeof header);
        header[spoil[i].at] = spoil[i].value;
        expect_broken(header, spoil[i].needle);
    }
    uint8_t data[16] = {'K', 'L', 'N', '1', KILN_MSG_DATA, 2};
    expect_broken(data, "flags");
    data[5] = 0;
    data[13] = 0x01, data[14] = 0x01; /* 65,792 bytes: more than a chunk */
    expect_broken(data, "the limit is 65536");
}

static void a_declared_length_allocates_nothing(void **state) {
    (void)state;
    /* A legal header that announces 256 KiB, and then nothing. */
    const uint8_t header[16] = {'K', 'L', 'N', '1', KILN_MSG_ERROR, 0, 0, 0, 1, 0, 0, 0,
                                0,   0,   4,   0};
    kiln_frame_reader reader = {0};
    kiln_str input = {(const char *)header, sizeof header};
    kiln_frame frame;
    bool ready = true;
    expect_ok(kiln_frame_read(&reader, &input, &frame, &ready));
    assert_false(ready);
    assert_true(reader.partial.capacity < 4096);
    kiln_frame_reader_deinit(&reader);
}

static void a_message_that_cannot_be_encoded_leaves_no_frame(void **state) {
    (void)state;
    static char text[KILN_MESSAGES_PROSE + 1];
    memset(text, 'x', sizeof text);
    kiln_strbuf bytes = {0};
    kiln_message message = {.type = KILN_MSG_GOAWAY, .goaway = {.reason = {text, sizeof text}}};
    expect_error(kiln_frame_write_message(&bytes, &message), OUT_OF_RANGE, "GOAWAY.reason");
    assert_int_equal(bytes.size, 0);
    kiln_strbuf_deinit(&bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_come_out_whatever_the_pieces),
        cmocka_unit_test(every_bad_header_breaks_the_stream),
        cmocka_unit_test(a_declared_length_allocates_nothing),
        cmocka_unit_test(a_message_that_cannot_be_encoded_leaves_no_frame),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
