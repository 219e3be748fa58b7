/* Reads the structures of ELF files of either class into the 64-bit ones, so that the loader
 * handles one form only. Private to the loader. Bounds are not checked here: callers must have
 * checked them. */
#ifndef KILN_DEPLOY_ELF_READ_H
#define KILN_DEPLOY_ELF_READ_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>

/* Sizes of the structures in a file of one class. */
typedef struct kiln_elf_class {
    bool wide; /* ELFCLASS64 */
    size_t header_bytes, section_bytes, symbol_bytes;
    size_t rela_bytes, rel_bytes; /* relocations with and without addends */
} kiln_elf_class;

extern const kiln_elf_class kiln_elf_32, kiln_elf_64;

Elf64_Ehdr kiln_elf_header(const kiln_elf_class *c, const char *at);
Elf64_Shdr kiln_elf_section(const kiln_elf_class *c, const char *at);
Elf64_Sym kiln_elf_symbol(const kiln_elf_class *c, const char *at);
/* The addend is 0 if the file has none. */
Elf64_Rela kiln_elf_relocation(const kiln_elf_class *c, const char *at, bool has_addend);

#endif
