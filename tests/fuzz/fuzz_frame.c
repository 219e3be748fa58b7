/* Fuzzes the cutting of a byte stream into frames: the same frames come out whatever the pieces,
 * none is larger than its limit, and nothing is kept beyond one frame. */
#include "base/check.h"
#include "base/hash.h"
#include "proto/proto.h"
#include "tests/fuzz/fuzz.h"

/* Hash of all frames, and of whether the stream broke. */
static uint64_t read_in_pieces(kiln_str bytes, size_t step) {
    kiln_frame_reader reader = {0};
    kiln_status st = KILN_OK;
    uint64_t hash = 0;
    for (size_t at = 0; !st && at < bytes.size; at += step) {
        kiln_str piece = kiln_str_slice(bytes, at, at + step);
        bool ready = true;
        while (!st && ready) {
            kiln_frame frame;
            st = kiln_frame_read(&reader, &piece, &frame, &ready);
            if (st || !ready) break;
            KILN_CHECK(frame.body.size <= (frame.type == KILN_MSG_DATA ? KILN_FRAME_DATA_MAX
                                                                       : KILN_FRAME_CONTROL_MAX));
            uint64_t head[] = {frame.type, frame.flags, frame.stream, frame.body.size};
            hash = kiln_hash64(head, sizeof head, hash);
            hash = kiln_hash64(frame.body.data, frame.body.size, hash);
        }
        KILN_CHECK(st || piece.size == 0);
        KILN_CHECK(reader.partial.size <= bytes.size);
    }
    hash += st != NULL;
    kiln_status_free(st);
    kiln_frame_reader_deinit(&reader);
    return hash;
}

int kiln_fuzz_one(const uint8_t *data, size_t size) {
    kiln_str bytes = {(const char *)data, size};
    uint64_t whole = read_in_pieces(bytes, size ? size : 1);
    KILN_CHECK(read_in_pieces(bytes, 1) == whole);
    KILN_CHECK(read_in_pieces(bytes, 17) == whole);
    return 0;
}
