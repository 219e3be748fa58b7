/* Records are named by the hashes of their traces: "d" is the default. */
#include "tuner/final_choice.h"

#include "tests/support/test.h"

#define JOB "j"

static kiln_db_record alone(const char *hash, double ns) {
    return (kiln_db_record){
        .trace_hash = kiln_str_from(hash), .median_ns = ns, .job_id = KILN_STR(JOB)};
}

static kiln_db_record with_layout(kiln_db_record record, const char *in, const char *out) {
    record.layout_in = kiln_str_from(in);
    record.layout_out = kiln_str_from(out);
    return record;
}

static kiln_db_record judged(const char *hash, double ns, const char *job) {
    kiln_db_record record = alone(hash, ns);
    record.final = 1;
    record.job_id = kiln_str_from(job);
    return record;
}

/* `expected`: the hashes that are chosen, in their order. */
static void expect_choice(const kiln_db_record *row, uint32_t count, bool early,
                          const char *expected, double alone_ns) {
    const kiln_final_records all = {row, count, KILN_STR("d"), KILN_STR(JOB)};
    const kiln_final_choice choice = kiln_final_choose(&all, early);
    kiln_strbuf text = {0};
    for (uint32_t i = 0; i < choice.count; i++)
        kiln_strbuf_printf(&text, "%s%.*s", i ? " " : "",
                           KILN_STR_ARG(choice.record[i]->trace_hash));
    assert_string_equal(text.data ? text.data : "", expected);
    assert_true(choice.alone_ns == alone_ns);
    kiln_strbuf_deinit(&text);
}

#define EXPECT(rows, early, expected, alone_ns) \
    expect_choice(rows, KILN_ARRAY_COUNT(rows), early, expected, alone_ns)

static void without_the_default_there_is_no_final(void **state) {
    (void)state;
    const kiln_db_record row[] = {alone("a", 5), alone("b", 6)};
    EXPECT(row, false, "", 0);
    EXPECT(row, true, "", 0);
}

static void a_default_alone_needs_no_final(void **state) {
    (void)state;
    const kiln_db_record row[] = {alone("d", 9)};
    EXPECT(row, false, "d", 0);
    EXPECT(row, true, "d", 0);
}

static void the_final_at_the_end_takes_the_default_and_the_fastest(void **state) {
    (void)state;
    const kiln_db_record row[] = {alone("e", 8), alone("c", 6), alone("d", 9),
                                  alone("b", 5), alone("a", 4), alone("f", 7)};
    EXPECT(row, false, "d a b c", 7);
}

static void one_place_is_for_the_fastest_of_earlier_finals(void **state) {
    (void)state;
    const kiln_db_record row[] = {
        alone("d", 9),           alone("a", 4),           alone("b", 5),          alone("c", 6),
        judged("x", 8, "other"), judged("y", 7, "other"), judged("z", 9, "other")};
    EXPECT(row, false, "d y a b", 6);
}

static void the_fastest_of_other_layouts_are_taken_as_well(void **state) {
    (void)state;
    const kiln_db_record row[] = {
        alone("d", 9),
        alone("a", 1),
        alone("b", 2),
        alone("c", 3),
        with_layout(alone("slow", 20), "x", "y"),
        with_layout(alone("other in", 10), "x", ""),
        with_layout(alone("other in, slower", 11), "x", ""),
        with_layout(alone("other out", 12), "", "y"),
        with_layout(alone("third pair", 15), "z", "z"),
    };
    EXPECT(row, false, "d a b c other in other out", 11);
}

static void the_layouts_of_the_default_are_not_others(void **state) {
    (void)state;
    const kiln_db_record row[] = {with_layout(alone("d", 9), "x", "y"), alone("a", 1),
                                  alone("b", 2), alone("c", 3),
                                  with_layout(alone("e", 8), "x", "y")};
    EXPECT(row, false, "d a b c", 8);
}

static void the_first_stored_wins_a_tie(void **state) {
    (void)state;
    const kiln_db_record row[] = {alone("d", 9), alone("c", 5), alone("b", 5), alone("a", 5),
                                  alone("e", 5)};
    EXPECT(row, false, "d c b a", 5);
    EXPECT(row, true, "d c", 5);
}

