#include "cli/svg.h"
#include "cli/vta_search.h"

#define DOTS_MAX 2000u

static const char style[] =
    ":root{color-scheme:light dark;--bg:#fff;--fg:#1d2127;--dim:#5d6672;--grid:#e3e6ea;"
    "--best:#1769aa;--base:#b4541a;--dot:#9aa5b1}\n"
    "@media(prefers-color-scheme:dark){:root{--bg:#15181c;--fg:#e6e9ed;--dim:#9aa4b0;"
    "--grid:#2b3138;--best:#62b0f0;--base:#f0a060;--dot:#5b6672}}\n"
    "body{background:var(--bg);color:var(--fg);font:15px/1.45 system-ui,sans-serif;"
    "max-width:70rem;margin:2rem auto;padding:0 1rem}\n"
    "h1{font-size:1.5rem}p{color:var(--dim)}"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums}div.wide{overflow-x:auto}\n"
    "th,td{padding:.2rem .7rem;text-align:right;white-space:nowrap;"
    "border-bottom:1px solid var(--grid)}th{color:var(--dim);font-weight:500}.l{text-align:left}\n"
    "div.many{display:grid;grid-template-columns:repeat(auto-fill,minmax(26rem,1fr));gap:1rem}\n"
    "svg{width:100%;height:auto}text{fill:var(--fg);font-size:11px}"
    "text.tick,text.name{fill:var(--dim);font-size:10px}line.grid{stroke:var(--grid)}\n"
    "polyline{fill:none;stroke:var(--best);stroke-width:1;opacity:.55}"
    "polyline.first{stroke-width:2.5;opacity:1}polyline.base{stroke:var(--base);opacity:1}\n"
    "circle.all{fill:var(--dot)}circle.best{fill:var(--best)}circle.base{fill:var(--base)}\n";

/* A column of the table, and what is drawn over GOPS. */
static double bram_of(const kiln_vta_machine *m) { return m->resources.bram18 / 2.0; }
static double dsp_of(const kiln_vta_machine *m) { return m->resources.dsp; }
static double lut_of(const kiln_vta_machine *m) { return m->resources.lut; }
static double mj_of(const kiln_vta_machine *m) { return m->mj; }

static const struct {
    const char *name;
    double (*of)(const kiln_vta_machine *m);
} axis_table[] = {{"RAMB36", bram_of},
                  {"DSP48", dsp_of},
                  {"LUTs, by a model", lut_of},
                  {"mJ a batch, dynamic, by a model", mj_of}};

static void dot(const char *class, double radius, const kiln_vta_machine *m, double gops,
                const kiln_axis *x, const kiln_axis *y, double value, kiln_strbuf *out) {
    kiln_strbuf text = {0};
    kiln_vta_config_print(&m->config, &text);
    kiln_strbuf_printf(out, "<circle class=\"%s\" r=\"%g\" cx=\"%.1f\" cy=\"%.1f\"><title>", class,
                       radius, kiln_axis_place(x, value), kiln_axis_place(y, gops));
    kiln_xml_text(kiln_strbuf_view(&text), out);
    kiln_strbuf_text(out, "</title></circle>\n");
    kiln_strbuf_deinit(&text);
}

static void begin_figure(const char *title, kiln_strbuf *out) {
    kiln_strbuf_text(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" "
                          "viewBox=\"0 0 460 290\"><title>");
    kiln_xml_text(kiln_str_from(title), out);
    kiln_strbuf_text(out, "</title>\n");
}

static void figure(const kiln_vta_found *f, uint32_t which, kiln_strbuf *out) {
    const kiln_vta_candidate *preset = &f->candidate[f->candidate_count];
    double most = 0, gops = 0;
    for (uint32_t i = 0; i < f->evaluated; i++) {
        most = KILN_MAX(most, axis_table[which].of(&f->machine.data[i]));
        gops = KILN_MAX(gops, f->machine.data[i].gops);
    }
    for (const kiln_vta_candidate *c = f->candidate; c <= preset; c++) {
        most = KILN_MAX(most, axis_table[which].of(&c->machine));
        gops = KILN_MAX(gops, kiln_vta_candidate_gops(c));
    }
    const kiln_axis x = {0, 1.05 * most, 50, 440, false}, y = {0, 1.1 * gops, 250, 20, false};
    begin_figure(axis_table[which].name, out);
    kiln_svg_axes(&x, axis_table[which].name, &y, "GOPS", out);
    const uint32_t step = 1 + f->evaluated / DOTS_MAX;
    for (uint32_t i = 0; i < f->evaluated; i += step) {
        const kiln_vta_machine *m = &f->machine.data[i];
        dot("all", 1.4, m, m->gops, &x, &y, axis_table[which].of(m), out);
    }
    for (const kiln_vta_candidate *c = f->candidate; c <= preset; c++)
        dot(c < preset ? "best" : "base", c < preset ? 3 : 4, &c->machine,
            kiln_vta_candidate_gops(c), &x, &y, axis_table[which].of(&c->machine), out);
    kiln_strbuf_text(out, "</svg>\n");
}

