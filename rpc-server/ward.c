#include "rpc-server/ward.h"

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
#include "rpc-server/sandbox.h"
#include "rpc-server/talk.h"

/* Others may enter a child's folder, and make nothing in it, but for its driver. */
#define FOLDER_MODE 0711

static void close_fd(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

/* The next spare. */
static kiln_status start_spare(kiln_wards *wards) {
    kiln_ward *spare = &wards->spare;
    kiln_status st = kiln_fail_at(KILN_FAIL_CAGE_CHILD);
    if (!st) st = kiln_helper_start(wards->helper, NULL, &spare->socket, &spare->child);
    return st;
}

/* What holds for a child that opens a device of that driver. */
static kiln_status try_driver(kiln_wards *wards, const kiln_driver *driver) {
    kiln_ward ward = KILN_WARD_NONE;
    uint32_t fences = 0;
    ward.helper = wards->helper;
    kiln_status st = kiln_helper_start(wards->helper, driver, &ward.socket, &ward.child);
    if (!st) st = kiln_inmate_await_ready(ward.socket, &fences);
    if (!st) wards->fences &= fences;
    kiln_ward_release(&ward);
    return kiln_status_note(st, "a child for the driver %s", driver->name);
}

kiln_status kiln_wards_open(kiln_wards *wards, const kiln_driver *const *driver,
                            uint32_t driver_count) {
    wards->spare = KILN_WARD_NONE;
    wards->spare.helper = wards->helper;
    /* Folders of children of a server that was killed. */
    kiln_status st = kiln_file_is_folder(wards->folder)
                         ? kiln_helper_remove_folder(wards->helper, wards->folder)
                         : NULL;
    if (!st) st = kiln_folder_create(wards->folder, FOLDER_MODE);
    if (st) return kiln_status_note(st, "folder for measurements");
    st = start_spare(wards);
    if (!st) st = kiln_inmate_await_ready(wards->spare.socket, &wards->fences);
    wards->own_files = wards->fences & 1U << KILN_FENCE_FOLDER;
    for (uint32_t i = 0; !st && i < driver_count; i++) st = try_driver(wards, driver[i]);
    wards->drivers_own_files = wards->fences & 1U << KILN_FENCE_FOLDER;
    const uint32_t own = 1U << KILN_FENCE_HELPER, of_helper = kiln_helper_fences(wards->helper);
    /* Bounds of a group hold for who is in it. */
    wards->fences |= wards->fences & 1U << KILN_FENCE_GROUP ? of_helper : of_helper & own;
    return st ? kiln_status_note(st, "starting the first contained child") : NULL;
}

void kiln_wards_close(kiln_wards *wards) {
    kiln_ward_release(&wards->spare);
    if (wards->folder && kiln_file_is_folder(wards->folder)) /* The next start tries again. */
        kiln_status_free(kiln_helper_remove_folder(wards->helper, wards->folder));
}

void kiln_wards_refill(kiln_wards *wards) {
    if (!wards->spare.child.number)
        kiln_status_free(start_spare(wards)); /* the next one tries again */
}

bool kiln_ward_has_ended(const kiln_ward *ward) {
    struct pollfd ended = {.fd = ward->child.pidfd, .events = POLLIN};
    return poll(&ended, 1, 0) > 0;
}

/* The waiting spare, or a new child. */
static kiln_status take_child(kiln_wards *wards, kiln_ward *ward) {
    if (wards->spare.child.number && kiln_ward_has_ended(&wards->spare))
        kiln_ward_release(&wards->spare);
    kiln_status st = wards->spare.child.number ? NULL : start_spare(wards);
    if (st) return st;
    ward->child = wards->spare.child;
    ward->socket = wards->spare.socket;
    wards->spare = KILN_WARD_NONE;
    wards->spare.helper = wards->helper;
    return NULL;
}

static kiln_status create_folder(kiln_ward *ward, const char *folder, uint64_t run,
                                 const kiln_driver *driver) {
    kiln_strbuf text = {0};
    kiln_strbuf_printf(&text, "%s/run-%llu", folder, (unsigned long long)run);
    char *path = ward->folder = text.data;
    kiln_status st = kiln_folder_create(path, FOLDER_MODE);
    if (st) return st;
    ward->folder_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (ward->folder_fd < 0) return KILN_ERROR(RESOURCE_EXHAUSTED, "%s: %s", path, strerror(errno));
    (void)fchmod(ward->folder_fd, FOLDER_MODE); /* whatever the umask: the child is another user */
    if (driver) kiln_sandbox_let_write(ward->folder_fd);
    return NULL;
}

kiln_status kiln_ward_take(kiln_wards *wards, uint64_t run, const kiln_driver *driver,
                           kiln_ward *out_ward) {
    *out_ward = KILN_WARD_NONE;
    out_ward->helper = wards->helper;
    kiln_status st = kiln_fail_at(KILN_FAIL_CAGE_FOLDER);
    if (!st && !(driver ? wards->drivers_own_files : wards->own_files))
        st = create_folder(out_ward, wards->folder, run, driver);
    if (st) return st;
    return driver ? kiln_helper_start(wards->helper, driver, &out_ward->socket, &out_ward->child)
                  : take_child(wards, out_ward);
}

void kiln_ward_keep_to(const kiln_ward *ward, const uint32_t *core, uint32_t core_count) {
    kiln_helper_keep_to(ward->helper, ward->child.number, core, core_count);
}

void kiln_ward_kill(const kiln_ward *ward) { kiln_helper_kill(ward->helper, ward->child.number); }

static kiln_helper_seen look(kiln_ward *ward) {
    const kiln_helper_seen seen = kiln_helper_look(ward->helper, ward->child.number);
    ward->ended = seen.ended;
    ward->gone = seen.gone;
    return seen;
}

bool kiln_ward_ended(kiln_ward *ward, kiln_child_exit *out_exit) {
    if (ward->ended || !kiln_ward_has_ended(ward)) return false;
    const kiln_helper_seen seen = look(ward);
    if (seen.ended) *out_exit = seen.exit;
    return seen.ended;
}

bool kiln_ward_is_gone(kiln_ward *ward) { return ward->gone || look(ward).gone; }

void kiln_ward_release(kiln_ward *ward) {
    if (ward->child.number) kiln_helper_release(ward->helper, ward->child.number);
    ward->child.number = 0;
    close_fd(&ward->child.pidfd);
    close_fd(&ward->socket);
    close_fd(&ward->folder_fd);
    if (ward->folder) /* the next start tries again */
        kiln_status_free(kiln_helper_remove_folder(ward->helper, ward->folder));
    kiln_free(ward->folder);
    ward->folder = NULL;
}
