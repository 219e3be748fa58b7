/* The object contract on hand-made objects: what is accepted, and every way to be refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rand.h"
#include "deploy/runtime/load.h"
#include "tests/support/elf_make.h"

/* mov eax, [rip + 0]; jmp 0 */
static const uint8_t code[] = {0x8b, 0x05, 0, 0,    0,    0,    0xe9, 0,
                               0,    0,    0, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc};
static const uint8_t data[16] = {1, 2, 3, 4};

/* The good object that the tests spoil: section 1 is .text, 2 is .rodata; symbol 1 is kiln_run, 2
 * is in .rodata, 3 is memcpy. */
static elf_make good(void) {
    elf_make e = {0};
    (void)elf_make_add_text(&e, code, sizeof code);
    (void)elf_make_add_rodata(&e, data, sizeof data);
    (void)elf_make_add_function(&e, "kiln_run", 1, 0);
    (void)elf_make_add_symbol(&e, "table", ELF64_ST_INFO(STB_LOCAL, STT_OBJECT), 2, 0);
    (void)elf_make_add_symbol(&e, "memcpy", ELF64_ST_INFO(STB_GLOBAL, STT_NOTYPE), SHN_UNDEF, 0);
    elf_make_add_relocation(&e, 1, 2, 2, R_X86_64_PC32, -4);
    elf_make_add_relocation(&e, 1, 7, 3, R_X86_64_PLT32, -4);
    return e;
}

static kiln_code check_bytes(const kiln_strbuf *object, const char *expected_text) {
    /* An exact copy on the heap, so that a sanitizer sees every read past the end. */
    char *copy = kiln_alloc(object->size);
    memcpy(copy, object->data, object->size);
    kiln_status st = kiln_object_check((kiln_str){copy, object->size}, KILN_ARCH_X86_64, NULL);
    kiln_free(copy);
    kiln_code result = kiln_status_code(st);
    if (expected_text && !strstr(kiln_status_text(st), expected_text))
        fail_msg("'%s' does not say '%s'", kiln_status_text(st), expected_text);
    kiln_status_free(st);
    return result;
}

static void expect(const elf_make *e, kiln_code expected, const char *text) {
    kiln_strbuf object = {0};
    elf_make_finish(e, &object);
    assert_int_equal(check_bytes(&object, text), expected);
    kiln_strbuf_deinit(&object);
}

static void good_object_is_accepted(void **state) {
    (void)state;
    elf_make e = good();
    expect(&e, KILN_OK, NULL);
}

static void missing_entry_is_named(void **state) {
    (void)state;
    elf_make e = good();
    kiln_strbuf object = {0};
    elf_make_finish(&e, &object);
    const char *present[] = {"kiln_run", NULL}, *absent[] = {"kiln_run", "kiln_prepare", NULL},
               *no_code[] = {"table", NULL};
    assert_null(kiln_object_check(kiln_strbuf_view(&object), KILN_ARCH_X86_64, present));
    kiln_status st = kiln_object_check(kiln_strbuf_view(&object), KILN_ARCH_X86_64, absent);
    assert_int_equal(kiln_status_code(st), KILN_NOT_FOUND);
    assert_non_null(strstr(kiln_status_text(st), "kiln_prepare"));
    kiln_status_free(st);
    st = kiln_object_check(kiln_strbuf_view(&object), KILN_ARCH_X86_64, no_code);
    assert_int_equal(kiln_status_code(st), KILN_NOT_FOUND);
    kiln_status_free(st);
    kiln_strbuf_deinit(&object);
}

static void processor_without_loader_is_refused(void **state) {
    (void)state;
    kiln_status st = kiln_object_check(KILN_STR("x"), KILN_ARCH_OTHER, NULL);
    assert_int_equal(kiln_status_code(st), KILN_UNIMPLEMENTED);
    kiln_status_free(st);
}

