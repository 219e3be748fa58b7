#include "db/recorded.h"

#include "base/target.h"

static kiln_status check_recorded(kiln_db *db, const char *path, kiln_str target,
                                  kiln_arena *arena) {
    kiln_db_stat *stat = NULL;
    uint32_t count = 0;
    kiln_strbuf recorded = {0};
    bool found = false;
    kiln_status st = kiln_db_stats(db, arena, &stat, &count);
    for (uint32_t i = 0; !st && i < count; i++) {
        bool listed = false;
        for (uint32_t k = 0; k < i; k++) listed |= kiln_str_equal(stat[k].target, stat[i].target);
        found |= kiln_str_equal(stat[i].target, target);
        if (!listed)
            kiln_strbuf_printf(&recorded, "%s%.*s", i ? "; " : "", KILN_STR_ARG(stat[i].target));
    }
    if (!st && !found)
        st = KILN_ERROR(NOT_FOUND, "%s has no records of %.*s; it has of: %s", path,
                        KILN_STR_ARG(target), count ? recorded.data : "no target");
    kiln_strbuf_deinit(&recorded);
    return st;
}

kiln_status kiln_db_recorded_target(kiln_db *db, const char *path, const char *text,
                                    kiln_arena *arena, const char **out_target) {
    kiln_target target;
    kiln_strbuf canonical = {0};
    kiln_status st = kiln_target_parse(kiln_str_from(text), arena, &target);
    if (st) return st;
    kiln_target_print(&target, &canonical);
    *out_target = kiln_str_dup(arena, kiln_strbuf_view(&canonical));
    kiln_strbuf_deinit(&canonical);
    return check_recorded(db, path, kiln_str_from(*out_target), arena);
}
