/* Candidates that mean harm, or are plainly wrong, one after the other on one rpc-server: the real
 * programs over a socket. Each gets its outcome, and afterwards the server is as it was: no
 * process, descriptor, file or memory more, and it measures as before.
 *
 * $KILN_HOSTILE: how many hostile ones (300; `./dev test hostile` runs 10,000). */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/opt.h"
#include "base/rand.h"
#include "base/stats.h"
#include "tests/unit/rpc-server/fleet.h"
#include "tests/unit/rpc-server/mutations.h"

#define DEADLINE_MS 60u
#define LEASE_TRIALS 4000u
#define HONEST_EVERY 5u
#define GROWTH_BYTES ((uint64_t)1 << 20)
#define WRONG_KERNELS 1000u
#define OUTSIDE "/tmp/kiln" /* what opens_a_file tries to make */
/* The measurement behind a hostile candidate beside the one behind an honest one. Judged from so
 * many pairs on: the median of 1,000 ratios that are each within 10 % is within 0.4 %. */
#define PAIRS_JUDGED 1000u
#define RATIO_BAND 0.02
/* On a machine that something else disturbs in step with us they are taken again. */
#define REPEATS_MAX 3u

#define CRASH (1U << KILN_OUTCOME_CRASH)
#define WRONG (1U << KILN_OUTCOME_WRONG_RESULT)
#define TIMEOUT (1U << KILN_OUTCOME_TIMEOUT)

/* Objects of objects/candidate.c, and the outcomes that are right for them. */
static const struct {
    const char *name;
    uint32_t outcomes;
} hostile[] = {
    {"loops_for_ever", TIMEOUT},
    {"loops_in_prepare", TIMEOUT},
    {"loops_in_all_threads", TIMEOUT},
    {"sleeps_for_ever", TIMEOUT},
    {"reads_nothing", CRASH},
    {"illegal_instruction", CRASH},
    {"divides_by_zero", CRASH},
    {"aborts", CRASH},
    {"fills_the_stack", CRASH},
    {"jumps_into_nothing", CRASH},
    {"jumps_into_its_data", CRASH},
    {"makes_code", CRASH},
    {"starts_a_process", CRASH},
    {"is_a_fork_bomb", CRASH},
    {"executes_a_program", CRASH},
    {"leaves_its_session", CRASH},
#if !KILN_SANITIZED /* a sanitizer maps memory itself */
    {"fills_memory", CRASH},
#endif
    {"fills_the_disk", CRASH},
    {"opens_a_file", CRASH},
    {"opens_a_socket", CRASH},
    {"closes_descriptors", CRASH},
    {"kills_its_parent", CRASH},
    {"kills_its_group", CRASH},
    {"stops_everybody", CRASH},
    {"catches_signals", CRASH},
    {"lowers_its_guard", CRASH},
    {"reads_descriptors", CRASH},
    {"reads_proc", CRASH},
    {"reads_its_parents_memory", CRASH},
    {"traces_its_parent", CRASH},
    {"takes_a_descriptor", CRASH},
    {"asks_the_kernel", CRASH},
    {"ends_early", CRASH},
    {"forges_a_report", CRASH},
    {"floods_its_parent", CRASH},
    {"says_it_failed", CRASH},
    {"writes_after", CRASH},
    {"writes_before", CRASH},
    {"writes_its_input", CRASH},
    {"writes_beside", CRASH},
    {"half_of_it", WRONG},
    {"right_once", WRONG},
    {"skips_when_done", WRONG},
    {"slightly_wrong", WRONG},
};

#define HOSTILE_COUNT ((uint32_t)KILN_ARRAY_COUNT(hostile))

typedef struct bench {
    fleet fleet;
    kiln_rand rand;
    kiln_msg_blob_ref honest, hostile[HOSTILE_COUNT], reference;
    uint32_t sent, left; /* trials; left: of the lease */
    uint32_t lost;       /* leases */
    bool no_lease;
} bench;

static int set_up(void **state) {
    bench *b = kiln_alloc(sizeof *b);
    fleet_set_up(&b->fleet, NULL);
    kiln_rand_init(&b->rand, 1);
    fleet_open_job(&b->fleet);
    b->reference = fleet_upload_reference(&b->fleet);
    b->honest = fleet_upload_candidate(&b->fleet, "honest");
    *state = b;
    return 0;
}

static int tear_down(void **state) {
    bench *b = *state;
    fleet_tear_down(&b->fleet);
    kiln_free(b);
    return 0;
}

/* ---- Trials ---- */

