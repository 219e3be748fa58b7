/* Golden texts: each file of tests/golden/ named *.golden is one test,
 *
 *     # what it shows
 *     $ COMMAND [ARGUMENT]
 *     input ...
 *     =>
 *     expected output ...
 *
 * and COMMAND a row of the table below. With KILN_GOLDEN_UPDATE in the environment (./dev golden
 * --update) the expected output is written anew, for the reviewer to read as a diff. Prints TAP. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/macros.h"
#include "base/opt.h"
#include "base/target.h"
#include "compiler-core/codegen/codegen.h"
#include "compiler-core/frontend/frontend.h"
#include "compiler-core/frontend/zoo/zoo.h"
#include "compiler-core/ir/affine.h"
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/ir/reference.h"
#include "compiler-core/lower/lower.h"
#include "compiler-core/passes/pass.h"
#include "compiler-core/task/join.h"
#include "tests/support/graph_parse.h"

#define FILE_BYTES_MAX ((size_t)1 << 20)

typedef struct golden {
    kiln_str head; /* up to and including the command's line */
    kiln_str command, argument;
    kiln_str input;
    kiln_str expected;
} golden;

/* The text up to and including the line that begins at `rest`; moves `rest` behind it. */
static kiln_str take_line(kiln_str *rest) {
    size_t end = kiln_str_find_char(*rest, '\n');
    kiln_str line = kiln_str_slice(*rest, 0, end + 1);
    *rest = kiln_str_slice(*rest, end + 1, rest->size);
    return line;
}

/* ---- commands: input to output --------------------------------------------------------------- */

typedef kiln_status (*golden_command)(kiln_str input, kiln_str argument, kiln_arena *arena,
                                      kiln_strbuf *out);

static kiln_status run_loops(kiln_str input, kiln_str argument, kiln_arena *arena,
                             kiln_strbuf *out) {
    kiln_program *p;
    kiln_status st = kiln_program_parse(input, arena, &p);
    (void)argument;
    if (st) return st;
    kiln_program_make_loops(p);
    kiln_program_print(p, out);
    return kiln_program_verify(p);
}

static kiln_status run_reference(kiln_str input, kiln_str argument, kiln_arena *arena,
                                 kiln_strbuf *out) {
    kiln_program *p;
    kiln_status st = kiln_program_parse(input, arena, &p);
    (void)argument;
    if (st) return st;
    p = kiln_te_reference(p, arena);
    kiln_program_print(p, out);
    return kiln_program_verify(p);
}

/* Every index, binding, condition and value of a program. */
static kiln_status run_simplify(kiln_str input, kiln_str argument, kiln_arena *arena,
                                kiln_strbuf *out) {
    kiln_program *p;
    kiln_status st = kiln_program_parse(input, arena, &p);
    (void)argument;
    if (st) return st;
    for (kiln_block b = 1; b < p->block.count; b++) {
        kiln_block_info *info = &p->block.data[b];
        for (uint32_t i = 0; i < info->index_count; i++)
            info->index[i] = kiln_expr_simplify(p, info->index[i], NULL);
        for (uint32_t i = 0; i < info->iter_count; i++)
            info->iter[i].binding = kiln_expr_simplify(p, info->iter[i].binding, NULL);
        info->predicate = kiln_expr_simplify(p, info->predicate, NULL);
        info->value = kiln_expr_simplify(p, info->value, NULL);
    }
    for (kiln_stmt s = 1; s < p->stmt.count; s++) {
        kiln_stmt_info *info = &p->stmt.data[s];
        for (uint32_t i = 0; i < info->index_count; i++)
            info->index[i] = kiln_expr_simplify(p, info->index[i], NULL);
        info->condition = kiln_expr_simplify(p, info->condition, NULL);
        info->value = kiln_expr_simplify(p, info->value, NULL);
    }
    kiln_program_print(p, out);
    return kiln_program_verify(p);
}

/* `graph PASS`: after the passes up to that one, or after none. */
static kiln_status run_graph(kiln_str input, kiln_str argument, kiln_arena *arena,
                             kiln_strbuf *out) {
    kiln_graph *graph;
    kiln_status st = kiln_graph_parse(input, arena, &graph);
    if (!st && argument.size) st = kiln_passes_run(graph, argument);
    if (!st) kiln_graph_print(graph, out);
    return st;
}

/* The kernels of a graph after all passes. */
static kiln_status run_tasks(kiln_str input, kiln_str argument, kiln_arena *arena,
                             kiln_strbuf *out) {
    kiln_graph *graph;
    kiln_tasks tasks;
    kiln_status st = kiln_graph_parse(input, arena, &graph);
    (void)argument;
    if (!st) st = kiln_passes_run(graph, (kiln_str){0});
    if (!st) st = kiln_tasks_extract(graph, arena, &tasks);
    if (!st) kiln_tasks_print(&tasks, true, out);
    return st;
}

