/* Signers whom a project trusts: who may say so, what its jobs are told, and when it ends. */
#include <string.h>

#include "tests/unit/tracker/fleet.h"

enum { OWNER = 30, ANN = 31, BOB = 32, VIC = 33, STRANGER = 34 };

#define HALF "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define OTHER "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100"

/* A list of keys with one node in it. */
typedef struct key_list {
    kiln_tracker_known_key key;
    kiln_sign_public before; /* what it signed with before it was rotated */
    bool gone;
} key_list;

static bool find_key(void *context, kiln_str node, const kiln_sign_public *half,
                     kiln_tracker_known_key *out) {
    const key_list *list = context;
    if (list->gone || (node.size && !kiln_str_is(node, list->key.node))) return false;
    if (half && memcmp(half, &list->key.half, sizeof *half) != 0 &&
        memcmp(half, &list->before, sizeof *half) != 0)
        return false;
    *out = list->key;
    return true;
}

static void connect_as(fleet *f, uint64_t peer, const char *person, kiln_tracker_who who) {
    f->who = who;
    f->who.person = person;
    fleet_connect(f, peer, person ? KILN_PEER_CLIENT : KILN_PEER_ADMIN, person ? person : "n",
                  person ? person : "b");
}

static void connect_people(fleet *f) {
    fleet_board(f, 10, "board", 1);
    fleet_tuner(f, 20, "tuner", "tuner-1");
    connect_as(f, OWNER, "owner", (kiln_tracker_who){.is_owner = true, .is_proven = true});
    connect_as(f, ANN, "ann", (kiln_tracker_who){.is_proven = true});
    connect_as(f, BOB, "bob", (kiln_tracker_who){.is_proven = true});
    connect_as(f, VIC, "vic", (kiln_tracker_who){.is_proven = true});
    connect_as(f, STRANGER, NULL, (kiln_tracker_who){0});
}

static kiln_code order(fleet *f, uint64_t peer, kiln_msg_project_order what) {
    fleet_forget_sent(f);
    fleet_say(f, peer,
              &(kiln_message){.type = KILN_MSG_PROJECT_ORDER, .stream = 9, .project_order = what});
    const kiln_message *error = fleet_take(f, peer, KILN_MSG_ERROR);
    return error ? (kiln_code)error->error.code : KILN_OK;
}

static kiln_code trust(fleet *f, uint64_t peer, const char *project, const char *signer, bool yes) {
    return order(f, peer,
                 (kiln_msg_project_order){.project = kiln_str_from(project),
                                          .act = yes ? KILN_PROJECT_TRUST : KILN_PROJECT_DISTRUST,
                                          .signer = kiln_str_from(signer)});
}

static void add(fleet *f, const char *project, const char *person, kiln_member role) {
    assert_int_equal(order(f, OWNER,
                           (kiln_msg_project_order){.project = kiln_str_from(project),
                                                    .act = KILN_PROJECT_ADD,
                                                    .person = kiln_str_from(person),
                                                    .role = role}),
                     KILN_OK);
}

/* Projects "p" (admin ann, viewer vic) and "q" (admin bob). */
static void make_projects(fleet *f) {
    connect_people(f);
    for (const char *name = "p\0q\0"; *name; name += 2)
        assert_int_equal(order(f, OWNER,
                               (kiln_msg_project_order){.project = kiln_str_from(name),
                                                        .act = KILN_PROJECT_NEW}),
                         KILN_OK);
    add(f, "p", "ann", KILN_MEMBER_ADMIN);
    add(f, "p", "vic", KILN_MEMBER_VIEWER);
    add(f, "q", "bob", KILN_MEMBER_ADMIN);
}

static const kiln_msg_project_row *show(fleet *f, uint64_t peer, const char *project) {
    fleet_forget_sent(f);
    fleet_say(f, peer,
              &(kiln_message){.type = KILN_MSG_PROJECT_QUERY,
                              .project_query = {.project = kiln_str_from(project)}});
    const kiln_message *answer = fleet_take(f, peer, KILN_MSG_PROJECTS);
    return answer ? &answer->projects.projects.item[0] : NULL;
}

