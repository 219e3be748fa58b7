#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/vec.h"
#include "base/version.h"
#include "db/db.h"
#include "web/compile.h"

struct kiln_compile {
    kiln_compile_options options;
    char *folder;
    kiln_part *parts;
    kiln_compile_question *questions; /* the newest first */
    uint32_t question_count;
    void (*changed)(void *context);
    void *context;
    bool is_closed;
};

static uint64_t wall_s(void) { return kiln_clock_wall_ns() / KILN_NS_PER_S; }

static char *copy_text(kiln_str text) {
    char *copy = kiln_alloc(text.size + 1);
    if (text.size) memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    return copy;
}

/* ---- parts ----------------------------------------------------------------------------------- */

kiln_part *kiln_part_create(kiln_compile *c, const char *key, kiln_str target) {
    kiln_part *part = kiln_alloc(sizeof *part);
    *part = (kiln_part){
        .compile = c, .target = copy_text(target), .used_s = wall_s(), .next = c->parts};
    memcpy(part->key, key, KILN_DIGEST_TEXT);
    c->parts = part;
    return part;
}

static void free_part(kiln_part *part) {
    json_decref(part->progress);
    json_decref(part->report);
    kiln_free(part->target);
    kiln_free(part->error);
    kiln_free(part);
}

static bool is_open(const kiln_part *part) {
    return part->state == KILN_PART_WAITING || part->state == KILN_PART_RUNNING;
}

static kiln_part *find_part(const kiln_compile *c, const char *key) {
    for (kiln_part *part = c->parts; part; part = part->next)
        if (strcmp(part->key, key) == 0) return part;
    return NULL;
}

static bool shares_module(const kiln_compile *c, const kiln_part *part) {
    for (const kiln_part *other = c->parts; other; other = other->next)
        if (other != part && other->state == KILN_PART_DONE &&
            kiln_digest_equal(&other->module, &part->module))
            return true;
    return false;
}

static void drop_part(kiln_compile *c, kiln_part *part) {
    kiln_part **at = &c->parts;
    while (*at != part) at = &(*at)->next;
    *at = part->next;
    if (part->state == KILN_PART_DONE) kiln_store_remove(c, part, !shares_module(c, part));
    free_part(part);
}

/* Modules that no question names make room, those first that were used longest ago. */
static void make_room(kiln_compile *c) {
    for (;;) {
        uint64_t bytes = 0;
        kiln_part *oldest = NULL;
        for (kiln_part *part = c->parts; part; part = part->next) {
            bytes += part->bytes;
            if (!part->questions && !is_open(part) && (!oldest || part->used_s < oldest->used_s))
                oldest = part;
        }
        if (bytes <= KILN_COMPILE_STORE_BYTES || !oldest) return;
        drop_part(c, oldest);
    }
}

/* ---- a part's work --------------------------------------------------------------------------- */

static void end_part(kiln_part *part, kiln_status st) {
    kiln_compile *c = part->compile;
    part->worker = NULL;
    part->code = kiln_status_code(st);
    part->state = !st                            ? KILN_PART_DONE
                  : part->code == KILN_CANCELLED ? KILN_PART_CANCELLED
                                                 : KILN_PART_FAILED;
    if (st) {
        st = kiln_status_hide_path(st, kiln_model_file_path(part->model), "model");
        st = kiln_status_hide_path(st, c->folder, "modules");
        part->error = copy_text(kiln_str_from(kiln_status_text(st)));
    }
    kiln_status_free(st);
    kiln_model_file_release(part->model);
    part->model = NULL;
    if (!part->questions) /* all who asked have been forgotten */
        drop_part(c, part);
    make_room(c);
    if (c->changed) c->changed(c->context);
}

typedef struct storing {
    kiln_part *part;
    kiln_status st;
} storing;

static void run_store(void *context) {
    storing *s = context;
    s->st = kiln_store_put(s->part->compile->folder, s->part);
}

static void on_stored(void *context) {
    storing *s = context;
    if (s->part->compile->is_closed)
        kiln_status_free(s->st); /* the server ends */
    else
        end_part(s->part, s->st);
    kiln_free(s);
}

static void on_started(void *context) { ((kiln_part *)context)->state = KILN_PART_RUNNING; }

