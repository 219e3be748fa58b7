/* Searchers on recorded logs: what each finds in so many trials, over ten seeds. The logs come
 * decompressed on the command line (tests/replay/logs). Nothing is measured and nothing is
 * by chance: the same tree gives the same figures. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "tests/replay/pool.h"
#include "tests/support/sign_test.h"
#include "tests/support/test.h"

#define SEEDS 10u
#define TRIALS 64u
#define LOGS_MAX 8u
#define PAIRS_MAX (LOGS_MAX * SEEDS)
#define SIGNIFICANT 0.05

static struct {
    const char *path[LOGS_MAX];
    uint32_t count;
} logs;

typedef struct contender {
    const char *searcher;
    bool uninformed, shuffle_labels;
} contender;

static const contender by_chance = {"random", false, false};
static const contender evolution = {"evolution", false, false};
static const contender annealing = {"sa", false, false};
static const contender uninformed = {"sa", true, false};
static const contender untaught = {"sa", true, true};

static kiln_str read_log(uint32_t index, kiln_arena *arena) {
    kiln_str text = {0};
    kiln_status st = kiln_file_read(logs.path[index], (size_t)16 << 20, arena, &text);
    if (st) fail_msg("%s", kiln_status_text(st));
    return text;
}

static kiln_replay_pool *open_pool(uint32_t index) {
    kiln_arena arena;
    kiln_replay_log log;
    kiln_replay_pool *pool = NULL;
    kiln_arena_init(&arena, 0);
    kiln_status st = kiln_replay_log_parse(read_log(index, &arena), &arena, &log);
    if (!st) st = kiln_replay_pool_create(&log, KILN_MODEL_XGBOOST, &pool);
    if (st) fail_msg("%s: %s", logs.path[index], kiln_status_text(st));
    kiln_arena_deinit(&arena);
    return pool;
}

/* ---- comparing ---- */

/* Best of the log over what was found, [log][seed]. */
typedef struct finds {
    double at_32[PAIRS_MAX], at_64[PAIRS_MAX];
} finds;

static kiln_replay_pool *pools[LOGS_MAX];

static const finds *search_all(const contender *c) {
    static struct {
        const contender *of;
        finds found;
    } known[8]; /* tests share searches: each runs once */
    uint32_t slot = 0;
    while (known[slot].of && known[slot].of != c) slot++;
    if (known[slot].of) return &known[slot].found;
    known[slot].of = c;
    kiln_replay_options options = {.uninformed = c->uninformed,
                                   .shuffle_labels = c->shuffle_labels};
    assert_null(kiln_searcher_find(kiln_str_from(c->searcher), &options.kind));
    for (uint32_t p = 0; p < logs.count; p++) {
        if (!pools[p]) pools[p] = open_pool(p);
        for (uint32_t s = 0; s < SEEDS; s++) {
            double best[TRIALS];
            options.seed = s + 1;
            assert_null(kiln_replay_pool_search(pools[p], &options, TRIALS, best, NULL, NULL));
            known[slot].found.at_32[p * SEEDS + s] = kiln_replay_pool_best_ns(pools[p]) / best[31];
            known[slot].found.at_64[p * SEEDS + s] = kiln_replay_pool_best_ns(pools[p]) / best[63];
        }
    }
    return &known[slot].found;
}

static double geomean(const double *value, uint32_t count) {
    double sum = 0;
    for (uint32_t i = 0; i < count; i++) sum += log(value[i]);
    return exp(sum / count);
}

typedef struct verdict {
    double at_32, at_64; /* chances */
} verdict;

static verdict compare(const contender *a, const contender *b) {
    const finds *x = search_all(a), *y = search_all(b);
    uint32_t count = logs.count * SEEDS;
    verdict v = {sign_test(x->at_32, y->at_32, count), sign_test(x->at_64, y->at_64, count)};
    print_message(
        "# %s%s%s %.4f %.4f, %s %.4f %.4f of the best after 32 and 64 trials: p %.2g %.2g\n",
        a->searcher, a->uninformed ? ", results alone" : "",
        a->shuffle_labels ? ", shuffled labels" : "", geomean(x->at_32, count),
        geomean(x->at_64, count), b->searcher, geomean(y->at_32, count), geomean(y->at_64, count),
        v.at_32, v.at_64);
    return v;
}

static void annealing_beats_chance(void **state) {
    (void)state;
    verdict v = compare(&annealing, &by_chance);
    assert_true(v.at_32 < SIGNIFICANT);
    assert_true(v.at_64 < SIGNIFICANT);
}

