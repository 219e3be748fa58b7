/* The real tracker as a process: how it starts, refuses to start, keeps its state, and stops. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/proc.h"
#include "db/db.h"
#include "proto/net.h"
#include "tests/support/test.h"

static const char *the_tracker;

typedef struct fixture {
    kiln_arena arena;
    char *folder, *home;
    kiln_child tracker;
    kiln_loop *loop;
    kiln_conn *conn;
    kiln_timer *beat;
    bool opened, closed, answered;
    kiln_message answer; /* the last JOB_STATE or ERROR */
} fixture;

static int set_up(void **state) {
    static fixture the_fixture;
    fixture *f = &the_fixture;
    *f = (fixture){0};
    kiln_arena_init(&f->arena, 0);
    f->folder = make_folder(&f->arena);
    f->home = kiln_arena_printf(&f->arena, "KILN_HOME=%s/home", f->folder);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    kiln_child_destroy(&f->tracker);
    remove_folder(f->folder);
    kiln_arena_deinit(&f->arena);
    return 0;
}

static const char *in(fixture *f, const char *name) {
    return kiln_arena_printf(&f->arena, "%s/%s", f->folder, name);
}

/* Starts a tracker with these options (ended by NULL) besides --state, and waits for its port file.
 */
static void start(fixture *f, const char *state, const char *listen) {
    const char *port_file = in(f, "port");
    unlink(port_file);
    const char *const argv[] = {the_tracker,   "--listen", listen,          "--state", state,
                                "--port-file", port_file,  "--with-parent", NULL};
    const char *const env[] = {f->home, NULL};
    kiln_child_options options = {.argv = argv, .env_extra = env, .error_path = in(f, "log")};
    expect_ok(kiln_child_start(&options, &f->tracker));
    kiln_child_exit ended;
    while (!kiln_file_exists(port_file)) {
        assert_false(kiln_child_ended(&f->tracker, &ended));
        kiln_clock_wait_until(kiln_clock_ns() + KILN_NS_PER_MS);
    }
}

static const char *address_of(fixture *f) {
    kiln_str port;
    expect_ok(kiln_file_read(in(f, "port"), 16, &f->arena, &port));
    assert_true(port.size >= 2 && port.data[port.size - 1] == '\n');
    return kiln_arena_printf(&f->arena, "127.0.0.1:%.*s", (int)port.size - 1, port.data);
}

