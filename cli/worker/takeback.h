/* Which choices of a tuned module are taken back, decided from times of kernels inside of whole
 * modules: no clock, no module. Used by `kiln tune`:
 *
 *     kiln_takeback_see(times of the best module so far beside the default's)
 *     while (kiln_takeback_next(&t)) {   a variant without the groups that lose
 *         faster = ... in turns ...
 *         kiln_takeback_judge(&t, faster);
 *         if (faster) kiln_takeback_see(times of the variant)
 *     }
 *
 * First all groups that lose inside of the module are taken back at once; where that is no gain,
 * one after the other, the one that loses most first. */
#ifndef KILN_CLI_WORKER_TAKEBACK_H
#define KILN_CLI_WORKER_TAKEBACK_H

#include "base/arena.h"
#include "base/str.h"
#include "base/vec.h"

#define KILN_TAKEBACK_VARIANTS_MAX 8u

/* Tasks that another choice than the default was made for, tied by layouts (layout/ties.h), with
 * the conversions of what passes between them. */
typedef struct kiln_takeback_group {
    const kiln_str *task; /* [count] keys */
    uint32_t count;
    double default_ns, tuned_ns; /* of a run, inside of the modules */
} kiln_takeback_group;

typedef struct kiln_takeback {
    kiln_arena *arena;
    KILN_VEC(kiln_takeback_group) loser; /* of the best module, most first */
    KILN_VEC(kiln_takeback_group) taken; /* what was a gain; the best module is without them */
    KILN_VEC(kiln_str) kept;             /* tasks that were no gain */
    uint32_t trying;                     /* so many of the losers */
    uint32_t variants;
    bool all_failed; /* taking them all back at once was no gain */
} kiln_takeback;

void kiln_takeback_init(kiln_takeback *t, kiln_arena *arena);
/* What the groups of the best module take; `default_ns`: the whole default module. Views must live
 * as long as the arena. */
void kiln_takeback_see(kiln_takeback *t, const kiln_takeback_group *group, uint32_t count,
                       double default_ns);
/* Whether there is another variant to try: the best module, and without `trying` more losers. */
bool kiln_takeback_next(kiln_takeback *t);
/* The keys of all tasks that the variant takes back, each followed by a line feed. */
void kiln_takeback_print(const kiln_takeback *t, kiln_strbuf *out);
/* Whether the variant is faster than the best module. */
void kiln_takeback_judge(kiln_takeback *t, bool faster);

#endif
