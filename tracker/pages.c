#include "tracker/pages.h"

#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "proto/net.h"
#include "tracker/listeners.h"
#include "tracker/net_metrics.h"
#include "tracker/site_metrics.h"

struct kiln_tracker_pages {
    kiln_loop *loop;
    kiln_http *http;
    kiln_tracker *tracker; /* NULL: the tracker stands by */
    const char *folder;    /* see kiln_tracker_pages_set_site */
    const kiln_tracker_key_list *keys;
};

typedef struct metrics_page {
    const kiln_tracker_pages *pages;
    kiln_tracker_page *page;
} metrics_page;

static bool print_health(void *context, kiln_strbuf *out) {
    const kiln_tracker_pages *pages = context;
    kiln_strbuf_text(out, pages->tracker ? "serving\n" : "standing by\n");
    return false;
}

static bool print_state(void *context, kiln_strbuf *out) {
    return kiln_tracker_page_step(context, out);
}

static void end_state(void *context) { kiln_tracker_page_destroy(context); }

static bool print_metrics(void *context, kiln_strbuf *out) {
    const metrics_page *m = context;
    kiln_net_stats stats;
    if (kiln_tracker_page_step(m->page, out)) return true;
    kiln_loop_net_stats(m->pages->loop, &stats);
    kiln_loop_times_print(kiln_loop_times_get(m->pages->loop), out);
    kiln_tracker_print_net_metrics(&stats, out);
    kiln_tracker_print_site_metrics(m->pages->folder, kiln_tracker_key_list_keyring(m->pages->keys),
                                    out);
    return false;
}

static void end_metrics(void *context) {
    metrics_page *m = context;
    kiln_tracker_page_destroy(m->page);
    kiln_free(m);
}

static bool begin_page(void *context, const char *path, kiln_http_page *out_page) {
    kiln_tracker_pages *pages = context;
    if (strcmp(path, "/healthz") == 0) {
        *out_page = (kiln_http_page){.type = "text/plain", .state = pages, .step = print_health};
        return true;
    }
    if (!pages->tracker) return false;
    if (strcmp(path, "/metrics") == 0) {
        metrics_page *m = kiln_alloc(sizeof *m);
        m->pages = pages;
        m->page = kiln_tracker_page_create(pages->tracker, KILN_TRACKER_PAGE_METRICS);
        *out_page = (kiln_http_page){"text/plain; version=0.0.4", m, print_metrics, end_metrics};
        return true;
    }
    if (strcmp(path, "/state") != 0) return false;
    *out_page = (kiln_http_page){"application/json",
                                 kiln_tracker_page_create(pages->tracker, KILN_TRACKER_PAGE_STATE),
                                 print_state, end_state};
    return true;
}

kiln_status kiln_tracker_pages_open(kiln_loop *loop, const char *address, bool anywhere,
                                    const char *port_file, kiln_tracker_pages **out_pages) {
    if (!address) return NULL;
    kiln_tracker_pages *pages = kiln_alloc(sizeof *pages);
    pages->loop = loop;
    const kiln_http_options options = {
        .address = address, .anywhere = anywhere, .begin = begin_page, .context = pages};
    kiln_status st = kiln_http_create(loop, &options, &pages->http);
    if (!st) {
        const unsigned port = kiln_http_port(pages->http);
        kiln_log(KILN_LOG_INFO, "/metrics and /state on port %u", port);
        st = kiln_tracker_write_port(port_file, port);
    }
    if (st)
        kiln_tracker_pages_close(pages);
    else
        *out_pages = pages;
    return st;
}

void kiln_tracker_pages_set_tracker(kiln_tracker_pages *pages, kiln_tracker *tracker) {
    if (pages) pages->tracker = tracker;
}

void kiln_tracker_pages_set_site(kiln_tracker_pages *pages, const char *folder,
                                 const kiln_tracker_key_list *keys) {
    if (!pages) return;
    pages->folder = folder;
    pages->keys = keys;
}

void kiln_tracker_pages_close(kiln_tracker_pages *pages) {
    if (!pages) return;
    kiln_http_destroy(pages->http);
    kiln_free(pages);
}
