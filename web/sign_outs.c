#include "web/sign_outs.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/vec.h"
#include "web/people.h"

#define FILE_BYTES_MAX \
    ((size_t)KILN_SIGN_OUTS_MAX * (sizeof(row) + 24)) /* a row with digits and separators */
#define ALL "-"                                       /* in place of an identity */

/* One session; or, with the identity ALL, all of the person that expire no later. */
typedef struct row {
    char id[KILN_SIGN_OUT_ID], person[KILN_PERSON_MAX + 1];
    uint64_t expires_s;
} row;

typedef struct waiter {
    void (*done)(void *context, kiln_status st);
    void *context;
} waiter;

typedef KILN_VEC(waiter) waiters;

struct kiln_sign_outs {
    kiln_loop *loop;
    char *path;
    KILN_VEC(row) rows;
    waiters waiting, written; /* for the next write; for the one that runs */
    kiln_strbuf text;         /* of the pool while `is_writing` */
    kiln_status st;           /* the same */
    bool is_writing, is_dropped;
};

/* ---- The file: "EXPIRES ID PERSON" in each line ---- */

static bool copy_text(char *to, size_t size, kiln_str text) {
    if (!text.size || text.size >= size) return false;
    memcpy(to, text.data, text.size);
    to[text.size] = 0;
    return true;
}

static bool read_row(kiln_str line, row *out) {
    *out = (row){.expires_s = 0};
    return kiln_str_to_u64(kiln_str_cut(&line, ' '), &out->expires_s) &&
           copy_text(out->id, sizeof out->id, kiln_str_cut(&line, ' ')) &&
           copy_text(out->person, sizeof out->person, line);
}

static kiln_status read_file(kiln_sign_outs *s) {
    kiln_arena arena;
    kiln_str rest = {0};
    row one;
    kiln_arena_init(&arena, 0);
    kiln_status st = kiln_file_read(s->path, FILE_BYTES_MAX, &arena, &rest);
    if (kiln_status_code(st) == KILN_NOT_FOUND) {
        kiln_status_free(st); /* nobody has signed out yet */
        st = KILN_OK;
    }
    while (!st && rest.size) {
        if (read_row(kiln_str_cut(&rest, '\n'), &one))
            kiln_vec_push(&s->rows, one);
        else
            st = KILN_ERROR(DATA_LOSS,
                            "%s is damaged: remove it together with the file `secret` beside it, "
                            "which ends all sessions",
                            s->path);
    }
    kiln_arena_deinit(&arena);
    return st;
}

static void print_rows(const kiln_sign_outs *s, kiln_strbuf *out) {
    kiln_strbuf_reset(out);
    for (uint32_t i = 0; i < s->rows.count; i++)
        kiln_strbuf_printf(out, "%llu %s %s\n", (unsigned long long)s->rows.data[i].expires_s,
                           s->rows.data[i].id, s->rows.data[i].person);
}

/* ---- Writing, on the pool ---- */

static void free_sign_outs(kiln_sign_outs *s) {
    kiln_status_free(s->st);
    kiln_strbuf_deinit(&s->text);
    kiln_vec_deinit(&s->rows);
    kiln_vec_deinit(&s->waiting);
    kiln_vec_deinit(&s->written);
    kiln_free(s->path);
    kiln_free(s);
}

static void run_write(void *context) {
    kiln_sign_outs *s = context;
    s->st = kiln_file_write(s->path, kiln_strbuf_view(&s->text), 0600);
}

static void on_written(void *context);

/* One at a time: those that are added meanwhile are in the next. */
static void write_if_wanted(kiln_sign_outs *s) {
    if (s->is_writing || !s->waiting.count) return;
    const waiters empty = s->written;
    s->written = s->waiting;
    s->waiting = empty;
    s->is_writing = true;
    print_rows(s, &s->text);
    kiln_loop_work(s->loop, run_write, on_written, s);
}

