/* An isolated function computes and gives back bytes; whatever else it tries fails, and however it
 * ends its caller gets one status. */
#include "base/isolated/isolated.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/macros.h"
#include "tests/support/test.h"

typedef kiln_status (*function)(void *context, kiln_arena *arena, kiln_isolated_result *out);

static kiln_status run(function f, void *context, const kiln_isolated_limits *limits,
                       kiln_mapping *out) {
    const kiln_isolated_work work = {.what = "the test",
                                     .run = f,
                                     .context = context,
                                     .limits = limits ? *limits : (kiln_isolated_limits){0}};
    return kiln_isolated_run(&work, out);
}

static kiln_status gives_parts(void *context, kiln_arena *arena, kiln_isolated_result *out) {
    kiln_str *part = KILN_ARENA_ARRAY(arena, kiln_str, 3);
    part[0] = kiln_str_from(context);
    part[1] = KILN_STR("");
    part[2] = KILN_STR("\0end");
    *out = (kiln_isolated_result){3, part};
    return KILN_OK;
}

static void what_it_gives_arrives(void **state) {
    (void)state;
    kiln_mapping result = {0};
    expect_ok(run(gives_parts, "begin", NULL, &result));
    assert_int_equal(result.size, 9);
    assert_memory_equal(result.data, "begin\0end", 9);
    kiln_file_unmap(&result);
}

static kiln_status gives_nothing(void *context, kiln_arena *arena, kiln_isolated_result *out) {
    (void)context, (void)arena, (void)out;
    return KILN_OK;
}

static kiln_status says_why(void *context, kiln_arena *arena, kiln_isolated_result *out) {
    (void)context, (void)arena, (void)out;
    return KILN_ERROR(UNIMPLEMENTED, "two findings:\n  one\n  two");
}

static void its_status_is_the_callers(void **state) {
    (void)state;
    kiln_mapping result = {0};
    expect_ok(run(gives_nothing, NULL, NULL, &result));
    assert_int_equal(result.size, 0);
    expect_error(run(says_why, NULL, NULL, &result), UNIMPLEMENTED, "two findings:\n  one\n  two");
}

/* ---- what it may not ---- */

static kiln_status failed(const char *what) {
    return KILN_ERROR(FAILED_PRECONDITION, "it could: %s", what);
}

static kiln_status tries(void *context, kiln_arena *arena, kiln_isolated_result *out) {
    (void)arena, (void)out;
    const char *secret = context;
    if (open("/proc/self/environ", O_RDONLY) >= 0) return failed("read its environment");
    if (open("/etc/passwd", O_RDONLY) >= 0) return failed("read a file");
    if (open("/tmp/kiln-isolated-wrote", O_WRONLY | O_CREAT, 0600) >= 0)
        return failed("write a file");
    if (socket(AF_INET, SOCK_STREAM, 0) >= 0) return failed("make a socket");
    if (socket(AF_UNIX, SOCK_STREAM, 0) >= 0) return failed("make a local socket");
    if (fork() >= 0) return failed("start a process");
    if (execl("/bin/true", "true", (char *)NULL) == 0) return failed("run a program");
    if (kill(getppid(), 0) == 0) return failed("signal its parent");
    if (ptrace(PTRACE_ATTACH, getppid(), NULL, NULL) == 0) return failed("trace its parent");
    if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
        return failed("make code");
    for (int fd = 3; fd < 64; fd++)
        if (write(fd, "x", 1) >= 0 || errno != EBADF) return failed("use a descriptor");
    if (getenv("KILN_TEST_SECRET") || memmem(secret, strlen("NAME=wide open"), "wide", 4))
        return failed("see the environment");
    return KILN_OK;
}

static void it_can_do_nothing_else(void **state) {
    (void)state;
    extern char **environ;
    kiln_mapping result = {0};
    int ends[2];
    char variable[] = "NAME=wide open", *before = environ[0];
    setenv("KILN_TEST_SECRET", "s3cret", 1);
    assert_int_equal(pipe(ends), 0);
    environ[0] = variable;
    expect_ok(run(tries, variable, NULL, &result));
    environ[0] = before;
    assert_string_equal(variable, "NAME=wide open"); /* ours is as it was */
    assert_string_equal(getenv("KILN_TEST_SECRET"), "s3cret");
    close(ends[0]);
    close(ends[1]);
}

