#include "cli/plot.h"

#include <math.h>
#include <string.h>

#include "base/stats.h"
#include "cli/common/names.h"
#include "cli/svg.h"

#define DOTS_MAX 600u /* per figure; more would only be heavier */

static const char style[] =
    ":root{color-scheme:light dark;--bg:#fff;--fg:#1d2127;--dim:#5d6672;--grid:#e3e6ea;"
    "--best:#1769aa;--base:#b4541a;--dot:#9aa5b1;--bad:#b3261e;"
    "--search:#7a5cc4;--build:#c77d15;--board:#1769aa;--train:#2f8a4c}\n"
    "@media(prefers-color-scheme:dark){:root{--bg:#15181c;--fg:#e6e9ed;--dim:#9aa4b0;"
    "--grid:#2b3138;--best:#62b0f0;--base:#f0a060;--dot:#5b6672;--bad:#f2857d;"
    "--search:#a98cf0;--build:#e8a840;--board:#62b0f0;--train:#62c084}}\n"
    "body{background:var(--bg);color:var(--fg);font:15px/1.45 system-ui,sans-serif;"
    "max-width:70rem;margin:2rem auto;padding:0 1rem}\n"
    "h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2.2rem}p{color:var(--dim)}\n"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums}"
    "div.wide{overflow-x:auto}\n"
    "th,td{padding:.2rem .7rem;text-align:right;white-space:nowrap;"
    "border-bottom:1px solid var(--grid)}"
    "th{color:var(--dim);font-weight:500}.l{text-align:left}\n"
    "div.many{display:grid;grid-template-columns:repeat(auto-fill,minmax(20rem,1fr));gap:1rem}\n"
    "figure{margin:0}figcaption{font-size:.85rem}svg{width:100%;height:auto}\n"
    "text{fill:var(--fg);font-size:11px}text.tick,text.name{fill:var(--dim);font-size:10px}\n"
    "line.grid{stroke:var(--grid)}line.base,span.base{stroke:var(--base);stroke-dasharray:5 4;"
    "stroke-width:1.5}\n"
    "polyline.best{fill:none;stroke:var(--best);stroke-width:2}"
    "circle.trial{fill:var(--dot)}line.bad{stroke:var(--bad)}\n"
    "line.roof{stroke:var(--fg);stroke-width:1.5}line.cache{stroke:var(--dim);"
    "stroke-dasharray:3 3}\n"
    "circle.best{fill:var(--best)}circle.base{fill:var(--bg);stroke:var(--base);"
    "stroke-width:1.5}\n"
    ".search{fill:var(--search)}.build{fill:var(--build)}.board{fill:var(--board)}"
    ".train{fill:var(--train)}\n";

/* ---- pieces ---------------------------------------------------------------------------------- */

static void text(kiln_strbuf *out, const char *s) { kiln_xml_text(kiln_str_from(s), out); }

static void time_text(double ns, kiln_strbuf *out) {
    if (ns > 0)
        kiln_print_time(ns, out);
    else
        kiln_strbuf_char(out, '-');
}

static void begin_figure(double width, double height, const char *name, kiln_strbuf *out) {
    kiln_strbuf_printf(out,
                       "<figure><svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" "
                       "viewBox=\"0 0 %g %g\"><title>",
                       width, height);
    text(out, name);
    kiln_strbuf_text(out, "</title>");
}

/* What share of the peak `ns` makes of the task; 0: not known. */
static double share_of(const kiln_plot_task *t, double ns) {
    return ns > 0 && t->peak_flops > 0 ? t->flops / ns * 1e9 / t->peak_flops : 0;
}

/* ---- the table ------------------------------------------------------------------------------- */

static void print_row(const kiln_plot_task *t, uint32_t number, kiln_strbuf *out) {
    kiln_strbuf_printf(out, "<tr><td>%u</td><td class=\"l\">", number);
    text(out, t->label);
    kiln_strbuf_printf(out, "</td><td>%u</td><td>%u</td><td>%u</td><td>", t->trial_count,
                       t->failed_count, t->raced_count);
    time_text(t->default_ns, out);
    kiln_strbuf_text(out, "</td><td>");
    time_text(t->best_ns, out);
    kiln_strbuf_text(out, "</td><td>");
    if (t->best_ns > 0 && t->default_ns > 0)
        kiln_strbuf_printf(out, "%.2fx", t->default_ns / t->best_ns);
    kiln_strbuf_text(out, "</td><td>");
    if (t->best_ns > 0) kiln_strbuf_printf(out, "%.1f", t->flops / t->best_ns);
    kiln_strbuf_text(out, "</td><td>");
    if (share_of(t, t->best_ns) > 0)
        kiln_strbuf_printf(out, "%.0f %%", 100 * share_of(t, t->best_ns));
    kiln_strbuf_text(out, "</td><td class=\"l\">");
    kiln_xml_text(t->found_by, out);
    kiln_strbuf_text(out, "</td></tr>\n");
}

