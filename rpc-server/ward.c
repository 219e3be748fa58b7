#include "rpc-server/ward.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/file.h"
#include "rpc-server/sandbox.h"
#include "rpc-server/talk.h"

static void close_fd(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

static kiln_status start_child(const kiln_wards *wards, kiln_child *out_child) {
    const char *const emulated[] = {wards->emulator, wards->program, "--child", NULL};
    const char *const *argv = wards->emulator ? emulated : emulated + 1;
    kiln_status st = kiln_fail_at(KILN_FAIL_CAGE_CHILD);
    return st ? st
              : kiln_child_start(&(kiln_child_options){.argv = argv, .socket_in = true}, out_child);
}

kiln_status kiln_wards_open(kiln_wards *wards) {
    wards->spare = (kiln_child){.in_fd = -1, .out_fd = -1};
    /* Folders of children of a server that was killed. */
    kiln_status st = kiln_file_is_folder(wards->folder) ? kiln_folder_remove(wards->folder) : NULL;
    if (!st) st = kiln_folder_create(wards->folder, 0700);
    if (st) return kiln_status_note(st, "folder for measurements");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    st = start_child(wards, &wards->spare);
    if (!st) st = kiln_inmate_await_ready(wards->spare.in_fd, &wards->fences);
    return st ? kiln_status_note(st, "starting the first contained child") : NULL;
}

/* Also what the leader of the group left to us. */
static void destroy_child(kiln_child *child, pid_t group) {
    kiln_child_destroy(child);
    if (group == 0) return;
    kill(-group, SIGKILL);
    while (waitpid(-group, NULL, 0) > 0 || errno == EINTR) {}
}

void kiln_wards_close(kiln_wards *wards) {
    destroy_child(&wards->spare, wards->spare.pid);
    if (wards->folder && kiln_file_is_folder(wards->folder))
        kiln_status_free(kiln_folder_remove(wards->folder)); /* the next start tries again */
}

void kiln_wards_refill(kiln_wards *wards) {
    if (!wards->spare.pid) kiln_status_free(start_child(wards, &wards->spare));
}

/* The waiting spare, or a new child. */
static kiln_status take_child(kiln_wards *wards, kiln_child *out_child) {
    kiln_child_exit ignored;
    const pid_t group = wards->spare.pid;
    if (group && kiln_child_ended(&wards->spare, &ignored)) destroy_child(&wards->spare, group);
    kiln_status st = wards->spare.pid ? NULL : start_child(wards, &wards->spare);
    if (st) return st;
    *out_child = wards->spare;
    wards->spare = (kiln_child){.in_fd = -1, .out_fd = -1};
    return NULL;
}

static kiln_status create_folder(kiln_ward *ward, char *path) {
    kiln_status st = kiln_fail_at(KILN_FAIL_CAGE_FOLDER);
    if (!st) st = kiln_folder_create(path, 0700);
    if (st) return st;
    ward->folder = path;
    ward->folder_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (ward->folder_fd < 0) return KILN_ERROR(RESOURCE_EXHAUSTED, "%s: %s", path, strerror(errno));
    /* Only root can and needs to give it to the child's user. */
    if (geteuid() == 0 && fchown(ward->folder_fd, KILN_SANDBOX_USER, KILN_SANDBOX_USER) != 0)
        return KILN_ERROR(PERMISSION_DENIED, "%s: %s", path, strerror(errno));
    return NULL;
}

kiln_status kiln_ward_take(kiln_wards *wards, uint64_t run, kiln_arena *arena,
                           kiln_ward *out_ward) {
    *out_ward = KILN_WARD_NONE;
    kiln_status st = create_folder(
        out_ward, kiln_arena_printf(arena, "%s/run-%llu", wards->folder, (unsigned long long)run));
    if (!st) st = take_child(wards, &out_ward->child);
    if (st) return st;
    out_ward->group = out_ward->child.pid;
    out_ward->pidfd = pidfd_open(out_ward->child.pid, 0);
    if (out_ward->pidfd < 0)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "watching the child: %s", strerror(errno));
    return NULL;
}

void kiln_ward_kill(const kiln_ward *ward) {
    if (ward->group) kill(-ward->group, SIGKILL);
}

bool kiln_ward_ended(kiln_ward *ward, kiln_child_exit *out_exit) {
    return kiln_child_ended(&ward->child, out_exit);
}

bool kiln_ward_is_gone(const kiln_ward *ward) {
    while (waitpid(-ward->group, NULL, WNOHANG) > 0) {} /* what the leader left to us */
    return kill(-ward->group, 0) != 0 && errno == ESRCH;
}

void kiln_ward_release(kiln_ward *ward) {
    destroy_child(&ward->child, ward->group);
    ward->group = 0;
    close_fd(&ward->pidfd);
    close_fd(&ward->folder_fd);
    if (ward->folder)
        kiln_status_free(kiln_folder_remove(ward->folder)); /* the next start tries again */
    ward->folder = NULL;
}
