/* What is told of modules for WebAssembly by the JSON in them, and what is refused. */
#include "cli/wasm_file.h"

#include <string.h>

#include "base/wasm.h"
#include "tests/support/test.h"

#define HEAD "{\"version\":1,\"threads\":2,\"metadata\":{\"target\":\"wasm\",\"model\":\"m\"},"
#define X "{\"name\":\"x\",\"dtype\":\"f32\",\"shape\":[1,3]}"
#define Y "{\"name\":\"y\",\"dtype\":\"i64\",\"shape\":[]}"
#define ONE               \
    HEAD "\"inputs\":[" X \
    "],\"outputs\":[" Y "]}"
#define BUCKET(size, rows)                                                                      \
    "{\"size\":" size ",\"inputs\":[{\"name\":\"x\",\"dtype\":\"u8\",\"shape\":[" rows ",5]}]," \
    "\"outputs\":[]}"
#define SEVERAL \
    HEAD "\"dim\":\"n\",\"by_rows\":true,\"buckets\":[" BUCKET("1", "2") "," BUCKET("4", "8") "]}"

static kiln_str file_of(kiln_arena *arena, const char *json) {
    kiln_strbuf content = {0}, file = {0};
    kiln_strbuf_str(&file, KILN_STR(KILN_WASM_HEAD));
    kiln_wasm_write_bytes(&content, KILN_STR("kiln.plan"));
    kiln_strbuf_text(&content, json);
    kiln_wasm_write_section(&file, KILN_WASM_CUSTOM, kiln_strbuf_view(&content));
    kiln_strbuf_deinit(&content);
    return kiln_strbuf_end(&file, arena);
}

static void ports_and_metadata_are_told(void **state) {
    kiln_module *m = NULL;
    const kiln_str file = file_of(*state, ONE);
    assert_true(kiln_wasm_file_is(file));
    assert_false(kiln_wasm_file_is(KILN_STR("KILNMOD\n")));
    expect_ok(kiln_wasm_file_inspect(file, *state, &m));
    assert_int_equal(kiln_module_input_count(m), 1);
    assert_string_equal(kiln_module_input(m, 0)->name, "x");
    assert_int_equal(kiln_module_input(m, 0)->size_bytes, 12);
    assert_int_equal(kiln_module_output(m, 0)->size_bytes, 8);
    assert_int_equal(kiln_module_threads(m), 2);
    assert_int_equal(kiln_module_step_count(m), 0);
    assert_string_equal(kiln_module_metadata(m, "target"), "wasm");
    assert_null(kiln_module_describe_sizes(m).dim);
    assert_int_not_equal(kiln_module_run(m, NULL, NULL), 0); /* not here */
    kiln_module_close(m);
}

static void sizes_are_told(void **state) {
    kiln_module *m = NULL;
    expect_ok(kiln_wasm_file_inspect(file_of(*state, SEVERAL), *state, &m));
    const kiln_module_size_info info = kiln_module_describe_sizes(m);
    assert_string_equal(info.dim, "n");
    assert_int_equal(info.size, 4);
    assert_true(info.takes_all);
    assert_int_equal(kiln_module_input(m, 0)->shape[0], 8);
    assert_int_equal(kiln_module_set_size(m, 3), 0);
    assert_int_equal(kiln_module_input(m, 0)->size_bytes, 30);
    kiln_module_close(m);
}

static void what_no_module_has_is_refused(void **state) {
    static const char *const json[] = {
        "",
        "[]",
        "{}",
        HEAD "\"inputs\":[" X "]}",
        HEAD "\"inputs\":3,\"outputs\":[" Y "]}",
        HEAD "\"inputs\":[{\"name\":\"x\",\"dtype\":\"f33\",\"shape\":[]}],\"outputs\":[]}",
        HEAD "\"inputs\":[{\"name\":\"x\",\"dtype\":\"f32\",\"shape\":[-1]}],\"outputs\":[]}",
        HEAD "\"inputs\":[{\"name\":\"x\",\"dtype\":\"f32\",\"shape\":[65536,65536]}],"
             "\"outputs\":[]}",
        HEAD "\"inputs\":[{\"name\":\"x\",\"dtype\":\"f32\",\"shape\":[1,1,1,1,1,1,1,1,1]}],"
             "\"outputs\":[]}",
        HEAD "\"inputs\":[{\"dtype\":\"f32\",\"shape\":[]}],\"outputs\":[]}",
        "{\"threads\":0,\"metadata\":{},\"inputs\":[],\"outputs\":[]}",
        HEAD "\"dim\":\"n\",\"buckets\":[]}",
        HEAD "\"buckets\":[" BUCKET("1", "2") "]}",
        HEAD "\"dim\":\"n\",\"buckets\":[" BUCKET("0", "2") "]}",
        HEAD "\"dim\":\"n\",\"buckets\":[" BUCKET("4", "2") "," BUCKET("1", "8") "]}",
        HEAD "\"dim\":\"n\",\"inputs\":[],\"outputs\":[]}",
    };
    kiln_module *m = NULL;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(json); i++)
        expect_error(kiln_wasm_file_inspect(file_of(*state, json[i]), *state, &m), DATA_LOSS,
                     "no module of Kiln");
    const kiln_str whole = file_of(*state, ONE);
    for (size_t size = 8; size < whole.size; size++)
        expect_error(kiln_wasm_file_inspect(kiln_str_slice(whole, 0, size), *state, &m), DATA_LOSS,
                     "no module of Kiln");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(ports_and_metadata_are_told),
        test_with_arena(sizes_are_told),
        test_with_arena(what_no_module_has_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
