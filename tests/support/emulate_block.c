#include "tests/support/emulate_block.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "base/macros.h"
#include "base/vec.h"
#include "tests/support/emulate_box.h"
#include "tests/support/emulate_compile.h"
#include "tests/support/emulate_group.h"
#include "tests/support/emulate_token.h"
#include "tests/support/emulate_warp.h"

#define THREADS_MAX 1024
#define STACK_BYTES (128 << 10)
#define CANARY_BYTES 1024 /* behind the shared memory of a launch */
#define POISON 0xff       /* NaN in every float type */

#define UNIT_REGISTERS 65536 /* of a streaming multiprocessor */

/* AT_PUSH: it goes on when all others have, so that what a token allows them comes first. */
typedef enum fibre_state {
    READY,
    AT_BARRIER,
    AT_CLUSTER,
    AT_INSTRUCTION,
    AT_GROUP_WAIT,
    AT_PUSH,
    AT_POP,
    ENDED
} fibre_state;

/* A copy under way. */
typedef struct copy {
    void *to;
    const void *from;
    uint32_t bytes;
    uint32_t group; /* number of commits before it */
} copy;

/* One of the groups that run at the same time. */
typedef struct group {
    struct fibre *fibre; /* [count of a block] */
    char *shared;
    struct emulate_index block;
    bool unfenced;   /* threads came to a barrier without a fence for asynchronous reads */
    bool is_reached; /* by other groups, since the last barrier of the cluster */
    uint32_t ended;  /* threads */
} group;

typedef struct fibre {
    ucontext_t context;
    group *group;
    fibre_state state;
    struct emulate_index thread;
    uint32_t line, instruction, mask; /* that it waits at */
    void *operands;
    KILN_VEC(copy) copies; /* in order */
    uint32_t commits;
    emulate_products *products;
    uint32_t pending;  /* groups of products that its wait leaves in flight */
    bool fenced_async; /* since the last barrier */
    const void *token; /* that it waits for */
    unsigned parity;
    bool unfenced_token; /* no fence for asynchronous reads since it took one */
    unsigned registers;  /* that it asked for; 0: its share */
} fibre;

/* Copies of a thread whose landing a token counts: as an arrival, or by their bytes. */
typedef struct landing {
    const void *token;
    bool by_bytes;
    KILN_VEC(copy) copies;
} landing;

struct emulate_block {
    kiln_arena *arena;
    void *library;
    struct emulate_state *state;
    char *static_begin, *static_end;
    char *stacks, *shared;
    fibre *fibre;                     /* [THREADS_MAX] of each group */
    uint32_t room;                    /* groups for which there is memory */
    group group[EMULATE_CLUSTER_MAX]; /* of the cluster */
    uint32_t group_count;

    ucontext_t scheduler;
    fibre *running;
    uint32_t count; /* threads of a block */
    emulate_tokens *tokens;
    KILN_VEC(landing) landing; /* in order */
    void (*entry)(void);
    const emulate_block_launch *launch;
    kiln_status fault;
};

/* ---- compiling ------------------------------------------------------------------------------- */

static kiln_status load(emulate_block *e, const char *path) {
    typedef char *place_of(void);
    e->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!e->library) return KILN_ERROR(INTERNAL, "%s", dlerror());
    e->state = dlsym(e->library, "kiln_emulated");
    place_of *begin, *end;
    *(void **)&begin = dlsym(e->library, "kiln_emulated_static_begin");
    *(void **)&end = dlsym(e->library, "kiln_emulated_static_end");
    e->static_begin = begin();
    e->static_end = end();
    return KILN_OK;
}

/* ---- faults ---------------------------------------------------------------------------------- */

static const char *waits_for(const fibre *f) {
    if (f->state == AT_GROUP_WAIT) return "wgmma.wait_group";
    if (f->state == AT_POP) return "the wait for a token";
    if (f->state == AT_CLUSTER) return "the barrier of the cluster";
    return f->state == AT_BARRIER ? "the barrier" : emulate_warp[f->instruction].text;
}

