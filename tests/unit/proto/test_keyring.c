#include <dirent.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/rand.h"
#include "proto/net/conn.h"
#include "tests/support/test.h"
#include "tests/unit/proto/locked.h"

#define SECRET "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

typedef struct fixture {
    kiln_arena *arena;
    char *folder, *path;
    kiln_loop *loop;
    kiln_keyring *ring;
    uint32_t changes;
    kiln_code last;
} fixture;

static void on_changed(void *context, kiln_status status) {
    fixture *f = context;
    f->changes++;
    f->last = kiln_status_code(status);
}

static void set_up(fixture *f, kiln_arena *arena) {
    *f = (fixture){.arena = arena, .folder = make_folder(arena)};
    f->path = kiln_arena_printf(arena, "%s/keys", f->folder);
    expect_ok(kiln_loop_create(&f->loop));
}

static void tear_down(fixture *f) {
    kiln_keyring_close(f->ring);
    kiln_loop_destroy(f->loop);
    remove_folder(f->folder);
}

static void write_file(const fixture *f, const char *text) {
    expect_ok(kiln_file_write(f->path, kiln_str_from(text), 0600));
}

static void keys_are_written_so_that_only_we_read_them(void **state) {
    fixture f;
    set_up(&f, *state);
    kiln_keys keys = {0}, again = {0};
    struct stat info;
    expect_ok(kiln_keys_parse(KILN_STR("kiln-keys 1\nboard/a/1 " SECRET), &keys));
    expect_ok(kiln_keys_write(f.path, &keys));
    assert_int_equal(stat(f.path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    expect_ok(kiln_keys_read(f.path, &again));
    assert_int_equal(again.key.count, 1);
    kiln_keys_deinit(&keys);
    kiln_keys_deinit(&again);
    tear_down(&f);
}

static void a_file_that_others_can_read_is_no_secret(void **state) {
    fixture f;
    kiln_keys keys = {0};
    set_up(&f, *state);
    expect_ok(kiln_file_write(f.path, KILN_STR("kiln-keys 1\n"), 0640));
    expect_error(kiln_keys_read(f.path, &keys), PERMISSION_DENIED, "chmod 600");
    kiln_code code = kiln_tls_supported() ? KILN_PERMISSION_DENIED : KILN_UNIMPLEMENTED;
    kiln_status st = kiln_keyring_open(f.loop, f.path, NULL, NULL, &f.ring);
    assert_int_equal(kiln_status_code(st), code);
    kiln_status_free(st);
    tear_down(&f);
}

static void a_missing_file_is_named(void **state) {
    if (!kiln_tls_supported()) skip_because("this build has no OpenSSL");
    fixture f;
    set_up(&f, *state);
    expect_error(kiln_keyring_open(f.loop, f.path, NULL, NULL, &f.ring), NOT_FOUND, f.path);
    tear_down(&f);
}

static void a_changed_file_is_read_again(void **state) {
    if (!kiln_tls_supported()) skip_because("this build has no OpenSSL");
    fixture f;
    set_up(&f, *state);
    write_file(&f, "kiln-keys 1\n");
    expect_ok(kiln_keyring_open(f.loop, f.path, on_changed, &f, &f.ring));
    assert_int_equal(kiln_keyring_count(f.ring), 0);
    kiln_loop_run_once(f.loop); /* looks, and sees nothing new */
    assert_int_equal(f.changes, 0);
    write_file(&f, "kiln-keys 1\nboard/a/1 " SECRET "\n");
    while (f.changes == 0) kiln_loop_run_once(f.loop);
    assert_int_equal(f.last, KILN_OK);
    assert_int_equal(kiln_keyring_count(f.ring), 1);
    kiln_keyring_reload(f.ring); /* unasked it would see no reason */
    assert_int_equal(f.changes, 2);
    tear_down(&f);
}

static void a_broken_file_leaves_the_keys_as_they_were(void **state) {
    if (!kiln_tls_supported()) skip_because("this build has no OpenSSL");
    fixture f;
    set_up(&f, *state);
    write_file(&f, "kiln-keys 1\nboard/a/1 " SECRET "\n");
    expect_ok(kiln_keyring_open(f.loop, f.path, on_changed, &f, &f.ring));
    write_file(&f, "kiln-keys 1\nboard/a/1 " SECRET "\nboard/b/1 00\n");
    kiln_keyring_reload(f.ring);
    assert_int_equal(f.last, KILN_DATA_LOSS);
    assert_int_equal(kiln_keyring_count(f.ring), 1);
    tear_down(&f);
}

static uint32_t count_files(const char *folder) {
    uint32_t count = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
        count += entry->d_name[0] != '.';
    closedir(dir);
    return count;
}

/* Whichever operation fails: the file has the old keys or the new ones, and nothing lies beside. */
static void a_full_disk_leaves_the_old_keys_or_the_new(void **state) {
    fixture f;
    set_up(&f, *state);
    kiln_keys keys = {0};
    expect_ok(
        kiln_keys_parse(KILN_STR("kiln-keys 1\nboard/a/1 " SECRET "\nboard/b/1 " SECRET), &keys));
    bool whole = false;
    uint32_t failed = 0;
    for (uint64_t nth = 1; !whole; nth++) {
        kiln_keys found = {0};
        write_file(&f, "kiln-keys 1\nboard/a/1 " SECRET "\n");
        kiln_fail_io_nth(nth);
        kiln_status st = kiln_keys_write(f.path, &keys);
        kiln_fail_io_nth(0);
        whole = st == NULL;
        failed += !whole;
        assert_true(whole || kiln_status_code(st) == KILN_RESOURCE_EXHAUSTED);
        kiln_status_free(st);
        expect_ok(kiln_keys_read(f.path, &found));
        assert_int_equal(found.key.count, whole ? 2 : 1);
        assert_int_equal(count_files(f.folder), 1);
        kiln_keys_deinit(&found);
    }
    assert_true(failed >= 4); /* make, write, sync, rename */
    kiln_keys_deinit(&keys);
    tear_down(&f);
}

static void keys_that_cannot_be_read_stay_in_force(void **state) {
    if (!kiln_tls_supported()) skip_because("this build has no OpenSSL");
    fixture f;
    set_up(&f, *state);
    write_file(&f, "kiln-keys 1\nboard/a/1 " SECRET "\n");
    expect_ok(kiln_keyring_open(f.loop, f.path, on_changed, &f, &f.ring));
    write_file(&f, "kiln-keys 1\nboard/a/1 " SECRET "\nboard/b/1 " SECRET "\n");
    f.last = KILN_INTERNAL;
    for (uint64_t nth = 1; f.last != KILN_OK; nth++) {
        assert_int_equal(kiln_keyring_count(f.ring), 1);
        kiln_fail_io_nth(nth);
        kiln_keyring_reload(f.ring);
        kiln_fail_io_nth(0);
        assert_int_equal(f.changes, nth);
    }
    assert_true(f.changes >= 3); /* open and read failed */
    assert_int_equal(kiln_keyring_count(f.ring), 2);
    tear_down(&f);
}

static void a_reading_that_lacked_a_descriptor_is_tried_again(void **state) {
    if (!kiln_tls_supported()) skip_because("this build has no OpenSSL");
    fixture f;
    set_up(&f, *state);
    write_file(&f, "kiln-keys 1\nboard/a/1 " SECRET "\n");
    expect_ok(kiln_keyring_open(f.loop, f.path, on_changed, &f, &f.ring));
    write_file(&f, "kiln-keys 1\n");
    kiln_fail_io_nth(1);
    while (f.changes == 0) kiln_loop_run_once(f.loop);
    kiln_fail_io_nth(0);
    assert_int_equal(f.last, KILN_RESOURCE_EXHAUSTED);
    assert_int_equal(kiln_keyring_count(f.ring), 1);
    while (f.changes == 1) kiln_loop_run_once(f.loop);
    assert_int_equal(f.last, KILN_OK);
    assert_int_equal(kiln_keyring_count(f.ring), 0);
    tear_down(&f);
}

/* ---- Connections whose key goes ---- */

static void a_revoked_key_is_cut_at_the_next_look(void **state) {
    _Static_assert(2 * KILN_NET_KEYS_NS <= KILN_NS_PER_S, "within a second");
    locked l;
    locked_init(&l, *state);
    pair_open(&l.p);
    kiln_key name = l.p.credentials.key;
    assert_int_equal(kiln_keys_revoke(&l.keys, &name), 1);
    expect_ok(kiln_keys_write(l.path, &l.keys));
    pair_run_until(&l.p, &l.p.client.closed);
    assert_int_equal(l.p.client.why, KILN_UNAUTHENTICATED);
    expect_contains(l.p.client.why_text, "revoked");
    pair_run_until(&l.p, &l.p.server.closed);
    locked_deinit(&l);
}

static void a_revoked_key_cuts_nobody_else(void **state) {
    locked l;
    locked_init(&l, *state);
    kiln_key tuna = l.p.credentials.key;
    pair_open(&l.p);
    kiln_conn *doomed = l.p.client.conn;
    locked_show(&l, locked_add_key(&l, "client/ann", 8));
    kiln_keyring_reload(l.ring);
    l.p.dial.role = KILN_PEER_CLIENT;
    l.p.client.opened = false;
    pair_dial(&l.p);
    pair_run_until(&l.p, &l.p.client.opened);
    l.p.credentials = (kiln_credentials){.has_token = true};
    memcpy(l.p.credentials.token, l.p.listen.token, KILN_TOKEN_BYTES);
    kiln_conn *by_key = l.p.client.conn;
    l.p.client.opened = l.p.server.opened = false;
    pair_dial(&l.p);
    pair_run_until(&l.p, &l.p.client.opened);
    pair_run_until(&l.p, &l.p.server.opened);
    assert_ptr_not_equal(l.p.client.conn, by_key);
    kiln_keys_revoke(&l.keys, &tuna);
    expect_ok(kiln_keys_write(l.path, &l.keys));
    kiln_conn *last = l.p.client.conn;
    pair_run_until(&l.p, &l.p.client.closed); /* the doomed one; the pair notes one at a time */
    assert_int_equal(l.p.client.why, KILN_UNAUTHENTICATED);
    pair_run_until(&l.p, &l.p.server.closed);
    l.p.client.closed = l.p.server.closed = false;
    assert_ptr_not_equal(doomed, last);
    for (int i = 0; i < 2; i++) {
        kiln_conn_close(i ? last : by_key, KILN_OK);
        pair_run_until(&l.p, &l.p.client.closed);
        assert_int_equal(l.p.client.why, KILN_CANCELLED);
        pair_run_until(&l.p, &l.p.server.closed);
        l.p.client.closed = l.p.server.closed = false;
    }
    locked_deinit(&l);
}

/* Made anew by hand, between two looks: what was known under that name is none any more. */
static void a_key_made_anew_under_its_old_name_is_another(void **state) {
    locked l;
    locked_init(&l, *state);
    pair_open(&l.p);
    l.keys.key.data[0].secret[0] ^= 1;
    expect_ok(kiln_keys_write(l.path, &l.keys));
    pair_run_until(&l.p, &l.p.client.closed);
    assert_int_equal(l.p.client.why, KILN_UNAUTHENTICATED);
    pair_run_until(&l.p, &l.p.server.closed);
    locked_deinit(&l);
}

/* ---- Memory ---- */

/* How often these bytes are in what malloc has given out or taken back. */
static uint32_t count_in_heap(const uint8_t *bytes, size_t size) {
    kiln_arena arena = {0};
    kiln_str maps = {0};
    uint32_t count = 0;
    expect_ok(kiln_file_read_system("/proc/self/maps", &arena, &maps));
    while (maps.size) {
        kiln_str line = kiln_str_cut(&maps, '\n');
        unsigned long long from = 0, to = 0;
        char text[64] = "";
        memcpy(text, line.data, KILN_MIN(line.size, sizeof text - 1));
        if (!memmem(line.data, line.size, "[heap]", 6) ||
            sscanf(text, "%llx-%llx", &from, &to) != 2)
            continue;
        const char *at = (const char *)(uintptr_t)from, *end = (const char *)(uintptr_t)to;
        while ((at = memmem(at, (size_t)(end - at), bytes, size))) {
            count++;
            at++;
        }
    }
    kiln_arena_deinit(&arena);
    return count;
}

/* Lists of many sizes are read, grown, written and freed: of a secret nothing is left, neither as
 * bytes nor as text. */
static void secrets_are_wiped_wherever_a_list_grows_or_is_freed(void **state) {
    if (KILN_SANITIZED) skip_because("the heap of sanitizers is not where this looks");
    char *folder = make_folder(*state);
    const char *path = kiln_arena_printf(*state, "%s/keys", folder);
    uint8_t secret[KILN_KEY_BYTES];
    kiln_digest printed;
    char text[KILN_DIGEST_TEXT];
    mallopt(M_PERTURB, 0); /* freed memory stays as it was */
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    expect_ok(kiln_rand_system(secret, sizeof secret));
    memcpy(printed.byte, secret, sizeof secret);
    kiln_digest_print(&printed, text);
    kiln_keys keys = {0}, again = {0};
    for (uint32_t i = 0; i < 40; i++) {
        kiln_key key = {.role = KILN_PEER_BOARD, .last_day = 50000, .has_seed = true};
        const kiln_key *added = NULL;
        snprintf(key.node, sizeof key.node, "node-%u", i);
        memcpy(key.secret, secret, sizeof secret);
        memcpy(key.seed, secret, sizeof secret);
        expect_ok(kiln_keys_add(&keys, &key, &added));
        explicit_bzero(&key, sizeof key);
    }
    assert_true(count_in_heap(secret, sizeof secret) >= 80); /* the search finds what is there */
    expect_ok(kiln_keys_write(path, &keys));
    kiln_keys_deinit(&keys);
    expect_ok(kiln_keys_read(path, &again));
    kiln_keys_deinit(&again);
    assert_int_equal(count_in_heap(secret, sizeof secret), 0);
    assert_int_equal(count_in_heap((const uint8_t *)text, 2 * sizeof secret), 0);
    remove_folder(folder);
}

/* ---- Days ---- */

static void a_key_is_good_on_its_last_day_and_cut_when_that_is_over(void **state) {
    locked l;
    locked_init(&l, *state);
    l.keys.key.data[0].last_day = 40000;
    expect_ok(kiln_keys_write(l.path, &l.keys));
    kiln_keyring_reload(l.ring);
    kiln_keyring_set_day(l.ring, 40000);
    pair_open(&l.p);
    assert_false(l.p.client.closed);
    kiln_keyring_set_day(l.ring, 40001);
    pair_run_until(&l.p, &l.p.client.closed);
    assert_int_equal(l.p.client.why, KILN_UNAUTHENTICATED);
    expect_contains(l.p.client.why_text, "the key tuner/tuna/1 was valid until 2079-07-08");
    pair_run_until(&l.p, &l.p.server.closed);
    locked_deinit(&l);
}

static void expect_turned_away(locked *l, const char *why) {
    pair_listen(&l->p);
    pair_dial(&l->p);
    pair_run_until(&l->p, &l->p.client.closed);
    assert_int_equal(l->p.client.why, KILN_UNAUTHENTICATED);
    expect_contains(l->p.client.why_text, "does not accept the key tuner/tuna/1");
    pair_run_until_count(&l->p, &l->p.refused_count, 1);
    expect_contains(l->p.refused_why, why);
}

static void an_expired_key_does_not_come_in(void **state) {
    locked l;
    locked_init(&l, *state);
    l.keys.key.data[0].last_day = 1;
    expect_ok(kiln_keys_write(l.path, &l.keys));
    kiln_keyring_reload(l.ring);
    expect_turned_away(&l, "was valid until 1970-01-02");
    locked_deinit(&l);
}

static void a_revoked_key_is_called_so_in_the_log_only(void **state) {
    locked l;
    locked_init(&l, *state);
    kiln_key name = l.p.credentials.key;
    assert_int_equal(kiln_keys_revoke(&l.keys, &name), 1);
    expect_ok(kiln_keys_write(l.path, &l.keys));
    kiln_keyring_reload(l.ring);
    assert_int_equal(kiln_keyring_count(l.ring), 0);
    expect_turned_away(&l, "tuner/tuna/1 was revoked");
    locked_deinit(&l);
}

static void a_program_does_not_show_its_own_expired_key(void **state) {
    locked l;
    kiln_credentials found;
    kiln_address address;
    locked_init(&l, *state);
    l.keys.key.data[0].last_day = 1;
    expect_ok(kiln_keys_write(l.path, &l.keys));
    expect_ok(kiln_address_parse(KILN_STR("192.0.2.1:9"), &address));
    expect_error(kiln_credentials_load(&address, l.folder, l.path, false, &found),
                 PERMISSION_DENIED, "tuner/tuna/1 in ");
    locked_deinit(&l);
}

/* The secret is proven, the name is not yet said. */
static void a_key_that_goes_during_the_handshake_opens_nothing(void **state) {
    locked l;
    locked_init(&l, *state);
    pair_listen(&l.p);
    pair_dial(&l.p);
    const kiln_conn *conn = NULL;
    while (!conn || !conn->tls || !kiln_tls_key(conn->tls)) {
        kiln_loop_run_once(l.p.loop);
        conn = l.p.loop->by_rank[KILN_RANK_SPEAKS].oldest;
    }
    kiln_key name = l.p.credentials.key;
    assert_int_equal(kiln_keys_revoke(&l.keys, &name), 1);
    expect_ok(kiln_keys_write(l.path, &l.keys));
    kiln_keyring_reload(l.ring);
    pair_run_until(&l.p, &l.p.client.closed);
    assert_int_equal(l.p.client.why, KILN_UNAUTHENTICATED);
    expect_contains(l.p.client.why_text, "does not let you in"); /* as any stranger */
    pair_run_until_count(&l.p, &l.p.refused_count, 1);
    expect_contains(l.p.refused_why, "revoked");
    assert_false(l.p.server.opened);
    locked_deinit(&l);
}

/* ---- Credentials ---- */

typedef struct request {
    const char *address, *key_file;
    bool insecure;
} request;

static kiln_status load(const fixture *f, request r, kiln_credentials *out) {
    kiln_address address;
    expect_ok(kiln_address_parse(kiln_str_from(r.address), &address));
    return kiln_credentials_load(&address, f->folder, r.key_file, r.insecure, out);
}

static void a_unix_socket_needs_nothing(void **state) {
    fixture f;
    kiln_credentials c;
    set_up(&f, *state);
    expect_ok(load(&f, (request){.address = "unix:/x", .key_file = "/nowhere"}, &c));
    assert_false(c.has_key || c.has_token || c.insecure);
    tear_down(&f);
}

static void loopback_takes_the_token_and_then_the_key(void **state) {
    fixture f;
    kiln_credentials c;
    uint8_t token[KILN_TOKEN_BYTES];
    set_up(&f, *state);
    expect_error(load(&f, (request){.address = "127.0.0.1:1"}, &c), NOT_FOUND, "no tracker");
    f.path = kiln_arena_printf(*state, "%s/key", f.folder);
    write_file(&f, "kiln-keys 1\nboard/a/1 " SECRET "\n");
    expect_ok(load(&f, (request){.address = "127.0.0.1:1"}, &c));
    assert_true(c.has_key && !c.has_token);
    expect_ok(kiln_token_read(f.folder, true, token));
    expect_ok(load(&f, (request){.address = "127.0.0.1:1"}, &c));
    assert_true(c.has_token && !c.has_key);
    assert_memory_equal(c.token, token, sizeof token);
    tear_down(&f);
}

static void another_machine_takes_a_key_or_consent(void **state) {
    fixture f;
    kiln_credentials c;
    uint8_t token[KILN_TOKEN_BYTES];
    set_up(&f, *state);
    expect_ok(kiln_token_read(f.folder, true, token));
    expect_error(load(&f, (request){.address = "192.0.2.1:1"}, &c), PERMISSION_DENIED,
                 "kiln key new");
    expect_ok(load(&f, (request){.address = "192.0.2.1:1", .insecure = true}, &c));
    assert_true(c.insecure && !c.has_token && !c.has_key);
    f.path = kiln_arena_printf(*state, "%s/mine", f.folder);
    expect_error(load(&f, (request){.address = "192.0.2.1:1", .key_file = f.path}, &c), NOT_FOUND,
                 "mine");
    write_file(&f, "kiln-keys 1\nclient/ann/1 " SECRET "\nclient/ann/2 " SECRET "\n");
    expect_ok(load(&f, (request){.address = "192.0.2.1:1", .key_file = f.path}, &c));
    assert_int_equal(c.key.generation, 2);
    expect_ok(load(&f, (request){.address = "127.0.0.1:1", .key_file = f.path}, &c));
    assert_true(c.has_key && !c.has_token); /* asked for by name */
    write_file(&f, "kiln-keys 1\nclient/ann/1 " SECRET "\nclient/bob/2 " SECRET "\n");
    expect_error(load(&f, (request){.address = "192.0.2.1:1", .key_file = f.path}, &c),
                 INVALID_ARGUMENT, "several nodes");
    tear_down(&f);
}

static void every_address_wants_its_credentials(void **state) {
    fixture f;
    kiln_addresses list;
    set_up(&f, *state);
    expect_ok(kiln_addresses_parse(KILN_STR("unix:/x,192.0.2.1:1"), &list));
    expect_error(kiln_credentials_check(&list, f.folder, NULL, false), PERMISSION_DENIED,
                 "192.0.2.1");
    expect_ok(kiln_credentials_check(&list, f.folder, NULL, true));
    list.count = 1;
    expect_ok(kiln_credentials_check(&list, f.folder, NULL, false));
    tear_down(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(keys_are_written_so_that_only_we_read_them),
        test_with_arena(a_file_that_others_can_read_is_no_secret),
        test_with_arena(a_missing_file_is_named),
        test_with_arena(a_changed_file_is_read_again),
        test_with_arena(a_broken_file_leaves_the_keys_as_they_were),
        test_with_arena(a_full_disk_leaves_the_old_keys_or_the_new),
        test_with_arena(keys_that_cannot_be_read_stay_in_force),
        test_with_arena(a_reading_that_lacked_a_descriptor_is_tried_again),
        test_with_arena(a_revoked_key_is_cut_at_the_next_look),
        test_with_arena(a_revoked_key_cuts_nobody_else),
        test_with_arena(a_key_made_anew_under_its_old_name_is_another),
        test_with_arena(secrets_are_wiped_wherever_a_list_grows_or_is_freed),
        test_with_arena(a_key_is_good_on_its_last_day_and_cut_when_that_is_over),
        test_with_arena(an_expired_key_does_not_come_in),
        test_with_arena(a_revoked_key_is_called_so_in_the_log_only),
        test_with_arena(a_program_does_not_show_its_own_expired_key),
        test_with_arena(a_key_that_goes_during_the_handshake_opens_nothing),
        test_with_arena(a_unix_socket_needs_nothing),
        test_with_arena(loopback_takes_the_token_and_then_the_key),
        test_with_arena(another_machine_takes_a_key_or_consent),
        test_with_arena(every_address_wants_its_credentials),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
