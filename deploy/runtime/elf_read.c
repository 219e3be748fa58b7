#include "deploy/runtime/elf_read.h"

#include <string.h>

const kiln_elf_class kiln_elf_32 = {false,
                                    sizeof(Elf32_Ehdr),
                                    sizeof(Elf32_Shdr),
                                    sizeof(Elf32_Sym),
                                    sizeof(Elf32_Rela),
                                    sizeof(Elf32_Rel)};
const kiln_elf_class kiln_elf_64 = {true,
                                    sizeof(Elf64_Ehdr),
                                    sizeof(Elf64_Shdr),
                                    sizeof(Elf64_Sym),
                                    sizeof(Elf64_Rela),
                                    sizeof(Elf64_Rel)};

Elf64_Ehdr kiln_elf_header(const kiln_elf_class *c, const char *at) {
    Elf64_Ehdr h;
    if (c->wide) {
        memcpy(&h, at, sizeof h);
        return h;
    }
    Elf32_Ehdr n;
    memcpy(&n, at, sizeof n);
    h = (Elf64_Ehdr){.e_type = n.e_type,
                     .e_machine = n.e_machine,
                     .e_version = n.e_version,
                     .e_entry = n.e_entry,
                     .e_phoff = n.e_phoff,
                     .e_shoff = n.e_shoff,
                     .e_flags = n.e_flags,
                     .e_ehsize = n.e_ehsize,
                     .e_phentsize = n.e_phentsize,
                     .e_phnum = n.e_phnum,
                     .e_shentsize = n.e_shentsize,
                     .e_shnum = n.e_shnum,
                     .e_shstrndx = n.e_shstrndx};
    memcpy(h.e_ident, n.e_ident, sizeof h.e_ident);
    return h;
}

Elf64_Shdr kiln_elf_section(const kiln_elf_class *c, const char *at) {
    Elf64_Shdr h;
    if (c->wide) {
        memcpy(&h, at, sizeof h);
        return h;
    }
    Elf32_Shdr n;
    memcpy(&n, at, sizeof n);
    return (Elf64_Shdr){n.sh_name, n.sh_type, n.sh_flags, n.sh_addr,      n.sh_offset,
                        n.sh_size, n.sh_link, n.sh_info,  n.sh_addralign, n.sh_entsize};
}

Elf64_Sym kiln_elf_symbol(const kiln_elf_class *c, const char *at) {
    Elf64_Sym s;
    if (c->wide) {
        memcpy(&s, at, sizeof s);
        return s;
    }
    Elf32_Sym n;
    memcpy(&n, at, sizeof n);
    return (Elf64_Sym){n.st_name, n.st_info, n.st_other, n.st_shndx, n.st_value, n.st_size};
}

Elf64_Rela kiln_elf_relocation(const kiln_elf_class *c, const char *at, bool has_addend) {
    Elf64_Rela r = {0};
    if (c->wide) {
        memcpy(&r, at, has_addend ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel));
        return r;
    }
    Elf32_Rela n = {0};
    memcpy(&n, at, has_addend ? sizeof(Elf32_Rela) : sizeof(Elf32_Rel));
    uint64_t symbol = ELF32_R_SYM(n.r_info);
    return (Elf64_Rela){n.r_offset, ELF64_R_INFO(symbol, ELF32_R_TYPE(n.r_info)), n.r_addend};
}
