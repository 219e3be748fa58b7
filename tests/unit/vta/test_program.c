#include "vta/program.h"

#include <string.h>

#include "tests/support/test.h"
#include "tests/support/vta_random.h"

static kiln_str encoded(const kiln_vta_program *program, kiln_arena *arena) {
    kiln_strbuf bytes = {0};
    kiln_vta_program_encode(program, &bytes);
    return kiln_strbuf_end(&bytes, arena);
}

static kiln_str printed(const kiln_vta_program *program, kiln_arena *arena) {
    kiln_strbuf text = {0};
    kiln_vta_program_print(program, &text);
    return kiln_strbuf_end(&text, arena);
}

static void bytes_and_text_say_the_same(void **state) {
    for (uint64_t seed = 1; seed <= 100; seed++) {
        const kiln_vta_config config = vta_random_config(seed);
        const kiln_vta_program program = vta_random_program(&config, seed, *state);
        kiln_vta_program read = {0}, parsed = {0};
        const kiln_str bytes = encoded(&program, *state), text = printed(&program, *state);
        expect_ok(kiln_vta_program_decode(bytes, *state, &read));
        expect_ok(kiln_vta_program_parse(text, *state, &parsed));
        assert_true(kiln_str_equal(encoded(&read, *state), bytes));
        assert_true(kiln_str_equal(encoded(&parsed, *state), bytes));
        assert_true(kiln_str_equal(printed(&read, *state), text));
        kiln_arena_reset(*state);
    }
}

static void what_is_cut_off_or_too_long_is_refused(void **state) {
    const kiln_vta_config config = vta_random_config(3);
    const kiln_vta_program program = vta_random_program(&config, 3, *state);
    const kiln_str bytes = encoded(&program, *state);
    kiln_vta_program read;
    for (size_t size = 0; size < bytes.size; size++)
        expect_error(kiln_vta_program_decode((kiln_str){bytes.data, size}, *state, &read),
                     DATA_LOSS, "");
    char *longer = kiln_arena_alloc(*state, bytes.size + 1);
    memcpy(longer, bytes.data, bytes.size);
    expect_error(kiln_vta_program_decode((kiln_str){longer, bytes.size + 1}, *state, &read),
                 DATA_LOSS, "1 bytes behind");
    longer[8] = 2;
    expect_error(kiln_vta_program_decode((kiln_str){longer, bytes.size}, *state, &read), DATA_LOSS,
                 "version 2; this is version 1");
}

/* They could not be said as text, or not be read as bytes. */
static void buffers_that_are_no_buffers_are_refused(void **state) {
    const kiln_vta_config config = vta_random_config(3);
    kiln_vta_program program = vta_random_program(&config, 3, *state), read;
    program.buffer[0].name = KILN_STR("micro");
    expect_error(kiln_vta_program_decode(encoded(&program, *state), *state, &read), DATA_LOSS,
                 "the first buffer is not that of the micro-ops");
    program = vta_random_program(&config, 3, *state);
    program.buffer[1].size_bytes = 0;
    expect_error(kiln_vta_program_decode(encoded(&program, *state), *state, &read), DATA_LOSS,
                 "buffer 1 is empty");
    program.buffer[1].size_bytes = UINT64_MAX - (UINT64_C(1) << 31); /* sums of it wrap */
    expect_error(kiln_vta_program_decode(encoded(&program, *state), *state, &read), DATA_LOSS,
                 "buffers of more than 4294967296 bytes");
    expect_error(kiln_vta_program_parse(KILN_STR("config pynq\nbuffer a argument 4000000000\n"
                                                 "buffer b scratch 4000000000\nfinish\n"),
                                        *state, &read),
                 INVALID_ARGUMENT, "buffers of together more than 4294967296 bytes");
}

static const char image[] = "config pynq\n"
                            "buffer image argument 64   # four tiles\n"
                            "\n"
                            "buffer table constant 4 00ff1234\n"
                            "uop dst=3 src=1 wgt=2\n"
                            "load memory=inp buffer=image y_size=2 x_size=2 x_stride=2 push_next\n"
                            "alu op=shr use_imm imm=-3 uop_end=1 iter_out=1 iter_in=1 pop_prev\n"
                            "finish\n";

static void text_is_read_as_it_says(void **state) {
    kiln_vta_program p = {0};
    kiln_vta_fault fault;
    expect_ok(kiln_vta_program_parse(kiln_str_from(image), *state, &p));
    assert_true(kiln_vta_program_check(&p, &fault));
    assert_int_equal(p.buffer_count, 3);
    assert_int_equal(p.buffer[0].size_bytes, 4);
    assert_memory_equal(p.buffer[2].content.data, "\x00\xff\x12\x34", 4);
    assert_int_equal(p.uop[0].dst, 3);
    assert_int_equal(p.instruction_buffer[0], 1);
    assert_int_equal(p.instruction[1].imm, -3);
    expect_str(printed(&p, *state),
               "config b1i16o16,i8w8a32,uop15,inp15,wgt18,acc17,bus64,clk100,alu16,pipe11,v1\n"
               "buffer image argument 64\nbuffer table constant 4 00ff1234\n"
               "uop dst=3 src=1 wgt=2\n"
               "load buffer=image push_next memory=inp y_size=2 x_size=2 x_stride=2\n"
               "alu pop_prev uop_end=1 iter_out=1 iter_in=1 op=shr use_imm imm=-3\nfinish\n");
}

