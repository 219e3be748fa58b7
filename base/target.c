#include "base/target.h"

#include <string.h>

#include "base/check.h"
#include "base/macros.h"
#include "base/target_kind.h"

#define TEXT_MAX 512
#define PARTS_MAX 24 /* of one target; no kind has so many */

static const struct kind_row {
    const char *name, *executor, *doc;
    const kiln_target_form *form;
} kind_table[] = {
#define X(NAME, name, rules, lowering, features, PAYLOAD, executor, doc) \
    {#name, #executor, doc, &kiln_target_form_##name},
#include "base/target_kinds.def"
#undef X
};
_Static_assert(KILN_ARRAY_COUNT(kind_table) == KILN_TARGET_KIND_COUNT, "one row per kind");

static const struct {
    const char *name, *expansion;
} alias_table[] = {
#define X(name, expansion) {name, expansion},
#include "base/targets.def"
#undef X
};

static const struct kind_row *row_of(kiln_target_kind kind) {
    KILN_CHECK((unsigned)kind < KILN_TARGET_KIND_COUNT);
    return &kind_table[kind];
}

const char *kiln_target_kind_name(kiln_target_kind kind) { return row_of(kind)->name; }

const char *kiln_target_kind_doc(kiln_target_kind kind) { return row_of(kind)->doc; }
const char *kiln_target_kind_executor(kiln_target_kind kind) { return row_of(kind)->executor; }

/* ---- parsing --------------------------------------------------------------------------------- */

static void list_names(kiln_strbuf *out) {
    kiln_strbuf_text(out, "native");
    for (size_t i = 0; i < KILN_ARRAY_COUNT(alias_table); i++)
        kiln_strbuf_printf(out, " %s", alias_table[i].name);
}

static kiln_status unknown_name(kiln_str name) {
    kiln_strbuf names = {0};
    list_names(&names);
    kiln_status st = KILN_ERROR(
        INVALID_ARGUMENT,
        "unknown target '%.*s'; known names: %s; or write KIND:..., such as cpu:<triple>",
        KILN_STR_ARG(name), names.data);
    kiln_strbuf_deinit(&names);
    return st;
}

static bool is_word(kiln_str text) {
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!letter && !(c >= '0' && c <= '9') && !strchr("_.-+", c)) return false;
    }
    return true;
}

kiln_status kiln_target_parse_count(kiln_str key, kiln_str value, uint32_t most,
                                    uint32_t *out_count) {
    uint64_t count = 0;
    if (!kiln_str_to_u64(value, &count) || count < 1 || count > most)
        return KILN_ERROR(INVALID_ARGUMENT, "%.*s=%.*s is not a number from 1 to %u",
                          KILN_STR_ARG(key), KILN_STR_ARG(value), most);
    *out_count = (uint32_t)count;
    return KILN_OK;
}

kiln_status kiln_target_parse_host(kiln_str value, kiln_arena *arena, kiln_target *target) {
    kiln_target *host = KILN_ARENA_NEW(arena, kiln_target);
    kiln_status st = kiln_target_parse(value, arena, host);
    if (st) return kiln_status_note(st, "the host");
    if (host->kind != KILN_TARGET_CPU)
        return KILN_ERROR(INVALID_ARGUMENT, "the host '%.*s' is no processor", KILN_STR_ARG(value));
    target->host = host;
    return KILN_OK;
}

kiln_status kiln_target_find_host(kiln_target *target, kiln_arena *arena) {
    if (!target->is_partial || target->host) return KILN_OK;
    kiln_target *host = KILN_ARENA_NEW(arena, kiln_target);
    kiln_status st = kiln_target_native(arena, host);
    if (!st) target->host = host;
    return st;
}

kiln_status kiln_target_unknown_part(const kiln_target *target, kiln_str part) {
    const struct kind_row *kind = row_of(target->kind);
    if (!*kind->form->parts)
        return KILN_ERROR(INVALID_ARGUMENT, "'%.*s': %s targets have no further parts",
                          KILN_STR_ARG(part), kind->name);
    return KILN_ERROR(INVALID_ARGUMENT, "unknown part '%.*s'; known: %s", KILN_STR_ARG(part),
                      kind->form->parts);
}