static void what_only_linkers_need_is_ignored(void **state) {
    (void)state;
    elf_make e = good();
    (void)elf_make_add_section(&e, ".comment", SHT_PROGBITS, SHF_MERGE | SHF_STRINGS, "x", 2);
    (void)elf_make_add_section(&e, ".note.GNU-stack", SHT_PROGBITS, 0, "", 0);
    (void)elf_make_add_section(&e, ".note.gnu.property", SHT_NOTE, SHF_ALLOC, "note", 4);
    (void)elf_make_add_section(&e, ".llvm_addrsig", 0x6fff4c03, 0, "\1", 1);
    (void)elf_make_add_section(&e, ".data", SHT_PROGBITS, SHF_ALLOC | SHF_WRITE, "", 0);
    (void)elf_make_add_section(&e, ".bss", SHT_NOBITS, SHF_ALLOC | SHF_WRITE, NULL, 0);
    (void)elf_make_add_symbol(&e, "model.c", ELF64_ST_INFO(STB_LOCAL, STT_FILE), SHN_ABS, 0);
    expect(&e, KILN_OK, NULL);
}

static void section_outside_the_contract_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *name;
        uint32_t type;
        uint64_t flags;
    } wrong[] = {
        {".data", SHT_PROGBITS, SHF_ALLOC | SHF_WRITE},
        {".data.rel.ro", SHT_PROGBITS, SHF_ALLOC | SHF_WRITE},
        {".bss", SHT_NOBITS, SHF_ALLOC | SHF_WRITE},
        {".rodata", SHT_NOBITS, SHF_ALLOC},
        {".tbss", SHT_NOBITS, SHF_ALLOC | SHF_WRITE | SHF_TLS},
        {".rodata.tls", SHT_PROGBITS, SHF_ALLOC | SHF_TLS},
        {".eh_frame", SHT_PROGBITS, SHF_ALLOC},
        {".eh_frame", 0x70000001, SHF_ALLOC},
        {".init_array", SHT_INIT_ARRAY, SHF_ALLOC | SHF_WRITE},
        {".text", SHT_PROGBITS, SHF_ALLOC},
        {".rodata", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR},
        {".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR | SHF_WRITE},
        {".rodata2", SHT_PROGBITS, SHF_ALLOC},
        {".rodata", SHT_PROGBITS, SHF_ALLOC | SHF_COMPRESSED},
        {".got", SHT_PROGBITS, SHF_ALLOC},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        elf_make e = good();
        (void)elf_make_add_section(&e, wrong[i].name, wrong[i].type, wrong[i].flags, data,
                                   sizeof data);
        expect(&e, KILN_UNIMPLEMENTED, wrong[i].name);
    }
}

static void symbol_outside_the_contract_is_refused(void **state) {
    (void)state;
    elf_make e = good();
    (void)elf_make_add_function(&e, "system", SHN_UNDEF, 0);
    expect(&e, KILN_NOT_FOUND, "system");
    e = good();
    (void)elf_make_add_function(&e, "memcpy2", SHN_UNDEF, 0);
    expect(&e, KILN_NOT_FOUND, "memcpy2");
    e = good();
    (void)elf_make_add_symbol(&e, "_GLOBAL_OFFSET_TABLE_", ELF64_ST_INFO(STB_GLOBAL, STT_NOTYPE),
                              SHN_UNDEF, 0);
    expect(&e, KILN_NOT_FOUND, "_GLOBAL_OFFSET_TABLE_");
    e = good();
    (void)elf_make_add_symbol(&e, "shared", ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT), SHN_COMMON, 8);
    expect(&e, KILN_UNIMPLEMENTED, "shared");
    e = good();
    (void)elf_make_add_symbol(&e, "mine", ELF64_ST_INFO(STB_GLOBAL, STT_TLS), 1, 0);
    expect(&e, KILN_UNIMPLEMENTED, "mine");
    e = good();
    (void)elf_make_add_symbol(&e, "late", ELF64_ST_INFO(STB_GLOBAL, STT_GNU_IFUNC), 1, 0);
    expect(&e, KILN_UNIMPLEMENTED, "late");
    e = good();
    (void)elf_make_add_function(&e, "far", 77, 0);
    expect(&e, KILN_DATA_LOSS, "far");
    e = good();
    (void)elf_make_add_function(&e, "past", 1, sizeof code + 1);
    expect(&e, KILN_DATA_LOSS, "past");
}

