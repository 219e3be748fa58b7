#include "base/vta_config.h"

#include <stddef.h>
#include <string.h>

#include "base/integer.h"
#include "base/macros.h"

typedef enum form { FORM_POWER, FORM_ANY } form;

typedef struct key_row {
    const char *key;
    size_t offset; /* in kiln_vta_config */
    uint32_t least, most, usual;
    form form;
} key_row;

static const key_row key_table[] = {
#define X(field, key, least, most, usual, form, doc) \
    {key, offsetof(kiln_vta_config, field), least, most, usual, FORM_##form},
#include "base/vta_config.def"
#undef X
};
#define KEY_COUNT KILN_ARRAY_COUNT(key_table)
#define GROUPED_KEYS 6u /* the first keys are written three in a part */
#define GROUP_KEYS 3u

static const struct {
    const char *name, *config;
} preset_table[] = {
#define X(name, config, doc) {name, config},
#include "base/vta_presets.def"
#undef X
};

static const char *const feature_table[] = {
#define X(NAME, name, doc) [KILN_VTA_##NAME] = name,
#include "base/vta_features.def"
#undef X
};
#define FEATURES_ALL ((1u << KILN_VTA_FEATURE_COUNT) - 1)

static uint32_t *value_of(kiln_vta_config *config, size_t key) {
    return (uint32_t *)((char *)config + key_table[key].offset);
}
static uint32_t value_in(const kiln_vta_config *config, size_t key) {
    return *(const uint32_t *)((const char *)config + key_table[key].offset);
}

/* ---- text to numbers ------------------------------------------------------------------------- */

typedef struct reading {
    kiln_vta_config config;
    bool given[KEY_COUNT], given_features; /* by parts of the text, which may override a preset's */
} reading;

/* Cuts letters and the following number off the front of `rest`; the number may be empty. */
static void cut_key(kiln_str *rest, kiln_str *out_key, kiln_str *out_number) {
    size_t letters = 0;
    while (letters < rest->size && rest->data[letters] >= 'a' && rest->data[letters] <= 'z')
        letters++;
    size_t end = letters;
    while (end < rest->size && rest->data[end] >= '0' && rest->data[end] <= '9') end++;
    *out_key = kiln_str_slice(*rest, 0, letters);
    *out_number = kiln_str_slice(*rest, letters, end);
    *rest = kiln_str_slice(*rest, end, rest->size);
}

static kiln_status set_key(reading *r, size_t key, kiln_str number, kiln_str part) {
    const key_row *row = &key_table[key];
    uint64_t value = 0;
    if (r->given[key])
        return KILN_ERROR(INVALID_ARGUMENT, "'%.*s': %s is given twice", KILN_STR_ARG(part),
                          row->key);
    if (!kiln_str_to_u64(number, &value) || value < row->least || value > row->most ||
        (row->form == FORM_POWER && (value & (value - 1)) != 0))
        return KILN_ERROR(INVALID_ARGUMENT, "'%.*s': %s is %s from %u to %u", KILN_STR_ARG(part),
                          row->key, row->form == FORM_POWER ? "a power of two" : "a number",
                          row->least, row->most);
    *value_of(&r->config, key) = (uint32_t)value;
    r->given[key] = true;
    return KILN_OK;
}

/* "b1i16o16": three keys from `first` on. */
static kiln_status set_group(reading *r, size_t first, kiln_str part) {
    kiln_str rest = part;
    for (size_t i = first; i < first + GROUP_KEYS; i++) {
        kiln_str key, number;
        cut_key(&rest, &key, &number);
        if (!kiln_str_is(key, key_table[i].key))
            return KILN_ERROR(INVALID_ARGUMENT, "'%.*s' wants %s in its place %zu, as %s",
                              KILN_STR_ARG(part), key_table[i].key, i - first + 1,
                              first == 0 ? "b1i16o16" : "i8w8a32");
        kiln_status st = set_key(r, i, number, part);
        if (st) return st;
    }
    if (rest.size)
        return KILN_ERROR(INVALID_ARGUMENT, "'%.*s' has '%.*s' too much", KILN_STR_ARG(part),
                          KILN_STR_ARG(rest));
    return KILN_OK;
}

static kiln_status set_features(reading *r, kiln_str part) {
    const bool all = kiln_str_starts(part, "v2");
    kiln_str rest = kiln_str_slice(part, 2, part.size);
    uint32_t features = all ? FEATURES_ALL : 0;
    if (r->given_features)
        return KILN_ERROR(INVALID_ARGUMENT, "'%.*s': the feature set is given twice",
                          KILN_STR_ARG(part));
    while (rest.size) {
        const char sign = rest.data[0];
        size_t end = 1;
        while (end < rest.size && rest.data[end] != '+' && rest.data[end] != '-') end++;
        kiln_str name = kiln_str_slice(rest, 1, end);
        uint32_t feature = 0;
        while (feature < KILN_VTA_FEATURE_COUNT && !kiln_str_is(name, feature_table[feature]))
            feature++;
        if ((sign != '+' && sign != '-') || feature == KILN_VTA_FEATURE_COUNT) {
            kiln_strbuf known = {0};
            for (size_t i = 0; i < KILN_VTA_FEATURE_COUNT; i++)
                kiln_strbuf_printf(&known, " +%s", feature_table[i]);
            kiln_status st =
                KILN_ERROR(INVALID_ARGUMENT, "'%.*s' has an unknown feature '%.*s'; known:%s",
                           KILN_STR_ARG(part), KILN_STR_ARG(rest), known.data);
            kiln_strbuf_deinit(&known);
            return st;
        }
        features = sign == '+' ? features | 1u << feature : features & ~(1u << feature);
        rest = kiln_str_slice(rest, end, rest.size);
    }
    r->config.features = features;
    r->given_features = true;
    return KILN_OK;
}

static kiln_status unknown_part(kiln_str part) {
    kiln_strbuf known = {0};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(preset_table); i++)
        kiln_strbuf_printf(&known, " %s", preset_table[i].name);
    kiln_strbuf_text(&known, "; b1i16o16, i8w8a32, v1 or v2, and numbers after");
    for (size_t i = GROUPED_KEYS; i < KEY_COUNT; i++)
        kiln_strbuf_printf(&known, " %s", key_table[i].key);
    kiln_status st = KILN_ERROR(INVALID_ARGUMENT, "unknown part '%.*s' of a vta; known:%s",
                                KILN_STR_ARG(part), known.data);
    kiln_strbuf_deinit(&known);
    return st;
}

