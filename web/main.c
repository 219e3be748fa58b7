/* kiln-web: the dashboard and the HTTP API of a fleet. */
#include "base/file.h"
#include "base/program/daemon.h"
#include "base/program/ready.h"
#include "web/web.h"

#define DEFAULT_LISTEN "9480"
#define PEM_BYTES_MAX ((size_t)1 << 20)

typedef struct options {
    const char *tracker, *listen, *port_file, *db, *state, *key_file, *cert, *cert_key,
        *trust_header;
    bool insecure, link;
} options;

static kiln_status read_pem(const char *path, kiln_arena *process, const char **out_pem) {
    kiln_str text = {0};
    kiln_status st = kiln_file_read(path, PEM_BYTES_MAX, process, &text);
    if (!st) *out_pem = kiln_str_dup(process, text);
    return st;
}

static kiln_status read_certificate(const options *o, kiln_arena *process, kiln_web_options *out) {
    if (!o->cert && !o->cert_key) return KILN_OK;
    if (!o->cert || !o->cert_key)
        return KILN_ERROR(INVALID_ARGUMENT, "--cert and --cert-key belong together");
    kiln_status st = read_pem(o->cert, process, &out->cert_pem);
    return st ? st : read_pem(o->cert_key, process, &out->key_pem);
}

/* The address of this user's tracker, where none is given. */
static kiln_status find_tracker(const options *o, const char *home, kiln_arena *process,
                                kiln_addresses *out) {
    if (o->tracker) return kiln_addresses_parse(kiln_str_from(o->tracker), out);
    kiln_str text = {0};
    kiln_status st =
        kiln_file_read(kiln_arena_printf(process, "%s/" KILN_TRACKER_ADDRESS_FILE, home),
                       KILN_ADDRESS_TEXT_MAX, process, &text);
    if (!st) return kiln_addresses_parse(kiln_str_cut(&text, '\n'), out);
    kiln_status_free(st); /* no tracker of this user listens here */
    return KILN_ERROR(INVALID_ARGUMENT,
                      "--tracker ADDR is missing, and no tracker of yours listens on this machine");
}

static kiln_status fill(const options *o, kiln_arena *process, kiln_web_options *out) {
    char *home = NULL;
    kiln_status st = kiln_home(process, &home);
    if (!st) st = find_tracker(o, home, process, &out->tracker);
    if (!st) {
        st = kiln_http_address_parse(o->listen, &out->listen);
        if (st) st = kiln_status_note(st, "--listen");
    }
    if (!st) st = read_certificate(o, process, out);
    if (st) return st;
    if (o->trust_header && !out->listen.is_loopback)
        return KILN_ERROR(INVALID_ARGUMENT,
                          "--trust-header needs --listen on loopback or unix:PATH, so that only "
                          "the proxy reaches the server");
    out->home = home;
    out->key_file = o->key_file;
    out->insecure = o->insecure;
    out->prints_link = o->link;
    out->port_file = o->port_file;
    out->trust_header = o->trust_header;
    out->db = o->db ? o->db : kiln_arena_printf(process, "%s/kiln.db", home);
    out->state_folder = o->state ? o->state : kiln_arena_printf(process, "%s/web", home);
    return KILN_OK;
}

static kiln_status run(const void *given, kiln_arena *process) {
    kiln_web_options web_options = {0};
    kiln_web *web = NULL;
    kiln_status st = fill(given, process, &web_options);
    if (!st) st = kiln_web_create(&web_options, process, &web);
    if (!st) {
        kiln_ready_tell();
        kiln_web_run(web);
    }
    kiln_web_destroy(web);
    return st;
}

int main(int argc, char **argv) {
    options o = {.listen = DEFAULT_LISTEN};
    const kiln_opt option[] = {
        {"tracker", KILN_OPT_TEXT, &o.tracker, "ADDR",
         "address of the tracker: HOST:PORT or unix:PATH; ADDR,ADDR: also standby trackers "
         "(default "
         "this user's tracker on this machine)"},
        {"listen", KILN_OPT_TEXT, &o.listen, "ADDR",
         "PORT (on this machine), IP:PORT or unix:PATH; port 0 picks one (default " DEFAULT_LISTEN
         ")"},
        {"port-file", KILN_OPT_TEXT, &o.port_file, "F",
         "write the port to this file once it listens"},
        {"db", KILN_OPT_TEXT, &o.db, "PATH",
         "records database: a file, or postgres://HOST/DATABASE (default $KILN_HOME/kiln.db)"},
        {"state", KILN_OPT_TEXT, &o.state, "DIR",
         "a cache, and the secret of the cookies (default $KILN_HOME/web)"},
        {"key-file", KILN_OPT_TEXT, &o.key_file, "F",
         "key file for the tracker, of role web to serve many persons (default $KILN_HOME/key; not "
         "needed on the tracker's machine)"},
        {"cert", KILN_OPT_TEXT, &o.cert, "F", "serve over TLS with this certificate (PEM)"},
        {"cert-key", KILN_OPT_TEXT, &o.cert_key, "F", "its key (PEM)"},
        {"trust-header", KILN_OPT_TEXT, &o.trust_header, "NAME",
         "take the person from this header, which a proxy on this machine sets after it signed the "
         "person in"},
        {"link", KILN_OPT_FLAG, &o.link, NULL,
         "print a link to the dashboard that signs in this user, once it listens (as kiln web "
         "does)"},
        {"insecure", KILN_OPT_FLAG, &o.insecure, NULL,
         "serve other machines in plain text, and connect to the tracker without a key"},
    };
    const kiln_daemon daemon = {
        .program = {.name = "kiln-web",
                    .level = KILN_LOG_INFO,
                    .protocol_min = KILN_PROTO_VERSION_MIN,
                    .protocol_max = KILN_PROTO_VERSION_MAX},
        .table = {.usage = "kiln-web [options]",
                  .summary = "Serves the dashboard and the HTTP API of a fleet to browsers and "
                             "programs.",
                  .option = option,
                  .option_count = KILN_ARRAY_COUNT(option)},
        .run = run,
        .options = &o,
    };
    return kiln_daemon_main(&daemon, argc, argv);
}
