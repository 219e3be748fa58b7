/* The helper process (rpc-server/helper.h): checks requests, carries them out, and answers. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/fence.h"
#include "base/file.h"
#include "rpc-server/cgroup.h"
#include "rpc-server/driver.h"
#include "rpc-server/helper.h"
#include "rpc-server/helper_filter.h"
#include "rpc-server/helper_request.h"
#include "rpc-server/helper_socket.h"
#include "rpc-server/leftovers.h"
#include "rpc-server/privilege.h"
#include "rpc-server/sandboxed_child.h"
#include "rpc-server/slots.h"
#include "rpc-server/zygote.h"

/* Between two looks at released children that have not ended. */
#define SWEEP_MS 10
/* Looks at the end; then the system kills the rest when the helper exits. */
#define SWEEPS_AT_END 500
/* The --power-cycle command gets this, KILN_BOARD and KILN_REASON as its environment. */
#define POWER_PATH "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

typedef struct held {
    uint32_t number; /* 0: a free place */
    kiln_child child;
    pid_t group; /* outlives child.pid, which is 0 once reaped */
    kiln_child_exit exit;
    kiln_cgroup cgroup;
    bool is_power;
    bool released; /* the server has forgotten it; it is killed */
} held;

typedef struct server {
    kiln_helper_setup setup;
    kiln_helper_limits limits;
    kiln_cgroups cgroups;
    kiln_zygote zygote;
    bool forks, tried; /* whether children are forks of the zygote; valid once `tried` */
    held held[KILN_HELPER_CHILDREN_MAX];
    uint32_t last;              /* last number given out */
    uid_t asker;                /* the user of the server process */
    kiln_helper_setup received; /* buffer for a request; the setup is the largest message */
} server;

/* An answer and its descriptor. */
typedef struct reply {
    kiln_helper_answer answer;
    int fd; /* -1: none; closed once sent */
} reply;

static void refuse(reply *r, kiln_status st) {
    r->answer.code = (uint32_t)kiln_status_code(st);
    snprintf(r->answer.text, sizeof r->answer.text, "%s", kiln_status_text(st));
    kiln_status_free(st);
}

/* ---- Children ---- */

static held *find(server *s, uint32_t number) {
    for (uint32_t i = 0; i < KILN_HELPER_CHILDREN_MAX; i++)
        if (s->held[i].number == number && !s->held[i].released) return &s->held[i];
    return NULL;
}

static held *free_place(server *s) {
    for (uint32_t i = 0; i < KILN_HELPER_CHILDREN_MAX; i++)
        if (s->held[i].number == 0) return &s->held[i];
    return NULL;
}

static void kill_all_of(const held *h) {
    if (h->group) kill(-h->group, SIGKILL);
    if (h->child.pid) kill(h->child.pid, SIGKILL); /* it may have left its group */
    kiln_cgroup_kill(&h->cgroup);
}

static bool has_ended(held *h) {
    if (!h->child.pid) return true;
    return kiln_child_ended(&h->child, &h->exit);
}

/* Whether no process of the child is left. The group's number is not reused while its leader is not
 * reaped or another process is in it. */
static bool is_gone(held *h) {
    if (!has_ended(h)) return false;
    while (h->group && waitpid(-h->group, NULL, WNOHANG) > 0) {
    } /* orphans that this process inherited */
    if (h->group && kill(-h->group, 0) != 0 && errno == ESRCH) h->group = 0;
    return h->group == 0 && kiln_cgroup_is_empty(&h->cgroup);
}

/* Frees the entries of released children that have ended. False while one has not. */
static bool sweep(server *s) {
    bool clean = true;
    for (uint32_t i = 0; i < KILN_HELPER_CHILDREN_MAX; i++) {
        held *h = &s->held[i];
        if (h->number == 0 || !h->released) continue;
        if (is_gone(h)) {
            kiln_cgroup_destroy(&h->cgroup);
            *h = (held){0};
        } else {
            kill_all_of(h);
            clean = false;
        }
    }
    return clean;
}