static kiln_status print_joins_of(kiln_str network, kiln_arena *arena, kiln_strbuf *out) {
    const kiln_target core = {.l2_bytes = 1u << 20};
    kiln_strbuf model = {0};
    kiln_graph *graph = NULL;
    kiln_plan plan;
    kiln_joins joins;
    kiln_status st = kiln_zoo_build(network, 1, &model);
    if (!st) st = kiln_import_bytes(kiln_strbuf_view(&model), NULL, NULL, arena, &graph);
    if (!st) st = kiln_passes_run(graph, (kiln_str){0});
    if (!st) st = kiln_plan_create(graph, arena, &plan);
    if (!st) st = kiln_joins_find(graph, &plan, &core, arena, &joins);
    if (!st) kiln_strbuf_printf(out, "%.*s\n", KILN_STR_ARG(network));
    if (!st) kiln_joins_print(&joins, &plan, out);
    kiln_strbuf_deinit(&model);
    return st;
}

/* Joins that networks of the zoo offer to a core with an L2 of 1 MiB. */
static kiln_status run_joins(kiln_str input, kiln_str argument, kiln_arena *arena,
                             kiln_strbuf *out) {
    kiln_status st = KILN_OK;
    (void)input;
    while (!st && argument.size) st = print_joins_of(kiln_str_cut(&argument, ' '), arena, out);
    return st;
}

/* A scheduled program after the named pass of lowering, for AVX2. */
static kiln_status run_lower(kiln_str input, kiln_str argument, kiln_arena *arena,
                             kiln_strbuf *out) {
    kiln_program *p;
    kiln_target target;
    kiln_status st = kiln_program_parse(input, arena, &p);
    if (!st)
        st = kiln_target_parse(KILN_STR("cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v3"), arena,
                               &target);
    return st ? st : kiln_lower_explain(p, &target, argument, arena, out);
}

/* The program that stands first in `rest`, up to the next line that begins one. */
static kiln_str take_program(kiln_str *rest) {
    kiln_str all = *rest;
    do take_line(rest);
    while (rest->size && !kiln_str_starts(*rest, "program "));
    return kiln_str_slice(all, 0, all.size - rest->size);
}

static kiln_status print_object_hash(kiln_str text, const kiln_target *target, kiln_arena *arena,
                                     kiln_strbuf *out) {
    const kiln_codegen_options options = {.emit = KILN_EMIT_OBJECT, .optimise = 2};
    kiln_program *p;
    kiln_lowered lowered;
    kiln_str object;
    uint64_t scratch, worker;
    kiln_digest digest;
    char hex[KILN_DIGEST_TEXT];
    kiln_status st = kiln_program_parse(text, arena, &p);
    if (!st) st = kiln_lower(p, target, arena, &lowered);
    if (!st) st = kiln_codegen(&lowered, target, &options, arena, &object, &scratch, &worker);
    if (st) return st;
    kiln_digest_of(object.data, object.size, &digest);
    kiln_digest_print(&digest, hex);
    kiln_strbuf_printf(out, "%.*s %.16s\n", KILN_STR_ARG(p->name), hex);
    return KILN_OK;
}

/* Hashes of the objects of several programs for each target named. They change only with the
 * codegen version. */
static kiln_status run_objects(kiln_str input, kiln_str argument, kiln_arena *arena,
                               kiln_strbuf *out) {
    kiln_status st = NULL;
    kiln_strbuf_printf(out, "codegen %s\n", kiln_codegen_version());
    while (!st && argument.size) {
        kiln_target target;
        kiln_str name = kiln_str_cut(&argument, ' '), rest = input;
        st = kiln_target_parse(name, arena, &target);
        kiln_strbuf_printf(out, "%.*s\n", KILN_STR_ARG(name));
        while (!st && rest.size) st = print_object_hash(take_program(&rest), &target, arena, out);
    }
    return st;
}

/* A scheduled program as C text for a target, without what all texts share. */
static kiln_status run_c(kiln_str input, kiln_str argument, kiln_arena *arena, kiln_strbuf *out) {
    const kiln_codegen_options options = {.emit = KILN_EMIT_OBJECT, .backend = "c"};
    kiln_program *p;
    kiln_target target;
    kiln_lowered lowered;
    kiln_str text;
    uint64_t scratch, worker;
    kiln_status st = kiln_program_parse(input, arena, &p);
    if (!st) st = kiln_target_parse(argument, arena, &target);
    if (!st) st = kiln_lower(p, &target, arena, &lowered);
    if (!st) st = kiln_codegen(&lowered, &target, &options, arena, &text, &scratch, &worker);
    if (!st)
        kiln_strbuf_text(out, strstr(text.data, kiln_c_text_split) + strlen(kiln_c_text_split));
    return st;
}