static kiln_status parse_parts(kiln_str rest, kiln_arena *arena, kiln_target *target) {
    const kiln_target_form *form = row_of(target->kind)->form;
    kiln_str seen[PARTS_MAX];
    size_t seen_count = 0;
    while (rest.size) {
        kiln_str part = kiln_str_cut(&rest, ',');
        kiln_str key = kiln_str_slice(part, 0, kiln_str_find_char(part, '='));
        if (!form->parse_part || seen_count == PARTS_MAX)
            return kiln_target_unknown_part(target, part);
        for (size_t i = 0; i < seen_count; i++)
            if (kiln_str_equal(seen[i], key))
                return KILN_ERROR(INVALID_ARGUMENT, "%.*s is given twice", KILN_STR_ARG(key));
        kiln_status st = form->parse_part(part, arena, target);
        if (st) return st;
        seen[seen_count++] = key;
    }
    return KILN_OK;
}

/* "cpu:<triple>" and the like, without parts. */
static kiln_status parse_head(kiln_str head, kiln_arena *arena, kiln_target *out_target) {
    kiln_str rest = head;
    kiln_str name = kiln_str_cut(&rest, ':');
    kiln_target target = {.arch = KILN_ARCH_OTHER, .cores = 1, .threads = 1};
    while (target.kind < KILN_TARGET_KIND_COUNT && !kiln_str_is(name, kind_table[target.kind].name))
        target.kind++;
    if (target.kind == KILN_TARGET_KIND_COUNT) return unknown_name(head);
    if (!is_word(rest))
        return KILN_ERROR(INVALID_ARGUMENT, "'%.*s' has a character that no target has",
                          KILN_STR_ARG(rest));
    target.triple = kiln_str_copy(arena, rest);
    kiln_status st = row_of(target.kind)->form->parse_head(&target);
    if (st) return st;
    *out_target = target;
    return KILN_OK;
}

/* Parses the text before the first comma: a name or KIND:... */
static kiln_status parse_name(kiln_str name, kiln_arena *arena, kiln_target *out_target) {
    if (kiln_str_is(name, "native")) return kiln_target_native(arena, out_target);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(alias_table); i++) {
        if (!kiln_str_is(name, alias_table[i].name)) continue;
        kiln_str rest = kiln_str_from(alias_table[i].expansion);
        kiln_status st = parse_head(kiln_str_cut(&rest, ','), arena, out_target);
        return st ? st : parse_parts(rest, arena, out_target);
    }
    return parse_head(name, arena, out_target);
}

kiln_str kiln_target_text_with_head(kiln_str content, const char *kind, kiln_arena *arena) {
    const kiln_str text = kiln_str_trim(content);
    kiln_str rest = text;
    if (kiln_str_is(kiln_str_cut(&rest, ':'), kind))
        return kiln_str_printf(arena, "%.*s", KILN_STR_ARG(text));
    return kiln_str_printf(arena, "%s:%.*s", kind, KILN_STR_ARG(text));
}

kiln_status kiln_target_parse(kiln_str text, kiln_arena *arena, kiln_target *out_target) {
    if (text.size > TEXT_MAX)
        return KILN_ERROR(INVALID_ARGUMENT, "a target of %zu characters; at most %d", text.size,
                          TEXT_MAX);
    kiln_target target = {0};
    kiln_str rest = text;
    kiln_status st = parse_name(kiln_str_cut(&rest, ','), arena, &target);
    if (!st) st = parse_parts(rest, arena, &target);
    const kiln_target_form *form = st ? NULL : row_of(target.kind)->form;
    if (!st && form->finish) st = form->finish(&target, arena);
    if (st) return kiln_status_note(st, "target '%.*s'", KILN_STR_ARG(text));
    if (form->derive) form->derive(&target);
    *out_target = target;
    return KILN_OK;
}

/* ---- measured figures ----------------------------------------------------------------------- */

void kiln_target_calibrate(kiln_target *target, const kiln_figures *calibration) {
    const kiln_target_form *form = row_of(target->kind)->form;
    const kiln_figures measured = *calibration; /* may be the target's own */
    if (form->derive) form->derive(target);
    target->calibration = measured;
    for (uint32_t i = 0; i < KILN_FIGURE_COUNT; i++) {
        const double value = measured.figure[i];
        if (value == 0) continue;
        switch ((kiln_figure)i) {
#define CORE(field) target->core.field = value
#define CACHE(field) target->field = (uint32_t)value
#define ALONE
#define X(number, NAME, text, unit, least, most, place, doc) \
    case KILN_FIGURE_##NAME: place; break;
#include "base/figures.def"
#undef X
#undef CORE
#undef CACHE
#undef ALONE
        case KILN_FIGURE_COUNT: break;
        }
    }
}