static void print_table(const kiln_plot *plot, kiln_strbuf *out) {
    kiln_str target = {0};
    for (uint32_t i = 0; i < plot->task_count; i++) {
        const kiln_plot_task *t = &plot->task[i];
        if (!kiln_str_equal(target, t->target) || i == 0) {
            kiln_strbuf_text(out, i ? "</table></div>\n<p>" : "<p>");
            kiln_xml_text(t->target, out);
            kiln_strbuf_text(out, "</p>\n<div class=\"wide\"><table><tr><th>#</th><th class=\"l\">"
                                  "task</th><th>trials</th><th>failed</th><th>stopped early</th>"
                                  "<th>default</th><th>best</th><th>gain</th><th>GFLOP/s</th>"
                                  "<th>of peak</th><th class=\"l\">found by</th></tr>\n");
            target = t->target;
        }
        print_row(t, i, out);
    }
    if (plot->task_count) kiln_strbuf_text(out, "</table></div>\n");
}

/* ---- convergence ----------------------------------------------------------------------------- */

static void print_dots(const kiln_plot_task *t, const kiln_axis *x, const kiln_axis *y,
                       kiln_strbuf *out) {
    uint32_t step = 1 + t->trial_count / DOTS_MAX;
    for (uint32_t i = 0; i < t->trial_count; i += step) {
        double at = kiln_axis_place(x, i + 1);
        if (t->trial[i].ns > 0)
            kiln_strbuf_printf(out, "<circle class=\"trial\" r=\"1.6\" cx=\"%.1f\" cy=\"%.1f\"/>",
                               at, kiln_axis_place(y, t->flops / t->trial[i].ns));
        else
            kiln_svg_line("bad", at, y->from, at, y->from - 5, out);
    }
}

/* A staircase: the best stays until a faster one comes. It ends at the best of the table: the final
 * measures anew what was fastest, and the luckiest trial is slower then. */
static void print_staircase(const kiln_plot_task *t, const kiln_axis *x, const kiln_axis *y,
                            kiln_strbuf *out) {
    kiln_strbuf_text(out, "<polyline class=\"best\" points=\"");
    double level = 0;
    for (uint32_t i = 0; i < t->curve.point.count; i++) {
        const kiln_curve_point *p = &t->curve.point.data[i];
        double at = kiln_axis_place(x, p->trial);
        if (i) kiln_strbuf_printf(out, "%.1f,%.1f ", at, level);
        level = kiln_axis_place(y, t->flops / p->best_ns);
        kiln_strbuf_printf(out, "%.1f,%.1f ", at, level);
    }
    if (t->curve.point.count) kiln_strbuf_printf(out, "%.1f,%.1f", x->to, level);
    if (t->best_ns > 0) {
        level = kiln_axis_place(y, t->flops / t->best_ns);
        kiln_strbuf_printf(out, " %.1f,%.1f\"/>", x->to, level);
        kiln_strbuf_printf(out,
                           "<circle class=\"best\" r=\"3\" cx=\"%.1f\" cy=\"%.1f\"><title>best: "
                           "%.1f GFLOP/s</title></circle>",
                           x->to, level, t->flops / t->best_ns);
    } else {
        kiln_strbuf_text(out, "\"/>");
    }
}