static const char *describe(emulate_block *e, const fibre *f) {
    const struct emulate_index *t = &f->thread;
    const char *name = kiln_arena_printf(e->arena, "thread (%u, %u, %u)", t->x, t->y, t->z);
    if (f->state == ENDED) return kiln_arena_printf(e->arena, "%s has ended", name);
    return kiln_arena_printf(e->arena, "%s is at %s of line %u", name, waits_for(f), f->line);
}

static void fail_at(emulate_block *e, const fibre *f, const char *what) {
    const struct emulate_index *b = &f->group->block;
    if (e->fault) return;
    e->fault = KILN_ERROR(FAILED_PRECONDITION, "block (%u, %u, %u): %s: %s", b->x, b->y, b->z,
                          describe(e, f), what);
}

/* ---- what kernels call ----------------------------------------------------------------------- */

static void leave(emulate_block *e) { swapcontext(&e->running->context, &e->scheduler); }

static void call_barrier(void *emulator, unsigned line) {
    emulate_block *e = emulator;
    e->running->state = AT_BARRIER;
    e->running->line = line;
    leave(e);
}

static void call_warp(void *emulator, unsigned instruction, void *operands, unsigned mask,
                      unsigned line) {
    emulate_block *e = emulator;
    fibre *f = e->running;
    f->state = AT_INSTRUCTION;
    f->instruction = instruction;
    f->operands = operands;
    f->mask = mask;
    f->line = line;
    leave(e);
}

static void call_copy(void *emulator, void *to, const void *from, unsigned bytes, unsigned line) {
    emulate_block *e = emulator;
    fibre *f = e->running;
    f->line = line;
    if ((bytes != 4 && bytes != 8 && bytes != 16) || ((uintptr_t)to | (uintptr_t)from) % bytes != 0)
        fail_at(e, f, "cp.async copies 4, 8 or 16 bytes that are aligned to as many");
    memset(to, POISON, bytes);
    copy c = {to, from, bytes, f->commits};
    kiln_vec_push_in(e->arena, &f->copies, c);
}

static void call_commit(void *emulator) { ((emulate_block *)emulator)->running->commits++; }

/* Groups land in order; all but the last `pending` that were committed. */
static void call_wait(void *emulator, unsigned pending) {
    fibre *f = ((emulate_block *)emulator)->running;
    uint32_t landed = 0;
    while (landed < f->copies.count && f->copies.data[landed].group + pending < f->commits) {
        const copy *c = &f->copies.data[landed++];
        memcpy(c->to, c->from, c->bytes);
    }
    f->copies.count -= landed;
    if (landed) memmove(f->copies.data, f->copies.data + landed, f->copies.count * sizeof(copy));
}

static void call_group_begin(void *emulator, const struct emulate_wgmma *what, unsigned line) {
    emulate_block *e = emulator;
    e->running->line = line;
    const char *wrong = emulate_products_begin(e->running->products, what, line);
    if (e->running->group->unfenced)
        wrong = "no fence.proxy.async stands before the barrier in front of it";
    if (e->running->unfenced_token) wrong = "no fence.proxy.async stands behind the token";
    if (wrong) fail_at(e, e->running, wrong);
}

static void call_group_fence(void *emulator) {
    emulate_products_fence(((emulate_block *)emulator)->running->products);
}

static void call_group_commit(void *emulator) {
    emulate_products_commit(((emulate_block *)emulator)->running->products);
}

static void call_group_wait(void *emulator, unsigned pending, unsigned line) {
    emulate_block *e = emulator;
    e->running->state = AT_GROUP_WAIT;
    e->running->pending = pending;
    e->running->line = line;
    leave(e);
}

static void call_fence_async(void *emulator) {
    fibre *f = ((emulate_block *)emulator)->running;
    f->fenced_async = true;
    f->unfenced_token = false;
}

static void call_token_place(void *emulator, const void *at, unsigned arrivals, unsigned line) {
    emulate_block *e = emulator;
    e->running->line = line;
    const char *wrong = emulate_tokens_place(e->tokens, at, arrivals);
    if (wrong) fail_at(e, e->running, wrong);
}

