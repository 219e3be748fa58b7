#include "rpc-server/trial_memory.h"

#include "base/alloc.h"
#include "base/reference.h"
#include "base/vec.h"

/* An input, and what it was made from. */
typedef struct input {
    char *data; /* [bytes] */
    size_t bytes;
    uint64_t seed;
    kiln_dtype dtype;
    kiln_shape shape;
    kiln_layout layout;
    kiln_fill fill;
    kiln_range range;
} input;

struct kiln_trial_memory {
    kiln_device *device;
    bool keeps_inputs;
    KILN_VEC(kiln_device_memory) block; /* free ones */
    input input[KILN_MANIFEST_ARGS_MAX];
};

kiln_trial_memory *kiln_trial_memory_create(kiln_device *device) {
    kiln_trial_memory *memory = kiln_alloc(sizeof *memory);
    *memory = (kiln_trial_memory){.device = device,
                                  .keeps_inputs = !kiln_device_target(device)->emulated};
    return memory;
}

void kiln_trial_memory_destroy(kiln_trial_memory *memory) {
    if (!memory) return;
    kiln_trial_memory_trim(memory);
    kiln_vec_deinit(&memory->block);
    for (uint32_t i = 0; i < KILN_MANIFEST_ARGS_MAX; i++) kiln_free(memory->input[i].data);
    kiln_free(memory);
}

/* ---- Blocks ---- */

kiln_status kiln_trial_memory_take(kiln_trial_memory *memory, size_t bytes,
                                   kiln_device_memory *out_block) {
    for (uint32_t i = 0; i < memory->block.count; i++) {
        if (memory->block.data[i].size_bytes != bytes) continue;
        *out_block = memory->block.data[i];
        memory->block.data[i] = memory->block.data[--memory->block.count];
        return NULL;
    }
    kiln_status st = kiln_device_allocate(memory->device, bytes, KILN_GUARD_NONE, out_block);
    if (!st || memory->block.count == 0) return st;
    kiln_status_free(st); /* freeing kept blocks may make room */
    kiln_trial_memory_trim(memory);
    return kiln_device_allocate(memory->device, bytes, KILN_GUARD_NONE, out_block);
}

void kiln_trial_memory_give(kiln_trial_memory *memory, kiln_device_memory *block) {
    if (block->data) kiln_vec_push(&memory->block, *block);
    *block = (kiln_device_memory){0};
}

void kiln_trial_memory_trim(kiln_trial_memory *memory) {
    for (uint32_t i = 0; i < memory->block.count; i++)
        kiln_device_release(memory->device, &memory->block.data[i]);
    memory->block.count = 0;
}

/* ---- Inputs ---- */

static bool is_made_of(const input *in, const kiln_manifest_arg *arg, uint64_t seed, size_t bytes) {
    bool same = in->data && in->bytes == bytes && in->seed == seed && in->dtype == arg->dtype &&
                in->fill == arg->fill && in->shape.rank == arg->shape.rank &&
                in->range.low == arg->range.low && in->range.high == arg->range.high &&
                in->range.step == arg->range.step && kiln_layout_equal(&in->layout, &arg->layout);
    for (uint32_t d = 0; same && d < arg->shape.rank; d++)
        same = in->shape.dim[d] == arg->shape.dim[d];
    return same;
}

static char *make(const kiln_manifest_arg *arg, uint64_t seed, size_t bytes) {
    const uint16_t poison = arg->role == KILN_ROLE_CONSTANT ? 0 : KILN_POISON_FIRST;
    char *physical = kiln_alloc(bytes);
    if (kiln_layout_is_identity(&arg->layout)) {
        kiln_manifest_arg_fill(arg, seed, physical);
        return physical;
    }
    void *logical = kiln_alloc((size_t)kiln_shape_count(&arg->shape) * kiln_dtype_size(arg->dtype));
    kiln_manifest_arg_fill(arg, seed, logical);
    for (size_t i = 0; i < bytes; i++) physical[i] = (char)(poison >> 8 * (i % 2) & 255);
    kiln_layout_pack(&arg->layout, &arg->shape, arg->dtype, logical, physical);
    kiln_free(logical);
    return physical;
}

const char *kiln_trial_memory_input(kiln_trial_memory *memory, uint32_t index,
                                    const kiln_manifest_arg *arg, uint64_t seed, size_t bytes) {
    input *in = &memory->input[index];
    if (is_made_of(in, arg, seed, bytes)) return in->data;
    kiln_free(in->data);
    *in = (input){.data = make(arg, seed, bytes),
                  .bytes = bytes,
                  .seed = seed,
                  .dtype = arg->dtype,
                  .shape = arg->shape,
                  .layout = arg->layout,
                  .fill = arg->fill,
                  .range = arg->range};
    return in->data;
}

void kiln_trial_memory_end_input(kiln_trial_memory *memory, uint32_t index) {
    input *in = &memory->input[index];
    if (memory->keeps_inputs && in->bytes <= KILN_TRIAL_INPUT_BYTES_MAX) return;
    kiln_free(in->data);
    *in = (input){0};
}
