/* ONNX bytes from strangers, quantised: refused, or written as a model that imports or is refused.
 */
#include "base/check.h"
#include "compiler-core/frontend/onnx/quantize.h"
#include "tests/fuzz/fuzz.h"

/* Any scales do: what is fuzzed is where they are put. */
static void quantise(kiln_onnx_edit *edit, const kiln_quantize_options *options) {
    kiln_sites sites;
    kiln_quantize_plan plan = {0};
    char **name = NULL;
    kiln_str bytes;
    kiln_arena *arena = edit->arena;
    kiln_status st = kiln_onnx_raise_opset(edit, kiln_onnx_quantize_opset(options));
    if (!st) kiln_onnx_fold_norms(edit);
    kiln_sites_init(&sites, edit, options);
    if (!st) st = kiln_sites_plan(&sites, edit, &plan);
    if (!st) {
        kiln_quantization *group = KILN_ARENA_ARRAY(arena, kiln_quantization, plan.group_count);
        const double **mean = KILN_ARENA_ARRAY(arena, const double *, plan.observed_count);
        uint32_t *mean_count = KILN_ARENA_ARRAY(arena, uint32_t, plan.observed_count);
        for (uint32_t g = 0; g < plan.group_count; g++)
            group[g] = (kiln_quantization){
                0.25f, options->shift ? 0 : -(1 << (plan.group_bits[g] - 1)), plan.group_bits[g]};
        for (uint32_t i = 0; i < plan.observed_count; i++) {
            mean_count[i] = 4;
            mean[i] = KILN_ARENA_ARRAY(arena, double, mean_count[i]);
        }
        const kiln_quantize_found found = {group, mean, mean_count};
        kiln_onnx_quantize(edit, &sites, &plan, &found, options, &name);
        for (uint32_t i = 0; i < plan.observed_count; i++) kiln_onnx_edit_add_output(edit, name[i]);
        st = kiln_onnx_edit_pack(edit, &bytes);
    }
    if (!st) {
        kiln_graph *graph = NULL;
        st = kiln_import_bytes(bytes, NULL, NULL, arena, &graph);
        if (!st) KILN_CHECK(!kiln_graph_verify(graph));
    }
    kiln_status_free(st); /* a finding is fine */
    kiln_sites_deinit(&sites);
}

int kiln_fuzz_one(const uint8_t *data, size_t size) {
    static const kiln_quantize_options way[] = {
        {.per_channel = true, .is_unsigned = true, .weight_bits = 8, .activation_bits = 8},
        {.shift = true, .weight_bits = 8, .activation_bits = 8},
        {.is_unsigned = true, .weight_bits = 1, .activation_bits = 2},
        {.weight_bits = 2, .activation_bits = 1, .all_layers = true}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(way); i++) {
        kiln_arena arena;
        kiln_onnx_edit edit;
        kiln_arena_init(&arena, 0);
        kiln_status st = kiln_onnx_edit_init(&edit, (kiln_str){(const char *)data, size},
                                             &(kiln_onnx_files){0}, KILN_TENSOR_BYTES_MAX, &arena);
        if (!st) st = kiln_onnx_quantize_check(&edit);
        if (!st) quantise(&edit, &way[i]);
        kiln_status_free(st); /* a finding is fine */
        kiln_onnx_edit_deinit(&edit);
        kiln_arena_deinit(&arena);
    }
    return 0;
}