/* Copies land when nothing else can go on. */
static void call_token_push(void *emulator, const void *at, unsigned copies, unsigned line) {
    emulate_block *e = emulator;
    fibre *f = e->running;
    const char *wrong;
    f->line = line;
    if (copies) {
        landing l = {.token = at};
        for (uint32_t i = 0; i < f->copies.count; i++)
            kiln_vec_push_in(e->arena, &l.copies, f->copies.data[i]);
        f->copies.count = 0;
        kiln_vec_push_in(e->arena, &e->landing, l);
        wrong = emulate_tokens_arrive(e->tokens, at);
    } else {
        wrong =
            emulate_tokens_arrive_in_warp(e->tokens, at, (unsigned)(f - e->fibre) / EMULATE_WARP);
    }
    if (wrong) fail_at(e, f, wrong);
    f->state = AT_PUSH;
    leave(e);
}

/* The place in the memory of group `rank` of the cluster that is like `at` in the running thread's;
 * NULL, and a fault, where that cannot be. */
static char *place_in(emulate_block *e, const void *at, unsigned rank) {
    const group *own = e->running->group;
    const ptrdiff_t offset = (const char *)at - own->shared;
    const char *wrong = NULL;
    if (offset < 0 || (size_t)offset >= e->launch->shared_bytes)
        wrong = "mapa takes addresses of shared memory";
    else if (rank >= e->group_count)
        wrong = "the cluster has no such group";
    else if (e->group[rank].ended == e->count)
        wrong = "that group of the cluster has left";
    if (wrong) {
        fail_at(e, e->running, wrong);
        return NULL;
    }
    e->group[rank].is_reached |= &e->group[rank] != own;
    return e->group[rank].shared + offset;
}

/* The token of another group, or of the own one, that is like `at`; NULL: a fault. */
static const void *token_in(emulate_block *e, const void *at, unsigned rank) {
    const void *token = place_in(e, at, rank);
    const char *wrong = NULL;
    if (token && &e->group[rank] != e->running->group)
        wrong = emulate_tokens_check_seen(e->tokens, token);
    if (wrong) fail_at(e, e->running, wrong);
    return wrong ? NULL : token;
}

static void call_token_push_remote(void *emulator, const void *at, unsigned rank, unsigned line) {
    emulate_block *e = emulator;
    fibre *f = e->running;
    const char *wrong = NULL;
    f->line = line;
    const void *token = token_in(e, at, rank);
    if (token)
        wrong = emulate_tokens_arrive_in_warp(e->tokens, token,
                                              (unsigned)(f - e->fibre) / EMULATE_WARP);
    if (wrong) fail_at(e, f, wrong);
    f->state = AT_PUSH;
    leave(e);
}

static void call_cluster(void *emulator, unsigned line) {
    emulate_block *e = emulator;
    e->running->state = AT_CLUSTER;
    e->running->line = line;
    leave(e);
}

static void call_token_expect(void *emulator, const void *at, unsigned bytes, unsigned line) {
    emulate_block *e = emulator;
    e->running->line = line;
    const char *wrong = emulate_tokens_expect(e->tokens, at, bytes);
    if (wrong) fail_at(e, e->running, wrong);
}

static void call_bulk_copy(void *emulator, void *to, const void *from, unsigned bytes,
                           const void *token, unsigned line) {
    emulate_block *e = emulator;
    const copy c = {to, from, bytes, 0};
    landing l = {.token = token, .by_bytes = true};
    e->running->line = line;
    if (bytes == 0 || bytes % 16 != 0 || ((uintptr_t)to | (uintptr_t)from) % 16 != 0)
        fail_at(e, e->running, "cp.async.bulk copies multiples of 16 bytes at such addresses");
    if (e->running->unfenced_token)
        fail_at(e, e->running, "no fence.proxy.async stands behind the token");
    memset(to, POISON, bytes);
    kiln_vec_push_in(e->arena, &l.copies, c);
    kiln_vec_push_in(e->arena, &e->landing, l);
}

