/* The pieces of a figure: axes with round ticks, and text that cannot break out of its element. */
#ifndef KILN_CLI_SVG_H
#define KILN_CLI_SVG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

/* Text for content and attribute values of HTML and XML: the five special characters become
 * entities, and the rest is in its printable form (base/text.h), with line ends. */
void kiln_xml_text(kiln_str text, kiln_strbuf *out);

/* Maps values to pixels. */
typedef struct kiln_axis {
    double low, high; /* of the values; low < high, and 0 < low when `log` */
    double from, to;  /* pixels of low and high */
    bool log;
} kiln_axis;
double kiln_axis_place(const kiln_axis *axis, double value);
/* Round values within the axis, at most `max` of them (10 at least when `log`): 1, 2 or 5 times a
 * power of ten apart, or powers of ten. Returns how many. */
uint32_t kiln_axis_ticks(const kiln_axis *axis, uint32_t max, double *out_value);

/* <line class=...>; <text class=... text-anchor=...> with escaped content. */
void kiln_svg_line(const char *class, double x1, double y1, double x2, double y2, kiln_strbuf *out);
void kiln_svg_text(const char *class, const char *anchor, double x, double y, kiln_str text,
                   kiln_strbuf *out);

/* The frame of a chart: grid lines with their values below and to the left, and the names of both
 * axes. */
void kiln_svg_axes(const kiln_axis *x, const char *x_name, const kiln_axis *y, const char *y_name,
                   kiln_strbuf *out);

#endif
