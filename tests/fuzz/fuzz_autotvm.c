/* Lines of AutoTVM's logs: what is taken has numbers that can be true. */
#include "base/check.h"
#include "cli/autotvm_log.h"
#include "tests/fuzz/fuzz.h"

int kiln_fuzz_one(const uint8_t *data, size_t size) {
    kiln_autotvm_line line;
    kiln_status st = kiln_autotvm_parse((kiln_str){(const char *)data, size}, &line);
    if (!st && line.use == KILN_AUTOTVM_TAKEN) {
        KILN_CHECK(line.cost_count > 0 && line.cost_count <= KILN_AUTOTVM_COSTS_MAX);
        for (uint32_t i = 0; i < line.cost_count; i++) KILN_CHECK(line.cost_ns[i] > 0);
        for (uint32_t i = 0; i < line.work.result_count; i++) KILN_CHECK(line.work.result[i] > 0);
        for (uint32_t i = 0; i < line.work.reduce_count; i++) KILN_CHECK(line.work.reduce[i] > 0);
        for (uint32_t i = 0; i < line.work.data_count; i++)
            KILN_CHECK(line.work.data[i].extent > 0 && line.work.data[i].slack > 0);
        KILN_CHECK(line.tile.rows >= 0 && line.tile.columns >= 0 && line.tile.lanes >= 0 &&
                   line.tile.steps >= 0);
    }
    kiln_status_free(st);
    return 0;
}
