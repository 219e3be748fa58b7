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

/* From a zygote that lives. */
static kiln_status copy_zygote(kiln_wards *wards, const char *cgroup) {
    kiln_child *process = &wards->zygote.process;
    kiln_child_exit ignored;
    kiln_status st = NULL;
    if (kiln_child_ended(process, &ignored)) kiln_zygote_close(&wards->zygote);
    if (!process->pid) st = kiln_zygote_open(&wards->zygote, wards->program);
    if (!st) st = kiln_zygote_start(&wards->zygote, cgroup, &wards->spare);
    if (st) kiln_zygote_close(&wards->zygote);
    return st;
}

static kiln_status load_program(kiln_wards *wards, const char *cgroup) {
    const char *const emulated[] = {wards->emulator, wards->program, "--child", cgroup, NULL};
    const char *const *argv = wards->emulator ? emulated : emulated + 1;
    return kiln_child_start(&(kiln_child_options){.argv = argv, .socket_in = true}, &wards->spare);
}

/* The next spare. */
static kiln_status start_spare(kiln_wards *wards) {
    kiln_status st = kiln_fail_at(KILN_FAIL_CAGE_CHILD);
    if (st) return st;
    kiln_cgroup_create(&wards->cgroups, &wards->spare_cgroup);
    const char *cgroup = wards->spare_cgroup.folder[0] ? wards->spare_cgroup.folder : NULL;
    st = wards->copies ? copy_zygote(wards, cgroup) : load_program(wards, cgroup);
    if (st) kiln_cgroup_destroy(&wards->spare_cgroup);
    return st;
}

/* Whether a zygote can have copies here is tried, not assumed. */
static kiln_status start_first(kiln_wards *wards) {
    wards->copies = !wards->emulator && kiln_zygote_is_allowed();
    kiln_status st = start_spare(wards);
    if (!st || !wards->copies) return st;
    kiln_status_free(st);
    wards->copies = false;
    return start_spare(wards);
}

static void open_cgroups(kiln_wards *wards) {
    char parent[KILN_CGROUP_PATH_BYTES];
    if (kiln_cgroup_find("", parent)) kiln_cgroups_open(&wards->cgroups, parent, wards->memory_max);
}

kiln_status kiln_wards_open(kiln_wards *wards) {
    wards->spare = (kiln_child){.in_fd = -1, .out_fd = -1};
    wards->cgroups.lock_fd = -1;
    /* Folders of children of a server that was killed. */
    kiln_status st = kiln_file_is_folder(wards->folder) ? kiln_folder_remove(wards->folder) : NULL;
    if (!st) st = kiln_folder_create(wards->folder, 0700);
    if (st) return kiln_status_note(st, "folder for measurements");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    open_cgroups(wards);
    st = start_first(wards);
    if (!st) st = kiln_inmate_await_ready(wards->spare.in_fd, &wards->fences);
    /* Bounds of a group hold for who is in it. */
    if (wards->fences & 1U << KILN_FENCE_GROUP) wards->fences |= wards->cgroups.fences;
    return st ? kiln_status_note(st, "starting the first contained child") : NULL;
}

/* Also what the leader of the group left to us. */
static void destroy_child(kiln_child *child, pid_t group, kiln_cgroup *cgroup) {
    kiln_cgroup_kill(cgroup);
    kiln_child_destroy(child);
    if (group != 0) {
        kill(-group, SIGKILL);
        while (waitpid(-group, NULL, 0) > 0 || errno == EINTR) {}
    }
    kiln_cgroup_destroy(cgroup);
}

void kiln_wards_close(kiln_wards *wards) {
    destroy_child(&wards->spare, wards->spare.pid, &wards->spare_cgroup);
    kiln_zygote_close(&wards->zygote);
    kiln_cgroups_close(&wards->cgroups);
    if (wards->folder && kiln_file_is_folder(wards->folder))
        kiln_status_free(kiln_folder_remove(wards->folder)); /* the next start tries again */
}

void kiln_wards_refill(kiln_wards *wards) {
    if (!wards->spare.pid) kiln_status_free(start_spare(wards)); /* the next one tries again */
}

/* The waiting spare, or a new child. */
static kiln_status take_child(kiln_wards *wards, kiln_ward *ward) {
    kiln_child_exit ignored;
    const pid_t group = wards->spare.pid;
    if (group && kiln_child_ended(&wards->spare, &ignored))
        destroy_child(&wards->spare, group, &wards->spare_cgroup);
    kiln_status st = wards->spare.pid ? NULL : start_spare(wards);
    if (st) return st;
    ward->child = wards->spare;
    ward->cgroup = wards->spare_cgroup;
    ward->group = ward->child.pid;
    wards->spare = (kiln_child){.in_fd = -1, .out_fd = -1};
    wards->spare_cgroup = (kiln_cgroup){0};
    return NULL;
}

static kiln_status create_folder(kiln_ward *ward, char *path) {
    kiln_status st = kiln_folder_create(path, 0700);
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
    kiln_status st = kiln_fail_at(KILN_FAIL_CAGE_FOLDER);
    if (!st && !(wards->fences & 1U << KILN_FENCE_FOLDER))
        st = create_folder(out_ward, kiln_arena_printf(arena, "%s/run-%llu", wards->folder,
                                                       (unsigned long long)run));
    if (!st) st = take_child(wards, out_ward);
    if (st) return st;
    out_ward->pidfd = pidfd_open(out_ward->child.pid, 0);
    if (out_ward->pidfd < 0)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "watching the child: %s", strerror(errno));
    return NULL;
}

void kiln_ward_keep_to(const kiln_ward *ward, const uint32_t *core, uint32_t core_count) {
    kiln_cgroup_keep_to(&ward->cgroup, core, core_count);
}

void kiln_ward_kill(const kiln_ward *ward) {
    if (ward->group) kill(-ward->group, SIGKILL);
    kiln_cgroup_kill(&ward->cgroup);
}

bool kiln_ward_ended(kiln_ward *ward, kiln_child_exit *out_exit) {
    return kiln_child_ended(&ward->child, out_exit);
}

bool kiln_ward_is_gone(const kiln_ward *ward) {
    while (waitpid(-ward->group, NULL, WNOHANG) > 0) {} /* what the leader left to us */
    return kill(-ward->group, 0) != 0 && errno == ESRCH && kiln_cgroup_is_empty(&ward->cgroup);
}

void kiln_ward_release(kiln_ward *ward) {
    destroy_child(&ward->child, ward->group, &ward->cgroup);
    ward->group = 0;
    close_fd(&ward->pidfd);
    close_fd(&ward->folder_fd);
    if (ward->folder)
        kiln_status_free(kiln_folder_remove(ward->folder)); /* the next start tries again */
    ward->folder = NULL;
}
