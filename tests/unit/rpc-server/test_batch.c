/* The real rpc-server and a folder of planted candidates: OBJECTS RPC-SERVER. */
#include "rpc-server/batch_plan.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/proc.h"
#include "tests/unit/rpc-server/candidates.h"

static const char *the_objects, *the_server;

typedef struct fixture {
    kiln_arena arena;
    char *home, *folder;
    kiln_strbuf trials, records;
    uint32_t count;
} fixture;

static int set_up(void **state) {
    static fixture the_fixture;
    fixture *f = &the_fixture;
    *f = (fixture){0};
    kiln_arena_init(&f->arena, 0);
    expect_ok(kiln_folder_create_temp("kiln-batch-test", &f->arena, &f->home));
    f->folder = kiln_arena_printf(&f->arena, "%s/batch", f->home);
    expect_ok(kiln_folder_create(kiln_arena_printf(&f->arena, "%s/blobs", f->folder), 0755));
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    expect_ok(kiln_folder_remove(f->home));
    kiln_strbuf_deinit(&f->trials);
    kiln_strbuf_deinit(&f->records);
    kiln_arena_deinit(&f->arena);
    return 0;
}

static kiln_msg_blob_ref put_blob(fixture *f, kiln_strbuf *bytes) {
    kiln_msg_blob_ref ref = {.size = bytes->size};
    char name[KILN_DIGEST_TEXT];
    kiln_digest_of(bytes->data, bytes->size, &ref.digest);
    kiln_digest_print(&ref.digest, name);
    expect_ok(kiln_file_write(kiln_arena_printf(&f->arena, "%s/blobs/%s", f->folder, name),
                              kiln_strbuf_view(bytes), 0644));
    kiln_strbuf_deinit(bytes);
    return ref;
}

static void add(fixture *f, const char *fault) {
    kiln_strbuf artefact = {0}, reference = {0};
    candidate_artefact(the_objects, fault, CANDIDATE_FLOPS, &artefact);
    candidate_reference(CANDIDATE_ELEMENTS, &reference);
    const char *id = kiln_arena_printf(&f->arena, "a%u", f->count++);
    const kiln_msg_trial trial = {.trial = kiln_str_from(id),
                                  .attempt = 1,
                                  .lease = 1,
                                  .job = KILN_STR("job"),
                                  .artefact = put_blob(f, &artefact),
                                  .reference = put_blob(f, &reference),
                                  .seed = CANDIDATE_SEED,
                                  .policy = {.samples_min = 5,
                                             .samples_max = 20,
                                             .interval = 0.01,
                                             .sample_ns = 100000,
                                             .total_ns = 10000000}};
    expect_ok(kiln_frame_write_message(&f->trials,
                                       &(kiln_message){.type = KILN_MSG_TRIAL, .trial = trial}));
    kiln_strbuf_printf(&f->records, KILN_BATCH_LINE_BEGINS "%s\",\"fault\":\"%s\"}\n", id, fault);
}

static void write_part(const fixture *f, const char *name, kiln_str content) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", f->folder, name);
    expect_ok(kiln_file_write(path, content, 0644));
}

static void end_folder(fixture *f, kiln_str target) {
    kiln_strbuf frames = {0};
    expect_ok(
        kiln_frame_write_message(&frames, &(kiln_message){.type = KILN_MSG_LEASE_REQ,
                                                          .lease_req = {.request = 1,
                                                                        .job = KILN_STR("job"),
                                                                        .target = target,
                                                                        .trials = f->count}}));
    kiln_strbuf_str(&frames, kiln_strbuf_view(&f->trials));
    write_part(f, "trials", kiln_strbuf_view(&frames));
    write_part(f, "records.jsonl", kiln_strbuf_view(&f->records));
    write_part(f, "rows.jsonl", KILN_STR("{\"table\":\"job\"}\n"));
    kiln_strbuf_deinit(&frames);
}

