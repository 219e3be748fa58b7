/* The rules for the null device. */
#include "base/macros.h"
#include "compiler-core/rules/rules.h"

static const kiln_rule rules[] = {
    {"any", 0, NULL, kiln_sketch_any},
};
const kiln_rule_set kiln_rules_null = {KILN_ARRAY_COUNT(rules), rules};
