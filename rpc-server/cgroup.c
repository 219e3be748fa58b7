#include "rpc-server/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macros.h"
#include "base/str.h"
#include "rpc-server/sandbox.h"

/* Names of the server's group, of its children's groups in it, and of the one that the server may
 * move into. */
#define PREFIX "kiln-"
#define CHILD "child-"
#define SERVER "server"
#define LAUNCHER "launcher"
#define TEXT_BYTES 4096u
#define CLAIMS 8

/* ---- Files of a group ---- */

static bool join_path(char *out, const char *folder, const char *name) {
    int size = snprintf(out, KILN_CGROUP_PATH_BYTES, "%s/%s", folder, name);
    return size > 0 && (uint32_t)size < KILN_CGROUP_PATH_BYTES;
}

static bool write_text(const char *folder, const char *name, const char *text) {
    char path[KILN_CGROUP_PATH_BYTES];
    if (!join_path(path, folder, name)) return false;
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    kiln_fd_close(&fd);
    return written;
}

static bool write_number(const char *folder, const char *name, uint64_t number) {
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)number);
    return write_text(folder, name, text);
}

/* Reads the file's first TEXT_BYTES; empty if it cannot be read. */
static kiln_str read_text(const char *path, char text[TEXT_BYTES]) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd >= 0 ? read(fd, text, TEXT_BYTES) : 0;
    kiln_fd_close(&fd);
    return (kiln_str){text, size > 0 ? (size_t)size : 0};
}

static bool has_word(const char *folder, const char *name, const char *word) {
    char path[KILN_CGROUP_PATH_BYTES], text[TEXT_BYTES];
    if (!join_path(path, folder, name)) return false;
    kiln_str rest = kiln_str_trim(read_text(path, text));
    while (rest.size > 0)
        if (kiln_str_is(kiln_str_cut(&rest, ' '), word)) return true;
    return false;
}

/* ---- This process' group ---- */

/* Reads the path of this process' group from /proc: "0::/path". */
static bool own_path(const char *root, char out[KILN_CGROUP_PATH_BYTES]) {
    char path[KILN_CGROUP_PATH_BYTES], text[TEXT_BYTES];
    if (!join_path(path, root, "proc/self/cgroup")) return false;
    for (kiln_str rest = read_text(path, text); rest.size > 0;) {
        kiln_str line = kiln_str_cut(&rest, '\n');
        if (!kiln_str_starts(line, "0::/")) continue;
        int size = snprintf(out, KILN_CGROUP_PATH_BYTES, "%.*s", (int)line.size - 3, line.data + 3);
        return size > 0 && (uint32_t)size < KILN_CGROUP_PATH_BYTES;
    }
    return false;
}

/* A line of mountinfo: number, parent, device, root, mount point, ..., "-", type. */
static bool is_hierarchy(kiln_str line, kiln_str *out_root, kiln_str *out_point) {
    for (int i = 0; i < 3; i++) kiln_str_cut(&line, ' ');
    *out_root = kiln_str_cut(&line, ' ');
    *out_point = kiln_str_cut(&line, ' ');
    while (line.size > 0 && !kiln_str_is(kiln_str_cut(&line, ' '), "-")) {}
    return kiln_str_is(kiln_str_cut(&line, ' '), "cgroup2");
}

bool kiln_cgroup_find(const char *root, char out_folder[KILN_CGROUP_PATH_BYTES]) {
    char own[KILN_CGROUP_PATH_BYTES], path[KILN_CGROUP_PATH_BYTES];
    char line[TEXT_BYTES];
    kiln_str from, point;
    if (!own_path(root, own) || !join_path(path, root, "proc/self/mountinfo")) return false;
    FILE *mounts = fopen(path, "re");
    bool found = false;
    while (mounts && !found && fgets(line, sizeof line, mounts)) {
        if (!is_hierarchy(kiln_str_trim(kiln_str_from(line)), &from, &point)) continue;
        size_t skip = kiln_str_is(from, "/") ? 0 : from.size;
        if (skip > 0 && strncmp(own, from.data, skip) != 0)
            continue; /* this mount shows another part */
        int size = snprintf(out_folder, KILN_CGROUP_PATH_BYTES, "%s%.*s%s", root,
                            KILN_STR_ARG(point), strcmp(own, "/") == 0 ? "" : own + skip);
        found = size > 0 && (uint32_t)size < KILN_CGROUP_PATH_BYTES;
    }
    if (mounts) fclose(mounts);
    char *last = found ? strrchr(out_folder, '/') : NULL;
    if (last && strcmp(last, "/" LAUNCHER) == 0) *last = '\0';
    return found;
}

void kiln_cgroup_enter_launcher(void) {
    char parent[KILN_CGROUP_PATH_BYTES], own[KILN_CGROUP_PATH_BYTES];
    if (!kiln_cgroup_find("", parent) || !join_path(own, parent, LAUNCHER)) return;
    if (mkdir(own, 0755) == 0 || errno == EEXIST) kiln_cgroup_enter(own);
}