static void print_convergence(const kiln_plot_task *t, uint32_t number, kiln_strbuf *out) {
    double fastest = t->default_ns;
    uint32_t count = t->curve.point.count;
    if (count && (fastest <= 0 || t->curve.point.data[count - 1].best_ns < fastest))
        fastest = t->curve.point.data[count - 1].best_ns;
    if (t->best_ns > 0 && (fastest <= 0 || t->best_ns < fastest)) fastest = t->best_ns;
    if (fastest <= 0 || t->flops <= 0) return; /* nothing ran, or it only moves data */
    const kiln_axis x = {1, KILN_MAX(t->trial_count, 2), 46, 330, false};
    const kiln_axis y = {0, t->flops / fastest * 1.05, 176, 20, false};
    begin_figure(340, 210, t->label, out);
    kiln_svg_axes(&x, "trials", &y, "GFLOP/s", out);
    print_dots(t, &x, &y, out);
    if (t->default_ns > 0) {
        double at = kiln_axis_place(&y, t->flops / t->default_ns);
        kiln_svg_line("base", x.from, at, x.to, at, out);
    }
    print_staircase(t, &x, &y, out);
    kiln_strbuf_printf(out, "</svg><figcaption>%u ", number);
    text(out, t->label);
    kiln_strbuf_text(out, "</figcaption></figure>\n");
}

/* ---- roofline -------------------------------------------------------------------------------- */

static double power_of_ten(double value, bool above) {
    double power = 1;
    while (power > value) power /= 10;
    while (power * 10 <= value) power *= 10;
    return above && power < value ? power * 10 : power;
}

static void include(double value, double *low, double *high) {
    if (!isfinite(value) || value <= 0) return;
    *low = *low > 0 ? KILN_MIN(*low, value) : value;
    *high = KILN_MAX(*high, value);
}

/* Axes of whole decades around every point and the peak. */
static bool roofline_axes(const kiln_plot *plot, double peak, kiln_axis *x, kiln_axis *y) {
    double x_low = 0, x_high = 0, y_low = peak / 1e9, y_high = peak / 1e9;
    for (uint32_t i = 0; i < plot->task_count; i++) {
        const kiln_plot_task *t = &plot->task[i];
        if (t->flops <= 0 || t->bytes <= 0 || t->best_ns <= 0) continue;
        include(t->flops / t->bytes, &x_low, &x_high);
        include(t->flops / t->best_ns, &y_low, &y_high);
        if (t->default_ns > 0) include(t->flops / t->default_ns, &y_low, &y_high);
    }
    if (x_high <= 0 || peak <= 0) return false;
    /* The whole roof, also around a single point: both slopes up to the peak, and a decade below.
     */
    include(peak / plot->machine.memory_bytes, &x_low, &x_high);
    include(peak / plot->machine.cache_bytes, &x_low, &x_high);
    include(y_high / 100, &y_low, &y_high);
    *x =
        (kiln_axis){power_of_ten(x_low, false), power_of_ten(x_high, true) * 1.0001, 56, 680, true};
    *y = (kiln_axis){power_of_ten(y_low, false), power_of_ten(y_high * 1.2, true), 350, 20, true};
    if (x->high < x->low * 10) x->high = x->low * 10;
    return true;
}

/* The slope of a memory of `bytes` per second, as far as it lies in the figure and under the peak.
 */
static void print_slope(const char *class, const char *name, double bytes, double peak,
                        const kiln_axis *x, const kiln_axis *y, kiln_strbuf *out) {
    double slope = bytes / 1e9, top = peak / 1e9;
    double from = KILN_MAX(x->low, y->low / slope), to = KILN_MIN(x->high, top / slope);
    if (bytes <= 0 || from >= to) return;
    kiln_strbuf label = {0};
    kiln_strbuf_printf(&label, "%s %.0f GB/s", name, slope);
    double at = kiln_axis_place(x, from), level = kiln_axis_place(y, from * slope);
    kiln_svg_line(class, at, level, kiln_axis_place(x, to), kiln_axis_place(y, to * slope), out);
    kiln_svg_text("tick", "start", at + 6, KILN_MAX(level, y->to + 12), kiln_strbuf_view(&label),
                  out);
    kiln_strbuf_deinit(&label);
}

static void print_point(const kiln_plot_task *t, uint32_t number, const kiln_axis *x,
                        const kiln_axis *y, kiln_strbuf *out) {
    if (t->flops <= 0 || t->bytes <= 0 || t->best_ns <= 0) return;
    double at = kiln_axis_place(x, t->flops / t->bytes);
    if (t->default_ns > 0)
        kiln_strbuf_printf(out, "<circle class=\"base\" r=\"3\" cx=\"%.1f\" cy=\"%.1f\"/>", at,
                           kiln_axis_place(y, t->flops / t->default_ns));
    double level = kiln_axis_place(y, t->flops / t->best_ns);
    kiln_strbuf_printf(out, "<circle class=\"best\" r=\"4\" cx=\"%.1f\" cy=\"%.1f\"><title>", at,
                       level);
    text(out, t->label);
    kiln_strbuf_printf(out, ": %.1f operations per byte, %.1f GFLOP/s", t->flops / t->bytes,
                       t->flops / t->best_ns);
    kiln_strbuf_text(out, "</title></circle>");
    kiln_strbuf name = {0};
    kiln_strbuf_printf(&name, "%u", number);
    kiln_svg_text("tick", "start", at + 6, level + 3.5, kiln_strbuf_view(&name), out);
    kiln_strbuf_deinit(&name);
}

