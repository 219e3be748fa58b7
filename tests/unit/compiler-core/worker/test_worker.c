/* What a worker answers. This program is its own worker, the real one. */
#include "compiler-core/worker/worker.h"

#include <string.h>

#include "base/reference.h"
#include "compiler-core/worker/builder.h"
#include "tests/support/test.h"

#define PATIENCE (300 * UINT64_C(1000000000)) /* only what is broken reaches it */

static const char *own_path;

typedef struct fixture {
    kiln_loop *loop;
    kiln_arena *arena;
    kiln_reference reference;
} fixture;

static void on_done(void *context, const kiln_work_reply *reply, kiln_outcome outcome,
                    const char *text) {
    fixture *f = context;
    (void)outcome;
    if (!reply) fail_msg("%s", text);
    if (reply->code) fail_msg("%.*s", KILN_STR_ARG(reply->text));
    void *copy = kiln_arena_alloc_aligned(f->arena, 16, reply->bytes.size);
    memcpy(copy, reply->bytes.data, reply->bytes.size);
    expect_ok(kiln_reference_decode((kiln_str){copy, reply->bytes.size}, &f->reference));
    kiln_loop_stop(f->loop);
}

/* The reference of a program, made by a worker process. */
static kiln_reference reference_of(kiln_arena *arena, const char *te) {
    fixture f = {.arena = arena};
    const kiln_builders_options options = {.program = own_path, .worker_count = 1};
    const kiln_work_request request = {.work = KILN_WORK_REFERENCE,
                                       .task_key = KILN_STR("v2:0"),
                                       .te = kiln_str_from(te),
                                       .seed = 7};
    expect_ok(kiln_loop_create(&f.loop));
    kiln_builders *pool = kiln_builders_create(f.loop, &options);
    kiln_builders_submit(pool, &request, false, PATIENCE, on_done, &f);
    kiln_loop_run(f.loop);
    kiln_builders_destroy(pool);
    kiln_loop_destroy(f.loop);
    return f.reference;
}

/* Sums of weights, as zero points of bytes take them off, are made once; their buffer belongs to
 * the kernel. The first program subtracts the same sums without a buffer for them. */
static void references_may_prepare_what_depends_on_constants_alone(void **state) {
    static const char together[] =
        "program product\n"
        "input x: i8[5,8]\n"
        "constant w: i8[6,8]\n"
        "output y: i32[5,6]\n"
        "block product(m:5, n:6 | k:8): y[m, n] sum= i32(x[m, k])*i32(w[n, k]) - "
        "i32(w[n, k])*3i32 init 0i32\n";
    static const char prepared[] =
        "program product\n"
        "input x: i8[5,8]\n"
        "constant w: i8[6,8]\n"
        "output y: i32[5,6]\n"
        "temp s: i32[6]\n"
        "temp t: i32[5,6]\n"
        "block weights(n:6 | k:8): s[n] sum= i32(w[n, k]) init 0i32\n"
        "block product(m:5, n:6 | k:8): t[m, n] sum= i32(x[m, k])*i32(w[n, k]) init "
        "0i32\n"
        "block zero(m:5, n:6): y[m, n] = t[m, n] - s[n]*3i32\n";
    kiln_reference wanted = reference_of(*state, together), got = reference_of(*state, prepared);
    assert_int_equal(wanted.output_count, 1);
    assert_int_equal(got.output_count, 1);
    assert_memory_equal(got.output[0].value, wanted.output[0].value, 5 * 6 * sizeof(int32_t));
}

int main(int argc, char **argv) {
    own_path = argv[0];
    if (kiln_worker_is_asked(argc, argv)) return kiln_worker_main(argc, argv);
    const struct CMUnitTest tests[] = {
        test_with_arena(references_may_prepare_what_depends_on_constants_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
