/* The tables of what differs between processors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "deploy/runtime/object_arch.h"

static void every_relocation_is_applied_or_says_why_not(void **state) {
    (void)state;
    const kiln_object_arch *arch = kiln_object_arch_find(KILN_ARCH_X86_64);
    assert_non_null(arch);
    for (uint32_t i = 0; i < arch->relocation_count; i++) {
        const kiln_relocation_kind *kind = &arch->relocation[i];
        assert_ptr_equal(kiln_relocation_find(arch, kind->number), kind); /* numbers are unique */
        assert_true((kind->apply != NULL) == (kind->byte_count > 0));
        assert_true((kind->apply != NULL) == (kind->reason == NULL));
    }
    assert_null(kiln_relocation_find(arch, 0));
}

static void unknown_processor_has_no_row(void **state) {
    (void)state;
    assert_null(kiln_object_arch_find(KILN_ARCH_OTHER));
}

static uint64_t apply(const char *name, uint64_t address, uint64_t value, bool *out_fits) {
    const kiln_object_arch *arch = kiln_object_arch_find(KILN_ARCH_X86_64);
    for (uint32_t i = 0; i < arch->relocation_count; i++) {
        const kiln_relocation_kind *kind = &arch->relocation[i];
        if (strcmp(kind->name, name) != 0) continue;
        uint8_t place[16];
        memset(place, 0xee, sizeof place);
        *out_fits = kind->apply(place, address, value);
        for (uint32_t at = kind->byte_count; at < sizeof place; at++) assert_int_equal(place[at], 0xee);
        uint64_t written = 0;
        memcpy(&written, place, kind->byte_count);
        return written;
    }
    fail_msg("no relocation %s", name);
    return 0;
}

static void value_is_written_little_endian_in_its_width(void **state) {
    (void)state;
    bool fits;
    assert_int_equal(apply("R_X86_64_64", 0, UINT64_C(0x1122334455667788), &fits), UINT64_C(0x1122334455667788));
    assert_true(fits);
    assert_int_equal(apply("R_X86_64_PC32", 0x1000, 0xff0, &fits), 0xfffffff0);
    assert_true(fits);
    assert_int_equal(apply("R_X86_64_32", 0, 0xffffffff, &fits), 0xffffffff);
    assert_true(fits);
    assert_int_equal(apply("R_X86_64_32S", 0, UINT64_MAX, &fits), 0xffffffff);
    assert_true(fits);
}

static void edge_of_the_range_is_exact(void **state) {
    (void)state;
    bool fits;
    (void)apply("R_X86_64_PC32", 0, INT32_MAX, &fits);
    assert_true(fits);
    (void)apply("R_X86_64_PC32", 0, (uint64_t)INT32_MAX + 1, &fits);
    assert_false(fits);
    (void)apply("R_X86_64_PC32", (uint64_t)INT32_MAX + 1, 0, &fits);
    assert_true(fits);
    (void)apply("R_X86_64_PC32", (uint64_t)INT32_MAX + 2, 0, &fits);
    assert_false(fits);
    (void)apply("R_X86_64_32", 0, UINT64_C(0x100000000), &fits);
    assert_false(fits);
    (void)apply("R_X86_64_32S", 0, UINT64_C(0x80000000), &fits);
    assert_false(fits);
}

static void veneer_holds_the_whole_address(void **state) {
    (void)state;
    const kiln_object_arch *arch = kiln_object_arch_find(KILN_ARCH_X86_64);
    uint8_t veneer[16] = {0};
    assert_int_equal(arch->veneer_bytes, sizeof veneer);
    arch->write_veneer(veneer, UINT64_C(0x1122334455667788));
    uint64_t target;
    memcpy(&target, veneer + 6, sizeof target);
    assert_int_equal(target, UINT64_C(0x1122334455667788));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_relocation_is_applied_or_says_why_not),
        cmocka_unit_test(unknown_processor_has_no_row),
        cmocka_unit_test(value_is_written_little_endian_in_its_width),
        cmocka_unit_test(edge_of_the_range_is_exact),
        cmocka_unit_test(veneer_holds_the_whole_address),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
