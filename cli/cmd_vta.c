/* `kiln vta`: programs of accelerators of the VTA class, as text, as blobs and in modules: what is
 * in them, whether they are right, what they compute and how long that takes. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "cli/action.h"
#include "cli/common/json.h"
#include "cli/vta_file.h"
#include "cli/vta_search.h"
#include "vta/check.h"
#include "vta/csim.h"
#include "vta/rtl/params.h"

#define REDUNDANT_MAX 64u
#define EVERY_PROGRAM UINT64_MAX

typedef struct vta_call {
    const char *path, *output;
    kiln_opt_list input;
    uint64_t number; /* --program, or EVERY_PROGRAM */
    uint64_t lut_columns;
    bool json, redundant, sensitivity;
    kiln_arena *process;
} vta_call;

/* Those that the call is about. */
static kiln_status read_programs(const vta_call *c, kiln_vta_file_program **out_found,
                                 uint32_t *out_count) {
    kiln_status st = kiln_vta_file_read(c->path, c->process, out_found, out_count);
    if (st || c->number == EVERY_PROGRAM) return st;
    if (c->number >= *out_count)
        return KILN_ERROR(NOT_FOUND, "%s has no program %llu; it has %u, from 0 on", c->path,
                          (unsigned long long)c->number, *out_count);
    *out_found += c->number;
    *out_count = 1;
    return KILN_OK;
}

/* Of actions that take one alone. */
static kiln_status read_program(const vta_call *c, kiln_vta_program *out_program) {
    kiln_vta_file_program *found = NULL;
    uint32_t count = 0;
    kiln_strbuf list = {0};
    kiln_status st = read_programs(c, &found, &count);
    if (!st && count == 1) *out_program = found->program;
    for (uint32_t i = 0; !st && count > 1 && i < count; i++)
        kiln_strbuf_printf(&list, "%s%u %.*s", i ? ", " : "", i, KILN_STR_ARG(found[i].name));
    if (!st && count > 1)
        st = KILN_ERROR(INVALID_ARGUMENT, "%s has several programs, say --program N: %s", c->path,
                        list.data);
    kiln_strbuf_deinit(&list);
    return st;
}

static kiln_status fault_status(const vta_call *c, const kiln_vta_program *program,
                                const kiln_vta_fault *fault) {
    kiln_strbuf line = {0};
    if (fault->instruction < program->instruction_count) {
        const uint32_t buffer = program->instruction_buffer[fault->instruction];
        kiln_vta_instruction_print(
            &program->instruction[fault->instruction],
            buffer && buffer < program->buffer_count ? program->buffer[buffer].name : (kiln_str){0},
            &line);
    }
    kiln_status st = KILN_ERROR(FAILED_PRECONDITION, "%s: instruction %u (%.*s): %s: %s", c->path,
                                fault->instruction, KILN_STR_ARG(kiln_strbuf_view(&line)),
                                kiln_vta_fault_name(fault->kind), fault->text);
    kiln_strbuf_deinit(&line);
    return st;
}

static kiln_status write_out(const vta_call *c, kiln_str bytes) {
    if (c->output) return kiln_file_write(c->output, bytes, 0644);
    fwrite(bytes.data, 1, bytes.size, stdout);
    return KILN_OK;
}

/* ---- kiln vta asm, disasm, check ---- */

static kiln_status vta_asm(const vta_call *c) {
    kiln_vta_program program = {0};
    kiln_vta_fault fault = {0};
    kiln_strbuf bytes = {0};
    if (!c->output) return KILN_ERROR(INVALID_ARGUMENT, "asm wants -o FILE for the program");
    kiln_status st = read_program(c, &program);
    if (!st && !kiln_vta_program_check(&program, &fault)) st = fault_status(c, &program, &fault);
    if (!st) {
        kiln_vta_program_encode(&program, &bytes);
        st = write_out(c, kiln_strbuf_view(&bytes));
    }
    kiln_strbuf_deinit(&bytes);
    return st;
}

