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
    const kiln_object_arch *arch;
    for (uint32_t row = 0; (arch = kiln_object_arch_at(row)); row++) {
        assert_ptr_equal(kiln_object_arch_find(arch->arch), arch);
        assert_int_equal(arch->veneer_bytes % 16, 0);
        for (uint32_t i = 0; i < arch->relocation_count; i++) {
            const kiln_relocation_kind *kind = &arch->relocation[i];
            assert_ptr_equal(kiln_relocation_find(arch, kind->number),
                             kind); /* numbers are unique */
            assert_true((kind->apply != NULL) == (kind->byte_count > 0));
            assert_true((kind->apply != NULL) == (kind->reason == NULL));
            assert_true(kind->apply == NULL || (kind->addend != NULL) == !arch->addends);
        }
        assert_null(kiln_relocation_find(arch, 0));
    }
}

static void unknown_processor_has_no_row(void **state) {
    (void)state;
    assert_null(kiln_object_arch_find(KILN_ARCH_OTHER));
}

static const kiln_relocation_kind *kind_named(const char *name) {
    const kiln_object_arch *arch;
    for (uint32_t row = 0; (arch = kiln_object_arch_at(row)); row++)
        for (uint32_t i = 0; i < arch->relocation_count; i++)
            if (strcmp(arch->relocation[i].name, name) == 0) return &arch->relocation[i];
    fail_msg("no relocation %s", name);
    return NULL;
}

static uint64_t apply(const char *name, uint64_t address, uint64_t value, bool *out_fits) {
    const kiln_relocation_kind *kind = kind_named(name);
    uint8_t place[16];
    memset(place, 0xee, sizeof place);
    *out_fits = kind->apply(place, address, value);
    for (uint32_t at = kind->byte_count; at < sizeof place; at++) assert_int_equal(place[at], 0xee);
    uint64_t written = 0;
    memcpy(&written, place, kind->byte_count);
    return written;
}

static void value_is_written_little_endian_in_its_width(void **state) {
    (void)state;
    bool fits;
    assert_int_equal(apply("R_X86_64_64", 0, UINT64_C(0x1122334455667788), &fits),
                     UINT64_C(0x1122334455667788));
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

/* The furthest that each kind reaches, and the next step beyond; the bytes themselves are compared
 * with those of another linker in compiler-core/codegen/linked. */
static void instructions_reach_as_far_as_they_say(void **state) {
    (void)state;
    static const struct {
        const char *name;
        uint64_t furthest, lowest, step;
    } row[] = {
        {"R_AARCH64_CALL26", (1 << 27) - 4, -(UINT64_C(1) << 27), 4},
        {"R_AARCH64_JUMP26", (1 << 27) - 4, -(UINT64_C(1) << 27), 4},
        {"R_AARCH64_ADR_PREL_PG_HI21", (UINT64_C(1) << 32) - 4096, -(UINT64_C(1) << 32), 4096},
        {"R_AARCH64_PREL32", INT32_MAX, -(UINT64_C(1) << 31), 1},
        {"R_ARM_CALL", (1 << 25) - 4, -(UINT64_C(1) << 25), 4},
        {"R_ARM_JUMP24", (1 << 25) - 4, -(UINT64_C(1) << 25), 4},
        {"R_ARM_REL32", INT32_MAX, -(UINT64_C(1) << 31), 1},
        {"R_ARM_MOVT_PREL", INT32_MAX, -(UINT64_C(1) << 31), 1},
        {"R_RISCV_CALL_PLT", INT32_MAX - 0x800, -(UINT64_C(1) << 31) - 0x800, 1},
        {"R_RISCV_PCREL_HI20", INT32_MAX - 0x800, -(UINT64_C(1) << 31) - 0x800, 1},
    };
    const uint64_t here = UINT64_C(1) << 40;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        bool fits;
        (void)apply(row[i].name, here, here + row[i].furthest, &fits);
        assert_true(fits);
        (void)apply(row[i].name, here, here + row[i].furthest + row[i].step, &fits);
        assert_false(fits);
        (void)apply(row[i].name, here, here + row[i].lowest, &fits);
        assert_true(fits);
        (void)apply(row[i].name, here, here + row[i].lowest - row[i].step, &fits);
        assert_false(fits);
    }
}

/* Instructions are words and what they access is aligned: a value that is not must not be cut off.
 */