static void on_heard(void *context, uint32_t kind, kiln_str text) {
    kiln_part *part = context;
    if (kind != KILN_REQUEST_PROGRESS && kind != KILN_REQUEST_RESULT) return;
    json_t *object = json_loadb(text.data, text.size, 0, NULL);
    json_object_del(object, "module"); /* a path of this machine */
    json_t **place = kind == KILN_REQUEST_PROGRESS ? &part->progress : &part->report;
    json_decref(*place);
    *place = object;
    snprintf(part->job, sizeof part->job, "%s", part->worker ? kiln_worker_job(part->worker) : "");
}

static void on_ended(void *context, kiln_status st) {
    kiln_part *part = context;
    if (part->worker) snprintf(part->job, sizeof part->job, "%s", kiln_worker_job(part->worker));
    if (st) {
        end_part(part, st);
        return;
    }
    storing *s = kiln_alloc(sizeof *s);
    *s = (storing){.part = part};
    part->worker = NULL;
    kiln_loop_work(part->compile->options.loop, run_store, on_stored, s);
}

void kiln_compile_set_job(const kiln_compile *c, const kiln_compile_ask *ask,
                          kiln_worker_settings *all, kiln_arena *arena) {
    const kiln_compile_options *o = &c->options;
    if (ask->trials)
        kiln_worker_set(all, "trials",
                        kiln_arena_printf(arena, "%llu", (unsigned long long)ask->trials));
    if (ask->seconds)
        kiln_worker_set(all, "seconds",
                        kiln_arena_printf(arena, "%llu", (unsigned long long)ask->seconds));
    if (o->tracker) kiln_worker_set(all, "tracker", o->tracker);
    if (o->key_file) kiln_worker_set(all, "key-file", o->key_file);
    if (o->insecure) kiln_worker_set(all, "insecure", NULL);
    if (*ask->project) kiln_worker_set(all, "project", ask->project);
    kiln_worker_set(all, "person", ask->person);
    kiln_worker_set(all, "db", kiln_store_path(c, "tuned", ".db", arena));
}

static kiln_status start_part(kiln_part *part, const kiln_compile_ask *ask) {
    kiln_compile *c = part->compile;
    const bool is_tuned = ask->trials || ask->seconds;
    kiln_worker_settings all = {.count = 0};
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    const char *output = kiln_store_path(c, part->key, ".new", &arena);
    kiln_worker_set(&all, "target", part->target);
    kiln_worker_set(&all, is_tuned ? "out" : "output", output);
    for (uint32_t i = 0; i < ask->dim_count; i++) kiln_worker_set(&all, "dim", ask->dim[i]);
    if (*ask->name) kiln_worker_set(&all, "model-name", ask->name);
    if (*ask->precision) kiln_worker_set(&all, "precision", ask->precision);
    if (*ask->accuracy) kiln_worker_set(&all, "accuracy", ask->accuracy);
    if (ask->exact) kiln_worker_set(&all, "exact", NULL);
    if (is_tuned)
        kiln_compile_set_job(c, ask, &all, &arena);
    else
        kiln_worker_set(&all, "db", kiln_db_is_there(c->options.db) ? c->options.db : "none");
    const kiln_worker_order order = {.kind = is_tuned ? KILN_WORKER_TUNE : KILN_WORKER_SHORT,
                                     .what = is_tuned ? KILN_REQUEST_TUNE : KILN_REQUEST_COMPILE,
                                     .subject = kiln_model_file_path(ask->model),
                                     .setting = all.item,
                                     .setting_count = all.count,
                                     .started = on_started,
                                     .heard = on_heard,
                                     .ended = on_ended,
                                     .context = part};
    kiln_status st = kiln_workers_start(c->options.workers, &order, &part->worker);
    kiln_arena_deinit(&arena);
    if (st) return st;
    kiln_free(part->error);
    part->error = NULL;
    part->state = KILN_PART_WAITING;
    part->model = ask->model;
    kiln_model_file_hold(part->model);
    return KILN_OK;
}

/* ---- questions ------------------------------------------------------------------------------- */

static void hash_text(const kiln_strbuf *text, char out_key[KILN_DIGEST_TEXT]) {
    kiln_digest digest;
    kiln_digest_of(text->data, text->size, &digest);
    kiln_digest_print(&digest, out_key);
}

