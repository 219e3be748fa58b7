/* Command-line options from a table; --help is generated. Also the only reader of the environment.
 */
#ifndef KILN_BASE_OPT_H
#define KILN_BASE_OPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"
#include "base/vec.h"

typedef enum kiln_opt_kind {
    KILN_OPT_FLAG,   /* bool *       --json, or --json=no */
    KILN_OPT_TEXT,   /* const char **  --db PATH         */
    KILN_OPT_LINE,   /* const char **  --job NAME; of printable text (kiln_text_check_line) */
    KILN_OPT_COUNT,  /* uint64_t *   --trials N        */
    KILN_OPT_NUMBER, /* double *     --seconds S       */
    KILN_OPT_LIST,   /* kiln_opt_list * --listen ADDR...  (may be given several times) */
} kiln_opt_kind;

typedef struct kiln_opt_list {
    const char **item;
    size_t count;
} kiln_opt_list;

typedef struct kiln_opt {
    /* "trials" for --trials; a second spelling after a bar: "output|o"; an environment variable
     * that stands in for the option after a bar and a dollar: "tracker|$KILN_TRACKER". */
    const char *name;
    kiln_opt_kind kind;
    void *value;         /* destination, holding the default */
    const char *metavar; /* "N"; NULL for flags */
    const char *help;    /* one sentence */
} kiln_opt;

typedef struct kiln_opt_table {
    const char *usage;   /* "kiln tune MODEL.onnx [options]" */
    const char *summary; /* one or two sentences */
    const kiln_opt *option;
    size_t option_count;
    size_t positional_min, positional_max;
} kiln_opt_table;

/* An option of a command line, without dashes; `value` is NULL for flags that have none. */
typedef struct kiln_opt_given {
    const char *name, *value;
} kiln_opt_given;
typedef KILN_VEC(kiln_opt_given) kiln_opt_given_list;

/* The parts of a command line. */
typedef struct kiln_args {
    const char **positional;
    size_t count;
    kiln_opt_given_list given; /* options, in their order */
    const char **place; /* of each of `given`: the file and line or the variable that it comes
                           from, NULL for the command line; NULL of kiln_opt_parse */
    bool help;          /* --help was given; the words after it were not read */
} kiln_args;

/* Splits argv[1..] into options and positionals, in `arena`, and sets nothing. "--name=value" and
 * "--name value" both work; "--" ends options.
 * INVALID_ARGUMENT: unknown option (with the nearest known one), missing value. */
KILN_MUST_USE kiln_status kiln_opt_split(const kiln_opt_table *table, int argc, char **argv,
                                         kiln_arena *arena, kiln_args *out);
/* INVALID_ARGUMENT: more or fewer positionals than the table takes. */
KILN_MUST_USE kiln_status kiln_opt_check_count(const kiln_opt_table *table, const kiln_args *args);
/* Splits the command line; unless it has --help, also sets the options and checks the count.
 * Errors of these functions. */
KILN_MUST_USE kiln_status kiln_opt_parse(const kiln_opt_table *table, int argc, char **argv,
                                         kiln_arena *arena, kiln_args *out);
/* Sets one option. INVALID_ARGUMENT: unknown option (with the nearest known one), missing or bad
 * value. */
KILN_MUST_USE kiln_status kiln_opt_set(const kiln_opt_table *table, const kiln_opt_given *given,
                                       kiln_arena *arena);
/* The option of that spelling, without dashes, or NULL. */
const kiln_opt *kiln_opt_find(const kiln_opt_table *table, kiln_str name);
/* Its first spelling. */
kiln_str kiln_opt_name(const kiln_opt *option);
/* The environment variable that stands in for it, and its value; NULL: none, or unset. */
const char *kiln_opt_variable(const kiln_opt *option, kiln_arena *arena, const char **out_value);
void kiln_opt_print_help(const kiln_opt_table *table, kiln_strbuf *out);

/* Finds which of several names a mistyped one means. In use:
 *
 *     kiln_nearest nearest = kiln_nearest_to(typed);
 *     for (...) kiln_nearest_try(&nearest, name);
 *     if (nearest.found.size) ... did you mean `nearest.found`? */
typedef struct kiln_nearest {
    kiln_str typed, found; /* `found` is empty while no name is close */
    size_t distance;
} kiln_nearest;
kiln_nearest kiln_nearest_to(kiln_str typed);
void kiln_nearest_try(kiln_nearest *nearest, kiln_str name);

/* Environment variable, or NULL when unset or empty. */
const char *kiln_env(const char *name);
/* $KILN_HOME, or ~/.local/state/kiln; created 0700 when missing. */
KILN_MUST_USE kiln_status kiln_home(kiln_arena *arena, char **out_path);

#endif
