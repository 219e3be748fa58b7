/* The path and the query of a request, taken apart strictly: what could be read in two ways is
 * refused. Used by web/http.h. */
#ifndef KILN_WEB_URI_H
#define KILN_WEB_URI_H

#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"

#define KILN_URI_BYTES_MAX ((size_t)8 << 10)
#define KILN_URI_SEGMENTS_MAX 16u
#define KILN_URI_PAIRS_MAX 64u

typedef struct kiln_uri_pair {
    kiln_str name, value; /* decoded */
} kiln_uri_pair;

typedef struct kiln_uri {
    kiln_str segment[KILN_URI_SEGMENTS_MAX]; /* decoded; "/a/b%2Fc" has "a" and "b/c", "/" none */
    uint32_t segment_count;
    kiln_uri_pair *pair; /* of the query, in their order */
    uint32_t pair_count;
} kiln_uri;

/* Parses "/path?query"; decoded texts are in `arena`, others point into `text`. INVALID_ARGUMENT:
 * no such form, a bad escape, a segment that is empty, "." or "..", text that is no UTF-8 or has a
 * control character, or more of something than the maximum above. */
KILN_MUST_USE kiln_status kiln_uri_parse(kiln_str text, kiln_arena *arena, kiln_uri *out_uri);

#endif
