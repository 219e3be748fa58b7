#include "compiler-core/worker/builder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/child.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/vec.h"

#define READ_BYTES ((size_t)256 << 10)

typedef struct pending {
    kiln_strbuf frame;
    int model_fd;         /* of TASKS; -1: none */
    uint64_t deadline_ns; /* duration */
    bool urgent;
    kiln_builders_done done;
    void *context;
} pending;

/* Processes are started and killed on the pool of the loop: both wait for the system. */
typedef struct start {
    struct worker *worker; /* NULL: no longer needed */
    kiln_arena arena;      /* of argv */
    const char *argv[8];
    int model_fd; /* -1: none */
    kiln_child child;
    kiln_status status;
} start;

typedef struct worker {
    struct kiln_builders *pool;
    kiln_child child;
    bool running; /* the process */
    start *start; /* pending start; NULL: running already, or not needed */
    bool busy;    /* holds `job` */
    pending job;
    size_t written; /* of job.frame */
    kiln_strbuf answer;
    kiln_watch *in, *out;
    kiln_timer *deadline;
} worker;

struct kiln_builders {
    kiln_loop *loop;
    char *program, *cores;
    char memory[24];         /* bytes as text; empty: any */
    KILN_VEC(pending) queue; /* from `head` on */
    uint32_t head;
    kiln_timer *start; /* starts work from the loop, not from inside submit */
    worker *worker;
    uint32_t worker_count;
};

/* ---- one worker ------------------------------------------------------------------------------ */

static void pending_deinit(pending *job) {
    kiln_strbuf_deinit(&job->frame);
    if (job->model_fd >= 0) close(job->model_fd);
}

/* The caller has to end the process, if there is one. */
static kiln_child worker_let_go(worker *w) {
    const kiln_child child = w->running ? w->child : (kiln_child){0};
    kiln_watch_destroy(w->in);
    kiln_watch_destroy(w->out);
    w->in = w->out = NULL;
    w->running = false;
    kiln_strbuf_reset(&w->answer);
    return child;
}

static void kill_child(void *context) { kiln_child_destroy(context); }

static void on_killed(void *context) { kiln_free(context); }

static void worker_stop(worker *w) {
    if (!w->running) return;
    kiln_child *child = kiln_alloc(sizeof *child);
    *child = worker_let_go(w);
    kiln_loop_work(w->pool->loop, kill_child, on_killed, child);
}

/* Takes the job from the worker and reports it. The callback may submit more, or destroy the pool:
 * the pool is not accessed afterwards. */
static void worker_finish(worker *w, const kiln_work_reply *reply, kiln_outcome outcome,
                          const char *text) {
    pending job = w->job;
    w->job = (pending){.model_fd = -1};
    w->busy = false;
    kiln_timer_stop(w->deadline);
    kiln_timer_start(w->pool->start, 0);
    job.done(job.context, reply, outcome, text);
    pending_deinit(&job);
}

static void worker_lost(worker *w, kiln_outcome outcome, const char *text) {
    worker_stop(w);
    if (w->busy) worker_finish(w, NULL, outcome, text);
}

static void on_deadline(void *context) {
    worker_lost(context, KILN_OUTCOME_TIMEOUT, "the worker passed its deadline");
}

static void on_writable(void *context, unsigned ready_for) {
    (void)ready_for;
    worker *w = context;
    while (w->written < w->job.frame.size) {
        ssize_t n =
            write(w->child.in_fd, w->job.frame.data + w->written, w->job.frame.size - w->written);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return;
        if (n < 0) {
            worker_lost(w, KILN_OUTCOME_CRASH, "the worker closed its input");
            return;
        }
        w->written += (size_t)n;
    }
    kiln_watch_set(w->in, 0);
}

/* Handles a whole answer, if there is one. */
static void take_answer(worker *w) {
    size_t size = 0;
    kiln_status st = kiln_work_frame_size(kiln_strbuf_view(&w->answer), &size);
    if (!st && size == 0) return;
    kiln_work_reply reply = {0};
    if (!st)
        st = kiln_work_reply_read(kiln_str_slice(kiln_strbuf_view(&w->answer), 0, size), &reply);
    if (st || !w->busy) {
        worker_lost(w, KILN_OUTCOME_CRASH,
                    st ? kiln_status_text(st) : "a worker answered without a request");
        kiln_status_free(st);
    } else {
        kiln_strbuf answer = w->answer; /* the reply points into it while the callback runs */
        w->answer = (kiln_strbuf){0};
        worker_finish(w, &reply, KILN_OUTCOME_OK, "");
        kiln_strbuf_deinit(&answer);
    }
}

