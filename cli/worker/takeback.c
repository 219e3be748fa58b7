#include "cli/worker/takeback.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/macros.h"

/* Less is not worth a variant: of the group's own time, and of the module's. */
#define OWN_SHARE 0.02
#define WHOLE_SHARE 0.002

void kiln_takeback_init(kiln_takeback *t, kiln_arena *arena) {
    *t = (kiln_takeback){.arena = arena};
}

static double loss_of(const kiln_takeback_group *group) {
    return group->tuned_ns - group->default_ns;
}

static bool is_kept(const kiln_takeback *t, const kiln_takeback_group *group) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < group->count; i++)
        for (uint32_t k = 0; k < t->kept.count; k++)
            if (kiln_str_equal(group->task[i], t->kept.data[k])) {
                kept++;
                break;
            }
    return kept == group->count;
}

static int by_loss(const void *a, const void *b) {
    const kiln_takeback_group *x = a, *y = b;
    const double one = loss_of(x), other = loss_of(y);
    if (one != other) return one > other ? -1 : 1;
    return kiln_str_compare(x->task[0], y->task[0]);
}

void kiln_takeback_see(kiln_takeback *t, const kiln_takeback_group *group, uint32_t count,
                       double default_ns) {
    t->loser.count = 0;
    t->all_failed = false;
    for (uint32_t i = 0; i < count; i++) {
        const double least = KILN_MAX(OWN_SHARE * group[i].default_ns, WHOLE_SHARE * default_ns);
        if (loss_of(&group[i]) > least && !is_kept(t, &group[i]))
            kiln_vec_push_in(t->arena, &t->loser, group[i]);
    }
    if (t->loser.count) qsort(t->loser.data, t->loser.count, sizeof *t->loser.data, by_loss);
}

bool kiln_takeback_next(kiln_takeback *t) {
    if (t->loser.count == 0 || t->variants == KILN_TAKEBACK_VARIANTS_MAX) return false;
    t->trying = t->all_failed ? 1 : t->loser.count;
    t->variants++;
    return true;
}

static void print_tasks(const kiln_takeback_group *group, kiln_strbuf *out) {
    for (uint32_t i = 0; i < group->count; i++)
        kiln_strbuf_printf(out, "%.*s\n", KILN_STR_ARG(group->task[i]));
}

void kiln_takeback_print(const kiln_takeback *t, kiln_strbuf *out) {
    for (uint32_t i = 0; i < t->taken.count; i++) print_tasks(&t->taken.data[i], out);
    for (uint32_t i = 0; i < t->trying; i++) print_tasks(&t->loser.data[i], out);
}

void kiln_takeback_judge(kiln_takeback *t, bool faster) {
    KILN_CHECK(t->trying > 0);
    if (faster) {
        for (uint32_t i = 0; i < t->trying; i++)
            kiln_vec_push_in(t->arena, &t->taken, t->loser.data[i]);
        t->loser.count = 0; /* until the variant has been seen */
    } else if (t->trying > 1) {
        t->all_failed = true;
    } else {
        const kiln_takeback_group *first = &t->loser.data[0];
        for (uint32_t i = 0; i < first->count; i++)
            kiln_vec_push_in(t->arena, &t->kept, first->task[i]);
        t->loser.count--;
        memmove(&t->loser.data[0], &t->loser.data[1], t->loser.count * sizeof *t->loser.data);
    }
    t->trying = 0;
}
