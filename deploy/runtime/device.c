#include "deploy/runtime/device.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "base/check.h"
#include "base/macros.h"

struct kiln_device {
    const kiln_device_row *row;
    void *state;
    kiln_arena arena; /* strings of the target */
    kiln_target target;
    uint32_t reprogram_count;
};

static kiln_status find_row(kiln_device_kind kind, const kiln_device_row **out_row) {
    *out_row = kiln_device_row_of(kind);
    if (*out_row) return KILN_OK;
    return KILN_ERROR(UNIMPLEMENTED, "this build has no devices of kind %d", (int)kind);
}

/* Adds the driver's reason, if it has one, to an error that says that there is no such device. */
static kiln_status explain(const kiln_device_row *row, kiln_status st) {
    if (kiln_status_code(st) != KILN_NOT_FOUND || !row->vtable->explain_missing) return st;
    kiln_strbuf reason = {0};
    row->vtable->explain_missing(&reason);
    if (reason.size > 0) {
        kiln_status explained = KILN_ERROR(NOT_FOUND, "%s; %s", kiln_status_text(st), reason.data);
        kiln_status_free(st);
        st = explained;
    }
    kiln_strbuf_deinit(&reason);
    return st;
}

kiln_status kiln_device_list(kiln_device_kind kind, kiln_arena *arena,
                             kiln_device_facts **out_facts, uint32_t *out_count) {
    const kiln_device_row *row;
    kiln_status st = find_row(kind, &row);
    return st ? st : explain(row, row->vtable->list(arena, out_facts, out_count));
}

kiln_status kiln_device_count(kiln_device_kind kind, uint32_t *out_count) {
    kiln_arena scratch;
    kiln_device_facts *facts;
    kiln_arena_init(&scratch, 0);
    kiln_status st = kiln_device_list(kind, &scratch, &facts, out_count);
    kiln_arena_deinit(&scratch);
    return st;
}

/* Code that names no device may run only if exactly one device can run it. */
static kiln_status check_name(const kiln_target *wanted, const kiln_device_facts *facts,
                              uint32_t count) {
    kiln_strbuf names = {0}, reason = {0};
    uint32_t fitting = 0;
    if (wanted->triple.size > 0) return KILN_OK;
    for (uint32_t i = 0; i < count; i++) {
        const kiln_str name = facts[i].target.triple;
        if (name.size == 0 || !kiln_target_runs_on(wanted, &facts[i].target, &reason)) continue;
        kiln_strbuf_printf(&names, "%s%.*s", fitting++ > 0 ? ", " : "", KILN_STR_ARG(name));
    }
    kiln_status st = KILN_OK;
    if (fitting > 1) {
        const char *kind = kiln_target_kind_name(wanted->kind);
        st = KILN_ERROR(FAILED_PRECONDITION,
                        "%u devices run code for '%s'; name one in the target, %s:NAME: %s",
                        fitting, kind, kind, names.data);
    }
    kiln_strbuf_deinit(&reason);
    kiln_strbuf_deinit(&names);
    return st;
}

kiln_status kiln_device_choose(const kiln_device_setup *setup, const kiln_device_facts *facts,
                               uint32_t count, uint32_t *out_index) {
    kiln_strbuf reason = {0};
    uint32_t fitting = 0;
    kiln_status st = setup->wanted ? check_name(setup->wanted, facts, count) : KILN_OK;
    if (st) return st;
    for (uint32_t i = 0; i < count; i++) {
        kiln_strbuf_reset(&reason);
        if (setup->wanted && !kiln_target_runs_on(setup->wanted, &facts[i].target, &reason))
            continue;
        if (fitting++ < setup->index) continue;
        kiln_strbuf_deinit(&reason);
        *out_index = i;
        return KILN_OK;
    }
    if (setup->wanted && fitting == 0)
        st = KILN_ERROR(NOT_FOUND, "of %u devices none runs the code: %.*s", count,
                        KILN_STR_ARG(kiln_strbuf_view(&reason)));
    else
        st = KILN_ERROR(NOT_FOUND, "there is no device %u: there are %u%s", setup->index, fitting,
                        setup->wanted ? " that run the code" : "");
    kiln_strbuf_deinit(&reason);
    return st;
}

kiln_status kiln_device_find(const kiln_device_row *row, const kiln_target *wanted,
                             uint32_t *out_index) {
    const kiln_device_setup setup = {.wanted = wanted};
    kiln_arena scratch;
    kiln_device_facts *facts;
    uint32_t count;
    kiln_arena_init(&scratch, 0);
    kiln_status st = row->vtable->list(&scratch, &facts, &count);
    if (!st) st = kiln_device_choose(&setup, facts, count, out_index);
    kiln_arena_deinit(&scratch);
    return explain(row, st);
}

kiln_status kiln_device_open(kiln_device_kind kind, const kiln_device_setup *setup,
                             kiln_device **out_device) {
    static const kiln_device_setup first = {0};
    const kiln_device_row *row;
    kiln_status st = find_row(kind, &row);
    if (st) return st;
    kiln_device *device = kiln_alloc(sizeof *device);
    device->row = row;
    device->reprogram_count = 0;
    kiln_arena_init(&device->arena, 0);
    if (!setup) setup = &first;
    if (setup->target) device->target = kiln_target_copy(setup->target, &device->arena);
    st = explain(row, row->vtable->open(setup, &device->arena, &device->target, &device->state));
    if (st) {
        kiln_arena_deinit(&device->arena);
        kiln_free(device);
        return kiln_status_note(st, "device %s %u", row->name, setup->index);
    }
    *out_device = device;
    return KILN_OK;
}

