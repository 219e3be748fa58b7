/* State between runs, on the processor as the process's memory and as a device's, and on a device
 * whose memory is its own. */
#include "deploy/runtime/kept_port.h"
#include "tests/support/test.h"

enum { COUNT = 5 };

typedef struct row {
    kiln_device_kind kind;
    uint32_t device;
    bool swaps;
} row;

static const row rows[] = {
    {KILN_DEVICE_CPU, 0, true}, {KILN_DEVICE_CPU, 1, false}, {KILN_DEVICE_NULL, 1, false}};

static kiln_kept_port open_row(const row *r) {
    kiln_kept_port kept = {.device = r->device, .size_bytes = COUNT};
    expect_ok(kiln_device_open(r->kind, NULL, &kept.on));
    expect_ok(kiln_kept_port_init(&kept));
    return kept;
}

static void close_row(kiln_kept_port *kept) {
    kiln_kept_port_deinit(kept);
    kiln_device_close(kept->on);
}

static void expect_read(const kiln_kept_port *kept, const char *right) {
    char seen[COUNT];
    assert_int_equal(kiln_kept_port_read(kept, seen), KILN_KERNEL_OK);
    assert_memory_equal(seen, right, COUNT);
}

static void what_a_run_wrote_is_read_by_the_next(void **state) {
    (void)state;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(rows); i++) {
        kiln_kept_port kept = open_row(&rows[i]);
        const kiln_device_place in = kiln_kept_port_place(&kept, false),
                                out = kiln_kept_port_place(&kept, true);
        expect_read(&kept, "\0\0\0\0");
        assert_int_equal(
            kiln_device_copy(kept.on, KILN_COPY_TO_DEVICE, out, kiln_host_place("next"), COUNT),
            KILN_KERNEL_OK);
        expect_read(&kept, "\0\0\0\0"); /* a run that fails ends here */
        assert_int_equal(kiln_kept_port_advance(&kept), KILN_KERNEL_OK);
        expect_read(&kept, "next");
        assert_int_equal(kiln_kept_port_place(&kept, false).data == in.data, !rows[i].swaps);
        assert_int_equal(kiln_kept_port_place(&kept, false).data == out.data, rows[i].swaps);
        close_row(&kept);
    }
}

static void state_is_written_and_cleared(void **state) {
    (void)state;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(rows); i++) {
        kiln_kept_port kept = open_row(&rows[i]);
        assert_int_equal(kiln_kept_port_write(&kept, "mine"), KILN_KERNEL_OK);
        expect_read(&kept, "mine");
        assert_int_equal(kiln_kept_port_write(&kept, NULL), KILN_KERNEL_OK);
        expect_read(&kept, "\0\0\0\0");
        close_row(&kept);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_run_wrote_is_read_by_the_next),
        cmocka_unit_test(state_is_written_and_cleared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
