#include "cli/svg.h"

#include <math.h>
#include <string.h>

#include "base/macros.h"
#include "base/text.h"

#define TICKS_MAX 16u

static const char *entity_of(char c) {
    switch (c) {
    case '&': return "&amp;";
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '"': return "&quot;";
    case '\'': return "&#39;";
    default: return NULL;
    }
}

void kiln_xml_text(kiln_str text, kiln_strbuf *out) {
    while (text.size) {
        char piece[KILN_TEXT_PIECE_MAX];
        const size_t size = kiln_text_step(&text, KILN_TEXT_PAGE, piece);
        const char *entity = entity_of(*piece);
        if (entity)
            kiln_strbuf_text(out, entity);
        else
            kiln_strbuf_append(out, piece, size);
    }
}

double kiln_axis_place(const kiln_axis *a, double value) {
    double share = a->log ? log(value / a->low) / log(a->high / a->low)
                          : (value - a->low) / (a->high - a->low);
    return a->from + share * (a->to - a->from);
}

static uint32_t log_ticks(const kiln_axis *a, uint32_t max, double *out_value) {
    int first = (int)ceil(log10(a->low) - 1e-9), last = (int)floor(log10(a->high) + 1e-9);
    int step = 1 + (last - first) / (int)max;
    uint32_t count = 0;
    for (int e = first; e <= last; e += step) out_value[count++] = pow(10, e);
    return count;
}

uint32_t kiln_axis_ticks(const kiln_axis *a, uint32_t max, double *out_value) {
    if (a->log) return log_ticks(a, max, out_value);
    double raw = (a->high - a->low) / max, power = pow(10, floor(log10(raw)));
    double unit = raw / power, step = power * (unit <= 1 ? 1 : unit <= 2 ? 2 : unit <= 5 ? 5 : 10);
    uint32_t count = 0;
    for (double k = ceil(a->low / step - 1e-9); k * step <= a->high * (1 + 1e-9) && count < max;
         k++)
        out_value[count++] = k * step + 0.0; /* no "-0" */
    return count;
}

void kiln_svg_line(const char *class, double x1, double y1, double x2, double y2,
                   kiln_strbuf *out) {
    kiln_strbuf_printf(out, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>",
                       class, x1, y1, x2, y2);
}

void kiln_svg_text(const char *class, const char *anchor, double x, double y, kiln_str text,
                   kiln_strbuf *out) {
    kiln_strbuf_printf(out, "<text class=\"%s\" text-anchor=\"%s\" x=\"%.1f\" y=\"%.1f\">", class,
                       anchor, x, y);
    kiln_xml_text(text, out);
    kiln_strbuf_text(out, "</text>");
}

static void svg_number(const char *anchor, double x, double y, double value, kiln_strbuf *out) {
    kiln_strbuf text = {0};
    kiln_strbuf_printf(&text, "%g", value);
    kiln_svg_text("tick", anchor, x, y, kiln_strbuf_view(&text), out);
    kiln_strbuf_deinit(&text);
}

void kiln_svg_axes(const kiln_axis *x, const char *x_name, const kiln_axis *y, const char *y_name,
                   kiln_strbuf *out) {
    double tick[TICKS_MAX];
    uint32_t count = kiln_axis_ticks(x, 6, tick);
    for (uint32_t i = 0; i < count; i++) {
        double at = kiln_axis_place(x, tick[i]);
        kiln_svg_line("grid", at, y->from, at, y->to, out);
        svg_number("middle", at, y->from + 14, tick[i], out);
    }
    count = kiln_axis_ticks(y, 5, tick);
    for (uint32_t i = 0; i < count; i++) {
        double at = kiln_axis_place(y, tick[i]);
        kiln_svg_line("grid", x->from, at, x->to, at, out);
        svg_number("end", x->from - 5, at + 3.5, tick[i], out);
    }
    kiln_svg_text("name", "end", x->to, y->from + 27, kiln_str_from(x_name), out);
    kiln_svg_text("name", "start", x->from, y->to - 6, kiln_str_from(y_name), out);
}