static kiln_status set_part(reading *r, kiln_str part) {
    kiln_str rest = part, key, number;
    cut_key(&rest, &key, &number);
    if (kiln_str_is(key, "v") && (kiln_str_is(number, "1") || kiln_str_is(number, "2")))
        return set_features(r, part);
    if (kiln_str_is(key, "b")) return set_group(r, 0, part);
    if (kiln_str_is(key, "i")) return set_group(r, GROUP_KEYS, part);
    for (size_t i = GROUPED_KEYS; i < KEY_COUNT; i++)
        if (kiln_str_is(key, key_table[i].key) && !rest.size) return set_key(r, i, number, part);
    return unknown_part(part);
}

/* ---- memories -------------------------------------------------------------------------------- */

static uint32_t tile_bits(const kiln_vta_config *c, kiln_vta_memory memory) {
    switch (memory) {
    case KILN_VTA_UOP: return 32;
    case KILN_VTA_WGT: return c->block_out * c->block_in * c->wgt_bits;
    case KILN_VTA_INP: return c->batch * c->block_in * c->inp_bits;
    case KILN_VTA_ACC: return c->batch * c->block_out * c->acc_bits;
    case KILN_VTA_OUT: return c->batch * c->block_out * c->inp_bits;
    case KILN_VTA_ACC_BYTES: return c->batch * c->block_out * 8;
    case KILN_VTA_MEMORY_COUNT: break;
    }
    return 0;
}

uint32_t kiln_vta_tile_bytes(const kiln_vta_config *config, kiln_vta_memory memory) {
    return tile_bits(config, memory) / 8;
}

uint32_t kiln_vta_tile_count(const kiln_vta_config *config, kiln_vta_memory memory) {
    switch (memory) {
    case KILN_VTA_UOP: return (1u << config->uop_log) / 4;
    case KILN_VTA_WGT:
        return (uint32_t)((UINT64_C(8) << config->wgt_log) / tile_bits(config, memory));
    case KILN_VTA_INP:
        return (uint32_t)((UINT64_C(8) << config->inp_log) / tile_bits(config, memory));
    case KILN_VTA_ACC:
    case KILN_VTA_OUT: /* as many as accumulators */
    case KILN_VTA_ACC_BYTES:
        return (uint32_t)((UINT64_C(8) << config->acc_log) / tile_bits(config, KILN_VTA_ACC));
    case KILN_VTA_MEMORY_COUNT: break;
    }
    return 0;
}

/* ---- validity ------------------------------------------------------------------ */

/* Checks that tiles are whole bytes, and that instructions and micro-ops have enough bits for their
 * numbers (vta/isa.def). */
