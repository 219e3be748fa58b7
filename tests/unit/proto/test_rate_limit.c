#include "proto/net/rate_limit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "tests/support/test.h"

static uint64_t key_of(const kiln_rate_limit *limit, const char *text) {
    struct sockaddr_storage address = {0};
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)strlen(text))};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)strlen(text))};
    if (strchr(text, ':')) {
        assert_int_equal(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
        memcpy(&address, &v6, sizeof v6);
    } else {
        assert_int_equal(inet_pton(AF_INET, text, &v4.sin_addr), 1);
        memcpy(&address, &v4, sizeof v4);
    }
    return kiln_rate_limit_key(limit, &address);
}

static uint32_t enter_many(kiln_rate_limit *limit, uint64_t key, uint32_t count, uint64_t now_ns) {
    uint32_t entered = 0;
    for (uint32_t i = 0; i < count; i++) entered += kiln_rate_limit_enter(limit, key, now_ns);
    return entered;
}

static void a_host_has_one_key_whatever_its_port(void **state) {
    (void)state;
    static const struct {
        const char *a, *b;
        bool same;
    } row[] = {
        {"192.0.2.1", "192.0.2.1", true},          {"192.0.2.1", "192.0.2.2", false},
        {"192.0.2.1", "::ffff:192.0.2.1", true},   {"2001:db8::1", "2001:db8::2:3:4", true},
        {"2001:db8::1", "2001:db8:0:1::1", false}, {"::1", "127.0.0.1", false},
    };
    kiln_rate_limit *limit = kiln_rate_limit_create(7, 8, KILN_RATE_LIMIT_RATE);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++)
        assert_int_equal(key_of(limit, row[i].a) == key_of(limit, row[i].b), row[i].same);
    kiln_rate_limit_destroy(limit);
}

static void who_spends_all_waits_for_more_and_nobody_else_does(void **state) {
    (void)state;
    kiln_rate_limit *limit = kiln_rate_limit_create(7, 100, KILN_RATE_LIMIT_RATE);
    uint64_t loud = key_of(limit, "192.0.2.1"), other = key_of(limit, "192.0.2.2");
    assert_int_equal(enter_many(limit, loud, 1000, 5), 100);
    assert_int_equal(enter_many(limit, other, 60, 5), 60);
    assert_int_equal(enter_many(limit, loud, 1000, 5 + KILN_NS_PER_S / 2),
                     (uint32_t)KILN_RATE_LIMIT_RATE / 2);
    assert_int_equal(enter_many(limit, loud, 1000, 5 + 3600 * KILN_NS_PER_S), 100);
    kiln_rate_limit_destroy(limit);
}

static void who_is_let_in_spends_nothing(void **state) {
    (void)state;
    kiln_rate_limit *limit = kiln_rate_limit_create(7, 10, KILN_RATE_LIMIT_RATE);
    uint64_t fleet = key_of(limit, "192.0.2.1");
    assert_false(kiln_rate_limit_knows(limit, fleet));
    for (uint32_t i = 0; i < 1000; i++) {
        assert_true(kiln_rate_limit_enter(limit, fleet, 9));
        kiln_rate_limit_pass(limit, fleet, 9);
    }
    assert_true(kiln_rate_limit_knows(limit, fleet));
    assert_int_equal(enter_many(limit, fleet, 1000, 9), 10); /* and gained nothing */
    kiln_rate_limit_destroy(limit);
}

/* More addresses than places: those that were let in, and those that spent most, are remembered. */
static void a_crowd_of_addresses_does_not_make_the_known_and_the_loud_forgotten(void **state) {
    (void)state;
    kiln_rate_limit *limit = kiln_rate_limit_create(7, 10, KILN_RATE_LIMIT_RATE);
    uint64_t known = key_of(limit, "192.0.2.1"), loud = key_of(limit, "192.0.2.2");
    kiln_rate_limit_enter(limit, known, 9);
    kiln_rate_limit_pass(limit, known, 9);
    enter_many(limit, loud, 10, 9);
    for (uint32_t i = 0; i < 20 * KILN_RATE_LIMIT_SETS * KILN_RATE_LIMIT_WAYS; i++) {
        struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000000 + i)};
        struct sockaddr_storage address = {0};
        memcpy(&address, &v4, sizeof v4);
        assert_true(kiln_rate_limit_enter(limit, kiln_rate_limit_key(limit, &address), 9));
    }
    assert_true(kiln_rate_limit_knows(limit, known));
    assert_false(kiln_rate_limit_enter(limit, loud, 9));
    kiln_rate_limit_destroy(limit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_host_has_one_key_whatever_its_port),
        cmocka_unit_test(who_spends_all_waits_for_more_and_nobody_else_does),
        cmocka_unit_test(who_is_let_in_spends_nothing),
        cmocka_unit_test(a_crowd_of_addresses_does_not_make_the_known_and_the_loud_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