static void error_text_shows_no_control_characters(void **state) {
    (void)state;
    elf_make e = good();
    (void)elf_make_add_function(&e, "\x1b[31mred", SHN_UNDEF, 0);
    expect(&e, KILN_NOT_FOUND, "?[31mred");
}

static void relocation_outside_the_contract_is_refused(void **state) {
    (void)state;
    static const struct {
        uint32_t type;
        const char *text;
    } wrong[] = {
        {R_X86_64_NONE, "not in the object contract"},
        {R_X86_64_GOTPCREL, "GOT"},
        {R_X86_64_GOTPCRELX, "R_X86_64_GOTPCRELX"},
        {R_X86_64_REX_GOTPCRELX, "GOT"},
        {R_X86_64_TPOFF32, "thread-local"},
        {R_X86_64_PC64, "code model"},
        {R_X86_64_RELATIVE, "not in the object contract"},
        {0xffffffff, "not in the object contract"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        elf_make e = good();
        elf_make_add_relocation(&e, 1, 12, 2, wrong[i].type, 0);
        expect(&e, KILN_UNIMPLEMENTED, wrong[i].text);
    }
}

static void relocation_outside_its_section_is_refused(void **state) {
    (void)state;
    static const uint64_t wrong[] = {13, 15, 16, 17, UINT64_MAX, UINT64_MAX - 3};
    elf_make e = good();
    elf_make_add_relocation(&e, 1, 12, 2, R_X86_64_PC32, 0);
    expect(&e, KILN_OK, NULL);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        e = good();
        elf_make_add_relocation(&e, 1, wrong[i], 2, R_X86_64_PC32, 0);
        expect(&e, KILN_DATA_LOSS, "outside its section");
    }
    e = good();
    elf_make_add_relocation(&e, 2, 9, 2, R_X86_64_64, 0);
    expect(&e, KILN_DATA_LOSS, "outside its section");
}

static void relocation_to_nowhere_is_refused(void **state) {
    (void)state;
    elf_make e = good();
    elf_make_add_relocation(&e, 1, 12, 0, R_X86_64_PC32, 0);
    expect(&e, KILN_DATA_LOSS, "symbol 0");
    e = good();
    elf_make_add_relocation(&e, 1, 12, 4, R_X86_64_PC32, 0);
    expect(&e, KILN_DATA_LOSS, "symbol 4 of 4");
    e = good();
    uint32_t comment = elf_make_add_section(&e, ".comment", SHT_PROGBITS, 0, "x", 2);
    uint32_t symbol =
        elf_make_add_symbol(&e, "note", ELF64_ST_INFO(STB_LOCAL, STT_OBJECT), (uint16_t)comment, 0);
    elf_make_add_relocation(&e, 1, 12, symbol, R_X86_64_PC32, 0);
    expect(&e, KILN_UNIMPLEMENTED, "no loaded section");
}

static void value_that_does_not_fit_is_refused(void **state) {
    (void)state;
    static const struct {
        uint32_t type;
        int64_t addend;
        kiln_code expected;
    } row[] = {
        {R_X86_64_PC32, INT32_MAX - 65536, KILN_OK},
        {R_X86_64_PC32, (int64_t)1 << 32, KILN_OUT_OF_RANGE},
        {R_X86_64_PC32, INT64_MIN, KILN_OUT_OF_RANGE},
        {R_X86_64_PLT32, INT64_MAX, KILN_OUT_OF_RANGE},
        {R_X86_64_32, 0, KILN_OK},
        {R_X86_64_32, -((int64_t)1 << 31), KILN_OUT_OF_RANGE},
        {R_X86_64_32, (int64_t)1 << 31, KILN_OK},
        {R_X86_64_32S, (int64_t)1 << 31, KILN_OUT_OF_RANGE},
        {R_X86_64_32S, -((int64_t)1 << 31), KILN_OK},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        elf_make e = good();
        elf_make_add_relocation(&e, 1, 12, 2, row[i].type, row[i].addend);
        expect(&e, row[i].expected, row[i].expected == KILN_OK ? NULL : "does not fit");
    }
}