/* Whatever the module depends on. No value holds a line's end. */
static void key_of(const kiln_compile_ask *ask, const char *target,
                   char out_key[KILN_DIGEST_TEXT]) {
    char model[KILN_DIGEST_TEXT];
    kiln_strbuf text = {0};
    kiln_digest_print(&ask->digest, model);
    kiln_strbuf_printf(&text,
                       "module 1\n%s\nmodel %s\ntarget %s\nprecision %s\naccuracy %s\nexact %d\n"
                       "trials %llu\nseconds %llu\nproject %s\n",
                       kiln_version_text, model, target, ask->precision, ask->accuracy, ask->exact,
                       (unsigned long long)ask->trials, (unsigned long long)ask->seconds,
                       ask->project);
    for (uint32_t i = 0; i < ask->dim_count; i++)
        kiln_strbuf_printf(&text, "dim %s\n", ask->dim[i]);
    if (*ask->name) kiln_strbuf_printf(&text, "name %s\n", ask->name);
    hash_text(&text, out_key);
    kiln_strbuf_deinit(&text);
}

static uint32_t count_open(const kiln_compile *c, const char *person) {
    uint32_t count = 0;
    for (const kiln_compile_question *q = c->questions; q; q = q->next)
        if (!q->is_cancelled && strcmp(q->person, person) == 0)
            for (uint32_t i = 0; i < q->part_count; i++) count += is_open(q->part[i]);
    return count;
}

bool kiln_compile_has_ended(const kiln_compile_question *q) {
    for (uint32_t i = 0; i < q->part_count; i++)
        if (is_open(q->part[i])) return false;
    return true;
}

static void leave_part(kiln_part *part) {
    if (--part->askers == 0 && part->worker) kiln_worker_cancel(part->worker);
}

void kiln_compile_cancel(kiln_compile_question *q) {
    if (q->is_cancelled) return;
    q->is_cancelled = true;
    for (uint32_t i = 0; i < q->part_count; i++) leave_part(q->part[i]);
}

static void forget_question(kiln_compile *c, kiln_compile_question **at) {
    kiln_compile_question *q = *at;
    *at = q->next;
    c->question_count--;
    for (uint32_t i = 0; i < q->part_count; i++) {
        if (!q->is_cancelled) leave_part(q->part[i]);
        if (--q->part[i]->questions || is_open(q->part[i])) continue;
        if (q->part[i]->state != KILN_PART_DONE) drop_part(c, q->part[i]);
    }
    kiln_free(q);
}

/* The oldest one that has ended. */
static void forget_oldest(kiln_compile *c) {
    kiln_compile_question **oldest = NULL;
    for (kiln_compile_question **at = &c->questions; *at; at = &(*at)->next)
        if (kiln_compile_has_ended(*at)) oldest = at;
    if (oldest) forget_question(c, oldest);
}

kiln_compile_question *kiln_compile_find(kiln_compile *c, const char *person, kiln_str id) {
    for (kiln_compile_question *q = c->questions; q; q = q->next)
        if (kiln_str_is(id, q->id) && strcmp(q->person, person) == 0) return q;
    return NULL;
}

static kiln_status add_part(kiln_compile_question *q, kiln_compile *c, const kiln_compile_ask *ask,
                            const char *target) {
    char key[KILN_DIGEST_TEXT];
    key_of(ask, target, key);
    kiln_part *part = find_part(c, key);
    if (!part) {
        part = kiln_part_create(c, key, kiln_str_from(target));
        part->state = KILN_PART_CANCELLED; /* until it is started */
    }
    part->used_s = wall_s();
    kiln_status st = part->state == KILN_PART_FAILED || part->state == KILN_PART_CANCELLED
                         ? start_part(part, ask)
                         : KILN_OK;
    if (st) {
        if (!part->questions) drop_part(c, part);
        return st;
    }
    part->questions++;
    part->askers++;
    q->part[q->part_count++] = part;
    return KILN_OK;
}

