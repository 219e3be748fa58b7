/* kiln submit: a model to a web server's compile service, and its modules back. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "cli/cli.h"
#include "cli/common/json.h"
#include "cli/common/options.h"
#include "compiler-core/frontend/data_set.h"
#include "compiler-core/frontend/isolated.h"
#include "proto/fetch.h"

#define PIECE_BYTES ((size_t)16 << 20)
#define RETRIES_MAX 5u
#define RETRY_NS (UINT64_C(250) * KILN_NS_PER_MS) /* doubled each time: 15 s in all */
#define TOKEN_BYTES_MAX ((size_t)512)

typedef struct submit {
    const char *model, *name, *web, *token_file, *project, *out;
    kiln_opt_list target, dim;
    uint64_t trials, seconds;
    kiln_accuracy_options accuracy;
    bool json;
    kiln_arena *process;
    char *token;
} submit;

/* ---- asking ---------------------------------------------------------------------------------- */

/* The error that the server's answer is. */
static kiln_status error_of(unsigned status, kiln_str answer) {
    json_t *object = json_loadb(answer.data ? answer.data : "", answer.size, 0, NULL);
    const json_t *error = json_object_get(object, "error");
    const char *name = json_string_value(json_object_get(error, "code")),
               *message = json_string_value(json_object_get(error, "message"));
    kiln_code code = KILN_INTERNAL;
    for (uint32_t wire = 1; name && wire < 64; wire++) {
        kiln_code one;
        if (kiln_code_from_wire(wire, &one) && strcmp(kiln_code_name(one), name) == 0) code = one;
    }
    kiln_status st = message ? kiln_status_make(code, __FILE__, __LINE__, "the server: %s", message)
                             : KILN_ERROR(INTERNAL, "the server answered %u", status);
    json_decref(object);
    return st;
}

/* One request; *out_value is the answer, which the caller frees. */
static kiln_status ask(const submit *s, kiln_fetch fetch, const char *path, json_t **out_value) {
    unsigned status = 0;
    kiln_str answer = {0};
    fetch.url = kiln_arena_printf(s->process, "%s/api/v1/%s", s->web, path);
    fetch.token = s->token;
    fetch.answer_fd = -1;
    kiln_status st = kiln_fetch_send(&fetch, s->process, &status, &answer);
    if (st) return st;
    if (status / 100 != 2) return error_of(status, answer);
    *out_value = json_loadb(answer.data ? answer.data : "", answer.size, 0, NULL);
    return *out_value ? KILN_OK
                      : KILN_ERROR(DATA_LOSS, "%s did not answer JSON: is it a kiln-web?", s->web);
}

static kiln_str print(const submit *s, json_t *object) {
    kiln_strbuf text = {0};
    kiln_json_print(object, &text);
    return kiln_strbuf_end(&text, s->process);
}

static json_t *list_json(const kiln_opt_list *list) {
    json_t *array = json_array();
    for (size_t i = 0; i < list->count; i++)
        json_array_append_new(array, json_string(list->item[i]));
    return array;
}

/* What is sent. */
typedef struct sent {
    kiln_mapping file;
    kiln_str bytes;
    bool is_graph; /* of the model and the weights beside it; its dimensions have their sizes */
} sent;

static kiln_str question_of(const submit *s, const sent *model, const char *digest) {
    static const kiln_opt_list none;
    json_t *q = json_pack("{s:s, s:o, s:o}", "model", digest, "targets", list_json(&s->target),
                          "dims", list_json(model->is_graph ? &none : &s->dim));
    if (s->trials) json_object_set_new(q, "trials", json_integer((json_int_t)s->trials));
    if (s->seconds) json_object_set_new(q, "seconds", json_integer((json_int_t)s->seconds));
    const kiln_str name = kiln_model_title(s->name, s->model, s->process);
    json_object_set_new(q, "name", json_stringn(name.data, name.size));
    if (s->project) json_object_set_new(q, "project", json_string(s->project));
    if (s->accuracy.precision)
        json_object_set_new(q, "precision", json_string(s->accuracy.precision));
    if (s->accuracy.error_max)
        json_object_set_new(q, "accuracy", json_string(s->accuracy.error_max));
    if (s->accuracy.exact) json_object_set_new(q, "exact", json_true());
    return print(s, q);
}