/* What a job of the project is assigned with, which ends here. */
static kiln_str assigned(fleet *f, const char *id, const char *project) {
    kiln_message open = fleet_job(id, true);
    open.job_open.spec.project = kiln_str_from(project);
    fleet_forget_sent(f);
    fleet_say(f, OWNER, &open);
    fleet_wait(f, FLEET_S, (uint64_t[]){10, 20, OWNER, 0});
    const kiln_message *assign = fleet_take(f, 20, KILN_MSG_JOB_ASSIGN);
    assert_non_null(assign);
    return assign->job_assign.trusted;
}

/* What the job's client hears at its end, whatever its tuner says. */
static kiln_str done(fleet *f, const char *id) {
    static const char forged[32] = "the tuner's own word";
    kiln_message end = {.type = KILN_MSG_JOB_DONE,
                        .job_done = {.job = kiln_str_from(id), .trusted = {forged, 32}}};
    fleet_forget_sent(f);
    fleet_say(f, 20, &end);
    const kiln_message *told = fleet_take(f, OWNER, KILN_MSG_JOB_DONE);
    assert_non_null(told);
    return told->job_done.trusted;
}

static void expect_halves(kiln_str bytes, const char *first, const char *second) {
    const char *want[] = {first, second};
    uint32_t count = 0;
    for (; count < 2 && want[count]; count++) {
        kiln_sign_public half;
        assert_true(kiln_sign_public_parse(kiln_str_from(want[count]), &half));
        assert_true(bytes.size >= (count + 1) * sizeof half);
        assert_memory_equal(bytes.data + count * sizeof half, &half, sizeof half);
    }
    assert_int_equal(bytes.size, count * sizeof(kiln_sign_public));
}

static void jobs_of_a_project_are_told_whom_it_trusts(void **state) {
    fleet *f = *state;
    make_projects(f);
    assert_int_equal(trust(f, ANN, "p", HALF, true), KILN_OK);
    assert_int_equal(trust(f, ANN, "p", OTHER, true), KILN_OK);
    assert_int_equal(trust(f, ANN, "p", HALF, true), KILN_OK); /* again: nothing changes */
    const kiln_msg_project_row *row = show(f, VIC, "p");
    assert_int_equal(row->signers.count, 2);
    assert_true(kiln_str_is(row->signers.item[0].signer, HALF));
    assert_true(kiln_str_is(row->signers.item[0].by, "ann"));
    assert_int_equal(row->signers.item[0].node.size, 0);
    assert_false(row->signers.item[0].ended);
    expect_halves(assigned(f, "j", "p"), HALF, OTHER);
    expect_halves(assigned(f, "k", "q"), NULL, NULL);
    expect_halves(done(f, "k"), NULL, NULL);
    fleet_say(f, OWNER,
              &(kiln_message){.type = KILN_MSG_QUERY,
                              .query = {.topic = KILN_TOPIC_JOB, .id = KILN_STR("j")}});
    expect_halves(fleet_take(f, OWNER, KILN_MSG_ANSWER)->answer.jobs.item[0].trusted, HALF, OTHER);
    assert_int_equal(trust(f, ANN, "p", HALF, false), KILN_OK);
    expect_halves(done(f, "j"), OTHER, NULL);
}

/* What it measured may be signed by each. */
static void a_job_that_ended_names_the_signers_of_all_its_tuners(void **state) {
    fleet *f = *state;
    kiln_sign_public half[2];
    assert_true(kiln_sign_public_parse(KILN_STR(HALF), &half[0]));
    assert_true(kiln_sign_public_parse(KILN_STR(OTHER), &half[1]));
    f->signer = (kiln_str){(const char *)&half[0], sizeof half[0]};
    fleet_running_job(f);
    fleet_disconnect(f, 20);
    f->signer = (kiln_str){(const char *)&half[1], sizeof half[1]};
    fleet_tuner(f, 20, "tuner", "tuner-2");
    fleet_say(f, 20,
              &(kiln_message){.type = KILN_MSG_JOB_DONE, .job_done = {.job = KILN_STR("j")}});
    expect_halves(fleet_take(f, 30, KILN_MSG_JOB_DONE)->job_done.signers, HALF, OTHER);
}