/* Its output ends only after its memory is freed: the process ends soon. */
static void worker_died(worker *w) {
    const kiln_child_exit end = kiln_child_wait(&w->child);
    worker_lost(w, KILN_OUTCOME_CRASH,
                end.code == kiln_code_exit(KILN_RESOURCE_EXHAUSTED)
                    ? "the worker died: it takes more memory than it may (--model-memory)"
                    : "the worker died");
}

static void on_readable(void *context, unsigned ready_for) {
    (void)ready_for;
    worker *w = context;
    char bytes[16384];
    for (size_t total = 0; total < READ_BYTES;) {
        ssize_t n = read(w->child.out_fd, bytes, sizeof bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) break;
        if (n <= 0) {
            worker_died(w);
            return;
        }
        kiln_strbuf_append(&w->answer, bytes, (size_t)n);
        total += (size_t)n;
    }
    take_answer(w);
}

static void run_start(void *context) {
    start *s = context;
    kiln_child_options options = {
        .argv = s->argv, .pipe_in = true, .pipe_out = true, .third_fd = s->model_fd};
    s->status = kiln_child_start(&options, &s->child);
}

/* The worker has its job and its process. */
static void worker_begin(worker *w) {
    kiln_timer_start(w->deadline, w->job.deadline_ns);
    kiln_watch_set(w->in, KILN_WATCH_WRITE);
}

static void on_started(void *context) {
    start *s = context;
    worker *w = s->worker;
    kiln_status st = s->status;
    if (!w && !st) kiln_child_destroy(&s->child);
    if (w) w->start = NULL;
    if (w && !st) {
        w->child = s->child;
        w->running = true;
        w->in = kiln_watch_create(w->pool->loop, w->child.in_fd, 0, on_writable, w);
        w->out = kiln_watch_create(w->pool->loop, w->child.out_fd, KILN_WATCH_READ, on_readable, w);
        worker_begin(w);
    } else if (w) {
        worker_finish(w, NULL, KILN_OUTCOME_INFRA, kiln_status_text(st));
    }
    kiln_status_free(st);
    if (s->model_fd >= 0) close(s->model_fd);
    kiln_arena_deinit(&s->arena);
    kiln_free(s);
}

static const char *keep(start *s, const char *text) {
    return kiln_str_dup(&s->arena, kiln_str_from(text));
}

/* A worker for TASKS is restarted with the model, and then used like any other. */
static void worker_start(worker *w) {
    const kiln_builders *pool = w->pool;
    start *s = kiln_alloc(sizeof *s);
    kiln_arena_init(&s->arena, 512);
    s->worker = w;
    s->model_fd = w->job.model_fd;
    w->job.model_fd = -1;
    uint32_t count = 0;
    s->argv[count++] = keep(s, pool->program);
    s->argv[count++] = "--worker";
    if (pool->cores) s->argv[count++] = "--cores", s->argv[count++] = keep(s, pool->cores);
    if (pool->memory[0]) s->argv[count++] = "--memory", s->argv[count++] = keep(s, pool->memory);
    if (s->model_fd >= 0) s->argv[count++] = "--model";
    w->start = s;
    kiln_loop_work(pool->loop, run_start, on_started, s);
}

/* ---- the pool -------------------------------------------------------------------------------- */

static void worker_give(worker *w, pending job) {
    w->job = job;
    w->busy = true;
    w->written = 0;
    if (job.model_fd >= 0) worker_stop(w); /* it cannot open files */
    if (w->running)
        worker_begin(w);
    else
        worker_start(w);
}

static void hand_out(void *context) {
    kiln_builders *pool = context;
    for (uint32_t i = 0; i < pool->worker_count && pool->head < pool->queue.count; i++) {
        worker *w = &pool->worker[i];
        if (w->busy) continue;
        pending job = pool->queue.data[pool->head++];
        if (pool->head == pool->queue.count) pool->head = pool->queue.count = 0;
        worker_give(w, job);
    }
}

