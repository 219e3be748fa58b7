#include "base/identity.h"

#include "base/arena.h"
#include "base/file.h"
#include "base/rand.h"

kiln_status kiln_identity_create(char out_text[KILN_HASH128_TEXT]) {
    kiln_hash128 identity;
    kiln_status st = kiln_rand_system(&identity, sizeof identity);
    if (!st) kiln_hash128_print(identity, out_text);
    return st;
}

kiln_status kiln_identity_load(const char *path, char out_text[KILN_HASH128_TEXT]) {
    if (!kiln_file_exists(path)) {
        kiln_status st = kiln_identity_create(out_text);
        return st ? st : kiln_file_write(path, kiln_str_from(out_text), 0600);
    }
    kiln_arena scratch;
    kiln_arena_init(&scratch, 256);
    kiln_str text;
    kiln_hash128 identity;
    kiln_status st = kiln_file_read(path, 256, &scratch, &text);
    if (!st && !kiln_hash128_parse(kiln_str_trim(text), &identity))
        st =
            KILN_ERROR(DATA_LOSS, "%s does not hold an identity; remove it to get a new one", path);
    if (!st) kiln_hash128_print(identity, out_text);
    kiln_arena_deinit(&scratch);
    return st;
}

static bool begins(kiln_str text, kiln_str typed) {
    return typed.size >= KILN_IDENTITY_PREFIX_MIN &&
           kiln_str_equal(kiln_str_slice(text, 0, typed.size), typed);
}

void kiln_identity_try(kiln_identity_search *s, kiln_str id, kiln_str name) {
    const bool is_exact =
        kiln_str_equal(id, s->typed) || (name.size && kiln_str_equal(name, s->typed));
    if (!is_exact && (s->is_exact || !(begins(id, s->typed) || begins(name, s->typed)))) return;
    if (is_exact && !s->is_exact) s->count = 0; /* what it only begins is not meant */
    s->is_exact = is_exact;
    for (uint32_t i = 0; i < s->count; i++)
        if (kiln_str_equal(s->id[i], id)) return;
    if (s->count == KILN_ARRAY_COUNT(s->id)) return;
    s->id[s->count] = kiln_str_copy(s->arena, id);
    s->name[s->count++] = kiln_str_copy(s->arena, name);
}

static kiln_status several(const kiln_identity_search *s, const char *what) {
    kiln_strbuf list = {0};
    for (uint32_t i = 0; i < KILN_MIN(s->count, KILN_IDENTITIES_SHOWN); i++) {
        kiln_strbuf_printf(&list, "%s%.*s", i ? ", " : "", KILN_STR_ARG(s->id[i]));
        if (s->name[i].size) kiln_strbuf_printf(&list, " (%.*s)", KILN_STR_ARG(s->name[i]));
    }
    kiln_status st = KILN_ERROR(INVALID_ARGUMENT, "'%.*s' may mean more than one %s: %s%s",
                                KILN_STR_ARG(s->typed), what, list.data,
                                s->count > KILN_IDENTITIES_SHOWN ? ", ..." : "");
    kiln_strbuf_deinit(&list);
    return st;
}

kiln_status kiln_identity_found(const kiln_identity_search *s, const char *what, kiln_str *out_id) {
    if (s->count > 1) return several(s, what);
    if (s->count == 0)
        return KILN_ERROR(NOT_FOUND, "there is no %s %.*s, and none that begins so", what,
                          KILN_STR_ARG(s->typed));
    *out_id = s->id[0];
    return KILN_OK;
}
