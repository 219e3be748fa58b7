#include "tuner/desk.h"

#include <pthread.h>

#include "base/alloc.h"
#include "base/check.h"

typedef struct piece {
    const char *name;
    void (*run)(void *context);
    void (*done)(void *context);
    void *context;
    struct piece *next;
} piece;

typedef struct pile {
    piece *first, *last;
} pile;

struct kiln_desk {
    kiln_loop *loop;
    pthread_t thread;
    uint64_t out; /* pieces handed in whose `done` was not called yet; the loop's */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pile in, finished; /* under the lock, as is `closes` */
    bool closes;
};

static void put(pile *onto, piece *p) {
    p->next = NULL;
    if (onto->last)
        onto->last->next = p;
    else
        onto->first = p;
    onto->last = p;
}

static piece *take(pile *from) {
    piece *p = from->first;
    if (!p) return NULL;
    from->first = p->next;
    if (!from->first) from->last = NULL;
    return p;
}

/* ---- the desk's thread ---- */

/* NULL: there will be no more. */
static piece *next_piece(kiln_desk *desk) {
    pthread_mutex_lock(&desk->lock);
    while (!desk->in.first && !desk->closes) pthread_cond_wait(&desk->changed, &desk->lock);
    piece *p = take(&desk->in);
    pthread_mutex_unlock(&desk->lock);
    return p;
}

static void *work(void *context) {
    kiln_desk *desk = context;
    for (piece *p = next_piece(desk); p; p = next_piece(desk)) {
        p->run(p->context);
        pthread_mutex_lock(&desk->lock);
        put(&desk->finished, p);
        pthread_cond_broadcast(&desk->changed);
        pthread_mutex_unlock(&desk->lock);
        kiln_loop_wake(desk->loop);
    }
    return NULL;
}

/* ---- the loop's ---- */

static piece *take_finished(kiln_desk *desk, bool wait) {
    pthread_mutex_lock(&desk->lock);
    while (wait && !desk->finished.first) pthread_cond_wait(&desk->changed, &desk->lock);
    piece *p = take(&desk->finished);
    pthread_mutex_unlock(&desk->lock);
    return p;
}

static void finish(kiln_desk *desk, piece *p) {
    piece own = *p;
    kiln_free(p);
    desk->out--;
    kiln_loop_part(desk->loop, own.name);
    own.done(own.context);
}

static void on_wake(void *context) {
    kiln_desk *desk = context;
    for (piece *p; (p = take_finished(desk, false));) {
        finish(desk, p);
        if (!kiln_loop_is_late(desk->loop)) continue;
        kiln_loop_wake(desk->loop); /* the rest in the next turn */
        return;
    }
}

void kiln_desk_hand_named(kiln_desk *desk, const char *name, void (*run)(void *context),
                          void (*done)(void *context), void *context) {
    piece *p = kiln_alloc(sizeof *p);
    *p = (piece){.name = name, .run = run, .done = done, .context = context};
    desk->out++;
    pthread_mutex_lock(&desk->lock);
    put(&desk->in, p);
    pthread_cond_broadcast(&desk->changed);
    pthread_mutex_unlock(&desk->lock);
}

void kiln_desk_wait(kiln_desk *desk) {
    while (desk->out > 0) finish(desk, take_finished(desk, true));
}

kiln_desk *kiln_desk_create(kiln_loop *loop) {
    kiln_desk *desk = kiln_alloc(sizeof *desk);
    *desk = (kiln_desk){.loop = loop};
    KILN_CHECK(pthread_mutex_init(&desk->lock, NULL) == 0);
    KILN_CHECK(pthread_cond_init(&desk->changed, NULL) == 0);
    KILN_CHECK(pthread_create(&desk->thread, NULL, work, desk) == 0);
    kiln_loop_on_wake(loop, on_wake, desk);
    return desk;
}

void kiln_desk_destroy(kiln_desk *desk) {
    if (!desk) return;
    KILN_CHECK(desk->out == 0);
    pthread_mutex_lock(&desk->lock);
    desk->closes = true;
    pthread_cond_broadcast(&desk->changed);
    pthread_mutex_unlock(&desk->lock);
    pthread_join(desk->thread, NULL);
    kiln_loop_on_wake(desk->loop, NULL, NULL);
    pthread_cond_destroy(&desk->changed);
    pthread_mutex_destroy(&desk->lock);
    kiln_free(desk);
}
