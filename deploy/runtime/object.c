#include "deploy/runtime/object.h"

#include <stdlib.h>
#include <string.h>

#include "base/integer.h"
#include "base/vec.h"
#include "deploy/runtime/load.h"
#include "deploy/runtime/services.h"

#define NAME_MAX_BYTES 1024u
#define RELOCATIONS_MAX (UINT32_C(1) << 20)

/* True when [offset, offset + size) lies within `total`; no sum can wrap. */
static bool inside(uint64_t total, uint64_t offset, uint64_t size) {
    return offset <= total && size <= total - offset;
}

/* A name from the file, escaped for an error message. */
typedef struct shown {
    char text[64];
} shown;

static shown show(kiln_str name) {
    shown s = {{0}};
    for (size_t i = 0; i < name.size && i + 1 < sizeof s.text; i++)
        s.text[i] = name.data[i] > ' ' && name.data[i] < 127 ? name.data[i] : '?';
    return s;
}

static kiln_status read_header(kiln_str bytes, const kiln_object_arch *arch,
                               Elf64_Ehdr *out_header) {
    const kiln_elf_class *elf = arch->elf;
    const unsigned char class = elf->wide ? ELFCLASS64 : ELFCLASS32;
    if (bytes.size > KILN_OBJECT_BYTES_MAX)
        return KILN_ERROR(OUT_OF_RANGE, "object has %zu bytes, at most %zu are allowed", bytes.size,
                          KILN_OBJECT_BYTES_MAX);
    if (bytes.size < elf->header_bytes || memcmp(bytes.data, ELFMAG, SELFMAG) != 0)
        return KILN_ERROR(DATA_LOSS, "not an ELF object (%zu bytes)", bytes.size);
    Elf64_Ehdr h = kiln_elf_header(elf, bytes.data);
    if (h.e_ident[EI_CLASS] != class || h.e_ident[EI_DATA] != ELFDATA2LSB ||
        h.e_machine != arch->machine)
        return KILN_ERROR(
            UNIMPLEMENTED,
            "object is for another machine (ELF class %u, data %u, machine %u; %s has %u, 1, %u)",
            h.e_ident[EI_CLASS], h.e_ident[EI_DATA], h.e_machine, arch->name, class, arch->machine);
    if ((h.e_flags & arch->flags_mask) != arch->flags)
        return KILN_ERROR(UNIMPLEMENTED, "object has flags %#x: on %s a kernel is compiled for %s",
                          h.e_flags, arch->name, arch->flags_meaning);
    if (h.e_ident[EI_VERSION] != EV_CURRENT || h.e_version != EV_CURRENT)
        return KILN_ERROR(UNIMPLEMENTED, "object has ELF version %u", h.e_version);
    if (h.e_type != ET_REL)
        return KILN_ERROR(UNIMPLEMENTED,
                          "ELF type is %u: only relocatable objects (1) can be loaded", h.e_type);
    if (h.e_phnum != 0 || h.e_ehsize != elf->header_bytes || h.e_shentsize != elf->section_bytes)
        return KILN_ERROR(DATA_LOSS, "object header has wrong sizes");
    if (h.e_shnum == 0 || h.e_shnum > KILN_OBJECT_SECTIONS_MAX)
        return KILN_ERROR(OUT_OF_RANGE, "object has %u sections, 1 to %u are allowed", h.e_shnum,
                          KILN_OBJECT_SECTIONS_MAX);
    if (!inside(bytes.size, h.e_shoff, h.e_shnum * elf->section_bytes))
        return KILN_ERROR(DATA_LOSS, "section table lies outside the file");
    *out_header = h;
    return KILN_OK;
}

/* The NUL-terminated string at `offset` of a string table. */
static kiln_status read_name(kiln_str bytes, const Elf64_Shdr *table, uint64_t offset,
                             kiln_str *out_name) {
    if (table->sh_type != SHT_STRTAB || offset >= table->sh_size)
        return KILN_ERROR(DATA_LOSS, "a name lies outside its string table");
    const char *name = bytes.data + table->sh_offset + offset;
    uint64_t left = table->sh_size - offset;
    const char *end = memchr(name, 0, (size_t)KILN_MIN(left, NAME_MAX_BYTES + 1));
    if (!end)
        return KILN_ERROR(DATA_LOSS, "a name is not terminated or longer than %u bytes",
                          NAME_MAX_BYTES);
    *out_name = (kiln_str){name, (size_t)(end - name)};
    return KILN_OK;
}

