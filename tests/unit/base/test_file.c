#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/test.h"

static const char *in(kiln_arena *arena, const char *folder, const char *name) {
    return kiln_arena_printf(arena, "%s/%s", folder, name);
}

static void what_is_written_is_read(void **state) {
    kiln_arena *arena = *state;
    char *folder = make_folder(arena);
    const char *path = in(arena, folder, "file");
    kiln_str content;
    expect_ok(kiln_file_write(path, KILN_STR("one\0two"), 0640));
    expect_ok(kiln_file_read(path, 100, arena, &content));
    assert_int_equal(content.size, 7);
    assert_memory_equal(content.data, "one\0two", 8);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
    expect_ok(kiln_file_write(path, KILN_STR(""), 0600));
    expect_ok(kiln_file_read(path, 0, arena, &content));
    expect_str(content, "");
    remove_folder(folder);
    assert_false(kiln_file_exists(folder));
}

static void reading_refuses_what_is_no_file_or_too_large(void **state) {
    kiln_arena *arena = *state;
    char *folder = make_folder(arena);
    const char *path = in(arena, folder, "file"), *fifo = in(arena, folder, "fifo");
    kiln_str content = {0};
    expect_error(kiln_file_read(path, 100, arena, &content), NOT_FOUND, path);
    expect_error(kiln_file_read(folder, 100, arena, &content), INVALID_ARGUMENT, folder);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    expect_error(kiln_file_read(fifo, 100, arena, &content), INVALID_ARGUMENT,
                 "not a regular file");
    expect_ok(kiln_file_write(path, KILN_STR("12345"), 0600));
    expect_error(kiln_file_read(path, 4, arena, &content), OUT_OF_RANGE, "at most 4");
    expect_error(kiln_file_read(in(arena, path, "below"), 4, arena, &content), NOT_FOUND, "below");
    assert_null(content.data);
    remove_folder(folder);
}

static void a_file_is_opened_inside_a_folder_only(void **state) {
    kiln_arena *arena = *state;
    char *folder = make_folder(arena), *inner = kiln_arena_printf(arena, "%s/inner", folder);
    int fd = -1;
    size_t size = 0;
    expect_ok(kiln_folder_create(in(arena, inner, "deep"), 0700));
    expect_ok(kiln_file_write(in(arena, inner, "deep/file"), KILN_STR("12345"), 0600));
    expect_ok(kiln_file_write(in(arena, folder, "outside"), KILN_STR("1"), 0600));
    expect_ok(kiln_file_open_inside(inner, "./deep//file", &fd, &size));
    assert_int_equal(size, 5);
    close(fd);
    assert_int_equal(mkfifo(in(arena, inner, "fifo"), 0600), 0);
    assert_int_equal(symlink("deep/file", in(arena, inner, "link")), 0);
    assert_int_equal(symlink("/dev/zero", in(arena, inner, "zero")), 0);
    static const struct {
        const char *path, *says;
    } refused[] = {{"/etc/passwd", "absolute path"},
                   {"../outside", "leaves"},
                   {"deep/../../outside", "leaves"},
                   {"link", "link"},
                   {"zero", "link"},
                   {"fifo", "not a regular file"},
                   {"deep", "not a regular file"},
                   {"", "not a regular file"},
                   {"deep/file/more", "deep/file"}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(refused); i++)
        expect_error(kiln_file_open_inside(inner, refused[i].path, &fd, &size), INVALID_ARGUMENT,
                     refused[i].says);
    expect_error(kiln_file_open_inside(inner, "none", &fd, &size), NOT_FOUND, "none is not in");
    remove_folder(folder);
}

static unsigned mode_of(const char *path) {
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    return info.st_mode & 07777;
}

static void the_umask_narrows_modes_but_not_those_of_secrets(void **state) {
    static const struct {
        unsigned umask, asked, made;
    } row[] = {{022, 0666, 0644}, {077, 0644, 0600},  {0, 0666, 0666},
               {0, 0644, 0644},   {0277, 0600, 0600}, {022, 0600, 0600}};
    kiln_arena *arena = *state;
    char *folder = make_folder(arena);
    const char *path = in(arena, folder, "file");
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        mode_t before = umask(row[i].umask);
        expect_ok(kiln_file_write(path, KILN_STR("x"), row[i].asked));
        umask(before);
        assert_int_equal(mode_of(path), row[i].made);
    }
    remove_folder(folder);
}

