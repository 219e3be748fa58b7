/* What a task's program says of its records. */
#include "tuner/plausible.h"

#include "tests/unit/db/support.h"

/* Writes 4000 bytes, which a core takes 2 ns for at least. */
#define HEAD "program t\ninput x: f32[1000]\noutput y: f32[1000]\n"
static const char sum[] = HEAD "block a(i:1000): y[i] = x[i] + x[i]\n";
static const char two[] = HEAD "block a(i:1000): y[i] = x[i] * x[i] + x[i]\n";

static kiln_db_task task_of(const char *text, kiln_arena *arena) {
    kiln_program *te = NULL;
    expect_ok(kiln_program_parse(kiln_str_from(text), arena, &te));
    return (kiln_db_task){.key = kiln_task_key(te, arena),
                          .canonical = kiln_str_from(text),
                          .flops = kiln_program_flops_with_zeros(te)};
}

static kiln_db_record record_for(const kiln_db_task *task, double sample_ns) {
    kiln_db_record record = record_of(1, sample_ns);
    record.task_key = task->key;
    record.flops = task->flops;
    return record;
}

static void expect_why(const kiln_db_record *record, const kiln_db_task *task, const char *why) {
    kiln_plausible *plausible = kiln_plausible_create();
    for (int round = 0; round < 2; round++) { /* the second by what it remembers */
        const char *found = kiln_plausible_why_not(plausible, record, task);
        if (why && found)
            assert_string_equal(found, why);
        else
            assert_true(why == found);
    }
    kiln_plausible_destroy(plausible);
}

static void operations_are_those_of_the_program(void **state) {
    const kiln_db_task task = task_of(sum, *state);
    kiln_db_record record = record_for(&task, 500);
    assert_true(task.flops > 0);
    expect_why(&record, &task, NULL);
    record.flops *= 2;
    expect_why(&record, &task, "its operations are not those of its task's program");
    record.outcome = KILN_STR("timeout");
    expect_why(&record, &task, "its operations are not those of its task's program");
    expect_why(&record, NULL, NULL);
}

static void the_program_is_that_of_the_key(void **state) {
    kiln_db_task task = task_of(sum, *state);
    const kiln_db_task other = task_of(two, *state);
    kiln_db_record record = record_for(&other, 500);
    task.key = other.key;
    expect_why(&record, &task, "its task's program is not that of the task's key");
    task.key = KILN_STR("v0:0123456789abcdef0123456789abcdef"); /* of an older version */
    record.flops = task.flops;
    expect_why(&record, &task, NULL);
    task.canonical = KILN_STR("program of a later version");
    record.flops = 1;
    expect_why(&record, &task, NULL);
}

static void outputs_are_written_no_faster_than_cores_can(void **state) {
    const kiln_db_task task = task_of(sum, *state);
    kiln_db_record record = record_for(&task, 2.01);
    expect_why(&record, &task, NULL);
    record = record_for(&task, 1.99);
    expect_why(&record, &task, "it writes its output faster than any such machine");
    record.outcome = KILN_STR("timeout");
    expect_why(&record, &task, NULL);
    record = record_for(&task, 1.99);
    record.target = KILN_STR("cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v3,threads=2");
    expect_why(&record, &task, NULL);
    record.target = KILN_STR("cuda:sm_90");
    expect_why(&record, &task, NULL);
    record = record_for(&task, 0.03);
    record.target = KILN_STR("cuda:sm_90");
    expect_why(&record, &task, "it writes its output faster than any such machine");
    const double samples[] = {500, 500, 1.99};
    record = record_for(&task, 500);
    record.samples_ns = (kiln_db_samples){samples, 3};
    expect_why(&record, &task, "it writes its output faster than any such machine");
}

static void each_record_is_held_to_its_own_task(void **state) {
    const kiln_db_task task[] = {task_of(sum, *state), task_of(two, *state)};
    const kiln_db_record record[] = {record_for(&task[0], 500), record_for(&task[1], 500)};
    kiln_plausible *plausible = kiln_plausible_create();
    assert_true(task[0].flops != task[1].flops);
    for (int round = 0; round < 4; round++)
        assert_null(kiln_plausible_why_not(plausible, &record[round % 2], &task[round % 2]));
    assert_non_null(kiln_plausible_why_not(plausible, &record[0], &task[1]));
    kiln_plausible_destroy(plausible);
}

/* As in the tuner: by the programs of its job, whatever the task's row says. */
static void records_of_tasks_at_hand_are_held_to_their_programs(void **state) {
    kiln_arena *arena = *state;
    kiln_program *te = NULL;
    kiln_db_task task = task_of(sum, arena);
    const kiln_db_task other = task_of(two, arena);
    expect_ok(kiln_program_parse(kiln_str_from(sum), arena, &te));
    const kiln_plausible_task known = {task.key, te};
    kiln_plausible *plausible = kiln_plausible_create_for(&known, 1);
    task.canonical = KILN_STR("what a stranger says");
    kiln_db_record record = record_for(&task, 1.99);
    assert_non_null(kiln_plausible_why_not(plausible, &record, &task));
    record.task_key = other.key; /* not at hand */
    assert_null(kiln_plausible_why_not(plausible, &record, &other));
    record = record_for(&task, 500);
    assert_null(kiln_plausible_why_not(plausible, &record, &task));
    record.flops *= 2;
    assert_non_null(kiln_plausible_why_not(plausible, &record, &task));
    kiln_plausible_destroy(plausible);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(operations_are_those_of_the_program),
        test_with_arena(the_program_is_that_of_the_key),
        test_with_arena(outputs_are_written_no_faster_than_cores_can),
        test_with_arena(each_record_is_held_to_its_own_task),
        test_with_arena(records_of_tasks_at_hand_are_held_to_their_programs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
