#include "deploy/runtime/kept_port.h"

#include "base/alloc.h"

kiln_status kiln_kept_port_init(kiln_kept_port *k) {
    kiln_status st = KILN_OK;
    for (int i = 0; !st && i < 2; i++)
        st = kiln_device_allocate(k->on, k->size_bytes, KILN_GUARD_NONE, &k->memory[i]);
    if (st) kiln_kept_port_deinit(k);
    return st;
}

void kiln_kept_port_deinit(kiln_kept_port *k) {
    for (int i = 0; i < 2; i++) kiln_device_release(k->on, &k->memory[i]);
}

kiln_device_place kiln_kept_port_place(const kiln_kept_port *k, bool is_output) {
    return kiln_device_place_at(k->on, &k->memory[is_output ? 1 - k->now : k->now], 0);
}

int32_t kiln_kept_port_advance(kiln_kept_port *k) {
    if (k->device == 0) {
        k->now = 1 - k->now;
        return KILN_KERNEL_OK;
    }
    return kiln_device_copy(k->on, KILN_COPY_WITHIN, kiln_kept_port_place(k, false),
                            kiln_kept_port_place(k, true), k->size_bytes);
}

static int32_t copy(const kiln_kept_port *k, kiln_copy_direction direction, kiln_device_place to,
                    kiln_device_place from) {
    int32_t status = kiln_device_copy(k->on, direction, to, from, k->size_bytes);
    if (!status) status = kiln_device_record(k->on, 0);
    return status ? status : kiln_device_wait(k->on, 0);
}

int32_t kiln_kept_port_read(const kiln_kept_port *k, void *data) {
    return copy(k, KILN_COPY_FROM_DEVICE, kiln_host_place(data), kiln_kept_port_place(k, false));
}

int32_t kiln_kept_port_write(kiln_kept_port *k, const void *data) {
    void *zeros = data ? NULL : kiln_alloc(k->size_bytes);
    const void *from = data ? data : zeros;
    const int32_t status = copy(k, KILN_COPY_TO_DEVICE, kiln_kept_port_place(k, false),
                                kiln_host_place((void *)(uintptr_t)from));
    kiln_free(zeros);
    return status;
}