static void bad_lines_are_named(void **state) {
    static const char *const row[][2] = {
        {"finish", "line 1: the first statement is config"},
        {"config pynq\nconfig pynq", "line 2: config is given twice"},
        {"config", "unknown part ''"},
        {"", "no config"},
        {"config pynq\njump", "line 2: unknown instruction 'jump'"},
        {"config pynq\nfinish x_size=1", "finish has no 'x_size'"},
        {"config pynq\nload opcode=1", "load has no 'opcode'"},
        {"config pynq\nload memory=ram", "unknown memory 'ram'"},
        {"config pynq\nload buffer=b", "there is no buffer 'b'"},
        {"config pynq\nload x_size=65536", "x_size is '65536', not a number from 0 to 65535"},
        {"config pynq\nload x_size", "x_size is ''"},
        {"config pynq\nalu imm=32768", "not a number from -32768 to 32767"},
        {"config pynq\nuop dst=2048", "dst is '2048', not a number from 0 to 2047"},
        {"config pynq\nuop x=1", "a micro-op has dst, src and wgt, no 'x'"},
        {"config pynq\nbuffer a uops 4", "'uops' is not argument, constant or scratch"},
        {"config pynq\nbuffer a argument 0", "its size is '0'"},
        {"config pynq\nbuffer a argument 4 00112233", "only constants have contents"},
        {"config pynq\nbuffer a constant 2 001", "3 digits for 2 bytes"},
        {"config pynq\nbuffer a constant 1 0g", "'g' is no hexadecimal digit"},
        {"config pynq\nbuffer a-b scratch 4", "letters, digits and _, not 'a-b'"},
        {"config pynq\nbuffer a scratch 4\nbuffer a scratch 4", "line 3: two buffers are called a"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_vta_program p;
        expect_error_at(kiln_vta_program_parse(kiln_str_from(row[i][0]), *state, &p),
                        KILN_INVALID_ARGUMENT, row[i][1], row[i][0], (int)i);
    }
}

static void illegal_programs_are_named(void **state) {
    static const struct {
        const char *body;
        kiln_vta_fault_kind fault;
        uint32_t instruction;
    } row[] = {
        {"finish", KILN_VTA_FAULT_NONE, 0},
        {"", KILN_VTA_FAULT_NO_FINISH, 0},
        {"load", KILN_VTA_FAULT_NO_FINISH, 0},
        {"finish\nfinish", KILN_VTA_FAULT_NO_FINISH, 0},
        {"load memory=inp buffer=in y_size=1 x_size=5\nfinish", KILN_VTA_FAULT_BUFFER_RANGE, 0},
        {"load memory=inp buffer=in y_size=2 x_size=2 x_stride=3\nfinish",
         KILN_VTA_FAULT_BUFFER_RANGE, 0},
        {"load memory=inp y_size=1 x_size=1\nfinish", KILN_VTA_FAULT_BUFFER_RANGE, 0},
        {"load memory=uop buffer=in y_size=1 x_size=1\nfinish", KILN_VTA_FAULT_BUFFER_RANGE, 0},
        {"store memory=out buffer=table y_size=1 x_size=1\nfinish", KILN_VTA_FAULT_CONSTANT, 0},
        {"alu chain uop_end=1 iter_out=1 iter_in=1\nfinish", KILN_VTA_FAULT_CHAIN, 0},
        {"alu chain uop_end=1 iter_out=1 iter_in=1\nalu uop_end=1 iter_out=2 iter_in=1\nfinish",
         KILN_VTA_FAULT_CHAIN, 0},
        {"alu chain uop_end=1 iter_out=1 iter_in=1\n"
         "alu pop_prev uop_end=1 iter_out=1 iter_in=1\nfinish",
         KILN_VTA_FAULT_CHAIN, 0},
        {"alu chain uop_end=1 iter_out=1 iter_in=1\nalu chain uop_end=1 iter_out=1 iter_in=1\n"
         "alu chain uop_end=1 iter_out=1 iter_in=1\nalu chain uop_end=1 iter_out=1 iter_in=1\n"
         "alu uop_end=1 iter_out=1 iter_in=1\nfinish",
         KILN_VTA_FAULT_CHAIN, 3},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_vta_program p = {0};
        kiln_vta_fault fault = {0};
        const char *text = kiln_arena_printf(
            *state, "config pynq,v1+chain\nbuffer in argument 64\n%s\n%s\n",
            "buffer table constant 16 00000000000000000000000000000000", row[i].body);
        expect_ok(kiln_vta_program_parse(kiln_str_from(text), *state, &p));
        const bool ok = kiln_vta_program_check(&p, &fault);
        if (fault.kind != row[i].fault) fail_msg("row %zu: %s", i, fault.text);
        assert_int_equal(ok, fault.kind == KILN_VTA_FAULT_NONE);
        assert_int_equal(fault.instruction, row[i].instruction);
        /* Nor can it be brought in as bytes. */
        kiln_vta_program read;
        kiln_status st = kiln_vta_program_decode(encoded(&p, *state), *state, &read);
        assert_int_equal(kiln_status_code(st), ok ? KILN_OK : KILN_DATA_LOSS);
        kiln_status_free(st);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(bytes_and_text_say_the_same),
        test_with_arena(what_is_cut_off_or_too_long_is_refused),
        test_with_arena(buffers_that_are_no_buffers_are_refused),
        test_with_arena(text_is_read_as_it_says),
        test_with_arena(bad_lines_are_named),
        test_with_arena(illegal_programs_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
