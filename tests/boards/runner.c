/* Runs kernels on another processor, or under its emulator: a static program of the runtime alone,
 * to which a test sends objects and arguments (protocol.h). Arguments lie beside guard pages, and
 * every kernel runs twice with other garbage in scratch. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "deploy/runtime/load.h"
#include "deploy/runtime/pages.h"
#include "deploy/runtime/services.h"
#include "tests/boards/protocol.h"

typedef struct job {
    board_job head;
    char *bytes; /* the object */
    kiln_object *object;
    kiln_pages pages[BOARD_ARGS_MAX], scratch;
    kiln_pool *pool;
} job;

static bool take(void *to, size_t size) { return fread(to, 1, size, stdin) == size; }

static bool take_job(job *j) {
    *j = (job){0};
    if (!take(&j->head, sizeof j->head)) return false;
    const board_job *h = &j->head;
    if (h->arg_count > BOARD_ARGS_MAX || h->object_bytes > BOARD_BYTES_MAX) return false;
    j->bytes = kiln_alloc((size_t)h->object_bytes);
    if (!take(j->bytes, (size_t)h->object_bytes)) return false;
    for (uint64_t i = 0; i < h->arg_count; i++) {
        uint64_t size;
        if (!take(&size, sizeof size) || size > BOARD_BYTES_MAX) return false;
        kiln_status st = kiln_pages_create(
            (size_t)size, i % 2 ? KILN_GUARD_BEFORE : KILN_GUARD_AFTER, &j->pages[i]);
        if (st) return false;
        if (!take(j->pages[i].data, (size_t)size)) return false;
    }
    return true;
}

static kiln_status call(const job *j, const char *name, kiln_services *services) {
    kiln_kernel_tensor tensor[BOARD_ARGS_MAX] = {{0}};
    kiln_kernel_tensor *args[BOARD_ARGS_MAX];
    kiln_kernel_entry entry = kiln_object_find(j->object, name);
    if (!entry) return KILN_ERROR(NOT_FOUND, "the object has no %s", name);
    for (uint32_t i = 0; i < j->head.arg_count; i++) {
        tensor[i].data = j->pages[i].data;
        args[i] = &tensor[i];
    }
    if (entry(args, &services->table) == KILN_KERNEL_OK) return KILN_OK;
    return KILN_ERROR(INTERNAL, "%s failed", name);
}

static size_t aligned(uint64_t size) {
    return ((size_t)size + KILN_KERNEL_ALIGNMENT - 1) & ~(size_t)(KILN_KERNEL_ALIGNMENT - 1);
}

static kiln_status run(job *j) {
    uint32_t workers = (uint32_t)j->head.workers;
    const kiln_pool_options options = {.worker_count = workers};
    kiln_status st =
        kiln_object_load((kiln_str){j->bytes, (size_t)j->head.object_bytes}, &j->object);
    if (!st)
        st = kiln_pages_create(aligned(j->head.scratch_bytes) +
                                   workers * aligned(j->head.worker_scratch_bytes),
                               KILN_GUARD_AFTER, &j->scratch);
    if (!st && workers > 1) st = kiln_pool_create(&options, &j->pool);
    if (st) return st;
    kiln_services services;
    kiln_services_init(&services, j->pool, workers, j->scratch.data);
    if (j->head.prepares) st = call(j, "kiln_prepare", &services);
    for (int round = 0; !st && round < 2; round++) {
        kiln_pages_poison(&j->scratch, round ? KILN_POISON_LAST : KILN_POISON_FIRST);
        st = call(j, "kiln_run", &services);
    }
    bool intact = kiln_pages_intact(&j->scratch);
    for (uint32_t i = 0; i < j->head.arg_count; i++) intact &= kiln_pages_intact(&j->pages[i]);
    if (!st && !intact) st = KILN_ERROR(INTERNAL, "written outside of a buffer");
    return st;
}

static void answer(const job *j, kiln_status st) {
    board_answer a = {{0}};
    if (st) snprintf(a.text, sizeof a.text, "%s", kiln_status_text(st));
    fwrite(&a, sizeof a, 1, stdout);
    for (uint32_t i = 0; !st && i < j->head.arg_count; i++)
        fwrite(j->pages[i].data, 1, j->pages[i].size_bytes, stdout);
    fflush(stdout);
}

static void job_deinit(job *j) {
    for (uint32_t i = 0; i < BOARD_ARGS_MAX; i++) kiln_pages_destroy(&j->pages[i]);
    kiln_pages_destroy(&j->scratch);
    kiln_pool_destroy(j->pool);
    kiln_object_unload(j->object);
    kiln_free(j->bytes);
}

int main(void) {
    job j;
    while (take_job(&j)) {
        kiln_status st = run(&j);
        answer(&j, st);
        kiln_status_free(st);
        job_deinit(&j);
    }
    job_deinit(&j);
    return feof(stdin) ? 0 : 1;
}
