/* Work that needs LLVM or runs code, done in exec'd copies of the calling program (`kiln-tuner
 * --worker`, `kiln-rpc-server --worker` where that has a compiler): a crash in the compiler loses
 * one candidate, and the program's loop never waits. A worker reads requests from standard input
 * and answers each on standard output, in order; both are frames of a little-endian u32 length and
 * a msgpack map. It ends when its input does.
 *
 * Models are untrusted: a worker has no rights (base/isolated/isolated.h). The model of TASKS is
 * KILN_WORK_MODEL_FD, which the pool has opened. */
#ifndef KILN_COMPILER_CORE_WORKER_WORKER_H
#define KILN_COMPILER_CORE_WORKER_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/accuracy.h"
#include "base/arena.h"
#include "base/assembled.h"
#include "base/status.h"
#include "base/str.h"

#define KILN_WORK_MODEL_FD 3                  /* of a worker that is started for TASKS */
#define KILN_WORK_BYTES_MAX ((size_t)2 << 30) /* of one frame; models and references are large */

typedef enum kiln_work {
    KILN_WORK_TASKS = 1,     /* model -> compilation, without its graph */
    KILN_WORK_BUILD = 2,     /* task + trace -> artefact, checked with the boards' own loader */
    KILN_WORK_REFERENCE = 3, /* task + seed -> reference blob (base/reference.h) */
} kiln_work;

typedef struct kiln_work_request {
    kiln_work work;
    uint64_t id;            /* returned in the reply */
    kiln_str target;        /* canonical text */
    kiln_str model_path;    /* TASKS: a file with the model, in that form; the pool opens it */
    uint64_t model_form;    /* TASKS: kiln_model_form */
    kiln_accuracy accuracy; /* TASKS: decides the type of values between kernels */
    kiln_str figures;       /* TASKS: bytes of the target's measured figures (base/figures.h) */
    kiln_str te;            /* BUILD, REFERENCE: program text */
    kiln_str task_key;      /* BUILD, REFERENCE */
    kiln_str trace;         /* BUILD: binary form */
    uint64_t seed;          /* REFERENCE: of the inputs */
} kiln_work_request;

typedef struct kiln_work_reply {
    uint64_t id;
    uint32_t code;   /* kiln_code */
    kiln_str text;   /* why, when code is not OK */
    bool link_error; /* BUILD: compiled, but boards would refuse the object */
    uint64_t elapsed_ns;
    kiln_str bytes; /* compilation (layout/compilation.h), artefact or reference blob */
    kiln_str algorithm, layout_in, layout_out,
        codegen_version;      /* BUILD: from the manifest, for the record */
    kiln_assembled assembled; /* BUILD: also set when the kernel is refused because it spills */
} kiln_work_reply;

/* Append one whole frame. */
void kiln_work_request_write(const kiln_work_request *request, kiln_strbuf *out);
void kiln_work_reply_write(const kiln_work_reply *reply, kiln_strbuf *out);
/* Bytes of the frame at the start of `bytes`, header included, or 0 when more bytes are needed to
 * know. DATA_LOSS: longer than KILN_WORK_BYTES_MAX. */
KILN_MUST_USE kiln_status kiln_work_frame_size(kiln_str bytes, size_t *out_size);
/* `frame` is one whole frame; views point into it. */
KILN_MUST_USE kiln_status kiln_work_request_read(kiln_str frame, kiln_work_request *out_request);
KILN_MUST_USE kiln_status kiln_work_reply_read(kiln_str frame, kiln_work_reply *out_reply);

/* Whether the arguments start a worker. */
bool kiln_worker_is_asked(int argc, char **argv);
/* Its main loop: PROGRAM --worker [--cores LIST] [--memory BYTES] [--model]. `--model`: it has
 * KILN_WORK_MODEL_FD. Returns the exit code. */
int kiln_worker_main(int argc, char **argv);

#endif