/* ---- how it may end ---- */

KILN_NORETURN static kiln_status takes_memory(void *context, kiln_arena *arena,
                                              kiln_isolated_result *out) {
    (void)context, (void)arena, (void)out;
    for (;;) memset(kiln_alloc((size_t)16 << 20), 1, (size_t)16 << 20);
}

KILN_NORETURN static kiln_status takes_time(void *context, kiln_arena *arena,
                                            kiln_isolated_result *out) {
    (void)context, (void)arena, (void)out;
    for (volatile uint64_t i = 0;; i++) {}
}

KILN_NORETURN static kiln_status dies(void *context, kiln_arena *arena, kiln_isolated_result *out) {
    (void)context, (void)arena, (void)out;
    dprintf(STDERR_FILENO, "a bug\x1b[2J\nand more\n");
    abort();
}

KILN_NORETURN static kiln_status leaves(void *context, kiln_arena *arena,
                                        kiln_isolated_result *out) {
    (void)context, (void)arena, (void)out;
    _exit(3);
}

static kiln_status fills_its_errors(void *context, kiln_arena *arena, kiln_isolated_result *out) {
    (void)context, (void)arena, (void)out;
    static const char much[65536];
    for (int i = 0; i < 100; i++)
        if (write(STDERR_FILENO, much, sizeof much) < 0 && errno != EAGAIN)
            return failed("see errors");
    return KILN_OK;
}

#ifdef __x86_64__
/* Tiles of AMX are there for whoever asks; nothing else of that call is. */
static void compilers_ask_for_tiles(void **state) {
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18, GET_CPUID = 0x1011 };
    (void)state;
    int code = -1;
    const pid_t child = fork();
    if (child == 0) {
        const kiln_status st =
            kiln_isolated_drop_rights(KILN_ISOLATED_COMPILE, 2, &(kiln_isolated_limits){0});
        errno = 0;
        const bool refused =
            syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) != 0 && errno == EPERM;
        const bool other = syscall(SYS_arch_prctl, GET_CPUID, 0) < 0 && errno == EPERM;
        _exit(st || refused || !other);
    }
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_true(WIFEXITED(code) && WEXITSTATUS(code) == 0);
}
#endif

static void however_it_ends_there_is_one_status(void **state) {
    (void)state;
    kiln_mapping result = {0};
    const kiln_isolated_limits little = {.memory_bytes = (uint64_t)256 << 20, .cpu_s = 1};
    if (!KILN_SANITIZED)
        expect_error(run(takes_memory, NULL, &little, &result), RESOURCE_EXHAUSTED,
                     "the test takes more than 256 MiB of memory (--model-memory allows more)");
    expect_error(run(takes_time, NULL, &little, &result), DEADLINE_EXCEEDED,
                 "the test takes more than 1 s of processor time");
    expect_error(run(dies, NULL, NULL, &result), INTERNAL,
                 "the test: its process died of signal 6: a bug\\x1b[2J");
    expect_error(run(leaves, NULL, NULL, &result), INTERNAL, "the test: its process ended with 3");
    expect_ok(run(fills_its_errors, NULL, NULL, &result));
    expect_ok(run(gives_nothing, NULL, NULL, &result)); /* and the next one works */
}

/* ---- files that its parent opens ---- */

static kiln_status reads(void *context, kiln_arena *arena, kiln_isolated_result *out) {
    int fd = -1;
    size_t size = 0;
    kiln_status st = kiln_isolated_open(context, &fd, &size);
    if (st) return st;
    char *data = kiln_arena_alloc(arena, size);
    kiln_str *part = KILN_ARENA_ARRAY(arena, kiln_str, 1);
    if (pread(fd, data, size, 0) != (ssize_t)size) return failed("open but not read");
    close(fd);
    *part = (kiln_str){data, size};
    *out = (kiln_isolated_result){1, part};
    return KILN_OK;
}

