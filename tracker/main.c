/* kiln-tracker: the program that boards, tuners and clients connect to. */
#include "base/fence.h"
#include "base/program/daemon.h"
#include "base/program/ready.h"
#include "tracker/shell.h"

#define DEFAULT_LISTEN "127.0.0.1:9477"
#define DAY_NS (24.0 * 3600e9)
#define FORGET_DAYS_MAX 36500
#define GIB 1073741824.0
#define PERSON_GIB_MAX 1048576

typedef struct options {
    kiln_opt_list listen;
    kiln_opt_list ws_origin;
    const char *port_file, *fences, *state, *db, *blobs, *keys, *http, *http_port_file;
    double forget_days, keep_days, person_gib;
    uint64_t keep_audit;
    bool insecure;
} options;

static kiln_status parse_addresses(const options *o, kiln_address *out_address,
                                   uint32_t *out_count) {
    if (o->listen.count > KILN_TRACKER_ADDRESSES_MAX)
        return KILN_ERROR(INVALID_ARGUMENT, "--listen is given more than %u times",
                          KILN_TRACKER_ADDRESSES_MAX);
    *out_count = o->listen.count ? (uint32_t)o->listen.count : 1;
    for (uint32_t i = 0; i < *out_count; i++) {
        kiln_str text = kiln_str_from(o->listen.count ? o->listen.item[i] : DEFAULT_LISTEN);
        kiln_status st = kiln_address_parse_listener(text, &out_address[i]);
        if (st) return kiln_status_note(st, "--listen");
    }
    return NULL;
}

static kiln_status parse_origins(const options *o, kiln_origins *out_origins) {
    if (o->ws_origin.count > KILN_ORIGINS_MAX)
        return KILN_ERROR(INVALID_ARGUMENT, "--ws-origin is given more than %u times",
                          KILN_ORIGINS_MAX);
    for (uint32_t i = 0; i < o->ws_origin.count; i++) {
        kiln_status st = kiln_origin_check(kiln_str_from(o->ws_origin.item[i]));
        if (st) return kiln_status_note(st, "--ws-origin");
        out_origins->item[i] = o->ws_origin.item[i];
    }
    out_origins->count = (uint32_t)o->ws_origin.count;
    return NULL;
}

static kiln_status run(const void *given, kiln_arena *process) {
    const options *o = given;
    kiln_address address[KILN_TRACKER_ADDRESSES_MAX];
    kiln_tracker_shell_options shell_options = {
        .address = address,
        .insecure = o->insecure,
        .db_path = o->db,
        .blobs = o->blobs,
        .keys = o->keys,
        .port_file = o->port_file,
        .http = o->http,
        .http_port_file = o->http_port_file,
        .keep_audit_days = (uint32_t)KILN_MIN(o->keep_audit, FORGET_DAYS_MAX),
        .forget_lost_ns = (uint64_t)(KILN_MIN(o->forget_days, FORGET_DAYS_MAX) * DAY_NS),
        .keep_blobs_ns = (uint64_t)(KILN_MIN(o->keep_days, FORGET_DAYS_MAX) * DAY_NS),
        .person_blob_bytes = (uint64_t)(KILN_MIN(o->person_gib, PERSON_GIB_MAX) * GIB),
    };
    kiln_tracker_shell *shell = NULL;
    char *home = NULL;
    kiln_status st = parse_addresses(o, address, &shell_options.address_count);
    if (!st) st = parse_origins(o, &shell_options.origins);
    if (!st && o->forget_days < 0)
        st = KILN_ERROR(INVALID_ARGUMENT, "--forget-boards %g is negative", o->forget_days);
    if (!st && o->keep_days < 0)
        st = KILN_ERROR(INVALID_ARGUMENT, "--keep-blobs %g is negative", o->keep_days);
    if (!st && o->person_gib < 0)
        st = KILN_ERROR(INVALID_ARGUMENT, "--person-blobs %g is negative", o->person_gib);
    if (!st && o->fences)
        st = kiln_status_note(kiln_fences_parse(kiln_str_from(o->fences), &shell_options.fences),
                              "--require-fences");
    if (!st) st = kiln_home(process, &home);
    if (!st) {
        shell_options.home = home;
        shell_options.state_folder =
            o->state ? o->state : kiln_arena_printf(process, "%s/tracker", home);
        st = kiln_tracker_shell_create(&shell_options, &shell);
    }
    if (!st) {
        kiln_ready_tell();
        st = kiln_tracker_shell_run(shell);
    }
    kiln_tracker_shell_destroy(shell);
    return st;
}

