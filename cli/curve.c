#include "cli/curve.h"

#include "base/macros.h"

#define LEVELS 8u

static const char *const block[LEVELS] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
static const char ascii[LEVELS + 1] = "__..--^^";

void kiln_curve_add(kiln_curve *curve, kiln_arena *arena, uint32_t trial, double best_ns) {
    curve->trial_count = KILN_MAX(curve->trial_count, trial);
    if (best_ns <= 0) return;
    if (curve->point.count) {
        kiln_curve_point *last = &kiln_vec_last(&curve->point);
        if (best_ns >= last->best_ns || trial < last->trial) return;
        if (trial == last->trial) {
            last->best_ns = best_ns;
            return;
        }
    }
    kiln_curve_point point = {trial, best_ns};
    kiln_vec_push_in(arena, &curve->point, point);
}

double kiln_curve_at(const kiln_curve *curve, uint32_t trial) {
    double best_ns = 0;
    for (uint32_t i = 0; i < curve->point.count && curve->point.data[i].trial <= trial; i++)
        best_ns = curve->point.data[i].best_ns;
    return best_ns;
}

/* Levels are even in speed, since 1 / time is what doubles when a kernel gets twice as fast. */
static uint32_t level_of(double ns, double slowest_ns, double fastest_ns) {
    double range = 1 / fastest_ns - 1 / slowest_ns;
    if (range <= 0) return 0;
    double level = (1 / ns - 1 / slowest_ns) / range * (LEVELS - 1);
    return level <= 0 ? 0 : KILN_MIN((uint32_t)(level + 0.5), LEVELS - 1);
}

void kiln_curve_draw(const kiln_curve *curve, double base_ns, uint32_t planned, uint32_t width,
                     bool utf8, kiln_strbuf *out) {
    uint32_t count = curve->point.count, span = KILN_MAX(planned, curve->trial_count);
    double slowest = count ? KILN_MAX(curve->point.data[0].best_ns, base_ns) : 0;
    double fastest = count ? curve->point.data[count - 1].best_ns : 0;
    for (uint32_t i = 0; i < width; i++) {
        uint32_t trial = (uint32_t)(((uint64_t)span * (i + 1) + width - 1) / width);
        double ns = kiln_curve_at(curve, trial);
        if (trial > curve->trial_count || span == 0) {
            kiln_strbuf_text(out, utf8 ? "·" : " ");
        } else if (ns <= 0) {
            kiln_strbuf_char(out, ' ');
        } else {
            uint32_t level = level_of(ns, slowest, fastest);
            if (utf8)
                kiln_strbuf_text(out, block[level]);
            else
                kiln_strbuf_char(out, ascii[level]);
        }
    }
}
