/* Fuzzes what a stranger sends to the listening side of TLS, in pieces of any size: nobody who does
 * not know the key becomes known, and nothing is kept beyond one record. The first byte chooses the
 * pieces; the corpus holds a real ClientHello, of a key that the tracker has not. */
#include <stdlib.h>
#include <unistd.h>

#include "base/check.h"
#include "base/file.h"
#include "proto/net/tls.h"
#include "tests/fuzz/fuzz.h"

#define KEY "board/a/1 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n"

typedef struct tracker {
    kiln_loop *loop;
    kiln_keyring *ring;
    kiln_tls_context *tls;
} tracker;

/* Made once: reading the file and OpenSSL's set-up cost more than an input. */
static const tracker *the_tracker(void) {
    static tracker t;
    if (t.loop) return &t;
    kiln_arena arena = {0};
    char *folder = NULL;
    kiln_status st = kiln_folder_create_temp("kiln-fuzz", &arena, &folder);
    char *path = st ? NULL : kiln_arena_printf(&arena, "%s/keys", folder);
    if (!st) st = kiln_file_write(path, KILN_STR("kiln-keys 1\n" KEY), 0600);
    if (!st) st = kiln_loop_create(&t.loop);
    if (!st) st = kiln_keyring_open(t.loop, path, NULL, NULL, &t.ring);
    if (!st) st = kiln_tls_context_create(&t.tls);
    if (!st) st = kiln_folder_remove(folder);
    KILN_CHECK(st == NULL);
    kiln_arena_deinit(&arena);
    return &t;
}

int kiln_fuzz_one(const uint8_t *data, size_t size) {
    const tracker *t = the_tracker();
    kiln_tls *tls = kiln_tls_accept(t->tls, t->ring);
    size_t step = size ? 1 + data[0] : 1;
    kiln_status st = KILN_OK;
    for (size_t at = 1; !st && at < size; at += step) {
        kiln_strbuf plain = {0}, wire = {0};
        kiln_str piece = kiln_str_slice((kiln_str){(const char *)data, size}, at, at + step);
        st = kiln_tls_receive(tls, piece, &plain, &wire);
        KILN_CHECK(!kiln_tls_ready(tls) && plain.size == 0);
        KILN_CHECK(wire.size <= KILN_TLS_HELLO_MAX);
        kiln_strbuf_deinit(&plain);
        kiln_strbuf_deinit(&wire);
    }
    kiln_status_free(st);
    kiln_tls_destroy(tls);
    return 0;
}
