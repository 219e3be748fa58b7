/* The real rpc-server killed at each of its points of failure (base/failpoints.def), given an error
 * there, without memory and with a full disk at any moment: a trial that is sent again, as a tuner
 * does, comes to its right end, and nothing stays behind. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/file.h"
#include "tests/unit/rpc-server/fleet.h"

#define SENT_MAX 6u /* times that one trial may have to be sent */

static fleet the_fleet;
static kiln_msg_blob_ref the_artefact, the_reference;
static uint32_t the_trial; /* its number */

static int set_up(void **state) {
    fleet *f = &the_fleet;
    fleet_set_up(f, NULL);
    fleet_open_job(f);
    the_artefact = fleet_upload_candidate(f, "honest");
    the_reference = fleet_upload_reference(f);
    f->revive = true;
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fleet_tear_down(*state);
    return 0;
}

/* Stops the server and starts one with an empty cache and this plan. */
static void restart_with(fleet *f, const char *plan) {
    kiln_child_destroy(&f->server);
    const char *blobs = kiln_arena_printf(&f->arena, "%s/server/blobs", f->folder);
    if (kiln_file_is_folder(blobs)) expect_ok(kiln_folder_remove(blobs));
    f->deaths = 0;
    fleet_start_server(f, plan);
}

static void release(fleet *f) {
    kiln_message release = {.type = KILN_MSG_LEASE_RELEASE, .lease_release = {.lease = f->lease}};
    expect_ok(kiln_conn_send(f->tuner, &release));
}

/* Sends a new trial until it ends well. */
static void measure_in_the_end(fleet *f, const char *plan) {
    the_trial++;
    for (uint32_t attempt = 1; attempt <= SENT_MAX; attempt++) {
        char id[32];
        snprintf(id, sizeof id, "%u", the_trial);
        fleet_lease(f, 16);
        const kiln_msg_trial trial = fleet_trial(f, id, attempt, &the_artefact, &the_reference);
        fleet_send_trial(f, &trial);
        const kiln_msg_trial_result *result = fleet_await_result(f, id, attempt);
        if (!result) continue; /* with its board */
        bool ok = result->outcome == KILN_OUTCOME_OK;
        if (!ok && result->blame == KILN_BLAME_CANDIDATE)
            fail_msg("%s: the candidate is blamed: %.*s", plan, KILN_STR_ARG(result->text));
        fleet_acknowledge(f, result);
        /* A lease that is kept shows that the acknowledgement came; then what was armed for it. */
        fleet_renew(f);
        fleet_wait_for(f, KILN_MSG_LEASE_RENEW);
        release(f);
        if (ok) return;
    }
    fail_msg("%s: not measured in %u attempts", plan, SENT_MAX);
}

/* Waits until it has ended as by kill -9, soon: what comes after an acknowledgement is not awaited.
 */
static bool was_killed(fleet *f) {
    const uint64_t end_ns = kiln_clock_ns() + 120 * KILN_NS_PER_S;
    while (f->deaths == 0 && kiln_clock_ns() < end_ns) {
        fleet_turn(f);
        if (kiln_child_ended(&f->server, &f->death)) {
            f->deaths++;
            fleet_start_server(f, NULL);
        }
    }
    return f->deaths == 1 && f->death.signal == SIGKILL;
}

static void killed_at_each_point_nothing_is_lost(void **state) {
    fleet *f = *state;
    for (int i = 0; i < KILN_FAILPOINT_COUNT; i++) {
        const kiln_failpoint_info *info = kiln_failpoint_info_of((kiln_failpoint)i);
        const bool shared =
            strcmp(info->program, "any") == 0 && strncmp(info->name, "BLOB_", 5) == 0;
        if (strcmp(info->program, "kiln-rpc-server") != 0 && !shared) continue;
        restart_with(f, info->name);
        measure_in_the_end(f, info->name);
        if (!was_killed(f)) fail_msg("%s was not passed", info->name);
        measure_in_the_end(f, info->name); /* and it goes on */
    }
}

static void an_error_at_each_point_is_the_boards_and_passes(void **state) {
    fleet *f = *state;
    for (int i = 0; i < KILN_FAILPOINT_COUNT; i++) {
        const kiln_failpoint_info *info = kiln_failpoint_info_of((kiln_failpoint)i);
        if (strcmp(info->program, "kiln-rpc-server") != 0 || info->effect != KILN_FAIL_EFFECT_ERROR)
            continue;
        const char *plan = kiln_arena_printf(&f->arena, "%s=error", info->name);
        restart_with(f, plan);
        measure_in_the_end(f, plan);
        if (f->deaths > 0 && f->death.signal)
            fail_msg("%s: signal %d instead of an error", plan, f->death.signal);
    }
}

static void a_full_disk_at_any_operation_passes(void **state) {
    fleet *f = *state;
    for (uint32_t nth = 1; nth <= 40; nth += nth < 8 ? 1 : 4) {
        const char *plan = kiln_arena_printf(&f->arena, "io:%u", nth);
        restart_with(f, plan);
        measure_in_the_end(f, plan);
        if (f->deaths > 0 && f->death.signal)
            fail_msg("%s: signal %d instead of an error", plan, f->death.signal);
    }
}

static void without_memory_it_ends_in_order_and_loses_nothing(void **state) {
    fleet *f = *state;
    for (uint32_t nth = 1; nth <= 3000; nth += 1 + nth / 2) {
        const char *plan = kiln_arena_printf(&f->arena, "alloc:%u", nth);
        restart_with(f, plan);
        measure_in_the_end(f, plan);
        if (f->deaths > 0 && f->death.code != 16)
            fail_msg("%s: exit code %d, signal %d", plan, f->death.code, f->death.signal);
    }
}

int main(int argc, char **argv) {
    fleet_take_arguments(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(killed_at_each_point_nothing_is_lost, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_error_at_each_point_is_the_boards_and_passes, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_full_disk_at_any_operation_passes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_memory_it_ends_in_order_and_loses_nothing, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests_name("rpc-server/failures", tests, NULL, NULL);
}