/* Forks a child from the zygote, which is started again if it has ended. */
static kiln_status fork_zygote(server *s, const kiln_driver *driver, const char *cgroup, int socket,
                               pid_t *out_pid) {
    kiln_child *process = &s->zygote.process;
    kiln_child_exit ignored;
    kiln_status st = NULL;
    if (kiln_child_ended(process, &ignored)) kiln_zygote_close(&s->zygote);
    if (!process->pid) st = kiln_zygote_open(&s->zygote, s->setup.program);
    if (!st) st = kiln_zygote_start(&s->zygote, driver, cgroup, socket, out_pid);
    if (st) kiln_zygote_close(&s->zygote);
    return st;
}

static kiln_status load_program(const server *s, const kiln_driver *driver, const char *cgroup,
                                int socket, pid_t *out_pid) {
    const char *const emulated[] = {s->setup.emulator,           s->setup.program, "--child",
                                    driver ? driver->name : "-", cgroup,           NULL};
    const char *const *argv = s->setup.is_emulated ? emulated : emulated + 1;
    const char *kept[KILN_DRIVER_KEPT_MAX + 1];
    /* An emulator needs its environment to find the libraries of the program. */
    const bool keeps = driver || s->setup.is_emulated;
    kiln_child child = {.in_fd = -1, .out_fd = -1, .error_fd = -1};
    kiln_driver_environment(kept);
    kiln_status st = kiln_child_start(&(kiln_child_options){.argv = argv,
                                                            .env_extra = keeps ? kept : NULL,
                                                            .input_fd = socket,
                                                            .bare_environment = true},
                                      &child);
    if (!st) *out_pid = child.pid;
    return st;
}

/* Tries the zygote first, and remembers whether forks work on this machine. */
static kiln_status start_process(server *s, const kiln_driver *driver, const char *cgroup,
                                 int socket, pid_t *out_pid) {
    if (!s->tried) s->forks = !s->setup.is_emulated && kiln_zygote_is_allowed();
    kiln_status st = s->forks ? fork_zygote(s, driver, cgroup, socket, out_pid)
                              : load_program(s, driver, cgroup, socket, out_pid);
    if (st && s->forks && !s->tried) {
        kiln_status_free(st);
        s->forks = false;
        st = load_program(s, driver, cgroup, socket, out_pid);
    }
    s->tried |= !st;
    return st;
}

/* Enters the child into the table, and its pidfd into the answer. */
static kiln_status hold(server *s, held *h, const kiln_cgroup *cgroup, pid_t pid, bool is_power,
                        reply *r) {
    *h = (held){.number = ++s->last,
                .child = {.pid = pid, .in_fd = -1, .out_fd = -1, .error_fd = -1},
                .group = pid,
                .cgroup = *cgroup,
                .is_power = is_power};
    if (s->last == 0) h->number = ++s->last; /* 0 means none */
    r->answer.child = h->number;
    r->fd = pidfd_open(pid, 0);
    if (r->fd >= 0) return NULL;
    h->released = true;
    return KILN_ERROR(RESOURCE_EXHAUSTED, "watching a child: %s", strerror(errno));
}

/* ---- Requests (rpc-server/helper_requests.def) ---- */

static kiln_status ask_start(server *s, const kiln_helper_request *q, int fd, reply *r) {
    const kiln_driver *driver = q->driver ? kiln_driver_at(q->driver - 1) : NULL;
    int type = 0;
    socklen_t size = sizeof type;
    struct sockaddr_un name;
    socklen_t name_size = sizeof name;
    held *place = free_place(s);
    pid_t pid = 0;
    kiln_cgroup cgroup = {0};
    if (!place) return KILN_ERROR(RESOURCE_EXHAUSTED, "there are too many children");
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_SEQPACKET ||
        getsockname(fd, (struct sockaddr *)&name, &name_size) != 0 || name.sun_family != AF_UNIX)
        return KILN_ERROR(INVALID_ARGUMENT,
                          "a child's descriptor is not a SOCK_SEQPACKET Unix socket");
    kiln_cgroup_create(&s->cgroups, &cgroup);
    kiln_status st = start_process(s, driver, cgroup.folder[0] ? cgroup.folder : NULL, fd, &pid);
    if (!st) return hold(s, place, &cgroup, pid, false, r);
    kiln_cgroup_destroy(&cgroup);
    return st;
}

