/* What the parent holds for a child: memory for its outputs, and what is kept of them. */
#include "rpc-server/kernel_set.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/support/test.h"

#define OUTPUT_BYTES 4096u

typedef struct fixture {
    kiln_arena arena;
    char *folder;
    kiln_kernel_set set; /* a module's */
} fixture;

static int set_up(void **state) {
    static fixture the_fixture;
    fixture *f = &the_fixture;
    *f = (fixture){.set = {.outputs_fd = -1}};
    kiln_arena_init(&f->arena, 0);
    expect_ok(kiln_folder_create_temp("kiln-set-test", &f->arena, &f->folder));
    const char *file = kiln_arena_printf(&f->arena, "%s/file", f->folder);
    expect_ok(kiln_file_write(file, KILN_STR("neither is read here"), 0600));
    const kiln_msg_module_run how = {.output_bytes = OUTPUT_BYTES, .threads = 1};
    expect_ok(kiln_kernel_set_open_module(file, file, &how, &f->arena, &f->set));
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    kiln_kernel_set_close(&f->set);
    expect_ok(kiln_folder_remove(f->folder));
    kiln_arena_deinit(&f->arena);
    return 0;
}

static void outputs_that_do_not_fit_the_board_take_no_memory(void **state) {
    fixture *f = *state;
    expect_error(kiln_kernel_set_create_outputs(&f->set, OUTPUT_BYTES - 1), RESOURCE_EXHAUSTED,
                 "the outputs take 4096 bytes");
    assert_int_equal(f->set.outputs_fd, -1);
    expect_ok(kiln_kernel_set_create_outputs(&f->set, OUTPUT_BYTES));
    assert_true(f->set.outputs_fd >= 0);
    assert_int_not_equal(ftruncate(f->set.outputs_fd, 2 * OUTPUT_BYTES), 0);
}

/* A run leaves outputs that begin with `what`; they are kept. */
static kiln_digest keep(fixture *f, const kiln_blob_store_options *blobs, const char *what) {
    kiln_msg_blob_ref blob;
    assert_int_equal(pwrite(f->set.outputs_fd, what, strlen(what), 0), (ssize_t)strlen(what));
    expect_ok(kiln_kernel_set_keep(&f->set, blobs, &blob));
    assert_int_equal(blob.size, OUTPUT_BYTES);
    return blob.digest;
}

static void what_is_kept_of_modules_stays_within_the_quota(void **state) {
    fixture *f = *state;
    const kiln_blob_store_options blobs = {.folder = f->folder, .bytes_max = 2 * OUTPUT_BYTES};
    kiln_blob_store *store = NULL;
    expect_ok(kiln_kernel_set_create_outputs(&f->set, OUTPUT_BYTES));
    const kiln_digest first = keep(f, &blobs, "first");
    keep(f, &blobs, "second");
    const kiln_digest third = keep(f, &blobs, "third");
    expect_ok(kiln_blob_store_open(&blobs, &store));
    assert_false(kiln_blob_store_has(store, &first));
    assert_true(kiln_blob_store_has(store, &third));
    kiln_blob_store_close(store);
}

/* A record with more is not believed (db/plausible.h), and none at all would hide the disturbance.
 */
static void a_board_reports_no_more_drift_than_is_believed(void **state) {
    (void)state;
    static const struct {
        double measured, reported;
    } row[] = {{0, 0},  {1.5, 1.5},      {100, 100},      {2000, 100},
               {-1, 0}, {INFINITY, 100}, {(double)NAN, 0}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_kernel_set_item kernel[] = {
            {.timing = {.again_count = 2}},
            {.timing = {.drift = {row[i].measured, row[i].measured}, .again_count = 1}}};
        const kiln_kernel_set set = {.count = 2, .kernel = kernel};
        uint32_t again = 0;
        const kiln_drift_ratio drift = kiln_kernel_set_drift(&set, &again);
        assert_true(drift.arithmetic == row[i].reported && drift.memory == row[i].reported);
        assert_int_equal(again, 3);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(outputs_that_do_not_fit_the_board_take_no_memory),
        TEST(what_is_kept_of_modules_stays_within_the_quota),
        cmocka_unit_test(a_board_reports_no_more_drift_than_is_believed),
    };
    return cmocka_run_group_tests_name("rpc-server/kernel_set", tests, NULL, NULL);
}