static void print_roofline(const kiln_plot *plot, kiln_strbuf *out) {
    kiln_axis x, y;
    double peak = 0;
    for (uint32_t i = 0; i < plot->task_count; i++) peak = KILN_MAX(peak, plot->task[i].peak_flops);
    if (!roofline_axes(plot, peak, &x, &y)) return;
    const kiln_roofline *m = &plot->machine;
    kiln_strbuf_text(out,
                     "<h2>Roofline</h2>\n<p>What each kernel does (filled; its default hollow) "
                     "against what the machine can do: the peak of its multiply-adds, and what "
                     "memory can bring if every input, constant and output moves once.");
    kiln_strbuf_text(out,
                     m->memory_bytes > 0
                         ? " The slopes were measured on this machine, on one core, while this "
                           "page was made."
                         : " The memory of the machine that measured these is not known here.");
    kiln_strbuf_text(out, "</p>\n");
    begin_figure(700, 390, "Roofline", out);
    kiln_svg_axes(&x, "operations per byte", &y, "GFLOP/s", out);
    double top = kiln_axis_place(&y, peak / 1e9);
    double corner = m->memory_bytes > 0 ? KILN_MAX(peak / m->memory_bytes, x.low) : x.low;
    if (m->cache_bytes > 0) corner = KILN_MIN(corner, KILN_MAX(peak / m->cache_bytes, x.low));
    if (corner < x.high) kiln_svg_line("roof", kiln_axis_place(&x, corner), top, x.to, top, out);
    kiln_strbuf label = {0};
    kiln_strbuf_printf(&label, "peak %.0f GFLOP/s", peak / 1e9);
    kiln_svg_text("tick", "end", x.to, top - 5, kiln_strbuf_view(&label), out);
    kiln_strbuf_deinit(&label);
    print_slope("roof", "memory", m->memory_bytes, peak, &x, &y, out);
    print_slope("cache", "second-level cache", m->cache_bytes, peak, &x, &y, out);
    for (uint32_t i = 0; i < plot->task_count; i++) print_point(&plot->task[i], i, &x, &y, out);
    kiln_strbuf_text(out, "</svg></figure>\n");
}

/* ---- where the time went --------------------------------------------------------------------- */

#define PHASES 4u
static const struct {
    const char *class, *name;
} phase[PHASES] = {
    {"search", "search"}, {"build", "build"}, {"board", "measure"}, {"train", "train"}};

static void phases_of(const kiln_plot_task *t, double out_s[PHASES]) {
    const double ns[PHASES] = {t->search_ns, t->build_ns, t->board_ns, t->train_ns};
    for (uint32_t k = 0; k < PHASES; k++) out_s[k] = ns[k] / 1e9;
}

static double sum_of(const double value[PHASES]) {
    double sum = 0;
    for (uint32_t k = 0; k < PHASES; k++) sum += value[k];
    return sum;
}

static void print_bar(const kiln_plot_task *t, uint32_t number, const kiln_axis *x, double y,
                      kiln_strbuf *out) {
    double seconds[PHASES], before = 0;
    kiln_strbuf name = {0};
    phases_of(t, seconds);
    kiln_strbuf_printf(&name, "%u %s", number, t->label);
    kiln_svg_text("tick", "end", x->from - 6, y + 10, kiln_strbuf_view(&name), out);
    kiln_strbuf_deinit(&name);
    for (uint32_t k = 0; k < PHASES; k++) {
        double from = kiln_axis_place(x, before), to = kiln_axis_place(x, before + seconds[k]);
        kiln_strbuf_printf(out,
                           "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"12\">"
                           "<title>%s %.2f s</title></rect>",
                           phase[k].class, from, y, to - from, phase[k].name, seconds[k]);
        before += seconds[k];
    }
}

