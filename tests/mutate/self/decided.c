#include "tests/mutate/self/decided.h"

bool self_is_due(uint64_t now_ns, uint64_t due_ns) { return now_ns >= due_ns; }

bool self_is_full(uint32_t count, uint32_t most) { return count >= most; }