static void add_piece(void *context, void *to, const void *from, unsigned bytes) {
    emulate_block *e = context;
    const copy c = {to, from, bytes, 0};
    memset(to, POISON, bytes);
    kiln_vec_push_in(e->arena, &kiln_vec_last(&e->landing).copies, c);
}

static void copy_box(emulate_block *e, char *to, const struct emulate_map *map,
                     const int *coordinate, const void *token) {
    const landing l = {.token = token, .by_bytes = true};
    kiln_vec_push_in(e->arena, &e->landing, l);
    const char *wrong = emulate_box_copy(map, to, coordinate, add_piece, e);
    if (wrong) fail_at(e, e->running, wrong);
}

/* `mask` 0: for the own group alone. */
static void call_box_copy(void *emulator, void *to, const struct emulate_map *map,
                          const int *coordinate, const void *token, unsigned mask, unsigned line) {
    emulate_block *e = emulator;
    e->running->line = line;
    if (e->running->unfenced_token)
        fail_at(e, e->running, "no fence.proxy.async stands behind the token");
    if (!mask) copy_box(e, to, map, coordinate, token);
    for (unsigned rank = 0; mask >> rank; rank++) {
        char *place = mask >> rank & 1 ? place_in(e, to, rank) : NULL;
        const void *counter = place ? token_in(e, token, rank) : NULL;
        if (counter) copy_box(e, place, map, coordinate, counter);
    }
}

/* Each group's copy lands for itself. */
static void call_multicast(void *emulator, void *to, const void *from, unsigned bytes,
                           const void *token, unsigned mask, unsigned line) {
    emulate_block *e = emulator;
    e->running->line = line;
    for (unsigned rank = 0; mask >> rank; rank++) {
        if (!(mask >> rank & 1)) continue;
        char *place = place_in(e, to, rank);
        const void *counter = place ? token_in(e, token, rank) : NULL;
        if (counter) call_bulk_copy(e, place, from, bytes, counter, line);
    }
}

static void call_token_pop(void *emulator, const void *at, unsigned parity, unsigned line) {
    emulate_block *e = emulator;
    fibre *f = e->running;
    f->state = AT_POP;
    f->line = line;
    f->token = at;
    f->parity = parity;
    leave(e);
    f->unfenced_token = true;
}

static void call_registers(void *emulator, unsigned count, unsigned line) {
    emulate_block *e = emulator;
    e->running->line = line;
    if (count % 8 != 0 || count < 24 || count > 256)
        fail_at(e, e->running, "setmaxnreg takes 24 to 256 registers, in steps of 8");
    e->running->registers = count;
}

/* ---- threads --------------------------------------------------------------------------------- */

static void call_entry(const emulate_block *e) {
    void *const *a = e->launch->arg;
    switch (e->launch->arg_count) {
#define CALL(COUNT, TYPES, ...) \
    case COUNT: ((void(*) TYPES)e->entry)(__VA_ARGS__); break
#define P void *
        CALL(1, (P), a[0]);
        CALL(2, (P, P), a[0], a[1]);
        CALL(3, (P, P, P), a[0], a[1], a[2]);
        CALL(4, (P, P, P, P), a[0], a[1], a[2], a[3]);
        CALL(5, (P, P, P, P, P), a[0], a[1], a[2], a[3], a[4]);
        CALL(6, (P, P, P, P, P, P), a[0], a[1], a[2], a[3], a[4], a[5]);
        CALL(7, (P, P, P, P, P, P, P), a[0], a[1], a[2], a[3], a[4], a[5], a[6]);
        CALL(8, (P, P, P, P, P, P, P, P), a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]);
#undef P
#undef CALL
    }
}

/* Shared memory is gone when the last thread of its group has ended. */
static void check_end(emulate_block *e, const fibre *last) {
    const char *shared = last->group->shared;
    if (e->group_count == 1) return;
    if (last->group->is_reached)
        fail_at(e, last, "others reached its group's memory since the last barrier of the cluster");
    for (uint32_t i = 0; i < e->landing.count; i++) {
        const char *token = e->landing.data[i].token;
        if (token >= shared && token < shared + e->launch->shared_bytes)
            fail_at(e, last, "a copy into its group's memory is under way");
    }
}

