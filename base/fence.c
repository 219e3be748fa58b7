#include "base/fence.h"

#include "base/macros.h"

static const char *const text_of[] = {
#define X(name, text, doc) text,
#include "base/fences.def"
#undef X
};

void kiln_fences_print(uint32_t fences, kiln_strbuf *out) {
    const char *before = "";
    for (uint32_t i = 0; i < KILN_FENCE_COUNT; i++) {
        if (!(fences & 1U << i)) continue;
        kiln_strbuf_printf(out, "%s%s", before, text_of[i]);
        before = ",";
    }
}

/* 0: there is none of that name. */
static uint32_t bit_of(kiln_str text) {
    for (uint32_t i = 0; i < KILN_FENCE_COUNT; i++)
        if (kiln_str_is(text, text_of[i])) return 1U << i;
    return 0;
}

static kiln_status unknown(kiln_str text) {
    kiln_strbuf known = {0};
    kiln_fences_print(KILN_FENCES_ALL, &known);
    kiln_status st = KILN_ERROR(INVALID_ARGUMENT, "there is no fence \"%.*s\"; there are: all,%s",
                                KILN_STR_ARG(text), known.data);
    kiln_strbuf_deinit(&known);
    return st;
}

kiln_status kiln_fences_parse(kiln_str text, uint32_t *out_fences) {
    uint32_t fences = 0;
    do {
        const kiln_str word = kiln_str_trim(kiln_str_cut(&text, ','));
        const uint32_t bits = kiln_str_is(word, "all") ? KILN_FENCES_ALL : bit_of(word);
        if (!bits) return unknown(word);
        fences |= bits;
    } while (text.size > 0);
    *out_fences = fences;
    return NULL;
}

uint32_t kiln_fences_known(kiln_str text) {
    uint32_t fences = 0;
    while (text.size > 0) fences |= bit_of(kiln_str_cut(&text, ','));
    return fences;
}
