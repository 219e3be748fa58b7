#include "deploy/runtime/load.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "deploy/runtime/object.h"
#include "deploy/runtime/object_wasm.h"

#define SCRATCH_CHUNK_BYTES ((size_t)16 << 10)

typedef struct export_entry {
    char *name;
    size_t place;
} export_entry;

struct kiln_object {
    uint8_t *memory;
    size_t image_bytes, code_bytes, data_bytes;
    uint32_t export_count;
    export_entry *export;
    kiln_arena arena; /* names and exports */
};

kiln_arch kiln_object_host_arch(void) {
#if defined(__x86_64__)
    return KILN_ARCH_X86_64;
#elif defined(__aarch64__)
    return KILN_ARCH_AARCH64;
#elif defined(__arm__)
    return KILN_ARCH_ARM;
#elif defined(__riscv) && __riscv_xlen == 64
    return KILN_ARCH_RISCV64;
#else
    return KILN_ARCH_OTHER;
#endif
}

static kiln_status read_for(kiln_str bytes, kiln_arch arch, kiln_arena *scratch,
                            kiln_object_image *out_image) {
    const kiln_object_arch *machine = kiln_object_arch_find(arch);
    if (!machine)
        return KILN_ERROR(UNIMPLEMENTED, "there is no object loader for this processor yet");
    return kiln_object_read(bytes, machine, (size_t)sysconf(_SC_PAGESIZE), scratch, out_image);
}

static kiln_status check_entries(const kiln_object_image *image, const char *const *entries) {
    for (; entries && *entries; entries++) {
        bool found = false;
        for (uint32_t i = 0; !found && i < image->symbol_count; i++)
            found = image->symbol[i].entry && kiln_str_is(image->symbol[i].name, *entries);
        if (!found) return KILN_ERROR(NOT_FOUND, "it has no global function %s", *entries);
    }
    return KILN_OK;
}

kiln_status kiln_object_check(kiln_str bytes, kiln_arch arch, const char *const *entries) {
    if (arch == KILN_ARCH_WASM32)
        return kiln_status_note(kiln_object_wasm_check(bytes, entries), "object");
    kiln_arena scratch;
    kiln_arena_init(&scratch, SCRATCH_CHUNK_BYTES);
    kiln_object_image image;
    kiln_status st = read_for(bytes, arch, &scratch, &image);
    if (!st) {
        /* Links into ordinary memory, for an address that suits every relocation. */
        uint8_t *memory = kiln_alloc(image.image_bytes);
        st = kiln_object_link(&image, memory, UINT64_C(0x10000), NULL);
        kiln_free(memory);
    }
    if (!st) st = check_entries(&image, entries);
    kiln_arena_deinit(&scratch);
    return st ? kiln_status_note(st, "object") : KILN_OK;
}

static kiln_status map_pages(size_t size, bool low, uint8_t **out_memory) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
#ifdef MAP_32BIT
    if (low) flags |= MAP_32BIT;
#else
    (void)low; /* then relocations that need a low address fail with an error */
#endif
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (memory == MAP_FAILED)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "mapping %zu bytes for code: %s", size,
                          strerror(errno));
    *out_memory = memory;
    return KILN_OK;
}

/* Makes the code executable and read-only. */
static kiln_status protect(const kiln_object_image *image, uint8_t *memory) {
    size_t data_bytes = image->image_bytes - image->data_place;
    KILN_CODE_CHANGED(memory, memory + image->code_bytes);
    if ((image->data_place > 0 &&
         mprotect(memory, image->data_place, PROT_READ | PROT_EXEC) != 0) ||
        (data_bytes > 0 && mprotect(memory + image->data_place, data_bytes, PROT_READ) != 0))
        return KILN_ERROR(PERMISSION_DENIED, "the system refuses executable memory: %s",
                          strerror(errno));
    return KILN_OK;
}

static void keep_exports(kiln_object *object, const kiln_object_image *image) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < image->symbol_count; i++) count += image->symbol[i].entry;
    object->export = KILN_ARENA_ARRAY(&object->arena, export_entry, count);
    for (uint32_t i = 0; i < image->symbol_count; i++) {
        const kiln_object_symbol *symbol = &image->symbol[i];
        if (!symbol->entry) continue;
        size_t place = image->section[symbol->section].place + (size_t)symbol->value;
        object->export[object->export_count++] =
            (export_entry){kiln_str_dup(&object->arena, symbol->name), place};
    }
}

kiln_status kiln_object_load(kiln_str bytes, kiln_object **out_object) {
    kiln_arena scratch;
    kiln_arena_init(&scratch, SCRATCH_CHUNK_BYTES);
    kiln_object_image image;
    uint8_t *memory = NULL;
    kiln_status st = read_for(bytes, kiln_object_host_arch(), &scratch, &image);
    if (!st) st = map_pages(image.image_bytes, image.low, &memory);
    if (!st) st = kiln_object_link(&image, memory, (uint64_t)(uintptr_t)memory, NULL);
    if (!st) st = protect(&image, memory);
    if (!st) {
        kiln_object *object = kiln_alloc(sizeof *object);
        kiln_arena_init(&object->arena, 1024);
        object->memory = memory;
        object->image_bytes = image.image_bytes;
        object->code_bytes = image.code_bytes;
        object->data_bytes = image.data_bytes;
        keep_exports(object, &image);
        *out_object = object;
    } else if (memory) {
        munmap(memory, image.image_bytes);
    }
    kiln_arena_deinit(&scratch);
    return st ? kiln_status_note(st, "object") : KILN_OK;
}

kiln_kernel_entry kiln_object_find(const kiln_object *object, const char *name) {
    for (uint32_t i = 0; i < object->export_count; i++)
        if (strcmp(object->export[i].name, name) == 0)
            return (kiln_kernel_entry)(uintptr_t)(object->memory + object->export[i].place);
    return NULL;
}

const void *kiln_object_code(const kiln_object *object) { return object->memory; }
size_t kiln_object_code_bytes(const kiln_object *object) { return object->code_bytes; }
size_t kiln_object_data_bytes(const kiln_object *object) { return object->data_bytes; }

void kiln_object_unload(kiln_object *object) {
    if (!object) return;
    munmap(object->memory, object->image_bytes);
    kiln_arena_deinit(&object->arena);
    kiln_free(object);
}
