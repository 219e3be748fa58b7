/* Two decisions for the test of ./dev mutate: test_decided.c checks one and leaves out the other.
 */
#ifndef KILN_TESTS_MUTATE_SELF_DECIDED_H
#define KILN_TESTS_MUTATE_SELF_DECIDED_H

#include <stdbool.h>
#include <stdint.h>

bool self_is_due(uint64_t now_ns, uint64_t due_ns);
bool self_is_full(uint32_t count, uint32_t most);

#endif
