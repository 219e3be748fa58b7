/* The OpenAPI document: from web/routes.def, the records of proto/messages.def, and the schemas
 * below that have neither. */
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "web/routes.h"
#include "web/schemas.h"

#define ARRAY_MAX 1000 /* items of a list */
#define ANSWER_MAX 64u

static json_t *text(const char *value) { return json_string(value); }

static json_t *ref(const char *name) {
    char path[128];
    snprintf(path, sizeof path, "#/components/schemas/%s", name);
    return json_pack("{s:s}", "$ref", path);
}

/* ---- Records of messages.def ---- */

/* Numbers of 64 bits are integers here as in C; no value that Kiln counts exceeds 2^53. */
static json_t *schema_flag(void) { return json_pack("{s:s}", "type", "boolean"); }
static json_t *schema_u32(void) { return json_pack("{s:s, s:i}", "type", "integer", "minimum", 0); }
static json_t *schema_u64(void) { return schema_u32(); }
static json_t *schema_f64(void) { return json_pack("{s:s}", "type", "number"); }
static json_t *schema_text(void) { return json_pack("{s:s}", "type", "string"); }
static json_t *schema_bytes(void) { return schema_text(); }
static json_t *schema_digest(void) { return schema_text(); }
static json_t *schema_u64s(void) {
    return json_pack("{s:s, s:o}", "type", "array", "items", schema_u64());
}

static void add_property(json_t *schema, const char *name, json_t *property, bool is_required,
                         const char *doc) {
    json_object_set_new(property, "description", text(doc));
    json_object_set_new(json_object_get(schema, "properties"), name, property);
    if (is_required) json_array_append_new(json_object_get(schema, "required"), text(name));
}

static json_t *new_object(const char *doc) {
    return json_pack("{s:s, s:s, s:{}, s:[]}", "type", "object", "description", doc, "properties",
                     "required");
}

static json_t *array_of(json_t *items) {
    return json_pack("{s:s, s:o}", "type", "array", "items", items);
}

#define REQUIRED true
#define OPTIONAL false