static kiln_status vta_disasm(const vta_call *c) {
    kiln_vta_file_program *found = NULL;
    uint32_t count = 0;
    kiln_strbuf text = {0};
    kiln_status st = read_programs(c, &found, &count);
    for (uint32_t i = 0; !st && i < count; i++) {
        if (found[i].name.size) kiln_strbuf_printf(&text, "# %.*s\n", KILN_STR_ARG(found[i].name));
        kiln_vta_program_print(&found[i].program, &text);
    }
    if (!st) st = write_out(c, kiln_strbuf_view(&text));
    kiln_strbuf_deinit(&text);
    return st;
}

static void print_checked(const vta_call *c, const kiln_vta_file_program *found,
                          const uint32_t *redundant, uint32_t count) {
    const kiln_vta_program *program = &found->program;
    if (c->json) {
        json_t *list = json_array();
        for (uint32_t i = 0; i < KILN_MIN(count, REDUNDANT_MAX); i++)
            json_array_append_new(list, json_integer(redundant[i]));
        kiln_json_line(json_pack("{s:s, s:o, s:i, s:i, s:o}", "event", "checked", "name",
                                 kiln_json_str(found->name), "instructions",
                                 program->instruction_count, "redundant_tokens", count,
                                 "redundant_after", list));
        return;
    }
    printf("%s%s%.*s: %u instructions, %u micro-ops, right in every order\n", c->path,
           found->name.size ? ": " : "", KILN_STR_ARG(found->name), program->instruction_count,
           program->uop_count);
    for (uint32_t i = 0; i < KILN_MIN(count, REDUNDANT_MAX); i++)
        printf("  the token that instruction %u gives is not needed\n", redundant[i]);
}

static kiln_status vta_check(const vta_call *c) {
    kiln_vta_file_program *found = NULL;
    kiln_vta_fault fault = {0};
    uint32_t list[REDUNDANT_MAX], programs = 0;
    kiln_status st = read_programs(c, &found, &programs);
    for (uint32_t i = 0; !st && i < programs; i++) {
        const kiln_vta_program *program = &found[i].program;
        uint32_t count = 0;
        if (!kiln_vta_check(program, &fault)) st = fault_status(c, program, &fault);
        if (!st && c->redundant) count = kiln_vta_redundant_tokens(program, list, REDUNDANT_MAX);
        if (!st) print_checked(c, &found[i], list, count);
    }
    return st;
}

/* ---- kiln vta run, trace ---- */

/* --input NAME=FILE: the bytes of an argument. */
static kiln_status read_inputs(const vta_call *c, const kiln_vta_program *program,
                               const uint64_t *place, uint8_t *dram) {
    for (size_t i = 0; i < c->input.count; i++) {
        kiln_str path = kiln_str_from(c->input.item[i]), bytes, name = kiln_str_cut(&path, '=');
        uint32_t number = 1;
        while (number < program->buffer_count &&
               !kiln_str_equal(program->buffer[number].name, name))
            number++;
        if (number == program->buffer_count ||
            program->buffer[number].role != KILN_VTA_ROLE_ARGUMENT)
            return KILN_ERROR(NOT_FOUND, "--input %s: the program has no argument '%.*s'",
                              c->input.item[i], KILN_STR_ARG(name));
        kiln_status st = kiln_file_read(kiln_str_dup(c->process, path),
                                        program->buffer[number].size_bytes, c->process, &bytes);
        if (!st && bytes.size != program->buffer[number].size_bytes)
            st = KILN_ERROR(INVALID_ARGUMENT, "%zu bytes; '%.*s' has %llu", bytes.size,
                            KILN_STR_ARG(name),
                            (unsigned long long)program->buffer[number].size_bytes);
        if (st) return kiln_status_note(st, "--input %s", c->input.item[i]);
        memcpy(dram + place[number], bytes.data, bytes.size);
    }
    return KILN_OK;
}

