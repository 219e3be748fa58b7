#include "rpc-server/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/file.h"
#include "base/macros.h"
#include "rpc-server/driver.h"
#include "rpc-server/helper_request.h"
#include "rpc-server/helper_socket.h"

/* Answers take microseconds; making a control group has taken seconds on a machine that swaps. */
#define ANSWER_MS 30000

struct kiln_helper {
    kiln_child process;
    uint32_t fences;
    bool gone; /* it ended or did not answer; no more requests are sent */
};

/* ---- Asking ---- */

static kiln_status gone(kiln_helper *helper) {
    helper->gone = true;
    return KILN_ERROR(UNAVAILABLE, "the helper of this server has ended");
}

static kiln_status await(kiln_helper *helper, kiln_helper_answer *out_answer, int *out_fd) {
    int fd[KILN_HELPER_SOCKET_FDS_MAX];
    uint32_t fd_count = 0;
    struct pollfd ready = {.fd = helper->process.in_fd, .events = POLLIN};
    int count;
    do count = poll(&ready, 1, ANSWER_MS);
    while (count < 0 && errno == EINTR);
    if (count <= 0) return gone(helper);
    if (kiln_helper_socket_receive(ready.fd, out_answer, sizeof *out_answer, fd, &fd_count) !=
            sizeof *out_answer ||
        out_answer->magic != KILN_HELPER_MAGIC)
        return gone(helper);
    for (uint32_t i = out_fd ? 1 : 0; i < fd_count; i++) close(fd[i]);
    if (out_fd) *out_fd = fd_count ? fd[0] : -1;
    if (out_answer->code == 0) return NULL;
    if (out_fd) kiln_fd_close(out_fd);
    return kiln_status_make((kiln_code)out_answer->code, __FILE__, __LINE__, "%s",
                            out_answer->text);
}

/* `fd`: a descriptor to pass; -1: none. `out_fd` may be NULL. */
static kiln_status ask(kiln_helper *helper, kiln_helper_request *request, int fd,
                       kiln_helper_answer *out_answer, int *out_fd) {
    if (helper->gone) return gone(helper);
    request->magic = KILN_HELPER_MAGIC;
    if (!kiln_helper_socket_send(helper->process.in_fd, request, sizeof *request, &fd, fd >= 0))
        return gone(helper);
    return await(helper, out_answer, out_fd);
}

static void tell(kiln_helper *helper, kiln_helper_request *request) {
    kiln_helper_answer answer;
    if (request->child == 0) return;
    kiln_status_free(ask(helper, request, -1, &answer, NULL)); /* LOOK shows the result */
}

kiln_status kiln_helper_start(kiln_helper *helper, const kiln_driver *driver, int *out_socket,
                              kiln_held *out_child) {
    kiln_helper_request request = {.ask = KILN_HELPER_START,
                                   .driver = driver ? kiln_driver_index(driver) + 1 : 0};
    kiln_helper_answer answer;
    int end[2];
    kiln_held held = {.pidfd = -1};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, end) != 0)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "a contained child's socket: %s", strerror(errno));
    fcntl(end[1], F_SETFL, O_NONBLOCK); /* only our end; the child's end waits */
    kiln_status st = ask(helper, &request, end[0], &answer, &held.pidfd);
    close(end[0]);
    if (st) {
        close(end[1]);
        return st;
    }
    held.number = answer.child;
    *out_socket = end[1];
    *out_child = held;
    return NULL;
}

kiln_status kiln_helper_power(kiln_helper *helper, const char *reason, kiln_held *out_child) {
    kiln_helper_request request = {.ask = KILN_HELPER_POWER};
    kiln_helper_answer answer;
    kiln_held held = {.pidfd = -1};
    snprintf(request.text, sizeof request.text, "%s", reason);
    for (char *at = request.text; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f) *at = ' ';
    kiln_status st = ask(helper, &request, -1, &answer, &held.pidfd);
    if (st) return st;
    held.number = answer.child;
    *out_child = held;
    return NULL;
}

void kiln_helper_keep_to(kiln_helper *helper, uint32_t child, const uint32_t *core,
                         uint32_t core_count) {
    kiln_helper_request request = {
        .ask = KILN_HELPER_KEEP_TO, .child = child, .core_count = core_count};
    memcpy(request.core, core, core_count * sizeof *core);
    tell(helper, &request);
}

void kiln_helper_kill(kiln_helper *helper, uint32_t child) {
    tell(helper, &(kiln_helper_request){.ask = KILN_HELPER_KILL, .child = child});
}

void kiln_helper_release(kiln_helper *helper, uint32_t child) {
    tell(helper, &(kiln_helper_request){.ask = KILN_HELPER_RELEASE, .child = child});
}

kiln_status kiln_helper_remove_folder(kiln_helper *helper, const char *path) {
    kiln_helper_request request = {.ask = KILN_HELPER_EMPTY};
    kiln_helper_answer answer;
    const int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder >= 0) {
        kiln_status_free(ask(helper, &request, folder, &answer,
                             NULL)); /* the removal below reports what stayed */
        close(folder);
    }
    return kiln_folder_remove(path);
}

kiln_helper_seen kiln_helper_look(kiln_helper *helper, uint32_t child) {
    kiln_helper_request request = {.ask = KILN_HELPER_LOOK, .child = child};
    kiln_helper_answer answer;
    kiln_status st = ask(helper, &request, -1, &answer, NULL);
    if (!st)
        return (kiln_helper_seen){
            answer.ended != 0, answer.gone != 0, {answer.exit_code, answer.exit_signal}};
    kiln_status_free(st); /* a helper that ends kills its children */
    return (kiln_helper_seen){true, true, {-1, SIGKILL}};
}

