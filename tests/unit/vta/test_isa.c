#include "vta/isa.h"

#include <string.h>

#include "base/rand.h"
#include "tests/support/test.h"
#include "tests/support/vta_random.h"
#include "vta/field.h"

static kiln_vta_config machine(const char *text) {
    kiln_vta_config config = {0};
    expect_ok(kiln_vta_config_parse(kiln_str_from(text), &config));
    return config;
}

static uint64_t word_of(const uint8_t *bytes) {
    uint64_t word = 0;
    for (uint32_t i = 0; i < 8; i++) word |= (uint64_t)bytes[i] << 8 * i;
    return word;
}

/* Bits counted by hand from the published layout. */
static void bits_are_where_the_hardware_has_them(void **state) {
    (void)state;
    const kiln_vta_config pynq = machine("pynq");
    uint8_t bytes[KILN_VTA_INSTRUCTION_BYTES];
    kiln_vta_instruction_encode(&pynq,
                                &(kiln_vta_instruction){.opcode = KILN_VTA_LOAD,
                                                        .pop_next = 1,
                                                        .memory = KILN_VTA_INP,
                                                        .sram_base = 0x123,
                                                        .dram_base = 0x89abcdef,
                                                        .y_size = 3,
                                                        .x_size = 5,
                                                        .x_stride = 7,
                                                        .x_pad_1 = 9},
                                bytes);
    assert_int_equal(word_of(bytes), UINT64_C(1) << 4 | UINT64_C(2) << 7 | UINT64_C(0x123) << 10 |
                                         UINT64_C(0x89abcdef) << 26);
    assert_int_equal(word_of(bytes + 8),
                     UINT64_C(3) | UINT64_C(5) << 16 | UINT64_C(7) << 32 | UINT64_C(9) << 60);
    kiln_vta_instruction_encode(&pynq,
                                &(kiln_vta_instruction){.opcode = KILN_VTA_GEMM,
                                                        .reset = 1,
                                                        .uop_bgn = 2,
                                                        .uop_end = 8192,
                                                        .iter_out = 3,
                                                        .iter_in = 16383,
                                                        .dst_in = 2047,
                                                        .wgt_out = 1,
                                                        .wgt_in = 1023},
                                bytes);
    assert_int_equal(word_of(bytes), UINT64_C(2) | UINT64_C(1) << 7 | UINT64_C(2) << 8 |
                                         UINT64_C(8192) << 21 | UINT64_C(3) << 35 |
                                         UINT64_C(16383) << 49);
    assert_int_equal(word_of(bytes + 8),
                     UINT64_C(2047) << 11 | UINT64_C(1) << 44 | UINT64_C(1023) << 54);
    kiln_vta_instruction_encode(&pynq,
                                &(kiln_vta_instruction){.opcode = KILN_VTA_ALU,
                                                        .push_next = 1,
                                                        .uop_end = 1,
                                                        .iter_out = 1,
                                                        .iter_in = 1,
                                                        .src_in = 4,
                                                        .op = KILN_VTA_ALU_SHR,
                                                        .use_imm = 1,
                                                        .imm = -2},
                                bytes);
    assert_int_equal(word_of(bytes), UINT64_C(4) | UINT64_C(1) << 6 | UINT64_C(1) << 21 |
                                         UINT64_C(1) << 35 | UINT64_C(1) << 49);
    assert_int_equal(word_of(bytes + 8), UINT64_C(4) << 33 | UINT64_C(3) << 44 | UINT64_C(1) << 47 |
                                             UINT64_C(0xfffe) << 48);
    const kiln_vta_sizes sizes = kiln_vta_sizes_of(&pynq);
    assert_int_equal(kiln_vta_uop_encode(&sizes, (kiln_vta_uop){1, 2, 3}), 1 | 2 << 11 | 3 << 22);
    /* Sources may be accumulators, of which there are more. */
    const kiln_vta_config fewer = machine("pynq,inp14");
    const kiln_vta_sizes few = kiln_vta_sizes_of(&fewer);
    assert_int_equal(kiln_vta_uop_encode(&few, (kiln_vta_uop){1, 2, 3}), 1 | 2 << 11 | 3 << 22);
}