/* A tracker that cannot start: one line on standard error, and the code's exit status. */
static void expect_refusal(fixture *f, const char *const *options, kiln_code code,
                           const char *text) {
    const char *argv[12] = {the_tracker};
    for (size_t i = 0; options[i]; i++) argv[i + 1] = options[i];
    const char *const env[] = {f->home, NULL};
    kiln_proc_options run = {
        .argv = argv, .env_extra = env, .deadline_ns = 300 * KILN_NS_PER_S, .output_max = 65536};
    kiln_proc_result result;
    expect_ok(kiln_proc_run(&run, &f->arena, &result));
    assert_int_equal(result.exit_code, kiln_code_exit(code));
    expect_contains(result.err.data, text);
    kiln_str last = kiln_str_trim(result.err);
    while (kiln_str_find_char(last, '\n') < last.size)
        kiln_str_cut(&last, '\n'); /* log lines may come before */
    assert_true(kiln_str_starts(last, "kiln-tracker: "));
}
#define REFUSED(f, code, text, ...) \
    expect_refusal(f, (const char *const[]){__VA_ARGS__, NULL}, KILN_##code, text)

static void it_stops_when_asked_and_leaves_no_socket(void **state) {
    fixture *f = *state;
    start(f, in(f, "state"), kiln_arena_printf(&f->arena, "unix:%s", in(f, "socket")));
    assert_true(kiln_file_exists(in(f, "socket")));
    kiln_child_stop(&f->tracker);
    kiln_child_exit ended = kiln_child_wait(&f->tracker);
    assert_int_equal(ended.code, 0);
    assert_false(kiln_file_exists(in(f, "socket")));
}

static void a_busy_port_is_one_clear_error(void **state) {
    fixture *f = *state;
    start(f, in(f, "state"), "127.0.0.1:0");
    const char *address = address_of(f);
    REFUSED(f, ALREADY_EXISTS, address, "--listen", address, "--state", in(f, "other"));
}

static void a_state_folder_belongs_to_one_tracker(void **state) {
    fixture *f = *state;
    start(f, in(f, "state"), "127.0.0.1:0");
    REFUSED(f, FAILED_PRECONDITION, "in use by kiln-tracker (process ", "--listen", "127.0.0.1:0",
            "--state", in(f, "state"));
}

static void bad_state_folders_are_named(void **state) {
    fixture *f = *state;
    expect_ok(kiln_file_write(in(f, "file"), KILN_STR("x"), 0600));
    REFUSED(f, ALREADY_EXISTS, in(f, "file"), "--listen", "127.0.0.1:0", "--state", in(f, "file"));
    expect_ok(kiln_folder_create(in(f, "state"), 0700));
    expect_ok(kiln_file_write(in(f, "state/tracker.db"),
                              KILN_STR("this is no database, and longer than its header.....\n"
                                       "this is no database, and longer than its header.....\n"),
                              0600));
    REFUSED(f, DATA_LOSS, "tracker.db", "--listen", "127.0.0.1:0", "--state", in(f, "state"));
}

static void the_database_of_somebody_else_is_refused(void **state) {
    fixture *f = *state;
    kiln_db *db = NULL;
    expect_ok(kiln_folder_create(in(f, "state"), 0700));
    expect_ok(kiln_db_open(in(f, "state/tracker.db"), KILN_DB_RECORDS, KILN_DB_WRITE, &db));
    kiln_db_close(db);
    REFUSED(f, FAILED_PRECONDITION, "a records database", "--listen", "127.0.0.1:0", "--state",
            in(f, "state"));
}

static void options_that_cannot_be_served_say_why(void **state) {
    fixture *f = *state;
    REFUSED(f, PERMISSION_DENIED, "insecure", "--listen", "0.0.0.0:0", "--state", in(f, "state"));
    REFUSED(f, INVALID_ARGUMENT, "--listen", "--listen", "nonsense", "--state", in(f, "state"));
    REFUSED(f, NOT_FOUND, "nowhere", "--keys", "/nowhere", "--state", in(f, "state"));
    REFUSED(f, INVALID_ARGUMENT, "--lisen", "--lisen", "x");
}

/* ---- A client, to see what a full disk does ---- */

static void on_opened(void *context, kiln_conn *conn, const kiln_msg_hello *hello,
                      const kiln_msg_welcome *welcome) {
    (void)conn, (void)hello, (void)welcome;
    ((fixture *)context)->opened = true;
}

static void on_message(void *context, kiln_conn *conn, const kiln_message *message) {
    (void)conn;
    fixture *f = context;
    if (message->type != KILN_MSG_JOB_STATE && message->type != KILN_MSG_ERROR) return;
    f->answer = kiln_message_copy(message, &f->arena);
    f->answered = true;
}

static void on_closed(void *context, kiln_conn *conn, kiln_status why) {
    (void)conn, (void)why;
    ((fixture *)context)->closed = true;
}

static const kiln_conn_handler handler = {on_opened, on_message, on_closed};

static void on_beat(void *context) { /* a loop that has nothing to wait for would end */
    kiln_timer_start(((fixture *)context)->beat, UINT64_C(10000000));
}

static void open_job(fixture *f, const char *job) {
    kiln_message open = {.type = KILN_MSG_JOB_OPEN,
                         .stream = kiln_conn_stream(f->conn),
                         .job_open = {.job = kiln_str_from(job),
                                      .spec = {.target = KILN_STR("cpu:x86_64-unknown-linux-gnu"),
                                               .searcher = KILN_STR("random")}}};
    memset(&open.job_open.spec.model, 1, sizeof open.job_open.spec.model);
    f->answered = false;
    expect_ok(kiln_conn_send(f->conn, &open));
    while (!f->answered) {
        kiln_loop_run_once(f->loop);
        assert_false(f->closed);
    }
}

static void dial(fixture *f, const char *address) {
    kiln_dial_options options = {
        .role = KILN_PEER_CLIENT, .node = "n", .boot = "b", .handler = &handler, .context = f};
    expect_ok(kiln_address_parse(kiln_str_from(address), &options.address));
    expect_ok(kiln_loop_create(&f->loop));
    f->beat = kiln_timer_create(f->loop, on_beat, f);
    on_beat(f);
    f->conn = kiln_net_dial(f->loop, &options);
    while (!f->opened) kiln_loop_run_once(f->loop);
}

static void hang_up(fixture *f) {
    kiln_conn_close(f->conn, NULL);
    kiln_timer_destroy(f->beat);
    kiln_loop_destroy(f->loop);
}

/* What a tracker leaves that had so many jobs of a hundred trials each, boards and leases. */
static void leave_much(fixture *f, const char *folder) {
    enum { JOBS = 1000, BOARDS = 2000 };
    kiln_db *db = NULL;
    kiln_strbuf body = {0};
    expect_ok(kiln_folder_create(folder, 0700));
    expect_ok(kiln_db_open(kiln_arena_printf(&f->arena, "%s/tracker.db", folder), KILN_DB_TRACKER,
                           KILN_DB_WRITE, &db));
    kiln_msg_task_state task[10];
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(task); i++)
        task[i] =
            (kiln_msg_task_state){.key = kiln_str_from(kiln_arena_printf(&f->arena, "task-%u", i)),
                                  .op = KILN_STR("conv2d 64x56x56"),
                                  .planned = 10};
    kiln_msg_kept_job job = {.spec = {.target = KILN_STR("cpu:x86_64-unknown-linux-gnu"),
                                      .searcher = KILN_STR("sa"),
                                      .trials = 100,
                                      .detach = true},
                             .tuner = KILN_STR("tuner")};
    memset(&job.spec.model, 1, sizeof job.spec.model);
    job.tasks.item = task;
    job.tasks.count = KILN_ARRAY_COUNT(task);
    kiln_msg_kept_board board = {
        .key = KILN_STR("rpi4"), .target = KILN_STR("cpu:x86_64-unknown-linux-gnu"), .slots = 1};
    for (uint32_t i = 0; i < JOBS; i++) {
        kiln_strbuf_reset(&body);
        expect_ok(kiln_record_encode(KILN_RECORD_kept_job, &job, &body));
        const char *id = kiln_arena_printf(&f->arena, "job-%u", i);
        expect_ok(kiln_db_put_tracker_job(db, &(kiln_db_tracker_job){kiln_str_from(id),
                                                                     KILN_STR("running"),
                                                                     kiln_strbuf_view(&body)}));
    }
    for (uint32_t i = 0; i < BOARDS; i++) {
        kiln_strbuf_reset(&body);
        expect_ok(kiln_record_encode(KILN_RECORD_kept_board, &board, &body));
        kiln_str node = kiln_str_from(kiln_arena_printf(&f->arena, "board-%u", i));
        expect_ok(
            kiln_db_put_tracker_board(db, &(kiln_db_tracker_board){node, kiln_strbuf_view(&body)}));
        kiln_str id = kiln_str_from(kiln_arena_printf(&f->arena, "board-%u/0", i));
        kiln_str of = kiln_str_from(kiln_arena_printf(&f->arena, "job-%u", i % JOBS));
        expect_ok(
            kiln_db_put_tracker_lease(db, &(kiln_db_tracker_lease){.id = id,
                                                                   .board = node,
                                                                   .tuner = KILN_STR("run"),
                                                                   .job = of,
                                                                   .epoch = i + 1,
                                                                   .trials = 64,
                                                                   .ttl_ms = 15000,
                                                                   .node = KILN_STR("tuner")}));
    }
    expect_ok(kiln_db_commit(db));
    kiln_db_close(db);
    kiln_strbuf_deinit(&body);
}

