/* Model files that persons bring: uploads that may be resumed, and those that are whole, by their
 * SHA-256. A person finds its own models alone, so that a digest does not tell what others have.
 * All of it is a cache in the state folder:
 *
 *   uploads/PERSON/ID.SIZE           bytes of an upload so far; a server that starts continues it
 *   uploads/PERSON/ID.SIZE.SHA256    empty: that upload is whole, and a model
 *   uploads/NUMBER                   a body that comes in one piece; removed at start
 *   models/PERSON/SHA256
 *
 * PERSON is a hash of the person's name. Uploads are removed when no byte has come for
 * KILN_UPLOAD_IDLE_S, models when nobody used them for KILN_MODELS_UNUSED_S. Everything runs on the
 * loop's thread. */
#ifndef KILN_WEB_UPLOADS_H
#define KILN_WEB_UPLOADS_H

#include "base/arena.h"
#include "base/hash.h"
#include "base/status.h"
#include "web/routes.h"
#include "web/spool.h"

#define KILN_UPLOADS_OF_PERSON_MAX 8u
#define KILN_UPLOADS_MAX 128u
#define KILN_UPLOAD_IDLE_S (UINT64_C(24) * 3600) /* without a byte; then it is removed */
#define KILN_MODELS_OF_PERSON_BYTES (UINT64_C(8) << 30)
#define KILN_MODELS_BYTES (UINT64_C(32) << 30)
#define KILN_MODELS_UNUSED_S (UINT64_C(7) * 24 * 3600)

/* A whole model; valid until the next call for another, unless it is held. */
typedef struct kiln_model_file kiln_model_file;

/* Makes the folders, and finds the models of before. Errors of files. */
KILN_MUST_USE kiln_status kiln_uploads_create(kiln_loop *loop, const char *state_folder,
                                              kiln_uploads **out_uploads);
void kiln_uploads_destroy(kiln_uploads *uploads); /* NULL is fine */

/* A new file for a body that comes in one piece. RESOURCE_EXHAUSTED: it cannot be made. */
KILN_MUST_USE kiln_status kiln_uploads_spool(kiln_uploads *uploads, kiln_spool **out_spool);
/* Makes a flushed spool the person's model; the spool remains the caller's to destroy. The models
 * that the person used longest ago make room. RESOURCE_EXHAUSTED: those in use take all of it. */
KILN_MUST_USE kiln_status kiln_uploads_keep(kiln_uploads *uploads, const char *person,
                                            kiln_spool *spool, const kiln_digest *digest,
                                            kiln_model_file **out_model);
/* The person's model with that digest. NULL: it has none. */
kiln_model_file *kiln_uploads_find(kiln_uploads *uploads, const char *person,
                                   const kiln_digest *digest);
/* A model that the person has brought before, by the SHA-256 of its file or by its upload.
 * NOT_FOUND: the person has neither; FAILED_PRECONDITION: bytes of the upload are missing. */
KILN_MUST_USE kiln_status kiln_uploads_resolve(kiln_uploads *uploads, const char *person,
                                               kiln_str name, kiln_model_file **out_model);
const kiln_digest *kiln_model_file_digest(const kiln_model_file *model);
const char *kiln_model_file_path(const kiln_model_file *model);
/* While it is held it is not removed. */
void kiln_model_file_hold(kiln_model_file *model);
void kiln_model_file_release(kiln_model_file *model); /* NULL is fine */

#endif
