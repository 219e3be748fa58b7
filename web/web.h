/* The web server as a whole: what its handlers find there. web/main.c makes it; each part is made
 * and destroyed by web/web.c, in one place. */
#ifndef KILN_WEB_WEB_H
#define KILN_WEB_WEB_H

#include "web/events.h"
#include "web/http.h"
#include "web/people.h"
#include "web/session.h"

typedef struct kiln_records kiln_records;
typedef struct kiln_workers kiln_workers;
typedef struct kiln_uploads kiln_uploads;
typedef struct kiln_compile kiln_compile;
typedef struct kiln_compile_waits kiln_compile_waits;

#define KILN_UPLOAD_BYTES_MAX KILN_MODEL_FILE_BYTES_MAX
#define KILN_WEB_SOFTWARE "kiln-web " KILN_VERSION

typedef struct kiln_web_options {
    const char *home;         /* $KILN_HOME */
    const char *state_folder; /* a cache, and the secret of the cookies */
    const char *db;           /* records: a file, or postgres:// */
    kiln_addresses tracker;
    const char *key_file; /* of the connections to the tracker; NULL: $KILN_HOME/key, if needed */
    bool insecure;
    kiln_address listen;
    const char *port_file;          /* NULL: none */
    const char *cert_pem, *key_pem; /* NULL: no TLS */
    const char *trust_header;       /* names the person; NULL: none does */
    bool prints_link;               /* to standard output: it signs in the owner */
} kiln_web_options;

typedef struct kiln_web {
    const kiln_web_options *options;
    kiln_loop *loop;
    kiln_blob_store *blobs; /* blobs of the tracker that were asked for: a cache */
    kiln_http_server *server;
    kiln_str openapi; /* the document, made once */
    kiln_sessions *sessions;
    kiln_people *people;
    kiln_events *events;
    kiln_records *records;
    kiln_workers *workers;
    kiln_uploads *uploads;
    kiln_compile *compile;
    kiln_compile_waits *compile_waits;
} kiln_web;

/* Listens, and writes the port file. `process` and `options` outlive it. Errors of
 * kiln_http_server_create, of reading the credentials, and of files. */
KILN_MUST_USE kiln_status kiln_web_create(const kiln_web_options *options, kiln_arena *process,
                                          kiln_web **out_web);
/* Until a signal ends it (kiln_loop_create_stoppable). */
void kiln_web_run(kiln_web *web);
void kiln_web_destroy(kiln_web *web); /* NULL is fine */

/* kiln_http_handler of the server, whose context is the kiln_web: finds the route of a request and
 * its person, checks its parameters, and runs the row's handler (web/dispatch.c). */
extern const kiln_http_handler kiln_web_dispatch;

#endif
