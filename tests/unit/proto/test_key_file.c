#include <dirent.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fail.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/rand.h"
#include "tests/support/test.h"
#include "tests/unit/proto/locked.h"

#define SECRET "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

typedef struct fixture {
    char *folder, *path;
} fixture;

static void set_up(fixture *f, kiln_arena *arena) {
    f->folder = make_folder(arena);
    f->path = kiln_arena_printf(arena, "%s/keys", f->folder);
}

static void tear_down(fixture *f) { remove_folder(f->folder); }

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
        test_with_arena(a_full_disk_leaves_the_old_keys_or_the_new),
        test_with_arena(secrets_are_wiped_wherever_a_list_grows_or_is_freed),
        test_with_arena(a_program_does_not_show_its_own_expired_key),
        test_with_arena(a_unix_socket_needs_nothing),
        test_with_arena(loopback_takes_the_token_and_then_the_key),
        test_with_arena(another_machine_takes_a_key_or_consent),
        test_with_arena(every_address_wants_its_credentials),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
