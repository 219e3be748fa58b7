/* The helper, asked what it may be asked, and much that it may not: it answers each, and does
 * nothing of the latter. This program is its own helper and child. */
#include "rpc-server/helper.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fence.h"
#include "base/file.h"
#include "base/proc.h"
#include "base/rand.h"
#include "rpc-server/child_protocol.h"
#include "rpc-server/helper_filter.h"
#include "rpc-server/helper_request.h"
#include "rpc-server/helper_socket.h"
#include "rpc-server/privilege.h"
#include "rpc-server/sandbox.h"
#include "tests/support/test.h"

#define GRACE_MS 60000

static const char *the_program;

typedef struct fixture {
    kiln_arena arena;
    kiln_helper *helper;
    char *folder;
} fixture;

static void open_helper_with(fixture *f, const char *tracker, const char *power) {
    kiln_helper_options options = {
        .program = the_program, .home = f->folder, .power = power, .board = "desk"};
    if (tracker) expect_ok(kiln_addresses_parse(kiln_str_from(tracker), &options.tracker));
    expect_ok(kiln_helper_open(&options, &f->helper));
}

static void open_helper(fixture *f, const char *tracker) { open_helper_with(f, tracker, "exit 3"); }

static int set_up(void **state) {
    static fixture the_fixture;
    fixture *f = &the_fixture;
    kiln_arena_init(&f->arena, 0);
    expect_ok(kiln_folder_create_temp("kiln-helper-test", &f->arena, &f->folder));
    open_helper(f, kiln_arena_printf(&f->arena, "unix:%s/socket,127.0.0.1:1", f->folder));
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    kiln_helper_close(f->helper);
    expect_ok(kiln_folder_remove(f->folder));
    kiln_arena_deinit(&f->arena);
    return 0;
}

static const char *proc(fixture *f, pid_t pid, const char *name) {
    return kiln_arena_printf(&f->arena, "/proc/%d/%s", (int)pid, name);
}

/* Pids of the helper's children, alive or not yet reaped. */
static uint32_t list_children(fixture *f, uint64_t *out_pid, uint32_t max) {
    kiln_str text;
    const pid_t pid = kiln_helper_pid(f->helper);
    uint32_t count = 0;
    expect_ok(kiln_file_read_system(
        kiln_arena_printf(&f->arena, "/proc/%d/task/%d/children", (int)pid, (int)pid), &f->arena,
        &text));
    while (count < max && kiln_str_to_u64(kiln_str_cut(&text, ' '), &out_pid[count])) count++;
    return count;
}

static uint32_t count_entries(const char *path) {
    DIR *folder = opendir(path);
    uint32_t count = 0;
    assert_non_null(folder);
    while (readdir(folder)) count++;
    closedir(folder);
    return count;
}

static void await_end(const kiln_held *child) {
    struct pollfd ended = {.fd = child->pidfd, .events = POLLIN};
    assert_int_equal(poll(&ended, 1, GRACE_MS), 1);
}

/* ---- What may be asked ---- */

static void a_child_is_started_ended_and_forgotten(void **state) {
    fixture *f = *state;
    kiln_held child;
    int socket = -1;
    uint32_t fences = 0;
    expect_ok(kiln_helper_start(f->helper, NULL, &socket, &child));
    expect_ok(kiln_child_await_ready(socket, &fences));
    kiln_helper_keep_to(f->helper, child.number, (const uint32_t[]){0}, 1);
    assert_false(kiln_helper_look(f->helper, child.number).ended);
    kiln_helper_kill(f->helper, child.number);
    await_end(&child);
    const kiln_helper_seen seen = kiln_helper_look(f->helper, child.number);
    assert_true(seen.ended && seen.gone);
    assert_int_equal(seen.exit.signal, SIGKILL);
    kiln_helper_release(f->helper, child.number);
    /* Its number is not one any more. */
    assert_true(kiln_helper_look(f->helper, child.number).exit.signal == SIGKILL);
    close(socket);
    close(child.pidfd);
}

