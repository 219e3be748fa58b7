#include "web/routes.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/test.h"
#include "web/schemas.h"

static kiln_uri uri_of(const char *text, kiln_arena *arena) {
    kiln_uri uri;
    expect_ok(kiln_uri_parse(kiln_str_from(text), arena, &uri));
    return uri;
}

static const kiln_route *find(const char *method, const char *path, kiln_arena *arena,
                              kiln_str *out_allowed) {
    const kiln_uri uri = uri_of(path, arena);
    *out_allowed = (kiln_str){0};
    return kiln_route_find(method, &uri, arena, out_allowed);
}

static void a_route_is_found_by_method_and_path(void **state) {
    kiln_str allowed;
    const kiln_route *route = find("GET", "/healthz", *state, &allowed);
    assert_non_null(route);
    assert_string_equal(route->id, "healthz");
    assert_ptr_equal(find("HEAD", "/healthz", *state, &allowed), route);
    assert_null(find("POST", "/healthz", *state, &allowed));
    expect_str(allowed, "GET");
    assert_null(find("GET", "/healthz/x", *state, &allowed));
    assert_int_equal(allowed.size, 0);
    assert_null(find("GET", "/", *state, &allowed));
}

/* Names in braces of a path. */
static bool path_has(const char *path, const char *name) {
    kiln_strbuf part = {0};
    kiln_strbuf_printf(&part, "{%s}", name);
    const bool found = strstr(path, part.data) != NULL;
    kiln_strbuf_deinit(&part);
    return found;
}

static uint32_t count_char(const char *text, char c) {
    uint32_t count = 0;
    for (; *text; text++) count += *text == c;
    return count;
}

static void check_params(const kiln_route *route) {
    uint32_t of_path = 0;
    assert_in_range(route->param_count, 0, KILN_PARAMS_MAX);
    for (uint32_t i = 0; i < route->param_count; i++) {
        const kiln_param_info *info = &route->param[i];
        assert_true(strlen(info->doc) > 0);
        if (info->place == KILN_PLACE_PATH) {
            of_path++;
            assert_true(path_has(route->path, info->name));
        }
        if (info->place == KILN_PLACE_BODY) assert_int_equal(route->body, KILN_BODY_JSON);
        if (info->place != KILN_PLACE_BODY) assert_int_not_equal(info->kind, KILN_PARAM_ANY);
        for (uint32_t k = 0; k < i; k++) assert_string_not_equal(info->name, route->param[k].name);
    }
    assert_int_equal(of_path, count_char(route->path, '{'));
}

static void rows_are_consistent(void **state) {
    (void)state;
    uint32_t count = 0;
    const kiln_route *route = kiln_routes(&count);
    for (uint32_t i = 0; i < count; i++) {
        assert_true(route[i].path[0] == '/');
        assert_true(strlen(route[i].doc) > 0);
        check_params(&route[i]);
        for (uint32_t k = 0; k < i; k++) assert_string_not_equal(route[i].id, route[k].id);
    }
}

/* ---- Parameters, of a route that no table has ---- */

static const kiln_param_info infos[] = {
    {KILN_PLACE_PATH, "id", KILN_PARAM_TEXT, true, 8, "a"},
    {KILN_PLACE_QUERY, "limit", KILN_PARAM_U64, false, 1000, "b"},
    {KILN_PLACE_QUERY, "label", KILN_PARAM_TEXTS, false, 16, "c"},
    {KILN_PLACE_QUERY, "all", KILN_PARAM_FLAG, false, 0, "d"},
    {KILN_PLACE_QUERY, "model", KILN_PARAM_DIGEST, false, 0, "e"},
    {KILN_PLACE_QUERY, "ratio", KILN_PARAM_NUMBER, false, 0, "f"},
    {KILN_PLACE_BODY, "name", KILN_PARAM_TEXT, false, 64, "g"},
    {KILN_PLACE_BODY, "dims", KILN_PARAM_TEXTS, false, 64, "h"},
};
static const kiln_route made = {
    .method = "GET", .path = "/x/{id}", .param = infos, .param_count = KILN_ARRAY_COUNT(infos)};

static kiln_status read(const char *path, kiln_arena *arena, kiln_call *out) {
    *out = (kiln_call){.route = &made, .uri = uri_of(path, arena)};
    return kiln_params_read_address(out);
}

