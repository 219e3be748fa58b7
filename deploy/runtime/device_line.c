/* A microcontroller at the end of a serial line (line.h), whose monitor (deploy/monitor) reads,
 * writes and copies its memory and calls code there. The host does everything else: it links
 * objects to an address of the microcontroller, allocates its memory, and computes times from the
 * ticks that the monitor counts around each call. KILN_LINE names the line, KILN_LINE_BAUD its
 * rate. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/integer.h"
#include "base/macros.h"
#include "base/opt.h"
#include "deploy/runtime/device.h"
#include "deploy/runtime/line.h"
#include "deploy/runtime/object.h"
#include "deploy/runtime/object_payload.h"
#include "deploy/runtime/services.h"

#define ALIGNMENT 256u
#define BLOCKS_MAX 256u
#define BAUD 115200u
#define ANSWER_NS (5 * KILN_NS_PER_S)
#define SEED_BYTES                                                                \
    256u /* zeros that are sent; the microcontroller copies them to fill the rest \
          */

/* An allocation of bytes [begin, end) in the microcontroller's memory. */
typedef struct block {
    uint32_t begin, end;
} block;

typedef struct line_state {
    kiln_line *line;
    kiln_frame_hello_answer hello;
    block block[BLOCKS_MAX]; /* ascending */
    uint32_t block_count;
    uint64_t ticks; /* of all calls so far */
    uint64_t event_ticks[KILN_DEVICE_EVENTS];
    char error[160];
} line_state;

typedef struct line_program {
    kiln_device_memory *code; /* [code_count] of each payload */
    kiln_device_memory scratch;
    uint32_t *entry; /* [launch_count] addresses */
    uint32_t *arg_count;
    uint32_t code_count;
} line_program;

static uint32_t address_in(const void *data) { return (uint32_t)(uintptr_t)data; }

/* ---- requests -------------------------------------------------------------------------------- */

/* The answer's body, whose status is OK; NULL with a text in `error`. */
static const void *ask(line_state *s, const kiln_line_request *request, uint32_t least_bytes) {
    const void *body = kiln_line_ask(s->line, request, least_bytes);
    uint32_t status = KILN_FRAME_REFUSED;
    if (body) memcpy(&status, body, sizeof status);
    if (!body)
        snprintf(s->error, sizeof s->error, "%s", kiln_line_error(s->line));
    else if (status == KILN_FRAME_REFUSED)
        snprintf(s->error, sizeof s->error, "the monitor refuses a request of kind %d",
                 (int)request->kind);
    return status == KILN_FRAME_REFUSED ? NULL : body;
}

static int32_t write_bytes(line_state *s, uint32_t to, const void *data, size_t size) {
    for (size_t at = 0; at < size;) {
        const uint32_t bytes = (uint32_t)KILN_MIN(size - at, (size_t)KILN_FRAME_DATA_MAX);
        const kiln_frame_write head = {to + (uint32_t)at};
        const kiln_line_request r = {KILN_FRAME_WRITE, &head, (const char *)data + at,
                                     sizeof head,      bytes, ANSWER_NS};
        if (!ask(s, &r, sizeof(uint32_t))) return KILN_KERNEL_FAILED;
        at += bytes;
    }
    return KILN_KERNEL_OK;
}

static int32_t read_bytes(line_state *s, void *to, uint32_t from, size_t size) {
    for (size_t at = 0; at < size;) {
        const uint32_t bytes = (uint32_t)KILN_MIN(size - at, (size_t)KILN_FRAME_DATA_MAX);
        const kiln_frame_read head = {from + (uint32_t)at, bytes};
        const kiln_line_request r = {.kind = KILN_FRAME_READ,
                                     .first = &head,
                                     .first_bytes = sizeof head,
                                     .deadline_ns = ANSWER_NS};
        const char *body = ask(s, &r, (uint32_t)sizeof(uint32_t) + bytes);
        if (!body) return KILN_KERNEL_FAILED;
        memcpy((char *)to + at, body + sizeof(uint32_t), bytes);
        at += bytes;
    }
    return KILN_KERNEL_OK;
}