static void files_of_its_folder_are_opened_for_it(void **state) {
    kiln_arena *arena = *state;
    kiln_mapping result = {0};
    char *folder = make_folder(arena);
    expect_ok(
        kiln_file_write(kiln_arena_printf(arena, "%s/w.bin", folder), KILN_STR("weights"), 0600));
    kiln_isolated_work work = {
        .what = "the test", .run = reads, .context = "w.bin", .folder = folder};
    expect_ok(kiln_isolated_run(&work, &result));
    assert_int_equal(result.size, 7);
    kiln_file_unmap(&result);
    work.context = "../w.bin";
    expect_error(kiln_isolated_run(&work, &result), INVALID_ARGUMENT, "leaves");
    work.context = "/etc/passwd";
    expect_error(kiln_isolated_run(&work, &result), INVALID_ARGUMENT, "absolute");
    work.context = "none";
    expect_error(kiln_isolated_run(&work, &result), NOT_FOUND, "none");
    work.folder = NULL;
    expect_error(kiln_isolated_run(&work, &result), PERMISSION_DENIED, "there are no files here");
    remove_folder(folder);
}

/* ---- what it asks, and when it begins ---- */

typedef struct talk {
    kiln_isolated_work work;
    const char *secret; /* NULL until the caller learns it */
} talk;

static kiln_status asks(void *context, kiln_arena *arena, kiln_isolated_result *out) {
    const talk *t = context;
    kiln_str *part = KILN_ARENA_ARRAY(arena, kiln_str, 2);
    if (t->secret) return failed("see what its caller learnt");
    kiln_status st = kiln_isolated_ask(&t->work, "a question", arena, &part[0]);
    if (!st) st = kiln_isolated_ask(&t->work, "much", arena, &part[1]);
    if (st) return st;
    kiln_str none;
    expect_error(kiln_isolated_ask(&t->work, "nothing", arena, &none), NOT_FOUND, "there is none");
    *out = (kiln_isolated_result){2, part};
    return KILN_OK;
}

#define MUCH ((size_t)3 << 20)

static kiln_status answers(void *context, kiln_str question, kiln_strbuf *out) {
    const talk *t = context;
    if (kiln_str_is(question, "nothing")) return KILN_ERROR(NOT_FOUND, "there is none");
    if (!kiln_str_is(question, "much"))
        kiln_strbuf_printf(out, "%.*s: %s", KILN_STR_ARG(question),
                           t->secret ? t->secret : "(null)");
    else
        for (size_t i = 0; i < MUCH; i++) kiln_strbuf_char(out, 'x');
    return KILN_OK;
}

static void it_asks_its_caller_and_sees_no_more_of_it(void **state) {
    (void)state;
    for (int in_process = 0; in_process < 2; in_process++) {
        talk t = {.work = {.what = "the test", .run = asks, .answer = answers}};
        kiln_mapping result = {0};
        kiln_isolated_process *process = NULL;
        t.work.context = &t;
        t.work.in_process = in_process;
        expect_ok(kiln_isolated_start(&t.work, &process));
        if (!in_process) t.secret = "s3cret"; /* it waits: it has not looked yet */
        expect_ok(kiln_isolated_finish(process, &result));
        const char *first = in_process ? "a question: (null)" : "a question: s3cret";
        assert_int_equal(result.size, strlen(first) + MUCH);
        assert_memory_equal(result.data, first, strlen(first));
        kiln_file_unmap(&result);
    }
    talk silent = {.work = {.what = "the test", .run = asks}};
    silent.work.context = &silent;
    kiln_mapping none;
    expect_error(kiln_isolated_run(&silent.work, &none), PERMISSION_DENIED, "nothing is answered");
}

/* ---- what it shows ---- */

typedef struct show {
    kiln_isolated_work work;
    uint32_t looks; /* the caller's */
} show;

static kiln_status shows(void *context, kiln_arena *arena, kiln_isolated_result *out) {
    const show *s = context;
    kiln_str part[2] = {KILN_STR("much "), KILN_STR("of it")}, answer = {0};
    kiln_status st = kiln_isolated_show(&s->work, &(kiln_isolated_result){2, part}, arena, &answer);
    if (!st && !kiln_str_is(answer, "10 bytes"))
        return KILN_ERROR(INTERNAL, "it said %.*s", KILN_STR_ARG(answer));
    part[0] = KILN_STR("less");
    if (!st) st = kiln_isolated_show(&s->work, &(kiln_isolated_result){1, part}, arena, &answer);
    if (!st && !kiln_str_is(answer, "4 bytes"))
        return KILN_ERROR(INTERNAL, "it said %.*s", KILN_STR_ARG(answer));
    if (st) return st;
    part[0] = KILN_STR("bad");
    expect_error(kiln_isolated_show(&s->work, &(kiln_isolated_result){1, part}, arena, &answer),
                 NOT_FOUND, "nothing like it");
    out->part = kiln_arena_copy(arena, part, sizeof part[0]);
    out->part_count = 1;
    return KILN_OK;
}