static void start(unsigned high, unsigned low) {
    emulate_block *e = (emulate_block *)(uintptr_t)((uint64_t)high << 32 | low); /* NOLINT */
    call_entry(e);
    e->running->state = ENDED;
    if (++e->running->group->ended == e->count) check_end(e, e->running);
    leave(e);
}

static void prepare_thread(emulate_block *e, group *g, uint32_t i) {
    const uint32_t *size = e->launch->block;
    fibre *f = &g->fibre[i];
    const uint64_t self = (uintptr_t)e;
    f->group = g;
    f->state = READY;
    f->thread = (struct emulate_index){i % size[0], i / size[0] % size[1], i / size[0] / size[1]};
    f->commits = 0;
    f->copies.count = 0;
    emulate_products_reset(f->products);
    f->fenced_async = false;
    f->unfenced_token = false;
    f->registers = 0;
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = e->stacks + (size_t)(f - e->fibre) * STACK_BYTES;
    f->context.uc_stack.ss_size = STACK_BYTES;
    f->context.uc_link = NULL;
    makecontext(&f->context, (void (*)(void))start, 2, (unsigned)(self >> 32), (unsigned)self);
}

static bool run_thread(emulate_block *e, fibre *f) {
    if (f->state != READY) return false;
    e->running = f;
    e->state->thread = f->thread;
    e->state->block = f->group->block;
    e->state->kiln_memory = f->group->shared;
    swapcontext(&e->scheduler, &f->context);
    return true;
}

/* ---- warps and blocks ------------------------------------------------------------------------ */

/* Carries out an instruction to which all lanes have come that one of them names. */
static bool run_instruction(emulate_block *e, fibre *warp, uint32_t lanes) {
    for (uint32_t i = 0; i < lanes; i++) {
        const fibre *first = &warp[i];
        void *operands[EMULATE_WARP] = {NULL};
        bool all = first->state == AT_INSTRUCTION;
        for (uint32_t l = 0; l < lanes && all; l++) {
            const fibre *f = &warp[l];
            if (!(first->mask >> l & 1)) continue;
            all = f->state == AT_INSTRUCTION && f->instruction == first->instruction &&
                  f->line == first->line && f->mask == first->mask;
            operands[l] = f->operands;
        }
        if (!all) continue;
        const char *wrong = emulate_warp[first->instruction].run(operands);
        if (wrong) fail_at(e, first, wrong);
        for (uint32_t l = 0; l < lanes; l++)
            if (operands[l]) warp[l].state = READY;
        return true;
    }
    return false;
}

/* Runs a warp as far as it gets alone. */
static void run_warp(emulate_block *e, fibre *warp, uint32_t lanes) {
    bool moved = true;
    while (moved && !e->fault) {
        for (uint32_t i = 0; i < lanes && !e->fault; i++) run_thread(e, &warp[i]);
        moved = !e->fault && run_instruction(e, warp, lanes);
    }
}

/* Lands what warp groups wait for, all of whose threads have come. */
static bool run_groups(emulate_block *e, const group *g) {
    bool moved = false;
    for (uint32_t first = 0; first + EMULATE_GROUP <= e->count && !e->fault;
         first += EMULATE_GROUP) {
        emulate_products *thread[EMULATE_GROUP];
        fibre *f = &g->fibre[first];
        bool all = true;
        for (uint32_t i = 0; i < EMULATE_GROUP; i++) {
            thread[i] = f[i].products;
            all &=
                f[i].state == AT_GROUP_WAIT && f[i].line == f->line && f[i].pending == f->pending;
        }
        if (!all) continue;
        const char *wrong =
            emulate_products_land(thread, f->pending, g->shared, e->launch->shared_bytes);
        if (wrong) fail_at(e, f, wrong);
        for (uint32_t i = 0; i < EMULATE_GROUP; i++) f[i].state = READY;
        moved = true;
    }
    return moved;
}