static kiln_status ask_keep_to(server *s, const kiln_helper_request *q, int fd, reply *r) {
    (void)fd, (void)r;
    kiln_cgroup_keep_to(&find(s, q->child)->cgroup, q->core, q->core_count);
    return NULL;
}

static kiln_status ask_kill(server *s, const kiln_helper_request *q, int fd, reply *r) {
    (void)fd, (void)r;
    kill_all_of(find(s, q->child));
    return NULL;
}

static kiln_status ask_look(server *s, const kiln_helper_request *q, int fd, reply *r) {
    (void)fd;
    held *h = find(s, q->child);
    r->answer.ended = has_ended(h);
    r->answer.gone = is_gone(h);
    r->answer.exit_code = h->exit.code;
    r->answer.exit_signal = h->exit.signal;
    return NULL;
}

static kiln_status ask_release(server *s, const kiln_helper_request *q, int fd, reply *r) {
    (void)fd, (void)r;
    find(s, q->child)->released = true;
    sweep(s);
    return NULL;
}

static kiln_status ask_empty(server *s, const kiln_helper_request *q, int fd, reply *r) {
    (void)q, (void)r;
    return kiln_leftovers_remove(fd, s->asker);
}

/* Refuses key files in folders of the server process, which could replace them or lead elsewhere.
 */
static kiln_status check_folder(const char *file) {
    char folder[KILN_HELPER_PATH_BYTES + 8];
    struct stat info;
    snprintf(folder, sizeof folder, "%s", file);
    char *slash = strrchr(folder, '/');
    if (slash) *slash = '\0';
    const char *path = !slash ? "." : folder[0] ? folder : "/";
    if (stat(path, &info) == 0 && info.st_uid != geteuid() && info.st_uid != 0)
        return KILN_ERROR(PERMISSION_DENIED,
                          "%s belongs to another user than the one that started this server: keys "
                          "must lie elsewhere",
                          path);
    return NULL;
}

static kiln_status ask_credentials(server *s, const kiln_helper_request *q, int fd, reply *r) {
    (void)fd;
    const kiln_helper_setup *setup = &s->setup;
    const kiln_address *address = &setup->tracker.item[q->address];
    const char *key_file = setup->has_key_file ? setup->key_file : NULL;
    char in_home[KILN_HELPER_PATH_BYTES + 8];
    snprintf(in_home, sizeof in_home, "%s/key", setup->home);
    kiln_status st = check_folder(key_file ? key_file : in_home);
    if (!st)
        st = kiln_credentials_load(address, setup->home, key_file, setup->insecure != 0,
                                   &r->answer.credentials);
    return st;
}

static kiln_status ask_take_key(server *s, const kiln_helper_request *q, int fd, reply *r) {
    (void)fd, (void)r;
    const kiln_helper_setup *setup = &s->setup;
    char in_home[KILN_HELPER_PATH_BYTES + 8];
    kiln_keys keys = {0};
    kiln_strbuf text = {0};
    snprintf(in_home, sizeof in_home, "%s/key", setup->home);
    const char *path = setup->has_key_file ? setup->key_file : in_home;
    kiln_strbuf_reserve(&text, sizeof q->text + 16);
    kiln_strbuf_printf(&text, "kiln-keys 2\n%s\n", q->text);
    kiln_status st = check_folder(path);
    if (!st) st = kiln_keys_parse(kiln_strbuf_view(&text), &keys);
    if (!st && kiln_keys_in_force(&keys) != 1) st = KILN_ERROR(INVALID_ARGUMENT, "no key");
    if (!st) st = kiln_key_take(path, &keys.key.data[0]);
    kiln_strbuf_wipe(&text);
    kiln_keys_deinit(&keys);
    return st;
}