/* ---- Groups of children ---- */

static void remove_group(const char *folder) {
    write_text(folder, "cgroup.kill", "1");
    rmdir(folder); /* fails if not empty yet; the next server removes it */
}

void kiln_cgroup_bind(const kiln_cgroup *group, uint64_t memory_max) {
    if (memory_max > 0 && write_number(group->folder, "memory.max", memory_max)) {
        write_text(group->folder, "memory.swap.max", "0");
        write_text(group->folder, "memory.oom.group", "1");
    }
    write_number(group->folder, "pids.max", KILN_CGROUP_PIDS);
}

void kiln_cgroup_create(kiln_cgroups *groups, kiln_cgroup *out_group) {
    char name[32];
    out_group->folder[0] = '\0';
    snprintf(name, sizeof name, CHILD "%llu", (unsigned long long)++groups->last);
    if (!groups->folder[0] || !join_path(out_group->folder, groups->folder, name) ||
        mkdir(out_group->folder, 0755) != 0) {
        out_group->folder[0] = '\0';
        return;
    }
    kiln_cgroup_bind(out_group, groups->memory_max);
}

void kiln_cgroup_keep_to(const kiln_cgroup *group, const uint32_t *core, uint32_t core_count) {
    kiln_strbuf text = {0};
    for (uint32_t i = 0; i < core_count; i++)
        kiln_strbuf_printf(&text, "%s%u", i ? "," : "", core[i]);
    if (group->folder[0] && text.size > 0) write_text(group->folder, "cpuset.cpus", text.data);
    kiln_strbuf_deinit(&text);
}

void kiln_cgroup_kill(const kiln_cgroup *group) {
    if (group->folder[0]) write_text(group->folder, "cgroup.kill", "1");
}

bool kiln_cgroup_is_empty(const kiln_cgroup *group) {
    char path[KILN_CGROUP_PATH_BYTES], text[TEXT_BYTES];
    if (!group->folder[0] || !join_path(path, group->folder, "cgroup.events")) return true;
    for (kiln_str rest = read_text(path, text); rest.size > 0;)
        if (kiln_str_is(kiln_str_trim(kiln_str_cut(&rest, '\n')), "populated 1")) return false;
    return true;
}

void kiln_cgroup_destroy(kiln_cgroup *group) {
    if (group->folder[0]) remove_group(group->folder);
    group->folder[0] = '\0';
}

bool kiln_cgroup_enter(const char *folder) { return write_text(folder, "cgroup.procs", "0"); }

/* ---- Trying bounds ---- */

#define PROBE_MEMORY ((uint64_t)4 << 20)

static bool is_inside(void) {
    char own[KILN_CGROUP_PATH_BYTES];
    return own_path("", own) && strstr(own, "/" PREFIX) && strstr(own, "/" CHILD);
}

/* The system kills this process if the bound holds. */
static bool cannot_touch(void) {
    const size_t size = (size_t)(8 * PROBE_MEMORY);
    char *data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) return false;
    for (size_t at = 0; at < size; at += 4096) ((volatile char *)data)[at] = 1;
    return false;
}

static bool cannot_change_core(void) {
    cpu_set_t set;
    memset(&set, 0xff, sizeof set);
    sched_setaffinity(0, sizeof set, &set);
    return sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) == 1;
}

/* The other rows need the first one. */
static const struct {
    kiln_fence fence;
    const char *file, *value; /* NULL: no bound */
    bool (*holds)(void);      /* called in a process of the group */
} probe_table[] = {
    {KILN_FENCE_GROUP, NULL, NULL, is_inside},
    {KILN_FENCE_GROUP_PIDS, "pids.max", "1", kiln_sandbox_cannot_fork},
    {KILN_FENCE_GROUP_MEMORY, "memory.max", "4194304", cannot_touch},
    {KILN_FENCE_GROUP_CORES, "cpuset.cpus", NULL, cannot_change_core},
};

/* Prints the first core that this process may use. */
static void some_core(char out[16]) {
    cpu_set_t set;
    int core = 0;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        while (core < CPU_SETSIZE - 1 && !CPU_ISSET(core, &set)) core++;
    snprintf(out, 16, "%d", core);
}

/* Tries a row in a child process. If the bound holds, the child waits until it is killed with its
 * group. */