static void who_manages_a_project_says_it_and_nobody_else(void **state) {
    fleet *f = *state;
    make_projects(f);
    assert_int_equal(trust(f, VIC, "p", HALF, true), KILN_PERMISSION_DENIED);
    assert_int_equal(trust(f, BOB, "p", HALF, true), KILN_PERMISSION_DENIED);
    /* Of a tracker that lets in anybody: an administrator by its own word. */
    assert_int_equal(trust(f, STRANGER, "p", HALF, true), KILN_PERMISSION_DENIED);
    assert_int_equal(trust(f, ANN, "default", HALF, true), KILN_PERMISSION_DENIED);
    assert_int_equal(show(f, ANN, "p")->signers.count, 0);
    assert_int_equal(trust(f, ANN, "p", HALF, true), KILN_OK);
    assert_int_equal(trust(f, VIC, "p", HALF, false), KILN_PERMISSION_DENIED);
    assert_int_equal(trust(f, BOB, "p", HALF, false), KILN_PERMISSION_DENIED);
    assert_int_equal(show(f, ANN, "p")->signers.count, 1);
    assert_int_equal(trust(f, OWNER, "default", HALF, true), KILN_OK);
    expect_halves(assigned(f, "d", "default"), HALF, NULL);
}

static void it_outlives_the_tracker_and_goes_with_its_project(void **state) {
    fleet *f = *state;
    make_projects(f);
    assert_int_equal(trust(f, ANN, "p", HALF, true), KILN_OK);
    assert_int_equal(trust(f, ANN, "p", OTHER, true), KILN_OK);
    assert_int_equal(trust(f, ANN, "p", OTHER, false), KILN_OK);
    fleet_restart(f);
    connect_people(f);
    const kiln_msg_project_row *row = show(f, ANN, "p");
    assert_int_equal(row->signers.count, 1);
    assert_true(kiln_str_is(row->signers.item[0].by, "ann"));
    assert_true(row->signers.item[0].given_ms > 0);
    expect_halves(assigned(f, "j", "p"), HALF, NULL);
    (void)done(f, "j");
    assert_int_equal(
        order(f, OWNER,
              (kiln_msg_project_order){.project = KILN_STR("p"), .act = KILN_PROJECT_DROP}),
        KILN_OK);
    for (uint32_t i = 0; i < f->rows.count; i++)
        assert_int_not_equal(f->rows.data[i].kind, KILN_TRACKER_ROW_SIGNER);
    assert_int_equal(
        order(f, OWNER,
              (kiln_msg_project_order){.project = KILN_STR("p"), .act = KILN_PROJECT_NEW}),
        KILN_OK);
    assert_int_equal(show(f, OWNER, "p")->signers.count, 0);
}

static void a_node_counts_while_its_key_is_in_force(void **state) {
    fleet *f = *state;
    key_list list = {.key = {.node = "tuner/bench"}};
    assert_true(kiln_sign_public_parse(KILN_STR(HALF), &list.key.half));
    kiln_tracker_know_keys(f->t, find_key, &list);
    make_projects(f);
    assert_int_equal(trust(f, ANN, "p", "tuner/none", true), KILN_NOT_FOUND);
    assert_int_equal(trust(f, ANN, "p", "tuner/bench", true), KILN_OK);
    assert_int_equal(trust(f, BOB, "q", HALF, true), KILN_OK); /* the same, by its half */
    assert_true(kiln_str_is(show(f, BOB, "q")->signers.item[0].node, "tuner/bench"));
    expect_halves(assigned(f, "j", "p"), HALF, NULL);
    list.gone = true;
    assert_true(show(f, BOB, "q")->signers.item[0].ended);
    expect_halves(done(f, "j"), NULL, NULL);
    expect_halves(assigned(f, "k", "q"), NULL, NULL);
    /* Its seed was rotated: the next one counts beside it. */
    list.gone = false;
    list.before = list.key.half;
    assert_true(kiln_sign_public_parse(KILN_STR(OTHER), &list.key.half));
    expect_halves(done(f, "k"), HALF, OTHER);
    expect_halves(assigned(f, "l", "p"), HALF, OTHER);
    /* A new key of that name is another signer. */
    memset(&list.before, 0, sizeof list.before);
    expect_halves(done(f, "l"), NULL, NULL);
    list.gone = true;
    assert_int_equal(trust(f, ANN, "p", "tuner/bench", false), KILN_OK);
    assert_int_equal(trust(f, BOB, "q", HALF, false), KILN_OK);
    assert_int_equal(show(f, ANN, "p")->signers.count, 0);
}

