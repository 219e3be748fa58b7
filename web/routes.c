#include "web/routes.h"

#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/opt.h"
#include "base/text.h"

#define REQUIRED true
#define OPTIONAL false
#define ROUTE(id, method, path, handler, access, body, answer, doc) \
    static const kiln_param_info params_of_##id[] = {
#define PARAM(id, place, name, kind, need, limit, doc) \
    {KILN_PLACE_##place, name, KILN_PARAM_##kind, need, limit, doc},
#define END(id) \
    { 0 }       \
    }           \
    ;
#include "web/routes.def"

static const kiln_route table[] = {
#define ROUTE(id, method, path, handler, access, body, answer, doc) \
    {#id,                                                           \
     #method,                                                       \
     path,                                                          \
     handler,                                                       \
     KILN_ACCESS_##access,                                          \
     KILN_BODY_##body,                                              \
     answer,                                                        \
     doc,                                                           \
     params_of_##id,                                                \
     KILN_ARRAY_COUNT(params_of_##id) - 1},
#include "web/routes.def"
};

const kiln_route *kiln_routes(uint32_t *out_count) {
    *out_count = KILN_ARRAY_COUNT(table);
    return table;
}

/* ---- Paths ---- */

static bool is_place_holder(kiln_str part) { return part.size && part.data[0] == '{'; }

static bool path_fits(const char *pattern, const kiln_uri *uri) {
    kiln_str rest = kiln_str_from(pattern + 1);
    uint32_t i = 0;
    for (; rest.size && i < uri->segment_count; i++) {
        const kiln_str part = kiln_str_cut(&rest, '/');
        if (!is_place_holder(part) && !kiln_str_equal(part, uri->segment[i])) return false;
    }
    return !rest.size && i == uri->segment_count;
}

/* HEAD is GET without the body, unless a row has it. */
static bool method_fits(const kiln_route *route, const char *method) {
    return strcmp(route->method, method) == 0;
}

static const kiln_route *find_by(const char *method, const kiln_uri *uri) {
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(table); i++)
        if (method_fits(&table[i], method) && path_fits(table[i].path, uri)) return &table[i];
    return NULL;
}

const kiln_route *kiln_route_find(const char *method, const kiln_uri *uri, kiln_arena *arena,
                                  kiln_str *out_allowed) {
    const kiln_route *route = find_by(method, uri);
    if (!route && strcmp(method, "HEAD") == 0) route = find_by("GET", uri);
    if (route) return route;
    kiln_strbuf allowed = {0};
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(table); i++)
        if (path_fits(table[i].path, uri))
            kiln_strbuf_printf(&allowed, "%s%s", allowed.size ? ", " : "", table[i].method);
    *out_allowed = kiln_strbuf_end(&allowed, arena);
    return NULL;
}

/* ---- Parameters ---- */

const kiln_param *kiln_call_param(const kiln_call *call, const char *name) {
    for (uint32_t i = 0; i < call->route->param_count; i++)
        if (strcmp(call->route->param[i].name, name) == 0) return &call->param[i];
    KILN_CHECK(!"a parameter of the route");
    return NULL;
}

kiln_str kiln_call_text(const kiln_call *call, const char *name) {
    return kiln_call_param(call, name)->text;
}

uint64_t kiln_call_u64(const kiln_call *call, const char *name, uint64_t otherwise) {
    const kiln_param *param = kiln_call_param(call, name);
    return param->is_given ? param->u64 : otherwise;
}

kiln_arena *kiln_call_arena(kiln_call *call) { return kiln_http_arena(call->request); }

static kiln_status read_text(const kiln_param_info *info, kiln_str text, kiln_str *out) {
    if (text.size > info->limit)
        return KILN_ERROR(INVALID_ARGUMENT, "%s has more than %llu bytes", info->name,
                          (unsigned long long)info->limit);
    if (memchr(text.data ? text.data : "", 0, text.size))
        return KILN_ERROR(INVALID_ARGUMENT, "%s has a NUL character", info->name);
    *out = text;
    /* What a body brings is kept and shown to others. */
    return info->place == KILN_PLACE_BODY ? kiln_text_check_line(text, info->name) : KILN_OK;
}

static kiln_status add_text(const kiln_param_info *info, kiln_str text, kiln_param *param) {
    if (param->text_count == KILN_PARAM_TEXTS_MAX)
        return KILN_ERROR(INVALID_ARGUMENT, "%s is given more than %u times", info->name,
                          KILN_PARAM_TEXTS_MAX);
    return read_text(info, text, &param->texts[param->text_count++]);
}

