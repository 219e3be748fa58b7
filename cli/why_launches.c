#include "base/macros.h"
#include "cli/why.h"

static uint64_t product_of(const uint32_t size[3]) { return (uint64_t)size[0] * size[1] * size[2]; }

static const char *plural(double count) { return count == 1 ? "" : "s"; }

static void print_launch(const kiln_launch *l, const kiln_target *target, kiln_strbuf *out) {
    const uint64_t blocks = product_of(l->grid_size), threads = product_of(l->group_size);
    const uint32_t units = KILN_MAX(target->cores, 1);
    const double waves = (double)blocks / units;
    kiln_strbuf_printf(out,
                       "  %llu block%s of %llu thread%s, %.4g KB shared; %u barrier%s a block\n"
                       "    %.3g wave%s on %u unit%s\n",
                       (unsigned long long)blocks, plural((double)blocks),
                       (unsigned long long)threads, plural((double)threads),
                       (double)l->shared_bytes / 1e3, l->barrier_count, plural(l->barrier_count),
                       waves, plural(waves), units, plural(units));
}

void kiln_why_launches(const kiln_program *scheduled, const kiln_target *target, kiln_arena *arena,
                       kiln_strbuf *out) {
    const kiln_feature_set *features = kiln_features_of(target);
    kiln_lowered lowered = {0};
    if (features->describe) {
        features->describe(scheduled, target, arena, out);
        return;
    }
    kiln_status st = kiln_lower(scheduled, target, arena, &lowered);
    for (uint32_t i = 0; !st && i < lowered.run_launches.count; i++)
        print_launch(&lowered.run_launches.launch[i], target, out);
    if (!st && lowered.has_launches && lowered.registers)
        kiln_strbuf_printf(out, "    %u register%s of the target at once\n", lowered.registers,
                           plural(lowered.registers));
    kiln_status_free(st); /* it was lowered when it was built; another version may refuse it */
}