static void whether_a_file_can_be_written_is_known_before(void **state) {
    kiln_arena *arena = *state;
    char *folder = make_folder(arena), **names = NULL;
    size_t count = 9;
    kiln_str content = {0};
    const char *path = in(arena, folder, "file"), *fifo = in(arena, folder, "fifo");
    expect_ok(kiln_file_check_writable(path));
    expect_ok(kiln_folder_list(folder, arena, &names, &count));
    assert_int_equal(count, 0);
    expect_ok(kiln_file_write(path, KILN_STR("old"), 0600));
    expect_ok(kiln_file_check_writable(path));
    expect_ok(kiln_file_read(path, 100, arena, &content));
    expect_str(content, "old");
    expect_error(kiln_file_check_writable(folder), INVALID_ARGUMENT, "is a folder");
    expect_error(kiln_file_check_writable(in(arena, folder, "no/file")), NOT_FOUND, "no/file");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    int fd = open(fifo, O_RDWR | O_CLOEXEC);
    expect_ok(kiln_file_check_writable(fifo));
    expect_ok(kiln_file_write(fifo, KILN_STR("piped"), 0600)); /* stays a pipe */
    char got[8] = "";
    assert_int_equal(read(fd, got, sizeof got), 5);
    assert_string_equal(got, "piped");
    close(fd);
    remove_folder(folder);
}

static void failed_write_leaves_nothing_behind(void **state) {
    kiln_arena *arena = *state;
    char *folder = make_folder(arena), **names = NULL;
    size_t count = 0;
    expect_error(kiln_file_write(in(arena, folder, "no/file"), KILN_STR("x"), 0600), NOT_FOUND,
                 "no/file");
    expect_ok(kiln_folder_create(in(arena, folder, "folder/inside"), 0700));
    expect_error(kiln_file_write(in(arena, folder, "folder"), KILN_STR("x"), 0600),
                 INVALID_ARGUMENT, "folder");
    expect_ok(kiln_folder_list(folder, arena, &names, &count));
    assert_int_equal(count, 1);
    assert_string_equal(names[0], "folder");
    remove_folder(folder);
}

/* A file-size limit stands in for a full disk: both end the write half-way. */
static const char *full_path;
static void write_past_the_limit(void) {
    struct rlimit limit = {1000, 1000};
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    static char large[5000];
    kiln_status st = kiln_file_write(full_path, (kiln_str){large, sizeof large}, 0600);
    _exit(kiln_status_code(st) == KILN_RESOURCE_EXHAUSTED ? 0 : 1);
}

static void full_disk_keeps_the_old_content_and_no_litter(void **state) {
    kiln_arena *arena = *state;
    char *folder = make_folder(arena), **names = NULL;
    size_t count = 0;
    kiln_str content;
    full_path = in(arena, folder, "file");
    expect_ok(kiln_file_write(full_path, KILN_STR("old"), 0600));
    assert_int_equal(run_in_child(write_past_the_limit), 0);
    expect_ok(kiln_file_read(full_path, 100, arena, &content));
    expect_str(content, "old");
    expect_ok(kiln_folder_list(folder, arena, &names, &count));
    assert_int_equal(count, 1);
    remove_folder(folder);
}

static void folders_are_created_listed_and_removed_without_following_links(void **state) {
    kiln_arena *arena = *state;
    char *folder = make_folder(arena), *elsewhere = make_folder(arena), **names = NULL;
    size_t count = 9;
    expect_ok(kiln_folder_list(folder, arena, &names, &count));
    assert_int_equal(count, 0);
    expect_ok(kiln_folder_create(in(arena, folder, "b/c//d/"), 0700));
    expect_ok(kiln_folder_create(in(arena, folder, "b"), 0700));
    expect_ok(kiln_file_write(in(arena, folder, "a"), KILN_STR("x"), 0600));
    expect_ok(kiln_file_write(in(arena, elsewhere, "kept"), KILN_STR("x"), 0600));
    assert_int_equal(symlink(elsewhere, in(arena, folder, "c")), 0);
    expect_ok(kiln_folder_list(folder, arena, &names, &count));
    assert_int_equal(count, 3);
    assert_string_equal(names[0], "a");
    assert_string_equal(names[2], "c");
    assert_true(kiln_file_is_folder(in(arena, folder, "b/c/d")));
    assert_false(kiln_file_is_folder(in(arena, folder, "a")));
    expect_error(kiln_folder_create(in(arena, folder, "a/b"), 0700), ALREADY_EXISTS, "a");
    remove_folder(folder);
    assert_true(kiln_file_exists(in(arena, elsewhere, "kept")));
    remove_folder(elsewhere);
    expect_error(kiln_folder_remove(folder), NOT_FOUND, folder);
    expect_error(kiln_folder_list(folder, arena, &names, &count), NOT_FOUND, folder);
}

