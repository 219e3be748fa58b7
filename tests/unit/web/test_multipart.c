/* Forms in pieces of every size. */
#include "web/multipart.h"

#include <string.h>

#include "tests/support/test.h"

static const char type[] = "multipart/form-data; boundary=\"B\"";

static kiln_status on_part(void *context, kiln_str name) {
    kiln_strbuf_printf(context, "[%.*s]", KILN_STR_ARG(name));
    return KILN_OK;
}

static kiln_status on_data(void *context, kiln_str bytes) {
    kiln_strbuf_str(context, bytes);
    return KILN_OK;
}

/* What the handler heard of a body that came in pieces of `size`. */
static kiln_status read_in(const char *body, size_t size, kiln_strbuf *heard) {
    const kiln_multipart_handler handler = {on_part, on_data, heard};
    kiln_multipart m;
    kiln_str rest = kiln_str_from(body);
    kiln_strbuf_reset(heard);
    kiln_strbuf_text(heard, "");
    kiln_status st = kiln_multipart_begin(kiln_str_from(type), &handler, &m);
    while (!st && rest.size) {
        st = kiln_multipart_add(&m, kiln_str_slice(rest, 0, KILN_MIN(size, rest.size)));
        rest = kiln_str_slice(rest, KILN_MIN(size, rest.size), rest.size);
    }
    if (!st) st = kiln_multipart_finish(&m);
    kiln_multipart_deinit(&m);
    return st;
}

#define HEAD(name) "Content-Disposition: form-data; name=\"" name "\"\r\n\r\n"

static void a_form_is_the_same_in_pieces_of_every_size(void **state) {
    (void)state;
    static const char body[] = "ignored\r\n--B\r\n" HEAD("a") "1\r\n2\r\n--b\r\n--\r\n--B\r\n" HEAD(
        "empty") "\r\n--B\r\nX: y\r\n" HEAD("c") "end--B\r\n--B--\r\ntrailer";
    kiln_strbuf heard = {0};
    for (size_t size = 1; size <= sizeof body; size++) {
        expect_ok(read_in(body, size, &heard));
        assert_string_equal(heard.data, "[a]1\r\n2\r\n--b\r\n--[empty][c]end--B");
    }
    kiln_strbuf_deinit(&heard);
}

static void broken_forms_are_refused(void **state) {
    (void)state;
    static const char *const bodies[] = {
        "",
        "--B",
        "--B\r\n",
        "--B\r\n" HEAD("a") "1",
        "--B\r\n" HEAD("a") "1\r\n--B",
        "--B\r\n" HEAD("a") "1\r\n--B-",
        "--Bx\r\n" HEAD("a") "1\r\n--B--",
        "--B\r\nX: y\r\n\r\n1\r\n--B--",
        "--B\r\n" HEAD("") "1\r\n--B--",
        "--B\r\nContent-Transfer-Encoding: base64\r\n" HEAD("a") "1\r\n--B--",
        "--B\r\nContent-Disposition: form-data; name=\"a\\\"b\"\r\n\r\n1\r\n--B--",
    };
    kiln_strbuf heard = {0};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(bodies); i++)
        expect_error(read_in(bodies[i], 3, &heard), INVALID_ARGUMENT, "form");
    kiln_strbuf_deinit(&heard);
}

static void heads_and_parts_are_bounded(void **state) {
    (void)state;
    kiln_strbuf body = {0}, heard = {0};
    kiln_strbuf_text(&body, "--B\r\nX: ");
    for (size_t i = 0; i < KILN_MULTIPART_HEAD_MAX; i++) kiln_strbuf_char(&body, 'x');
    expect_error(read_in(body.data, 100, &heard), INVALID_ARGUMENT, "too long headers");
    kiln_strbuf_reset(&body);
    for (size_t i = 0; i <= KILN_MULTIPART_PARTS_MAX; i++)
        kiln_strbuf_text(&body, "--B\r\n" HEAD("a") "\r\n");
    expect_error(read_in(body.data, 100, &heard), INVALID_ARGUMENT, "parts");
    kiln_strbuf_deinit(&body);
    kiln_strbuf_deinit(&heard);
}

static void types_without_a_good_boundary_are_refused(void **state) {
    (void)state;
    static const char *const types[] = {
        "",          "multipart/form-data",           "multipart/form-data; boundary=",
        "text/html", "multipart/mixed; boundary=B",   "multipart/form-data; boundary=\"a b\"",
        "multipart", "multipart/form-data; border=B", "multipart/form-data; boundary=\"\"",
    };
    const kiln_multipart_handler handler = {on_part, on_data, NULL};
    kiln_multipart m;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(types); i++)
        expect_error(kiln_multipart_begin(kiln_str_from(types[i]), &handler, &m), INVALID_ARGUMENT,
                     "boundary");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_form_is_the_same_in_pieces_of_every_size),
        cmocka_unit_test(broken_forms_are_refused),
        cmocka_unit_test(heads_and_parts_are_bounded),
        cmocka_unit_test(types_without_a_good_boundary_are_refused),
    };
    return cmocka_run_group_tests_name("web/multipart", tests, NULL, NULL);
}
