/* The rules for CPUs. */
#include "base/macros.h"
#include "compiler-core/rules/rules.h"
#include "compiler-core/rules/tile.h"

#define X(NAME, field, text) text,
static const char *const tile_option[] = {KILN_TILE_OPTIONS(X)};
#undef X

static const kiln_rule rules[] = {
    {"tile", KILN_ARRAY_COUNT(tile_option), tile_option, kiln_sketch_tile},
    {"stack", 0, NULL, kiln_sketch_stack},
    {"rows", 0, NULL, kiln_sketch_rows},
    {"any", 0, NULL, kiln_sketch_any},
};
const kiln_rule_set kiln_rules_cpu = {KILN_ARRAY_COUNT(rules), rules};