/* Each row spoils one number of a good object. */
typedef void (*spoil)(kiln_strbuf *object);
static void spoil_magic(kiln_strbuf *o) { o->data[3] = 'G'; }
static void spoil_class(kiln_strbuf *o) { elf_header(o)->e_ident[EI_CLASS] = ELFCLASS32; }
static void spoil_order(kiln_strbuf *o) { elf_header(o)->e_ident[EI_DATA] = ELFDATA2MSB; }
static void spoil_machine(kiln_strbuf *o) { elf_header(o)->e_machine = EM_AARCH64; }
static void spoil_type(kiln_strbuf *o) { elf_header(o)->e_type = ET_DYN; }
static void spoil_version(kiln_strbuf *o) { elf_header(o)->e_version = 2; }
static void spoil_segments(kiln_strbuf *o) { elf_header(o)->e_phnum = 1; }
static void spoil_entry_size(kiln_strbuf *o) { elf_header(o)->e_shentsize = 40; }
static void spoil_section_count(kiln_strbuf *o) { elf_header(o)->e_shnum = 0; }
static void spoil_section_count_up(kiln_strbuf *o) { elf_header(o)->e_shnum++; }
static void spoil_section_count_far(kiln_strbuf *o) { elf_header(o)->e_shnum = 0xffff; }
static void spoil_table_offset(kiln_strbuf *o) { elf_header(o)->e_shoff = UINT64_MAX - 64; }
static void spoil_names_index(kiln_strbuf *o) { elf_header(o)->e_shstrndx = 0xff; }
static void spoil_names_kind(kiln_strbuf *o) { elf_header(o)->e_shstrndx = 1; }
static void spoil_section_name(kiln_strbuf *o) { elf_section_at(o, 1)->sh_name = UINT32_MAX; }
static void spoil_section_offset(kiln_strbuf *o) { elf_section_at(o, 1)->sh_offset = UINT64_MAX; }
static void spoil_section_size(kiln_strbuf *o) { elf_section_at(o, 1)->sh_size = UINT64_MAX; }
static void spoil_alignment(kiln_strbuf *o) { elf_section_at(o, 1)->sh_addralign = 24; }
static void spoil_alignment_large(kiln_strbuf *o) {
    elf_section_at(o, 1)->sh_addralign = UINT64_C(1) << 63;
}
static void spoil_symbol_size(kiln_strbuf *o) { elf_section_find(o, SHT_SYMTAB)->sh_entsize = 0; }
static void spoil_symbol_bytes(kiln_strbuf *o) { elf_section_find(o, SHT_SYMTAB)->sh_size -= 1; }
static void spoil_symbol_strings(kiln_strbuf *o) { elf_section_find(o, SHT_SYMTAB)->sh_link = 99; }
static void spoil_symbol_strings_kind(kiln_strbuf *o) {
    elf_section_find(o, SHT_SYMTAB)->sh_link = 1;
}
static void spoil_string_end(kiln_strbuf *o) { elf_section_find(o, SHT_STRTAB)->sh_size -= 1; }
static void spoil_relocation_size(kiln_strbuf *o) {
    elf_section_find(o, SHT_RELA)->sh_entsize = 16;
}
static void spoil_relocation_bytes(kiln_strbuf *o) { elf_section_find(o, SHT_RELA)->sh_size -= 8; }
static void spoil_relocation_symbols(kiln_strbuf *o) { elf_section_find(o, SHT_RELA)->sh_link = 1; }
static void spoil_relocation_target(kiln_strbuf *o) { elf_section_find(o, SHT_RELA)->sh_info = 99; }
static void spoil_relocation_kind(kiln_strbuf *o) {
    elf_section_find(o, SHT_RELA)->sh_type = SHT_REL;
}

