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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_thread_counts_its_own)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