double kiln_target_figure(const kiln_target *target, kiln_figure figure) {
    switch (figure) {
#define CORE(field) target->core.field
#define CACHE(field) target->field
#define ALONE 0
#define X(number, NAME, text, unit, least, most, place, doc) \
    case KILN_FIGURE_##NAME: return place;
#include "base/figures.def"
#undef X
#undef CORE
#undef CACHE
#undef ALONE
    case KILN_FIGURE_COUNT: break;
    }
    return 0;
}

/* ---- the rest -------------------------------------------------------------------------------- */

void kiln_target_print(const kiln_target *target, kiln_strbuf *out) {
    const struct kind_row *kind = row_of(target->kind);
    kiln_strbuf_text(out, kind->name);
    if (target->triple.size) kiln_strbuf_printf(out, ":%.*s", KILN_STR_ARG(target->triple));
    if (kind->form->print_parts) kind->form->print_parts(target, out);
}

void kiln_target_print_processor(const kiln_target *target, kiln_strbuf *out) {
    kiln_target processor = *target;
    processor.cores = processor.threads = 1;
    kiln_target_print(&processor, out);
}

kiln_status kiln_target_emulated(const kiln_target *target, kiln_arena *arena,
                                 kiln_target *out_target) {
    kiln_target emulated;
    kiln_strbuf text = {0};
    kiln_target_print(target, &text);
    if (!target->emulated) kiln_strbuf_text(&text, ",emulated");
    kiln_status st = kiln_target_parse(kiln_strbuf_view(&text), arena, &emulated);
    kiln_strbuf_deinit(&text);
    if (st) return st;
    kiln_target_calibrate(&emulated, &target->calibration);
    *out_target = emulated;
    return KILN_OK;
}

kiln_target kiln_target_copy(const kiln_target *target, kiln_arena *arena) {
    kiln_target copy = *target;
    kiln_str *text[] = {&copy.triple, &copy.mcpu, &copy.features};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(text); i++)
        text[i]->data = kiln_str_dup(arena, *text[i]);
    if (target->host) {
        const kiln_target host = kiln_target_copy(target->host, arena);
        copy.host = kiln_arena_copy(arena, &host, sizeof host);
    }
    return copy;
}

bool kiln_target_is_software(const kiln_target *target) {
    return row_of(target->kind)->form->is_software;
}

bool kiln_target_same_head(const kiln_target *wanted, const kiln_target *device,
                           kiln_strbuf *out_reason) {
    if (kiln_str_equal(wanted->triple, device->triple)) return true;
    kiln_strbuf_printf(out_reason, "the device is %.*s, not %.*s", KILN_STR_ARG(device->triple),
                       KILN_STR_ARG(wanted->triple));
    return false;
}

bool kiln_target_runs_on(const kiln_target *wanted, const kiln_target *device,
                         kiln_strbuf *out_reason) {
    const kiln_target_form *form = row_of(wanted->kind)->form;
    if (form == row_of(device->kind)->form) return form->runs_on(wanted, device, out_reason);
    kiln_strbuf_printf(out_reason, "the device runs %s code, not %s code",
                       kiln_target_kind_name(device->kind), kiln_target_kind_name(wanted->kind));
    return false;
}

bool kiln_target_serves(const kiln_target *wanted, const kiln_target *device,
                        kiln_strbuf *out_reason) {
    if (!kiln_target_runs_on(wanted, device, out_reason)) return false;
    if (wanted->gpu && wanted->mcpu.size && !kiln_str_equal(wanted->mcpu, device->mcpu)) {
        const kiln_str known = device->mcpu.size ? device->mcpu : device->triple;
        kiln_strbuf_printf(out_reason, "the device is %.*s, not %.*s", KILN_STR_ARG(known),
                           KILN_STR_ARG(wanted->mcpu));
        return false;
    }
    if (wanted->emulated == device->emulated) return true;
    kiln_strbuf_text(out_reason, device->emulated ? "it is emulated: ask for TARGET,emulated"
                                                  : "it is not emulated");
    return false;
}