static void id_of(const kiln_compile_ask *ask, char out_id[KILN_DIGEST_TEXT]) {
    char key[KILN_DIGEST_TEXT];
    kiln_strbuf text = {0};
    kiln_strbuf_printf(&text, "question 1\n%s\n", ask->person);
    for (uint32_t i = 0; i < ask->target_count; i++) {
        key_of(ask, ask->target[i], key);
        kiln_strbuf_printf(&text, "%s\n", key);
    }
    hash_text(&text, out_id);
    kiln_strbuf_deinit(&text);
}

kiln_status kiln_compile_begin(kiln_compile *c, const kiln_compile_ask *ask,
                               kiln_compile_question **out_question) {
    char id[KILN_DIGEST_TEXT];
    id_of(ask, id);
    for (kiln_compile_question **at = &c->questions; *at; at = &(*at)->next) {
        kiln_compile_question *q = *at;
        if (strcmp(q->id, id) != 0) continue;
        bool is_good = !q->is_cancelled;
        for (uint32_t i = 0; i < q->part_count; i++)
            is_good &= is_open(q->part[i]) || q->part[i]->state == KILN_PART_DONE;
        *out_question = q;
        if (is_good) return KILN_OK;
        forget_question(c, at); /* it failed, or was cancelled: once more */
        break;
    }
    if (count_open(c, ask->person) + ask->target_count > KILN_COMPILE_OPEN_OF_PERSON_MAX)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "%u modules of yours are being made: wait for them",
                          count_open(c, ask->person));
    if (c->question_count >= KILN_COMPILE_QUESTIONS_MAX) forget_oldest(c);
    kiln_compile_question *q = kiln_alloc(sizeof *q);
    *q = (kiln_compile_question){.next = c->questions};
    memcpy(q->id, id, sizeof id);
    snprintf(q->person, sizeof q->person, "%s", ask->person);
    c->questions = q;
    c->question_count++;
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i < ask->target_count; i++)
        st = add_part(q, c, ask, ask->target[i]);
    if (st)
        forget_question(c, &c->questions);
    else
        *out_question = q;
    return st;
}

void kiln_compile_on_change(kiln_compile *c, void (*changed)(void *context), void *context) {
    c->changed = changed;
    c->context = context;
}

/* ---- modules --------------------------------------------------------------------------------- */

static bool asked_for(const kiln_compile *c, const char *person, const kiln_part *part) {
    for (const kiln_compile_question *q = c->questions; q; q = q->next)
        if (strcmp(q->person, person) == 0)
            for (uint32_t i = 0; i < q->part_count; i++)
                if (q->part[i] == part) return true;
    return false;
}

const char *kiln_compile_module(kiln_compile *c, const char *person, const kiln_digest *digest,
                                kiln_arena *arena) {
    char name[KILN_DIGEST_TEXT];
    kiln_digest_print(digest, name);
    for (kiln_part *part = c->parts; part; part = part->next)
        if (part->state == KILN_PART_DONE && kiln_digest_equal(&part->module, digest) &&
            (!person || asked_for(c, person, part)))
            return kiln_store_path(c, name, ".kiln", arena);
    return NULL;
}

const char *kiln_store_path(const kiln_compile *c, const char *name, const char *ending,
                            kiln_arena *arena) {
    return kiln_arena_printf(arena, "%s/%s%s", c->folder, name, ending);
}

kiln_status kiln_compile_create(const kiln_compile_options *options, kiln_compile **out_compile) {
    kiln_compile *c = kiln_alloc(sizeof *c);
    kiln_strbuf folder = {0};
    kiln_strbuf_printf(&folder, "%s/modules", options->state_folder);
    *c = (kiln_compile){.options = *options, .folder = folder.data};
    kiln_status st = kiln_folder_create(c->folder, 0700);
    if (!st) st = kiln_store_read(c, c->folder);
    if (st) {
        kiln_compile_destroy(c);
        return st;
    }
    make_room(c);
    *out_compile = c;
    return KILN_OK;
}

void kiln_compile_close(kiln_compile *c) {
    if (c) c->is_closed = true;
}

void kiln_compile_destroy(kiln_compile *c) {
    if (!c) return;
    while (c->questions) {
        kiln_compile_question *next = c->questions->next;
        kiln_free(c->questions);
        c->questions = next;
    }
    while (c->parts) {
        kiln_part *next = c->parts->next;
        free_part(c->parts);
        c->parts = next;
    }
    kiln_free(c->folder);
    kiln_free(c);
}
