/* POST /compile: a form with the model in it, or JSON that names one, becomes a kiln_compile_ask.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/target.h"
#include "base/text.h"
#include "web/compile.h"
#include "web/multipart.h"

#define VALUE_BYTES_MAX ((size_t)1024) /* of a setting */
#define BODY_BYTES_MAX (KILN_UPLOAD_BYTES_MAX + ((uint64_t)1 << 20))
#define SEND_NS \
    (UINT64_C(24) * 3600 * KILN_NS_PER_S) /* clients that send nothing are cut earlier */

/* ---- what is asked --------------------------------------------------------------------------- */

/* A request that asks; `fields` has a list of texts for each name. */
typedef struct asking {
    kiln_call *call;
    json_t *fields;
    kiln_multipart multipart;
    kiln_spool *spool; /* of the model in the form */
    char field[KILN_MULTIPART_NAME_MAX + 1];
    kiln_strbuf value;
    bool is_model, is_open; /* a part of the form is being read */
    kiln_status st;         /* the first error */
} asking;

static const char *const known_fields[] = {"name",    "upload", "model",     "target",  "targets",
                                           "dim",     "dims",   "trials",    "seconds", "budget",
                                           "project", "exact",  "precision", "accuracy"};

static kiln_status add_field(asking *a, const char *name, kiln_str value) {
    bool is_known = false;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(known_fields); i++)
        is_known |= strcmp(known_fields[i], name) == 0;
    if (!is_known) return KILN_ERROR(INVALID_ARGUMENT, "there is no setting '%s'", name);
    kiln_status st = kiln_text_check_line(value, name);
    if (st) return st;
    json_t *text = json_stringn(value.size ? value.data : "", value.size);
    json_t *list = json_object_get(a->fields, name);
    if (!list) {
        list = json_array();
        json_object_set_new(a->fields, name, list);
    }
    json_array_append_new(list, text);
    return KILN_OK;
}

/* The values of a field, NULL behind the last. */
static const char *value_of(const asking *a, const char *name, size_t index) {
    return json_string_value(json_array_get(json_object_get(a->fields, name), index));
}

static const char *text_of(const asking *a, const char *name) {
    const char *value = value_of(a, name, 0);
    return value ? value : "";
}

static kiln_status read_number(const asking *a, const char *name, uint64_t max, uint64_t *out) {
    const char *text = value_of(a, name, 0);
    if (!text) return KILN_OK;
    if (!kiln_str_to_u64(kiln_str_from(text), out) || *out < 1 || *out > max)
        return KILN_ERROR(INVALID_ARGUMENT, "%s is a whole number from 1 to %llu", name,
                          (unsigned long long)max);
    return KILN_OK;
}

static kiln_status read_targets(const asking *a, kiln_compile_ask *ask) {
    static const char *const names[] = {"target", "targets"};
    kiln_arena *arena = kiln_call_arena(a->call);
    const char *text = NULL;
    for (size_t n = 0; n < KILN_ARRAY_COUNT(names); n++) {
        for (size_t i = 0; (text = value_of(a, names[n], i)) != NULL; i++) {
            kiln_target target;
            kiln_strbuf canonical = {0};
            if (ask->target_count == KILN_COMPILE_TARGETS_MAX)
                return KILN_ERROR(INVALID_ARGUMENT, "at most %u targets", KILN_COMPILE_TARGETS_MAX);
            kiln_status st = kiln_target_parse(kiln_str_from(text), arena, &target);
            if (st) return st;
            kiln_target_print(&target, &canonical);
            ask->target[ask->target_count++] =
                kiln_str_dup(arena, kiln_strbuf_end(&canonical, arena));
        }
    }
    if (ask->target_count) return KILN_OK;
    return KILN_ERROR(INVALID_ARGUMENT, "target is missing: name what to compile for, such as "
                                        "native or rpi4");
}

static kiln_status read_dims(const asking *a, kiln_compile_ask *ask) {
    static const char *const names[] = {"dim", "dims"};
    const char *text = NULL;
    for (size_t n = 0; n < KILN_ARRAY_COUNT(names); n++)
        for (size_t i = 0; (text = value_of(a, names[n], i)) != NULL; i++) {
            if (ask->dim_count == KILN_COMPILE_DIMS_MAX || !strchr(text, '='))
                return KILN_ERROR(INVALID_ARGUMENT, "dims are NAME=N, at most %u of them",
                                  KILN_COMPILE_DIMS_MAX);
            uint32_t at = ask->dim_count++; /* in order: the same question has the same key */
            for (; at > 0 && strcmp(ask->dim[at - 1], text) > 0; at--)
                ask->dim[at] = ask->dim[at - 1];
            ask->dim[at] = text;
        }
    return KILN_OK;
}

