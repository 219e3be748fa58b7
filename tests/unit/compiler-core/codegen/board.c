#include "tests/unit/compiler-core/codegen/board.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/layout.h"
#include "deploy/runtime/kernel.h"
#include "tests/boards/protocol.h"
#include "tests/unit/compiler-core/codegen/support.h"

#define WAIT_MS 300000 /* the machine may be busy; a board that is gone is seen at once */

static void wait_for(int fd, short events) {
    struct pollfd p = {.fd = fd, .events = events};
    if (poll(&p, 1, WAIT_MS) != 1) fail_msg("the board does nothing");
}

static void send_all(const board *b, const void *data, size_t size) {
    for (size_t at = 0; at < size;) {
        wait_for(b->child.in_fd, POLLOUT);
        ssize_t n = write(b->child.in_fd, (const char *)data + at, size - at);
        if (n <= 0) fail_msg("the board has gone");
        at += (size_t)n;
    }
}

static void take_all(const board *b, void *data, size_t size) {
    for (size_t at = 0; at < size;) {
        wait_for(b->child.out_fd, POLLIN);
        ssize_t n = read(b->child.out_fd, (char *)data + at, size - at);
        if (n <= 0) fail_msg("the board has gone");
        at += (size_t)n;
    }
}

static void send_arg(const kiln_manifest_arg *arg, const kiln_program *te, const kiln_tensor *args,
                     kiln_strbuf *job) {
    size_t bytes;
    expect_ok(kiln_manifest_arg_bytes(arg, &bytes));
    uint64_t size = bytes;
    uint8_t *data = kiln_alloc(bytes + 1);
    memset(data, 0xff, bytes); /* NaN in every float type */
    if (arg->role == KILN_ROLE_INPUT || arg->role == KILN_ROLE_CONSTANT)
        kiln_layout_pack(&arg->layout, &arg->shape, arg->dtype,
                         tensor_named(te, args, arg->name)->data, data);
    kiln_strbuf_append(job, &size, sizeof size);
    kiln_strbuf_append(job, data, bytes);
    kiln_free(data);
}

static void take_arg(const board *b, const kiln_manifest_arg *arg, const kiln_program *te,
                     const kiln_tensor *args) {
    size_t bytes;
    expect_ok(kiln_manifest_arg_bytes(arg, &bytes));
    uint8_t *data = kiln_alloc(bytes + 1);
    take_all(b, data, bytes);
    if (arg->role == KILN_ROLE_OUTPUT)
        kiln_layout_unpack(&arg->layout, &arg->shape, arg->dtype, data,
                           tensor_named(te, args, arg->name)->data);
    kiln_free(data);
}

kiln_status run_on_board(void *context, const kiln_artefact *artefact, const kiln_program *te,
                         const kiln_tensor *args, uint32_t workers) {
    board *b = context;
    const kiln_manifest *m = &artefact->manifest;
    const char *const argv[] = {ENDS_WITH_US, b->emulator, b->runner, NULL};
    const kiln_child_options options = {.argv = argv, .pipe_in = true, .pipe_out = true};
    if (!b->child.pid) expect_ok(kiln_child_start(&options, &b->child));
    kiln_strbuf job = {0};
    const board_job head = {.object_bytes = artefact->payload.size,
                            .arg_count = m->arg_count,
                            .scratch_bytes = m->scratch_bytes,
                            .worker_scratch_bytes = m->scratch_worker_bytes,
                            .workers = workers,
                            .prepares = m->has_prepare};
    kiln_strbuf_append(&job, &head, sizeof head);
    kiln_strbuf_str(&job, artefact->payload);
    for (uint32_t i = 0; i < m->arg_count; i++) send_arg(&m->arg[i], te, args, &job);
    send_all(b, job.data, job.size);
    kiln_strbuf_deinit(&job);

    board_answer answer;
    take_all(b, &answer, sizeof answer);
    answer.text[sizeof answer.text - 1] = 0;
    if (answer.text[0]) return KILN_ERROR(INTERNAL, "on the board: %s", answer.text);
    for (uint32_t i = 0; i < m->arg_count; i++) take_arg(b, &m->arg[i], te, args);
    return KILN_OK;
}

void board_stop(board *b) { kiln_child_destroy(&b->child); }