static void temporary_folders_are_private_and_different(void **state) {
    kiln_arena *arena = *state;
    char *one = make_folder(arena), *two = make_folder(arena);
    struct stat info;
    assert_string_not_equal(one, two);
    assert_int_equal(stat(one, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    remove_folder(one);
    remove_folder(two);
}

static void mapping_shows_the_file(void **state) {
    kiln_arena *arena = *state;
    char *folder = make_folder(arena);
    const char *path = in(arena, folder, "file");
    kiln_mapping mapping = {0};
    expect_error(kiln_file_map(path, &mapping), NOT_FOUND, path);
    kiln_file_unmap(&mapping);
    expect_ok(kiln_file_write(path, KILN_STR(""), 0600));
    expect_ok(kiln_file_map(path, &mapping));
    assert_int_equal(mapping.size, 0);
    kiln_file_unmap(&mapping);
    expect_ok(kiln_file_write(path, KILN_STR("mapped"), 0600));
    expect_ok(kiln_file_map(path, &mapping));
    assert_int_equal(mapping.size, 6);
    assert_memory_equal(mapping.data, "mapped", 6);
    kiln_file_unmap(&mapping);
    assert_null(mapping.data);
    remove_folder(folder);
}

static void a_locked_folder_belongs_to_one(void **state) {
    kiln_arena *arena = *state;
    char *folder = make_folder(arena);
    int first = -1, second = -1;
    expect_ok(kiln_folder_lock(folder, &first));
    expect_error(kiln_folder_lock(folder, &second), FAILED_PRECONDITION,
                 kiln_arena_printf(arena, "in use by %s (process %ld)",
                                   program_invocation_short_name, (long)getpid()));
    static const char *const others[] = {"", "one\x1b[31m\n", "a line without an end"};
    static const char *const named[] = {"another process", "another process", "a line without an"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(others); i++) { /* of another version, or damaged */
        assert_int_equal(ftruncate(first, 0), 0);
        assert_true(pwrite(first, others[i], strlen(others[i]), 0) >= 0);
        expect_error(kiln_folder_lock(folder, &second), FAILED_PRECONDITION, named[i]);
    }
    close(first);
    expect_ok(kiln_folder_lock(folder, &second));
    close(second);
    expect_error(kiln_folder_lock(in(arena, folder, "none"), &first), NOT_FOUND, "none/lock");
    remove_folder(folder);
}

/* Adds one to the number in `path`, `times` times, as programs do that share a file. */
static void count_up(kiln_arena *arena, const char *path, int times) {
    for (int i = 0; i < times; i++) {
        int lock = -1;
        uint64_t number = 0;
        kiln_str content = {0};
        expect_ok(kiln_file_lock(path, &lock));
        expect_ok(kiln_file_read(path, 100, arena, &content));
        assert_true(kiln_str_to_u64(content, &number));
        content = kiln_str_from(kiln_arena_printf(arena, "%llu", (unsigned long long)number + 1));
        expect_ok(kiln_file_write(path, content, 0600));
        close(lock);
    }
}

static void who_replaces_a_file_waits_for_the_other(void **state) {
    kiln_arena *arena = *state;
    char *folder = make_folder(arena);
    const char *path = in(arena, folder, "number");
    expect_ok(kiln_file_write(path, KILN_STR("0"), 0600));
    pid_t child[4];
    for (size_t i = 0; i < KILN_ARRAY_COUNT(child); i++) {
        child[i] = fork();
        assert_true(child[i] >= 0);
        if (child[i] == 0) {
            count_up(arena, path, 25);
            _exit(0);
        }
    }
    for (size_t i = 0; i < KILN_ARRAY_COUNT(child); i++) {
        int status = -1;
        assert_int_equal(waitpid(child[i], &status, 0), child[i]);
        assert_int_equal(status, 0);
    }
    kiln_str content = {0};
    expect_ok(kiln_file_read(path, 100, arena, &content));
    expect_str(content, "100");
    int lock = -1;
    expect_error(kiln_file_lock(in(arena, folder, "none/file"), &lock), NOT_FOUND,
                 "none/file.lock");
    remove_folder(folder);
}

static void files_of_the_system_are_read_to_their_end(void **state) {
    kiln_arena *arena = *state;
    kiln_str content;
    expect_ok(kiln_file_read_system("/proc/self/stat", arena, &content)); /* its size says 0 */
    assert_true(content.size > 20 && content.data[content.size] == '\0');
    expect_ok(
        kiln_file_read_system("/proc/self/maps", arena, &content)); /* longer than one piece */
    assert_true(kiln_str_ends(kiln_str_trim(content), "]"));
    expect_error(kiln_file_read_system("/proc/self/none", arena, &content), NOT_FOUND, "none");
}

static void a_held_folder_whose_holder_is_gone_goes_when_the_next_is_made(void **state) {
    kiln_arena *arena = *state;
    char *parent = make_folder(arena), *path[3], **left = NULL;
    int fd[3];
    size_t count = 0;
    setenv("TMPDIR", parent, 1);
    expect_ok(kiln_folder_create(kiln_arena_printf(arena, "%s/other-1", parent), 0700));
    expect_ok(kiln_folder_create(kiln_arena_printf(arena, "%s/held-test-abcdef", parent), 0700));
    for (size_t i = 0; i < 3; i++) {
        expect_ok(kiln_folder_hold_temp("held", 4096, arena, &path[i], &fd[i]));
        expect_ok(
            kiln_file_write(kiln_arena_printf(arena, "%s/file", path[i]), KILN_STR("x"), 0600));
        if (i == 0) close(fd[i]); /* as by kill -9 */
        if (i > 0) assert_false(kiln_file_exists(path[0]));
    }
    expect_ok(kiln_folder_list(parent, arena, &left, &count));
    assert_int_equal(count, 4); /* two that are held, and what is no business of ours */
    assert_true(kiln_file_exists(path[1]) && kiln_file_exists(path[2]));
    close(fd[1]);
    close(fd[2]);
    unsetenv("TMPDIR");
    remove_folder(parent);
}

static void what_another_user_left_behind_stays_where_root_sweeps(void **state) {
    kiln_arena *arena = *state;
    char *parent = make_folder(arena), *path = NULL;
    char *theirs = kiln_arena_printf(arena, "%s/held-abcdef", parent);
    int fd = -1;
    if (geteuid() != 0) skip_because("only root sweeps what others left");
    setenv("TMPDIR", parent, 1);
    expect_ok(kiln_folder_create(theirs, 0700));
    if (chown(theirs, 65534, 65534) != 0) skip_because("a container without other users");
    expect_ok(kiln_folder_hold_temp("held", 4096, arena, &path, &fd));
    assert_true(kiln_file_exists(theirs));
    close(fd);
    unsetenv("TMPDIR");
    remove_folder(parent);
}

static void a_held_folder_has_a_short_path_where_that_is_asked_for(void **state) {
    kiln_arena *arena = *state;
    char *parent = make_folder(arena), *path = NULL;
    int fd = -1;
    setenv("TMPDIR", parent, 1);
    size_t size = strlen(parent) + strlen("/held-XXXXXX");
    expect_ok(kiln_folder_hold_temp("held", size, arena, &path, &fd));
    assert_int_equal(strlen(path), size);
    close(fd);
    expect_ok(kiln_folder_hold_temp("kiln-test-held", size, arena, &path, &fd));
    assert_true(kiln_str_starts(kiln_str_from(path), "/tmp/kiln-test-held-"));
    expect_ok(kiln_folder_remove(path));
    close(fd);
    unsetenv("TMPDIR");
    remove_folder(parent);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(what_is_written_is_read),
        test_with_arena(reading_refuses_what_is_no_file_or_too_large),
        test_with_arena(a_file_is_opened_inside_a_folder_only),
        test_with_arena(the_umask_narrows_modes_but_not_those_of_secrets),
        test_with_arena(whether_a_file_can_be_written_is_known_before),
        test_with_arena(failed_write_leaves_nothing_behind),
        test_with_arena(full_disk_keeps_the_old_content_and_no_litter),
        test_with_arena(folders_are_created_listed_and_removed_without_following_links),
        test_with_arena(temporary_folders_are_private_and_different),
        test_with_arena(a_held_folder_whose_holder_is_gone_goes_when_the_next_is_made),
        test_with_arena(what_another_user_left_behind_stays_where_root_sweeps),
        test_with_arena(a_held_folder_has_a_short_path_where_that_is_asked_for),
        test_with_arena(mapping_shows_the_file),
        test_with_arena(a_locked_folder_belongs_to_one),
        test_with_arena(who_replaces_a_file_waits_for_the_other),
        test_with_arena(files_of_the_system_are_read_to_their_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
