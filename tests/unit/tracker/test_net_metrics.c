#include "tracker/net_metrics.h"

#include "tests/support/test.h"

static void every_count_has_its_line(void **state) {
    (void)state;
    kiln_net_stats stats = {.strangers = 90, .known = 91};
    kiln_strbuf out = {0};
    uint64_t value = 0;
#define X(name, doc) stats.name = ++value;
    KILN_NET_COUNTS(X)
#undef X
    kiln_tracker_print_net_metrics(&stats, &out);
#define X(name, doc)                                                                              \
    expect_contains(out.data, "# HELP kiln_net_" #name "_total " doc "\n");                       \
    expect_contains(out.data, "# TYPE kiln_net_" #name "_total counter\nkiln_net_" #name "_total" \
                              " ");
    KILN_NET_COUNTS(X)
#undef X
    expect_contains(out.data, "\nkiln_net_accepted_total 1\n");
    expect_contains(out.data, "\nkiln_net_accept_errors_total 7\n");
    expect_contains(out.data, "\nkiln_net_strangers 90\n");
    expect_contains(out.data, "\nkiln_net_known 91\n");
    kiln_strbuf_deinit(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_count_has_its_line)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