/* ---- the model ------------------------------------------------------------------------------- */

static kiln_status send_piece(const submit *s, const char *id, kiln_str model, uint64_t *offset) {
    json_t *value = NULL;
    const size_t end = KILN_MIN(*offset + PIECE_BYTES, model.size);
    const kiln_fetch fetch = {.method = "PATCH",
                              .header = {kiln_arena_printf(s->process, "Upload-Offset: %llu",
                                                           (unsigned long long)*offset),
                                         "Content-Type: application/octet-stream"},
                              .body = kiln_str_slice(model, *offset, end)};
    const char *path = kiln_arena_printf(s->process, "uploads/%s", id);
    kiln_status st = ask(s, fetch, path, &value);
    if (st) { /* it may have come, or some of it */
        kiln_status asked = ask(s, (kiln_fetch){.method = "GET"}, path, &value);
        if (asked) {
            kiln_status_free(asked); /* the first error tells more */
            return st;
        }
    }
    const json_t *at = json_object_get(value, "offset");
    const uint64_t before = *offset;
    if (json_is_integer(at)) *offset = (uint64_t)json_integer_value(at);
    json_decref(value);
    if (!st || *offset > before) {
        kiln_status_free(st); /* it goes on */
        return KILN_OK;
    }
    return st;
}

static kiln_status upload(const submit *s, kiln_str model) {
    json_t *value = NULL;
    uint64_t offset = 0;
    const kiln_fetch fetch = {
        .method = "POST",
        .header = {kiln_arena_printf(s->process, "Upload-Length: %zu", model.size)}};
    kiln_status st = ask(s, fetch, "uploads", &value);
    if (st) return st;
    const char *text = json_string_value(json_object_get(value, "id"));
    const char *id = kiln_arena_printf(s->process, "%s", text ? text : "");
    json_decref(value);
    for (uint32_t failures = 0; !st && offset < model.size;) {
        const uint64_t before = offset;
        st = send_piece(s, id, model, &offset);
        if (offset > before) failures = 0;
        if (st && kiln_status_code(st) == KILN_UNAVAILABLE && ++failures <= RETRIES_MAX) {
            kiln_status_free(st); /* the server may be starting anew: it continues the upload */
            st = KILN_OK;
            kiln_clock_wait_until(kiln_clock_ns() + (RETRY_NS << failures));
        }
    }
    return kiln_status_note(st, "sending the model");
}

/* The model with the weights that lie beside it. */
static kiln_status make_graph(const submit *s, sent *out) {
    kiln_import_options options = {0};
    kiln_status st = kiln_dim_option(&s->dim, s->process, &options);
    if (!st) st = kiln_read_isolated(s->model, &options, s->process, &out->file, &out->bytes);
    if (st) return st;
    out->is_graph = true;
    if (out->bytes.size <= KILN_MODEL_FILE_BYTES_MAX) return KILN_OK;
    return KILN_ERROR(OUT_OF_RANGE,
                      "%s and its weights have %zu bytes, and a web server takes at most %zu: "
                      "compile it here (kiln compile)",
                      s->model, out->bytes.size, KILN_MODEL_FILE_BYTES_MAX);
}

static kiln_status find_sent(const submit *s, sent *out) {
    bool is_external = false;
    kiln_status st = kiln_onnx_is_external_read(s->model, &is_external);
    if (!st && is_external) return make_graph(s, out);
    if (!st) st = kiln_model_file_map(s->model, &out->file);
    out->bytes = (kiln_str){out->file.data, out->file.size};
    return st;
}

/* Asks; sends the model first where the server does not have it. */
static kiln_status begin(const submit *s, json_t **out_answer) {
    sent model = {0};
    kiln_digest digest;
    char name[KILN_DIGEST_TEXT];
    kiln_status st = find_sent(s, &model);
    if (!st) {
        kiln_digest_of(model.bytes.data, model.bytes.size, &digest);
        kiln_digest_print(&digest, name);
        const kiln_fetch fetch = {.method = "POST",
                                  .header = {"Content-Type: application/json"},
                                  .body = question_of(s, &model, name)};
        st = ask(s, fetch, "compile", out_answer);
        if (st && kiln_status_code(st) == KILN_NOT_FOUND) {
            kiln_status_free(st); /* it has no such model of ours */
            st = upload(s, model.bytes);
            if (!st) st = ask(s, fetch, "compile", out_answer);
        }
    }
    kiln_file_unmap(&model.file);
    return st;
}