static int32_t copy_bytes(line_state *s, uint32_t to, uint32_t from, size_t size) {
    const kiln_frame_copy head = {to, from, (uint32_t)size};
    const kiln_line_request r = {.kind = KILN_FRAME_COPY,
                                 .first = &head,
                                 .first_bytes = sizeof head,
                                 .deadline_ns = ANSWER_NS};
    return ask(s, &r, sizeof(uint32_t)) ? KILN_KERNEL_OK : KILN_KERNEL_FAILED;
}

static int32_t zero_bytes(line_state *s, uint32_t at, size_t size) {
    static const uint8_t zeros[SEED_BYTES];
    size_t done = KILN_MIN(size, sizeof zeros);
    int32_t status = write_bytes(s, at, zeros, done);
    for (size_t next; !status && done < size; done += next) {
        next = KILN_MIN(done, size - done);
        status = copy_bytes(s, at + (uint32_t)done, at, next);
    }
    return status;
}

/* ---- the device ------------------------------------------------------------------------------ */

static void line_close(void *context) {
    line_state *s = context;
    if (s) kiln_line_close(s->line);
    kiln_free(s);
}

static kiln_status greet(line_state *s, const char *path) {
    const kiln_line_request r = {.kind = KILN_FRAME_HELLO, .deadline_ns = ANSWER_NS};
    const void *body = ask(s, &r, sizeof s->hello);
    if (!body) return KILN_ERROR(UNAVAILABLE, "%s: %s", path, s->error);
    memcpy(&s->hello, body, sizeof s->hello);
    kiln_frame_hello_answer *h = &s->hello;
    h->target[KILN_FRAME_TEXT_BYTES - 1] = h->board[KILN_FRAME_TEXT_BYTES - 1] = '\0';
    if (h->version != KILN_FRAME_VERSION || h->tick_hz == 0 ||
        h->memory_bytes > UINT32_MAX - h->memory_begin)
        return KILN_ERROR(
            FAILED_PRECONDITION,
            "%s: the monitor speaks version %u of its protocol, not %u: flash the one "
            "of this Kiln (docs/how-to/microcontroller.md)",
            path, h->version, KILN_FRAME_VERSION);
    return NULL;
}

static kiln_status connect_line(line_state **out_state) {
    const char *path = kiln_env("KILN_LINE"), *rate = kiln_env("KILN_LINE_BAUD");
    uint64_t baud = BAUD;
    if (!path)
        return KILN_ERROR(NOT_FOUND, "KILN_LINE does not name the serial line of a microcontroller "
                                     "(docs/how-to/microcontroller.md)");
    if (rate && !kiln_str_to_u64(kiln_str_from(rate), &baud))
        return KILN_ERROR(INVALID_ARGUMENT, "KILN_LINE_BAUD=%s is no number", rate);
    line_state *s = kiln_alloc(sizeof *s);
    kiln_status st = kiln_line_open(path, baud, &s->line);
    if (!st) st = greet(s, path);
    if (st)
        line_close(s);
    else
        *out_state = s;
    return st;
}

/* Reads the target that the monitor reports. */
static kiln_status read_target(const line_state *s, kiln_arena *arena, kiln_target *out_target) {
    kiln_target target;
    const kiln_str text = kiln_str_from(kiln_str_dup(arena, kiln_str_from(s->hello.target)));
    kiln_status st = kiln_target_parse(text, arena, &target);
    if (!st && kiln_payload_of(target.kind) != KILN_PAYLOAD_THUMB)
        st = KILN_ERROR(FAILED_PRECONDITION, "'%s' is no microcontroller", text.data);
    if (st) return kiln_status_note(st, "the monitor's target");
    *out_target = target;
    return NULL;
}

static kiln_status line_list(kiln_arena *arena, kiln_device_facts **out_facts,
                             uint32_t *out_count) {
    kiln_device_facts *facts = KILN_ARENA_NEW(arena, kiln_device_facts);
    line_state *s = NULL;
    kiln_status st = connect_line(&s);
    if (!st) st = read_target(s, arena, &facts->target);
    if (!st) {
        facts->name = kiln_str_dup(arena, kiln_str_from(s->hello.board));
        facts->driver = kiln_arena_printf(arena, "monitor %u, %u ticks a second", s->hello.version,
                                          s->hello.tick_hz);
        facts->memory_bytes = s->hello.memory_bytes;
        *out_facts = facts;
        *out_count = 1;
    }
    line_close(s);
    return st;
}

