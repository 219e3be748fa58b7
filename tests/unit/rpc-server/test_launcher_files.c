/* Replacing the program on disk: what is checked, and that each failure leaves the old one. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/file.h"
#include "rpc-server/launcher.h"
#include "rpc-server/release_archive.h"
#include "tests/support/test.h"

#define OLD_TEXT "the old program"
#define NEW_TEXT "the new program, which is longer"

typedef struct fixture {
    kiln_arena arena;
    char *folder, *program, *next, *archive;
    kiln_release release;
    kiln_release_keys keys;
    kiln_strbuf statement;
} fixture;

/* ---- An archive ---- */

static void add_member(kiln_strbuf *tar, const char *name, const char *content, char type) {
    char header[512] = {0};
    unsigned sum = 0;
    const size_t size = strlen(content);
    snprintf(header, 100, "%s", name);
    snprintf(header + 100, 8, "%07o", 0755u);
    snprintf(header + 124, 12, "%011o", (unsigned)size);
    header[156] = type;
    memcpy(header + 257, "ustar\00000", 8);
    memset(header + 148, ' ', 8);
    for (size_t i = 0; i < sizeof header; i++) sum += (unsigned char)header[i];
    snprintf(header + 148, 8, "%06o", sum);
    kiln_strbuf_append(tar, header, sizeof header);
    kiln_strbuf_append(tar, content, size);
    while (tar->size % 512) kiln_strbuf_append(tar, "", 1);
}

typedef struct plan {
    const char *manifest_version, *said_content, *member;
    char type;
    bool is_cut;
} plan;
static const plan good = {"0.2.0", NEW_TEXT, "bin/kiln-rpc-server", '0', false};

/* Writes the archive of that plan, and signs it. */
static void make_archive(fixture *f, plan p, uint8_t seed) {
    kiln_strbuf tar = {0}, manifest = {0};
    kiln_digest digest;
    char hex[KILN_DIGEST_TEXT], name[160];
    const char *arch = f->release.arch;
    kiln_digest_of(p.said_content, strlen(p.said_content), &digest);
    kiln_digest_print(&digest, hex);
    kiln_strbuf_printf(&manifest,
                       "kiln release 1\nname kiln-board\nversion %s\narch %s\nfile 755 %zu %s "
                       "bin/kiln-rpc-server\nfile 644 1 x LICENSE\n",
                       p.manifest_version, arch, strlen(p.said_content), hex);
    snprintf(name, sizeof name, "kiln-board-0.2.0-%s/MANIFEST", arch);
    add_member(&tar, name, manifest.data, '0');
    snprintf(name, sizeof name, "kiln-board-0.2.0-%s/%s", arch, p.member);
    add_member(&tar, name, NEW_TEXT, p.type);
    snprintf(name, sizeof name, "kiln-board-0.2.0-%s/LICENSE", arch);
    add_member(&tar, name, "l", '0');
    for (int i = 0; i < 1024; i++) kiln_strbuf_append(&tar, "", 1);
    const size_t room = ZSTD_compressBound(tar.size);
    char *bytes = kiln_alloc(room);
    size_t size = ZSTD_compress(bytes, room, tar.data, tar.size, 1);
    if (p.is_cut) size -= 10;
    expect_ok(kiln_file_write(f->archive, (kiln_str){bytes, size}, 0600));
    f->release.size_bytes = size;
    kiln_digest_of(bytes, size, &f->release.digest);
    const uint8_t key[KILN_SIGN_SEED_BYTES] = {seed};
    kiln_signer *signer = NULL;
    expect_ok(kiln_signer_create(key, &signer));
    f->statement.size = 0;
    expect_ok(kiln_release_sign(&f->release, signer, &f->statement));
    kiln_signer_destroy(signer);
    kiln_free(bytes);
    kiln_strbuf_deinit(&tar);
    kiln_strbuf_deinit(&manifest);
}

