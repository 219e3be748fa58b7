#include "web/record_rows.h"

#include <string.h>

#include "base/dtype.h"

#define DIGITS_MAX 18u

void kiln_json_add_text(kiln_strbuf *out, const char *name, kiln_str text) {
    kiln_strbuf_printf(out, ",\"%s\":", name);
    kiln_db_text_print_json(text, out);
}

void kiln_json_add_real(kiln_strbuf *out, const char *name, double value) {
    kiln_strbuf_printf(out, ",\"%s\":", name);
    kiln_db_real_print_json(value, out);
}

void kiln_json_add_int(kiln_strbuf *out, const char *name, int64_t value) {
    kiln_strbuf_printf(out, ",\"%s\":%lld", name, (long long)value);
}

/* ---- labels ---------------------------------------------------------------------------------- */

/* The loops of a line "block NAME(a:4, b:5 | c:6): ...". */
typedef struct nest {
    double points;
    kiln_str spatial, reduced; /* "a:4, b:5 " and " c:6" */
} nest;

static double points_of(kiln_str loops) {
    double points = 1;
    while (loops.size) {
        uint64_t extent = 0;
        kiln_str one = kiln_str_cut(&loops, ',');
        kiln_str_cut(&one, ':');
        if (kiln_str_to_u64(kiln_str_trim(one), &extent)) points *= (double)extent;
    }
    return points;
}

static bool read_nest(kiln_str line, nest *out) {
    if (!kiln_str_starts(line, "block ")) return false;
    kiln_str_cut(&line, '(');
    kiln_str inside = kiln_str_cut(&line, ')');
    out->spatial = kiln_str_cut(&inside, '|');
    out->reduced = inside;
    out->points = points_of(out->spatial) * points_of(out->reduced);
    return true;
}

static void append_extents(kiln_str loops, const char *before, kiln_strbuf *out) {
    uint32_t shown = 0;
    while (loops.size) {
        uint64_t extent = 0;
        kiln_str one = kiln_str_cut(&loops, ',');
        kiln_str_cut(&one, ':');
        one = kiln_str_trim(one);
        if (one.size > DIGITS_MAX || !kiln_str_to_u64(one, &extent) || extent < 2) continue;
        kiln_strbuf_printf(out, "%s%llu", shown++ ? "x" : before, (unsigned long long)extent);
    }
}

kiln_str kiln_record_label(kiln_str op, kiln_str canonical, kiln_arena *arena) {
    nest largest = {0}, one;
    kiln_strbuf text = {0};
    while (canonical.size)
        if (read_nest(kiln_str_cut(&canonical, '\n'), &one) && one.points > largest.points)
            largest = one;
    kiln_strbuf_str(&text, op);
    append_extents(largest.spatial, " ", &text);
    append_extents(largest.reduced, " over ", &text);
    return kiln_strbuf_end(&text, arena);
}

/* "f32[1,32,8,8]"; 0: it is none. */
static double tensor_bytes(kiln_str text) {
    kiln_str name = kiln_str_cut(&text, '['), shape = kiln_str_cut(&text, ']');
    kiln_dtype dtype;
    uint64_t extent = 0;
    if (!kiln_dtype_find(kiln_str_trim(name), &dtype)) return 0;
    double bytes = (double)kiln_dtype_size(dtype);
    while (shape.size) {
        if (!kiln_str_to_u64(kiln_str_trim(kiln_str_cut(&shape, ',')), &extent)) return 0;
        bytes *= (double)extent;
    }
    return bytes;
}

double kiln_record_bytes(kiln_str canonical) {
    static const char *const arguments[] = {"input ", "constant ", "output "};
    double bytes = 0;
    while (canonical.size) {
        kiln_str line = kiln_str_cut(&canonical, '\n');
        for (size_t i = 0; i < KILN_ARRAY_COUNT(arguments); i++) {
            if (!kiln_str_starts(line, arguments[i])) continue;
            kiln_str_cut(&line, ':');
            bytes += tensor_bytes(line);
        }
    }
    return bytes;
}

/* ---- records --------------------------------------------------------------------------------- */

static kiln_status describe(kiln_record_describer *d, const kiln_db_record *r) {
    kiln_db_task task = {0};
    kiln_db_job job = {0};
    bool found = false;
    kiln_status st = KILN_OK;
    if (!d->has_task || !kiln_str_equal(d->task_key, r->task_key)) {
        st = kiln_db_find_task(d->db, r->task_key, d->arena, &task, &found);
        if (st) return st;
        d->has_task = true;
        d->task_key = r->task_key;
        d->label = kiln_record_label(found ? task.op : KILN_STR(""),
                                     found ? task.canonical : KILN_STR(""), d->arena);
    }
    if (!d->has_job || !kiln_str_equal(d->job_id, r->job_id)) {
        st = kiln_db_find_job(d->db, r->job_id, d->arena, &job, &found);
        if (st) return st;
        d->has_job = true;
        d->job_id = r->job_id;
        d->model = found ? job.model : KILN_STR("");
    }
    return KILN_OK;
}

kiln_status kiln_record_print(kiln_record_describer *d, const kiln_db_record *r, kiln_strbuf *out) {
    kiln_status st = describe(d, r);
    if (st) return st;
    if (d->is_brief)
        kiln_db_row_print_brief_json(KILN_DB_TABLE_RECORD, r, out);
    else
        kiln_db_row_print_json(KILN_DB_TABLE_RECORD, r, out);
    out->data[--out->size] = '\0'; /* the object goes on */
    kiln_json_add_text(out, "label", d->label);
    kiln_json_add_text(out, "model", d->model);
    kiln_json_add_real(out, "gflops", r->median_ns > 0 ? r->flops / r->median_ns : 0);
    kiln_strbuf_char(out, '}');
    return KILN_OK;
}