static void print_json_timing(const kiln_vta_program *program, const kiln_vta_timing *t) {
    json_t *engines = json_object();
    for (uint32_t e = 0; e < KILN_VTA_ENGINE_COUNT; e++) {
        json_t *engine = json_object();
        for (uint32_t i = 0; i < KILN_VTA_ACTIVITY_COUNT; i++)
            json_object_set_new(engine, kiln_vta_activity_name((kiln_vta_activity)i),
                                json_integer((json_int_t)t->activity[e][i]));
        json_object_set_new(engines, kiln_vta_engine_name((kiln_vta_engine)e), engine);
    }
    kiln_json_line(json_pack("{s:s, s:I, s:f, s:I, s:f, s:o}", "event", "timed", "cycles",
                             (json_int_t)t->cycles, "ms",
                             (double)t->cycles / program->config.clock_mhz / 1e3, "multiply_adds",
                             (json_int_t)t->counts.multiply_adds, "utilisation",
                             kiln_vta_utilisation(&program->config, t), "engines", engines));
}

static void print_timing(const kiln_vta_program *program, const kiln_vta_timing *t) {
    printf("%llu cycles, %.4g ms at %u MHz; %.4g million multiply-adds, %.1f %% of the peak\n",
           (unsigned long long)t->cycles, (double)t->cycles / program->config.clock_mhz / 1e3,
           program->config.clock_mhz, (double)t->counts.multiply_adds / 1e6,
           100 * kiln_vta_utilisation(&program->config, t));
    for (uint32_t e = 0; e < KILN_VTA_ENGINE_COUNT; e++) {
        if (t->activity[e][KILN_VTA_IDLE] == t->cycles) continue;
        printf("  %-8s", kiln_vta_engine_name((kiln_vta_engine)e));
        for (uint32_t i = 0; i < KILN_VTA_ACTIVITY_COUNT; i++)
            if (t->activity[e][i])
                printf(" %s %.1f %%", kiln_vta_activity_name((kiln_vta_activity)i),
                       100.0 * (double)t->activity[e][i] / (double)t->cycles);
        putchar('\n');
    }
    for (uint32_t i = 0; i < KILN_VTA_MEMORY_COUNT; i++)
        if (t->counts.bytes[i])
            printf("  %-8s %llu bytes moved\n", kiln_vta_memory_name(i),
                   (unsigned long long)t->counts.bytes[i]);
    printf("  %llu of %u instructions move only tokens\n", (unsigned long long)t->counts.no_ops,
           program->instruction_count);
}

/* Every argument as FOLDER/NAME.bin, as it is after the run. */
static kiln_status write_arguments(const vta_call *c, const kiln_vta_program *program,
                                   const uint64_t *place, const uint8_t *dram) {
    kiln_status st = kiln_folder_create(c->output, 0755);
    for (uint32_t i = 0; !st && i < program->buffer_count; i++) {
        const kiln_vta_buffer *b = &program->buffer[i];
        if (b->role != KILN_VTA_ROLE_ARGUMENT) continue;
        const char *path =
            kiln_arena_printf(c->process, "%s/%.*s.bin", c->output, KILN_STR_ARG(b->name));
        st = kiln_file_write(path, (kiln_str){(const char *)dram + place[i], b->size_bytes}, 0644);
    }
    return st;
}

/* A program that is right, run by the cycle simulator. */
static kiln_status simulate(const vta_call *c, const kiln_vta_csim_options *options,
                            kiln_vta_program *out_program, uint64_t *place, uint8_t **out_dram,
                            kiln_vta_timing *out_timing) {
    kiln_vta_fault fault = {0};
    if (!kiln_vta_check(out_program, &fault)) return fault_status(c, out_program, &fault);
    const uint64_t bytes = kiln_vta_program_place(out_program, place);
    uint8_t *dram = kiln_arena_alloc(c->process, bytes);
    kiln_vta_program_fill(out_program, place, dram);
    kiln_status st = read_inputs(c, out_program, place, dram);
    if (!st &&
        !kiln_vta_csim_run(out_program, dram, bytes, options, c->process, out_timing, &fault))
        st = fault_status(c, out_program, &fault);
    *out_dram = dram;
    return st;
}