static void no_trace_is_taken_twice(void **state) {
    (void)state;
    const kiln_db_record row[] = {alone("a", 4), judged("a", 5, "other"), alone("d", 9),
                                  alone("d", 8)};
    EXPECT(row, false, "d a", 0);
}

static void a_judgement_of_this_job_that_still_holds_needs_no_final(void **state) {
    (void)state;
    kiln_db_record row[] = {judged("a", 5, JOB), judged("d", 9, JOB), alone("b", 5)};
    EXPECT(row, false, "d", 5);
    row[2].median_ns = 4.9; /* faster than what was judged */
    EXPECT(row, false, "d a b", 0);
    row[2] = with_layout(alone("b", 20), "x", ""); /* the best of other layouts */
    EXPECT(row, false, "d a b", 0);
    row[2] = with_layout(alone("b", 20), "", "x");
    EXPECT(row, false, "d a b", 0);
    row[2] = judged("b", 4, "other"); /* by another job, at another time */
    EXPECT(row, false, "d b a", 0);
    row[2] = judged("b", 4, JOB);
    EXPECT(row, false, "d", 0);
    row[0] = alone("a", 3); /* the first of all is the one that was not judged */
    EXPECT(row, false, "d b a", 0);
    row[0] = with_layout(alone("a", 20), "x", "");
    EXPECT(row, false, "d b a", 0);
    row[0] = with_layout(judged("a", 5, JOB), "x", ""); /* the only one of its layouts */
    EXPECT(row, false, "d", 0);
    row[2] = with_layout(judged("b", 4, JOB), "x", "y");
    EXPECT(row, false, "d", 0);
}

static void a_judgement_takes_earlier_winners_and_the_fastest_of_the_others(void **state) {
    (void)state;
    const kiln_db_record row[] = {alone("d", 9),          alone("b", 3),       alone("a", 2),
                                  judged("p", 6, JOB),    judged("q", 5, JOB), judged("r", 4, JOB),
                                  judged("s", 7, "other")};
    EXPECT(row, true, "d r q p a", 3);
}

static void a_judgement_waits_until_a_candidate_is_faster_than_the_last_winner(void **state) {
    (void)state;
    kiln_db_record row[] = {alone("d", 9), alone("a", 4), judged("r", 4, JOB)};
    EXPECT(row, true, "d", 4);
    row[1].median_ns = 3.9;
    EXPECT(row, true, "d r a", 0);
    row[1].median_ns = 4;
    row[2] = judged("r", 4, "other"); /* this job has judged nothing yet */
    EXPECT(row, true, "d r a", 0);
    kiln_db_record twice[] = {judged("d", 9, JOB), judged("r", 4, JOB), alone("a", 4.5)};
    EXPECT(twice, true, "d", 4.5); /* the best judged one counts, wherever it stands */
    row[2] = judged("r", 3, JOB);
    row[1] = judged("a", 2, "other"); /* none is alone */
    EXPECT(row, true, "d", 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_the_default_there_is_no_final),
        cmocka_unit_test(a_default_alone_needs_no_final),
        cmocka_unit_test(the_final_at_the_end_takes_the_default_and_the_fastest),
        cmocka_unit_test(one_place_is_for_the_fastest_of_earlier_finals),
        cmocka_unit_test(the_fastest_of_other_layouts_are_taken_as_well),
        cmocka_unit_test(the_layouts_of_the_default_are_not_others),
        cmocka_unit_test(the_first_stored_wins_a_tie),
        cmocka_unit_test(no_trace_is_taken_twice),
        cmocka_unit_test(a_judgement_of_this_job_that_still_holds_needs_no_final),
        cmocka_unit_test(a_judgement_takes_earlier_winners_and_the_fastest_of_the_others),
        cmocka_unit_test(a_judgement_waits_until_a_candidate_is_faster_than_the_last_winner),
    };
    return cmocka_run_group_tests_name("tuner/final_choice", tests, NULL, NULL);
}