static bool named(kiln_str name, const char *stem) {
    size_t size = strlen(stem);
    return kiln_str_starts(name, stem) && (name.size == size || name.data[size] == '.');
}

/* Decides the place of a section that must be in memory; other sections are for linkers only.
 */
static kiln_status classify(const kiln_object_arch *arch, kiln_object_section *s) {
    const Elf64_Shdr *h = &s->header;
    const uint64_t known = SHF_ALLOC | SHF_EXECINSTR | SHF_MERGE | SHF_STRINGS;
    if (!(h->sh_flags & SHF_ALLOC) || h->sh_size == 0 || h->sh_type == SHT_NOTE) return KILN_OK;
    if (arch->unused_type && h->sh_type == arch->unused_type) return KILN_OK;
    bool code = h->sh_flags & SHF_EXECINSTR;
    bool fits = h->sh_type == SHT_PROGBITS && (h->sh_flags & ~known) == 0;
    bool expected =
        code ? named(s->name, ".text") : named(s->name, ".rodata") || named(s->name, ".srodata");
    if (!fits || !expected)
        return KILN_ERROR(UNIMPLEMENTED,
                          "section %s (type %#x, flags %#llx, %llu bytes): an object may hold "
                          ".text and .rodata only",
                          show(s->name).text, h->sh_type, (unsigned long long)h->sh_flags,
                          (unsigned long long)h->sh_size);
    uint64_t alignment = h->sh_addralign;
    if (alignment > KILN_OBJECT_ALIGNMENT_MAX || (alignment & (alignment - 1)) != 0)
        return KILN_ERROR(DATA_LOSS, "section %s has alignment %llu", show(s->name).text,
                          (unsigned long long)alignment);
    s->code = code;
    s->place = 0; /* set by place_sections */
    return KILN_OK;
}

/* Checks the section of ABI attributes, on processors that have one. */
static kiln_status check_attributes(const kiln_object_image *image) {
    const kiln_object_arch *arch = image->arch;
    if (!arch->attributes_suit) return KILN_OK;
    for (uint32_t i = 1; i < image->section_count; i++) {
        const Elf64_Shdr *h = &image->section[i].header;
        if (h->sh_type != arch->attributes_type) continue;
        if (arch->attributes_suit((kiln_str){image->bytes.data + h->sh_offset, (size_t)h->sh_size}))
            return KILN_OK;
    }
    return KILN_ERROR(UNIMPLEMENTED,
                      "object's attributes do not suit: on %s a kernel is compiled for %s",
                      arch->name, arch->attributes_meaning);
}

static kiln_status read_sections(kiln_object_image *image, const Elf64_Ehdr *header,
                                 kiln_arena *arena) {
    kiln_str bytes = image->bytes;
    const kiln_elf_class *elf = image->arch->elf;
    image->section_count = header->e_shnum;
    image->section = KILN_ARENA_ARRAY(arena, kiln_object_section, header->e_shnum);
    for (uint32_t i = 0; i < image->section_count; i++) {
        Elf64_Shdr *h = &image->section[i].header;
        *h = kiln_elf_section(elf, bytes.data + header->e_shoff + i * elf->section_bytes);
        image->section[i].place = KILN_OBJECT_NO_PLACE;
        if (h->sh_type == SHT_NULL || h->sh_type == SHT_NOBITS) continue;
        if (!inside(bytes.size, h->sh_offset, h->sh_size))
            return KILN_ERROR(DATA_LOSS, "section %u lies outside the file", i);
    }
    if (header->e_shstrndx >= image->section_count)
        return KILN_ERROR(DATA_LOSS, "section names are in section %u of %u", header->e_shstrndx,
                          image->section_count);
    const Elf64_Shdr *names = &image->section[header->e_shstrndx].header;
    for (uint32_t i = 1; i < image->section_count; i++) {
        kiln_object_section *s = &image->section[i];
        kiln_status st = read_name(bytes, names, s->header.sh_name, &s->name);
        if (!st) st = classify(image->arch, s);
        if (st) return st;
    }
    return check_attributes(image);
}