static void random_programs_survive_their_bits(void **state) {
    for (uint64_t seed = 1; seed <= 200; seed++) {
        const kiln_vta_config config = vta_random_config(seed);
        const kiln_vta_program program = vta_random_program(&config, seed, *state);
        const kiln_vta_sizes sizes = kiln_vta_sizes_of(&config);
        kiln_vta_fault fault = {0};
        for (uint32_t i = 0; i < program.instruction_count; i++) {
            uint8_t bytes[KILN_VTA_INSTRUCTION_BYTES];
            kiln_vta_instruction in;
            kiln_vta_instruction_encode(&config, &program.instruction[i], bytes);
            assert_true(kiln_vta_instruction_decode(&config, bytes, &in, &fault));
            assert_memory_equal(&in, &program.instruction[i], sizeof in);
        }
        for (uint32_t i = 0; i < program.uop_count; i++) {
            kiln_vta_uop uop;
            const uint32_t bits = kiln_vta_uop_encode(&sizes, program.uop[i]);
            assert_true(kiln_vta_uop_decode(&sizes, bits, i, &uop, &fault));
            assert_memory_equal(&uop, &program.uop[i], sizeof uop);
        }
        kiln_arena_reset(*state);
    }
}

/* Any bits: what decodes encodes to the same, and its check comes to an end. */
static void random_bits_are_refused_or_kept(void **state) {
    (void)state;
    kiln_rand r;
    uint32_t kept = 0;
    kiln_rand_init(&r, 1);
    for (uint32_t n = 0; n < 20000; n++) {
        const kiln_vta_config config = vta_random_config(n % 50);
        uint8_t bytes[KILN_VTA_INSTRUCTION_BYTES], again[KILN_VTA_INSTRUCTION_BYTES];
        for (uint32_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (uint8_t)(kiln_rand_u64(&r) & (n % 2 ? kiln_rand_u64(&r) : 255));
        bytes[0] = (uint8_t)((bytes[0] & ~7u) | n % 6);
        if (n % 3) memset(bytes + 7, 0, 2); /* where most machines have no fields */
        if (n % 3) memset(bytes + 12, 0, 4);
        kiln_vta_instruction in;
        kiln_vta_fault fault = {0};
        if (!kiln_vta_instruction_decode(&config, bytes, &in, &fault)) {
            assert_true(fault.kind == KILN_VTA_FAULT_OPCODE ||
                        fault.kind == KILN_VTA_FAULT_RESERVED);
            continue;
        }
        kiln_vta_instruction_encode(&config, &in, again);
        assert_memory_equal(bytes, again, sizeof bytes);
        kept++;
        (void)kiln_vta_instruction_check(&config, &in, n, &fault);
    }
    assert_true(kept > 1000);
}

#define LOAD .opcode = KILN_VTA_LOAD, .memory = KILN_VTA_INP, .x_size = 1, .y_size = 1
#define STORE .opcode = KILN_VTA_STORE, .memory = KILN_VTA_OUT, .x_size = 1, .y_size = 1
#define GEMM .opcode = KILN_VTA_GEMM, .uop_end = 1, .iter_out = 1, .iter_in = 1
#define ALU .opcode = KILN_VTA_ALU, .uop_end = 1, .iter_out = 1, .iter_in = 1

static void illegal_instructions_are_named(void **state) {
    (void)state;
    static const struct {
        const char *machine;
        kiln_vta_instruction in;
        kiln_vta_fault_kind fault;
        const char *words;
    } row[] = {
        {"pynq", {LOAD}, KILN_VTA_FAULT_NONE, ""},
        {"pynq", {STORE}, KILN_VTA_FAULT_NONE, ""},
        {"pynq", {GEMM}, KILN_VTA_FAULT_NONE, ""},
        {"pynq", {ALU}, KILN_VTA_FAULT_NONE, ""},
        {"pynq", {.opcode = 5}, KILN_VTA_FAULT_OPCODE, "5"},
        {"pynq", {LOAD, .pop_prev = 1}, KILN_VTA_FAULT_TOKEN, "nothing is before the engine load"},
        {"pynq", {STORE, .push_next = 1}, KILN_VTA_FAULT_TOKEN, "behind the engine store"},
        {"pynq", {LOAD, .dst_in = 1}, KILN_VTA_FAULT_RESERVED, "load has no dst_in"},
        {"pynq", {LOAD, .saturate = 1}, KILN_VTA_FAULT_FEATURE, "saturate"},
        {"pynq,v2", {LOAD, .saturate = 1}, KILN_VTA_FAULT_RESERVED, "load has no saturate"},
        {"pynq", {.opcode = KILN_VTA_LOAD, .memory = KILN_VTA_OUT}, KILN_VTA_FAULT_MEMORY, "load"},
        {"pynq",
         {.opcode = KILN_VTA_STORE, .memory = KILN_VTA_ACC},
         KILN_VTA_FAULT_MEMORY,
         "store"},
        {"pynq", {.opcode = KILN_VTA_LOAD, .memory = 6}, KILN_VTA_FAULT_MEMORY, "memory 6"},
        {"pynq",
         {.opcode = KILN_VTA_LOAD, .memory = KILN_VTA_ACC_BYTES},
         KILN_VTA_FAULT_FEATURE,
         "acc8"},
        {"pynq", {LOAD, .sram_base = 2048}, KILN_VTA_FAULT_SRAM_RANGE, "2048 to 2049 of inp"},
        {"pynq", {LOAD, .sram_base = 2040, .y_pad_1 = 8}, KILN_VTA_FAULT_SRAM_RANGE, "2049"},
        {"pynq", {LOAD, .sram_base = 65536}, KILN_VTA_FAULT_RESERVED, "it has 16 bits"},
        {"pynq", {STORE, .x_pad_0 = 1}, KILN_VTA_FAULT_STORE_PADDING, "1"},
        {"pynq",
         {.opcode = KILN_VTA_STORE,
          .memory = KILN_VTA_OUT,
          .x_size = 3,
          .y_size = 2,
          .x_stride = 2},
         KILN_VTA_FAULT_STORE_STRIDE,
         "rows of 3 tiles, 2 apart"},
        {"pynq", {GEMM, .uop_bgn = 1}, KILN_VTA_FAULT_UOP_RANGE, "1 to 1"},
        {"pynq",
         {.opcode = KILN_VTA_GEMM, .uop_end = 8193, .iter_out = 1, .iter_in = 1},
         KILN_VTA_FAULT_UOP_RANGE,
         "of 8192"},
        {"pynq",
         {.opcode = KILN_VTA_GEMM, .uop_end = 1, .iter_in = 1},
         KILN_VTA_FAULT_ITERATIONS,
         "0 outer"},
        {"pynq", {GEMM, .first = 1}, KILN_VTA_FAULT_FEATURE, "first"},
        {"pynq,v2", {GEMM, .first = 1, .reset = 1}, KILN_VTA_FAULT_RESET_FIRST, ""},
        {"pynq", {GEMM, .dst_in = 2048}, KILN_VTA_FAULT_RESERVED, "dst_in is 2048"},
        {"pynq", {ALU, .reset = 1}, KILN_VTA_FAULT_RESERVED, "alu has no reset"},
        {"pynq", {ALU, .op = 5}, KILN_VTA_FAULT_ALU_OP, "5"},
        {"pynq", {ALU, .op = KILN_VTA_ALU_MUL}, KILN_VTA_FAULT_FEATURE, "alu mul"},
        {"pynq",
         {ALU, .op = KILN_VTA_ALU_SHR, .use_imm = 1, .imm = 32},
         KILN_VTA_FAULT_SHIFT,
         "32"},
        {"pynq", {ALU, .imm = -32769}, KILN_VTA_FAULT_RESERVED, "imm is -32769"},
        {"pynq", {ALU, .chain = 1}, KILN_VTA_FAULT_FEATURE, "chain"},
        {"pynq",
         {.opcode = KILN_VTA_FINISH, .memory = 1},
         KILN_VTA_FAULT_RESERVED,
         "finish has no memory"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        const kiln_vta_config config = machine(row[i].machine);
        kiln_vta_fault fault = {0};
        const bool ok = kiln_vta_instruction_check(&config, &row[i].in, 7, &fault);
        if (fault.kind != row[i].fault) fail_msg("row %zu: %s", i, kiln_vta_fault_name(fault.kind));
        assert_int_equal(ok, fault.kind == KILN_VTA_FAULT_NONE);
        if (ok) continue;
        assert_int_equal(fault.instruction, 7);
        expect_contains(fault.text, row[i].words);
        expect_contains(fault.text, kiln_vta_fault_words(fault.kind));
    }
}

static void bits_without_a_field_are_refused(void **state) {
    (void)state;
    const kiln_vta_config pynq = machine("pynq"), small = machine("pynq,wgt17");
    const kiln_vta_sizes sizes = kiln_vta_sizes_of(&small);
    uint8_t bytes[KILN_VTA_INSTRUCTION_BYTES] = {0};
    kiln_vta_instruction in;
    kiln_vta_uop uop;
    kiln_vta_fault fault = {0};
    bytes[7] = 0x80; /* bit 63 of LOAD */
    assert_false(kiln_vta_instruction_decode(&pynq, bytes, &in, &fault));
    assert_int_equal(fault.kind, KILN_VTA_FAULT_RESERVED);
    bytes[0] = 7;
    assert_false(kiln_vta_instruction_decode(&pynq, bytes, &in, &fault));
    assert_int_equal(fault.kind, KILN_VTA_FAULT_OPCODE);
    assert_false(kiln_vta_uop_decode(&sizes, UINT32_C(1) << 31, 5, &uop, &fault));
    assert_int_equal(fault.kind, KILN_VTA_FAULT_UOP_UNUSED_BITS);
    expect_contains(fault.text, "micro-op 5 is 0x80000000; 31 bits are used");
}

static void engines_and_neighbours_follow_the_features(void **state) {
    (void)state;
    const kiln_vta_config v1 = machine("pynq"), v2 = machine("pynq,v2");
    const kiln_vta_instruction alu = {ALU}, load = {LOAD}, store = {STORE},
                               acc = {.opcode = KILN_VTA_LOAD, .memory = KILN_VTA_ACC};
    kiln_vta_engine other;
    assert_int_equal(kiln_vta_engine_of(&v1, &alu), KILN_VTA_ENGINE_COMPUTE);
    assert_int_equal(kiln_vta_engine_of(&v2, &alu), KILN_VTA_ENGINE_ALU);
    assert_int_equal(kiln_vta_engine_of(&v1, &load), KILN_VTA_ENGINE_LOAD);
    assert_int_equal(kiln_vta_engine_of(&v1, &acc), KILN_VTA_ENGINE_COMPUTE);
    assert_int_equal(kiln_vta_engine_of(&v1, &store), KILN_VTA_ENGINE_STORE);
    assert_true(kiln_vta_engine_behind(&v1, KILN_VTA_ENGINE_COMPUTE, &other));
    assert_int_equal(other, KILN_VTA_ENGINE_STORE);
    assert_true(kiln_vta_engine_behind(&v2, KILN_VTA_ENGINE_COMPUTE, &other));
    assert_int_equal(other, KILN_VTA_ENGINE_ALU);
    assert_true(kiln_vta_engine_before(&v2, KILN_VTA_ENGINE_STORE, &other));
    assert_int_equal(other, KILN_VTA_ENGINE_ALU);
    assert_false(kiln_vta_engine_before(&v2, KILN_VTA_ENGINE_LOAD, &other));
    assert_false(kiln_vta_engine_behind(&v2, KILN_VTA_ENGINE_STORE, &other));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_are_where_the_hardware_has_them),
        test_with_arena(random_programs_survive_their_bits),
        cmocka_unit_test(random_bits_are_refused_or_kept),
        cmocka_unit_test(illegal_instructions_are_named),
        cmocka_unit_test(bits_without_a_field_are_refused),
        cmocka_unit_test(engines_and_neighbours_follow_the_features),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
