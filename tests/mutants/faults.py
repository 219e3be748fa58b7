"""The faults that run.py plants, one at a time: (name, file, text, replacement). The text must occur exactly once in the
file, so that no row outlives the code that it breaks. Every row of a pass table is left out as well."""

FACTS = "compiler-core/facts/"
LOWER = "compiler-core/lower/"
IR = "compiler-core/ir/"

FAULTS = [
    # blocks
    ("the predicate of a block is dropped", LOWER + "blocks.c",
     "return b.predicate ? make_if(p, b.predicate, lowered) : lowered;", "return lowered;"),
    ("a reduction is started in every iteration", LOWER + "blocks.c",
     "make_if(p, is_first(p, &b), init)", "init"),
    ("a reduction is never started", LOWER + "blocks.c",
     "if (b.init && b.combiner != KILN_COMBINE_NONE) {", "if (false) {"),
    ("only the first reduce iterator says that a reduction starts", LOWER + "blocks.c",
     "if (b->iter[i].reduce) all = both(", "if (b->iter[i].reduce && !all) all = both("),
    ("a reduction forgets what it had", LOWER + "blocks.c",
     "if (b.combiner != KILN_COMBINE_NONE)\n", "if (false)\n"),
    ("the index of a store keeps the block's own iterators", LOWER + "blocks.c",
     "index[i] = kiln_expr_substitute(p, b.index[i], replacement);", "index[i] = b.index[i];"),
    # split_prepare
    ("what depends on inputs is prepared", FACTS + "prepare.c",
     "if (node->op == KILN_EXPR_LOAD && !r->constant[node->payload.id]) return false;", ""),
    ("every temp of the prepare program stays its own", LOWER + "split_prepare.c",
     "if (packed) info->role = KILN_ROLE_PACKED;\n        else if", "if"),
    ("what is prepared runs every time as well", LOWER + "split_prepare.c",
     "keep_nests(p, &nests, false);", ""),
    # intrinsics
    ("a target has every instruction", LOWER + "intrinsics.c",
     "if (used && !kiln_intrinsic_runs_on(used, target))", "if (false)"),
    # threads
    ("parallel loops stay where there is one thread", LOWER + "threads.c",
     "if (l->target->threads <= 1) make_serial(l->run);", ""),
    # rewrite
    ("a loop that runs once loses its first value", LOWER + "rewrite.c",
     "kiln_expr_index(p, loop->first)", "kiln_expr_index(p, 0)"),
    ("an if whose condition is false is kept without it", LOWER + "rewrite.c",
     "if (decided && !holds) {", "if (false) {"),
    ("copies keep the loops of the original", LOWER + "rewrite.c",
     "if (renamed[v]) c.replacement[v] = kiln_expr_var(p, renamed[v]);", ""),
    ("copies do not replace the variable", LOWER + "rewrite.c",
     "if (var) c.replacement[*var] = with;", "(void)with;"),
    # place
    ("a temp lives inside a vectorized loop", LOWER + "place.c",
     "a.home = above_vectors(p, a.home);", ""),
    ("a temp is one element too short", LOWER + "place.c",
     "shape->dim[d] = a->inside[d].high - a->inside[d].low + 1;",
     "shape->dim[d] = KILN_MAX(a->inside[d].high - a->inside[d].low, 1);"),
    ("loads of a temp keep their origin", LOWER + "place.c",
     "kiln_lower_rewrite(p, a.alloc, shift_loads, &a);", ""),
    ("an allocation ends before the last child that needs it", LOWER + "place.c",
     "i <= last; i++) {\n        child", "i < last; i++) {\n        child"),
    ("the region of a temp is counted in its own loops only", LOWER + "place.c",
     "kiln_affine *into = sides == INSIDE ? &inner : &outer;", "kiln_affine *into = &inner;"),
    # unswitch
    ("both answers get the loop of the first", LOWER + "unswitch.c",
     "holds ? invariant : kiln_expr_unary(p, KILN_EXPR_NOT, invariant);", "invariant;"),
    ("what changes in the loop is forgotten with what does not", LOWER + "unswitch.c",
     "a->holds ? is_part(p, a->invariant, e)", "a->holds ? is_part(p, e, a->invariant)"),
    ("a condition does not hold where another of its parts may", LOWER + "unswitch.c",
     "kiln_expr_operand(p, parts, 0)) &&", "kiln_expr_operand(p, parts, 0)) ||"),
    # partition
    ("a part begins one iteration late", LOWER + "partition.c",
     "s->first = begin;\n", "s->first = begin + 1;\n"),
    ("a part ends one iteration early", LOWER + "partition.c",
     "s->extent = end - begin;", "s->extent = end - begin - 1;"),
    ("a part is believed to be the part before it", LOWER + "partition.c",
     "kiln_var_set_range(p, s->var, begin, end - 1);", "kiln_var_set_range(p, s->var, begin, begin);"),
    ("what is known of a parallel loop's part is said of all", LOWER + "partition.c",
     "part->range[var] = (kiln_interval){begin[i], end[i] - 1};", "part->range[var] = (kiln_interval){begin[0], end[0] - 1};"),
    ("digits of a shared loop's variable are not looked for", LOWER + "partition.c",
     "part->digit[part->digit_count++] = term;", ""),
    ("a digit goes on under the name of what stood in for it", LOWER + "partition.c",
     "kiln_lower_replace(p, around, stand_in, digit);", ""),
    ("loops are never split", LOWER + "partition.c",
     "if (part.cut_count == 0 || part.too_many", "if (true || part.too_many"),
    ("a loop left over from one that ran once is not split", LOWER + "partition.c",
     "split_tree(part, now == copy ? p->stmt.data[now].child.data[0] : now);",
     "split_tree(part, p->stmt.data[now].kind == KILN_STMT_FOR ? p->stmt.data[now].child.data[0] : now);"),
    # vectors
    ("the rest of a vectorized loop has no condition", LOWER + "vectors.c",
     "if (width != lanes) {", "if (false) {"),
    ("the rest of a vectorized loop starts at the beginning", LOWER + "vectors.c",
     "make_rest(p, loop, s.first + vectors * native, rest, use.registers)", "make_rest(p, loop, s.first, rest, use.registers)"),
    ("the rest of a vectorized loop is left out", LOWER + "vectors.c",
     "if (rest > 0) kiln_stmt_append", "if (false) kiln_stmt_append"),
    ("vectors overlap", LOWER + "vectors.c",
     "kiln_expr_binary(p, KILN_EXPR_MUL, kiln_expr_var(p, outer), kiln_expr_index(p, width))",
     "kiln_expr_binary(p, KILN_EXPR_MUL, kiln_expr_var(p, outer), kiln_expr_index(p, width - 1))"),
    ("vectors lose the loop's first value", LOWER + "vectors.c",
     "at = kiln_expr_binary(p, KILN_EXPR_ADD, at, kiln_expr_index(p, first));", ""),
    # unroll
    ("nothing limits unrolling", LOWER + "unroll.c",
     "s->loop_kind = KILN_LOOP_SERIAL;", ";"),
    # registers
    ("elements of registers may be chosen by any loop", LOWER + "registers.c",
     "if (kind == KILN_LOOP_UNROLL || kind == KILN_LOOP_VECTORIZE) return KILN_OK;", "(void)kind; return KILN_OK;"),
    ("registers are not counted against the target", LOWER + "registers.c",
     "if (!st && live + 1 > c->target->vector_registers)", "if (false)"),
    ("a register is taken for every element", LOWER + "registers.c",
     "return width.width ? (uint32_t)width.width : 1;", "return 1;"),
    # the simplifier, which lowering leans on
    ("a - b counts as a + b", IR + "affine.c",
     "node->op == KILN_EXPR_SUB ? wrap_mul(scale, -1) : scale", "scale"),
    ("at most counts as less than", IR + "simplify.c", "d.constant -= op == KILN_EXPR_LE;", ""),
    ("what can be negative is called negative", IR + "simplify.c",
     "if (range.high < 0) return kiln_expr_int(s->p, KILN_BOOL, 1);",
     "if (range.low < 0) return kiln_expr_int(s->p, KILN_BOOL, 1);"),
    ("of two bounds the looser one is kept", IR + "simplify.c",
     "new < old : new > old", "new > old : new < old"),
    ("the smaller of two is the larger", IR + "simplify.c",
     "if (range.high <= 0) return is_min ? a : b;", "if (range.high <= 0) return is_min ? b : a;"),
    ("a select whose condition is known takes the other side", IR + "simplify.c", "known ? 1 : 2", "known ? 2 : 1"),
    # the front door
    ("packed arguments stand before outputs", LOWER + "lower.c",
     "KILN_ROLE_OUTPUT, KILN_ROLE_PACKED};", "KILN_ROLE_PACKED, KILN_ROLE_OUTPUT};"),
    ("an argument that a program does not touch is named all the same", LOWER + "lower.c",
     "return p && p->buffer.data[b].role != KILN_ROLE_TEMP ? b : 0;", "return p ? b : 0;"),
]

# Tables whose rows are left out one by one: (file, the sources that read it).
TABLES = [
    (LOWER + "lower.def", [LOWER + "lower.c"]),
]