/* Sets the place of a symbol: in a loaded section, in the host, or (other sections, file names)
 * none. */
static kiln_status resolve_symbol(const kiln_object_image *image, const Elf64_Sym *raw,
                                  kiln_object_symbol *symbol) {
    uint32_t type = ELF64_ST_TYPE(raw->st_info);
    if (type > STT_FILE)
        return KILN_ERROR(UNIMPLEMENTED, "symbol %s has type %u (thread-local, common or indirect)",
                          show(symbol->name).text, type);
    if (raw->st_shndx == SHN_UNDEF) {
        symbol->service = kiln_service_find(image->arch->arch, symbol->name);
        if (symbol->service != KILN_SERVICE_NONE) return KILN_OK;
        return KILN_ERROR(
            NOT_FOUND,
            "undefined symbol %s: a kernel may only call functions of kernel_services.def",
            show(symbol->name).text);
    }
    if (raw->st_shndx == SHN_ABS) return KILN_OK;
    if (raw->st_shndx >= SHN_LORESERVE)
        return KILN_ERROR(UNIMPLEMENTED, "symbol %s is in special section %#x",
                          show(symbol->name).text, raw->st_shndx);
    if (raw->st_shndx >= image->section_count)
        return KILN_ERROR(DATA_LOSS, "symbol %s is in section %u of %u", show(symbol->name).text,
                          raw->st_shndx, image->section_count);
    const kiln_object_section *home = &image->section[raw->st_shndx];
    if (home->place == KILN_OBJECT_NO_PLACE) return KILN_OK;
    const uint64_t bits = type == STT_FUNC ? image->arch->function_bits : 0;
    if (!inside(home->header.sh_size, raw->st_value & ~bits, raw->st_size))
        return KILN_ERROR(DATA_LOSS, "symbol %s lies outside its section", show(symbol->name).text);
    symbol->section = raw->st_shndx;
    symbol->value = raw->st_value;
    symbol->entry = type == STT_FUNC && home->code && ELF64_ST_BIND(raw->st_info) != STB_LOCAL;
    return KILN_OK;
}

static kiln_status read_symbols(kiln_object_image *image, kiln_arena *arena, uint32_t *out_table) {
    uint32_t table = 0;
    for (uint32_t i = 1; i < image->section_count; i++) {
        if (image->section[i].header.sh_type != SHT_SYMTAB) continue;
        if (table) return KILN_ERROR(DATA_LOSS, "object has two symbol tables");
        table = i;
    }
    if (!table) return KILN_ERROR(DATA_LOSS, "object has no symbol table");
    const Elf64_Shdr *h = &image->section[table].header;
    const kiln_elf_class *elf = image->arch->elf;
    uint64_t count = h->sh_size / elf->symbol_bytes;
    if (h->sh_entsize != elf->symbol_bytes || h->sh_size % elf->symbol_bytes != 0 ||
        h->sh_link >= image->section_count)
        return KILN_ERROR(DATA_LOSS, "symbol table is malformed");
    if (count > KILN_OBJECT_SYMBOLS_MAX)
        return KILN_ERROR(OUT_OF_RANGE, "object has %llu symbols, at most %u are allowed",
                          (unsigned long long)count, KILN_OBJECT_SYMBOLS_MAX);
    image->symbol_count = (uint32_t)count;
    image->symbol = KILN_ARENA_ARRAY(arena, kiln_object_symbol, count);
    for (uint32_t i = 0; i < image->symbol_count; i++) {
        kiln_object_symbol *symbol = &image->symbol[i];
        symbol->service = KILN_SERVICE_NONE;
        if (i == 0) continue; /* the reserved symbol, which must not be referenced */
        Elf64_Sym raw =
            kiln_elf_symbol(elf, image->bytes.data + h->sh_offset + i * elf->symbol_bytes);
        kiln_status st =
            read_name(image->bytes, &image->section[h->sh_link].header, raw.st_name, &symbol->name);
        if (!st) st = resolve_symbol(image, &raw, symbol);
        if (st) return kiln_status_note(st, "symbol %u", i);
    }
    *out_table = table;
    return KILN_OK;
}

