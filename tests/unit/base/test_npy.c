#include <string.h>

#include "base/file.h"
#include "base/macros.h"
#include "base/small_float.h"
#include "base/tensor.h"
#include "tests/support/test.h"

static const char *path_in(kiln_arena *arena, const char *folder) {
    return kiln_arena_printf(arena, "%s/t.npy", folder);
}

static void tensors_of_every_type_and_rank_round_trip(void **state) {
    kiln_arena *arena = *state;
    char *folder = make_folder(arena);
    const char *path = path_in(arena, folder);
    const kiln_shape shape[] = {
        {0}, {1, {5}}, {2, {3, 4}}, {3, {2, 0, 3}}, {8, {1, 2, 1, 2, 1, 2, 1, 2}}};
    for (int type = 1; type < KILN_DTYPE_COUNT; type++)
        for (size_t s = 0; s < KILN_ARRAY_COUNT(shape); s++) {
            if (type == KILN_BF16 || kiln_small_float_of((kiln_dtype)type)) continue;
            kiln_tensor tensor = kiln_tensor_create(arena, (kiln_dtype)type, &shape[s]), read;
            kiln_fill_data(tensor.data, tensor.dtype, (size_t)kiln_shape_count(&shape[s]), 1,
                           KILN_FILL_UNIFORM);
            expect_ok(kiln_tensor_write_npy(path, &tensor));
            expect_ok(kiln_tensor_read_npy(path, arena, &read));
            assert_int_equal(read.dtype, tensor.dtype);
            assert_true(kiln_shape_equal(&read.shape, &tensor.shape));
            assert_memory_equal(read.data, tensor.data, kiln_tensor_bytes(&tensor));
        }
    remove_folder(folder);
}

static void a_type_that_npy_lacks_is_refused(void **state) {
    kiln_arena *arena = *state;
    kiln_shape shape = {1, {2}};
    kiln_tensor tensor = kiln_tensor_create(arena, KILN_BF16, &shape);
    expect_error(kiln_tensor_write_npy("nowhere.npy", &tensor), UNIMPLEMENTED, "bf16");
    assert_false(kiln_file_exists("nowhere.npy"));
}

/* A file with that dictionary and `data_bytes` of data. */
static kiln_status read_header(kiln_arena *arena, const char *path, const char *header,
                               size_t data_bytes) {
    kiln_strbuf file = {0};
    char length[2] = {(char)(strlen(header) & 255), (char)(strlen(header) >> 8)};
    kiln_strbuf_append(&file, "\x93NUMPY\1\0", 8);
    kiln_strbuf_append(&file, length, 2);
    kiln_strbuf_text(&file, header);
    for (size_t i = 0; i < data_bytes; i++) kiln_strbuf_char(&file, 0);
    expect_ok(kiln_file_write(path, kiln_strbuf_view(&file), 0600));
    kiln_strbuf_deinit(&file);
    kiln_tensor tensor;
    return kiln_tensor_read_npy(path, arena, &tensor);
}

static void malformed_headers_are_refused(void **state) {
    kiln_arena *arena = *state;
    char *folder = make_folder(arena);
    const char *path = path_in(arena, folder);
    static const struct {
        const char *header;
        kiln_code code;
        const char *complaint;
    } row[] = {
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", KILN_OK, "ok"},
        {"{'shape': (2,), 'descr': '<f4', 'fortran_order': False}", KILN_OK, "ok"},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (2,), }", KILN_UNIMPLEMENTED, "Fortran"},
        {"{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }", KILN_UNIMPLEMENTED, ">f4"},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", KILN_UNIMPLEMENTED,
         "element type"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }", KILN_DATA_LOSS, "shape"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': 2, }", KILN_DATA_LOSS, "shape"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,2), }", KILN_DATA_LOSS,
         "shape"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", KILN_DATA_LOSS, "needs 12"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999,99999999999), }",
         KILN_OUT_OF_RANGE, "larger than"},
        {"{'descr': '<f4', 'fortran_order': False}", KILN_DATA_LOSS, "lacks"},
        {"{'descr'", KILN_DATA_LOSS, "lacks"},
        {"{}", KILN_DATA_LOSS, "lacks"},
        {"", KILN_DATA_LOSS, "lacks"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++)
        expect_error_at(read_header(arena, path, row[i].header, 8), row[i].code, row[i].complaint,
                        row[i].header, (int)i);
    remove_folder(folder);
}

static void every_truncation_is_refused(void **state) {
    kiln_arena *arena = *state;
    char *folder = make_folder(arena);
    const char *path = path_in(arena, folder);
    kiln_shape shape = {2, {2, 3}};
    kiln_tensor tensor = kiln_tensor_create(arena, KILN_F32, &shape), read;
    kiln_str file;
    expect_ok(kiln_tensor_write_npy(path, &tensor));
    expect_ok(kiln_file_read(path, 1000, arena, &file));
    for (size_t size = 0; size < file.size; size++) {
        expect_ok(kiln_file_write(path, kiln_str_slice(file, 0, size), 0600));
        expect_error(kiln_tensor_read_npy(path, arena, &read), DATA_LOSS, path);
    }
    expect_ok(kiln_file_write(path, KILN_STR("\x93NUMPY\2\0\1\0\0\0{"), 0600));
    expect_error(kiln_tensor_read_npy(path, arena, &read), UNIMPLEMENTED, "2.0");
    remove_folder(folder);
    expect_error(kiln_tensor_read_npy(path, arena, &read), NOT_FOUND, path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(tensors_of_every_type_and_rank_round_trip),
        test_with_arena(a_type_that_npy_lacks_is_refused),
        test_with_arena(malformed_headers_are_refused),
        test_with_arena(every_truncation_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