static char *copy_text(const char *text) {
    if (!text) return NULL;
    kiln_str s = kiln_str_from(text);
    char *copy = kiln_alloc(s.size + 1);
    for (size_t i = 0; i < s.size; i++) copy[i] = s.data[i];
    return copy;
}

kiln_builders *kiln_builders_create(kiln_loop *loop, const kiln_builders_options *options) {
    KILN_CHECK(options->worker_count >= 1);
    kiln_builders *pool = kiln_alloc(sizeof *pool);
    pool->loop = loop;
    pool->program = copy_text(options->program);
    pool->cores = copy_text(options->cores);
    if (options->memory_max)
        snprintf(pool->memory, sizeof pool->memory, "%llu",
                 (unsigned long long)options->memory_max);
    pool->start = kiln_timer_create(loop, hand_out, pool);
    pool->worker_count = options->worker_count;
    pool->worker = kiln_alloc(options->worker_count * sizeof *pool->worker);
    for (uint32_t i = 0; i < pool->worker_count; i++) {
        worker *w = &pool->worker[i];
        w->pool = pool;
        w->job.model_fd = -1;
        w->deadline = kiln_timer_create(loop, on_deadline, w);
    }
    return pool;
}

void kiln_builders_destroy(kiln_builders *pool) {
    if (!pool) return;
    for (uint32_t i = 0; i < pool->worker_count; i++) {
        worker *w = &pool->worker[i];
        kiln_child child = worker_let_go(w);
        kiln_child_destroy(&child);
        if (w->start) w->start->worker = NULL; /* it is ended when it has started */
        kiln_timer_destroy(w->deadline);
        kiln_strbuf_deinit(&w->answer);
        pending_deinit(&w->job);
    }
    for (uint32_t i = pool->head; i < pool->queue.count; i++) pending_deinit(&pool->queue.data[i]);
    kiln_vec_deinit(&pool->queue);
    kiln_timer_destroy(pool->start);
    kiln_free(pool->worker);
    kiln_free(pool->program);
    kiln_free(pool->cores);
    kiln_free(pool);
}

/* -1: no model, or it cannot be opened; then the worker reports that. */
static int open_model(const kiln_work_request *request) {
    if (request->work != KILN_WORK_TASKS) return -1;
    char *path = kiln_alloc(request->model_path.size + 1);
    memcpy(path, request->model_path.data, request->model_path.size);
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    kiln_free(path);
    return fd;
}

void kiln_builders_submit(kiln_builders *pool, const kiln_work_request *request, bool urgent,
                          uint64_t deadline_ns, kiln_builders_done done, void *context) {
    pending job = {.model_fd = open_model(request),
                   .deadline_ns = deadline_ns,
                   .urgent = urgent,
                   .done = done,
                   .context = context};
    kiln_work_request_write(request, &job.frame);
    kiln_vec_push(&pool->queue, job);
    uint32_t at = pool->queue.count - 1;
    for (; urgent && at > pool->head && !pool->queue.data[at - 1].urgent; at--)
        pool->queue.data[at] = pool->queue.data[at - 1];
    pool->queue.data[at] = job;
    kiln_timer_start(pool->start, 0);
}

/* ---- what an answer means ---- */

kiln_outcome kiln_builders_outcome(const kiln_work_reply *reply, kiln_outcome outcome) {
    if (!reply)
        return outcome == KILN_OUTCOME_CRASH ? KILN_OUTCOME_BUILD_ERROR
                                             : outcome; /* the compiler crashed on it */
    if (reply->code == 0) return KILN_OUTCOME_OK;
    return reply->link_error ? KILN_OUTCOME_LINK_ERROR : KILN_OUTCOME_BUILD_ERROR;
}

kiln_status kiln_builders_status(const kiln_work_reply *reply, const char *text) {
    if (!reply) return KILN_ERROR(INTERNAL, "%s", text);
    kiln_code code = KILN_INTERNAL;
    if (reply->code == 0) return KILN_OK;
    if (!kiln_code_from_wire(reply->code, &code)) code = KILN_INTERNAL;
    return kiln_status_make(code, __FILE__, __LINE__, "%.*s", KILN_STR_ARG(reply->text));
}
