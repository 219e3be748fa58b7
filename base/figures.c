#include "base/figures.h"

#include <string.h>

#include "base/check.h"
#include "base/macros.h"

#define ENTRIES_MAX 64 /* of the map, including figures of later versions */

static const kiln_figure_info figure_table[] = {
#define X(number, NAME, text, unit, least, most, place, doc) {number, text, unit, doc, least, most},
#include "base/figures.def"
#undef X
};
_Static_assert(KILN_FIGURE_COUNT <= ENTRIES_MAX, "all figures fit");

const kiln_figure_info *kiln_figure_info_of(kiln_figure figure) {
    KILN_CHECK((unsigned)figure < KILN_FIGURE_COUNT);
    return &figure_table[figure];
}

bool kiln_figures_is_empty(const kiln_figures *c) {
    for (uint32_t i = 0; i < KILN_FIGURE_COUNT; i++)
        if (c->figure[i] != 0) return false;
    return true;
}

bool kiln_figures_equal(const kiln_figures *a, const kiln_figures *b) {
    for (uint32_t i = 0; i < KILN_FIGURE_COUNT; i++)
        if (a->figure[i] != b->figure[i]) return false;
    return true;
}

/* Whether both are known and the first is the larger. */
static bool is_larger(const kiln_figures *c, kiln_figure a, kiln_figure b) {
    return c->figure[b] != 0 && c->figure[a] > c->figure[b];
}

bool kiln_figures_is_plausible(const kiln_figures *c) {
    for (uint32_t i = 0; i < KILN_FIGURE_COUNT; i++) {
        const double value = c->figure[i];
        if (value != 0 && !(value >= figure_table[i].least && value <= figure_table[i].most))
            return false;
    }
    return !is_larger(c, KILN_FIGURE_L1_BYTES, KILN_FIGURE_L2_BYTES) &&
           !is_larger(c, KILN_FIGURE_L2_BYTES, KILN_FIGURE_L3_BYTES);
}

double kiln_figures_bytes_per_second(const kiln_figures *c, kiln_figure rate) {
    const double wide = c->figure[KILN_FIGURE_WIDE_CLOCK];
    return c->figure[rate] * (wide > 0 ? wide : c->figure[KILN_FIGURE_CLOCK]);
}

void kiln_figures_print(const kiln_figures *c, kiln_strbuf *out) {
    for (uint32_t i = 0; i < KILN_FIGURE_COUNT; i++)
        if (c->figure[i] != 0)
            kiln_strbuf_printf(out, "%s %.9g %s\n", figure_table[i].name, c->figure[i],
                               figure_table[i].unit);
}

static void write_map(const kiln_figures *c, kiln_strbuf *out) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < KILN_FIGURE_COUNT; i++) count += c->figure[i] != 0;
    kiln_mpack_write_map(out, count);
    for (uint32_t i = 0; i < KILN_FIGURE_COUNT; i++) {
        if (c->figure[i] == 0) continue;
        kiln_mpack_write_u64(out, figure_table[i].number);
        kiln_mpack_write_f64(out, c->figure[i]);
    }
}

static kiln_status read_entry(kiln_mpack_reader *in, kiln_figures *c, uint64_t *last) {
    uint64_t number = 0;
    kiln_status st = kiln_mpack_read_u64(in, &number);
    if (st) return st;
    if (number <= *last)
        return KILN_ERROR(DATA_LOSS, "figure %llu stands behind figure %llu",
                          (unsigned long long)number, (unsigned long long)*last);
    *last = number;
    for (uint32_t i = 0; i < KILN_FIGURE_COUNT; i++)
        if (figure_table[i].number == number) return kiln_mpack_read_f64(in, &c->figure[i]);
    return kiln_mpack_skip(in);
}

static kiln_status read_map(kiln_mpack_reader *in, kiln_figures *out) {
    kiln_figures c = {0};
    uint32_t count = 0;
    uint64_t last = 0;
    kiln_status st = kiln_mpack_read_map(in, &count);
    if (!st && count > ENTRIES_MAX) st = KILN_ERROR(DATA_LOSS, "%u figures", count);
    for (uint32_t i = 0; !st && i < count; i++) st = read_entry(in, &c, &last);
    if (!st && !kiln_figures_is_plausible(&c))
        st = KILN_ERROR(DATA_LOSS, "no processor has such figures");
    if (!st) *out = c;
    return kiln_status_note(st, "reading what was measured of a processor");
}

void kiln_figures_code(kiln_mpack_coder *coder, kiln_figures *c) {
    if (coder->st) return;
    if (coder->out)
        write_map(c, coder->out);
    else
        coder->st = read_map(&coder->in, c);
}

void kiln_figures_encode(const kiln_figures *c, kiln_strbuf *out) {
    if (!kiln_figures_is_empty(c)) write_map(c, out);
}

kiln_status kiln_figures_decode(kiln_str bytes, kiln_figures *out) {
    kiln_mpack_reader in;
    kiln_figures c = {0};
    if (bytes.size > KILN_FIGURES_BYTES_MAX)
        return KILN_ERROR(DATA_LOSS, "figures of %zu bytes; at most %u", bytes.size,
                          KILN_FIGURES_BYTES_MAX);
    kiln_mpack_reader_init(&in, bytes.data, bytes.size);
    kiln_status st = bytes.size ? read_map(&in, &c) : KILN_OK;
    if (!st && kiln_mpack_peek(&in) != KILN_MPACK_END)
        st = KILN_ERROR(DATA_LOSS, "bytes behind figures");
    if (!st) *out = c;
    return st;
}