static void keep_a_lease(bench *b) {
    if (b->left % 64 == 0 && b->fleet.lease && !b->no_lease) fleet_renew(&b->fleet);
    if (b->left > 0) {
        b->left--;
        return;
    }
    kiln_message release = {.type = KILN_MSG_LEASE_RELEASE,
                            .lease_release = {.lease = b->fleet.lease}};
    if (b->fleet.lease && !b->no_lease) expect_ok(kiln_conn_send(b->fleet.tuner, &release));
    b->no_lease = false;
    fleet_lease(&b->fleet, LEASE_TRIALS);
    b->left = b->fleet.lease_trials - 1;
}

/* NULL: the lease was lost. */
static const kiln_msg_trial_result *try_once(bench *b, const kiln_msg_blob_ref *artefact,
                                             uint32_t deadline_ms) {
    keep_a_lease(b);
    char id[32];
    snprintf(id, sizeof id, "%u", ++b->sent);
    kiln_msg_trial trial = fleet_trial(&b->fleet, id, 1, artefact, &b->reference);
    trial.policy = (kiln_msg_policy){3, 5, 0.01, 50000, 1000000};
    trial.deadlines_ms.warm = deadline_ms;
    fleet_send_trial(&b->fleet, &trial);
    return fleet_await_result(&b->fleet, id, 1);
}

static const kiln_msg_trial_result *measure(bench *b, const kiln_msg_blob_ref *artefact,
                                            uint32_t deadline_ms) {
    const kiln_msg_trial_result *result = try_once(b, artefact, deadline_ms);
    while (!result) { /* the board called itself sick for a while */
        assert_true(++b->lost < 20);
        b->left = 0;
        b->no_lease = true;
        result = try_once(b, artefact, deadline_ms);
    }
    fleet_acknowledge(&b->fleet, result);
    return result;
}

/* The least time of a run of the honest candidate. */
static double measure_honest(bench *b) {
    const kiln_msg_trial_result *result = measure(b, &b->honest, 0);
    if (result->outcome != KILN_OUTCOME_OK)
        fail_msg("the honest one: %s, %.*s", kiln_outcome_name((kiln_outcome)result->outcome),
                 KILN_STR_ARG(result->text));
    double least = 1e18;
    for (uint32_t i = 0; i < result->samples_ns.count; i++)
        least = KILN_MIN(least, (double)result->samples_ns.item[i] / result->runs);
    return least;
}

/* ---- What the server holds ---- */

/* With what is left of its candidates: its helper is the parent of whatever loses its own. */
typedef struct holdings {
    uint32_t processes, descriptors, threads, files;
    uint64_t resident_bytes;
} holdings;

/* Entries of a folder, and of those in it when it goes `deep`. */
static uint32_t count_entries(bench *b, const char *path, bool deep) {
    DIR *folder = opendir(path);
    uint32_t count = 0;
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        count++;
        if (deep && entry->d_type == DT_DIR)
            count += count_entries(
                b, kiln_arena_printf(&b->fleet.arena, "%s/%s", path, entry->d_name), deep);
    }
    closedir(folder);
    return count;
}

static kiln_str read_text(bench *b, const char *path) {
    kiln_str text = {0};
    expect_ok(kiln_file_read_system(path, &b->fleet.arena, &text));
    return text;
}

/* Of the helper: when nothing runs there are the spare, or its guard, and the zygote where there is
 * one. */
static uint32_t count_children(bench *b) {
    const int helper = fleet_helper(&b->fleet);
    kiln_str text = read_text(
        b, kiln_arena_printf(&b->fleet.arena, "/proc/%d/task/%d/children", helper, helper));
    uint32_t count = 0;
    for (size_t i = 0; i < text.size; i++) count += text.data[i] == ' ';
    return count;
}

static holdings look(bench *b) {
    kiln_arena *arena = &b->fleet.arena;
    const char *process = kiln_arena_printf(arena, "/proc/%d", b->fleet.server.pid);
    kiln_str memory = read_text(b, kiln_arena_printf(arena, "%s/statm", process));
    uint64_t pages = 0;
    kiln_str_cut(&memory, ' ');
    assert_true(kiln_str_to_u64(kiln_str_cut(&memory, ' '), &pages));
    return (holdings){
        .processes = count_children(b),
        .descriptors =
            count_entries(b, kiln_arena_printf(arena, "%s/fd", process), false) +
            count_entries(b, kiln_arena_printf(arena, "/proc/%d/fd", fleet_helper(&b->fleet)),
                          false),
        .threads = count_entries(b, kiln_arena_printf(arena, "%s/task", process), false),
        .files = count_entries(b, kiln_arena_printf(arena, "%s/server", b->fleet.folder), true),
        .resident_bytes = pages * 4096,
    };
}