static bool probe(kiln_cgroups *groups, uint32_t row) {
    kiln_cgroup group;
    char core[16];
    int ready[2];
    some_core(core);
    kiln_cgroup_create(groups, &group);
    const char *file = probe_table[row].file;
    const char *value = probe_table[row].value ? probe_table[row].value : core;
    bool holds = group.folder[0] && (!file || write_text(group.folder, file, value));
    if (!holds || pipe2(ready, O_CLOEXEC) != 0) {
        kiln_cgroup_destroy(&group);
        return false;
    }
    pid_t child = fork();
    if (child == 0) {
        if (!kiln_cgroup_enter(group.folder) || !probe_table[row].holds()) _exit(1);
        if (write(ready[1], "", 1) == 1)
            for (;;) pause();
        _exit(1);
    }
    close(ready[1]);
    char byte;
    while (child > 0 && read(ready[0], &byte, 1) < 0 && errno == EINTR) {}
    close(ready[0]);
    int status = 0;
    if (child > 0 && !write_text(group.folder, "cgroup.kill", "1")) kill(child, SIGUSR1);
    if (child > 0) waitpid(child, &status, 0);
    kiln_cgroup_destroy(&group);
    return child > 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

static void try_fences(kiln_cgroups *groups) {
    if (KILN_SANITIZED_THREAD || !groups->folder[0]) return;
    for (uint32_t row = 0; row < KILN_ARRAY_COUNT(probe_table); row++) {
        if (probe(groups, row)) groups->fences |= 1U << probe_table[row].fence;
        if (!groups->fences) return;
    }
}

/* ---- The server's own group ---- */

/* Removes a server's group and those of its children in it. Fails if a server is in it. */
static void remove_all(const char *folder) {
    char path[KILN_CGROUP_PATH_BYTES];
    DIR *inner = opendir(folder);
    for (struct dirent *entry; inner && (entry = readdir(inner));) {
        if (!join_path(path, folder, entry->d_name)) continue;
        if (strncmp(entry->d_name, CHILD, strlen(CHILD)) == 0) remove_group(path);
        if (strcmp(entry->d_name, SERVER) == 0) rmdir(path);
    }
    if (inner) closedir(inner);
    rmdir(folder);
}

/* Removes a group that nobody has locked, so its server has ended. */
static void remove_if_abandoned(const char *folder) {
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) remove_all(folder);
    close(fd);
}

static void remove_abandoned_groups(const char *parent) {
    char path[KILN_CGROUP_PATH_BYTES];
    DIR *folder = opendir(parent);
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) == 0 &&
            join_path(path, parent, entry->d_name))
            remove_if_abandoned(path);
    if (folder) closedir(folder);
}

/* Passes a controller on to the groups in `folder`. */
static bool pass_on(const char *folder, const char *controller) {
    char text[32];
    snprintf(text, sizeof text, "+%s", controller);
    return has_word(folder, "cgroup.subtree_control", controller) ||
           write_text(folder, "cgroup.subtree_control", text);
}

static bool move_to(const char *folder, pid_t also) {
    return (also == 0 || write_number(folder, "cgroup.procs", (uint64_t)also)) &&
           kiln_cgroup_enter(folder);
}

/* A group that passes controllers on must have no processes, unless it is the root. So this process
 * moves into a group of its own, and back if others are in the parent, too. */
static void pass_controllers_on(const kiln_cgroups *groups, const char *parent, pid_t also) {
    static const char *const controllers[] = {"memory", "pids", "cpuset"};
    char own[KILN_CGROUP_PATH_BYTES];
    bool moved = false;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(controllers); i++) {
        if (!has_word(parent, "cgroup.controllers", controllers[i])) continue;
        bool passed = pass_on(parent, controllers[i]);
        if (!passed && errno == EBUSY && !moved && join_path(own, groups->folder, SERVER) &&
            mkdir(own, 0755) == 0) {
            moved = move_to(own, also);
            passed = moved && pass_on(parent, controllers[i]);
            if (moved && !passed) move_to(parent, also);
            if (!passed) rmdir(own);
            if (!passed) return;
        }
        if (passed) pass_on(groups->folder, controllers[i]);
    }
}

/* Makes the server's group and locks it. Fails, too, if another server removes it before it is
 * locked. */
static bool claim(kiln_cgroups *groups) {
    struct stat status;
    mkdir(groups->folder, 0755);
    groups->lock_fd = open(groups->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (groups->lock_fd >= 0 && flock(groups->lock_fd, LOCK_EX | LOCK_NB) == 0 &&
        stat(groups->folder, &status) == 0)
        return true;
    kiln_fd_close(&groups->lock_fd);
    return false;
}

void kiln_cgroups_open(kiln_cgroups *groups, const char *parent, uint64_t memory_max, pid_t also) {
    char name[32];
    bool claimed = false;
    *groups = (kiln_cgroups){.lock_fd = -1, .memory_max = memory_max};
    remove_abandoned_groups(parent);
    snprintf(name, sizeof name, PREFIX "%d", (int)getpid());
    if (!join_path(groups->folder, parent, name)) groups->folder[0] = '\0';
    for (int i = 0; groups->folder[0] && !claimed && i < CLAIMS; i++) claimed = claim(groups);
    if (!claimed) {
        groups->folder[0] = '\0';
        return;
    }
    pass_controllers_on(groups, parent, also);
    try_fences(groups);
    if (!groups->fences) kiln_cgroups_close(groups);
}

void kiln_cgroups_close(kiln_cgroups *groups) {
    kiln_fd_close(&groups->lock_fd);
    if (groups->folder[0]) remove_all(groups->folder);
    groups->folder[0] = '\0';
}
