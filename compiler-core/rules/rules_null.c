/* The rules for the null device: those of any device with groups of threads. */
#include "base/macros.h"
#include "compiler-core/rules/group.h"

static const kiln_rule rules[] = {
    {"tile", KILN_ARRAY_COUNT(kiln_group_tile_option), kiln_group_tile_option,
     kiln_sketch_group_tile},
    {"spread", 0, NULL, kiln_sketch_group_spread},
};
const kiln_rule_set kiln_rules_null = {KILN_ARRAY_COUNT(rules), rules};