static bool holds_more(const holdings *after, const holdings *before) {
    return after->processes > before->processes || after->descriptors > before->descriptors ||
           after->threads > before->threads || after->files > before->files ||
           (!KILN_SANITIZED && after->resident_bytes > before->resident_bytes + GROWTH_BYTES);
}

/* What is being put away when we look is no leak. */
static holdings look_until_it_is_as(bench *b, const holdings *before) {
    const uint64_t until_ns = kiln_clock_ns() + 60 * KILN_NS_PER_S;
    holdings after = look(b);
    while (holds_more(&after, before) && kiln_clock_ns() < until_ns) {
        fleet_turn(&b->fleet);
        after = look(b);
    }
    return after;
}

/* ---- Whether it measures as before ---- */

/* One behind a hostile candidate, one behind an honest one, next to each other in time. */
typedef struct pairs {
    uint32_t count;
    double *after_ns, *calm_ns;
} pairs;

static void take_pair(bench *b, pairs *p) {
    p->after_ns[p->count] = measure_honest(b);
    p->calm_ns[p->count++] = measure_honest(b);
}

/* The median ratio of the quieter half. */
static double ratio_of(bench *b, const pairs *p) {
    double *sum = KILN_ARENA_ARRAY(&b->fleet.arena, double, p->count);
    double *ratio = KILN_ARENA_ARRAY(&b->fleet.arena, double, p->count);
    uint32_t quiet = 0;
    for (uint32_t i = 0; i < p->count; i++) sum[i] = p->after_ns[i] + p->calm_ns[i];
    const double middle = kiln_stats_median(sum, p->count);
    for (uint32_t i = 0; i < p->count; i++)
        if (sum[i] <= middle) ratio[quiet++] = p->after_ns[i] / p->calm_ns[i];
    return kiln_stats_median(ratio, quiet);
}

/* ---- Promises ---- */

static uint32_t hostile_count(void) {
    uint64_t count = 300;
    const char *asked = kiln_env("KILN_HOSTILE");
    if (asked) assert_true(kiln_str_to_u64(kiln_str_from(asked), &count));
    return (uint32_t)count;
}

static void attack(bench *b, uint32_t which) {
    const bool hangs = hostile[which].outcomes == TIMEOUT;
    const kiln_msg_trial_result *result = measure(b, &b->hostile[which], hangs ? DEADLINE_MS : 0);
    if (!(hostile[which].outcomes & 1U << result->outcome))
        fail_msg("%s: %s, %.*s", hostile[which].name,
                 kiln_outcome_name((kiln_outcome)result->outcome), KILN_STR_ARG(result->text));
    assert_int_equal(result->blame, KILN_BLAME_CANDIDATE);
}

/* Attacks `count` times, and takes the pairs between. */
static double attack_often(bench *b, uint32_t count) {
    pairs p = {.after_ns = KILN_ARENA_ARRAY(&b->fleet.arena, double, count / HONEST_EVERY + 1),
               .calm_ns = KILN_ARENA_ARRAY(&b->fleet.arena, double, count / HONEST_EVERY + 1)};
    for (uint32_t i = 0; i < count; i++) {
        attack(b, (uint32_t)kiln_rand_below(&b->rand, HOSTILE_COUNT));
        if (i % HONEST_EVERY == 0) take_pair(b, &p);
        if (i % 1000 == 999) print_message("%u of %u\n", i + 1, count);
    }
    return ratio_of(b, &p);
}

static void report(uint32_t count, const holdings *before, const holdings *after, double ratio) {
    print_message("%u hostile candidates: processes %u before, %u after; descriptors %u, %u; "
                  "threads %u, %u; files %u, %u; resident %.2f MB, %.2f MB; the measurement after "
                  "one takes %.2f %% of that after an honest one\n",
                  count, before->processes, after->processes, before->descriptors,
                  after->descriptors, before->threads, after->threads, before->files, after->files,
                  (double)before->resident_bytes / 1e6, (double)after->resident_bytes / 1e6,
                  100 * ratio);
}

