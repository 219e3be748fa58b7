#include "tracker/rights.h"

#include "base/check.h"
#include "base/macros.h"

/* The lowest role with a right. GRANT: given to members one by one. FLEET: administrators only. */
enum {
    LOWEST_VIEWER = KILN_MEMBER_VIEWER,
    LOWEST_MEMBER = KILN_MEMBER_MEMBER,
    LOWEST_OPERATOR = KILN_MEMBER_OPERATOR,
    LOWEST_ADMIN = KILN_MEMBER_ADMIN,
    LOWEST_GRANT = KILN_MEMBER_COUNT,
    LOWEST_FLEET
};

typedef struct right_row {
    const char *name, *text;
    int own, any;
} right_row;

static const right_row right_table[KILN_RIGHT_COUNT] = {
    [KILN_RIGHT_NONE] = {"none", "be connected", KILN_MEMBER_NONE, KILN_MEMBER_NONE},
#define RIGHT(NAME, name, own, any, text) \
    [KILN_RIGHT_##NAME] = {name, text, LOWEST_##own, LOWEST_##any},
#include "tracker/rights.def"
#undef RIGHT
};

bool kiln_right_is_held(const kiln_standing *standing, kiln_right right, bool own) {
    KILN_CHECK((unsigned)right < KILN_RIGHT_COUNT);
    const int lowest = own ? right_table[right].own : right_table[right].any;
    if (standing->all) return true;
    if (lowest == LOWEST_GRANT) return standing->native && standing->role >= KILN_MEMBER_MEMBER;
    if (lowest == LOWEST_FLEET) return standing->rules;
    return standing->rules || (int)standing->role >= lowest;
}

static const struct {
    bool is_there;
    kiln_need need;
} need_table[] = {
#define NEED(MESSAGE, right, scope) \
    [KILN_MSG_##MESSAGE] = {true, {KILN_RIGHT_##right, KILN_NEED_##scope}},
#include "tracker/rights.def"
#undef NEED
};

bool kiln_need_of(kiln_message_type type, kiln_need *out_need) {
    if ((unsigned)type >= KILN_ARRAY_COUNT(need_table) || !need_table[type].is_there) return false;
    *out_need = need_table[type].need;
    return true;
}

const char *kiln_right_name(kiln_right right) { return right_table[right].name; }
const char *kiln_right_text(kiln_right right) { return right_table[right].text; }

kiln_member kiln_right_role(kiln_right right) {
    return (kiln_member)KILN_MIN(right_table[right].any, (int)KILN_MEMBER_COUNT);
}