void kiln_device_close(kiln_device *device) {
    if (!device) return;
    device->row->vtable->close(device->state);
    kiln_arena_deinit(&device->arena);
    kiln_free(device);
}

kiln_status kiln_device_reprogram(kiln_device *device, const kiln_target *target) {
    kiln_strbuf reason = {0};
    const bool is_it =
        kiln_target_runs_on(target, &device->target, &reason) && !kiln_device_is_broken(device);
    kiln_strbuf_deinit(&reason);
    if (is_it || !device->row->vtable->reprogram || target->kind != device->target.kind)
        return KILN_OK;
    kiln_status st = device->row->vtable->reprogram(device->state, target);
    if (st) return kiln_status_note(st, "making device %s another machine", device->row->name);
    device->target = kiln_target_copy(target, &device->arena);
    device->reprogram_count++;
    return KILN_OK;
}

uint32_t kiln_device_reprogram_count(const kiln_device *device) { return device->reprogram_count; }

const kiln_device_row *kiln_device_row_in(const kiln_device *device) { return device->row; }
const kiln_target *kiln_device_target(const kiln_device *device) { return &device->target; }
void *kiln_device_state(const kiln_device *device) { return device->state; }

kiln_status kiln_device_allocate(kiln_device *device, size_t size_bytes, kiln_guard guard,
                                 kiln_device_memory *out_memory) {
    return device->row->vtable->allocate(device->state, device->row->memory, size_bytes, guard,
                                         out_memory);
}

void kiln_device_release(kiln_device *device, kiln_device_memory *memory) {
    if (!memory->data) return;
    device->row->vtable->release(device->state, memory);
    *memory = (kiln_device_memory){0};
}

kiln_device_place kiln_device_place_at(const kiln_device *device, const kiln_device_memory *memory,
                                       uint64_t offset) {
    KILN_CHECK(offset <= memory->size_bytes);
    return device->row->vtable->place(device->state, memory, offset);
}

kiln_status kiln_device_adopt(kiln_device *device, void *data, uint64_t byte_offset,
                              size_t size_bytes, kiln_device_place *out_place) {
    const kiln_device_vtable *vtable = device->row->vtable;
    if (vtable->adopt)
        return vtable->adopt(device->state, data, byte_offset, size_bytes, out_place);
    return KILN_ERROR(INVALID_ARGUMENT, "%s devices cannot use memory of callers",
                      device->row->name);
}

kiln_status kiln_device_allocate_host(kiln_device *device, size_t size_bytes,
                                      kiln_host_memory *out_memory) {
    const kiln_device_vtable *vtable = device->row->vtable;
    if (!vtable->allocate_host)
        return KILN_ERROR(UNIMPLEMENTED, "%s devices have no special host memory",
                          device->row->name);
    return vtable->allocate_host(device->state, size_bytes, out_memory);
}

void kiln_device_release_host(kiln_device *device, kiln_host_memory *memory) {
    if (!memory->data) return;
    device->row->vtable->release_host(device->state, memory);
    *memory = (kiln_host_memory){0};
}

uint32_t kiln_device_index(const kiln_device *device) {
    const kiln_device_vtable *vtable = device->row->vtable;
    return vtable->index ? vtable->index(device->state) : 0;
}

void *kiln_device_context(const kiln_device *device) {
    const kiln_device_vtable *vtable = device->row->vtable;
    return vtable->context ? vtable->context(device->state) : NULL;
}

int32_t kiln_device_copy(kiln_device *device, kiln_copy_direction direction, kiln_device_place to,
                         kiln_device_place from, size_t size_bytes) {
    return device->row->vtable->copy(device->state, direction, to, from, size_bytes);
}

int32_t kiln_device_record(kiln_device *device, uint32_t event) {
    KILN_CHECK(event < KILN_DEVICE_EVENTS);
    return device->row->vtable->record(device->state, event);
}

int32_t kiln_device_wait(kiln_device *device, uint32_t event) {
    KILN_CHECK(event < KILN_DEVICE_EVENTS);
    return device->row->vtable->wait(device->state, event);
}

uint64_t kiln_device_elapsed_ns(const kiln_device *device, uint32_t from_event, uint32_t to_event) {
    KILN_CHECK(from_event < KILN_DEVICE_EVENTS && to_event < KILN_DEVICE_EVENTS);
    return device->row->vtable->elapsed_ns(device->state, from_event, to_event);
}

int32_t kiln_device_begin(kiln_device *device) {
    const kiln_device_vtable *vtable = device->row->vtable;
    return vtable->begin ? vtable->begin(device->state) : KILN_KERNEL_FAILED;
}

int32_t kiln_device_end(kiln_device *device, void **out_recording) {
    return device->row->vtable->end(device->state, out_recording);
}

int32_t kiln_device_replay(kiln_device *device, void *recording) {
    return device->row->vtable->replay(device->state, recording);
}

void kiln_device_forget(kiln_device *device, void *recording) {
    if (recording) device->row->vtable->forget(device->state, recording);
}

const char *kiln_device_error(const kiln_device *device) {
    const kiln_device_vtable *vtable = device->row->vtable;
    const char *text = vtable->error ? vtable->error(device->state) : NULL;
    return text ? text : "";
}

bool kiln_device_is_broken(const kiln_device *device) {
    const kiln_device_vtable *vtable = device->row->vtable;
    return vtable->is_broken && vtable->is_broken(device->state);
}

bool kiln_device_is_lost(const kiln_device *device) {
    const kiln_device_vtable *vtable = device->row->vtable;
    return vtable->is_lost && vtable->is_lost(device->state);
}

bool kiln_device_read(const kiln_device *device, kiln_device_reading *out_reading) {
    const kiln_device_vtable *vtable = device->row->vtable;
    return vtable->read && vtable->read(device->state, out_reading);
}
