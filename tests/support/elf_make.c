#include "tests/support/elf_make.h"

#include <string.h>

#include "base/check.h"

uint32_t elf_make_add_section(elf_make *e, const char *name, uint32_t type, uint64_t flags,
                              const void *data, size_t size) {
    KILN_CHECK(e->section_count < ELF_MAKE_MAX);
    e->section[e->section_count] = (elf_make_section){name, type, flags, 16, data, size};
    return ++e->section_count;
}

uint32_t elf_make_add_symbol(elf_make *e, const char *name, uint8_t info, uint16_t section,
                             uint64_t value) {
    KILN_CHECK(e->symbol_count < ELF_MAKE_MAX);
    e->symbol_name[e->symbol_count] = name;
    e->symbol[e->symbol_count] =
        (Elf64_Sym){.st_info = info, .st_shndx = section, .st_value = value};
    return ++e->symbol_count;
}

void elf_make_add_relocation(elf_make *e, uint32_t section, uint64_t offset, uint32_t symbol,
                             uint32_t type, int64_t addend) {
    KILN_CHECK(e->relocation_count < ELF_MAKE_MAX);
    e->relocation[e->relocation_count++] =
        (elf_make_relocation){section, symbol, type, offset, addend};
}

uint32_t elf_make_add_text(elf_make *e, const void *code, size_t size) {
    return elf_make_add_section(e, ".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, code, size);
}

uint32_t elf_make_add_rodata(elf_make *e, const void *data, size_t size) {
    return elf_make_add_section(e, ".rodata", SHT_PROGBITS, SHF_ALLOC, data, size);
}

uint32_t elf_make_add_function(elf_make *e, const char *name, uint16_t section, uint64_t value) {
    return elf_make_add_symbol(e, name, ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), section, value);
}

/* Appends a NUL-terminated string; returns where it begins. */
static uint32_t add_string(kiln_strbuf *table, const char *text) {
    uint32_t at = (uint32_t)table->size;
    kiln_strbuf_append(table, text, strlen(text) + 1);
    return at;
}

/* Appends a section's bytes, 16-byte aligned, and fills in the header's place and size. */
static void put(kiln_strbuf *out, Elf64_Shdr *header, const void *data, size_t size) {
    while (out->size % 16 != 0) kiln_strbuf_char(out, 0);
    header->sh_offset = out->size;
    header->sh_size = size;
    if (header->sh_type != SHT_NOBITS) kiln_strbuf_append(out, data, size);
}

void elf_make_finish(const elf_make *e, kiln_strbuf *out) {
    /* null, the user's, .symtab, .strtab, .shstrtab, one relocation section for each of the user's.
     */
    uint32_t symtab = e->section_count + 1, strtab = symtab + 1, shstrtab = symtab + 2,
             rela = symtab + 3;
    Elf64_Shdr header[2 * ELF_MAKE_MAX + 4];
    memset(header, 0, sizeof header);
    uint32_t count = rela;
    kiln_strbuf names = {0}, strings = {0};
    (void)add_string(&names, "");
    (void)add_string(&strings, "");
    static const Elf64_Ehdr room;
    kiln_strbuf_append(out, &room, sizeof room);

    for (uint32_t i = 0; i < e->section_count; i++) {
        const elf_make_section *s = &e->section[i];
        header[i + 1] = (Elf64_Shdr){.sh_name = add_string(&names, s->name),
                                     .sh_type = s->type,
                                     .sh_flags = s->flags,
                                     .sh_addralign = s->alignment};
        put(out, &header[i + 1], s->data, s->size);
    }
    Elf64_Sym symbol[ELF_MAKE_MAX + 1];
    memset(symbol, 0, sizeof symbol);
    for (uint32_t i = 0; i < e->symbol_count; i++) {
        symbol[i + 1] = e->symbol[i];
        symbol[i + 1].st_name = add_string(&strings, e->symbol_name[i]);
    }
    header[symtab] = (Elf64_Shdr){.sh_name = add_string(&names, ".symtab"),
                                  .sh_type = SHT_SYMTAB,
                                  .sh_link = strtab,
                                  .sh_info = 1,
                                  .sh_entsize = sizeof(Elf64_Sym)};
    put(out, &header[symtab], symbol, (e->symbol_count + 1) * sizeof(Elf64_Sym));
    for (uint32_t s = 1; s <= e->section_count; s++) {
        Elf64_Rela list[ELF_MAKE_MAX];
        uint32_t list_count = 0;
        for (uint32_t i = 0; i < e->relocation_count; i++) {
            const elf_make_relocation *r = &e->relocation[i];
            if (r->section != s) continue;
            list[list_count++] =
                (Elf64_Rela){r->offset, ELF64_R_INFO((uint64_t)r->symbol, r->type), r->addend};
        }
        if (list_count == 0) continue;
        header[count] = (Elf64_Shdr){.sh_name = add_string(&names, ".rela"),
                                     .sh_type = SHT_RELA,
                                     .sh_link = symtab,
                                     .sh_info = s,
                                     .sh_entsize = sizeof(Elf64_Rela)};
        put(out, &header[count++], list, list_count * sizeof(Elf64_Rela));
    }
    header[strtab] = (Elf64_Shdr){.sh_name = add_string(&names, ".strtab"), .sh_type = SHT_STRTAB};
    put(out, &header[strtab], strings.data, strings.size);
    header[shstrtab] =
        (Elf64_Shdr){.sh_name = add_string(&names, ".shstrtab"), .sh_type = SHT_STRTAB};
    put(out, &header[shstrtab], names.data, names.size);

    Elf64_Shdr table = {0};
    put(out, &table, header, count * sizeof(Elf64_Shdr));
    *elf_header(out) = (Elf64_Ehdr){
        .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
        .e_type = ET_REL,
        .e_machine = EM_X86_64,
        .e_version = EV_CURRENT,
        .e_shoff = table.sh_offset,
        .e_ehsize = sizeof(Elf64_Ehdr),
        .e_shentsize = sizeof(Elf64_Shdr),
        .e_shnum = (uint16_t)count,
        .e_shstrndx = (uint16_t)shstrtab,
    };
    kiln_strbuf_deinit(&names);
    kiln_strbuf_deinit(&strings);
}

/* The builder's memory is aligned for any type, and so are all offsets in an object made here. */
Elf64_Ehdr *elf_header(kiln_strbuf *object) { return (Elf64_Ehdr *)(void *)object->data; }

Elf64_Shdr *elf_section_at(kiln_strbuf *object, uint32_t index) {
    return (Elf64_Shdr *)(void *)(object->data + elf_header(object)->e_shoff) + index;
}

Elf64_Shdr *elf_section_find(kiln_strbuf *object, uint32_t type) {
    for (uint32_t i = 0; i < elf_header(object)->e_shnum; i++)
        if (elf_section_at(object, i)->sh_type == type) return elf_section_at(object, i);
    return NULL;
}