/* Lets threads go on that wait for a token that has come. */
static bool run_pops(emulate_block *e, const group *g) {
    bool moved = false;
    for (uint32_t i = 0; i < e->count && !e->fault; i++) {
        fibre *f = &g->fibre[i];
        bool has_ended = false;
        if (f->state != AT_POP) continue;
        const char *wrong = emulate_tokens_has_ended(e->tokens, f->token, f->parity, &has_ended);
        if (wrong) fail_at(e, f, wrong);
        if (has_ended) f->state = READY;
        moved |= has_ended;
    }
    return moved;
}

/* Lets threads go on that have pushed one. */
static bool run_pushes(emulate_block *e, const group *g) {
    bool moved = false;
    for (uint32_t i = 0; i < e->count; i++) {
        if (g->fibre[i].state != AT_PUSH) continue;
        g->fibre[i].state = READY;
        moved = true;
    }
    return moved;
}

/* The oldest copies that a token counts land. */
static bool land_copies(emulate_block *e) {
    if (e->landing.count == 0) return false;
    const landing l = e->landing.data[0];
    uint32_t bytes = 0;
    for (uint32_t i = 0; i < l.copies.count; i++) {
        const copy *c = &l.copies.data[i];
        if (c->from)
            memcpy(c->to, c->from, c->bytes);
        else
            memset(c->to, 0, c->bytes);
        bytes += c->bytes;
    }
    e->landing.count--;
    memmove(e->landing.data, e->landing.data + 1, e->landing.count * sizeof l);
    const char *wrong = l.by_bytes ? emulate_tokens_land(e->tokens, l.token, bytes)
                                   : emulate_tokens_arrive(e->tokens, l.token);
    if (wrong) fail_at(e, &e->fibre[0], wrong);
    return true;
}

/* A group's registers are shared out once, and taken and given from then on. */
static void check_registers(emulate_block *e, const group *g) {
    const uint32_t share = UNIT_REGISTERS / e->count / 8 * 8;
    uint32_t all = 0;
    bool changed = false;
    for (uint32_t i = 0; i < e->count; i++) {
        changed |= g->fibre[i].registers != 0;
        all += g->fibre[i].registers ? g->fibre[i].registers : share;
    }
    if (changed && all > share * e->count)
        fail_at(e, &g->fibre[0], "threads ask for more registers than they had together");
}

/* The first thread of the group that does not stand at one barrier with the others, or has not
 * ended with them; NULL: there is none. */
static const fibre *find_odd(const emulate_block *e, const group *g) {
    const fibre *first = &g->fibre[0];
    for (uint32_t i = 0; i < e->count; i++) {
        const fibre *f = &g->fibre[i];
        /* Threads with programs of their own meet at places of their own: each warp at one. */
        const fibre *like =
            emulate_tokens_exist(e->tokens) ? &g->fibre[i / EMULATE_WARP * EMULATE_WARP] : first;
        const bool is_at_barrier = f->state == AT_BARRIER || f->state == AT_CLUSTER;
        if (f->state != first->state) return f;
        if (f->state != ENDED && (!is_at_barrier || f->line != like->line)) return f;
    }
    return NULL;
}

/* Opens the barrier at which all threads of the group stand. */
static bool open_barrier(emulate_block *e, group *g) {
    if (g->fibre[0].state != AT_BARRIER || find_odd(e, g)) return false;
    g->unfenced = false;
    for (uint32_t i = 0; i < e->count; i++) {
        g->unfenced |= !g->fibre[i].fenced_async;
        g->fibre[i].fenced_async = false;
        g->fibre[i].state = READY;
    }
    return true;
}

/* Opens the barrier of the cluster, at which all its threads stand. */
static bool open_cluster(emulate_block *e) {
    for (uint32_t r = 0; r < e->group_count; r++)
        if (e->group[r].fibre[0].state != AT_CLUSTER || find_odd(e, &e->group[r])) return false;
    for (uint32_t r = 0; r < e->group_count; r++) {
        e->group[r].is_reached = false;
        for (uint32_t i = 0; i < e->count; i++) e->group[r].fibre[i].state = READY;
    }
    emulate_tokens_show(e->tokens);
    return true;
}

