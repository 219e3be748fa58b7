#include "web/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/macros.h"

struct kiln_spool {
    kiln_loop *loop;
    char *path;
    int fd;
    uint64_t size;
    uint64_t unhashed;   /* bytes of an earlier server; of the pool while `is_writing` */
    kiln_strbuf pending; /* of the loop: not handed to the pool yet */
    kiln_strbuf writing; /* of the pool while `is_writing` */
    kiln_hasher hasher;
    kiln_status write_st; /* of the pool while `is_writing` */
    kiln_status st;       /* the first error: nothing is written after it */
    bool is_writing, is_kept, is_dropped, wants_more;
    void (*more)(void *context);
    void *more_context;
    void (*done)(void *context, const kiln_digest *digest, kiln_status st);
    void *done_context;
    kiln_timer *soon; /* tells of a flush that had nothing to wait for */
};

static void go_on(void *context);

static kiln_spool *new_spool(kiln_loop *loop, const char *path, int fd, uint64_t size) {
    kiln_spool *s = kiln_alloc(sizeof *s);
    const size_t path_size = strlen(path) + 1;
    *s = (kiln_spool){.loop = loop,
                      .fd = fd,
                      .path = memcpy(kiln_alloc(path_size), path, path_size),
                      .size = size,
                      .unhashed = size};
    kiln_hasher_begin(&s->hasher);
    s->soon = kiln_timer_create(loop, go_on, s);
    return s;
}

kiln_status kiln_spool_create(kiln_loop *loop, const char *path, kiln_spool **out_spool) {
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "a file for the upload cannot be made: %s",
                          strerror(errno));
    *out_spool = new_spool(loop, path, fd, 0);
    return KILN_OK;
}

kiln_status kiln_spool_open(kiln_loop *loop, const char *path, kiln_spool **out_spool) {
    const int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    const off_t size = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
    if (size < 0) {
        kiln_status st = kiln_status_make(kiln_code_from_errno(errno), __FILE__, __LINE__, "%s: %s",
                                          path, strerror(errno));
        if (fd >= 0) close(fd);
        return st;
    }
    *out_spool = new_spool(loop, path, fd, (uint64_t)size);
    return KILN_OK;
}

void kiln_spool_on_more(kiln_spool *s, void (*more)(void *context), void *context) {
    s->more = more;
    s->more_context = context;
}

static void free_spool(kiln_spool *s) {
    close(s->fd);
    if (!s->is_kept) unlink(s->path);
    kiln_timer_destroy(s->soon);
    kiln_strbuf_deinit(&s->pending);
    kiln_strbuf_deinit(&s->writing);
    kiln_status_free(s->st);
    kiln_free(s->path);
    kiln_free(s);
}

/* Hashes what an earlier server wrote. */
static kiln_status hash_earlier(kiln_spool *s) {
    char *block = s->unhashed ? kiln_alloc(KILN_SPOOL_BYTES) : NULL;
    kiln_status st = KILN_OK;
    for (uint64_t at = 0; !st && s->unhashed;) {
        const ssize_t got =
            pread(s->fd, block, KILN_MIN(s->unhashed, (uint64_t)KILN_SPOOL_BYTES), (off_t)at);
        if (got <= 0) {
            st = KILN_ERROR(DATA_LOSS, "the upload cannot be read again: %s",
                            got < 0 ? strerror(errno) : "it has become shorter");
            break;
        }
        kiln_hasher_add(&s->hasher, block, (size_t)got);
        at += (uint64_t)got;
        s->unhashed -= (uint64_t)got;
    }
    kiln_free(block);
    return st;
}

static void run_write(void *context) {
    kiln_spool *s = context;
    s->write_st = hash_earlier(s);
    if (s->write_st) return;
    const kiln_str bytes = kiln_strbuf_view(&s->writing);
    kiln_hasher_add(&s->hasher, bytes.data, bytes.size);
    if (!kiln_file_write_fully(s->fd, bytes))
        s->write_st =
            KILN_ERROR(RESOURCE_EXHAUSTED, "the upload cannot be written: %s", strerror(errno));
}

static void on_written(void *context) {
    kiln_spool *s = context;
    s->is_writing = false;
    s->st = s->write_st; /* nothing is written after an error */
    kiln_strbuf_reset(&s->writing);
    if (s->is_dropped)
        free_spool(s);
    else
        go_on(s);
}

static void start_writing(kiln_spool *s) {
    const kiln_strbuf empty = s->writing;
    s->writing = s->pending;
    s->pending = empty;
    s->is_writing = true;
    kiln_loop_work(s->loop, run_write, on_written, s);
}

/* What is next: writing, telling that there is room, telling that all is written. */
static void go_on(void *context) {
    kiln_spool *s = context;
    if (s->st) kiln_strbuf_reset(&s->pending); /* nobody will read the file */
    if (!s->is_writing && (s->pending.size || (s->unhashed && !s->st))) start_writing(s);
    if (s->wants_more && s->pending.size < KILN_SPOOL_BYTES) {
        s->wants_more = false;
        if (s->more) s->more(s->more_context);
        return; /* it may be gone; what was added calls this again */
    }
    if (s->is_writing || s->pending.size || !s->done) return;
    kiln_digest digest;
    kiln_hasher so_far = s->hasher;
    kiln_hasher_end(&so_far, &digest);
    void (*done)(void *, const kiln_digest *, kiln_status) = s->done;
    s->done = NULL;
    done(s->done_context, &digest,
         s->st ? kiln_status_make(kiln_status_code(s->st), __FILE__, __LINE__, "%s",
                                  kiln_status_text(s->st))
               : KILN_OK);
}

bool kiln_spool_add(kiln_spool *s, kiln_str bytes) {
    s->size += bytes.size;
    if (!s->st) kiln_strbuf_str(&s->pending, bytes);
    if (!s->is_writing) kiln_timer_start(s->soon, 0);
    s->wants_more = s->pending.size >= KILN_SPOOL_BYTES;
    return !s->wants_more;
}

bool kiln_spool_is_full(const kiln_spool *s) { return s->wants_more; }
uint64_t kiln_spool_size(const kiln_spool *s) { return s->size; }

void kiln_spool_flush(kiln_spool *s,
                      void (*done)(void *context, const kiln_digest *digest, kiln_status st),
                      void *context) {
    s->done = done;
    s->done_context = context;
    if (!s->is_writing) kiln_timer_start(s->soon, 0);
}

kiln_status kiln_spool_keep(kiln_spool *s, const char *path) {
    if (rename(s->path, path) != 0)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "the upload cannot be kept: %s", strerror(errno));
    s->is_kept = true;
    return KILN_OK;
}

void kiln_spool_leave(kiln_spool *s) {
    if (s) s->is_kept = true;
    kiln_spool_destroy(s);
}

void kiln_spool_destroy(kiln_spool *s) {
    if (!s) return;
    s->done = NULL;
    s->more = NULL;
    s->is_dropped = true;
    if (!s->is_writing) free_spool(s);
}
