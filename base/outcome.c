#include "base/outcome.h"

#include "base/check.h"
#include "base/macros.h"

typedef struct outcome_row {
    const char *text;
    kiln_blame blame;
    bool trains;
} outcome_row;

static const outcome_row outcome_table[] = {
#define X(name, number, text, blame, trains, meaning) [number] = {text, KILN_BLAME_##blame, trains},
#include "base/outcome.def"
#undef X
};
_Static_assert(KILN_ARRAY_COUNT(outcome_table) == KILN_OUTCOME_COUNT, "one row per outcome");

static const char *const blame_table[] = {"none", "candidate", "board", "infra", "client"};
_Static_assert(KILN_ARRAY_COUNT(blame_table) == KILN_BLAME_COUNT, "one name per blame");

const char *kiln_outcome_name(kiln_outcome outcome) {
    KILN_CHECK((unsigned)outcome < KILN_OUTCOME_COUNT);
    return outcome_table[outcome].text;
}

const char *kiln_blame_name(kiln_blame blame) {
    KILN_CHECK((unsigned)blame < KILN_BLAME_COUNT);
    return blame_table[blame];
}

bool kiln_outcome_find(kiln_str name, kiln_outcome *out_outcome) {
    for (unsigned i = 0; i < KILN_OUTCOME_COUNT; i++) {
        if (!kiln_str_is(name, outcome_table[i].text)) continue;
        *out_outcome = (kiln_outcome)i;
        return true;
    }
    return false;
}

bool kiln_blame_find(kiln_str name, kiln_blame *out_blame) {
    for (unsigned i = 0; i < KILN_BLAME_COUNT; i++) {
        if (!kiln_str_is(name, blame_table[i])) continue;
        *out_blame = (kiln_blame)i;
        return true;
    }
    return false;
}

kiln_blame kiln_outcome_blame(kiln_outcome outcome) {
    KILN_CHECK((unsigned)outcome < KILN_OUTCOME_COUNT);
    return outcome_table[outcome].blame;
}

bool kiln_outcome_trains(kiln_outcome outcome) {
    KILN_CHECK((unsigned)outcome < KILN_OUTCOME_COUNT);
    return outcome_table[outcome].trains;
}