static void print_legend(const double total[PHASES], double x, double y, kiln_strbuf *out) {
    for (uint32_t k = 0; k < PHASES; k++) {
        kiln_strbuf name = {0};
        kiln_strbuf_printf(&name, "%s %.1f s", phase[k].name, total[k]);
        kiln_strbuf_printf(out,
                           "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"10\" height=\"10\"/>",
                           phase[k].class, x, y - 9);
        kiln_svg_text("tick", "start", x + 14, y, kiln_strbuf_view(&name), out);
        x += 110;
        kiln_strbuf_deinit(&name);
    }
}

#define BARS_WIDTH 450.0
#define CHARACTER_WIDTH 6.0 /* of a tick's text at 10 px, at most, of what labels are made of */

/* Where the bars begin, so that no label is cut. */
static double labels_width(const kiln_plot *plot) {
    size_t longest = 0;
    for (uint32_t i = 0; i < plot->task_count; i++)
        longest = KILN_MAX(longest, strlen(plot->task[i].label));
    return (double)(longest + strlen("100 ")) * CHARACTER_WIDTH + 12;
}

static void print_time_spent(const kiln_plot *plot, kiln_strbuf *out) {
    double longest = 0, total[PHASES] = {0};
    for (uint32_t i = 0; i < plot->task_count; i++) {
        double seconds[PHASES];
        phases_of(&plot->task[i], seconds);
        for (uint32_t k = 0; k < PHASES; k++) total[k] += seconds[k];
        longest = KILN_MAX(longest, sum_of(seconds));
    }
    if (longest <= 0) return;
    kiln_strbuf_text(out, "<h2>Where the time went</h2>\n<p>Work, not the clock: builders, boards "
                          "and training work side by side.</p>\n");
    double bottom = 34 + 18.0 * plot->task_count;
    const double begin = labels_width(plot);
    const kiln_axis x = {0, longest * 1.02, begin, begin + BARS_WIDTH, false},
                    y = {0, 1, bottom, 24, false};
    begin_figure(begin + BARS_WIDTH + 20, bottom + 32, "Where the time went", out);
    double tick[8];
    uint32_t count = kiln_axis_ticks(&x, 6, tick);
    for (uint32_t i = 0; i < count; i++) {
        double at = kiln_axis_place(&x, tick[i]);
        kiln_strbuf number = {0};
        kiln_strbuf_printf(&number, "%g s", tick[i]);
        kiln_svg_line("grid", at, y.from, at, y.to, out);
        kiln_svg_text("tick", "middle", at, bottom + 14, kiln_strbuf_view(&number), out);
        kiln_strbuf_deinit(&number);
    }
    for (uint32_t i = 0; i < plot->task_count; i++)
        print_bar(&plot->task[i], i, &x, 28 + 18.0 * i, out);
    print_legend(total, x.from, 14, out);
    kiln_strbuf_text(out, "</svg></figure>\n");
}

/* ---- the page -------------------------------------------------------------------------------- */

void kiln_plot_print(const kiln_plot *plot, kiln_strbuf *out) {
    kiln_strbuf_text(out, "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" "
                          "lang=\"en\"><head><meta charset=\"utf-8\"/><meta name=\"viewport\" "
                          "content=\"width=device-width\"/><title>Kiln: ");
    text(out, kiln_file_name(plot->source));
    kiln_strbuf_printf(out, "</title><style>\n%s</style></head><body>\n<h1>Kiln: ", style);
    text(out, kiln_file_name(plot->source));
    kiln_strbuf_text(out, "</h1>\n");
    if (plot->task_count == 0) kiln_strbuf_text(out, "<p>No records yet.</p>\n");
    print_table(plot, out);
    if (plot->task_count)
        kiln_strbuf_text(
            out, "<h2>Convergence</h2>\n<p>Each dot is a trial, the line the best so "
                 "far, which ends at the best of the table, measured anew in turns with its "
                 "rivals where there was a final; the dashed line the default schedule, a tick "
                 "below a trial that "
                 "failed.</p>\n<div class=\"many\">\n");
    for (uint32_t i = 0; i < plot->task_count; i++) print_convergence(&plot->task[i], i, out);
    if (plot->task_count) kiln_strbuf_text(out, "</div>\n");
    print_roofline(plot, out);
    print_time_spent(plot, out);
    kiln_strbuf_text(out, "</body></html>\n");
}
