/* What web/uploads.c and the routes of uploads share. */
#ifndef KILN_WEB_UPLOADS_STATE_H
#define KILN_WEB_UPLOADS_STATE_H

#include "web/uploads.h"

struct kiln_model_file {
    kiln_model_file *next;
    char folder[KILN_HASH128_TEXT]; /* of the person */
    kiln_digest digest;
    uint64_t size, used_s; /* since 1970 */
    char *path;
    uint32_t holders;
};

typedef struct kiln_upload kiln_upload;
struct kiln_upload {
    kiln_upload *next;
    kiln_uploads *uploads;
    char id[KILN_HASH128_TEXT], folder[KILN_HASH128_TEXT]; /* `folder`: of the person */
    kiln_spool *spool;        /* NULL: it was whole before this server started */
    uint64_t size, touched_s; /* since 1970 */
    bool is_whole;
    kiln_digest digest; /* of one that is whole */
    kiln_call *call;    /* that sends some of it; NULL: none */
};

struct kiln_uploads {
    kiln_loop *loop;
    const char *state;
    kiln_model_file *models;
    kiln_upload *uploads;
    uint64_t spool_number;
    kiln_timer *timer;
};

/* NULL: the person has no such upload. */
kiln_upload *kiln_upload_find(const kiln_uploads *uploads, const char *person, kiln_str id);
/* RESOURCE_EXHAUSTED: too many are open. */
KILN_MUST_USE kiln_status kiln_upload_create(kiln_uploads *uploads, const char *person,
                                             uint64_t size, kiln_upload **out_upload);
void kiln_upload_remove(kiln_upload *upload);
/* Bytes that have come. */
uint64_t kiln_upload_offset(const kiln_upload *upload);
/* Some bytes have come now. */
void kiln_upload_touch(kiln_upload *upload);
/* All bytes are in the flushed spool: makes it the person's model. Errors of kiln_uploads_keep. */
KILN_MUST_USE kiln_status kiln_upload_finish(kiln_upload *upload, const char *person,
                                             const kiln_digest *digest);

#endif