int main(int argc, char **argv) {
    options o = {.forget_days = 7, .keep_days = 30, .person_gib = 8};
    const kiln_opt option[] = {
        {"listen", KILN_OPT_LIST, &o.listen, "ADDR",
         "HOST:PORT (port 0 picks one) or unix:PATH; ws:HOST:PORT for boards in web pages; "
         "default " DEFAULT_LISTEN},
        {"ws-origin", KILN_OPT_LIST, &o.ws_origin, "URL",
         "web pages of this origin may connect to ws: addresses (http://localhost:8000)"},
        {"port-file", KILN_OPT_TEXT, &o.port_file, "F",
         "write the port to this file once it listens"},
        {"state", KILN_OPT_TEXT, &o.state, "DIR",
         "jobs, leases and blobs (default $KILN_HOME/tracker)"},
        {"db", KILN_OPT_TEXT, &o.db, "PATH",
         "store jobs and leases elsewhere: a file, or postgres://HOST/DATABASE, which trackers "
         "share: one leads, the others stand by"},
        {"blobs", KILN_OPT_TEXT, &o.blobs, "WHERE",
         "store blobs elsewhere: a folder (default blobs in --state); or keep a copy for the "
         "trackers of one database: folder:PATH, which all mount, or "
         "s3:https://HOST/BUCKET[/PREFIX]"},
        {"keep-blobs", KILN_OPT_NUMBER, &o.keep_days, "DAYS",
         "remove blobs that were not used for DAYS and that no job needs, also in that copy "
         "(default 30; 0: keep them)"},
        {"person-blobs", KILN_OPT_NUMBER, &o.person_gib, "GIB",
         "blobs that one person may have stored; the least recently used are removed first "
         "(default 8; 0: no limit)"},
        {"keep-audit", KILN_OPT_COUNT, &o.keep_audit, "DAYS",
         "remove lines of the audit log that are older than DAYS and a quarter (default 0: keep "
         "80 MiB of them)"},
        {"keys", KILN_OPT_TEXT, &o.keys, "F",
         "key file for programs on other machines, as `kiln key` writes it (default "
         "$KILN_HOME/keys if it exists)"},
        {"http", KILN_OPT_TEXT, &o.http, "ADDR",
         "serve /metrics, /state and /healthz over HTTP: PORT (on this machine) or IP:PORT"},
        {"http-port-file", KILN_OPT_TEXT, &o.http_port_file, "F",
         "write that port to this file once it listens"},
        {"require-fences", KILN_OPT_TEXT, &o.fences, "F,...",
         "give no work to boards without these sandbox fences, or `all` (base/fences.def)"},
        {"forget-boards", KILN_OPT_NUMBER, &o.forget_days, "DAYS",
         "forget boards that are lost for DAYS and not out of service (default 7; 0: never)"},
        {"insecure", KILN_OPT_FLAG, &o.insecure, NULL,
         "accept connections without a key in plain text, also from other machines"},
    };
    const kiln_daemon daemon = {
        .program = {.name = "kiln-tracker",
                    .level = KILN_LOG_INFO,
                    .protocol_min = KILN_PROTO_VERSION_MIN,
                    .protocol_max = KILN_PROTO_VERSION_MAX},
        .table = {.usage = "kiln-tracker [options]",
                  .summary = "The server of a fleet, to which boards, tuners and clients connect: "
                             "queues jobs, leases boards, stores blobs.",
                  .option = option,
                  .option_count = KILN_ARRAY_COUNT(option)},
        .run = run,
        .options = &o,
    };
    return kiln_daemon_main(&daemon, argc, argv);
}
