#include "vta/mapped.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"

#define FAILED(doing, path)                                                                     \
    kiln_status_make(kiln_code_from_errno(errno), __FILE__, __LINE__, "%s %s: %s", doing, path, \
                     strerror(errno))

/* ---- functions for the board
 * -------------------------------------------------------------------- */

static uint32_t read_register(void *context, kiln_vta_register number) {
    const kiln_vta_mapped *m = context;
    return m->registers[number];
}
static void write_register(void *context, kiln_vta_register number, uint32_t value) {
    kiln_vta_mapped *m = context;
    m->registers[number] = value;
}

/* The mapping is not cached; only the order of writes must be enforced. */
static void sync_memory(void *context, uint64_t offset, uint64_t bytes) {
    kiln_vta_mapped *m = context;
    (void)msync(m->io.memory + offset, (size_t)bytes,
                MS_SYNC); /* drivers without it return an error */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
static uint64_t now_ns(void *context) {
    (void)context;
    return kiln_clock_ns();
}
static void pause_for_a_moment(void *context) {
    (void)context;
    (void)poll(NULL, 0, 0); /* yields to other threads */
}

/* ---- files ----------------------------------------------------------------------------------- */

static uint32_t digit_of(char c) {
    if (c >= '0' && c <= '9') return (uint32_t)(c - '0');
    if (c >= 'a' && c <= 'f') return (uint32_t)(c - 'a') + 10;
    if (c >= 'A' && c <= 'F') return (uint32_t)(c - 'A') + 10;
    return UINT32_MAX;
}

/* "0x1f000000" or decimal. */
static bool parse_number(kiln_str text, uint64_t *out) {
    const bool is_hex = kiln_str_starts(text, "0x");
    if (!is_hex) return kiln_str_to_u64(text, out);
    uint64_t value = 0;
    for (size_t i = 2; i < text.size; i++) {
        const uint32_t digit = digit_of(text.data[i]);
        if (digit == UINT32_MAX) return false;
        value = value * 16 + digit;
    }
    *out = value;
    return text.size > 2 && text.size <= 18;
}

static kiln_status read_number(const char *folder, const char *name, uint64_t *out) {
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    const char *path = kiln_arena_printf(&scratch, "%s/%s", folder, name);
    kiln_str text;
    kiln_status st = kiln_file_read_system(path, &scratch, &text);
    if (!st && !parse_number(kiln_str_trim(text), out))
        st = KILN_ERROR(DATA_LOSS, "%s has no number but '%.*s'", path, KILN_STR_ARG(text));
    kiln_arena_deinit(&scratch);
    return st;
}

static kiln_status map(const char *path, uint64_t bytes, void **out) {
    const int file = open(path, O_RDWR | O_SYNC | O_CLOEXEC);
    if (file < 0) return FAILED("opening", path);
    void *mapping = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    kiln_status st = mapping == MAP_FAILED ? FAILED("mapping", path) : KILN_OK;
    close(file); /* the mapping stays */
    if (!st) *out = mapping;
    return st;
}

kiln_status kiln_vta_mapped_open(const kiln_vta_mapped_files *files, kiln_vta_mapped *out_mapped) {
    kiln_vta_mapped *m = out_mapped;
    *m = (kiln_vta_mapped){.io = {.context = m,
                                  .read = read_register,
                                  .write = write_register,
                                  .to_device = sync_memory,
                                  .to_host = sync_memory,
                                  .now_ns = now_ns,
                                  .pause = pause_for_a_moment}};
    void *memory = NULL, *registers = NULL;
    kiln_status st = read_number(files->folder, "phys_addr", &m->io.address);
    if (!st) st = read_number(files->folder, "size", &m->io.memory_bytes);
    if (!st) st = map(files->memory, m->io.memory_bytes, &memory);
    m->io.memory = memory;
    if (!st) st = map(files->registers, KILN_VTA_PAGE_BYTES, &registers);
    m->registers = registers;
    if (st) kiln_vta_mapped_close(m);
    return st;
}

void kiln_vta_mapped_close(kiln_vta_mapped *mapped) {
    if (mapped->io.memory) munmap(mapped->io.memory, (size_t)mapped->io.memory_bytes);
    if (mapped->registers) munmap((void *)(uintptr_t)mapped->registers, KILN_VTA_PAGE_BYTES);
    *mapped = (kiln_vta_mapped){0};
}