/* Utilisation of the program on machines with other ports to memory; it moves nothing. */
static kiln_status print_sensitivity(const vta_call *c, kiln_vta_program *program) {
    static const uint32_t bytes[] = {4, 8, 16, 32}, latency[] = {16, 32, 64, 128, 256};
    const kiln_vta_config given = program->config;
    kiln_vta_fault fault = {0};
    if (!kiln_vta_check(program, &fault)) return fault_status(c, program, &fault);
    if (!c->json) {
        printf("utilisation by bytes a cycle (down) and latency (across)\n      ");
        for (size_t l = 0; l < KILN_ARRAY_COUNT(latency); l++) printf(" %6u", latency[l]);
    }
    for (size_t b = 0; b < KILN_ARRAY_COUNT(bytes); b++) {
        if (!c->json) printf("\n%6u", bytes[b]);
        for (size_t l = 0; l < KILN_ARRAY_COUNT(latency); l++) {
            kiln_vta_timing timing;
            program->config.bus_bits = 8 * bytes[b];
            program->config.latency = latency[l];
            if (!kiln_vta_csim_run(program, NULL, 0, &(kiln_vta_csim_options){.timing_only = true},
                                   c->process, &timing, &fault))
                return fault_status(c, program, &fault);
            const double share = kiln_vta_utilisation(&given, &timing);
            if (c->json)
                kiln_json_line(json_pack("{s:s, s:i, s:i, s:I, s:f}", "event", "timed", "bytes",
                                         (int)bytes[b], "latency", (int)latency[l], "cycles",
                                         (json_int_t)timing.cycles, "utilisation", share));
            else
                printf(" %6.3f", share);
        }
    }
    if (!c->json) putchar('\n');
    program->config = given;
    return KILN_OK;
}

static kiln_status vta_run(const vta_call *c) {
    kiln_vta_program program = {0};
    kiln_vta_timing timing;
    uint8_t *dram = NULL;
    kiln_status st = read_program(c, &program);
    if (st) return st;
    if (c->sensitivity) return print_sensitivity(c, &program);
    uint64_t *place = KILN_ARENA_ARRAY(c->process, uint64_t, program.buffer_count);
    st = simulate(c, &(kiln_vta_csim_options){0}, &program, place, &dram, &timing);
    if (!st && c->output) st = write_arguments(c, &program, place, dram);
    if (st) return st;
    c->json ? print_json_timing(&program, &timing) : print_timing(&program, &timing);
    return KILN_OK;
}

static kiln_status vta_trace(const vta_call *c) {
    kiln_vta_program program = {0};
    kiln_vta_timing timing;
    uint8_t *dram = NULL;
    kiln_strbuf json = {0};
    kiln_status st = read_program(c, &program);
    if (st) return st;
    uint64_t *place = KILN_ARENA_ARRAY(c->process, uint64_t, program.buffer_count);
    st = simulate(c, &(kiln_vta_csim_options){.spans = true}, &program, place, &dram, &timing);
    if (st) return st;
    kiln_vta_trace_print(&program, &timing, &json);
    st = write_out(c, kiln_strbuf_view(&json));
    kiln_strbuf_deinit(&json);
    return st;
}

/* ---- kiln vta info, params ---- */

static kiln_status read_config(const vta_call *c, kiln_vta_config *out_config) {
    kiln_str name = kiln_str_from(c->path);
    if (kiln_str_starts(name, "vta:")) name = kiln_str_slice(name, 4, name.size);
    return kiln_vta_config_parse(name, out_config);
}

static kiln_status vta_info(const vta_call *c) {
    kiln_vta_config config;
    kiln_strbuf text = {0};
    kiln_status st = read_config(c, &config);
    if (st) return st;
    kiln_vta_config_print(&config, &text);
    const double peak = (double)config.batch * config.block_in * config.block_out;
    if (c->json) {
        kiln_json_line(json_pack("{s:s, s:s, s:f}", "event", "machine", "config", text.data,
                                 "multiply_adds_a_cycle", peak));
    } else {
        printf("%s\n  %.4g multiply-adds a cycle, %.4g GOPS; memory %.4g GB/s\n", text.data, peak,
               2e-3 * peak * config.clock_mhz,
               1e-3 * config.bus_bits / 8 * config.channels * config.clock_mhz);
        for (uint32_t i = 0; i <= KILN_VTA_OUT; i++)
            printf("  %-4s %u tiles of %u bytes\n", kiln_vta_memory_name(i),
                   kiln_vta_tile_count(&config, (kiln_vta_memory)i),
                   kiln_vta_tile_bytes(&config, (kiln_vta_memory)i));
    }
    kiln_strbuf_deinit(&text);
    return KILN_OK;
}