/* Nothing can go on: all threads have ended, or some wait in vain. */
static void check_stop(emulate_block *e) {
    const fibre *first = &e->group[0].fibre[0];
    for (uint32_t r = 0; r < e->group_count && !e->fault; r++) {
        const group *g = &e->group[r];
        const fibre *odd = find_odd(e, g);
        if (odd) fail_at(e, odd, describe(e, &g->fibre[odd == &g->fibre[0] && e->count > 1]));
        if (!odd && g->fibre[0].state == AT_CLUSTER)
            fail_at(e, &g->fibre[0], "a group of the cluster does not come to it");
        if (!odd && g->fibre[0].state != first->state)
            fail_at(e, first, "a group of the cluster does not come to it");
    }
}

static void check_canary(emulate_block *e, const group *g) {
    for (uint32_t i = 0; i < CANARY_BYTES && !e->fault; i++)
        if ((uint8_t)g->shared[e->launch->shared_bytes + i] != POISON)
            fail_at(e, &g->fibre[0], "the block has written behind its shared memory");
}

/* ---- clusters -------------------------------------------------------------------------------- */

static void begin_group(emulate_block *e, uint32_t rank, uint32_t number) {
    const uint32_t *grid = e->launch->grid;
    group *g = &e->group[rank];
    *g = (group){
        .fibre = e->fibre + (size_t)rank * THREADS_MAX,
        .shared = e->shared + (size_t)rank * EMULATE_SHARED_MAX,
        .block = {number % grid[0], number / grid[0] % grid[1], number / grid[0] / grid[1]}};
    memset(g->shared, POISON, e->launch->shared_bytes + CANARY_BYTES);
    for (uint32_t i = 0; i < e->count; i++) prepare_thread(e, g, i);
}

/* Whether a thread can go on that could not. */
static bool move(emulate_block *e) {
    static bool (*const way[])(emulate_block *e, const group *g) = {run_groups, run_pops,
                                                                    run_pushes};
    bool moved = false;
    for (size_t w = 0; w < KILN_ARRAY_COUNT(way) && !moved; w++)
        for (uint32_t r = 0; r < e->group_count && !e->fault; r++) moved |= way[w](e, &e->group[r]);
    for (uint32_t r = 0; r < e->group_count && !moved; r++) moved = open_barrier(e, &e->group[r]);
    return moved || open_cluster(e) || land_copies(e);
}

/* The groups of a cluster, from this one on. */
static void run_cluster(emulate_block *e, uint32_t number) {
    if (e->static_begin != e->static_end)
        memset(e->static_begin, POISON, (size_t)(e->static_end - e->static_begin));
    e->landing.count = 0;
    emulate_tokens_reset(e->tokens);
    for (uint32_t r = 0; r < e->group_count; r++) begin_group(e, r, number + r);
    do {
        for (uint32_t r = 0; r < e->group_count; r++)
            for (uint32_t i = 0; i < e->count; i += EMULATE_WARP)
                run_warp(e, &e->group[r].fibre[i], KILN_MIN(e->count - i, (uint32_t)EMULATE_WARP));
    } while (!e->fault && move(e));
    check_stop(e);
    for (uint32_t r = 0; r < e->group_count; r++) {
        check_canary(e, &e->group[r]);
        check_registers(e, &e->group[r]);
    }
}

/* ---- front ----------------------------------------------------------------------------------- */

#define GROUP_BYTES ((size_t)THREADS_MAX * STACK_BYTES + EMULATE_SHARED_MAX)

static void free_memory(emulate_block *e) {
    if (e->stacks != MAP_FAILED) munmap(e->stacks, e->room * GROUP_BYTES);
    e->stacks = MAP_FAILED;
}

