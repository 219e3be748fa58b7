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
    KILN_OPT_FLAG,   /* bool *       --json            */
    KILN_OPT_TEXT,   /* const char **  --db PATH         */
    KILN_OPT_COUNT,  /* uint64_t *   --trials N        */
    KILN_OPT_NUMBER, /* double *     --seconds S       */
    KILN_OPT_LIST,   /* kiln_opt_list * --listen ADDR...  (may be given several times) */
} kiln_opt_kind;

typedef struct kiln_opt_list {
    const char **item;
    size_t count;
} kiln_opt_list;

typedef struct kiln_opt {
    const char *name; /* "trials" for --trials; a second spelling after a bar: "output|o" */
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

/* Parses argv[1..]. Positionals go to `arena`. --help sets *out_help and stops. "--name=value" and
 * "--name value" both work; "--" ends options.
 * INVALID_ARGUMENT: unknown option (with the nearest known one), missing or bad value, wrong count.
 */
KILN_MUST_USE kiln_status kiln_opt_parse(const kiln_opt_table *table, int argc, char **argv,
                                         kiln_arena *arena, const char ***out_positional,
                                         size_t *out_count, bool *out_help);

/* An option as a command line has it, without dashes; `value` is NULL for flags. */
typedef struct kiln_opt_given {
    const char *name, *value;
} kiln_opt_given;
typedef KILN_VEC(kiln_opt_given) kiln_opt_given_list;
/* Lists the options of a command line that kiln_opt_parse took, unless that was --help. */
kiln_opt_given_list kiln_opt_list_given(const kiln_opt_table *table, int argc, char **argv,
                                        kiln_arena *arena);
/* Sets one option, which comes from elsewhere than a command line. INVALID_ARGUMENT: unknown option
 * (with the nearest known one), missing or bad value. */
KILN_MUST_USE kiln_status kiln_opt_set(const kiln_opt_table *table, const kiln_opt_given *given,
                                       kiln_arena *arena);
void kiln_opt_print_help(const kiln_opt_table *table, kiln_strbuf *out);

/* Environment variable, or NULL when unset or empty. */
const char *kiln_env(const char *name);
/* $KILN_HOME, or ~/.local/state/kiln; created 0700 when missing. */
KILN_MUST_USE kiln_status kiln_home(kiln_arena *arena, char **out_path);

#endif