/* ---- the modules ----------------------------------------------------------------------------- */

static const char *text_of(const json_t *object, const char *name) {
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

static kiln_status wait_for_end(const submit *s, json_t **answer) {
    kiln_status st = KILN_OK;
    while (!st && strcmp(text_of(*answer, "state"), "running") == 0) {
        const char *path =
            kiln_arena_printf(s->process, "compile/%s?wait=30", text_of(*answer, "id"));
        json_decref(*answer);
        *answer = NULL;
        st = ask(s, (kiln_fetch){.method = "GET"}, path, answer);
    }
    return st;
}

static kiln_status check_digest(const submit *s, const char *path, const char *wanted) {
    kiln_mapping file = {0};
    kiln_digest digest;
    char name[KILN_DIGEST_TEXT];
    kiln_status st = kiln_file_map(path, &file);
    (void)s;
    if (st) return st;
    kiln_digest_of(file.data, file.size, &digest);
    kiln_digest_print(&digest, name);
    kiln_file_unmap(&file);
    return strcmp(name, wanted) == 0
               ? KILN_OK
               : KILN_ERROR(DATA_LOSS, "%s: the module is damaged on the way", path);
}

static kiln_status download(const submit *s, const char *digest, const char *path) {
    unsigned status = 0;
    kiln_str answer = {0};
    const char *part = kiln_arena_printf(s->process, "%s.part", path);
    const int fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return KILN_ERROR(PERMISSION_DENIED, "%s cannot be written", part);
    const kiln_fetch fetch = {
        .method = "GET",
        .url = kiln_arena_printf(s->process, "%s/api/v1/modules/%s", s->web, digest),
        .token = s->token,
        .answer_fd = fd};
    kiln_status st = kiln_fetch_send(&fetch, s->process, &status, &answer);
    close(fd);
    if (!st && status != 200) st = error_of(status, answer);
    if (!st) st = check_digest(s, part, digest);
    if (!st && rename(part, path) != 0)
        st = KILN_ERROR(PERMISSION_DENIED, "%s cannot be written", path);
    if (st) unlink(part);
    return st;
}

/* "m.onnx" -> "m.kiln"; of several targets "m.1.kiln", in their order. */
static const char *path_of(const submit *s, size_t index, size_t count) {
    kiln_str name = kiln_str_from(s->out ? s->out : s->model);
    static const char *const endings[] = {".onnx", ".tflite", ".graph", ".kiln"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(endings); i++)
        if (kiln_str_ends(name, endings[i])) name.size -= strlen(endings[i]);
    if (count > 1)
        return kiln_arena_printf(s->process, "%.*s.%zu.kiln", KILN_STR_ARG(name), index + 1);
    return s->out ? s->out : kiln_arena_printf(s->process, "%.*s.kiln", KILN_STR_ARG(name));
}

static kiln_status take(const submit *s, const json_t *part, size_t index, size_t count) {
    const char *path = path_of(s, index, count), *target = text_of(part, "target");
    if (strcmp(text_of(part, "state"), "done") != 0)
        return KILN_ERROR(FAILED_PRECONDITION, "%s: %s: %s", target, text_of(part, "state"),
                          text_of(part, "text"));
    kiln_status st = download(s, text_of(part, "module"), path);
    if (st) return st;
    if (s->json) {
        kiln_json_line(json_pack("{s:s, s:s, s:s, s:s, s:O, s:s}", "event", "module", "target",
                                 target, "file", path, "module", text_of(part, "module"), "bytes",
                                 json_object_get(part, "bytes"), "job", text_of(part, "job")));
    } else {
        kiln_print_text(kiln_str_from(target), KILN_TEXT_LINE, stdout);
        printf(": %s\n", path);
    }
    return KILN_OK;
}

static kiln_status submit_model(const submit *s) {
    json_t *answer = NULL;
    kiln_status st = begin(s, &answer);
    if (!st) st = wait_for_end(s, &answer);
    const json_t *targets = json_object_get(answer, "targets");
    const size_t count = json_array_size(targets);
    for (size_t i = 0; !st && i < count; i++) st = take(s, json_array_get(targets, i), i, count);
    if (!st && !count) st = KILN_ERROR(DATA_LOSS, "the server answered no target");
    json_decref(answer);
    return st;
}

/* ---- the command ----------------------------------------------------------------------------- */

static kiln_status read_token(submit *s) {
    char *home = NULL;
    kiln_str text = {0};
    const char *path = s->token_file;
    kiln_status st = path ? KILN_OK : kiln_home(s->process, &home);
    if (!st && !path) path = kiln_arena_printf(s->process, "%s/web-token", home);
    if (!st) st = kiln_file_read(path, TOKEN_BYTES_MAX, s->process, &text);
    if (st)
        return kiln_status_note(st, "the token that signs in; make one by kiln key new "
                                    "client/NAME --web on the tracker's machine");
    s->token = kiln_str_dup(s->process, kiln_str_trim(kiln_str_cut(&text, '\n')));
    return KILN_OK;
}

static kiln_status check(submit *s) {
    kiln_accuracy accuracy;
    kiln_str web = kiln_str_from(s->web ? s->web : "");
    if (!kiln_str_starts(web, "http://") && !kiln_str_starts(web, "https://"))
        return KILN_ERROR(INVALID_ARGUMENT, "--web URL is missing: http://HOST:PORT or "
                                            "https://HOST of a kiln-web");
    while (kiln_str_ends(web, "/")) web.size--;
    s->web = kiln_str_dup(s->process, web);
    if (s->trials && s->seconds)
        return KILN_ERROR(INVALID_ARGUMENT, "--trials or --seconds, not both");
    if (!s->target.count) {
        const char **native = KILN_ARENA_ARRAY(s->process, const char *, 1);
        native[0] = "native";
        s->target = (kiln_opt_list){native, 1};
    }
    return kiln_accuracy_option(&s->accuracy, &accuracy);
}

kiln_status kiln_cmd_submit(kiln_arena *process, int argc, char **argv) {
    submit s = {.process = process};
    const kiln_opt option[] = {
        {"web", KILN_OPT_TEXT, &s.web, "URL", "the web server, as in http://lab:9480"},
        {"token-file", KILN_OPT_TEXT, &s.token_file, "F",
         "file with the token that signs in (default $KILN_HOME/web-token)"},
        {"target", KILN_OPT_LIST, &s.target, "T",
         "device to compile for; may be repeated (default native: the server's)"},
        {"trials", KILN_OPT_COUNT, &s.trials, "N", "measure so many schedules on the fleet first"},
        {"seconds", KILN_OPT_COUNT, &s.seconds, "S", "measure for so long"},
        {"dim", KILN_OPT_LIST, &s.dim, "NAME=N",
         "size of a dimension that the model leaves open (repeat for each dimension)"},
        KILN_ACCURACY_OPTIONS(&s.accuracy),
        {"project", KILN_OPT_LINE, &s.project, "PROJECT",
         "project of the job (default \"default\")"},
        {"name", KILN_OPT_LINE, &s.name, "TEXT", kiln_model_name_help},
        {"output|o", KILN_OPT_TEXT, &s.out, "MODULE",
         "file to write (default: the model's name with .kiln); of several targets its name gets "
         "their number"},
        {"json", KILN_OPT_FLAG, &s.json, NULL, "print one object per module"},
    };
    const kiln_opt_table table = {
        "kiln submit MODEL --web URL [options]",
        "Sends a model to a web server's compile service and fetches the modules. A question that "
        "was asked before is answered at once, and a model that was sent before is not sent again.",
        option,
        KILN_ARRAY_COUNT(option),
        1,
        1};
    kiln_args args;
    kiln_status st = kiln_args_parse(&table, argc, argv, process, &args);
    if (st || args.help) return st;
    s.model = args.positional[0];
    st = check(&s);
    if (!st) st = read_token(&s);
    return st ? st : submit_model(&s);
}