kiln_status kiln_helper_credentials(kiln_helper *helper, uint32_t address,
                                    kiln_credentials *out_credentials) {
    kiln_helper_request request = {.ask = KILN_HELPER_CREDENTIALS, .address = address};
    kiln_helper_answer answer;
    kiln_status st = ask(helper, &request, -1, &answer, NULL);
    if (!st) *out_credentials = answer.credentials;
    explicit_bzero(&answer, sizeof answer);
    return st;
}

kiln_status kiln_helper_take_key(kiln_helper *helper, const kiln_key *next) {
    kiln_helper_request request = {.ask = KILN_HELPER_TAKE_KEY};
    kiln_helper_answer answer;
    kiln_keys keys = {0};
    kiln_key plain = *next;
    const kiln_key *added = NULL;
    kiln_strbuf text = {0};
    plain.has_seed = plain.has_public = plain.has_before = false;
    kiln_status st = kiln_keys_add(&keys, &plain, &added);
    if (!st) {
        keys.key.data[0].generation = next->generation;
        kiln_keys_print(&keys, &text);
        kiln_str line = kiln_strbuf_view(&text);
        kiln_str_cut(&line, '\n'); /* the first line of key files */
        line = kiln_str_trim(line);
        KILN_CHECK(line.size < sizeof request.text);
        memcpy(request.text, line.data, line.size);
        st = ask(helper, &request, -1, &answer, NULL);
    }
    explicit_bzero(&request, sizeof request);
    explicit_bzero(&plain, sizeof plain);
    kiln_strbuf_wipe(&text);
    kiln_keys_deinit(&keys);
    return st;
}

kiln_status kiln_helper_connect(kiln_helper *helper, uint32_t address, int *out_fd) {
    kiln_helper_request request = {.ask = KILN_HELPER_CONNECT, .address = address};
    kiln_helper_answer answer;
    return ask(helper, &request, -1, &answer, out_fd);
}

/* ---- Life ---- */

static bool keep(char *out, size_t size, const char *text) {
    return !text || (size_t)snprintf(out, size, "%s", text) < size;
}

static kiln_status fill(const kiln_helper_options *options, kiln_helper_setup *setup) {
    setup->magic = KILN_HELPER_MAGIC;
    setup->slots = KILN_MAX(options->slots, 1);
    setup->insecure = options->insecure;
    setup->has_key_file = options->key_file != NULL;
    setup->is_emulated = options->emulator != NULL;
    setup->has_power = options->power != NULL;
    setup->has_drivers = options->drivers;
    setup->tracker = options->tracker;
    if (keep(setup->program, sizeof setup->program, options->program) &&
        keep(setup->emulator, sizeof setup->emulator, options->emulator) &&
        keep(setup->home, sizeof setup->home, options->home) &&
        keep(setup->key_file, sizeof setup->key_file, options->key_file) &&
        keep(setup->power, sizeof setup->power, options->power) &&
        keep(setup->board, sizeof setup->board, options->board))
        return NULL;
    return KILN_ERROR(INVALID_ARGUMENT, "a path, or --power-cycle, is longer than %u bytes",
                      KILN_HELPER_PATH_BYTES - 1);
}

static kiln_status start(kiln_helper *helper, const kiln_helper_options *options) {
    const char *label = options->label ? options->label : "";
    const char *const emulated[] = {options->emulator, options->program, "--helper", label, NULL};
    const char *const *argv = options->emulator ? emulated : emulated + 1;
    const char *kept[KILN_DRIVER_KEPT_MAX + 1];
    const bool keeps = options->drivers || options->emulator;
    kiln_driver_environment(kept);
    return kiln_child_start(&(kiln_child_options){.argv = argv,
                                                  .env_extra = keeps ? kept : NULL,
                                                  .socket_in = true,
                                                  .bare_environment = true},
                            &helper->process);
}

static kiln_status introduce(kiln_helper *helper, const kiln_helper_setup *setup) {
    kiln_helper_answer answer;
    if (!kiln_helper_socket_send(helper->process.in_fd, setup, sizeof *setup, NULL, 0))
        return gone(helper);
    kiln_status st = await(helper, &answer, NULL);
    if (!st) helper->fences = answer.fences;
    return st;
}

kiln_status kiln_helper_open(const kiln_helper_options *options, kiln_helper **out_helper) {
    kiln_helper_setup *setup = kiln_alloc(sizeof *setup);
    kiln_helper *helper = kiln_alloc(sizeof *helper);
    kiln_status st = fill(options, setup);
    if (!st) st = start(helper, options);
    if (!st) st = introduce(helper, setup);
    kiln_free(setup);
    if (st) {
        kiln_helper_close(helper);
        return kiln_status_note(st, "starting the helper");
    }
    *out_helper = helper;
    return NULL;
}

void kiln_helper_close(kiln_helper *helper) {
    if (!helper) return;
    if (helper->process.pid) {
        kiln_fd_close(&helper->process.in_fd); /* at which the helper ends */
        helper->process.in_fd = -1;
        kiln_child_wait(&helper->process);
    }
    kiln_free(helper);
}

uint32_t kiln_helper_fences(const kiln_helper *helper) { return helper->fences; }
pid_t kiln_helper_pid(const kiln_helper *helper) { return helper->process.pid; }
int kiln_helper_socket(const kiln_helper *helper) { return helper->process.in_fd; }
