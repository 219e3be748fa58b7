#include "rpc-server/child_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/fence.h"
#include "base/file.h"
#include "rpc-server/child_protocol.h"
#include "rpc-server/sandbox.h"

/* Other users may enter a child's folder. They create nothing in it, except a driver's child
 * (kiln_sandbox_let_write). */
#define FOLDER_MODE 0711

static kiln_status start_spare(kiln_child_pool *pool) {
    kiln_child_process *spare = &pool->spare;
    kiln_status st = kiln_fail_at(KILN_FAIL_CHILD_START);
    if (!st) st = kiln_helper_start(pool->helper, NULL, &spare->socket, &spare->child);
    return st;
}

/* Keeps only those fences that also hold for a child that opens a device of that driver. */
static kiln_status try_driver(kiln_child_pool *pool, const kiln_driver *driver) {
    kiln_child_process process = KILN_CHILD_PROCESS_NONE;
    uint32_t fences = 0;
    process.helper = pool->helper;
    kiln_status st = kiln_helper_start(pool->helper, driver, &process.socket, &process.child);
    if (!st) st = kiln_child_await_ready(process.socket, &fences);
    if (!st) pool->fences &= fences;
    kiln_child_process_release(&process);
    return kiln_status_note(st, "a child for the driver %s", driver->name);
}

kiln_status kiln_child_pool_open(kiln_child_pool *pool, const kiln_driver *const *driver,
                                 uint32_t driver_count) {
    pool->spare = KILN_CHILD_PROCESS_NONE;
    pool->spare.helper = pool->helper;
    /* A killed server leaves folders of its children. */
    kiln_status st = kiln_file_is_folder(pool->folder)
                         ? kiln_helper_remove_folder(pool->helper, pool->folder)
                         : NULL;
    if (!st) st = kiln_folder_create(pool->folder, FOLDER_MODE);
    if (st) return kiln_status_note(st, "folder for measurements");
    st = start_spare(pool);
    if (!st) st = kiln_child_await_ready(pool->spare.socket, &pool->fences);
    pool->own_files = pool->fences & 1U << KILN_FENCE_FOLDER;
    for (uint32_t i = 0; !st && i < driver_count; i++) st = try_driver(pool, driver[i]);
    pool->drivers_own_files = pool->fences & 1U << KILN_FENCE_FOLDER;
    const uint32_t own = 1U << KILN_FENCE_HELPER, of_helper = kiln_helper_fences(pool->helper);
    /* The limits of a control group hold only for children inside one. */
    pool->fences |= pool->fences & 1U << KILN_FENCE_GROUP ? of_helper : of_helper & own;
    return st ? kiln_status_note(st, "starting the first contained child") : NULL;
}

void kiln_child_pool_close(kiln_child_pool *pool) {
    kiln_child_process_release(&pool->spare);
    if (pool->folder && kiln_file_is_folder(pool->folder)) /* the next start tries again */
        kiln_status_free(kiln_helper_remove_folder(pool->helper, pool->folder));
}

void kiln_child_pool_refill(kiln_child_pool *pool) {
    if (!pool->spare.child.number)
        kiln_status_free(start_spare(pool)); /* the next one tries again */
}

bool kiln_child_process_has_ended(const kiln_child_process *process) {
    struct pollfd ended = {.fd = process->child.pidfd, .events = POLLIN};
    return poll(&ended, 1, 0) > 0;
}

static kiln_status take_child(kiln_child_pool *pool, kiln_child_process *process) {
    if (pool->spare.child.number && kiln_child_process_has_ended(&pool->spare))
        kiln_child_process_release(&pool->spare);
    kiln_status st = pool->spare.child.number ? NULL : start_spare(pool);
    if (st) return st;
    process->child = pool->spare.child;
    process->socket = pool->spare.socket;
    pool->spare = KILN_CHILD_PROCESS_NONE;
    pool->spare.helper = pool->helper;
    return NULL;
}

static kiln_status create_folder(kiln_child_process *process, const char *folder, uint64_t run,
                                 const kiln_driver *driver) {
    kiln_strbuf text = {0};
    kiln_strbuf_printf(&text, "%s/run-%llu", folder, (unsigned long long)run);
    char *path = process->folder = text.data;
    kiln_status st = kiln_folder_create(path, FOLDER_MODE);
    if (st) return st;
    process->folder_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (process->folder_fd < 0)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "%s: %s", path, strerror(errno));
    (void)fchmod(process->folder_fd,
                 FOLDER_MODE); /* against the umask: the child is another user */
    if (driver) kiln_sandbox_let_write(process->folder_fd);
    return NULL;
}

kiln_status kiln_child_process_take(kiln_child_pool *pool, uint64_t run, const kiln_driver *driver,
                                    kiln_child_process *out_process) {
    *out_process = KILN_CHILD_PROCESS_NONE;
    out_process->helper = pool->helper;
    kiln_status st = kiln_fail_at(KILN_FAIL_CHILD_FOLDER);
    if (!st && !(driver ? pool->drivers_own_files : pool->own_files))
        st = create_folder(out_process, pool->folder, run, driver);
    if (st) return st;
    return driver
               ? kiln_helper_start(pool->helper, driver, &out_process->socket, &out_process->child)
               : take_child(pool, out_process);
}

void kiln_child_process_keep_to(const kiln_child_process *process, const uint32_t *core,
                                uint32_t core_count) {
    kiln_helper_keep_to(process->helper, process->child.number, core, core_count);
}

void kiln_child_process_kill(const kiln_child_process *process) {
    kiln_helper_kill(process->helper, process->child.number);
}

static kiln_helper_seen look(kiln_child_process *process) {
    const kiln_helper_seen seen = kiln_helper_look(process->helper, process->child.number);
    process->ended = seen.ended;
    process->gone = seen.gone;
    return seen;
}

bool kiln_child_process_ended(kiln_child_process *process, kiln_child_exit *out_exit) {
    if (process->ended || !kiln_child_process_has_ended(process)) return false;
    const kiln_helper_seen seen = look(process);
    if (seen.ended) *out_exit = seen.exit;
    return seen.ended;
}

bool kiln_child_process_is_gone(kiln_child_process *process) {
    return process->gone || look(process).gone;
}

void kiln_child_process_release(kiln_child_process *process) {
    if (process->child.number) kiln_helper_release(process->helper, process->child.number);
    process->child.number = 0;
    kiln_fd_close(&process->child.pidfd);
    kiln_fd_close(&process->socket);
    kiln_fd_close(&process->folder_fd);
    if (process->folder) /* the next start tries again */
        kiln_status_free(kiln_helper_remove_folder(process->helper, process->folder));
    kiln_free(process->folder);
    process->folder = NULL;
}