static kiln_status read_u64(const kiln_param_info *info, bool is_number, uint64_t value,
                            kiln_param *param) {
    if (!is_number || value > info->limit)
        return KILN_ERROR(INVALID_ARGUMENT, "%s is a whole number from 0 to %llu", info->name,
                          (unsigned long long)info->limit);
    param->u64 = value;
    return KILN_OK;
}

static kiln_status read_number(const kiln_param_info *info, bool is_number, double value,
                               kiln_param *param) {
    if (!is_number || !isfinite(value))
        return KILN_ERROR(INVALID_ARGUMENT, "%s is a number", info->name);
    param->number = value;
    return KILN_OK;
}

static kiln_status read_digest(const kiln_param_info *info, kiln_str text, kiln_param *param) {
    param->text = text;
    if (kiln_digest_parse(text, &param->digest)) return KILN_OK;
    return KILN_ERROR(INVALID_ARGUMENT, "%s is a SHA-256 as 64 hexadecimal digits", info->name);
}

/* A whole number without a sign and a prefix. */
static bool is_decimal(kiln_str text) {
    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] < '0' || text.data[i] > '9') return false;
    return text.size > 0;
}

/* Of a path or a query, where all values are texts. */
static kiln_status read_from_text(const kiln_param_info *info, kiln_str text, kiln_param *param) {
    uint64_t whole = 0;
    double real = 0;
    const bool is_yes = kiln_str_is(text, "true"), is_no = kiln_str_is(text, "false");
    const bool is_whole = is_decimal(text) && kiln_str_to_u64(text, &whole);
    const bool is_real = kiln_str_to_f64(text, &real);
    switch (info->kind) {
    case KILN_PARAM_TEXT: return read_text(info, text, &param->text);
    case KILN_PARAM_TEXTS: return add_text(info, text, param);
    case KILN_PARAM_U64: return read_u64(info, is_whole, whole, param);
    case KILN_PARAM_NUMBER: return read_number(info, is_real, real, param);
    case KILN_PARAM_FLAG:
        param->u64 = is_yes;
        if (is_yes || is_no) return KILN_OK;
        return KILN_ERROR(INVALID_ARGUMENT, "%s is true or false", info->name);
    case KILN_PARAM_DIGEST: return read_digest(info, text, param);
    case KILN_PARAM_ANY: break;
    }
    return KILN_ERROR(INVALID_ARGUMENT, "%s belongs into the body", info->name);
}

static kiln_str json_text(const json_t *value) {
    return (kiln_str){json_string_value(value), json_string_length(value)};
}

static kiln_status wrong_type(const kiln_param_info *info, const char *type) {
    return KILN_ERROR(INVALID_ARGUMENT, "%s is not %s", info->name, type);
}

static kiln_status read_array(const kiln_param_info *info, const json_t *value, kiln_param *param) {
    size_t i = 0;
    const json_t *item = NULL;
    if (!json_is_array(value)) return wrong_type(info, "an array of texts");
    json_array_foreach(value, i, item) {
        if (!json_is_string(item)) return wrong_type(info, "an array of texts");
        kiln_status st = add_text(info, json_text(item), param);
        if (st) return st;
    }
    return KILN_OK;
}

static kiln_status read_from_json(const kiln_param_info *info, json_t *value, kiln_param *param) {
    switch (info->kind) {
    case KILN_PARAM_TEXT:
        if (!json_is_string(value)) return wrong_type(info, "a text");
        return read_text(info, json_text(value), &param->text);
    case KILN_PARAM_TEXTS: return read_array(info, value, param);
    case KILN_PARAM_U64:
        return read_u64(info, json_is_integer(value) && json_integer_value(value) >= 0,
                        (uint64_t)json_integer_value(value), param);
    case KILN_PARAM_NUMBER:
        return read_number(info, json_is_number(value), json_number_value(value), param);
    case KILN_PARAM_FLAG:
        param->u64 = json_is_true(value);
        return json_is_boolean(value) ? KILN_OK : wrong_type(info, "true or false");
    case KILN_PARAM_DIGEST:
        if (!json_is_string(value)) return wrong_type(info, "a text");
        return read_digest(info, json_text(value), param);
    case KILN_PARAM_ANY: param->json = value; return KILN_OK;
    }
    return KILN_OK;
}

static uint32_t index_of(const kiln_route *route, kiln_param_place place, kiln_str name) {
    uint32_t i = 0;
    while (i < route->param_count &&
           (route->param[i].place != place || !kiln_str_is(name, route->param[i].name)))
        i++;
    return i;
}