static kiln_status ask_connect(server *s, const kiln_helper_request *q, int fd, reply *r) {
    (void)fd;
    const kiln_address *address = &s->setup.tracker.item[q->address];
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    if (!address->is_unix)
        return KILN_ERROR(INVALID_ARGUMENT, "the tracker's address is not a Unix socket");
    if ((size_t)snprintf(name.sun_path, sizeof name.sun_path, "%s", address->host) >=
        sizeof name.sun_path)
        return KILN_ERROR(INVALID_ARGUMENT, "%s is too long for a Unix socket", address->host);
    r->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (r->fd >= 0 && connect(r->fd, (struct sockaddr *)&name, sizeof name) == 0) return NULL;
    return kiln_status_make(
        errno == ENOENT || errno == ECONNREFUSED ? KILN_UNAVAILABLE : kiln_code_from_errno(errno),
        __FILE__, __LINE__, "dialling unix:%s: %s", address->host, strerror(errno));
}

static kiln_status ask_power(server *s, const kiln_helper_request *q, int fd, reply *r) {
    (void)fd;
    char board[KILN_HELPER_TEXT_BYTES + 16], reason[KILN_HELPER_TEXT_BYTES + 16];
    const char *const argv[] = {"/bin/sh", "-c", s->setup.power, NULL};
    const char *const environment[] = {POWER_PATH, board, reason, NULL};
    kiln_child child;
    held *place = free_place(s);
    if (!s->setup.has_power) return KILN_ERROR(NOT_FOUND, "there is no --power-cycle command");
    if (!place) return KILN_ERROR(RESOURCE_EXHAUSTED, "there are too many children");
    for (uint32_t i = 0; i < KILN_HELPER_CHILDREN_MAX; i++)
        if (s->held[i].number && s->held[i].is_power)
            return KILN_ERROR(FAILED_PRECONDITION, "the --power-cycle command already runs");
    snprintf(board, sizeof board, "KILN_BOARD=%s", s->setup.board);
    snprintf(reason, sizeof reason, "KILN_REASON=%s", q->text);
    kiln_status st = kiln_child_start(
        &(kiln_child_options){.argv = argv, .env_extra = environment, .bare_environment = true},
        &child);
    return st ? st : hold(s, place, &(kiln_cgroup){0}, child.pid, true, r);
}

static kiln_status (*const handler[])(server *, const kiln_helper_request *, int, reply *) = {
    [KILN_HELPER_START] = ask_start,
    [KILN_HELPER_KEEP_TO] = ask_keep_to,
    [KILN_HELPER_KILL] = ask_kill,
    [KILN_HELPER_LOOK] = ask_look,
    [KILN_HELPER_RELEASE] = ask_release,
    [KILN_HELPER_EMPTY] = ask_empty,
    [KILN_HELPER_CREDENTIALS] = ask_credentials,
    [KILN_HELPER_TAKE_KEY] = ask_take_key,
    [KILN_HELPER_CONNECT] = ask_connect,
    [KILN_HELPER_POWER] = ask_power,
};

/* ---- One request after the other ---- */

static bool send_reply(reply *r) {
    r->answer.magic = KILN_HELPER_MAGIC;
    const bool sent = kiln_helper_socket_send(STDIN_FILENO, &r->answer, sizeof r->answer, &r->fd,
                                              r->fd >= 0 && r->answer.code == 0);
    kiln_fd_close(&r->fd);
    explicit_bzero(&r->answer, sizeof r->answer);
    return sent;
}

static kiln_status carry_out(server *s, const void *bytes, size_t size, const int *fd,
                             uint32_t fd_count, reply *r) {
    const char *wrong = kiln_helper_request_check(bytes, size, fd_count, &s->limits);
    if (wrong) return KILN_ERROR(INVALID_ARGUMENT, "%s", wrong);
    kiln_helper_request request;
    kiln_status st = NULL;
    memcpy(&request, bytes, sizeof request);
    if (request.child && !find(s, request.child))
        st = KILN_ERROR(NOT_FOUND, "there is no child %u", request.child);
    if (!st) st = handler[request.ask](s, &request, fd_count ? fd[0] : -1, r);
    explicit_bzero(&request, sizeof request); /* a key may be in it */
    return st;
}

