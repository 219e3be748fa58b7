/* docs/reference/vta.md is what the tables say. */
#include "base/file.h"
#include "base/opt.h"
#include "tests/support/test.h"
#include "vta/field.h"

static const char head[] =
    "# Accelerators of the VTA class\n\n"
    "Written from `base/vta_config.def`, `base/vta_features.def`, `base/vta_presets.def`, "
    "`vta/isa.def` and `vta/faults.def` by `tests/unit/vta/test_docs.c`; do not edit.\n\n"
    "`vta/core.h` defines the effect of instructions, `vta/csim.h` their time, `vta/program.h` "
    "programs as bytes and text, `vta/check.h` the checks of programs.\n\n"
    "<!-- test: not run, p.txt and c2.kiln stand for your own; tests/unit/cli has each command "
    "-->\n\n"
    "    kiln vta info pynq                        # what a machine has\n"
    "    kiln vta asm p.txt -o p.vta               # from text to a program\n"
    "    kiln vta check p.vta && kiln vta run p.vta\n"
    "    kiln vta trace p.vta -o p.json            # for Perfetto\n"
    "    kiln vta disasm c2.kiln                   # programs of a module's kernels; --program N "
    "is one of them\n"
    "    kiln vta params pynq -o vta_params.vh     # for the Verilog of vta/rtl\n"
    "    kiln vta search --layers C2..C12          # which machine to build "
    "(docs/how-to/vta-hardware.md)\n\n";

static void print_config(kiln_strbuf *out) {
    kiln_strbuf_text(out, "## The machine\n\n"
                          "A target is `vta:CONFIG`. The first six keys form two parts, "
                          "`b1i16o16` and `i8w8a32`. The parts come in any order. A preset may "
                          "come first; the other parts replace its own.\n");
    const char *forms[] = {"a power of two", "a number"};
    enum { POWER, ANY };
#define GROUP(name) \
    kiln_strbuf_text(out, "\n**" name "**\n\n| key | numbers | usual | |\n|---|---|---|---|\n");
#define X(field, key, least, most, usual, form, doc)                                     \
    kiln_strbuf_printf(out, "| `%s` | %s from %u to %u | %s | %s |\n", key, forms[form], \
                       (unsigned)(least), (unsigned)(most), (usual) ? #usual : "", doc);
#include "base/vta_config.def"
#undef X
    kiln_strbuf_text(out, "\nThe feature set is `v1`, `v2` (all of these), or `v1` with some, as "
                          "`v1+first+chain`, `v2-mul`:\n\n| feature | |\n|---|---|\n");
#define X(NAME, name, doc) kiln_strbuf_printf(out, "| `%s` | %s |\n", name, doc);
#include "base/vta_features.def"
#undef X
    kiln_strbuf_text(out, "\n| preset | configuration | |\n|---|---|---|\n");
#define X(name, config, doc) kiln_strbuf_printf(out, "| `%s` | `%s` | %s |\n", name, config, doc);
#include "base/vta_presets.def"
#undef X
}

static void print_instructions(kiln_strbuf *out) {
    kiln_strbuf_text(out, "\n## Instructions\n\n| number | | |\n|---|---|---|\n");
#define OPCODE(NAME, number, name, FORM, doc) \
    kiln_strbuf_printf(out, "| %d | `%s` | %s |\n", number, name, doc);
#include "vta/isa.def"
    kiln_strbuf_text(out, "\nOperations of the ALU:\n\n| number | | |\n|---|---|---|\n");
#define ALU_OP(NAME, number, name, FEATURE, doc) \
    kiln_strbuf_printf(out, "| %d | `%s` | %s |\n", number, name, doc);
#include "vta/isa.def"
    kiln_strbuf_text(out, "\nAn instruction has two words of 64 bits, little endian. Its fields "
                          "are in this order, from the lowest bit of their word on; each "
                          "instruction has those of its forms (COMMON: all; MEMORY: load and "
                          "store; LOOPS: gemm and alu). Widths are those of `pynq`.\n\n"
                          "| field | of | word | bits | |\n|---|---|---|---|---|\n");
    kiln_vta_config pynq = {0};
    expect_ok(kiln_vta_config_parse(KILN_STR("pynq"), &pynq));
    const kiln_vta_sizes sizes = kiln_vta_sizes_of(&pynq), *s = &sizes;
#define FIELD(FORM, field, word, bits, KIND, FEATURE, doc)                         \
    kiln_strbuf_printf(out, "| `%s` | %s | %d | %u | %s |\n", #field, #FORM, word, \
                       (unsigned)(bits), doc);
#include "vta/isa.def"
    kiln_strbuf_text(out, "\nA micro-op has 32 bits: dst, src and wgt, as many bits each as its "
                          "tiles need (src: inputs or accumulators, whichever are more).\n\n"
                          "| memory | number |\n|---|---|\n");
    for (uint32_t i = 0; i < KILN_VTA_MEMORY_COUNT; i++)
        kiln_strbuf_printf(out, "| `%s` | %u |\n", kiln_vta_memory_name(i), i);
}

static void print_faults(kiln_strbuf *out) {
    kiln_strbuf_text(out, "\n## What can be wrong with a program\n\n| name | |\n|---|---|\n");
    for (uint32_t i = 1; i < KILN_VTA_FAULT_COUNT; i++)
        kiln_strbuf_printf(out, "| %s | %s |\n", kiln_vta_fault_name((kiln_vta_fault_kind)i),
                           kiln_vta_fault_words((kiln_vta_fault_kind)i));
}

static void the_reference_is_what_the_tables_say(void **state) {
    static const char path[] = "docs/reference/vta.md";
    kiln_strbuf docs = {0};
    kiln_str stored = {0};
    kiln_strbuf_text(&docs, head);
    print_config(&docs);
    print_instructions(&docs);
    print_faults(&docs);
    if (kiln_env("KILN_GOLDEN_UPDATE"))
        expect_ok(kiln_file_write(path, kiln_strbuf_view(&docs), 0644));
    expect_ok(kiln_file_read(path, 1 << 20, *state, &stored));
    assert_true(kiln_str_equal(stored, kiln_strbuf_view(&docs)));
    kiln_strbuf_deinit(&docs);
}

int main(void) {
    const struct CMUnitTest tests[] = {test_with_arena(the_reference_is_what_the_tables_say)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