static void add_records(json_t *schemas) {
    json_t *schema = NULL;
#define RECORD(name, doc)     \
    schema = new_object(doc); \
    json_object_set_new(schemas, #name, schema);
#define MESSAGE(id, number, name, from, to, since, doc) schema = NULL;
#define FIELD(owner, key, kind, name, need, limit, doc) \
    if (schema) add_property(schema, #name, schema_##kind(), need, doc);
#define NEST(owner, key, record, name, need, doc) \
    if (schema) add_property(schema, #name, ref(#record), need, doc);
#define LIST(owner, key, record, name, need, limit, doc) \
    if (schema) add_property(schema, #name, array_of(ref(#record)), need, doc);
#include "proto/messages.def"
}

/* ---- Parameters ---- */

static json_t *schema_of_param(const kiln_param_info *info) {
    switch (info->kind) {
    case KILN_PARAM_TEXT:
        return json_pack("{s:s, s:I}", "type", "string", "maxLength", (json_int_t)info->limit);
    case KILN_PARAM_TEXTS:
        return json_pack("{s:s, s:i, s:{s:s, s:I}}", "type", "array", "maxItems",
                         (int)KILN_PARAM_TEXTS_MAX, "items", "type", "string", "maxLength",
                         (json_int_t)info->limit);
    case KILN_PARAM_U64:
        return json_pack("{s:s, s:i, s:I}", "type", "integer", "minimum", 0, "maximum",
                         (json_int_t)KILN_MIN(info->limit, (uint64_t)INT64_MAX));
    case KILN_PARAM_NUMBER: return schema_f64();
    case KILN_PARAM_FLAG: return schema_flag();
    case KILN_PARAM_DIGEST:
        return json_pack("{s:s, s:s}", "type", "string", "pattern", "^[0-9a-f]{64}$");
    case KILN_PARAM_ANY: return json_object();
    }
    return NULL;
}

static const char *place_name(kiln_param_place place) {
    switch (place) {
    case KILN_PLACE_PATH: return "path";
    case KILN_PLACE_QUERY: return "query";
    case KILN_PLACE_HEADER: return "header";
    case KILN_PLACE_BODY: break;
    }
    return NULL;
}

static json_t *parameters_of(const kiln_route *route) {
    json_t *parameters = json_array();
    for (uint32_t i = 0; i < route->param_count; i++) {
        const kiln_param_info *info = &route->param[i];
        if (info->place == KILN_PLACE_BODY) continue;
        json_t *schema = schema_of_param(info);
        if (info->place == KILN_PLACE_PATH && info->kind == KILN_PARAM_TEXT)
            json_object_set_new(schema, "minLength", json_integer(1));
        json_array_append_new(parameters,
                              json_pack("{s:s, s:s, s:b, s:s, s:o}", "name", info->name, "in",
                                        place_name(info->place), "required",
                                        info->is_required || info->place == KILN_PLACE_PATH,
                                        "description", info->doc, "schema", schema));
    }
    return parameters;
}

static json_t *body_of(const kiln_route *route) {
    json_t *schema = new_object("");
    for (uint32_t i = 0; i < route->param_count; i++) {
        const kiln_param_info *info = &route->param[i];
        if (info->place == KILN_PLACE_BODY)
            add_property(schema, info->name, schema_of_param(info), info->is_required, info->doc);
    }
    json_object_set_new(schema, "additionalProperties", json_false());
    return json_pack("{s:b, s:{s:{s:o}}}", "required", 1, "content", "application/json", "schema",
                     schema);
}

static json_t *stream_body(void) {
    return json_pack("{s:b, s:{s:{s:{s:s, s:s}}}}", "required", 0, "content",
                     "application/octet-stream", "schema", "type", "string", "format", "binary");
}

/* ---- Answers ---- */

static json_t *list_of(const char *name) {
    return json_pack("{s:s, s:[s, s], s:{s:o, s:{s:s, s:i, s:o}}}", "type", "object", "required",
                     "total", "items", "properties", "total", schema_u64(), "items", "type",
                     "array", "maxItems", ARRAY_MAX, "items", ref(name));
}

static json_t *content_of(const char *type, json_t *schema) {
    return json_pack("{s:{s:o}}", type, "schema", schema);
}

/* {"description", "content"} of the success. */
static json_t *answer_of(const kiln_route *route, const char *answer) {
    json_t *result = json_pack("{s:s}", "description", route->doc);
    json_t *content = NULL;
    if (strcmp(answer, "empty") == 0) return result;
    if (strcmp(answer, "bytes") == 0)
        content = content_of("application/octet-stream", json_object());
    else if (strcmp(answer, "text") == 0)
        content = content_of("text/plain", schema_text());
    else if (strcmp(answer, "lines") == 0)
        content = content_of("application/jsonl", json_object());
    else if (strcmp(answer, "events") == 0)
        content = content_of("text/event-stream", json_object());
    else if (strcmp(answer, "json") == 0)
        content = content_of("application/json", json_pack("{s:s}", "type", "object"));
    else if (strncmp(answer, "list:", 5) == 0)
        content = content_of("application/json", list_of(answer + 5));
    else
        content = content_of("application/json", ref(answer));
    json_object_set_new(result, "content", content);
    return result;
}

/* "json@200+202": each of these statuses. */
static json_t *answers_of(const kiln_route *route) {
    char answer[ANSWER_MAX];
    json_t *answers = json_object();
    snprintf(answer, sizeof answer, "%s", route->answer);
    char *status = strchr(answer, '@');
    kiln_str rest = strcmp(answer, "empty") == 0 ? KILN_STR("204") : KILN_STR("200");
    if (status) {
        *status = 0;
        rest = kiln_str_from(status + 1);
    }
    while (rest.size) {
        const kiln_str one = kiln_str_cut(&rest, '+');
        char name[4] = "";
        KILN_CHECK(one.size < sizeof name);
        memcpy(name, one.data, one.size);
        json_object_set_new(answers, name, answer_of(route, answer));
    }
    json_object_set_new(answers, "default",
                        json_pack("{s:s, s:o}", "description",
                                  "The request failed; the status follows the code.", "content",
                                  content_of("application/json", ref("error"))));
    return answers;
}

/* ---- The document ---- */

static json_t *operation_of(const kiln_route *route) {
    json_t *operation =
        json_pack("{s:s, s:s, s:o, s:o}", "operationId", route->id, "summary", route->doc,
                  "parameters", parameters_of(route), "responses", answers_of(route));
    if (route->body == KILN_BODY_JSON)
        json_object_set_new(operation, "requestBody", body_of(route));
    if (route->body == KILN_BODY_STREAM)
        json_object_set_new(operation, "requestBody", stream_body());
    if (route->access == KILN_ACCESS_OPEN) json_object_set_new(operation, "security", json_array());
    return operation;
}

static json_t *make_paths(void) {
    uint32_t count = 0;
    const kiln_route *route = kiln_routes(&count);
    json_t *paths = json_object();
    for (uint32_t i = 0; i < count; i++) {
        json_t *item = json_object_get(paths, route[i].path);
        if (!item) json_object_set_new(paths, route[i].path, item = json_object());
        char method[16] = "";
        for (size_t k = 0; route[i].method[k] && k + 1 < sizeof method; k++)
            method[k] = (char)(route[i].method[k] | 0x20);
        json_object_set_new(item, method, operation_of(&route[i]));
    }
    return paths;
}

static int append(const char *data, size_t size, void *out) {
    kiln_strbuf_append(out, data, size);
    return 0;
}

void kiln_openapi_print(kiln_strbuf *out) {
    json_t *schemas = kiln_schemas_make();
    add_records(schemas);
    json_t *document = json_pack(
        "{s:s, s:{s:s, s:s, s:s}, s:o, s:{s:o, s:{s:{s:s, s:s}, s:{s:s, s:s, s:s}}}, s:[{s:[]}, "
        "{s:[]}]}",
        "openapi", "3.1.0", "info", "title", "Kiln", "version", "1", "description",
        "Boards, jobs and records of a Kiln fleet. Changes made with a cookie need the header "
        "X-Kiln-CSRF; requests with a token do not.",
        "paths", make_paths(), "components", "schemas", schemas, "securitySchemes", "token", "type",
        "http", "scheme", "bearer", "cookie", "type", "apiKey", "in", "cookie", "name",
        "kiln_session", "security", "token", "cookie");
    KILN_CHECK(document != NULL);
    json_dump_callback(document, append, out, JSON_COMPACT);
    json_decref(document);
}