/* Calls `visit` for each relocation of a loaded section. One loop, two uses: checking while the
 * layout is still open, and applying when addresses are known. */
typedef kiln_status (*relocation_visit)(void *context, const kiln_object_section *section,
                                        const Elf64_Rela *relocation,
                                        const kiln_relocation_kind *kind);

static uint32_t relocation_type(const kiln_object_image *image) {
    return image->arch->addends ? SHT_RELA : SHT_REL;
}

static size_t relocation_bytes(const kiln_object_image *image) {
    const kiln_elf_class *elf = image->arch->elf;
    return image->arch->addends ? elf->rela_bytes : elf->rel_bytes;
}

static kiln_status visit_section(const kiln_object_image *image, const Elf64_Shdr *h,
                                 relocation_visit visit, void *context) {
    const kiln_object_section *home = &image->section[h->sh_info];
    kiln_status st = KILN_OK;
    for (uint64_t at = 0; !st && at < h->sh_size; at += relocation_bytes(image)) {
        Elf64_Rela r = kiln_elf_relocation(image->arch->elf, image->bytes.data + h->sh_offset + at,
                                           image->arch->addends);
        uint32_t number = (uint32_t)ELF64_R_TYPE(r.r_info);
        const kiln_relocation_kind *kind = kiln_relocation_find(image->arch, number);
        if (!kind || !kind->apply)
            return KILN_ERROR(UNIMPLEMENTED, "relocation %s (%u) in %s: %s",
                              kind ? kind->name : "kind", number, show(home->name).text,
                              kind ? kind->reason : "not in the object contract");
        st = visit(context, home, &r, kind);
        if (st)
            return kiln_status_note(st, "%s at %s+%#llx", kind->name, show(home->name).text,
                                    (unsigned long long)r.r_offset);
    }
    return st;
}

static kiln_status visit_relocations(const kiln_object_image *image, relocation_visit visit,
                                     void *context) {
    kiln_status st = KILN_OK;
    for (uint32_t i = 1; !st && i < image->section_count; i++) {
        const Elf64_Shdr *h = &image->section[i].header;
        if (h->sh_type == relocation_type(image) &&
            image->section[h->sh_info].place != KILN_OBJECT_NO_PLACE)
            st = visit_section(image, h, visit, context);
    }
    return st;
}

/* Checks the relocation sections, so that visits need not. */
static kiln_status check_relocation_sections(const kiln_object_image *image,
                                             uint32_t symbol_table) {
    uint64_t count = 0;
    for (uint32_t i = 1; i < image->section_count; i++) {
        const Elf64_Shdr *h = &image->section[i].header;
        if (h->sh_type != SHT_RELA && h->sh_type != SHT_REL) continue;
        if (h->sh_info >= image->section_count)
            return KILN_ERROR(DATA_LOSS, "relocations are for section %u of %u", h->sh_info,
                              image->section_count);
        if (image->section[h->sh_info].place == KILN_OBJECT_NO_PLACE) continue;
        if (h->sh_type != relocation_type(image))
            return KILN_ERROR(UNIMPLEMENTED, "relocations with%s addends in %s",
                              image->arch->addends ? "out" : "", show(image->section[i].name).text);
        size_t bytes = relocation_bytes(image);
        if (h->sh_entsize != bytes || h->sh_size % bytes != 0 || h->sh_link != symbol_table)
            return KILN_ERROR(DATA_LOSS, "relocation section %s is malformed",
                              show(image->section[i].name).text);
        count += h->sh_size / bytes;
    }
    if (count > RELOCATIONS_MAX)
        return KILN_ERROR(OUT_OF_RANGE, "object has %llu relocations, at most %u are allowed",
                          (unsigned long long)count, RELOCATIONS_MAX);
    return KILN_OK;
}