static void annealing_beats_evolution(void **state) {
    (void)state;
    verdict v = compare(&annealing, &evolution);
    assert_true(v.at_32 < SIGNIFICANT);
    assert_true(v.at_64 < SIGNIFICANT);
}

/* Begun by chance, and with trees alone, nothing but what is learned makes a lead: it is there with
 * the measured labels and gone with shuffled ones. */
static void what_is_learned_beats_chance(void **state) {
    (void)state;
    verdict v = compare(&uninformed, &by_chance);
    assert_true(v.at_32 < SIGNIFICANT);
    assert_true(v.at_64 < SIGNIFICANT);
}

static void shuffled_labels_lose_the_lead(void **state) {
    (void)state;
    verdict v = compare(&untaught, &by_chance), w = compare(&uninformed, &untaught);
    assert_true(v.at_32 >= SIGNIFICANT);
    assert_true(v.at_64 >= SIGNIFICANT);
    assert_true(w.at_32 < SIGNIFICANT);
    assert_true(w.at_64 < SIGNIFICANT);
}

static void most_of_the_best_is_found_within_a_few_trials(void **state) {
    (void)state;
    const finds *found = search_all(&annealing);
    assert_true(geomean(found->at_32, logs.count * SEEDS) > 0.95);
}

/* ---- logs and pools ---- */

static void there_are_logs_of_six_tasks_with_a_thousand_trials(void **state) {
    assert_true(logs.count >= 6);
    for (uint32_t i = 0; i < logs.count; i++) {
        kiln_replay_log log;
        assert_null(kiln_replay_log_parse(read_log(i, *state), *state, &log));
        assert_true(log.trial_count >= 1000);
    }
}

static void logs_print_as_they_were_read(void **state) {
    for (uint32_t i = 0; i < logs.count; i++) {
        kiln_str text = read_log(i, *state);
        kiln_replay_log log;
        kiln_strbuf again = {0};
        assert_null(kiln_replay_log_parse(text, *state, &log));
        kiln_replay_log_print(&log, &again);
        assert_true(kiln_str_equal(text, kiln_strbuf_view(&again)));
        kiln_strbuf_deinit(&again);
    }
}

/* Every prefix is refused, and names a line; so is a log with another word at any place. */
static void damaged_logs_are_refused(void **state) {
    kiln_str text = read_log(0, *state);
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    for (size_t size = 0; size < text.size; size += size < 4000 ? 61 : 997) {
        kiln_replay_log log;
        kiln_str part = {text.data, size};
        if (size && text.data[size - 1] == '\n' && size == text.size) continue;
        kiln_status st = kiln_replay_log_parse(part, &arena, &log);
        if (!st) fail_msg("%zu of %zu bytes make a log", size, text.size);
        kiln_status_free(st);
        kiln_arena_reset(&arena);
    }
    kiln_arena_deinit(&arena);
}

static void a_search_of_a_pool_finds_all_of_it_in_the_end(void **state) {
    (void)state;
    if (!pools[0]) pools[0] = open_pool(0);
    uint32_t trials = kiln_replay_pool_count(pools[0]) + 100;
    double *best = kiln_alloc(trials * sizeof *best);
    kiln_replay_options options = {.kind = KILN_SEARCHER_GRID, .seed = 1};
    assert_null(kiln_replay_pool_search(pools[0], &options, trials, best, NULL, NULL));
    assert_true(best[trials - 1] == kiln_replay_pool_best_ns(pools[0]));
    for (uint32_t i = 1; i < trials; i++) assert_true(best[i] <= best[i - 1]);
    kiln_free(best);
}

static int close_pools(void **state) {
    (void)state;
    for (uint32_t i = 0; i < LOGS_MAX; i++) kiln_replay_pool_destroy(pools[i]);
    return 0;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        test_with_arena(there_are_logs_of_six_tasks_with_a_thousand_trials),
        test_with_arena(logs_print_as_they_were_read),
        test_with_arena(damaged_logs_are_refused),
        cmocka_unit_test(a_search_of_a_pool_finds_all_of_it_in_the_end),
        cmocka_unit_test(annealing_beats_chance),
        cmocka_unit_test(annealing_beats_evolution),
        cmocka_unit_test(what_is_learned_beats_chance),
        cmocka_unit_test(shuffled_labels_lose_the_lead),
        cmocka_unit_test(most_of_the_best_is_found_within_a_few_trials),
    };
    for (int i = 1; i < argc && logs.count < LOGS_MAX; i++) logs.path[logs.count++] = argv[i];
    return cmocka_run_group_tests(tests, NULL, close_pools);
}