/* ---- throughput over trials ---- */

static double curve_gops(const kiln_vta_candidate *c, double ns) {
    return c->machine.gops * c->machine.ms / (ns / 1e6);
}

/* A staircase: the best stays until a faster one comes. */
static void staircase(const char *class, const kiln_vta_candidate *c, const kiln_axis *x,
                      const kiln_axis *y, kiln_strbuf *out) {
    double level = 0;
    kiln_strbuf_printf(out, "<polyline class=\"%s\" points=\"", class);
    for (uint32_t i = 0; i < c->tuned.curve.point.count; i++) {
        const kiln_curve_point *p = &c->tuned.curve.point.data[i];
        const double at = kiln_axis_place(x, p->trial);
        if (i) kiln_strbuf_printf(out, "%.1f,%.1f ", at, level);
        level = kiln_axis_place(y, curve_gops(c, p->best_ns));
        kiln_strbuf_printf(out, "%.1f,%.1f ", at, level);
    }
    kiln_strbuf_printf(out, "%.1f,%.1f\"><title>", kiln_axis_place(x, c->tuned.trials), level);
    kiln_vta_config_print(&c->machine.config, out);
    kiln_strbuf_text(out, "</title></polyline>\n");
}

static void tuning_figure(const kiln_vta_found *f, kiln_strbuf *out) {
    const kiln_vta_candidate *preset = &f->candidate[f->candidate_count];
    uint32_t trials = 1;
    double most = 0, least = 0;
    for (const kiln_vta_candidate *c = f->candidate; c <= preset; c++) {
        if (c->tuned.ms <= 0) continue;
        const double first = curve_gops(c, c->tuned.curve.point.data[0].best_ns);
        trials = KILN_MAX(trials, c->tuned.trials);
        most = KILN_MAX(most, kiln_vta_candidate_gops(c));
        least = least > 0 ? KILN_MIN(least, first) : first;
    }
    if (most <= 0) return; /* nothing was tuned */
    const kiln_axis x = {0, 1.02 * trials, 50, 440, false},
                    y = {0.95 * least, most + 0.05 * least, 250, 20, false};
    begin_figure("Throughput over trials", out);
    kiln_svg_axes(&x, "trials of the tuning", &y, "GOPS", out);
    for (const kiln_vta_candidate *c = f->candidate; c <= preset; c++)
        if (c->tuned.ms > 0)
            staircase(c == preset ? "base" : c == f->candidate ? "first" : "tuned", c, &x, &y, out);
    kiln_strbuf_text(out, "</svg>\n");
}

static void row(const kiln_vta_candidate *c, kiln_strbuf *out) {
    const kiln_vta_machine *m = &c->machine;
    kiln_strbuf_text(out, "<tr><td class=\"l\">");
    kiln_vta_config_print(&m->config, out);
    kiln_strbuf_printf(out,
                       "</td><td>%u</td><td>%.2f</td><td>%.2f</td><td>%.1f</td><td>%.2f</td>"
                       "<td>%.0f</td><td>%.0f</td><td>%.1f</td><td>%u</td><td>%u</td><td>%s</td>"
                       "</tr>\n",
                       m->lut_columns, kiln_vta_candidate_ms(c), m->ms, kiln_vta_candidate_gops(c),
                       m->mj, m->resources.lut, m->resources.ff, bram_of(m), m->resources.dsp,
                       c->tuned.trials, kiln_vta_schedules_name(c));
}

void kiln_vta_page_print(const kiln_vta_found *f, kiln_strbuf *out) {
    kiln_strbuf_text(out, "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\"><head>"
                          "<meta charset=\"utf-8\"/><title>Accelerators</title><style>");
    kiln_strbuf_text(out, style);
    kiln_strbuf_text(out, "</style></head><body><h1>Accelerators for ");
    kiln_xml_text(kiln_str_from(f->source), out);
    kiln_strbuf_printf(out,
                       "</h1>\n<p>%u of %u machines that fit the %s, by the cycle simulator with "
                       "the best of a few cuts. Blue: the candidates, tuned where the "
                       "table says so, the bold line the winner; orange: the preset pynq. LUTs, "
                       "flip-flops, energy and the clock are models.</p>\n",
                       f->evaluated, f->machine.count, f->wanted.device->name);
    kiln_strbuf_text(out, "<div class=\"many\">\n");
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(axis_table); i++) figure(f, i, out);
    tuning_figure(f, out);
    kiln_strbuf_text(
        out, "</div>\n<div class=\"wide\"><table><tr><th class=\"l\">machine</th>"
             "<th>columns in LUTs</th><th>ms</th><th>ms by cuts</th><th>GOPS</th><th>mJ</th>"
             "<th>LUT</th><th>FF</th><th>RAMB36</th><th>DSP48</th><th>trials</th>"
             "<th>schedules</th></tr>\n");
    for (uint32_t i = 0; i <= f->candidate_count; i++) row(&f->candidate[i], out);
    kiln_strbuf_text(out, "</table></div>\n</body></html>\n");
}
