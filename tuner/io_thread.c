#include "tuner/io_thread.h"

#include <pthread.h>

#include "base/alloc.h"
#include "base/check.h"

typedef struct work_item {
    const char *name;
    void (*run)(void *context);
    void (*done)(void *context);
    void *context;
    struct work_item *next;
} work_item;

typedef struct queue {
    work_item *first, *last;
} queue;

struct kiln_io_thread {
    kiln_loop *loop;
    pthread_t thread;
    uint64_t out; /* items handed in whose `done` was not called yet; the loop's */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    queue in, finished; /* under the lock, as is `closes` */
    bool closes;
};

static void put(queue *onto, work_item *p) {
    p->next = NULL;
    if (onto->last)
        onto->last->next = p;
    else
        onto->first = p;
    onto->last = p;
}

static work_item *take(queue *from) {
    work_item *p = from->first;
    if (!p) return NULL;
    from->first = p->next;
    if (!from->first) from->last = NULL;
    return p;
}

/* ---- on the thread ---- */

/* NULL: there will be no more. */
static work_item *next_item(kiln_io_thread *io_thread) {
    pthread_mutex_lock(&io_thread->lock);
    while (!io_thread->in.first && !io_thread->closes)
        pthread_cond_wait(&io_thread->changed, &io_thread->lock);
    work_item *p = take(&io_thread->in);
    pthread_mutex_unlock(&io_thread->lock);
    return p;
}

static void *work(void *context) {
    kiln_io_thread *io_thread = context;
    for (work_item *p = next_item(io_thread); p; p = next_item(io_thread)) {
        p->run(p->context);
        pthread_mutex_lock(&io_thread->lock);
        put(&io_thread->finished, p);
        pthread_cond_broadcast(&io_thread->changed);
        pthread_mutex_unlock(&io_thread->lock);
        kiln_loop_wake(io_thread->loop);
    }
    return NULL;
}

/* ---- on the loop ---- */

static work_item *take_finished(kiln_io_thread *io_thread, bool wait) {
    pthread_mutex_lock(&io_thread->lock);
    while (wait && !io_thread->finished.first)
        pthread_cond_wait(&io_thread->changed, &io_thread->lock);
    work_item *p = take(&io_thread->finished);
    pthread_mutex_unlock(&io_thread->lock);
    return p;
}

static void finish(kiln_io_thread *io_thread, work_item *p) {
    work_item own = *p;
    kiln_free(p);
    io_thread->out--;
    kiln_loop_part(io_thread->loop, own.name);
    own.done(own.context);
}

static void on_wake(void *context) {
    kiln_io_thread *io_thread = context;
    for (work_item *p; (p = take_finished(io_thread, false));) {
        finish(io_thread, p);
        if (!kiln_loop_is_late(io_thread->loop)) continue;
        kiln_loop_wake(io_thread->loop); /* the rest in the next turn */
        return;
    }
}

void kiln_io_thread_submit_named(kiln_io_thread *io_thread, const char *name,
                                 void (*run)(void *context), void (*done)(void *context),
                                 void *context) {
    work_item *p = kiln_alloc(sizeof *p);
    *p = (work_item){.name = name, .run = run, .done = done, .context = context};
    io_thread->out++;
    pthread_mutex_lock(&io_thread->lock);
    put(&io_thread->in, p);
    pthread_cond_broadcast(&io_thread->changed);
    pthread_mutex_unlock(&io_thread->lock);
}

void kiln_io_thread_wait(kiln_io_thread *io_thread) {
    while (io_thread->out > 0) finish(io_thread, take_finished(io_thread, true));
}

kiln_io_thread *kiln_io_thread_create(kiln_loop *loop) {
    kiln_io_thread *io_thread = kiln_alloc(sizeof *io_thread);
    *io_thread = (kiln_io_thread){.loop = loop};
    KILN_CHECK(pthread_mutex_init(&io_thread->lock, NULL) == 0);
    KILN_CHECK(pthread_cond_init(&io_thread->changed, NULL) == 0);
    KILN_CHECK(pthread_create(&io_thread->thread, NULL, work, io_thread) == 0);
    kiln_loop_on_wake(loop, on_wake, io_thread);
    return io_thread;
}

void kiln_io_thread_destroy(kiln_io_thread *io_thread) {
    if (!io_thread) return;
    KILN_CHECK(io_thread->out == 0);
    pthread_mutex_lock(&io_thread->lock);
    io_thread->closes = true;
    pthread_cond_broadcast(&io_thread->changed);
    pthread_mutex_unlock(&io_thread->lock);
    pthread_join(io_thread->thread, NULL);
    kiln_loop_on_wake(io_thread->loop, NULL, NULL);
    pthread_cond_destroy(&io_thread->changed);
    pthread_mutex_destroy(&io_thread->lock);
    kiln_free(io_thread);
}