static kiln_status unknown(const kiln_route *route, kiln_param_place place, kiln_str name) {
    kiln_nearest nearest = kiln_nearest_to(name);
    for (uint32_t i = 0; i < route->param_count; i++)
        if (route->param[i].place == place)
            kiln_nearest_try(&nearest, kiln_str_from(route->param[i].name));
    if (nearest.found.size)
        return KILN_ERROR(INVALID_ARGUMENT, "there is no parameter %.*s; did you mean %.*s?",
                          (int)KILN_MIN(name.size, 64u), name.data, KILN_STR_ARG(nearest.found));
    return KILN_ERROR(INVALID_ARGUMENT, "there is no parameter %.*s", (int)KILN_MIN(name.size, 64u),
                      name.data);
}

static kiln_status check_missing(const kiln_call *call, bool of_headers, bool of_body) {
    for (uint32_t i = 0; i < call->route->param_count; i++) {
        const kiln_param_info *info = &call->route->param[i];
        if ((info->place == KILN_PLACE_HEADER) == of_headers &&
            (info->place == KILN_PLACE_BODY) == of_body && info->is_required &&
            !call->param[i].is_given)
            return KILN_ERROR(INVALID_ARGUMENT, "%s is missing", info->name);
    }
    return KILN_OK;
}

static kiln_status read_path(kiln_call *call) {
    kiln_str rest = kiln_str_from(call->route->path + 1);
    for (uint32_t i = 0; rest.size; i++) {
        const kiln_str part = kiln_str_cut(&rest, '/');
        if (!is_place_holder(part)) continue;
        const uint32_t at =
            index_of(call->route, KILN_PLACE_PATH, kiln_str_slice(part, 1, part.size - 1));
        KILN_CHECK(at < call->route->param_count);
        kiln_status st =
            read_from_text(&call->route->param[at], call->uri.segment[i], &call->param[at]);
        if (st) return st;
        call->param[at].is_given = true;
    }
    return KILN_OK;
}

static kiln_status read_query(kiln_call *call) {
    for (uint32_t i = 0; i < call->uri.pair_count; i++) {
        const kiln_uri_pair *pair = &call->uri.pair[i];
        const uint32_t at = index_of(call->route, KILN_PLACE_QUERY, pair->name);
        if (at == call->route->param_count)
            return unknown(call->route, KILN_PLACE_QUERY, pair->name);
        const kiln_param_info *info = &call->route->param[at];
        if (call->param[at].is_given && info->kind != KILN_PARAM_TEXTS)
            return KILN_ERROR(INVALID_ARGUMENT, "%s is given twice", info->name);
        kiln_status st = read_from_text(info, pair->value, &call->param[at]);
        if (st) return st;
        call->param[at].is_given = true;
    }
    return KILN_OK;
}

kiln_status kiln_params_read_headers(kiln_call *call) {
    for (uint32_t i = 0; i < call->route->param_count; i++) {
        const kiln_param_info *info = &call->route->param[i];
        if (info->place != KILN_PLACE_HEADER) continue;
        const kiln_str text =
            kiln_str_copy(kiln_call_arena(call), kiln_http_header(call->request, info->name));
        if (!text.size) continue;
        kiln_status st = read_from_text(info, text, &call->param[i]);
        if (st) return st;
        call->param[i].is_given = true;
    }
    return check_missing(call, true, false);
}

kiln_status kiln_params_read_address(kiln_call *call) {
    KILN_CHECK(call->route->param_count <= KILN_PARAMS_MAX);
    kiln_status st = read_path(call);
    if (!st) st = read_query(call);
    return st ? st : check_missing(call, false, false);
}

kiln_status kiln_params_read_body(kiln_call *call, kiln_str text) {
    json_error_t error;
    const char *name = NULL;
    json_t *value = NULL;
    if (text.size || call->route->body == KILN_BODY_JSON) {
        call->body =
            json_loadb(text.data ? text.data : "", text.size, JSON_REJECT_DUPLICATES, &error);
        if (!call->body)
            return KILN_ERROR(INVALID_ARGUMENT, "the body is no JSON: line %d, column %d: %s",
                              error.line, error.column, error.text);
    }
    if (!json_is_object(call->body))
        return KILN_ERROR(INVALID_ARGUMENT, "the body is no JSON object");
    json_object_foreach(call->body, name, value) {
        const uint32_t at = index_of(call->route, KILN_PLACE_BODY, kiln_str_from(name));
        if (at == call->route->param_count)
            return unknown(call->route, KILN_PLACE_BODY, kiln_str_from(name));
        kiln_status st = read_from_json(&call->route->param[at], value, &call->param[at]);
        if (st) return st;
        call->param[at].is_given = true;
    }
    return check_missing(call, false, true);
}
