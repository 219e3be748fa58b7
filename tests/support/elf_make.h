/* A tiny writer of relocatable x86-64 ELF objects, so that tests can make right ones and every kind
 * of wrong one without a compiler. Nothing is checked: what is asked for is written. */
#ifndef KILN_TESTS_ELF_MAKE_H
#define KILN_TESTS_ELF_MAKE_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

#define ELF_MAKE_MAX 32u

typedef struct elf_make_section {
    const char *name;
    uint32_t type;
    uint64_t flags, alignment;
    const void *data; /* not copied */
    size_t size;
} elf_make_section;

typedef struct elf_make_relocation {
    uint32_t section, symbol, type;
    uint64_t offset;
    int64_t addend;
} elf_make_relocation;

/* Zero-initialise, add, finish. */
typedef struct elf_make {
    uint32_t section_count, symbol_count, relocation_count;
    elf_make_section section[ELF_MAKE_MAX]; /* numbered from 1 in the object */
    Elf64_Sym symbol[ELF_MAKE_MAX];         /* numbered from 1 in the object */
    const char *symbol_name[ELF_MAKE_MAX];
    elf_make_relocation relocation[ELF_MAKE_MAX];
} elf_make;

/* Return the index in the object. */
uint32_t elf_make_add_section(elf_make *e, const char *name, uint32_t type, uint64_t flags,
                              const void *data, size_t size);
uint32_t elf_make_add_symbol(elf_make *e, const char *name, uint8_t info, uint16_t section,
                             uint64_t value);
void elf_make_add_relocation(elf_make *e, uint32_t section, uint64_t offset, uint32_t symbol,
                             uint32_t type, int64_t addend);
/* Usual cases: a .text section, a .rodata section, a global function. */
uint32_t elf_make_add_text(elf_make *e, const void *code, size_t size);
uint32_t elf_make_add_rodata(elf_make *e, const void *data, size_t size);
uint32_t elf_make_add_function(elf_make *e, const char *name, uint16_t section, uint64_t value);

/* Appends the object; the section table is its last part. */
void elf_make_finish(const elf_make *e, kiln_strbuf *out);

/* Views into a finished object, for spoiling it. `elf_section_at` numbers as the object does;
 * `elf_section_find` by type, the first one. */
Elf64_Ehdr *elf_header(kiln_strbuf *object);
Elf64_Shdr *elf_section_at(kiln_strbuf *object, uint32_t index);
Elf64_Shdr *elf_section_find(kiln_strbuf *object, uint32_t type);

#endif