static void without_descriptors_there_is_no_child_and_none_is_lost(void **state) {
    fixture *f = *state;
    struct rlimit limit;
    kiln_held child;
    int socket = -1;
    const uint32_t before = count_entries("/proc/self/fd");
    const int next = dup(STDIN_FILENO);
    close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    for (int more = 0; more < 2; more++) { /* a socket has two ends */
        const struct rlimit low = {(rlim_t)(next + more), limit.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
        kiln_status st = kiln_helper_start(f->helper, NULL, &socket, &child);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        expect_error(st, RESOURCE_EXHAUSTED, "socket");
        assert_int_equal(count_entries("/proc/self/fd"), before);
    }
    expect_ok(kiln_helper_start(f->helper, NULL, &socket, &child));
    close(socket);
    close(child.pidfd);
}

static void there_are_no_more_children_than_places(void **state) {
    fixture *f = *state;
    int socket[KILN_HELPER_CHILDREN_MAX + 1];
    kiln_held child[KILN_HELPER_CHILDREN_MAX + 1];
    for (uint32_t i = 0; i < KILN_HELPER_CHILDREN_MAX; i++)
        expect_ok(kiln_helper_start(f->helper, NULL, &socket[i], &child[i]));
    expect_error(kiln_helper_start(f->helper, NULL, &socket[KILN_HELPER_CHILDREN_MAX],
                                   &child[KILN_HELPER_CHILDREN_MAX]),
                 RESOURCE_EXHAUSTED, "too many");
    for (uint32_t i = 0; i < KILN_HELPER_CHILDREN_MAX; i++) {
        kiln_helper_kill(f->helper, child[i].number);
        await_end(&child[i]);
        kiln_helper_release(f->helper, child[i].number);
        close(socket[i]);
        close(child[i].pidfd);
    }
    expect_ok(kiln_helper_start(f->helper, NULL, &socket[0], &child[0]));
    close(socket[0]);
    close(child[0].pidfd);
}

static void a_tracker_is_reached_through_it(void **state) {
    fixture *f = *state;
    kiln_loop *loop = NULL;
    kiln_listener *listener = NULL;
    int fd = -1;
    static const kiln_conn_handler handler = {0};
    expect_error(kiln_helper_connect(f->helper, 0, &fd), UNAVAILABLE, "/socket");
    expect_error(kiln_helper_connect(f->helper, 1, &fd), INVALID_ARGUMENT, "not a Unix socket");
    expect_ok(kiln_loop_create(&loop));
    kiln_listen_options options = {.boot = "b", .software = "s", .handler = &handler};
    expect_ok(
        kiln_address_parse(kiln_str_from(kiln_arena_printf(&f->arena, "unix:%s/socket", f->folder)),
                           &options.address));
    expect_ok(kiln_net_listen(loop, &options, &listener));
    expect_ok(kiln_helper_connect(f->helper, 0, &fd));
    struct sockaddr_storage name;
    socklen_t size = sizeof name;
    assert_int_equal(getpeername(fd, (struct sockaddr *)&name, &size), 0);
    assert_int_equal(name.ss_family, AF_UNIX);
    close(fd);
    kiln_listener_close(listener);
    kiln_loop_destroy(loop);
}

static void credentials_are_read_anew_each_time(void **state) {
    fixture *f = *state;
    kiln_credentials credentials = {0};
    uint8_t token[KILN_TOKEN_BYTES];
    expect_error(kiln_helper_credentials(f->helper, 1, &credentials), NOT_FOUND, "token");
    expect_ok(kiln_token_read(f->folder, true, token));
    expect_ok(kiln_helper_credentials(f->helper, 1, &credentials));
    assert_true(credentials.has_token);
    assert_memory_equal(credentials.token, token, sizeof token);
}

static void the_key_file_is_replaced_by_its_next_generation_only(void **state) {
    fixture *f = *state;
    kiln_keys keys = {0};
    const kiln_key *added = NULL;
    kiln_key key;
    expect_ok(kiln_key_name_parse(KILN_STR("board/rpi/1"), &key));
    kiln_strbuf path = {0};
    kiln_strbuf_printf(&path, "%s/key", f->folder);
    expect_ok(kiln_keys_add(&keys, &key, &added));
    expect_ok(kiln_keys_write(path.data, &keys));
    kiln_keys_deinit(&keys);
    key.generation = 3;
    key.last_day = 50000;
    memset(key.secret, 7, sizeof key.secret);
    expect_ok(kiln_helper_take_key(f->helper, &key));
    expect_ok(kiln_keys_read(path.data, &keys));
    assert_int_equal(keys.key.count, 1);
    assert_int_equal(keys.key.data[0].generation, 3);
    assert_int_equal(keys.key.data[0].secret[5], 7);
    assert_int_equal(keys.key.data[0].last_day, 50000);
    kiln_keys_deinit(&keys);
    key.generation = 4;
    memcpy(key.node, "eve", 4);
    expect_error(kiln_helper_take_key(f->helper, &key), FAILED_PRECONDITION, "another node");
    kiln_strbuf_deinit(&path);
}

static void a_power_cycle_runs_alone(void **state) {
    fixture *f = *state;
    kiln_held first, second;
    expect_ok(kiln_helper_power(f->helper, "it\nhangs", &first));
    expect_error(kiln_helper_power(f->helper, "it hangs", &second), FAILED_PRECONDITION, "already");
    await_end(&first);
    const kiln_helper_seen seen = kiln_helper_look(f->helper, first.number);
    assert_int_equal(seen.exit.code, 3);
    kiln_helper_release(f->helper, first.number);
    close(first.pidfd);
    expect_ok(kiln_helper_power(f->helper, "again", &second));
    close(second.pidfd);
}

/* ---- What it and its children see ---- */

static void nothing_of_our_environment_and_descriptors_goes_on(void **state) {
    fixture *f = *state;
    uint64_t pid[8] = {(uint64_t)kiln_helper_pid(f->helper)};
    kiln_held child;
    int socket = -1;
    uint32_t fences = 0;
    kiln_helper_close(f->helper);
    assert_int_equal(setenv("DB_PASSWORD", "hunter2", 1), 0);
    const int secret = dup(STDIN_FILENO); /* not closed by exec */
    open_helper(f, NULL);
    expect_ok(kiln_helper_start(f->helper, NULL, &socket, &child));
    expect_ok(kiln_child_await_ready(socket, &fences));
    pid[0] = (uint64_t)kiln_helper_pid(f->helper);
    const uint32_t count = 1 + list_children(f, pid + 1, 7);
    assert_true(count >= 2);
    for (uint32_t i = 0; i < count; i++) {
        kiln_str text = {0};
        kiln_status st = kiln_file_read_system(proc(f, (pid_t)pid[i], "environ"), &f->arena, &text);
        assert_true(st || text.size == 0);
        kiln_status_free(st); /* without root nobody reads it: that will do */
    }
    close(secret);
    close(socket);
    close(child.pidfd);
}

static void all_end_with_the_server(void **state) {
    fixture *f = *state;
    kiln_held child;
    int socket = -1;
    expect_ok(kiln_helper_start(f->helper, NULL, &socket, &child));
    kiln_helper_close(f->helper);
    f->helper = NULL;
    await_end(&child);
    close(socket);
    close(child.pidfd);
}

static void a_helper_that_is_gone_is_an_error_and_its_children_are_gone_too(void **state) {
    fixture *f = *state;
    kiln_held child, other;
    int socket = -1, none = -1;
    uint32_t fences = 0;
    expect_ok(kiln_helper_start(f->helper, NULL, &socket, &child));
    expect_ok(kiln_child_await_ready(socket, &fences)); /* before, it ends when we close */
    kill(kiln_helper_pid(f->helper), SIGKILL);
    await_end(&child);
    const kiln_helper_seen seen = kiln_helper_look(f->helper, child.number);
    assert_true(seen.ended && seen.gone && seen.exit.signal == SIGKILL);
    expect_error(kiln_helper_start(f->helper, NULL, &none, &other), UNAVAILABLE, "has ended");
    close(socket);
    close(child.pidfd);
}

static void requests_to_end_are_no_matter_of_its(void **state) {
    fixture *f = *state;
    kiln_held child;
    int socket = -1;
    kill(kiln_helper_pid(f->helper), SIGTERM);
    kill(kiln_helper_pid(f->helper), SIGINT);
    expect_ok(kiln_helper_start(f->helper, NULL, &socket, &child));
    close(socket);
    close(child.pidfd);
}

/* ---- What may not be asked ---- */

static kiln_helper_answer say(fixture *f, const void *bytes, size_t size, const int *fd,
                              uint32_t fd_count) {
    kiln_helper_answer answer;
    int got[KILN_HELPER_SOCKET_FDS_MAX];
    uint32_t got_count = 0;
    const int socket = kiln_helper_socket(f->helper);
    assert_true(kiln_helper_socket_send(socket, bytes, size, fd, fd_count));
    assert_int_equal(kiln_helper_socket_receive(socket, &answer, sizeof answer, got, &got_count),
                     sizeof answer);
    assert_int_equal(answer.magic, KILN_HELPER_MAGIC);
    if (answer.code) assert_int_equal(got_count, 0);
    for (uint32_t i = 0; i < got_count; i++) close(got[i]);
    return answer;
}

static void make_file(int folder, const char *name, uid_t owner) {
    const int fd = openat(folder, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0 && fchown(fd, owner, owner) == 0);
    close(fd);
}

/* A folder with a file in it, nobody else's business. */
static int make_folder_of(int parent, const char *name, uid_t owner) {
    assert_int_equal(mkdirat(parent, name, 0700), 0);
    const int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    make_file(fd, "file", owner);
    assert_int_equal(fchown(fd, owner, owner), 0);
    return fd;
}

/* As root: the server's folder, what a child left in it, and what is none of theirs. */
static void what_children_leave_is_removed_and_nothing_else(void **state) {
    fixture *f = *state;
    const bool is_root = geteuid() == 0;
    const uid_t server = is_root ? kiln_privilege_find_user("/etc/passwd").uid : geteuid(),
                child = is_root ? KILN_SANDBOX_USER : geteuid();
    const int home = open(f->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int top = make_folder_of(home, "top", server),
              made = make_folder_of(top, "driver", child),
              outside = make_folder_of(home, "outside", server);
    close(make_folder_of(made, "inner", child));
    assert_int_equal(symlinkat("../../outside", made, "link"), 0);
    kiln_helper_request request = {.magic = KILN_HELPER_MAGIC, .ask = KILN_HELPER_EMPTY};
    assert_int_equal(say(f, &request, sizeof request, &top, 1).code, 0);
    assert_int_equal(count_entries(kiln_arena_printf(&f->arena, "%s/top", f->folder)), 2);
    assert_int_equal(faccessat(outside, "file", F_OK, 0), 0);
    const int pipe_end = STDIN_FILENO;
    assert_int_equal(say(f, &request, sizeof request, &pipe_end, 1).code, KILN_PERMISSION_DENIED);
    if (is_root) { /* neither root's folder, nor one within the server's */
        assert_int_equal(say(f, &request, sizeof request, &home, 1).code, KILN_PERMISSION_DENIED);
        close(make_folder_of(top, "of-root", 0));
        assert_int_not_equal(say(f, &request, sizeof request, &top, 1).code, 0);
        assert_int_equal(faccessat(top, "of-root/file", F_OK, 0), 0);
    }
    close(made), close(top), close(outside), close(home);
    expect_ok(
        kiln_helper_remove_folder(f->helper, kiln_arena_printf(&f->arena, "%s/top", f->folder)));
}

static void expect_refused(fixture *f, const kiln_helper_request *request, kiln_code code) {
    const int none = STDIN_FILENO;
    kiln_helper_answer answer = say(f, request, sizeof *request, &none, 0);
    if (answer.code != (uint32_t)code) fail_msg("%u: %s", answer.code, answer.text);
}

static void what_is_out_of_range_is_refused(void **state) {
    fixture *f = *state;
    const uint32_t magic = KILN_HELPER_MAGIC;
    kiln_helper_request long_text = {.magic = magic, .ask = KILN_HELPER_POWER};
    memset(long_text.text, 'x', sizeof long_text.text);
    const kiln_helper_request wrong[] = {
        {0},
        {.magic = magic + 1, .ask = KILN_HELPER_KILL, .child = 1},
        {.magic = magic, .ask = KILN_HELPER_ASK_COUNT},
        {.magic = magic, .ask = UINT32_MAX},
        {.magic = magic, .ask = KILN_HELPER_START}, /* no socket */
        {.magic = magic, .ask = KILN_HELPER_KILL},
        {.magic = magic, .ask = KILN_HELPER_KEEP_TO, .child = 1},
        {.magic = magic, .ask = KILN_HELPER_KEEP_TO, .child = 1, .core_count = 65},
        {.magic = magic, .ask = KILN_HELPER_KEEP_TO, .child = 1, .core_count = 1, .core = {9999}},
        {.magic = magic, .ask = KILN_HELPER_KEEP_TO, .child = 1, .core_count = 2},
        {.magic = magic, .ask = KILN_HELPER_CREDENTIALS, .address = 2},
        {.magic = magic, .ask = KILN_HELPER_CONNECT, .address = UINT32_MAX},
        {.magic = magic, .ask = KILN_HELPER_LOOK, .child = 1, .address = 1},
        {.magic = magic, .ask = KILN_HELPER_POWER, .text = "a\nb"},
        {.magic = magic, .ask = KILN_HELPER_POWER, .text = "a\0b"},
        {.magic = magic, .ask = KILN_HELPER_CREDENTIALS, .text = "/etc/shadow"},
        long_text,
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(wrong); i++)
        expect_refused(f, &wrong[i], KILN_INVALID_ARGUMENT);
    /* What is in range and not there. */
    expect_refused(f, &(kiln_helper_request){.magic = magic, .ask = KILN_HELPER_KILL, .child = 1},
                   KILN_NOT_FOUND);
    /* A process of the machine is no child. */
    expect_refused(f,
                   &(kiln_helper_request){
                       .magic = magic, .ask = KILN_HELPER_KILL, .child = (uint32_t)getpid()},
                   KILN_NOT_FOUND);
}

static void descriptors_that_it_did_not_ask_for_are_closed(void **state) {
    fixture *f = *state;
    kiln_helper_request request = {.magic = KILN_HELPER_MAGIC, .ask = KILN_HELPER_START};
    const char *held = proc(f, kiln_helper_pid(f->helper), "fd");
    const uint32_t before = count_entries(held);
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    const int many[] = {pair[0], pair[1], pair[0], pair[1]};
    /* A stream, a file, too many. */
    assert_int_equal(say(f, &request, sizeof request, pair, 1).code, KILN_INVALID_ARGUMENT);
    const int file = STDIN_FILENO;
    assert_int_equal(say(f, &request, sizeof request, &file, 1).code, KILN_INVALID_ARGUMENT);
    for (uint32_t count = 2; count <= KILN_HELPER_SOCKET_FDS_MAX; count++)
        assert_int_equal(say(f, &request, sizeof request, many, count).code, KILN_INVALID_ARGUMENT);
    assert_int_equal(say(f, "x", 1, many, 2).code, KILN_INVALID_ARGUMENT);
    assert_int_equal(count_entries(held), before);
    close(pair[0]);
    close(pair[1]);
}

/* Fields changed at random, and bytes; afterwards it does what it did, and has nothing more. */
static void garbage_is_answered_and_changes_nothing(void **state) {
    fixture *f = *state;
    const char *held = proc(f, kiln_helper_pid(f->helper), "fd");
    static union {
        char bytes[2 * sizeof(kiln_helper_setup)];
        kiln_helper_request request;
    } message;
    kiln_rand rand;
    kiln_rand_init(&rand, 7);
    const uint32_t before = count_entries(held);
    for (uint32_t i = 0; i < 3000; i++) {
        memset(&message, 0, sizeof message);
        message.request.magic = KILN_HELPER_MAGIC;
        message.request.ask = (uint32_t)kiln_rand_below(&rand, KILN_HELPER_ASK_COUNT + 1);
        if (message.request.ask == KILN_HELPER_POWER) message.request.ask++;
        const uint32_t changes = (uint32_t)kiln_rand_below(&rand, 4);
        for (uint32_t c = 0; c < changes; c++)
            message.bytes[8 + kiln_rand_below(&rand, sizeof message.request - 8)] =
                (char)kiln_rand_below(&rand, 256);
        size_t size = sizeof message.request;
        if (kiln_rand_below(&rand, 8) == 0) size = 1 + kiln_rand_below(&rand, sizeof message - 1);
        say(f, &message, size, NULL, 0);
    }
    assert_int_equal(count_entries(held), before);
    a_child_is_started_ended_and_forgotten(state);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* ---- Its filter of system calls ---- */

/* "Seccomp:" of its status: 0 none, 2 a filter. */
static uint64_t filter_of(fixture *f) {
    kiln_str text;
    uint64_t mode = 9;
    expect_ok(
        kiln_file_read_system(proc(f, kiln_helper_pid(f->helper), "status"), &f->arena, &text));
    while (text.size) {
        kiln_str value = kiln_str_cut(&text, '\n'), name = kiln_str_cut(&value, ':');
        if (kiln_str_is(name, "Seccomp")) assert_true(kiln_str_to_u64(kiln_str_trim(value), &mode));
    }
    return mode;
}

static void a_helper_without_a_power_command_has_a_filter_and_says_so(void **state) {
    fixture *f = *state;
    const uint32_t own = 1U << KILN_FENCE_HELPER;
    const uint64_t before = filter_of(f);
    assert_int_equal(kiln_helper_fences(f->helper) & own, 0); /* one with such a command */
    kiln_helper_close(f->helper);
    open_helper_with(f, NULL, NULL);
    const bool has_filter = kiln_helper_fences(f->helper) & own;
    assert_int_equal(filter_of(f), has_filter ? 2 : before);
    kiln_held child; /* which gets through its own beginning under that filter */
    int socket = -1;
    uint32_t fences = 0;
    expect_ok(kiln_helper_start(f->helper, NULL, &socket, &child));
    expect_ok(kiln_child_await_ready(socket, &fences));
    close(socket);
    close(child.pidfd);
    kiln_helper_release(f->helper, child.number);
}

static const struct {
    const char *name;
    long number, first, second;
} forbidden[] = {
    {"ptrace", SYS_ptrace, 0, 0},
    {"process_vm_readv", SYS_process_vm_readv, 1, 0},
    {"bpf", SYS_bpf, 0, 0},
    {"init_module", SYS_init_module, 0, 0},
    {"reboot", SYS_reboot, 0, 0},
    {"mount", SYS_mount, 0, 0},
    {"setns", SYS_setns, -1, 0},
    {"perf_event_open", SYS_perf_event_open, 0, 0},
    {"keyctl", SYS_keyctl, 0, 0},
    {"io_uring_setup", SYS_io_uring_setup, 1, 0},
    {"clock_settime", SYS_clock_settime, 0, 0},
    {"listen", SYS_listen, 0, 0},
    {"AF_INET", SYS_socket, AF_INET, SOCK_STREAM},
    {"AF_NETLINK", SYS_socket, AF_NETLINK, SOCK_RAW},
};

/* 0: each is refused as if the kernel had it not, and what it needs goes on. */
static int try_forbidden(void) {
    if (!kiln_helper_filter_install(false)) return 77;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(forbidden); i++) {
        errno = 0;
        if (syscall(forbidden[i].number, forbidden[i].first, forbidden[i].second, 0, 0, 0) != -1 ||
            errno != ENOSYS)
            return (int)i + 1;
    }
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    return fd < 0 || close(fd) != 0 || getpid() <= 0 ? 99 : 0;
}

static void what_no_helper_needs_it_cannot_do(void **state) {
    (void)state;
    int status = 0;
    const pid_t pid = fork();
    if (pid == 0) _exit(try_forbidden());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    const int code = WEXITSTATUS(status);
    if (code == 77)
        skip_because("no filters of system calls: of this machine, or under a sanitizer");
    if (code) fail_msg("%s", code == 99 ? "what it needs is refused" : forbidden[code - 1].name);
}

int main(int argc, char **argv) {
    if (kiln_helper_is_asked(argc, argv)) kiln_helper_main(argc, argv);
    the_program = argv[0];
    const struct CMUnitTest tests[] = {
        TEST(a_child_is_started_ended_and_forgotten),
        TEST(without_descriptors_there_is_no_child_and_none_is_lost),
        TEST(there_are_no_more_children_than_places),
        TEST(a_tracker_is_reached_through_it),
        TEST(credentials_are_read_anew_each_time),
        TEST(the_key_file_is_replaced_by_its_next_generation_only),
        TEST(a_power_cycle_runs_alone),
        TEST(nothing_of_our_environment_and_descriptors_goes_on),
        TEST(all_end_with_the_server),
        TEST(a_helper_that_is_gone_is_an_error_and_its_children_are_gone_too),
        TEST(requests_to_end_are_no_matter_of_its),
        TEST(what_children_leave_is_removed_and_nothing_else),
        TEST(what_is_out_of_range_is_refused),
        TEST(descriptors_that_it_did_not_ask_for_are_closed),
        TEST(garbage_is_answered_and_changes_nothing),
        TEST(a_helper_without_a_power_command_has_a_filter_and_says_so),
        TEST(what_no_helper_needs_it_cannot_do),
    };
    return cmocka_run_group_tests_name("rpc-server/helper", tests, NULL, NULL);
}