static kiln_status vta_params(const vta_call *c) {
    kiln_vta_config config;
    kiln_strbuf text = {0};
    kiln_status st = read_config(c, &config);
    if (!st) st = kiln_vta_rtl_params_print(&config, (uint32_t)c->lut_columns, &text);
    if (!st) st = write_out(c, kiln_strbuf_view(&text));
    kiln_strbuf_deinit(&text);
    return st;
}

#define ACTIONS(X)                                                                              \
    X("asm", "TEXT", vta_asm, "assemble a program, -o FILE")                                    \
    X("disasm", "PROGRAM", vta_disasm, "print a program as text")                               \
    X("check", "PROGRAM", vta_check, "check one for every order in which its engines may run")  \
    X("run", "PROGRAM", vta_run, "simulate one by the cycle and print the work of each engine") \
    X("trace", "PROGRAM", vta_trace, "write the work of each engine for Perfetto")              \
    X("info", "CONFIG", vta_info, "describe the machine of a configuration")                    \
    X("params", "CONFIG", vta_params, "print a configuration for the Verilog of vta/rtl")       \
    X("search", "", NULL, "find a machine for a model and a chip (kiln vta search --help)")

static const kiln_action actions[] = {
#define X(name, arguments, run, help) {name, arguments, help},
    ACTIONS(X)
#undef X
};

static kiln_status (*const run_action[])(const vta_call *c) = {
#define X(name, arguments, run, help) run,
    ACTIONS(X)
#undef X
};

kiln_status kiln_cmd_vta(kiln_arena *process, int argc, char **argv) {
    vta_call c = {.process = process, .number = EVERY_PROGRAM};
    const kiln_opt option[] = {
        {"output|o", KILN_OPT_TEXT, &c.output, "PATH",
         "asm, disasm, trace, params: the file to write; run: a folder for the arguments as they "
         "are afterwards, NAME.bin"},
        {"input", KILN_OPT_LIST, &c.input, "NAME=FILE",
         "run, trace: the bytes of an argument (default zeros)"},
        {"program", KILN_OPT_COUNT, &c.number, "N",
         "of a module: the N-th of its programs, from 0 on (default all; run and trace take one)"},
        {"redundant", KILN_OPT_FLAG, &c.redundant, NULL,
         "check: also list tokens that are not needed (a check for each)"},
        {"sensitivity", KILN_OPT_FLAG, &c.sensitivity, NULL,
         "run: only its utilisation with 4 to 32 bytes a cycle and a latency of 16 to 256"},
        {"lut-columns", KILN_OPT_COUNT, &c.lut_columns, "N",
         "params: columns of weights that are multiplied in LUTs, not in DSP blocks (default 0)"},
        {"json", KILN_OPT_FLAG, &c.json, NULL, "print one object per line"},
    };
    static const kiln_actions table = {
        .command = "vta",
        .summary = "Works on programs of VTA accelerators, as text, assembled, or in a module.",
        .action = actions,
        .count = KILN_ARRAY_COUNT(actions)};
    kiln_args args;
    size_t index = 0;
    char search[] = KILN_VTA_SEARCH;
    if (argc > 1 && !strcmp(argv[1], "search")) {
        argv[1] = search;
        return kiln_vta_search_command(process, argc - 1, argv + 1);
    }
    kiln_status st = kiln_action_parse(&table, option, KILN_ARRAY_COUNT(option), argc, argv,
                                       process, &args, &index);
    if (st || args.help) return st;
    if (!run_action[index])
        return KILN_ERROR(INVALID_ARGUMENT, "kiln vta search: the action comes before options");
    c.path = args.positional[0];
    return run_action[index](&c);
}
