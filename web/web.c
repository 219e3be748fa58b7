#include "web/web.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "web/compile.h"
#include "web/records.h"
#include "web/routes.h"
#include "web/workers.h"

#define TUNING_MAX 32u                      /* workers that tune at a time, of some 40 MB each */
#define BLOBS_BYTES_MAX (UINT64_C(4) << 30) /* of the cache of the tracker's blobs */

/* As many as there are processors compute; those that tune wait for the fleet. */
static kiln_workers *create_workers(kiln_web *web) {
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    const kiln_workers_options options = {
        .running_max = {[KILN_WORKER_SHORT] = online > 0 ? (uint32_t)online : 1,
                        [KILN_WORKER_TUNE] = TUNING_MAX}};
    return kiln_workers_create(web->loop, &options);
}

/* As the workers' option --tracker has it. */
static const char *tracker_text(const kiln_web_options *o, kiln_arena *process) {
    kiln_strbuf text = {0};
    for (uint32_t i = 0; i < o->tracker.count; i++) {
        if (i) kiln_strbuf_char(&text, ',');
        kiln_address_print(&o->tracker.item[i], &text);
    }
    return kiln_str_dup(process, kiln_strbuf_end(&text, process));
}

/* Models, and what is made of them. */
static kiln_status open_service(kiln_web *web, kiln_arena *process) {
    const kiln_web_options *o = web->options;
    const kiln_compile_options compile = {.loop = web->loop,
                                          .workers = web->workers,
                                          .state_folder = o->state_folder,
                                          .db = o->db,
                                          .tracker = tracker_text(o, process),
                                          .key_file = o->key_file,
                                          .insecure = o->insecure};
    kiln_status st = kiln_uploads_create(web->loop, o->state_folder, &web->uploads);
    if (!st) st = kiln_compile_create(&compile, &web->compile);
    if (!st) web->compile_waits = kiln_compile_waits_create(web);
    return st;
}

static kiln_status open_parts(kiln_web *web, kiln_arena *process) {
    const kiln_web_options *o = web->options;
    kiln_status st = kiln_folder_create(o->state_folder, 0700);
    if (!st) {
        const kiln_blob_store_options store = {
            .folder = kiln_arena_printf(process, "%s/blobs", o->state_folder),
            .bytes_max = BLOBS_BYTES_MAX};
        st = kiln_blob_store_open(&store, &web->blobs);
    }
    if (st) return st;
    const kiln_people_options people = {.home = o->home,
                                        .key_file = o->key_file,
                                        .insecure = o->insecure,
                                        .tracker = o->tracker,
                                        .blobs = web->blobs};
    const kiln_sessions_options sessions = {
        .home = o->home, .state = o->state_folder, .trust_header = o->trust_header};
    web->workers = create_workers(web);
    st = open_service(web, process);
    if (st) return st;
    st = kiln_people_create(web->loop, &people, &web->people);
    return st ? st : kiln_sessions_create(web->loop, web->people, &sessions, &web->sessions);
}

static kiln_status write_port(const kiln_web *web) {
    kiln_strbuf text = {0};
    kiln_strbuf_printf(&text, "%u\n", kiln_http_server_port(web->server));
    kiln_status st = kiln_file_write(web->options->port_file, kiln_strbuf_view(&text), 0644);
    kiln_strbuf_deinit(&text);
    return st;
}

static kiln_status start_server(kiln_web *web) {
    const kiln_web_options *o = web->options;
    const kiln_http_server_options server = {.address = o->listen,
                                             .anywhere = o->insecure,
                                             .cert_pem = o->cert_pem,
                                             .key_pem = o->key_pem,
                                             .handler = &kiln_web_dispatch,
                                             .context = web};
    kiln_status st = kiln_http_server_create(web->loop, &server, &web->server);
    return !st && o->port_file ? write_port(web) : st;
}

static void log_address(const kiln_web *web) {
    kiln_address address = web->options->listen;
    kiln_strbuf text = {0};
    address.port = (uint16_t)kiln_http_server_port(web->server);
    kiln_address_print(&address, &text);
    kiln_log(KILN_LOG_INFO, "listening on %s%s", web->options->cert_pem ? "https " : "", text.data);
    kiln_strbuf_deinit(&text);
}

/* The token stands behind '#': browsers do not send that part. */
static kiln_status print_link(const kiln_web *web, kiln_arena *process) {
    const kiln_address *address = &web->options->listen;
    kiln_str token = {0};
    kiln_status st = kiln_sessions_token(web->sessions, process, &token);
    if (!st && address->is_unix)
        st = KILN_ERROR(INVALID_ARGUMENT, "--link needs a port: browsers open no socket file");
    if (st) return st;
    const bool is_v6 = strchr(address->host, ':') != NULL;
    printf("%s://%s%s%s:%u/#token=%.*s\n", web->options->cert_pem ? "https" : "http",
           is_v6 ? "[" : "", address->host, is_v6 ? "]" : "", kiln_http_server_port(web->server),
           KILN_STR_ARG(token));
    fflush(stdout);
    return KILN_OK;
}

kiln_status kiln_web_create(const kiln_web_options *options, kiln_arena *process,
                            kiln_web **out_web) {
    kiln_web *web = kiln_alloc(sizeof *web);
    kiln_strbuf text = {0};
    web->options = options;
    web->records = kiln_records_create(options->db);
    kiln_status st = kiln_loop_create_stoppable(&web->loop);
    if (!st) st = open_parts(web, process);
    if (!st) {
        web->events = kiln_events_create(web->loop);
        kiln_openapi_print(&text);
        web->openapi = kiln_strbuf_end(&text, process);
        st = start_server(web);
    }
    if (!st && options->prints_link) st = print_link(web, process);
    if (st) {
        kiln_web_destroy(web);
        return st;
    }
    log_address(web);
    *out_web = web;
    return KILN_OK;
}

void kiln_web_run(kiln_web *web) { kiln_loop_run(web->loop); }

void kiln_web_destroy(kiln_web *web) {
    if (!web) return;
    kiln_http_server_destroy(web->server);
    kiln_events_destroy(web->events);
    kiln_workers_destroy(web->workers);
    kiln_compile_waits_destroy(web->compile_waits);
    kiln_compile_close(web->compile);
    kiln_uploads_destroy(web->uploads);
    kiln_people_destroy(web->people);
    kiln_sessions_destroy(web->sessions);
    kiln_loop_destroy(web->loop);
    kiln_records_destroy(web->records);
    kiln_compile_destroy(web->compile);
    kiln_blob_store_close(web->blobs);
    kiln_free(web);
}