static void hostile_candidates_leave_the_server_as_it_was(void **state) {
    bench *b = *state;
    const uint32_t count = KILN_MAX(hostile_count(), HOSTILE_COUNT + 1);
    for (uint32_t i = 0; i < HOSTILE_COUNT; i++)
        b->hostile[i] = fleet_upload_candidate(&b->fleet, hostile[i].name);
    for (uint32_t i = 0; i < HOSTILE_COUNT; i++) attack(b, i); /* each at least once; pools fill */
    measure_honest(b);
    const bool outside = kiln_file_exists(OUTSIDE);
    const holdings before = look(b);
    double ratio = attack_often(b, count - HOSTILE_COUNT);
    const uint32_t pair_count = (count - HOSTILE_COUNT) / HONEST_EVERY;
    for (uint32_t i = 0; pair_count >= PAIRS_JUDGED && i < REPEATS_MAX; i++) {
        if (fabs(ratio - 1) < RATIO_BAND) break;
        print_message("%.2f %%: once more\n", 100 * ratio);
        ratio = attack_often(b, PAIRS_JUDGED * HONEST_EVERY);
    }
    measure_honest(b);
    const holdings after = look_until_it_is_as(b, &before);
    report(count, &before, &after, ratio);
    assert_int_equal(after.processes, before.processes);
    assert_int_equal(after.descriptors, before.descriptors);
    assert_int_equal(after.threads, before.threads);
    assert_int_equal(after.files, before.files);
    assert_false(holds_more(&after, &before));
    assert_int_equal(kiln_file_exists(OUTSIDE), outside);
    if (pair_count >= PAIRS_JUDGED) assert_true(fabs(ratio - 1) < RATIO_BAND);
}

/* The mutant with these bytes in it: an artefact of its own. */
static kiln_msg_blob_ref upload_mutant(bench *b, uint32_t kind, uint32_t at) {
    kiln_strbuf bytes = {0};
    fleet_artefact("mutant", &bytes);
    char *place = memmem(bytes.data, bytes.size, MUTATION_MAGIC, strlen(MUTATION_MAGIC));
    assert_non_null(place);
    memcpy(place + strlen(MUTATION_MAGIC), &kind, sizeof kind);
    memcpy(place + strlen(MUTATION_MAGIC) + sizeof kind, &at, sizeof at);
    kiln_msg_blob_ref blob = fleet_upload(&b->fleet, kiln_strbuf_view(&bytes));
    kiln_strbuf_deinit(&bytes);
    return blob;
}

/* It looks where a process's environment lies, and answers wrongly when there is one. The server
 * has a secret in its own (fleet.c). */
static void a_candidate_finds_no_environment(void **state) {
    bench *b = *state;
    const kiln_msg_blob_ref curious = fleet_upload_candidate(&b->fleet, "reads_its_environment");
    const kiln_msg_trial_result *result = measure(b, &curious, 0);
    if (result->outcome != KILN_OUTCOME_OK)
        fail_msg("%s: %.*s", kiln_outcome_name((kiln_outcome)result->outcome),
                 KILN_STR_ARG(result->text));
}

static void wrong_answers_are_all_refused(void **state) {
    bench *b = *state;
    uint32_t refused = 0;
    for (uint32_t i = 0; i < WRONG_KERNELS; i++) {
        uint32_t kind = MUTATION_NONE + 1 + i % (MUTATION_COUNT - 1);
        uint32_t at = (uint32_t)kiln_rand_below(&b->rand, CANDIDATE_ELEMENTS - 1);
        if (i < MUTATION_COUNT - 1) at = CANDIDATE_ELEMENTS - 2; /* at the end as well */
        const kiln_msg_blob_ref mutant = upload_mutant(b, kind, at);
        const kiln_msg_trial_result *result = measure(b, &mutant, 0);
        if (result->outcome != KILN_OUTCOME_WRONG_RESULT)
            fail_msg("kind %u at %u: %s, %.*s", kind, at,
                     kiln_outcome_name((kiln_outcome)result->outcome), KILN_STR_ARG(result->text));
        refused++;
        if (i % 100) continue;
        const kiln_msg_blob_ref right = upload_mutant(b, MUTATION_NONE, at);
        assert_int_equal(measure(b, &right, 0)->outcome, KILN_OUTCOME_OK);
    }
    assert_int_equal(refused, WRONG_KERNELS);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int argc, char **argv) {
    fleet_take_arguments(argc, argv);
    const struct CMUnitTest tests[] = {
        TEST(hostile_candidates_leave_the_server_as_it_was),
        TEST(a_candidate_finds_no_environment),
        TEST(wrong_answers_are_all_refused),
    };
    return cmocka_run_group_tests_name("rpc-server/hostile", tests, NULL, NULL);
}