static kiln_status line_open(const kiln_device_setup *setup, kiln_arena *arena,
                             kiln_target *out_target, void **out_state) {
    line_state *s = NULL;
    kiln_target target;
    kiln_strbuf reason = {0};
    if (setup->index > 0) return KILN_ERROR(NOT_FOUND, "a line leads to one microcontroller");
    kiln_status st = connect_line(&s);
    if (!st) st = read_target(s, arena, &target);
    if (!st && setup->wanted && !kiln_target_runs_on(setup->wanted, &target, &reason))
        st = KILN_ERROR(NOT_FOUND, "%s", reason.data);
    kiln_strbuf_deinit(&reason);
    if (st) {
        line_close(s);
        return st;
    }
    if (!setup->target) *out_target = target;
    *out_state = s;
    return NULL;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* The first place where `bytes` fit; the index of the block that follows. */
static bool find_room(const line_state *s, uint64_t bytes, uint32_t *out_begin, uint32_t *out_at) {
    const uint64_t end = (uint64_t)s->hello.memory_begin + s->hello.memory_bytes;
    uint64_t begin = KILN_ALIGN_UP((uint64_t)s->hello.memory_begin, ALIGNMENT);
    for (uint32_t i = 0; i <= s->block_count; i++) {
        const uint64_t until = i < s->block_count ? s->block[i].begin : end;
        if (begin + bytes <= until) {
            *out_begin = (uint32_t)begin;
            *out_at = i;
            return true;
        }
        if (i < s->block_count) begin = KILN_ALIGN_UP((uint64_t)s->block[i].end, ALIGNMENT);
    }
    return false;
}

static kiln_status line_allocate(void *context, kiln_memory_space space, size_t size_bytes,
                                 kiln_guard guard, kiln_device_memory *out_memory) {
    (void)guard; /* the memory protection unit protects all memory for candidates together */
    line_state *s = context;
    uint32_t begin = 0, at = 0;
    const size_t bytes = KILN_MAX(size_bytes, 1);
    if (s->block_count == BLOCKS_MAX || !find_room(s, bytes, &begin, &at))
        return KILN_ERROR(RESOURCE_EXHAUSTED,
                          "%zu bytes do not fit into the microcontroller's %u any more", size_bytes,
                          s->hello.memory_bytes);
    if (zero_bytes(s, begin, bytes)) return KILN_ERROR(UNAVAILABLE, "%s", s->error);
    memmove(&s->block[at + 1], &s->block[at], (s->block_count - at) * sizeof *s->block);
    s->block[at] = (block){begin, begin + (uint32_t)bytes};
    s->block_count++;
    *out_memory = (kiln_device_memory){
        .space = space, .size_bytes = size_bytes, .data = (void *)(uintptr_t)begin};
    return NULL;
}

static void line_release(void *context, kiln_device_memory *memory) {
    line_state *s = context;
    uint32_t at = 0;
    while (at < s->block_count && s->block[at].begin != address_in(memory->data)) at++;
    KILN_CHECK(at < s->block_count);
    s->block_count--;
    memmove(&s->block[at], &s->block[at + 1], (s->block_count - at) * sizeof *s->block);
}

static kiln_device_place line_place(void *state, const kiln_device_memory *memory,
                                    uint64_t offset) {
    (void)state;
    return (kiln_device_place){(char *)memory->data + offset, 0};
}

static int32_t line_copy(void *context, kiln_copy_direction direction, kiln_device_place to,
                         kiln_device_place from, size_t size_bytes) {
    line_state *s = context;
    switch (direction) {
    case KILN_COPY_WITHIN:
        return copy_bytes(s, address_in(to.data), address_in(from.data), size_bytes);
    case KILN_COPY_TO_DEVICE: return write_bytes(s, address_in(to.data), from.data, size_bytes);
    case KILN_COPY_FROM_DEVICE: return read_bytes(s, to.data, address_in(from.data), size_bytes);
    }
    return KILN_KERNEL_FAILED;
}

/* ---- programs -------------------------------------------------------------------------------- */

static kiln_status line_check(const kiln_artefact *artefact, const kiln_target *target) {
    return kiln_object_payload_check(artefact, KILN_PAYLOAD_THUMB, target->arch);
}

static void line_unload(void *context, void *loaded) {
    line_state *s = context;
    line_program *program = loaded;
    for (uint32_t i = 0; i < program->code_count; i++)
        if (program->code[i].data) line_release(s, &program->code[i]);
    if (program->scratch.data) line_release(s, &program->scratch);
    kiln_free(program->code);
    kiln_free(program->entry);
    kiln_free(program->arg_count);
    kiln_free(program);
}

/* Addresses of the functions that the image calls: [kiln_service_count()], 0 for others. */
static kiln_status find_services(line_state *s, const kiln_object_image *image, kiln_arena *scratch,
                                 uint64_t **out_address) {
    uint64_t *address = KILN_ARENA_ARRAY(scratch, uint64_t, kiln_service_count());
    for (uint32_t i = 0; i < kiln_service_count(); i++) {
        kiln_frame_find_answer answer;
        const char *name = kiln_service_name(i);
        const kiln_line_request r = {.kind = KILN_FRAME_FIND,
                                     .first = name,
                                     .first_bytes = (uint32_t)strlen(name),
                                     .deadline_ns = ANSWER_NS};
        if (image->veneer[i] == KILN_SERVICE_NONE) continue;
        const void *body = ask(s, &r, sizeof answer);
        if (!body) return KILN_ERROR(UNAVAILABLE, "%s", s->error);
        memcpy(&answer, body, sizeof answer);
        if (!answer.address)
            return KILN_ERROR(UNIMPLEMENTED, "the microcontroller has no function %s", name);
        address[i] = answer.address;
    }
    *out_address = address;
    return NULL;
}

/* Addresses of the launches whose entries are in this payload. */
static kiln_status find_entries(const kiln_manifest *manifest, uint32_t payload,
                                const kiln_object_image *image, uint32_t begin,
                                line_program *program) {
    for (uint32_t i = 0; i < manifest->launch_count; i++) {
        const kiln_manifest_launch *launch = &manifest->launch[i];
        if (launch->payload != payload) continue;
        program->arg_count[i] = launch->arg_count;
        for (uint32_t k = 0; k < image->symbol_count; k++) {
            const kiln_object_symbol *symbol = &image->symbol[k];
            if (symbol->entry && kiln_str_equal(symbol->name, launch->entry))
                program->entry[i] =
                    begin + (uint32_t)(image->section[symbol->section].place + symbol->value);
        }
        if (!program->entry[i])
            return KILN_ERROR(NOT_FOUND, "object: it has no global function %.*s",
                              KILN_STR_ARG(launch->entry));
    }
    return NULL;
}

/* Links a payload to the address of its code, and sends it there. */
static kiln_status load_payload(line_state *s, const kiln_artefact *artefact, uint32_t payload,
                                line_program *program) {
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    kiln_object_image image;
    uint64_t *services = NULL;
    uint8_t *memory = NULL;
    kiln_device_memory *code = &program->code[payload];
    kiln_status st = kiln_object_read(kiln_artefact_payload(artefact, payload),
                                      kiln_object_arch_find(KILN_ARCH_THUMB), KILN_KERNEL_ALIGNMENT,
                                      &scratch, &image);
    if (!st) st = find_services(s, &image, &scratch, &services);
    if (!st) st = line_allocate(s, KILN_MEMORY_DEVICE, image.image_bytes, KILN_GUARD_NONE, code);
    const uint32_t begin = st ? 0 : address_in(code->data);
    if (!st) {
        memory = kiln_arena_alloc(&scratch, image.image_bytes);
        st = kiln_object_link(&image, memory, begin, services);
    }
    if (!st) st = find_entries(&artefact->manifest, payload, &image, begin, program);
    if (!st && write_bytes(s, begin, memory, image.image_bytes))
        st = KILN_ERROR(UNAVAILABLE, "%s", s->error);
    kiln_arena_deinit(&scratch);
    return st;
}

static kiln_status line_load(void *context, const kiln_artefact *artefact, void **out_program) {
    line_state *s = context;
    const kiln_manifest *manifest = &artefact->manifest;
    kiln_status st = kiln_object_payload_check_manifest(manifest, KILN_PAYLOAD_THUMB);
    if (st) return st;
    line_program *program = kiln_alloc(sizeof *program);
    program->code_count = manifest->payload_count;
    program->code = kiln_alloc(manifest->payload_count * sizeof *program->code);
    program->entry = kiln_alloc(manifest->launch_count * sizeof *program->entry);
    program->arg_count = kiln_alloc(manifest->launch_count * sizeof *program->arg_count);
    for (uint32_t i = 0; !st && i < manifest->payload_count; i++)
        st = load_payload(s, artefact, i, program);
    const size_t scratch_bytes = kiln_services_scratch_bytes(manifest, 1);
    if (!st)
        st =
            line_allocate(s, KILN_MEMORY_DEVICE, scratch_bytes, KILN_GUARD_NONE, &program->scratch);
    if (st)
        line_unload(s, program);
    else
        *out_program = program;
    return st;
}

static int32_t line_launch(void *context, void *loaded, uint32_t launch,
                           kiln_kernel_tensor *const *args, const kiln_kernel_services *services) {
    (void)services;
    line_state *s = context;
    const line_program *program = loaded;
    const uint32_t count = program->arg_count[launch];
    kiln_frame_call_answer answer;
    kiln_frame_call head = {program->entry[launch], address_in(program->scratch.data), count, {0}};
    if (count > KILN_FRAME_ARGS_MAX) return KILN_KERNEL_FAILED; /* a valid manifest has fewer */
    for (uint32_t i = 0; i < count; i++) head.arg[i] = address_in(args[i]->data);
    const kiln_line_request r = {
        .kind = KILN_FRAME_CALL,
        .first = &head,
        .first_bytes = (uint32_t)(offsetof(kiln_frame_call, arg) + count * sizeof *head.arg),
        .deadline_ns = KILN_LINE_FOREVER}; /* the server stops a candidate that never returns */
    const void *body = ask(s, &r, sizeof answer);
    if (!body) return KILN_KERNEL_FAILED;
    memcpy(&answer, body, sizeof answer);
    s->ticks += answer.ticks;
    if (answer.status == KILN_FRAME_OK) return answer.result;
    if (answer.status == KILN_FRAME_FAULT)
        snprintf(s->error, sizeof s->error, "the processor stopped it at %#x (fault status %#x)",
                 answer.fault_address, answer.fault_status);
    else
        snprintf(s->error, sizeof s->error, "bytes on the line stopped it");
    return KILN_KERNEL_FAILED;
}

/* ---- time ------------------------------------------------------------------------------------ */

static int32_t line_record(void *context, uint32_t event) {
    line_state *s = context;
    s->event_ticks[event] = s->ticks;
    return KILN_KERNEL_OK;
}

static int32_t line_wait(void *state, uint32_t event) {
    (void)state, (void)event;
    return KILN_KERNEL_OK;
}

static uint64_t line_elapsed_ns(void *context, uint32_t from_event, uint32_t to_event) {
    const line_state *s = context;
    const uint64_t ticks = s->event_ticks[to_event] - s->event_ticks[from_event];
    return (uint64_t)((double)ticks * (double)KILN_NS_PER_S / s->hello.tick_hz);
}

static const char *line_error(void *context) { return ((const line_state *)context)->error; }

/* A candidate cannot break the line. */
static bool line_is_broken(void *context) {
    return kiln_line_error(((const line_state *)context)->line) != NULL;
}

const kiln_device_vtable kiln_device_line = {
    .list = line_list,
    .open = line_open,
    .close = line_close,
    .allocate = line_allocate,
    .release = line_release,
    .place = line_place,
    .check = line_check,
    .load = line_load,
    .unload = line_unload,
    .launch = line_launch,
    .copy = line_copy,
    .record = line_record,
    .wait = line_wait,
    .elapsed_ns = line_elapsed_ns,
    .error = line_error,
    .is_lost = line_is_broken,
    .is_broken = line_is_broken,
};