static kiln_status check_relocation(void *context, const kiln_object_section *section,
                                    const Elf64_Rela *r, const kiln_relocation_kind *kind) {
    kiln_object_image *image = context;
    uint64_t symbol_index = ELF64_R_SYM(r->r_info);
    if (!inside(section->header.sh_size, r->r_offset, kind->byte_count))
        return KILN_ERROR(DATA_LOSS, "lies outside its section");
    if (symbol_index == 0 || symbol_index >= image->symbol_count)
        return KILN_ERROR(DATA_LOSS, "refers to symbol %llu of %u",
                          (unsigned long long)symbol_index, image->symbol_count);
    const kiln_object_symbol *symbol = &image->symbol[symbol_index];
    if (symbol->service == KILN_SERVICE_NONE && symbol->section == 0)
        return KILN_ERROR(UNIMPLEMENTED, "refers to symbol %s, which is in no loaded section",
                          show(symbol->name).text);
    if (symbol->service != KILN_SERVICE_NONE && image->veneer[symbol->service] == KILN_SERVICE_NONE)
        image->veneer[symbol->service] = image->veneer_count++;
    image->low |= kind->low;
    return KILN_OK;
}

/* Appends all sections of one kind at `*size`. */
static kiln_status place_sections(kiln_object_image *image, bool code, size_t *size) {
    for (uint32_t i = 1; i < image->section_count; i++) {
        kiln_object_section *s = &image->section[i];
        if (s->place == KILN_OBJECT_NO_PLACE || s->code != code) continue;
        s->place = KILN_ALIGN_UP(*size, (size_t)KILN_MAX(s->header.sh_addralign, 16));
        *size = s->place +
                (size_t)s->header.sh_size; /* both bounded by the file's limit: no overflow */
        if (*size > KILN_OBJECT_BYTES_MAX)
            return KILN_ERROR(OUT_OF_RANGE, "sections take more than %zu bytes",
                              KILN_OBJECT_BYTES_MAX);
    }
    return KILN_OK;
}

kiln_status kiln_object_read(kiln_str bytes, const kiln_object_arch *arch, size_t page_bytes,
                             kiln_arena *arena, kiln_object_image *out_image) {
    kiln_object_image image = {.bytes = bytes, .arch = arch};
    Elf64_Ehdr header = {0};
    uint32_t symbol_table = 0;
    kiln_status st = read_header(bytes, arch, &header);
    if (!st) st = read_sections(&image, &header, arena);
    if (!st) st = read_symbols(&image, arena, &symbol_table);
    if (!st) st = check_relocation_sections(&image, symbol_table);
    if (st) return st;

    image.veneer = KILN_ARENA_ARRAY(arena, uint32_t, kiln_service_count());
    memset(image.veneer, 0xff, kiln_service_count() * sizeof *image.veneer); /* KILN_SERVICE_NONE */
    st = visit_relocations(&image, check_relocation, &image);
    size_t size = 0;
    if (!st) st = place_sections(&image, true, &size);
    if (st) return st;

    image.veneer_place = KILN_ALIGN_UP(size, 16);
    image.code_bytes = image.veneer_place + (size_t)image.veneer_count * arch->veneer_bytes;
    image.data_place = size = KILN_ALIGN_UP(image.code_bytes, page_bytes);
    st = place_sections(&image, false, &size);
    if (st) return st;
    image.data_bytes = size - image.data_place;
    image.image_bytes = KILN_MAX(KILN_ALIGN_UP(size, page_bytes), page_bytes);
    *out_image = image;
    return KILN_OK;
}

/* The distance of the relocation at a place, for relocations whose low part is a separate one. */
typedef struct reached {
    size_t place;
    uint64_t distance;
} reached;

typedef struct link_state {
    const kiln_object_image *image;
    uint8_t *memory;
    uint64_t address;
    KILN_VEC(reached) high; /* by place, once all are known */
} link_state;

