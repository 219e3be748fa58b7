#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/file.h"
#include "tests/support/test.h"

static void a_copy_has_the_bytes_and_exactly_the_mode(void **state) {
    kiln_arena *arena = *state;
    char *folder = make_folder(arena);
    const char *from = kiln_arena_printf(arena, "%s/from", folder),
               *to = kiln_arena_printf(arena, "%s/to", folder);
    const size_t size = ((size_t)2 << 20) + 7; /* more than a piece */
    char *bytes = kiln_arena_alloc(arena, size);
    for (size_t i = 0; i < size; i++) bytes[i] = (char)(i * 31 >> 3);
    expect_ok(kiln_file_write(from, (kiln_str){bytes, size}, 0600));
    const mode_t old = umask(0077);
    uint64_t copied = 0;
    int fd = open(from, O_RDONLY);
    expect_ok(kiln_file_copy(fd, to, 0644, &copied));
    umask(old);
    assert_int_equal(copied, size);
    kiln_str content = {0};
    expect_ok(kiln_file_read(to, size, arena, &content));
    assert_int_equal(content.size, size);
    assert_memory_equal(content.data, bytes, size);
    struct stat info;
    assert_int_equal(stat(to, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0644);
    close(fd);
    remove_folder(folder);
}

static void nothing_is_overwritten_and_nothing_left_of_a_failure(void **state) {
    kiln_arena *arena = *state;
    char *folder = make_folder(arena);
    const char *from = kiln_arena_printf(arena, "%s/from", folder),
               *to = kiln_arena_printf(arena, "%s/to", folder);
    uint64_t size = 0;
    expect_ok(kiln_file_write(from, KILN_STR("text"), 0600));
    int fd = open(from, O_RDONLY);
    assert_int_equal(symlink("from", to), 0);
    expect_error(kiln_file_copy(fd, to, 0600, &size), ALREADY_EXISTS, to);
    unlink(to);
    expect_error(kiln_file_copy(fd, kiln_arena_printf(arena, "%s/none/to", folder), 0600, &size),
                 NOT_FOUND, "none/to");
    int folder_fd = open(folder, O_RDONLY);
    expect_error(kiln_file_copy(folder_fd, to, 0600, &size), INVALID_ARGUMENT, to); /* EISDIR */
    assert_false(kiln_file_exists(to));
    close(folder_fd);
    close(fd);
    remove_folder(folder);
}

static void a_mapped_copy_has_no_name(void **state) {
    kiln_arena *arena = *state;
    char *folder = make_folder(arena), **entry = NULL;
    size_t count = 1;
    kiln_mapping copy = {0};
    char before[] = "bytes of a module";
    setenv("TMPDIR", folder, 1);
    expect_ok(kiln_file_map_copy(kiln_str_from(before), &copy));
    before[0] = 'x'; /* the copy is its own */
    assert_int_equal(copy.size, sizeof before - 1);
    assert_memory_equal(copy.data, "bytes of a module", copy.size);
    expect_ok(kiln_folder_list(folder, arena, &entry, &count));
    assert_int_equal(count, 0);
    kiln_file_unmap(&copy);
    setenv("TMPDIR", kiln_arena_printf(arena, "%s/none", folder), 1);
    expect_error(kiln_file_map_copy(KILN_STR("x"), &copy), NOT_FOUND, "none");
    unsetenv("TMPDIR");
    remove_folder(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(a_copy_has_the_bytes_and_exactly_the_mode),
        test_with_arena(nothing_is_overwritten_and_nothing_left_of_a_failure),
        test_with_arena(a_mapped_copy_has_no_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