static kiln_status check_widths(const kiln_vta_config *c) {
    uint32_t depth[KILN_VTA_MEMORY_COUNT];
    for (uint32_t i = 0; i < KILN_VTA_MEMORY_COUNT; i++)
        if (tile_bits(c, (kiln_vta_memory)i) % 8 != 0)
            return KILN_ERROR(INVALID_ARGUMENT, "a tile has %u bits; whole bytes are wanted",
                              tile_bits(c, (kiln_vta_memory)i));
    for (uint32_t i = 0; i < KILN_VTA_MEMORY_COUNT; i++)
        depth[i] = kiln_vta_tile_count(c, (kiln_vta_memory)i);
    static const char *const name[] = {"uop", "wgt", "inp", "acc", "out"};
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(name); i++)
        if (depth[i] < 2 || depth[i] > 1u << 16)
            return KILN_ERROR(INVALID_ARGUMENT,
                              "%s holds %u tiles of %u bytes; a machine has 2 to 65536", name[i],
                              depth[i], kiln_vta_tile_bytes(c, (kiln_vta_memory)i));
    const uint32_t acc = kiln_log2(depth[KILN_VTA_ACC]), inp = kiln_log2(depth[KILN_VTA_INP]),
                   wgt = kiln_log2(depth[KILN_VTA_WGT]), source = acc > inp ? acc : inp;
    if (acc + source + wgt > 32)
        return KILN_ERROR(INVALID_ARGUMENT,
                          "tiles of acc, inp and wgt take %u + %u + %u bits; a micro-op has 32",
                          acc, source, wgt);
    if (acc + source > 22)
        return KILN_ERROR(INVALID_ARGUMENT,
                          "tiles of acc take %u bits as results and %u as sources; an instruction "
                          "of the ALU has 22 for both",
                          acc, source);
    return KILN_OK;
}

kiln_status kiln_vta_config_parse(kiln_str text, kiln_vta_config *out_config) {
    reading r = {0};
    kiln_str rest = text;
    for (size_t i = 0; i < KEY_COUNT; i++) *value_of(&r.config, i) = key_table[i].usual;
    bool has_features = false;
    for (bool first = true; rest.size || first; first = false) {
        kiln_str part = kiln_str_cut(&rest, ',');
        bool is_preset = false;
        for (size_t i = 0; first && i < KILN_ARRAY_COUNT(preset_table); i++) {
            if (!kiln_str_is(part, preset_table[i].name)) continue;
            kiln_status st =
                kiln_vta_config_parse(kiln_str_from(preset_table[i].config), &r.config);
            if (st) return st;
            is_preset = has_features = true;
        }
        kiln_status st = is_preset ? KILN_OK : set_part(&r, part);
        if (st) return st;
    }
    for (size_t i = 0; i < KEY_COUNT; i++)
        if (!value_in(&r.config, i) && key_table[i].least > 0)
            return KILN_ERROR(INVALID_ARGUMENT, "%s is missing, as in %s", key_table[i].key,
                              preset_table[0].config);
    if (!has_features && !r.given_features)
        return KILN_ERROR(INVALID_ARGUMENT, "the feature set is missing: v1 or v2");
    kiln_status st = check_widths(&r.config);
    if (!st) *out_config = r.config;
    return st;
}

/* ---- numbers to text ------------------------------------------------------------------------- */

static void print_features(uint32_t features, kiln_strbuf *out) {
    kiln_strbuf_text(out, features == FEATURES_ALL ? "v2" : "v1");
    for (uint32_t i = 0; features != FEATURES_ALL && i < KILN_VTA_FEATURE_COUNT; i++)
        if (features >> i & 1) kiln_strbuf_printf(out, "+%s", feature_table[i]);
}

void kiln_vta_config_print(const kiln_vta_config *config, kiln_strbuf *out) {
    for (size_t i = 0; i < KEY_COUNT; i++) {
        const uint32_t value = value_in(config, i);
        if (value == key_table[i].usual) continue;
        if (i > 0 && (i >= GROUPED_KEYS || i % GROUP_KEYS == 0)) kiln_strbuf_char(out, ',');
        kiln_strbuf_printf(out, "%s%u", key_table[i].key, value);
    }
    kiln_strbuf_char(out, ',');
    print_features(config->features, out);
}

bool kiln_vta_config_has(const kiln_vta_config *config, kiln_vta_feature feature) {
    return config->features >> feature & 1;
}

bool kiln_vta_config_differs(const kiln_vta_config *a, const kiln_vta_config *b,
                             kiln_strbuf *out_difference) {
    for (size_t i = 0; i < KEY_COUNT; i++) {
        if (value_in(a, i) == value_in(b, i)) continue;
        kiln_strbuf_printf(out_difference, "%s%u, not %s%u", key_table[i].key, value_in(a, i),
                           key_table[i].key, value_in(b, i));
        return true;
    }
    if (a->features == b->features) return false;
    print_features(a->features, out_difference);
    kiln_strbuf_text(out_difference, ", not ");
    print_features(b->features, out_difference);
    return true;
}