static void a_signer_is_trusted_by_the_half_that_was_named(void **state) {
    fleet *f = *state;
    key_list list = {.key = {.node = "tuner/bench"}};
    assert_true(kiln_sign_public_parse(KILN_STR(OTHER), &list.key.half));
    assert_true(kiln_sign_public_parse(KILN_STR(HALF), &list.before));
    kiln_tracker_know_keys(f->t, find_key, &list);
    make_projects(f);
    assert_int_equal(trust(f, ANN, "p", HALF, true), KILN_OK);
    expect_str(show(f, ANN, "p")->signers.item[0].signer, HALF);
}

static void a_signer_that_was_named_by_its_node_is_so_after_a_restart(void **state) {
    fleet *f = *state;
    key_list list = {.key = {.node = "tuner/bench"}};
    assert_true(kiln_sign_public_parse(KILN_STR(HALF), &list.key.half));
    kiln_tracker_know_keys(f->t, find_key, &list);
    make_projects(f);
    assert_int_equal(trust(f, ANN, "p", "tuner/bench", true), KILN_OK);
    fleet_restart(f);
    kiln_tracker_know_keys(f->t, find_key, &list);
    connect_people(f);
    expect_str(show(f, ANN, "p")->signers.item[0].node, "tuner/bench");
}

static void there_are_bounds(void **state) {
    fleet *f = *state;
    char half[] = HALF;
    make_projects(f);
    assert_int_equal(trust(f, ANN, "p", "", true), KILN_NOT_FOUND);
    assert_int_equal(trust(f, ANN, "p", "unsigned", true), KILN_NOT_FOUND);
    assert_int_equal(trust(f, ANN, "p", HALF, false), KILN_NOT_FOUND);
    assert_int_equal(trust(f, OWNER, "nowhere", HALF, true), KILN_NOT_FOUND);
    kiln_msg_setting bound = {KILN_STR("signers"), 1};
    kiln_msg_project_order set = {
        .project = KILN_STR("p"), .act = KILN_PROJECT_SET, .settings = {&bound, 1}};
    assert_int_equal(order(f, ANN, set), KILN_PERMISSION_DENIED);
    assert_int_equal(order(f, OWNER, set), KILN_OK);
    assert_int_equal(trust(f, ANN, "p", HALF, true), KILN_OK);
    assert_int_equal(trust(f, ANN, "p", OTHER, true), KILN_RESOURCE_EXHAUSTED);
    for (uint32_t i = 0; i < KILN_MESSAGES_TRUSTED; i++) {
        half[0] = "0123456789abcdef"[i / 16];
        half[1] = "0123456789abcdef"[i % 16];
        assert_int_equal(trust(f, BOB, "q", half, true), KILN_OK);
    }
    assert_int_equal(trust(f, BOB, "q", OTHER, true), KILN_RESOURCE_EXHAUSTED);
    assert_int_equal(show(f, BOB, "q")->signers.count, KILN_MESSAGES_TRUSTED);
    assert_int_equal(assigned(f, "j", "q").size, KILN_MESSAGES_TRUSTED_BYTES);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_fleet(jobs_of_a_project_are_told_whom_it_trusts),
        test_with_fleet(a_job_that_ended_names_the_signers_of_all_its_tuners),
        test_with_fleet(who_manages_a_project_says_it_and_nobody_else),
        test_with_fleet(it_outlives_the_tracker_and_goes_with_its_project),
        test_with_fleet(a_node_counts_while_its_key_is_in_force),
        test_with_fleet(a_signer_is_trusted_by_the_half_that_was_named),
        test_with_fleet(a_signer_that_was_named_by_its_node_is_so_after_a_restart),
        test_with_fleet(there_are_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