static void a_hundred_thousand_queued_trials_are_known_after_a_start(void **state) {
    fixture *f = *state;
    const char *folder = in(f, "state"),
               *address = kiln_arena_printf(&f->arena, "unix:%s", in(f, "socket"));
    leave_much(f, folder);
    uint64_t start_ns = kiln_clock_ns();
    start(f, folder, address);
    dial(f, address);
    open_job(f, "job-7"); /* it is there, and asks for something else */
    uint64_t ms = (kiln_clock_ns() - start_ns) / KILN_NS_PER_MS;
    print_message("serves after %llu ms\n", (unsigned long long)ms);
    assert_int_equal(f->answer.type, KILN_MSG_ERROR);
    assert_int_equal(f->answer.error.code, KILN_ALREADY_EXISTS);
    hang_up(f);
}

/* A file system of our own, gone with this process. False where that is not allowed. */
static bool mount_small(const char *folder) {
    return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("tmpfs", folder, "tmpfs", 0, "size=512k") == 0;
}

static void fill_up(const char *path) {
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    char block[1024] = {1};
    while (write(fd, block, sizeof block) > 0) {}
    close(fd);
}

static void a_full_disk_refuses_a_job_and_loses_none(void **state) {
    fixture *f = *state;
    const char *folder = in(f, "state");
    expect_ok(kiln_folder_create(folder, 0700));
    if (!mount_small(folder)) skip_because("only root may mount a file system");
    const char *address = kiln_arena_printf(&f->arena, "unix:%s", in(f, "socket"));
    start(f, folder, address);
    dial(f, address);

    open_job(f, "before");
    assert_int_equal(f->answer.type, KILN_MSG_JOB_STATE);
    fill_up(in(f, "state/ballast"));
    for (unsigned i = 0; f->answer.type == KILN_MSG_JOB_STATE && i < 200;
         i++) /* the log has room for a few */
        open_job(f, kiln_arena_printf(&f->arena, "job%u", i));
    assert_int_equal(f->answer.type, KILN_MSG_ERROR);
    expect_contains(kiln_str_dup(&f->arena, f->answer.error.text), "disk is full");

    /* With room again it goes on, and what it promised is there. */
    unlink(in(f, "state/ballast"));
    open_job(f, "after");
    assert_int_equal(f->answer.type, KILN_MSG_JOB_STATE);
    open_job(f, "before");
    assert_int_equal(f->answer.type, KILN_MSG_JOB_STATE);

    hang_up(f);
    kiln_child_destroy(&f->tracker);
    umount(folder);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int argc, char **argv) {
    assert_int_equal(argc, 2);
    the_tracker = argv[1];
    const struct CMUnitTest tests[] = {
        TEST(it_stops_when_asked_and_leaves_no_socket),
        TEST(a_busy_port_is_one_clear_error),
        TEST(a_state_folder_belongs_to_one_tracker),
        TEST(bad_state_folders_are_named),
        TEST(the_database_of_somebody_else_is_refused),
        TEST(options_that_cannot_be_served_say_why),
        TEST(a_hundred_thousand_queued_trials_are_known_after_a_start),
        TEST(a_full_disk_refuses_a_job_and_loses_none), /* last: the name space of mounts stays
                                                           changed */
    };
    return cmocka_run_group_tests_name("tracker/shell", tests, NULL, NULL);
}
