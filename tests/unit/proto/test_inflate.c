#include "proto/inflate.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include "base/alloc.h"
#include "tests/support/test.h"

#define SIZE ((size_t)1 << 20)

/* A descriptor of the bytes, at its beginning. */
static int file_of(kiln_str bytes) {
    char path[] = "/tmp/kiln-inflate-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    unlink(path);
    assert_int_equal(write(fd, bytes.data, bytes.size), bytes.size);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    return fd;
}

static kiln_status append(void *context, kiln_str bytes) {
    kiln_strbuf_append(context, bytes.data, bytes.size);
    return NULL;
}

static kiln_status refuse(void *context, kiln_str bytes) {
    (void)context, (void)bytes;
    return KILN_ERROR(ABORTED, "enough");
}

/* A megabyte that hardly compresses, so that there are many pieces; and its compressed form. */
static void make(kiln_strbuf *plain, kiln_strbuf *packed) {
    uint32_t x = 1;
    for (size_t i = 0; i < SIZE; i++) {
        x = x * 1664525u + 1013904223u;
        const char byte = (char)(x >> 24);
        kiln_strbuf_append(plain, &byte, 1);
    }
    const size_t room = ZSTD_compressBound(SIZE);
    char *bytes = kiln_alloc(room);
    kiln_strbuf_append(packed, bytes, ZSTD_compress(bytes, room, plain->data, SIZE, 1));
    kiln_free(bytes);
}

static kiln_code inflate(kiln_str bytes, uint64_t size_max, kiln_inflate_sink sink, void *context) {
    const int fd = file_of(bytes);
    kiln_status st = kiln_inflate(fd, size_max, sink, context);
    const kiln_code code = kiln_status_code(st);
    kiln_status_free(st);
    close(fd);
    return code;
}

static void what_was_compressed_comes_out_again(void **state) {
    (void)state;
    kiln_strbuf plain = {0}, packed = {0}, out = {0};
    make(&plain, &packed);
    assert_int_equal(inflate(kiln_strbuf_view(&packed), SIZE, append, &out), KILN_OK);
    assert_true(kiln_str_equal(kiln_strbuf_view(&plain), kiln_strbuf_view(&out)));
    kiln_strbuf_deinit(&plain);
    kiln_strbuf_deinit(&packed);
    kiln_strbuf_deinit(&out);
}

static void damage_excess_and_a_missing_end_are_noticed(void **state) {
    (void)state;
    kiln_strbuf plain = {0}, packed = {0}, out = {0};
    make(&plain, &packed);
    const kiln_str whole = kiln_strbuf_view(&packed);
    assert_int_equal(inflate(whole, SIZE - 1, append, &out), KILN_OUT_OF_RANGE);
    assert_int_equal(inflate(kiln_str_slice(whole, 0, whole.size - 1), SIZE, append, &out),
                     KILN_DATA_LOSS);
    assert_int_equal(inflate((kiln_str){0}, SIZE, append, &out), KILN_DATA_LOSS);
    assert_int_equal(inflate(KILN_STR("not compressed"), SIZE, append, &out), KILN_DATA_LOSS);
    kiln_strbuf_append(&packed, "x", 1);
    assert_int_equal(inflate(kiln_strbuf_view(&packed), SIZE, append, &out), KILN_DATA_LOSS);
    kiln_strbuf_deinit(&plain);
    kiln_strbuf_deinit(&packed);
    kiln_strbuf_deinit(&out);
}

static void an_error_of_the_sink_ends_it(void **state) {
    (void)state;
    kiln_strbuf plain = {0}, packed = {0};
    make(&plain, &packed);
    assert_int_equal(inflate(kiln_strbuf_view(&packed), SIZE, refuse, NULL), KILN_ABORTED);
    kiln_strbuf_deinit(&plain);
    kiln_strbuf_deinit(&packed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_compressed_comes_out_again),
        cmocka_unit_test(damage_excess_and_a_missing_end_are_noticed),
        cmocka_unit_test(an_error_of_the_sink_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
