/* Builds without libcurl (-Ds3=disabled). */
#include "proto/fetch.h"

kiln_status kiln_fetch_send(const kiln_fetch *fetch, kiln_arena *arena, unsigned *out_status,
                            kiln_str *out_answer) {
    (void)arena, (void)out_status, (void)out_answer;
    return KILN_ERROR(UNIMPLEMENTED, "%s: this kiln was built without libcurl (-Ds3=enabled)",
                      fetch->url);
}
