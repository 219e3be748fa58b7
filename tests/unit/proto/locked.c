#include "tests/unit/proto/locked.h"

#include <string.h>

#include "tests/support/test.h"

const kiln_key *locked_add_key(locked *l, const char *text, uint8_t fill) {
    kiln_key name;
    const kiln_key *key = NULL;
    expect_ok(kiln_key_name_parse(kiln_str_from(text), &name));
    memset(name.secret, fill, sizeof name.secret);
    expect_ok(kiln_keys_add(&l->keys, &name, &key));
    expect_ok(kiln_keys_write(l->path, &l->keys));
    return key;
}

void locked_show(locked *l, const kiln_key *key) {
    l->p.credentials = (kiln_credentials){.has_key = true, .key = *key};
}

void locked_init(locked *l, kiln_arena *arena) {
    if (!kiln_tls_supported()) skip_because("this build has no OpenSSL");
    *l = (locked){.folder = make_folder(arena)};
    l->path = kiln_arena_printf(arena, "%s/keys", l->folder);
    pair_init(&l->p);
    locked_show(l, locked_add_key(l, "tuner/tuna", 7));
    expect_ok(kiln_keyring_open(l->p.loop, l->path, NULL, NULL, &l->ring));
    l->p.listen.keyring = l->ring;
}

void locked_deinit(locked *l) {
    pair *p = &l->p;
    if (p->client.conn) kiln_conn_close(p->client.conn, KILN_OK);
    if (p->server.conn) kiln_conn_close(p->server.conn, KILN_OK);
    kiln_keyring_close(l->ring);
    p->client.conn = p->server.conn = NULL;
    pair_deinit(p);
    kiln_keys_deinit(&l->keys);
    remove_folder(l->folder);
}