static kiln_status read_settings(const asking *a, kiln_compile_ask *ask) {
    const char *exact = text_of(a, "exact");
    ask->person = a->call->session.who.name;
    ask->precision = text_of(a, "precision");
    ask->accuracy = text_of(a, "accuracy");
    ask->project = text_of(a, "project");
    ask->name = text_of(a, "name");
    if (strlen(ask->name) > KILN_MESSAGES_NAME)
        return KILN_ERROR(INVALID_ARGUMENT, "name is at most %u bytes", KILN_MESSAGES_NAME);
    ask->exact = strcmp(exact, "true") == 0;
    if (*exact && !ask->exact && strcmp(exact, "false") != 0)
        return KILN_ERROR(INVALID_ARGUMENT, "exact is true or false");
    kiln_status st = read_number(a, "trials", 1000000, &ask->trials);
    if (!st) st = read_number(a, "seconds", 7 * 24 * 3600, &ask->seconds);
    if (!st && ask->trials && ask->seconds)
        st = KILN_ERROR(INVALID_ARGUMENT, "name trials or seconds, not both");
    if (!st) st = read_targets(a, ask);
    return st ? st : read_dims(a, ask);
}

/* A model that the person has brought before: by digest, or by upload. */
static kiln_status find_model(const asking *a, kiln_compile_ask *ask) {
    kiln_uploads *uploads = a->call->web->uploads;
    const char *name = text_of(a, *text_of(a, "model") ? "model" : "upload");
    if (!*name)
        return KILN_ERROR(INVALID_ARGUMENT,
                          "model is missing: a file in the form, or `upload`: the "
                          "SHA-256 or the upload of one that you sent before");
    kiln_status st = kiln_uploads_resolve(uploads, ask->person, kiln_str_from(name), &ask->model);
    if (!st) ask->digest = *kiln_model_file_digest(ask->model);
    return st;
}

static void begin(asking *a, kiln_compile_ask *ask) {
    kiln_compile_question *q = NULL;
    kiln_status st = kiln_compile_begin(a->call->web->compile, ask, &q);
    if (st)
        kiln_http_answer_error(a->call->request, st);
    else
        kiln_compile_answer(a->call, q);
}

/* ---- POST as a form -------------------------------------------------------------------------- */

static kiln_status end_field(asking *a) {
    kiln_status st = KILN_OK;
    if (a->is_open && !a->is_model) st = add_field(a, a->field, kiln_strbuf_view(&a->value));
    kiln_strbuf_reset(&a->value);
    a->is_open = false;
    return st;
}

static kiln_status on_part(void *context, kiln_str name) {
    asking *a = context;
    kiln_status st = end_field(a);
    if (st) return st;
    snprintf(a->field, sizeof a->field, "%.*s", KILN_STR_ARG(name));
    a->is_open = true;
    a->is_model = false;
    return KILN_OK;
}

static kiln_status on_data(void *context, kiln_str bytes) {
    asking *a = context;
    if (a->is_model) {
        kiln_spool_add(a->spool, bytes);
        return KILN_OK;
    }
    kiln_strbuf_str(&a->value, bytes);
    if (a->value.size <= VALUE_BYTES_MAX && strcmp(a->field, "model") != 0) return KILN_OK;
    if (strcmp(a->field, "model") != 0)
        return KILN_ERROR(INVALID_ARGUMENT, "%s is too long", a->field);
    if (a->spool) return KILN_ERROR(INVALID_ARGUMENT, "the form has two models");
    kiln_status st = kiln_uploads_spool(a->call->web->uploads, &a->spool);
    if (st) return st;
    a->is_model = true;
    kiln_spool_add(a->spool, kiln_strbuf_view(&a->value));
    return KILN_OK;
}

static void on_more(void *context) {
    asking *a = context;
    kiln_http_more(a->call->request);
}

static bool on_piece(void *context, kiln_http_request *r, kiln_str piece) {
    asking *a = context;
    (void)r;
    if (a->st) return true; /* answered at the end of the body */
    a->st = kiln_multipart_add(&a->multipart, piece);
    if (a->st || !a->spool) return true;
    kiln_spool_on_more(a->spool, on_more, a);
    return !kiln_spool_is_full(a->spool);
}

static void on_flushed(void *context, const kiln_digest *digest, kiln_status st) {
    asking *a = context;
    kiln_compile_ask ask = {0};
    if (!st) st = read_settings(a, &ask);
    if (!st)
        st = kiln_uploads_keep(a->call->web->uploads, ask.person, a->spool, digest, &ask.model);
    ask.digest = *digest;
    if (st)
        kiln_http_answer_error(a->call->request, st);
    else
        begin(a, &ask);
}