static int set_up(void **state) {
    if (!kiln_sign_supported()) return 0;
    fixture *f = kiln_alloc(sizeof *f);
    const uint8_t seed[KILN_SIGN_SEED_BYTES] = {1};
    kiln_arena_init(&f->arena, 0);
    expect_ok(kiln_folder_create_temp("kiln-test-", &f->arena, &f->folder));
    f->program = kiln_arena_printf(&f->arena, "%s/server", f->folder);
    f->next = kiln_arena_printf(&f->arena, "%s.next", f->program);
    f->archive = kiln_arena_printf(&f->arena, "%s/archive", f->folder);
    expect_ok(kiln_file_write(f->program, KILN_STR(OLD_TEXT), 0700));
    assert_int_equal(chmod(f->program, 0750), 0);
    f->release = (kiln_release){.name = "kiln-board", .version = "0.2.0"};
    snprintf(f->release.arch, sizeof f->release.arch, "%s", kiln_release_arch());
    f->keys.count = 1;
    expect_ok(kiln_sign_public_of(seed, &f->keys.key[0]));
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    if (!f) return 0;
    kiln_fail_io_nth(0);
    expect_ok(kiln_folder_remove(f->folder));
    kiln_strbuf_deinit(&f->statement);
    kiln_arena_deinit(&f->arena);
    kiln_free(f);
    return 0;
}

static fixture *the(void **state) {
    if (!*state) skip_because("this build cannot sign");
    return *state;
}

