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

static void dot(const char *class, double radius, const kiln_vta_machine *m, const kiln_axis *x,
                const kiln_axis *y, double value, kiln_strbuf *out) {
    kiln_strbuf text = {0};
    kiln_vta_config_print(&m->config, &text);
    kiln_strbuf_printf(out, "<circle class=\"%s\" r=\"%g\" cx=\"%.1f\" cy=\"%.1f\"><title>", class,
                       radius, kiln_axis_place(x, value), kiln_axis_place(y, m->gops));
    kiln_xml_text(kiln_strbuf_view(&text), out);
    kiln_strbuf_text(out, "</title></circle>\n");
    kiln_strbuf_deinit(&text);
}

static void figure(const kiln_vta_found *f, uint32_t which, kiln_strbuf *out) {
    double most = axis_table[which].of(&f->preset), gops = f->preset.gops;
    for (uint32_t i = 0; i < f->evaluated; i++) {
        most = KILN_MAX(most, axis_table[which].of(&f->machine.data[i]));
        gops = KILN_MAX(gops, f->machine.data[i].gops);
    }
    const kiln_axis x = {0, 1.05 * most, 50, 440, false}, y = {0, 1.1 * gops, 250, 10, false};
    kiln_strbuf_text(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" "
                          "viewBox=\"0 0 460 290\"><title>");
    kiln_xml_text(kiln_str_from(axis_table[which].name), out);
    kiln_strbuf_text(out, "</title>\n");
    kiln_svg_axes(&x, axis_table[which].name, &y, "GOPS", out);
    const uint32_t step = 1 + f->evaluated / DOTS_MAX;
    for (uint32_t i = 0; i < f->evaluated; i += step) {
        const kiln_vta_machine *m = &f->machine.data[i];
        dot("all", 1.4, m, &x, &y, axis_table[which].of(m), out);
    }
    for (uint32_t i = 0; i < f->candidate_count; i++)
        dot("best", 3, &f->candidate[i], &x, &y, axis_table[which].of(&f->candidate[i]), out);
    dot("base", 4, &f->preset, &x, &y, axis_table[which].of(&f->preset), out);
    kiln_strbuf_text(out, "</svg>\n");
}

static void row(const kiln_vta_machine *m, kiln_strbuf *out) {
    kiln_strbuf_text(out, "<tr><td class=\"l\">");
    kiln_vta_config_print(&m->config, out);
    kiln_strbuf_printf(out,
                       "</td><td>%u</td><td>%.2f</td><td>%.1f</td><td>%.2f</td><td>%.0f</td>"
                       "<td>%.0f</td><td>%.1f</td><td>%u</td><td>%s</td></tr>\n",
                       m->lut_columns, m->ms, m->gops, m->mj, m->resources.lut, m->resources.ff,
                       bram_of(m), m->resources.dsp, kiln_vta_schedules_name(m));
}

void kiln_vta_page_print(const kiln_vta_found *f, kiln_strbuf *out) {
    kiln_strbuf_text(out, "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\"><head>"
                          "<meta charset=\"utf-8\"/><title>Accelerators</title><style>");
    kiln_strbuf_text(out, style);
    kiln_strbuf_text(out, "</style></head><body><h1>Accelerators for ");
    kiln_xml_text(kiln_str_from(f->source), out);
    kiln_strbuf_printf(out,
                       "</h1>\n<p>%u of %u machines that fit the %s, by the cycle simulator with "
                       "the best of a few cuts. Blue: the candidates, with the compiler's "
                       "schedules; orange: the preset pynq. LUTs, flip-flops, energy and the clock "
                       "are models.</p>\n",
                       f->evaluated, f->machine.count, f->wanted.device->name);
    kiln_strbuf_text(out, "<div class=\"many\">\n");
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(axis_table); i++) figure(f, i, out);
    kiln_strbuf_text(
        out, "</div>\n<div class=\"wide\"><table><tr><th class=\"l\">machine</th>"
             "<th>columns in LUTs</th><th>ms</th><th>GOPS</th><th>mJ</th>"
             "<th>LUT</th><th>FF</th><th>RAMB36</th><th>DSP48</th><th>schedules</th></tr>\n");
    for (uint32_t i = 0; i < f->candidate_count; i++) row(&f->candidate[i], out);
    row(&f->preset, out);
    kiln_strbuf_text(out, "</table></div>\n</body></html>\n");
}