static void spoilt_number_is_refused(void **state) {
    (void)state;
    static const struct {
        spoil apply;
        kiln_code expected;
    } row[] = {
        {spoil_magic, KILN_DATA_LOSS},
        {spoil_class, KILN_UNIMPLEMENTED},
        {spoil_order, KILN_UNIMPLEMENTED},
        {spoil_machine, KILN_UNIMPLEMENTED},
        {spoil_type, KILN_UNIMPLEMENTED},
        {spoil_version, KILN_UNIMPLEMENTED},
        {spoil_segments, KILN_DATA_LOSS},
        {spoil_entry_size, KILN_DATA_LOSS},
        {spoil_section_count, KILN_OUT_OF_RANGE},
        {spoil_section_count_up, KILN_DATA_LOSS},
        {spoil_section_count_far, KILN_OUT_OF_RANGE},
        {spoil_table_offset, KILN_DATA_LOSS},
        {spoil_names_kind, KILN_DATA_LOSS},
        {spoil_section_name, KILN_DATA_LOSS},
        {spoil_section_offset, KILN_DATA_LOSS},
        {spoil_section_size, KILN_DATA_LOSS},
        {spoil_alignment, KILN_DATA_LOSS},
        {spoil_alignment_large, KILN_DATA_LOSS},
        {spoil_symbol_size, KILN_DATA_LOSS},
        {spoil_symbol_bytes, KILN_DATA_LOSS},
        {spoil_symbol_strings, KILN_DATA_LOSS},
        {spoil_symbol_strings_kind, KILN_DATA_LOSS},
        {spoil_string_end, KILN_DATA_LOSS},
        {spoil_relocation_size, KILN_DATA_LOSS},
        {spoil_relocation_bytes, KILN_DATA_LOSS},
        {spoil_relocation_symbols, KILN_DATA_LOSS},
        {spoil_relocation_target, KILN_DATA_LOSS},
        {spoil_relocation_kind, KILN_UNIMPLEMENTED},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        elf_make e = good();
        kiln_strbuf object = {0};
        elf_make_finish(&e, &object);
        row[i].apply(&object);
        kiln_code found = check_bytes(&object, "object");
        if (found != row[i].expected) fail_msg("row %zu: %s", i, kiln_code_name(found));
        kiln_strbuf_deinit(&object);
    }
}

static void section_names_must_exist(void **state) {
    (void)state;
    elf_make e = good();
    kiln_strbuf object = {0};
    elf_make_finish(&e, &object);
    spoil_names_index(&object);
    assert_int_equal(check_bytes(&object, "section names are in section 255"), KILN_DATA_LOSS);
    kiln_strbuf_deinit(&object);
}

static void two_symbol_tables_are_refused(void **state) {
    (void)state;
    elf_make e = good();
    (void)elf_make_add_section(&e, ".symtab", SHT_SYMTAB, 0, data, 0);
    expect(&e, KILN_DATA_LOSS, "two symbol tables");
}

static void sections_that_share_bytes_cannot_multiply_memory(void **state) {
    (void)state;
    static uint8_t large[(4u << 20) + 1];
    elf_make e = good();
    for (uint32_t i = 0; i < 8; i++) (void)elf_make_add_rodata(&e, large, sizeof large);
    kiln_strbuf object = {0};
    elf_make_finish(&e, &object);
    assert_int_equal(check_bytes(&object, "object has"),
                     KILN_OUT_OF_RANGE); /* the file alone is too large */
    kiln_strbuf_reset(&object);
    e = good();
    for (uint32_t i = 0; i < 9; i++)
        (void)elf_make_add_rodata(&e, i ? large : data, i ? 16 : sizeof data);
    (void)elf_make_add_section(&e, ".comment", SHT_PROGBITS, 0, large, sizeof large);
    elf_make_finish(&e, &object);
    Elf64_Shdr *whole = elf_section_at(&object, e.section_count);
    for (uint32_t i = 4; i < e.section_count; i++) {
        elf_section_at(&object, i)->sh_offset = whole->sh_offset;
        elf_section_at(&object, i)->sh_size = whole->sh_size;
    }
    assert_int_equal(check_bytes(&object, "sections take more than"), KILN_OUT_OF_RANGE);
    kiln_strbuf_deinit(&object);
}

/* Moves a section behind the end, where it has `size` zero bytes. */
static void enlarge(kiln_strbuf *object, uint32_t type, size_t size) {
    size_t end = object->size;
    char *zero = kiln_alloc(size);
    kiln_strbuf_append(object, zero, size);
    kiln_free(zero);
    elf_section_find(object, type)->sh_offset = end;
    elf_section_find(object, type)->sh_size = size;
}

