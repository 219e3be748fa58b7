#include "cli/cli.h"

#include "base/program/program.h"
#include "cli/common/json.h"
#include "compiler-core/core.h"
#include "compiler-core/frontend/data_set.h"
#include "proto/proto.h"

static const char *const commands[] = {
#define X(name, function, doc) name,
#include "cli/commands.def"
#undef X
    KILN_VTA_SEARCH, NULL};

static const char *const shared_options[] = {
#define X(option, kind) option,
#include "cli/shared_options.def"
#undef X
    NULL};

static kiln_executable program_of(const char *command) {
    return (kiln_executable){.name = "kiln",
                             .level = KILN_LOG_ERROR, /* nobody else waits for its loop */
                             .protocol_min = KILN_PROTO_VERSION_MIN,
                             .protocol_max = KILN_PROTO_VERSION_MAX,
                             .codegen = kiln_codegen_version(),
                             .command = command,
                             .commands = commands,
                             .shared = shared_options};
}

void kiln_print_version(void) {
    const kiln_executable program = program_of(NULL);
    kiln_executable_print_version(&program);
}

kiln_status kiln_args_parse(const kiln_opt_table *table, int argc, char **argv, kiln_arena *process,
                            kiln_args *out) {
    const kiln_executable program = program_of(argv[0]);
    return kiln_command_line_parse(&program, table, argc, argv, process, out);
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