static kiln_status looks(void *context, kiln_str bytes, kiln_strbuf *out) {
    show *s = context;
    static const char *const expected[] = {"much of it", "less", "bad"};
    assert_true(s->looks < KILN_ARRAY_COUNT(expected));
    assert_true(kiln_str_is(bytes, expected[s->looks]));
    if (++s->looks == KILN_ARRAY_COUNT(expected)) return KILN_ERROR(NOT_FOUND, "nothing like it");
    kiln_strbuf_printf(out, "%zu bytes", bytes.size);
    return KILN_OK;
}

static void it_shows_bytes_and_gives_others(void **state) {
    (void)state;
    for (int in_process = 0; in_process < 2; in_process++) {
        kiln_mapping result = {0};
        show s = {
            .work = {.what = "the test", .run = shows, .look = looks, .in_process = in_process}};
        s.work.context = &s;
        expect_ok(kiln_isolated_run(&s.work, &result));
        assert_int_equal(s.looks, 3);
        assert_int_equal(result.size, 3);
        assert_memory_equal(result.data, "bad", 3);
        kiln_file_unmap(&result);
    }
    show blind = {.work = {.what = "the test", .run = shows}};
    kiln_mapping none = {0};
    blind.work.context = &blind;
    expect_error(kiln_isolated_run(&blind.work, &none), PERMISSION_DENIED, "nothing is looked at");
}

static void one_that_is_not_wanted_ends(void **state) {
    (void)state;
    talk t = {.work = {.what = "the test", .run = asks}};
    kiln_isolated_process *process = NULL;
    expect_ok(kiln_isolated_start(&t.work, &process));
    kiln_isolated_cancel(process);
    kiln_isolated_cancel(NULL);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* nothing is left of it */
}

static kiln_status steps(void *context, kiln_arena *arena, kiln_isolated_result *out) {
    const talk *t = context;
    kiln_isolated_step(&t->work, "kernel one");
    kiln_isolated_step(&t->work, "kernel\x1b two");
    if (t->work.step_s) return takes_time(context, arena, out);
    return dies(context, arena, out);
}

static void errors_name_the_step(void **state) {
    (void)state;
    talk t = {.work = {.what = "the test", .run = steps}};
    kiln_mapping result = {0};
    t.work.context = &t;
    expect_error(kiln_isolated_run(&t.work, &result), INTERNAL,
                 "the test: kernel\\x1b two: its process died of signal 6: a bug");
    t.work.step_s = 1;
    expect_error(kiln_isolated_run(&t.work, &result), DEADLINE_EXCEEDED,
                 "the test: kernel\\x1b two takes more than 1 s");
}

static kiln_status gives_much(void *context, kiln_arena *arena, kiln_isolated_result *out) {
    (void)context;
    static const char piece[1 << 20];
    kiln_str *part = KILN_ARENA_ARRAY(arena, kiln_str, 300);
    for (int i = 0; i < 300; i++) part[i] = (kiln_str){piece, sizeof piece};
    *out = (kiln_isolated_result){300, part};
    return KILN_OK;
}

static void what_it_gives_is_memory_too(void **state) {
    (void)state;
    kiln_mapping result = {0};
    const kiln_isolated_limits little = {.memory_bytes = (uint64_t)256 << 20};
    expect_error(run(gives_much, NULL, &little, &result), RESOURCE_EXHAUSTED,
                 "the test takes more than 256 MiB of memory");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_it_gives_arrives),
        cmocka_unit_test(it_asks_its_caller_and_sees_no_more_of_it),
        cmocka_unit_test(it_shows_bytes_and_gives_others),
        cmocka_unit_test(one_that_is_not_wanted_ends),
        cmocka_unit_test(errors_name_the_step),
        cmocka_unit_test(what_it_gives_is_memory_too),
        cmocka_unit_test(its_status_is_the_callers),
        cmocka_unit_test(it_can_do_nothing_else),
#ifdef __x86_64__
        cmocka_unit_test(compilers_ask_for_tiles),
#endif
        cmocka_unit_test(however_it_ends_there_is_one_status),
        test_with_arena(files_of_its_folder_are_opened_for_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