/* Handles one request. False: the server has ended. */
static bool serve_one(server *s) {
    int fd[KILN_HELPER_SOCKET_FDS_MAX];
    uint32_t fd_count = 0;
    const size_t size =
        kiln_helper_socket_receive(STDIN_FILENO, &s->received, sizeof s->received, fd, &fd_count);
    if (size == 0) return false;
    reply r = {.fd = -1};
    kiln_status st = carry_out(s, &s->received, size, fd, fd_count, &r);
    explicit_bzero(&s->received, sizeof s->received);
    for (uint32_t i = 0; i < fd_count; i++) close(fd[i]);
    if (st) refuse(&r, st);
    return send_reply(&r);
}

static bool is_terminated(const char *text, size_t size) { return memchr(text, '\0', size); }

/* The server sends this before it has heard of any peer, so a wrong value is a bug. */
static bool set_up(server *s) {
    kiln_helper_setup *setup = &s->setup;
    int fd[KILN_HELPER_SOCKET_FDS_MAX];
    uint32_t fd_count = 0;
    char parent[KILN_CGROUP_PATH_BYTES];
    if (kiln_helper_socket_receive(STDIN_FILENO, setup, sizeof *setup, fd, &fd_count) !=
            sizeof *setup ||
        setup->magic != KILN_HELPER_MAGIC)
        return false;
    KILN_CHECK(setup->slots > 0);
    KILN_CHECK(setup->tracker.count <= KILN_ADDRESSES_MAX);
    KILN_CHECK(is_terminated(setup->program, sizeof setup->program));
    KILN_CHECK(is_terminated(setup->emulator, sizeof setup->emulator));
    KILN_CHECK(is_terminated(setup->home, sizeof setup->home));
    KILN_CHECK(is_terminated(setup->key_file, sizeof setup->key_file));
    KILN_CHECK(is_terminated(setup->power, sizeof setup->power));
    KILN_CHECK(is_terminated(setup->board, sizeof setup->board));
    s->limits = (kiln_helper_limits){setup->tracker.count, (uint32_t)sysconf(_SC_NPROCESSORS_CONF)};
    s->cgroups.lock_fd = -1;
    s->asker = geteuid() == 0 ? kiln_privilege_find_user("/etc/passwd").uid : geteuid();
    if (kiln_cgroup_find("", parent))
        kiln_cgroups_open(&s->cgroups, parent, kiln_slots_memory_share(setup->slots), getppid());
    reply r = {.fd = -1, .answer.fences = s->cgroups.fences};
    /* The owner's command would inherit the filter, and may need any system call. */
    if (!setup->has_power && kiln_helper_filter_install(setup->has_drivers != 0))
        r.answer.fences |= 1U << KILN_FENCE_HELPER;
    return send_reply(&r);
}

static void end_all(server *s) {
    for (uint32_t i = 0; i < KILN_HELPER_CHILDREN_MAX; i++) s->held[i].released = true;
    for (int i = 0; i < SWEEPS_AT_END && !sweep(s); i++) poll(NULL, 0, SWEEP_MS);
    kiln_zygote_close(&s->zygote);
    kiln_cgroups_close(&s->cgroups);
}

KILN_NORETURN static void serve(void) {
    server *s = kiln_alloc(sizeof *s); /* lives as long as the process */
    struct pollfd ready = {.fd = STDIN_FILENO, .events = POLLIN};
    kiln_child_leave_stopping();
    signal(SIGINT, SIG_IGN);
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* this process reaps children's orphans */
    kiln_privilege_hide();
    if (!set_up(s)) _exit(KILN_UNAVAILABLE);
    do {
        while (poll(&ready, 1, sweep(s) ? -1 : SWEEP_MS) <= 0) {}
    } while (serve_one(s));
    end_all(s);
    _exit(0);
}

bool kiln_helper_is_asked(int argc, char **argv) {
    return (argc == 3 && strcmp(argv[1], "--helper") == 0) ||
           kiln_sandboxed_child_is_asked(argc, argv);
}

KILN_NORETURN void kiln_helper_main(int argc, char **argv) {
    if (kiln_sandboxed_child_is_asked(argc, argv)) kiln_sandboxed_child_main(argc, argv);
    serve();
}
