/* Fuzzes the msgpack cursor: skipping moves forward inside the bytes, and reads agree with the kind
 * shown. */
#include "base/check.h"
#include "base/mpack.h"
#include "tests/fuzz/fuzz.h"

/* Reads one head by the kind that peek shows, so that nested values are walked as well as skipped.
 */
static kiln_status read_by_kind(kiln_mpack_reader *r) {
    bool flag;
    uint64_t number;
    double real;
    kiln_str text;
    uint32_t count;
    kiln_mpack_reader before = *r;
    switch (kiln_mpack_peek(r)) {
    case KILN_MPACK_BOOL: return kiln_mpack_read_bool(r, &flag);
    case KILN_MPACK_INT: {
        kiln_status st = kiln_mpack_read_u64(r, &number);
        if (!st) return st;
        kiln_status_free(st); /* negative: must read as a signed one */
        KILN_CHECK(r->offset == before.offset);
        return kiln_mpack_read_i64(r, &(int64_t){0});
    }
    case KILN_MPACK_FLOAT: return kiln_mpack_read_f64(r, &real);
    case KILN_MPACK_STR: return kiln_mpack_read_str(r, &text);
    case KILN_MPACK_BIN: return kiln_mpack_read_bin(r, &text);
    case KILN_MPACK_ARRAY: return kiln_mpack_read_array(r, &count);
    case KILN_MPACK_MAP: return kiln_mpack_read_map(r, &count);
    case KILN_MPACK_NIL:
    case KILN_MPACK_END:
    case KILN_MPACK_BAD: break;
    }
    return kiln_mpack_skip(r);
}

int kiln_fuzz_one(const uint8_t *data, size_t size) {
    for (int walk = 0; walk < 2; walk++) {
        kiln_mpack_reader r;
        kiln_mpack_reader_init(&r, data, size);
        kiln_status st = KILN_OK;
        while (!st && r.offset < r.size) {
            size_t before = r.offset;
            st = walk ? read_by_kind(&r) : kiln_mpack_skip(&r);
            KILN_CHECK(r.offset <= r.size);
            KILN_CHECK(st ? r.offset == before : r.offset > before);
        }
        kiln_status_free(st);
    }
    return 0;
}
