/* The tracker's pages over HTTP: /healthz, /metrics and /state. */
#ifndef KILN_TRACKER_PAGES_H
#define KILN_TRACKER_PAGES_H

#include "tracker/http.h"
#include "tracker/key_list.h"
#include "tracker/tracker.h"

typedef struct kiln_tracker_pages kiln_tracker_pages;

/* `address`: kiln_http_options; NULL: there are no pages. `port_file`: gets the port; NULL: none.
 * Errors of kiln_http_create, and of writing the file. */
KILN_MUST_USE kiln_status kiln_tracker_pages_open(kiln_loop *loop, const char *address,
                                                  bool anywhere, const char *port_file,
                                                  kiln_tracker_pages **out_pages);
/* From now on the pages are about this tracker; without one /healthz is the only page. NULL is
 * fine. */
void kiln_tracker_pages_set_tracker(kiln_tracker_pages *pages, kiln_tracker *tracker);
/* What else /metrics speaks of: the disk of `folder`, and the keys. Both outlive the pages. */
void kiln_tracker_pages_set_site(kiln_tracker_pages *pages, const char *folder,
                                 const kiln_tracker_key_list *keys);
/* Before the loop is destroyed. NULL is fine. */
void kiln_tracker_pages_close(kiln_tracker_pages *pages);

#endif
