#include "tuner/final_choice.h"

#include <math.h>

#include "base/macros.h"

static bool is_chosen(const kiln_final_choice *choice, kiln_str trace_hash) {
    for (uint32_t i = 0; i < choice->count; i++)
        if (kiln_str_equal(choice->record[i]->trace_hash, trace_hash)) return true;
    return false;
}

static bool has_layouts_of(const kiln_db_record *a, const kiln_db_record *b) {
    return kiln_str_equal(a->layout_in, b->layout_in) &&
           kiln_str_equal(a->layout_out, b->layout_out);
}

static bool pair_is_chosen(const kiln_final_choice *choice, const kiln_db_record *row) {
    for (uint32_t i = 0; i < choice->count; i++)
        if (has_layouts_of(choice->record[i], row)) return true;
    return false;
}

typedef enum group {
    OF_ALL,
    OF_PAIRS,  /* of pairs of layouts that are not among the candidates */
    OF_JUDGED, /* in some final */
    OF_ALONE,  /* measured so only */
} group;

static bool is_eligible(const kiln_final_choice *choice, const kiln_db_record *row, group of) {
    if (is_chosen(choice, row->trace_hash)) return false;
    return of == OF_ALL || (of == OF_PAIRS && !pair_is_chosen(choice, row)) ||
           (of == OF_JUDGED && row->final) || (of == OF_ALONE && !row->final);
}

/* The fastest record that is not a candidate yet; NULL: none. */
static const kiln_db_record *fastest(const kiln_final_choice *choice, const kiln_final_records *all,
                                     group of) {
    const kiln_db_record *best = NULL;
    for (uint32_t i = 0; i < all->count; i++)
        if (is_eligible(choice, &all->row[i], of) &&
            (!best || all->row[i].median_ns < best->median_ns))
            best = &all->row[i];
    return best;
}

static void add_fastest(kiln_final_choice *choice, const kiln_final_records *all, uint32_t most,
                        group of) {
    for (uint32_t added = 0; added < most; added++) {
        const kiln_db_record *best = fastest(choice, all, of);
        if (!best) return;
        choice->record[choice->count++] = best;
    }
}

static bool is_judged_here(const kiln_final_records *all, const kiln_db_record *row) {
    return row->final && kiln_str_equal(row->job_id, all->job);
}

static bool pair_is_judged(const kiln_final_records *all, const kiln_db_record *of) {
    for (uint32_t i = 0; i < all->count; i++)
        if (is_judged_here(all, &all->row[i]) && has_layouts_of(&all->row[i], of)) return true;
    return false;
}

/* Time of the best that this job judged; infinite: none. */
static double judged_best_ns(const kiln_final_records *all) {
    double judged_ns = INFINITY;
    for (uint32_t i = 0; i < all->count; i++)
        if (is_judged_here(all, &all->row[i]))
            judged_ns = KILN_MIN(judged_ns, all->row[i].median_ns);
    return judged_ns;
}

/* Whether this job's judgement still holds: no other record is faster, or is the best of other
 * layouts. */
static bool judgement_holds(const kiln_final_records *all) {
    const double judged_ns = judged_best_ns(all);
    for (uint32_t i = 0; i < all->count; i++)
        if (all->row[i].median_ns < judged_ns || !pair_is_judged(all, &all->row[i])) return false;
    return true;
}

static void choose_early(kiln_final_choice *choice, const kiln_final_records *all) {
    const kiln_db_record *alone = fastest(choice, all, OF_ALONE);
    if (!alone || alone->median_ns >= judged_best_ns(all)) return;
    add_fastest(choice, all, KILN_TUNER_FINALISTS_FASTEST, OF_JUDGED);
    choice->record[choice->count++] = alone;
}

static void choose_at_end(kiln_final_choice *choice, const kiln_final_records *all) {
    if (judgement_holds(all)) return;
    add_fastest(choice, all, 1, OF_JUDGED);
    add_fastest(choice, all, KILN_TUNER_FINALISTS_FASTEST - (choice->count - 1), OF_ALL);
    add_fastest(choice, all, KILN_TUNER_FINALISTS_PAIRS, OF_PAIRS);
}

kiln_final_choice kiln_final_choose(const kiln_final_records *all, bool early) {
    kiln_final_choice choice = {0};
    for (uint32_t i = 0; i < all->count && choice.count == 0; i++)
        if (kiln_str_equal(all->row[i].trace_hash, all->base))
            choice.record[choice.count++] = &all->row[i];
    if (choice.count == 0) return choice;
    if (early)
        choose_early(&choice, all);
    else
        choose_at_end(&choice, all);
    const kiln_db_record *rest = fastest(&choice, all, OF_ALONE);
    choice.alone_ns = rest ? rest->median_ns : 0;
    return choice;
}