static kiln_status install(fixture *f) {
    const int fd = open(f->archive, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    kiln_status st =
        kiln_launcher_install(f->program, f->next, &f->keys, kiln_strbuf_view(&f->statement), fd);
    close(fd);
    return st;
}

static void expect_content(fixture *f, const char *path, const char *text) {
    kiln_str content;
    expect_ok(kiln_file_read(path, 4096, &f->arena, &content));
    expect_str(content, text);
}

/* Nothing but the old program and the archive. */
static void expect_untouched(fixture *f) {
    char **name = NULL;
    size_t count = 0;
    expect_ok(kiln_folder_list(f->folder, &f->arena, &name, &count));
    assert_int_equal(count, 2);
    expect_content(f, f->program, OLD_TEXT);
}

static void expect_refused(fixture *f, kiln_code code, const char *text) {
    kiln_status st = install(f);
    assert_int_equal(kiln_status_code(st), code);
    expect_contains(kiln_status_text(st), text);
    kiln_status_free(st);
    expect_untouched(f);
}

static void a_release_is_unpacked_and_takes_the_programs_place(void **state) {
    fixture *f = the(state);
    struct stat now;
    make_archive(f, good, 1);
    expect_ok(install(f));
    expect_content(f, f->next, NEW_TEXT);
    expect_content(f, f->program, OLD_TEXT);
    expect_ok(kiln_launcher_commit(f->program, f->next));
    expect_content(f, f->program, NEW_TEXT);
    expect_content(f, kiln_arena_printf(&f->arena, "%s.previous", f->program), OLD_TEXT);
    assert_false(kiln_file_exists(f->next));
    assert_int_equal(stat(f->program, &now), 0);
    assert_int_equal(now.st_mode & 0777, 0750);
    expect_ok(install(f)); /* and once more */
    expect_ok(kiln_launcher_commit(f->program, f->next));
    expect_content(f, kiln_arena_printf(&f->arena, "%s.previous", f->program), NEW_TEXT);
}

static void only_what_a_trusted_key_signed_is_unpacked(void **state) {
    fixture *f = the(state);
    make_archive(f, good, 2);
    expect_refused(f, KILN_PERMISSION_DENIED, "no release key here");
    make_archive(f, good, 1);
    f->statement.data[f->statement.size - 3] ^= 1; /* a digit of the signature */
    kiln_status st = install(f);
    assert_true(kiln_status_code(st) == KILN_PERMISSION_DENIED ||
                kiln_status_code(st) == KILN_INVALID_ARGUMENT);
    kiln_status_free(st);
    expect_untouched(f);
    make_archive(f, good, 1);
    f->keys.count = 0;
    expect_refused(f, KILN_PERMISSION_DENIED, "no release key here");
}

static void another_archive_than_the_signed_one_is_refused(void **state) {
    fixture *f = the(state);
    make_archive(f, good, 1);
    kiln_str content;
    expect_ok(kiln_file_read(f->archive, 65536, &f->arena, &content));
    char *bytes = kiln_arena_copy(&f->arena, content.data, content.size);
    bytes[content.size / 2] ^= 1;
    expect_ok(kiln_file_write(f->archive, (kiln_str){bytes, content.size}, 0600));
    expect_refused(f, KILN_DATA_LOSS, "not the one that was signed");
    expect_ok(kiln_file_write(f->archive, kiln_str_slice(content, 0, content.size - 1), 0600));
    expect_refused(f, KILN_DATA_LOSS, "not the one that was signed");
}

static void a_release_for_another_processor_is_refused(void **state) {
    fixture *f = the(state);
    const bool is_arm = strcmp(kiln_release_arch(), "aarch64") == 0;
    snprintf(f->release.arch, sizeof f->release.arch, "%s", is_arm ? "x86_64" : "aarch64");
    make_archive(f, good, 1);
    expect_refused(f, KILN_INVALID_ARGUMENT, "the release is for");
}

static void signed_archives_of_another_form_are_refused(void **state) {
    fixture *f = the(state);
    plan p = good;
    p.member = "bin/kiln-run";
    make_archive(f, p, 1);
    expect_refused(f, KILN_NOT_FOUND, "the archive has 0 bin/kiln-rpc-server");
    p = good;
    p.said_content = "another content";
    make_archive(f, p, 1);
    expect_refused(f, KILN_DATA_LOSS, "not what the archive's manifest says");
    p = good;
    p.manifest_version = "0.1.0";
    make_archive(f, p, 1);
    expect_refused(f, KILN_INVALID_ARGUMENT, "manifest is not that of kiln-board 0.2.0");
    p = good;
    p.type = '2'; /* a link */
    make_archive(f, p, 1);
    expect_refused(f, KILN_INVALID_ARGUMENT, "a member that releases do not have");
    p = good;
    p.is_cut = true;
    make_archive(f, p, 1);
    expect_refused(f, KILN_DATA_LOSS, "has no end");
}

/* However many writes succeed before the disk is full. */
static void a_full_disk_leaves_the_old_program(void **state) {
    fixture *f = the(state);
    make_archive(f, good, 1);
    const uint64_t before = kiln_fail_io_count();
    expect_ok(install(f));
    const uint64_t installs = kiln_fail_io_count() - before;
    assert_int_equal(unlink(f->next), 0);
    assert_true(installs >= 3);
    for (uint64_t nth = 1; nth <= installs; nth++) {
        kiln_fail_io_nth(nth);
        kiln_status st = install(f);
        assert_int_equal(kiln_status_code(st), KILN_RESOURCE_EXHAUSTED);
        kiln_status_free(st);
        expect_untouched(f);
    }
    kiln_fail_io_nth(0);
    for (uint64_t nth = 1; nth <= 3; nth++) {
        expect_ok(install(f));
        kiln_fail_io_nth(nth);
        kiln_status st = kiln_launcher_commit(f->program, f->next);
        assert_int_equal(kiln_status_code(st), KILN_RESOURCE_EXHAUSTED);
        kiln_status_free(st);
        expect_content(f, f->program, OLD_TEXT);
    }
}

static void a_file_of_keys_is_read_and_errors_name_it(void **state) {
    fixture *f = the(state);
    kiln_release_keys keys;
    char *path = kiln_arena_printf(&f->arena, "%s/keys", f->folder);
    kiln_status st = kiln_launcher_read_keys(path, &keys);
    assert_int_equal(kiln_status_code(st), KILN_NOT_FOUND);
    expect_contains(kiln_status_text(st), path);
    kiln_status_free(st);
    expect_ok(kiln_file_write(path, KILN_STR("# none yet\n"), 0600));
    expect_ok(kiln_launcher_read_keys(path, &keys));
    assert_int_equal(keys.count, 0);
}

#define test(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        test(a_release_is_unpacked_and_takes_the_programs_place),
        test(only_what_a_trusted_key_signed_is_unpacked),
        test(another_archive_than_the_signed_one_is_refused),
        test(a_release_for_another_processor_is_refused),
        test(signed_archives_of_another_form_are_refused),
        test(a_full_disk_leaves_the_old_program),
        test(a_file_of_keys_is_read_and_errors_name_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
