#include "cli/cli.h"

#include "cli/common/json.h"
#include "compiler-core/frontend/data_set.h"

kiln_status kiln_args_parse(const kiln_opt_table *table, int argc, char **argv, kiln_arena *process,
                            kiln_args *out) {
    *out = (kiln_args){0};
    kiln_status st =
        kiln_opt_parse(table, argc, argv, process, &out->positional, &out->count, &out->help);
    if (!st && !out->help) out->given = kiln_opt_list_given(table, argc, argv, process);
    if (st || !out->help) return st;
    kiln_strbuf text = {0};
    kiln_opt_print_help(table, &text);
    fputs(text.data, stdout);
    kiln_strbuf_deinit(&text);
    return KILN_OK;
}

void kiln_print_text(kiln_str text, kiln_text_form form, FILE *out) {
    kiln_strbuf printable = {0};
    kiln_text_append(&printable, text, form, SIZE_MAX);
    fwrite(printable.data, 1, printable.size, out);
    kiln_strbuf_deinit(&printable);
}

kiln_status kiln_read_tensor(const char *path, kiln_arena *process, kiln_tensor *out) {
    if (kiln_str_ends(kiln_str_from(path), ".pb")) {
        kiln_named_tensor named;
        kiln_status st = kiln_onnx_tensor_load(path, process, &named);
        if (!st) *out = named.tensor;
        return st;
    }
    return kiln_tensor_read_npy(path, process, out);
}

void kiln_json_line(json_t *object) {
    kiln_strbuf text = {0};
    kiln_json_print(object, &text);
    puts(text.data);
    fflush(stdout);
    kiln_strbuf_deinit(&text);
}