static void values_between_steps_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *name;
        uint64_t step;
    } row[] = {{"R_AARCH64_CALL26", 4},
               {"R_ARM_CALL", 4},
               {"R_AARCH64_LDST16_ABS_LO12_NC", 2},
               {"R_AARCH64_LDST32_ABS_LO12_NC", 4},
               {"R_AARCH64_LDST64_ABS_LO12_NC", 8},
               {"R_AARCH64_LDST128_ABS_LO12_NC", 16}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        for (uint64_t at = 0x1000; at <= 0x1000 + row[i].step; at++) {
            bool fits;
            (void)apply(row[i].name, 0x1000, at, &fits);
            assert_int_equal(fits, at % row[i].step == 0);
        }
}

static void veneer_holds_the_whole_address(void **state) {
    (void)state;
    static const struct {
        kiln_arch arch;
        size_t at, bytes;
    } row[] = {{KILN_ARCH_X86_64, 6, 8},
               {KILN_ARCH_AARCH64, 8, 8},
               {KILN_ARCH_ARM, 4, 4},
               {KILN_ARCH_THUMB, 4, 4},
               {KILN_ARCH_RISCV64, 16, 8}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        const kiln_object_arch *arch = kiln_object_arch_find(row[i].arch);
        uint8_t veneer[32] = {0};
        uint64_t wanted = UINT64_C(0x1122334455667788), written = 0;
        assert_true(row[i].at + row[i].bytes <= arch->veneer_bytes);
        arch->write_veneer(veneer, wanted);
        memcpy(&written, veneer + row[i].at, row[i].bytes);
        assert_int_equal(written, row[i].bytes == 8 ? wanted : (uint32_t)wanted);
    }
}

/* Bits of an address are spread over two halfwords: what is written is what is read. Branches are
 * of halfwords and reach 16 MiB; bit 0 says that the target is Thumb code. */
static void thumb_fields_hold_what_was_written(void **state) {
    (void)state;
    static const int64_t value[] = {0,        2,         -2,       0x1234,    -0x1234,
                                    0x7ffffe, -0x800000, 0xfffffe, -0x1000000};
    const kiln_object_arch *arch = kiln_object_arch_find(KILN_ARCH_THUMB);
    const kiln_relocation_kind *branch = kiln_relocation_find(arch, 10);
    const kiln_relocation_kind *low = kiln_relocation_find(arch, 47);
    const kiln_relocation_kind *high = kiln_relocation_find(arch, 48);
    const uint64_t address = 0x60000000;
    for (size_t i = 0; i < sizeof value / sizeof *value; i++) {
        uint8_t place[4] = {0x00, 0xf0, 0x00, 0xd0}; /* bl */
        assert_true(branch->apply(place, address, address + (uint64_t)value[i] + 1));
        assert_int_equal(branch->addend(place), value[i]);
        assert_int_equal(place[1] & 0xf8, 0xf0);
        assert_int_equal(place[3] & 0xd0, 0xd0);
    }
    uint8_t place[4] = {0x00, 0xf0, 0x00, 0xd0};
    assert_false(branch->apply(place, address, address + 0x1000000));
    assert_false(branch->apply(place, address, address - 0x1000002));
    uint8_t move[4] = {0x40, 0xf2, 0x00, 0x03}; /* movw r3, movt r3 alike */
    assert_true(low->apply(move, address, 0x1234abcd));
    assert_int_equal((uint16_t)low->addend(move), 0xabcd);
    assert_true(high->apply(move, address, 0x1234abcd));
    assert_int_equal(high->addend(move), 0x1234);
    assert_int_equal(move[0], 0x41); /* movw r3, #0x1234 by the manual's encoding T3 */
    assert_int_equal(move[1], 0xf2);
    assert_int_equal(move[2], 0x34);
    assert_int_equal(move[3], 0x23);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_relocation_is_applied_or_says_why_not),
        cmocka_unit_test(unknown_processor_has_no_row),
        cmocka_unit_test(value_is_written_little_endian_in_its_width),
        cmocka_unit_test(edge_of_the_range_is_exact),
        cmocka_unit_test(instructions_reach_as_far_as_they_say),
        cmocka_unit_test(values_between_steps_are_refused),
        cmocka_unit_test(veneer_holds_the_whole_address),
        cmocka_unit_test(thumb_fields_hold_what_was_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
