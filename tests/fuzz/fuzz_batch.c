/* Fuzzes the files of a folder of trials (rpc-server/batch_plan.h): what passes is in its bounds,
 * and its records belong to its trials. Input: sizes of the first three files as 2 bytes each, then
 * the four files one after the other. */
#include "base/check.h"
#include "rpc-server/batch_plan.h"
#include "tests/fuzz/fuzz.h"

static kiln_str cut(kiln_str *rest, size_t size) {
    const kiln_str part = kiln_str_slice(*rest, 0, size);
    *rest = kiln_str_slice(*rest, size, rest->size);
    return part;
}

static void check_plan(const kiln_batch_plan *plan, kiln_str results, kiln_arena *arena) {
    bool *done = KILN_ARENA_ARRAY(arena, bool, plan->count);
    size_t kept = 0;
    KILN_CHECK(plan->count > 0 && plan->count <= KILN_BATCH_TRIALS_MAX);
    for (uint32_t i = 0; i < plan->count; i++) {
        const kiln_batch_trial *t = &plan->trial[i];
        KILN_CHECK(t->trial.artefact.size > 0 && t->trial.module.threads == 0);
        KILN_CHECK(t->record.size > t->trial.trial.size && t->record.data[0] == '{');
        for (size_t k = 0; k < t->record.size; k++) KILN_CHECK(t->record.data[k] >= ' ');
    }
    kiln_status st = kiln_batch_plan_resume(plan, results, done, &kept);
    if (!st) KILN_CHECK(kept <= results.size);
    kiln_status_free(st);
}

int kiln_fuzz_one(const uint8_t *data, size_t size) {
    kiln_arena arena;
    kiln_batch_plan plan = {0};
    if (size < 6) return 0;
    kiln_str rest = {(const char *)data + 6, size - 6};
    kiln_arena_init(&arena, 0);
    const kiln_str trials = cut(&rest, data[0] | (size_t)data[1] << 8);
    const kiln_str records = cut(&rest, data[2] | (size_t)data[3] << 8);
    const kiln_str rows = cut(&rest, data[4] | (size_t)data[5] << 8);
    kiln_status st = kiln_batch_plan_read(trials, records, rows, &arena, &plan);
    if (!st) check_plan(&plan, rest, &arena);
    kiln_status_free(st);
    kiln_batch_plan_deinit(&plan);
    kiln_arena_deinit(&arena);
    return 0;
}
