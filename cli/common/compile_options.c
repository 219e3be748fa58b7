#include "cli/common/compile_options.h"

#include "cli/common/sizes.h"

kiln_opt_table kiln_compile_options_init(kiln_compile_options *o, kiln_arena *process) {
    *o = (kiln_compile_options){.emit = "module"};
    const kiln_opt option[] = {
        {"target", KILN_OPT_TEXT, &o->target, "T",
         "device to compile for (default native; of static-c and library x86-64)"},
        KILN_THREADS_OPTION(&o->threads),
        {"db", KILN_OPT_TEXT, &o->db, "PATH",
         "records database (default $KILN_HOME/kiln.db); none: default schedules"},
        KILN_ACCURACY_OPTIONS(&o->accuracy),
        {"output|o", KILN_OPT_TEXT, &o->output, "MODULE",
         "file or folder to write (default: the model's name with .kiln, .wasm, .c, or nothing)"},
        {"emit", KILN_OPT_TEXT, &o->emit, "WHAT",
         "module, static-c (NAME.c and NAME.h), library (a folder for Arduino, Zephyr and CMake), "
         "llvm, asm, loops or graph (default module)"},
        {"schedule", KILN_OPT_TEXT, &o->schedule, "FILE",
         "file of schedules to pack: \"task KEY\" and the lines of its trace, for each task"},
        {"without", KILN_OPT_TEXT, &o->without, "NAME,...",
         "leave out passes or parts of planning, to measure the effect of each"},
        {"model-name", KILN_OPT_LINE, &o->model_name, "TEXT", kiln_model_name_help},
        KILN_MODEL_OPTIONS(&o->dim, kiln_sizes_help, &o->import),
        {"json", KILN_OPT_FLAG, &o->json, NULL, "print one object"},
    };
    return (kiln_opt_table){
        "kiln compile MODEL [options]",
        "Makes a deployable module from a model (ONNX, TFLite, or an operator of your own) and the "
        "best stored schedules; tasks without records get their default schedule.",
        kiln_arena_copy(process, option, sizeof option),
        KILN_ARRAY_COUNT(option),
        1,
        1};
}