static void on_form(kiln_call *call) {
    asking *a = call->user;
    kiln_compile_ask ask = {0};
    kiln_status st = a->st;
    a->st = NULL;
    if (!st) st = kiln_multipart_finish(&a->multipart);
    if (!st) st = end_field(a);
    if (!st && a->spool) {
        kiln_spool_flush(a->spool, on_flushed, a);
        return;
    }
    if (!st) st = read_settings(a, &ask);
    if (!st) st = find_model(a, &ask);
    if (st)
        kiln_http_answer_error(call->request, st);
    else
        begin(a, &ask);
}

/* ---- POST as JSON ---------------------------------------------------------------------------- */

static kiln_status add_value(asking *a, const char *name, const json_t *value) {
    char number[40];
    if (json_is_string(value))
        return add_field(a, name, (kiln_str){json_string_value(value), json_string_length(value)});
    if (json_is_boolean(value))
        return add_field(a, name, kiln_str_from(json_is_true(value) ? "true" : "false"));
    if (json_is_integer(value))
        snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        snprintf(number, sizeof number, "%.17g", json_real_value(value));
    else
        return KILN_ERROR(INVALID_ARGUMENT, "%s is no text and no number", name);
    return add_field(a, name, kiln_str_from(number));
}

/* {"dims": {"batch": 4}} is {"dims": ["batch=4"]}; {"budget": {"trials": 9}} is {"trials": 9}. */
static kiln_status add_member(asking *a, const char *name, json_t *value) {
    const bool is_dims = strcmp(name, "dims") == 0;
    kiln_status st = KILN_OK;
    const char *key = NULL;
    json_t *item = NULL;
    size_t i = 0;
    if (json_is_array(value)) {
        json_array_foreach(value, i, item) {
            st = add_value(a, name, item);
            if (st) return st;
        }
        return KILN_OK;
    }
    if (!json_is_object(value)) return json_is_null(value) ? KILN_OK : add_value(a, name, value);
    if (!is_dims && strcmp(name, "budget") != 0)
        return KILN_ERROR(INVALID_ARGUMENT, "%s is no object", name);
    json_object_foreach(value, key, item) {
        kiln_strbuf text = {0};
        kiln_strbuf_printf(&text, "%s=%lld", key, (long long)json_integer_value(item));
        st = !is_dims                ? add_value(a, key, item)
             : json_is_integer(item) ? add_field(a, "dims", kiln_strbuf_view(&text))
                                     : KILN_ERROR(INVALID_ARGUMENT, "dims are whole numbers");
        kiln_strbuf_deinit(&text);
        if (st) return st;
    }
    return KILN_OK;
}

static void on_json(kiln_call *call) {
    asking *a = call->user;
    const kiln_str body = kiln_http_body(call->request);
    json_t *object =
        json_loadb(body.data ? body.data : "", body.size, JSON_REJECT_DUPLICATES, NULL);
    kiln_compile_ask ask = {0};
    const char *name = NULL;
    json_t *value = NULL;
    kiln_status st = json_is_object(object)
                         ? KILN_OK
                         : KILN_ERROR(INVALID_ARGUMENT, "the body is no JSON object");
    json_object_foreach(object, name, value) {
        if (!st) st = add_member(a, name, value);
    }
    json_decref(object);
    if (!st) st = read_settings(a, &ask);
    if (!st) st = find_model(a, &ask);
    if (st)
        kiln_http_answer_error(call->request, st);
    else
        begin(a, &ask);
}

/* ---- the route ------------------------------------------------------------------------------- */

static void on_call_ended(kiln_call *call) {
    asking *a = call->user;
    json_decref(a->fields);
    kiln_spool_destroy(a->spool);
    kiln_multipart_deinit(&a->multipart);
    kiln_strbuf_deinit(&a->value);
    kiln_status_free(a->st);
}

void kiln_web_compile(kiln_call *call) {
    asking *a = KILN_ARENA_NEW(kiln_call_arena(call), asking);
    kiln_str type = kiln_http_header(call->request, "Content-Type");
    *a = (asking){.call = call, .fields = json_object()};
    call->user = a;
    call->ended = on_call_ended;
    if (kiln_str_starts(type, "application/json")) {
        call->whole = on_json;
        kiln_http_take_whole(call->request, KILN_HTTP_WHOLE_BYTES_MAX);
        return;
    }
    const kiln_multipart_handler handler = {on_part, on_data, a};
    kiln_status st = kiln_multipart_begin(type, &handler, &a->multipart);
    if (st) {
        kiln_http_answer_error(call->request, st);
        return;
    }
    call->whole = on_form;
    kiln_http_set_deadline(call->request, SEND_NS);
    kiln_http_take_pieces(call->request, BODY_BYTES_MAX, on_piece, a);
}
