/* Data sets of ONNX's backend tests. */
#include "compiler-core/frontend/data_set.h"
#include "base/file.h"

/* Files PREFIX_0.pb, PREFIX_1.pb, ... one per name; fewer are fine (optional inputs), more are not.
 */
static kiln_status load_files(const char *folder, const char *prefix, const kiln_str *name,
                              const kiln_dtype *dtype, uint32_t name_count, kiln_arena *arena,
                              kiln_named_tensor *out_tensor, uint32_t *out_count) {
    for (uint32_t i = 0; i <= name_count; i++) {
        const char *path = kiln_arena_printf(arena, "%s/%s_%u.pb", folder, prefix, i);
        if (!kiln_file_exists(path)) break;
        if (i == name_count)
            return KILN_ERROR(INVALID_ARGUMENT, "%s is one too many: the model has %u %s%s", path,
                              name_count, prefix, name_count == 1 ? "" : "s");
        kiln_status st = kiln_onnx_tensor_load(path, arena, &out_tensor[i]);
        if (st) return st;
        out_tensor[i].name = name[i];
        if (dtype[i] == KILN_BF16 && out_tensor[i].tensor.dtype == KILN_U16)
            out_tensor[i].tensor.dtype = KILN_BF16;
        *out_count = i + 1;
    }
    return KILN_OK;
}

kiln_status kiln_onnx_data_set_load(const char *folder, uint32_t number, kiln_arena *arena,
                                    kiln_data_set *out_set) {
    kiln_onnx_ports ports;
    kiln_data_set set = {0};
    const char *model = kiln_arena_printf(arena, "%s/model.onnx", folder),
               *data = kiln_arena_printf(arena, "%s/test_data_set_%u", folder, number);
    if (!kiln_file_is_folder(data))
        return KILN_ERROR(NOT_FOUND, "%s has no data set %u", folder, number);
    kiln_status st = kiln_onnx_ports_read(model, arena, &ports);
    if (st) return st;
    set.input = KILN_ARENA_ARRAY(arena, kiln_named_tensor, ports.input_count);
    set.output = KILN_ARENA_ARRAY(arena, kiln_named_tensor, ports.output_count);
    st = load_files(data, "input", ports.input, ports.input_dtype, ports.input_count, arena,
                    set.input, &set.input_count);
    if (!st)
        st = load_files(data, "output", ports.output, ports.output_dtype, ports.output_count, arena,
                        set.output, &set.output_count);
    if (!st) *out_set = set;
    return st;
}