static const struct {
    const char *name;
    golden_command run;
} command_table[] = {
    {"c", run_c},
    {"graph", run_graph},
    {"joins", run_joins},
    {"loops", run_loops},
    {"lower", run_lower},
    {"objects", run_objects},
    {"reference", run_reference},
    {"simplify", run_simplify},
    {"tasks", run_tasks},
};

/* ---- files ----------------------------------------------------------------------------------- */

static kiln_status split_file(kiln_str content, golden *out) {
    kiln_str rest = content;
    kiln_str line = take_line(&rest);
    while (kiln_str_starts(line, "#")) line = take_line(&rest);
    if (!kiln_str_starts(line, "$ "))
        return KILN_ERROR(INVALID_ARGUMENT, "no '$ COMMAND' after the comment");
    out->head = kiln_str_slice(content, 0, content.size - rest.size);
    out->argument = kiln_str_trim(kiln_str_slice(line, 2, line.size));
    out->command = kiln_str_cut(&out->argument, ' ');
    kiln_str start = rest;
    while (rest.size) {
        kiln_str before = kiln_str_slice(start, 0, start.size - rest.size);
        if (!kiln_str_is(kiln_str_trim(take_line(&rest)), "=>")) continue;
        out->input = before;
        out->expected = rest;
        return KILN_OK;
    }
    return KILN_ERROR(INVALID_ARGUMENT, "no line '=>' between input and output");
}

static kiln_status run_command(const golden *g, kiln_arena *arena, kiln_strbuf *out) {
    for (size_t i = 0; i < KILN_ARRAY_COUNT(command_table); i++)
        if (kiln_str_is(g->command, command_table[i].name))
            return command_table[i].run(g->input, g->argument, arena, out);
    return KILN_ERROR(NOT_FOUND, "no golden command '%.*s'", KILN_STR_ARG(g->command));
}

static kiln_status write_anew(const char *path, const golden *g, kiln_str output) {
    kiln_strbuf text = {0};
    kiln_strbuf_str(&text, g->head);
    kiln_strbuf_str(&text, g->input);
    kiln_strbuf_text(&text, "=>\n");
    kiln_strbuf_str(&text, output);
    kiln_status st = kiln_file_write(path, kiln_strbuf_view(&text), 0644);
    kiln_strbuf_deinit(&text);
    return st;
}

/* Names the first line that differs. */
static kiln_status compare(kiln_str expected, kiln_str actual) {
    for (uint32_t line = 1; expected.size || actual.size; line++) {
        kiln_str a = take_line(&expected);
        kiln_str b = take_line(&actual);
        if (kiln_str_equal(a, b)) continue;
        a = kiln_str_trim(a);
        b = kiln_str_trim(b);
        return KILN_ERROR(FAILED_PRECONDITION,
                          "output line %u is\n#   %.*s\n# and should be\n#   %.*s\n# ./dev golden "
                          "--update accepts it",
                          line, KILN_STR_ARG(b), KILN_STR_ARG(a));
    }
    return KILN_OK;
}

static kiln_status run_file(const char *path, kiln_arena *arena, kiln_strbuf *out) {
    kiln_str content;
    golden g = {0};
    kiln_status st = kiln_file_read(path, FILE_BYTES_MAX, arena, &content);
    if (!st) st = split_file(content, &g);
    if (!st) st = run_command(&g, arena, out);
    if (st) return st;
    if (kiln_env("KILN_GOLDEN_UPDATE")) return write_anew(path, &g, kiln_strbuf_view(out));
    return compare(g.expected, kiln_strbuf_view(out));
}

static bool report(unsigned number, const char *name, kiln_status st) {
    printf("%sok %u - %s\n", st ? "not " : "", number, name);
    if (st) printf("# %s\n", kiln_status_text(st));
    bool passed = !st;
    kiln_status_free(st);
    return passed;
}

int main(int argc, char **argv) {
    kiln_arena arena;
    kiln_strbuf out = {0};
    char **name = NULL;
    size_t count = 0;
    unsigned number = 0;
    bool passed = argc == 2;
    kiln_arena_init(&arena, 0);
    if (passed)
        passed = report(++number, "the folder is read",
                        kiln_folder_list(argv[1], &arena, &name, &count));
    for (size_t i = 0; i < count; i++) {
        kiln_str file = kiln_str_from(name[i]);
        if (!kiln_str_ends(file, ".golden")) continue;
        kiln_strbuf_reset(&out);
        passed &=
            report(++number, name[i],
                   run_file(kiln_arena_printf(&arena, "%s/%s", argv[1], name[i]), &arena, &out));
    }
    printf("1..%u\n", number);
    kiln_strbuf_deinit(&out);
    kiln_arena_deinit(&arena);
    return passed ? 0 : 1;
}