static void too_many_of_anything_is_refused(void **state) {
    (void)state;
    elf_make e = good();
    kiln_strbuf object = {0};
    elf_make_finish(&e, &object);
    enlarge(&object, SHT_SYMTAB, (KILN_OBJECT_SYMBOLS_MAX + 1) * sizeof(Elf64_Sym));
    assert_int_equal(check_bytes(&object, "65537 symbols"), KILN_OUT_OF_RANGE);
    kiln_strbuf_reset(&object);
    elf_make_finish(&e, &object);
    enlarge(&object, SHT_RELA, ((1u << 20) + 1) * sizeof(Elf64_Rela));
    assert_int_equal(check_bytes(&object, "1048577 relocations"), KILN_OUT_OF_RANGE);
    kiln_strbuf_deinit(&object);
}

static void object_without_symbols_is_refused(void **state) {
    (void)state;
    elf_make e = good();
    kiln_strbuf object = {0};
    elf_make_finish(&e, &object);
    elf_section_find(&object, SHT_SYMTAB)->sh_type = SHT_NULL;
    assert_int_equal(check_bytes(&object, "no symbol table"), KILN_DATA_LOSS);
    kiln_strbuf_deinit(&object);
}

static void object_cut_at_any_byte_is_refused(void **state) {
    (void)state;
    elf_make e = good();
    kiln_strbuf object = {0};
    elf_make_finish(&e, &object);
    size_t whole = object.size;
    for (size_t size = 0; size < whole; size++) {
        object.size = size;
        kiln_code found = check_bytes(&object, NULL);
        if (found != KILN_DATA_LOSS)
            fail_msg("cut at %zu of %zu: %s", size, whole, kiln_code_name(found));
    }
    kiln_strbuf_deinit(&object);
}

/* No promise about the answer, only that there is one: sanitizers and guard pages watch. */
static void random_damage_is_survived(void **state) {
    (void)state;
    kiln_rand r;
    kiln_rand_init(&r, 7);
    elf_make e = good();
    kiln_strbuf object = {0};
    elf_make_finish(&e, &object);
    uint32_t refused = 0;
    char *copy = kiln_alloc(object.size);
    for (uint32_t round = 0; round < 20000; round++) {
        memcpy(copy, object.data, object.size);
        uint64_t changes = 1 + kiln_rand_below(&r, 4);
        for (uint64_t i = 0; i < changes; i++)
            copy[kiln_rand_below(&r, object.size)] = (char)kiln_rand_u64(&r);
        kiln_status st = kiln_object_check((kiln_str){copy, object.size}, KILN_ARCH_X86_64, NULL);
        refused += st != NULL;
        kiln_status_free(st);
    }
    assert_true(refused > 5000);
    kiln_free(copy);
    kiln_strbuf_deinit(&object);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_object_is_accepted),
        cmocka_unit_test(missing_entry_is_named),
        cmocka_unit_test(processor_without_loader_is_refused),
        cmocka_unit_test(what_only_linkers_need_is_ignored),
        cmocka_unit_test(section_outside_the_contract_is_refused),
        cmocka_unit_test(symbol_outside_the_contract_is_refused),
        cmocka_unit_test(error_text_shows_no_control_characters),
        cmocka_unit_test(relocation_outside_the_contract_is_refused),
        cmocka_unit_test(relocation_outside_its_section_is_refused),
        cmocka_unit_test(relocation_to_nowhere_is_refused),
        cmocka_unit_test(value_that_does_not_fit_is_refused),
        cmocka_unit_test(spoilt_number_is_refused),
        cmocka_unit_test(section_names_must_exist),
        cmocka_unit_test(two_symbol_tables_are_refused),
        cmocka_unit_test(sections_that_share_bytes_cannot_multiply_memory),
        cmocka_unit_test(too_many_of_anything_is_refused),
        cmocka_unit_test(object_without_symbols_is_refused),
        cmocka_unit_test(object_cut_at_any_byte_is_refused),
        cmocka_unit_test(random_damage_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
