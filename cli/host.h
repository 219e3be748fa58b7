/* A command as the host of a request (libkiln/tune/tune.h): starts it, shows how far it is and what
 * came of it, hands on Ctrl-C. In use:
 *
 *     kiln_host host = {.json = json, .print = print, .process = process};
 *     st = kiln_host_run(&host, KILN_REQUEST_TUNE, model, &given);
 *     kiln_request_free(host.request); */
#ifndef KILN_CLI_HOST_H
#define KILN_CLI_HOST_H

#include <jansson.h>

#include "base/opt.h"
#include "cli/display.h"

typedef struct kiln_host {
    bool json;      /* objects go to standard output as they come */
    double seconds; /* time budget; 0: none */
    /* Else prints one for people. */
    void (*print)(void *context, const json_t *result);
    void *context;
    kiln_arena *process;
    /* Of the last one; the display's texts are the request's. */
    kiln_request *request;
    kiln_display display;
    bool is_unread; /* nobody reads standard output any more: the command ends silently */
} kiln_host;

/* Runs a request to its end, which is returned. `given`: its settings, as the command line has
 * them. Ctrl-C, SIGTERM and a standard output that nobody reads cancel it. The caller frees
 * `host->request`. */
KILN_MUST_USE kiln_status kiln_host_run(kiln_host *host, uint32_t what, const char *subject,
                                        const kiln_opt_given_list *given);

#endif
