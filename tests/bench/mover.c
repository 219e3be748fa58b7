/* bench-mover: brings a blob of random bytes to a tracker and fetches it again, for bench-fleet.
 * Creates FOLDER/moving when it begins, and FOLDER/moved with the seconds that each way took. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/opt.h"
#include "base/rand.h"
#include "proto/net.h"

typedef struct mover {
    const char *tracker, *home, *key, *folder;
    uint64_t mib;
    kiln_arena arena;
    kiln_loop *loop;
    kiln_blob_store *store;
    kiln_blobs *blobs;
    kiln_conn *conn;
    kiln_timer *beat;
    kiln_digest digest;
    uint64_t begin_ns, up_ns;
} mover;

static void need(kiln_status st, const char *what) {
    if (!st) return;
    fprintf(stderr, "bench-mover: %s: %s\n", what, kiln_status_text(st));
    exit(1);
}

static void mark(mover *m, const char *name, const char *text) {
    need(kiln_file_write(kiln_arena_printf(&m->arena, "%s/%s", m->folder, name),
                         kiln_str_from(text), 0600),
         name);
}

static void make_blob(mover *m) {
    const size_t size = (size_t)m->mib << 20;
    uint64_t *words = kiln_alloc(size);
    kiln_rand rand;
    kiln_rand_init(&rand, m->begin_ns);
    for (size_t i = 0; i < size / sizeof *words; i++) words[i] = kiln_rand_u64(&rand);
    need(kiln_blob_store_put(m->store, (kiln_str){(const char *)words, size}, &m->digest),
         "making the blob");
    kiln_free(words);
}

static void on_down(void *context, const kiln_digest *digest, kiln_status status) {
    mover *m = context;
    (void)digest;
    need(status, "fetching");
    mark(m, "moved",
         kiln_arena_printf(&m->arena, "{\"up_s\":%.4g,\"down_s\":%.4g}", (double)m->up_ns / 1e9,
                           (double)(kiln_clock_ns() - m->begin_ns) / 1e9));
    kiln_loop_stop(m->loop);
}

static void on_up(void *context, const kiln_digest *digest, kiln_status status) {
    mover *m = context;
    char *path = NULL;
    need(status, "uploading");
    m->up_ns = kiln_clock_ns() - m->begin_ns;
    need(kiln_blob_store_path(m->store, digest, &m->arena, &path), "the blob");
    unlink(path);
    m->begin_ns = kiln_clock_ns();
    kiln_blobs_fetch(m->blobs, digest, on_down, m);
}

static void on_opened(void *context, kiln_conn *conn, const kiln_msg_hello *hello,
                      const kiln_msg_welcome *welcome) {
    mover *m = context;
    (void)hello, (void)welcome;
    m->conn = conn;
    m->blobs = kiln_blobs_attach(conn, m->store);
    mark(m, "moving", "");
    m->begin_ns = kiln_clock_ns();
    kiln_blobs_upload(m->blobs, &m->digest, on_up, m);
    kiln_timer_start(m->beat, KILN_NS_PER_S);
}

static void on_message(void *context, kiln_conn *conn, const kiln_message *message) {
    (void)context, (void)conn, (void)message;
}

static void on_closed(void *context, kiln_conn *conn, kiln_status why) {
    mover *m = context;
    (void)conn;
    if (m->conn || !m->begin_ns) need(why, "the connection");
}

static void beat(void *context) {
    mover *m = context;
    need(kiln_conn_send(m->conn, &(kiln_message){.type = KILN_MSG_PING}), "a PING");
    kiln_timer_start(m->beat, KILN_NS_PER_S);
}

int main(int argc, char **argv) {
    static const kiln_conn_handler handler = {on_opened, on_message, on_closed};
    mover m = {.mib = 1024};
    const kiln_opt option[] = {
        {"tracker", KILN_OPT_TEXT, &m.tracker, "ADDR", "where the tracker listens"},
        {"home", KILN_OPT_TEXT, &m.home, "DIR", "its KILN_HOME"},
        {"key", KILN_OPT_TEXT, &m.key, "F", "key file; else the token"},
        {"folder", KILN_OPT_TEXT, &m.folder, "DIR", "gets the blob and two marks"},
        {"mib", KILN_OPT_COUNT, &m.mib, "N", "size of the blob"},
    };
    const kiln_opt_table table = {.usage = "bench-mover --tracker ADDR [options]",
                                  .summary = "Moves a blob up and down.",
                                  .option = option,
                                  .option_count = KILN_ARRAY_COUNT(option)};
    kiln_args args;
    kiln_arena_init(&m.arena, 0);
    need(kiln_opt_parse(&table, argc, argv, &m.arena, &args), "options");
    if (setpriority(PRIO_PROCESS, 0, 19) != 0) perror("bench-mover: nice");
    m.begin_ns = kiln_clock_ns();
    const char *blobs = kiln_arena_printf(&m.arena, "%s/own", m.folder);
    kiln_credentials credentials;
    kiln_address address;
    need(kiln_address_parse(kiln_str_from(m.tracker), &address), "the address");
    need(kiln_credentials_load(&address, m.home, m.key, false, &credentials), "the key");
    need(kiln_loop_create(&m.loop), "the loop");
    need(kiln_blob_store_open(&(kiln_blob_store_options){.folder = blobs}, &m.store), "the store");
    make_blob(&m);
    m.beat = kiln_timer_create(m.loop, beat, &m);
    kiln_net_dial(m.loop, &(kiln_dial_options){.address = address,
                                               .role = KILN_PEER_CLIENT,
                                               .node = "mover",
                                               .boot = "mover",
                                               .credentials = &credentials,
                                               .handler = &handler,
                                               .context = &m});
    kiln_loop_run(m.loop);
    _exit(0); /* what is open goes with the process */
}
