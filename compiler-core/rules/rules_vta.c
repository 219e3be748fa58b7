/* The rules for accelerators of the VTA class, which have few memories and instructions: a product
 * of bytes, and the block that turns its sums into bytes. Other kernels have no schedule here, and
 * the space says why. */
#include "base/macros.h"
#include "compiler-core/facts/loads.h"
#include "compiler-core/facts/nest.h"
#include "compiler-core/rules/vta.h"

/* The block that reads the sums; 0: none, or several. */
static kiln_block follower_of(kiln_program *p, kiln_block sums) {
    kiln_block *reader = KILN_ARENA_ARRAY(p->arena, kiln_block, p->block.count);
    return kiln_buffer_readers(p, p->block.data[sums].buffer, reader) == 1 ? reader[0] : 0;
}

/* Whether the program has other blocks, also on constants: the machine cannot prepare constants. */
static bool does_more(kiln_program *p, const kiln_vta_tiling *t) {
    const kiln_block padding = kiln_vta_padding_of(t);
    bool more = false;
    for (kiln_block b = 1; b < p->block.count; b++)
        more |= !p->block.data[b].removed && b != t->sums && b != t->follower && b != padding;
    return more;
}

static kiln_sketch_result make_product(kiln_sched *s, uint32_t options) {
    kiln_vta_tiling t = {.s = s, .machine = &s->target->vta, .options = options};
    uint32_t reductions;
    if ((options & KILN_VTA_OUT_BESIDE) && (options & KILN_VTA_POSITIONS_BESIDE))
        return kiln_sketch_none("virtual threads are along one axis");
    kiln_sketch_inline(s);
    t.sums = kiln_sketch_main_reduction(s->program, &reductions);
    if (!t.sums) return kiln_sketch_never("there is no reduction");
    if (reductions != 1) return kiln_sketch_never("there are several reductions");
    t.follower = follower_of(s->program, t.sums);
    if (!t.follower) return kiln_sketch_never("no single block turns its sums into bytes");
    kiln_vta_divide_groups(&t);
    const char *reason = kiln_vta_choose_roles(&t);
    if (!reason) reason = kiln_vta_look_at_follower(&t);
    if (!reason && does_more(s->program, &t))
        reason = "it has more blocks than a product and its reader";
    if (reason) return kiln_sketch_never(reason);
    const double cycles = kiln_vta_choose_tile(&t);
    if (cycles == 0) return kiln_sketch_none("no other tile fits into the machine");
    reason = kiln_vta_make_nest(&t);
    if (reason) return kiln_sketch_none(reason);
    kiln_sketch_result made = kiln_sketch_made();
    made.cycles = cycles;
    return made;
}

/* In the order of the bits in vta.h. */
static const char *const product_option[] = {"out inside", "stays", "out side by side",
                                             "positions side by side"};
static const kiln_rule rules[] = {
    {"product", KILN_ARRAY_COUNT(product_option), product_option, make_product}};

const kiln_rule_set kiln_rules_vta = {1, rules};
