/* The texts of events, without readers. */
#include "web/events.h"

static void print_gone(const kiln_rows *rows, uint64_t from, uint64_t to, kiln_strbuf *out) {
    const uint32_t kept = KILN_MIN(rows->gone_count, KILN_ROWS_GONE_MAX);
    const char *separator = "";
    for (uint32_t i = rows->gone_count - kept; i < rows->gone_count; i++) {
        const kiln_row_gone *gone = &rows->gone[i % KILN_ROWS_GONE_MAX];
        if (gone->seq <= from || gone->seq > to) continue;
        kiln_strbuf_text(out, separator);
        kiln_json_print_text(kiln_str_from(gone->id), out);
        separator = ",";
    }
}

bool kiln_event_print(const kiln_rows *rows, size_t bytes_max, uint64_t now_ns,
                      kiln_event_cursor *cursor, kiln_strbuf *out, bool *out_more) {
    const bool is_all =
        !cursor->is_known || cursor->seq > rows->seq || !kiln_rows_knows_gone(rows, cursor->seq);
    const uint64_t from = is_all ? 0 : cursor->seq;
    *out_more = false;
    if (!is_all && rows->seq == from) return false;
    kiln_arena scratch;
    kiln_strbuf items = {0};
    kiln_arena_init(&scratch, 0);
    const kiln_row *row = kiln_rows_after(rows, from);
    uint64_t to = rows->seq;
    for (; row && items.size < bytes_max; row = row->next) {
        if (items.size) kiln_strbuf_char(&items, ',');
        kiln_row_print_json(rows->kind, row, now_ns, &scratch, &items);
        kiln_arena_reset(&scratch);
        to = row->seq;
    }
    *out_more = row != NULL;
    if (!row) to = rows->seq;
    kiln_strbuf_printf(out, "\"seq\":%llu,%s\"rows\":[", (unsigned long long)to,
                       is_all ? "\"all\":true," : "");
    kiln_strbuf_str(out, kiln_strbuf_view(&items));
    kiln_strbuf_text(out, "],\"gone\":[");
    if (!is_all) print_gone(rows, from, to, out);
    kiln_strbuf_char(out, ']');
    *cursor = (kiln_event_cursor){true, to};
    kiln_strbuf_deinit(&items);
    kiln_arena_deinit(&scratch);
    return true;
}

bool kiln_event_id_parse(kiln_str text, uint64_t *out_epoch, uint64_t out_seq[KILN_ROWS_KINDS]) {
    uint64_t number[1 + KILN_ROWS_KINDS];
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(number); i++)
        if (!kiln_str_to_u64(kiln_str_cut(&text, '-'), &number[i])) return false;
    if (text.size) return false;
    *out_epoch = number[0];
    for (uint32_t i = 0; i < KILN_ROWS_KINDS; i++) out_seq[i] = number[1 + i];
    return true;
}