static void parameters_have_their_types(void **state) {
    kiln_call call;
    expect_ok(read("/x/board?limit=5&label=a:b&label=c:d&all=true&ratio=0.5", *state, &call));
    expect_str(kiln_call_text(&call, "id"), "board");
    assert_int_equal(kiln_call_u64(&call, "limit", 100), 5);
    assert_int_equal(kiln_call_param(&call, "label")->text_count, 2);
    expect_str(kiln_call_param(&call, "label")->texts[1], "c:d");
    assert_int_equal(kiln_call_u64(&call, "all", 0), 1);
    assert_true(kiln_call_param(&call, "ratio")->number > 0.4);
    expect_ok(read("/x/board", *state, &call));
    assert_int_equal(kiln_call_u64(&call, "limit", 100), 100);
    assert_int_equal(kiln_call_text(&call, "model").size, 0);
}

static void wrong_parameters_are_refused_by_name(void **state) {
    static const struct {
        const char *path, *why;
    } bad[] = {
        {"/x/123456789", "id has more than 8 bytes"},
        {"/x/a?limit=1001", "limit is a whole number from 0 to 1000"},
        {"/x/a?limit=-1", "limit is a whole number"},
        {"/x/a?limit=0x10", "limit is a whole number"},
        {"/x/a?limit=", "limit is a whole number"},
        {"/x/a?limit=18446744073709551617", "limit is a whole number"},
        {"/x/a?limit=1&limit=2", "limit is given twice"},
        {"/x/a?limits=1", "did you mean limit?"},
        {"/x/a?all=yes", "all is true or false"},
        {"/x/a?model=abc", "model is a SHA-256"},
        {"/x/a?ratio=inf", "ratio is a number"},
        {"/x/a?ratio=x", "ratio is a number"},
    };
    kiln_call call;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(bad); i++)
        expect_error(read(bad[i].path, *state, &call), INVALID_ARGUMENT, bad[i].why);
}

/* What bodies bring is shown to others. */
static void texts_of_a_body_are_printable_lines(void **state) {
    static const char *const bad[] = {"{\"name\":\"a\\nb\"}", "{\"name\":\"a\\u001b[2J\"}",
                                      "{\"name\":\"a\\u009b\"}", "{\"name\":\"\\u202ea\"}",
                                      "{\"dims\":[\"n=1\",\"b\\t=1\"]}"};
    kiln_call call;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(bad); i++) {
        expect_ok(read("/x/board", *state, &call));
        expect_error_at(kiln_params_read_body(&call, kiln_str_from(bad[i])), KILN_INVALID_ARGUMENT,
                        "one line of plain text", bad[i], (int)i);
        json_decref(call.body);
    }
    expect_ok(read("/x/board", *state, &call));
    expect_ok(kiln_params_read_body(&call, KILN_STR("{\"name\":\"\\u00e9t\\u00e9 1\"}")));
    expect_str(kiln_call_text(&call, "name"), "\xc3\xa9t\xc3\xa9 1");
    json_decref(call.body);
}

/* ---- The document ---- */

static void check_answer(const char *whole, const json_t *schemas) {
    char answer[64];
    snprintf(answer, sizeof answer, "%.*s", (int)strcspn(whole, "@"), whole);
    static const char *const bare[] = {"empty", "bytes", "text", "lines", "events", "json"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(bare); i++)
        if (strcmp(answer, bare[i]) == 0) return;
    const char *name = strncmp(answer, "list:", 5) == 0 ? answer + 5 : answer;
    if (!json_object_get(schemas, name)) fail_msg("no schema of the answer %s", answer);
}

static void the_document_has_every_route(void **state) {
    (void)state;
    uint32_t count = 0;
    const kiln_route *route = kiln_routes(&count);
    kiln_strbuf text = {0};
    kiln_openapi_print(&text);
    json_t *document = json_loadb(text.data, text.size, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(document);
    const json_t *schemas = json_object_get(json_object_get(document, "components"), "schemas");
    assert_non_null(json_object_get(schemas, "board_row"));
    for (uint32_t i = 0; i < count; i++) {
        assert_non_null(json_object_get(json_object_get(document, "paths"), route[i].path));
        check_answer(route[i].answer, schemas);
    }
    json_decref(document);
    kiln_strbuf_deinit(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(a_route_is_found_by_method_and_path),
        cmocka_unit_test(rows_are_consistent),
        test_with_arena(parameters_have_their_types),
        test_with_arena(wrong_parameters_are_refused_by_name),
        test_with_arena(texts_of_a_body_are_printable_lines),
        cmocka_unit_test(the_document_has_every_route),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
