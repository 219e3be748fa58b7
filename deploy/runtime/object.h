/* A relocatable ELF object, read and checked against the object contract, but not linked yet.
 * Private to the loader (load.c), which maps an image, and to the device `line`, which sends one to
 * a microcontroller. */
#ifndef KILN_DEPLOY_OBJECT_H
#define KILN_DEPLOY_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"
#include "deploy/runtime/object_arch.h"

#define KILN_OBJECT_NO_PLACE SIZE_MAX

typedef struct kiln_object_section {
    Elf64_Shdr header; /* offset and size are inside the file (NOBITS excepted) */
    kiln_str name;
    bool code;
    size_t place; /* offset in the image, or KILN_OBJECT_NO_PLACE when it is not loaded */
} kiln_object_section;

typedef struct kiln_object_symbol {
    kiln_str name;
    uint32_t section; /* 0: a service, or not usable */
    uint32_t service; /* KILN_SERVICE_NONE when it is not one */
    uint64_t value;   /* offset in the section */
    bool entry;       /* a global function */
} kiln_object_symbol;

/* Code, then veneers, then (from `data_place`, page-aligned) read-only data. */
typedef struct kiln_object_image {
    kiln_str bytes;
    const kiln_object_arch *arch;
    uint32_t section_count, symbol_count, veneer_count;
    kiln_object_section *section; /* [section_count] */
    kiln_object_symbol *symbol;   /* [symbol_count] */
    uint32_t *veneer; /* [kiln_service_count()] slot of each service, or KILN_SERVICE_NONE */
    size_t veneer_place, code_bytes, data_place, data_bytes, image_bytes;
    bool low; /* has a relocation that only fits below 2 GiB */
} kiln_object_image;

/* Reads and checks everything except the relocations' values; arrays go to `arena`, views into
 * `bytes`. Errors as kiln_object_check. */
KILN_MUST_USE kiln_status kiln_object_read(kiln_str bytes, const kiln_object_arch *arch,
                                           size_t page_bytes, kiln_arena *arena,
                                           kiln_object_image *out_image);

/* Copies sections, writes veneers and relocates. `memory`: [image_bytes], zeroed, will run at
 * `address`. `service_address`: [kiln_service_count()] addresses of the services that the image
 * uses; NULL: those of this process. OUT_OF_RANGE: a relocated value does not fit. */
KILN_MUST_USE kiln_status kiln_object_link(const kiln_object_image *image, uint8_t *memory,
                                           uint64_t address, const uint64_t *service_address);

#endif