static kiln_proc_result measure(fixture *f) {
    const char *state = kiln_arena_printf(&f->arena, "%s/state", f->home);
    const char *const argv[] = {the_server, "--batch",     f->folder, "--state",
                                state,      "--calibrate", "never",   NULL};
    kiln_proc_result done;
    expect_ok(
        kiln_proc_run(&(kiln_proc_options){.argv = argv, .output_max = 65536}, &f->arena, &done));
    return done;
}

static kiln_str results_of(fixture *f) {
    kiln_str text = {0};
    expect_ok(kiln_file_read(kiln_arena_printf(&f->arena, "%s/results.jsonl", f->folder), 1 << 20,
                             &f->arena, &text));
    return text;
}

/* How often a piece of text is there. */
static uint32_t count_of(kiln_str text, const char *piece) {
    uint32_t count = 0;
    for (const char *at = text.data; (at = strstr(at, piece)); at++) count++;
    return count;
}

static void a_hostile_candidate_is_blamed_and_the_next_goes_on(void **state) {
    fixture *f = *state;
    add(f, "honest");
    add(f, "reads_nothing");
    add(f, "honest");
    end_folder(f, candidate_target(&f->arena));
    kiln_proc_result done = measure(f);
    if (done.exit_code != 0) fail_msg("%s", done.err.data);
    kiln_str text = results_of(f);
    assert_int_equal(count_of(text, KILN_BATCH_LINE_BEGINS), 3);
    assert_int_equal(count_of(text, "\"fault\":\"honest\",\"device_id\""), 2);
    assert_int_equal(count_of(text, "\"outcome\":\"ok\",\"blame\":\"none\""), 2);
    assert_int_equal(count_of(text, "\"outcome\":\"crash\",\"blame\":\"candidate\""), 1);
    assert_int_equal(count_of(text, "\"table\":\"job\""), 1);

    /* A half line is dropped and measured again, the rest is kept. */
    write_part(f, "results.jsonl", kiln_str_slice(text, 0, text.size - 20));
    done = measure(f);
    if (done.exit_code != 0) fail_msg("%s", done.err.data);
    text = results_of(f);
    assert_int_equal(count_of(text, KILN_BATCH_LINE_BEGINS), 3);
    assert_int_equal(count_of(text, "\"outcome\":\"ok\",\"blame\":\"none\""), 2);
    assert_int_equal(count_of(text, "\"outcome\":\"crash\",\"blame\":\"candidate\""), 1);
    measure(f);
    assert_int_equal(results_of(f).size, text.size);
}

static void damaged_blobs_end_the_run(void **state) {
    fixture *f = *state;
    char **name = NULL;
    size_t count = 0;
    add(f, "honest");
    end_folder(f, candidate_target(&f->arena));
    expect_ok(kiln_folder_list(kiln_arena_printf(&f->arena, "%s/blobs", f->folder), &f->arena,
                               &name, &count));
    write_part(f, kiln_arena_printf(&f->arena, "blobs/%s", name[0]), KILN_STR("else"));
    const kiln_proc_result done = measure(f);
    assert_int_equal(done.exit_code, kiln_code_exit(KILN_DATA_LOSS));
    assert_non_null(strstr(done.err.data, "is damaged"));
    assert_int_equal(count_of(results_of(f), KILN_BATCH_LINE_BEGINS), 0);
}

static void folders_for_other_targets_are_refused(void **state) {
    fixture *f = *state;
    add(f, "honest");
    end_folder(f, KILN_STR("cuda:sm_80"));
    const kiln_proc_result done = measure(f);
    assert_int_equal(done.exit_code, kiln_code_exit(KILN_FAILED_PRECONDITION));
    assert_non_null(strstr(done.err.data, "which this server does not offer"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    the_objects = argv[1];
    the_server = argv[2];
    const struct CMUnitTest tests[] = {
        TEST(a_hostile_candidate_is_blamed_and_the_next_goes_on),
        TEST(damaged_blobs_end_the_run),
        TEST(folders_for_other_targets_are_refused),
    };
    return cmocka_run_group_tests_name("rpc-server/batch", tests, NULL, NULL);
}
