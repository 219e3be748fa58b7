#include "base/thread_work.h"

#include <pthread.h>

#include "base/hash.h"
#include "tests/support/test.h"

static void *hash_some(void *bytes) {
    kiln_digest digest;
    kiln_digest_of(bytes, 100, &digest);
    assert_int_equal(kiln_thread_work_here()->hashed_bytes, 100);
    return NULL;
}

static void each_thread_counts_its_own(void **state) {
    (void)state;
    char bytes[100] = {0};
    kiln_digest digest;
    pthread_t other;
    const uint64_t before = kiln_thread_work_here()->hashed_bytes;
    kiln_digest_of(bytes, 7, &digest);
    assert_int_equal(kiln_thread_work_here()->hashed_bytes - before, 7);
    assert_int_equal(pthread_create(&other, NULL, hash_some, bytes), 0);
    assert_int_equal(pthread_join(other, NULL), 0);
    assert_int_equal(kiln_thread_work_here()->hashed_bytes - before, 7);
}

static void every_counter_has_a_difference_and_a_maximum(void **state) {
    (void)state;
    const kiln_thread_work before = *kiln_thread_work_here();
    *kiln_thread_work_here() =
        (kiln_thread_work){before.hashed_bytes + 1, before.compressed_bytes + 2, before.rows + 3,
                           before.processes + 4};
    const kiln_thread_work work = kiln_thread_work_since(&before), wanted = {1, 2, 3, 4};
    assert_memory_equal(&work, &wanted, sizeof work);
    kiln_thread_work most = {5, 1, 5, 1};
    const kiln_thread_work larger = {5, 2, 5, 4};
    kiln_thread_work_max(&most, &work);
    assert_memory_equal(&most, &larger, sizeof most);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_thread_counts_its_own),
        cmocka_unit_test(every_counter_has_a_difference_and_a_maximum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