/* Makes room for so many groups at the same time. */
static kiln_status make_room(emulate_block *e, uint32_t groups) {
    if (groups <= e->room) return KILN_OK;
    free_memory(e);
    e->room = groups;
    e->fibre = KILN_ARENA_ARRAY(e->arena, fibre, (size_t)groups * THREADS_MAX);
    for (uint32_t i = 0; i < groups * THREADS_MAX; i++)
        e->fibre[i].products = emulate_products_create(e->arena);
    e->stacks = mmap(NULL, groups * GROUP_BYTES, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (e->stacks == MAP_FAILED) {
        e->room = 0;
        return KILN_ERROR(RESOURCE_EXHAUSTED, "no memory for stacks");
    }
    e->shared = e->stacks + (size_t)groups * THREADS_MAX * STACK_BYTES;
    return KILN_OK;
}

kiln_status emulate_block_create(kiln_str text, const char *folder, kiln_arena *arena,
                                 emulate_block **out_emulator) {
    const char *path;
    emulate_block *e = KILN_ARENA_NEW(arena, emulate_block);
    *e = (emulate_block){.arena = arena, .stacks = MAP_FAILED};
    kiln_status st = emulate_compile(text, folder, arena, &path);
    if (!st) st = load(e, path);
    e->tokens = emulate_tokens_create(arena);
    if (st) {
        emulate_block_destroy(e);
        return st;
    }
    *e->state = (struct emulate_state){.emulator = e,
                                       .barrier = call_barrier,
                                       .cluster = call_cluster,
                                       .warp = call_warp,
                                       .copy = call_copy,
                                       .commit = call_commit,
                                       .wait = call_wait,
                                       .group_begin = call_group_begin,
                                       .group_fence = call_group_fence,
                                       .group_commit = call_group_commit,
                                       .group_wait = call_group_wait,
                                       .fence_async = call_fence_async,
                                       .token_place = call_token_place,
                                       .token_push = call_token_push,
                                       .token_push_remote = call_token_push_remote,
                                       .token_pop = call_token_pop,
                                       .token_expect = call_token_expect,
                                       .bulk_copy = call_bulk_copy,
                                       .box_copy = call_box_copy,
                                       .multicast = call_multicast,
                                       .registers = call_registers};
    *out_emulator = e;
    return KILN_OK;
}

void emulate_block_destroy(emulate_block *e) {
    if (!e) return;
    free_memory(e);
    if (e->library) dlclose(e->library);
}

kiln_status emulate_block_run(emulate_block *e, const emulate_block_launch *launch) {
    const uint32_t *grid = launch->grid, *block = launch->block;
    *(void **)&e->entry = dlsym(e->library, launch->entry);
    if (!e->entry) return KILN_ERROR(NOT_FOUND, "the text has no kernel %s", launch->entry);
    e->launch = launch;
    e->count = block[0] * block[1] * block[2];
    if (e->count == 0 || e->count > THREADS_MAX || launch->arg_count == 0 ||
        launch->arg_count > EMULATE_BLOCK_ARGS_MAX ||
        launch->shared_bytes + CANARY_BYTES > EMULATE_SHARED_MAX)
        return KILN_ERROR(INVALID_ARGUMENT, "a launch has 1 to %d threads and 1 to %d arguments",
                          THREADS_MAX, EMULATE_BLOCK_ARGS_MAX);
    e->group_count = launch->cluster ? launch->cluster : 1;
    if (e->group_count > EMULATE_CLUSTER_MAX || grid[0] % e->group_count != 0 ||
        (e->group_count > 1 && e->static_begin != e->static_end))
        return KILN_ERROR(INVALID_ARGUMENT,
                          "a cluster has up to %d groups along x, which it divides, and no other "
                          "shared memory than `extern __shared__`",
                          EMULATE_CLUSTER_MAX);
    kiln_status st = make_room(e, e->group_count);
    if (st) return st;
    e->state->block_size = (struct emulate_index){block[0], block[1], block[2]};
    e->state->grid_size = (struct emulate_index){grid[0], grid[1], grid[2]};
    e->fault = NULL;
    for (uint32_t i = 0; i < grid[0] * grid[1] * grid[2] && !e->fault; i += e->group_count)
        run_cluster(e, i);
    return e->fault;
}