static void on_written(void *context) {
    kiln_sign_outs *s = context;
    s->is_writing = false;
    if (s->is_dropped) {
        free_sign_outs(s);
        return;
    }
    for (uint32_t i = 0; i < s->written.count; i++)
        s->written.data[i].done(
            s->written.data[i].context,
            s->st ? kiln_status_make(kiln_status_code(s->st), __FILE__, __LINE__,
                                     "you are signed out until the server ends, as it cannot keep "
                                     "that: %s",
                                     kiln_status_text(s->st))
                  : KILN_OK);
    s->written.count = 0;
    kiln_status_free(s->st);
    s->st = NULL;
    write_if_wanted(s);
}

/* ---- The list ---- */

static bool is_of(const row *one, const char *person) { return strcmp(one->person, person) == 0; }

bool kiln_sign_outs_has(const kiln_sign_outs *s, const kiln_sign_out *session) {
    for (uint32_t i = 0; i < s->rows.count; i++) {
        const row *one = &s->rows.data[i];
        if (strcmp(one->id, session->id) == 0) return true;
        if (strcmp(one->id, ALL) == 0 && is_of(one, session->person) &&
            session->expires_s <= one->expires_s)
            return true;
    }
    return false;
}

static void remove_expired(kiln_sign_outs *s, uint64_t now_s) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->rows.count; i++)
        if (s->rows.data[i].expires_s > now_s) s->rows.data[kept++] = s->rows.data[i];
    s->rows.count = kept;
}

/* One row in place of the person's rows, when there are too many with `added`. */
static void merge_person(kiln_sign_outs *s, row *added) {
    uint32_t own = 0, kept = 0;
    for (uint32_t i = 0; i < s->rows.count; i++) own += is_of(&s->rows.data[i], added->person);
    if (own < KILN_SIGN_OUTS_OF_PERSON) return;
    for (uint32_t i = 0; i < s->rows.count; i++) {
        const row *one = &s->rows.data[i];
        if (!is_of(one, added->person))
            s->rows.data[kept++] = *one;
        else if (one->expires_s > added->expires_s)
            added->expires_s = one->expires_s;
    }
    s->rows.count = kept;
    snprintf(added->id, sizeof added->id, ALL);
}

static void remove_first_to_expire(kiln_sign_outs *s) {
    uint32_t first = 0;
    for (uint32_t i = 1; i < s->rows.count; i++)
        if (s->rows.data[i].expires_s < s->rows.data[first].expires_s) first = i;
    s->rows.data[first] = s->rows.data[--s->rows.count];
}

void kiln_sign_outs_add(kiln_sign_outs *s, const kiln_sign_out *session, uint64_t now_s,
                        void (*done)(void *context, kiln_status st), void *context) {
    row added = {.expires_s = session->expires_s};
    snprintf(added.id, sizeof added.id, "%s", session->id);
    snprintf(added.person, sizeof added.person, "%s", session->person);
    remove_expired(s, now_s);
    merge_person(s, &added);
    if (s->rows.count == KILN_SIGN_OUTS_MAX) remove_first_to_expire(s);
    kiln_vec_push(&s->rows, added);
    kiln_vec_push(&s->waiting, ((waiter){done, context}));
    write_if_wanted(s);
}

/* ---- Life ---- */

kiln_status kiln_sign_outs_create(kiln_loop *loop, const char *state_folder,
                                  kiln_sign_outs **out_sign_outs) {
    static const char name[] = "/signed-out";
    const size_t size = strlen(state_folder);
    kiln_sign_outs *s = kiln_alloc(sizeof *s);
    *s = (kiln_sign_outs){.loop = loop, .path = kiln_alloc(size + sizeof name)};
    memcpy(s->path, state_folder, size);
    memcpy(s->path + size, name, sizeof name);
    kiln_status st = read_file(s);
    if (st) {
        free_sign_outs(s);
        return st;
    }
    *out_sign_outs = s;
    return KILN_OK;
}

void kiln_sign_outs_destroy(kiln_sign_outs *s) {
    if (!s) return;
    s->is_dropped = true;
    if (!s->is_writing) free_sign_outs(s);
}