/* Symbol + addend, modulo 2^64 as in the ABIs; `apply` checks whether it fits. */
static uint64_t value_of(const link_state *link, const Elf64_Rela *r,
                         const kiln_relocation_kind *kind, const uint8_t *place) {
    const kiln_object_image *image = link->image;
    const kiln_object_symbol *symbol = &image->symbol[ELF64_R_SYM(r->r_info)];
    uint64_t value = link->address;
    if (symbol->service != KILN_SERVICE_NONE)
        value += image->veneer_place +
                 (uint64_t)image->veneer[symbol->service] * image->arch->veneer_bytes;
    else
        value += image->section[symbol->section].place + symbol->value;
    return value + (uint64_t)(kind->addend ? kind->addend(place) : r->r_addend);
}

static kiln_status note_distance(void *context, const kiln_object_section *section,
                                 const Elf64_Rela *r, const kiln_relocation_kind *kind) {
    link_state *link = context;
    size_t place = section->place + (size_t)r->r_offset;
    bool is_high = false;
    for (uint32_t i = 0; i < link->image->arch->relocation_count; i++)
        is_high |= link->image->arch->relocation[i].high == kind->number;
    if (!is_high) return KILN_OK;
    uint64_t value = value_of(link, r, kind, link->memory + place);
    kiln_vec_push(&link->high, ((reached){place, value - (link->address + place)}));
    return KILN_OK;
}

static int compare_places(const void *a, const void *b) {
    size_t x = ((const reached *)a)->place, y = ((const reached *)b)->place;
    return (x > y) - (x < y);
}

/* The distance of the high part at the symbol's place. */
static kiln_status find_distance(const link_state *link, const Elf64_Rela *r, uint64_t *out_value) {
    const kiln_object_symbol *symbol = &link->image->symbol[ELF64_R_SYM(r->r_info)];
    size_t place = link->image->section[symbol->section].place + (size_t)symbol->value;
    const reached *found = NULL;
    if (symbol->section && link->high.count)
        found = bsearch(&(reached){.place = place}, link->high.data, link->high.count,
                        sizeof *found, compare_places);
    if (!found) return KILN_ERROR(DATA_LOSS, "%s is at no high part", show(symbol->name).text);
    *out_value = found->distance;
    return KILN_OK;
}

static kiln_status apply_relocation(void *context, const kiln_object_section *section,
                                    const Elf64_Rela *r, const kiln_relocation_kind *kind) {
    const link_state *link = context;
    const kiln_object_image *image = link->image;
    const kiln_object_symbol *symbol = &image->symbol[ELF64_R_SYM(r->r_info)];
    size_t place = section->place + (size_t)r->r_offset;
    uint64_t value = value_of(link, r, kind, link->memory + place);
    kiln_status st = kind->high ? find_distance(link, r, &value) : KILN_OK;
    if (st) return st;
    if (!kind->apply(link->memory + place, link->address + place, value))
        return KILN_ERROR(OUT_OF_RANGE, "%s with addend %lld does not fit in %u bytes",
                          show(symbol->name).text, (long long)r->r_addend, kind->byte_count);
    return KILN_OK;
}

kiln_status kiln_object_link(const kiln_object_image *image, uint8_t *memory, uint64_t address,
                             const uint64_t *service_address) {
    for (size_t at = 0; at < image->veneer_place; at += sizeof(uint32_t))
        kiln_relocate_put32(memory + at, image->arch->trap);
    for (uint32_t i = 1; i < image->section_count; i++) {
        const kiln_object_section *s = &image->section[i];
        if (s->place != KILN_OBJECT_NO_PLACE)
            memcpy(memory + s->place, image->bytes.data + s->header.sh_offset,
                   (size_t)s->header.sh_size);
    }
    for (uint32_t service = 0; service < kiln_service_count(); service++) {
        if (image->veneer[service] == KILN_SERVICE_NONE) continue;
        uint8_t *place = memory + image->veneer_place +
                         (size_t)image->veneer[service] * image->arch->veneer_bytes;
        image->arch->write_veneer(place, service_address ? service_address[service]
                                                         : kiln_service_address(service));
    }
    link_state link = {.image = image, .memory = memory, .address = address};
    kiln_status st = visit_relocations(image, note_distance, &link);
    if (link.high.count)
        qsort(link.high.data, link.high.count, sizeof *link.high.data, compare_places);
    if (!st) st = visit_relocations(image, apply_relocation, &link);
    kiln_vec_deinit(&link.high);
    return st;
}
