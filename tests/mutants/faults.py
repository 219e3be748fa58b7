"""The faults that run.py plants, one at a time: (name, file, text, replacement), and the program that must notice where it
is another than mutants-lowering. The text must occur exactly once in the file, so that no row outlives the code that it
breaks. Every row of a pass table is left out as well."""

FACTS = "compiler-core/facts/"
SCHED = "compiler-core/sched/"
LOWER = "compiler-core/lower/"
IR = "compiler-core/ir/"
CODEGEN = "compiler-core/codegen/"

PROGRAM = "tests/mutants/mutants-lowering"
LAUNCHES = "tests/unit/compiler-core/test-core-lower-launches"
SHADOW = "tests/unit/compiler-core/test-core-ir-loop_shadow"
SHARED = "tests/unit/compiler-core/test-core-lower-shared"
NULL_DEVICE = "tests/unit/compiler-core/test-core-codegen-null_emit"
PRODUCER = "tests/unit/compiler-core/test-core-lower-producer"
LANES = "tests/unit/compiler-core/test-core-codegen-gpu_lanes"
PROGRAMS = [PROGRAM, LAUNCHES, PRODUCER, SHADOW, SHARED, NULL_DEVICE, LANES]
GENERATES = [NULL_DEVICE, LANES]  # whose code generation needs LLVM's table rows, though no test calls them

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
     "if (l->target->threads <= 1 || l->list == KILN_LOWER_GRID || l->list == KILN_LOWER_CORE) make_serial(l->run);", ""),
    # items
    ("parallel loops inside others are shared out too", LOWER + "items.c", "is_at_root(p, s) && ", ""),
    # rewrite
    ("a loop that runs once loses its first value", LOWER + "rewrite.c",
     "kiln_expr_index(p, loop->first)", "kiln_expr_index(p, 0)"),
    ("an if whose condition is false is kept without it", LOWER + "rewrite.c",
     "if (decided && !holds) {", "if (false) {"),
    ("copies keep the loops of the original", LOWER + "rewrite.c",
     "c.replacement[v] = kiln_expr_var(p, renamed[v]);", ""),
    ("copies do not replace the variable", LOWER + "rewrite.c",
     "c.replacement[*var] = with;", "(void)with;"),
    # skip
    ("a sum is not added to where any of its factors may be there", LOWER + "skip.c",
     "p->stmt.data[outer].condition = part;",
     "p->stmt.data[outer].condition = kiln_expr_unary(p, KILN_EXPR_NOT, part);"),
    ("of two parts asked at one place the second is forgotten", LOWER + "skip.c",
     "s->condition = kiln_expr_binary(p, KILN_EXPR_AND, s->condition, part);", ""),
    ("a part is asked outside of a loop that changes it", LOWER + "skip.c",
     "s->loop_kind != KILN_LOOP_PARALLEL &&\n                    !kiln_expr_uses_var(p, part, s->var);",
     "s->loop_kind != KILN_LOOP_PARALLEL;"),
    ("what else a loop does is skipped as well", LOWER + "skip.c",
     "if (!loop && !(parent && s->kind == KILN_STMT_IF)) return at;",
     "if (!loop && !(parent && (s->kind == KILN_STMT_IF || s->kind == KILN_STMT_SEQ))) return at;"),
    ("any filling counts as zero", IR + "zeros.c",
     "kiln_expr_operand(p, term, 2) == kiln_expr_zero(p, (kiln_dtype)node.dtype))", "true)"),
    ("sums are products", IR + "zeros.c",
     "if (node.op != KILN_EXPR_MUL && !keeps_zero(node.op)) return 0;",
     "if (node.op != KILN_EXPR_MUL && node.op != KILN_EXPR_ADD && !keeps_zero(node.op)) return 0;"),
    # place
    ("a temp lives inside a vectorized loop", LOWER + "place.c",
     "kiln_home_outside_vectors(p, a.home)", "a.home"),
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
     "p->var.data[s->var].high = end - 1;", "p->var.data[s->var].high = begin;"),
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
     "return live + 1 > c->target->vector_registers ?", "return false ?"),
    ("a register is taken for every element", LOWER + "registers.c",
     "return width.width ? (uint32_t)width.width : 1;", "return 1;"),
    # the simplifier, which lowering leans on
    ("a - b counts as a + b", IR + "affine.c",
     "node->op == KILN_EXPR_SUB ? kiln_wrap_sub(0, scale) : scale", "scale"),
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

# Groups of threads, barriers, copies and units.
FAULTS += [(name, file, old, new, LAUNCHES) for name, file, old, new in [
    # bind
    ("threads may add to the same element", SCHED + "prim_loop.c",
     "if (!st) st = kiln_iterations_check(p, loop);\n    if (st) return st;\n    p->stmt.data[loop].loop_kind = KILN_LOOP_BIND;",
     "if (st) return st;\n    p->stmt.data[loop].loop_kind = KILN_LOOP_BIND;"),
    ("every loop is bound to one axis", SCHED + "prim_loop.c",
     "p->stmt.data[loop].axis = (uint8_t)axis;", "p->stmt.data[loop].axis = KILN_AXIS_THREAD_X;"),
    ("an initialisation's loops are bound to no axis", SCHED + "prim_place.c", "p->stmt.data[nest].axis = info.axis;", ""),
    # vthread
    ("virtual threads may add to the same element", SCHED + "prim_loop.c",
     "if (!st) st = kiln_iterations_check(p, loop);\n    if (!st) p->stmt.data[loop].loop_kind = KILN_LOOP_VTHREAD;",
     "if (!st) p->stmt.data[loop].loop_kind = KILN_LOOP_VTHREAD;"),
    ("virtual threads share what each makes for itself", LOWER + "vthread.c",
     "if (s->depends[b] && !kiln_lower_tells(", "if (false && !kiln_lower_tells("),
    ("all virtual threads are the first", LOWER + "vthread.c", "if (!uses_var(p, stmt, s->var)) return;", "return;"),
    ("a condition on the virtual thread is forgotten", LOWER + "vthread.c", "if (condition) {", "if (false) {"),
    ("parts of virtual threads lie on one another", LOWER + "place.c",
     "const int64_t size = g->rest.high - g->rest.low + 1;", "const int64_t size = g->rest.high - g->rest.low;"),
    ("a thread may reach into its neighbour's digit", LOWER + "owner.c",
     "d->low.high - d->low.low < d->stride;", "d->low.high - d->low.low <= d->stride;"),
    # launches
    ("the only group of a launch is no group", LOWER + "rewrite.c",
     "if (once && kiln_stmt_level(p, stmt) != KILN_LEVEL_GRID) dissolve(p, stmt);", "if (once) dissolve(p, stmt);"),
    ("several launches share a group's memory", LOWER + "launches.c",
     "if (is_root && seen != KILN_SEEN_BY_DEVICE)", "if (false)"),
    ("a group's memory is each thread's", LOWER + "launches.c", "if (of_thread && seen == KILN_SEEN_BY_GROUP)", "if (false)"),
    ("all groups make one temp", LOWER + "launches.c", "b->scope = KILN_SCOPE_SHARED;", ";"),
    ("all threads make one temp", LOWER + "launches.c", "b->scope = KILN_SCOPE_LOCAL;", "b->scope = KILN_SCOPE_SHARED;"),
    ("a launch is as large in x as in its last axis", LOWER + "launches.c",
     "[axis->dimension] = (uint32_t)loop->extent;", "[0] = (uint32_t)loop->extent;"),
    ("groups of a cluster are not counted along x", LOWER + "launches.c", "launch->grid_size[0] = (uint32_t)groups_x;", ""),
    ("a launch counts more groups than a grid has", LOWER + "launches.c",
     "if (groups_x > (uint64_t)kiln_axes[KILN_AXIS_BLOCK_X].extent_max)", "if (false)"),
    ("clusters are lowered for devices without them", LOWER + "supported.c",
     "(!gpu || gpu->capability < KILN_CLUSTERS_CAPABILITY)", "!gpu"),
    ("temps of a launch end where the last one does", LOWER + "launches.c", "*bytes = KILN_MAX(*bytes, offset + size);", "*bytes = offset + size;"),
    ("a launch does not know what it touches", LOWER + "launches.c", "if (s.kind == KILN_STMT_STORE || s.kind == KILN_STMT_COPY) d->touched[s.buffer] = true;", ""),
    # crossthread
    ("parts are added to themselves", LOWER + "crossthread.c",
     "part_at(t, kiln_expr_binary(p, KILN_EXPR_ADD, q, kiln_expr_index(p, apart)));", "part_at(t, q); (void)apart;"),
    ("an odd part is forgotten", LOWER + "crossthread.c", "parts > 1 && !are_lanes(t, parts); parts -= parts / 2)", "parts > 1 && !are_lanes(t, parts); parts /= 2)"),
    ("halves overlap", LOWER + "crossthread.c", "make_step(t, parts / 2, parts - parts / 2)", "make_step(t, parts - parts / 2, parts / 2)"),
    ("the sum of all parts is one of them", LOWER + "crossthread.c",
     "kiln_lower_put_before(p, t->nest, make_step(", "(void)(p, t->nest, make_step("),
    ("parts are summed though others read them", LOWER + "crossthread.c", "((tree_sum *)context)->fails = true;", "(void)context;"),
    ("parts of one sum are summed again for the next", LOWER + "crossthread.c",
     "t->fails |= p->stmt.data[at].kind == KILN_STMT_FOR;", ";"),
    # lanes
    ("a lane exchanges with the wrong one", LOWER + "crossthread.c", ".row = away});", ".row = away ^ 3});"),
    ("a step of the lanes is left out", LOWER + "crossthread.c", "away > 0; away /= 2)", "away > 1; away /= 2)"),
    ("lanes keep what they had", LOWER + "crossthread.c", "make_store(p, own, combine(t, own, other))", "make_store(p, own, own)"),
    ("lanes add in another order", LOWER + "crossthread.c", "uint32_t away = (uint32_t)parts / 2; away > 0; away /= 2)",
     "uint32_t away = 1; away < (uint32_t)parts; away *= 2)"),
    ("lanes without a part take another one's", LOWER + "crossthread.c", "load = make_if_below(p, q, parts, load);",
     "load = make_store(p, own, part_at(t, kiln_expr_binary(p, KILN_EXPR_FLOORMOD, q, kiln_expr_index(p, parts))));"),
    ("all lanes store their sum", LOWER + "crossthread.c", "make_if_below(p, q, 1, last)", "last"),
    ("any number of parts is for lanes", LOWER + "crossthread.c", "(parts & (parts - 1)) != 0 ||", ""),
    ("warps need not be whole", LOWER + "crossthread.c", "threads_below(p, launch, t->axis) % KILN_WARP_LANES == 0 &&", ""),
    ("values of any size are exchanged", LOWER + "crossthread.c", "kiln_dtype_size(p->buffer.data[t->part].dtype) != KILN_EXCHANGE_BYTES)", "false)"),
    # pipeline
    ("a stage too few", LOWER + "pipeline.c", "kiln_pipeline_expand(l, 2, kiln", "kiln_pipeline_expand(l, 1, kiln"),
    ("a stage of copies too few", LOWER + "pipeline.c", "kiln_pipeline_expand(l, ahead + 1, kiln", "kiln_pipeline_expand(l, ahead, kiln"),
    ("a wait too late", LOWER + "pipeline.c", ".pending = (uint8_t)(r->ahead - 1);", ".pending = r->ahead;"),
    ("a slot is freed before all threads have left it", LOWER + "pipeline.c",
     "kiln_stmt_append(p, body, kiln_stmt_create(p, KILN_STMT_BARRIER));", ""),
    ("nothing waits for copies", LOWER + "pipeline.c", "append_by_threads(p, body, r, KILN_STMT_WAIT);", ""),
    ("groups are not counted where nothing is fetched", LOWER + "pipeline.c",
     "append_by_threads(p, body, r, KILN_STMT_COMMIT);", "if (part->fetches) append_by_threads(p, body, r, KILN_STMT_COMMIT);"),
    ("copies go into the slot that is worked on", LOWER + "pipeline.c", "part->works ? r->ahead : 0", "0"),
    ("the last iterations are left out", LOWER + "pipeline.c", "append_span(l, &r, all, &last);", "(void)last;"),
    ("the first thread waits for all", LOWER + "pipeline.c", "if (r->threads[a] == 1) continue;", "continue;"),
    ("a fetch that is no copy is one of a pipeline of copies", LOWER + "pipeline.c", "if (copies == 0)", "if (false)"),
    ("a fill value is stored over what was copied", LOWER + "copies.c",
     "put_under(p, stmt, kiln_expr_unary(p, KILN_EXPR_NOT, condition), fill);", "put_under(p, stmt, kiln_expr_int(p, KILN_BOOL, 1), fill);"),
    ("what is not there is copied", LOWER + "copies.c", "put_under(p, copy, condition, there);",
     "put_under(p, copy, kiln_expr_int(p, KILN_BOOL, 1), there);"),
    ("what is stored ahead goes into the slot that is worked on", LOWER + "pipeline.c",
     "store = kiln_lower_copy(p, fetch, var, with);",
     "store = kiln_lower_copy(p, fetch, var, var && kiln_expr_get(p, with)->op == KILN_EXPR_ADD ? kiln_expr_var(p, *var) : with);"),
    ("nothing is fetched ahead but what is there already", LOWER + "pipeline.c",
     "append_fetch(l, s.var, kiln_expr_binary(p, KILN_EXPR_ADD, var, kiln_expr_index(p, 1)), steady, stores);",
     "append_fetch(l, s.var, var, steady, stores);"),
    ("the last iteration does the work of the one before", LOWER + "pipeline.c",
     "kiln_expr_index(p, s.first + s.extent - 1));", "kiln_expr_index(p, s.first + s.extent - 2));"),
    ("what the loop makes is fetched ahead", LOWER + "pipeline.c",
     "if (l->made[kiln_load_buffer(p, load)]) l->staged[0] = true;", ""),
    ("the first iteration fetches nothing", LOWER + "pipeline.c",
     "append_first(l, s.var, kiln_expr_index(p, s.first), all);", ""),
    ("all rounds fetch the same", LOWER + "pipeline.c",
     "kiln_expr_binary(p, KILN_EXPR_ADD, kiln_expr_index(p, s.first), done)", "((void)done, kiln_expr_index(p, s.first))"),
    ("the last round fetches nothing", LOWER + "pipeline.c", "if (rest > 0) {", "if (false) {"),
    ("a round stores before it loads", LOWER + "pipeline.c", "append_parts(p, stmt, NULL, 0, round, stores);",
     "append_parts(p, stmt, NULL, 0, stores, round);"),
    ("threads have one register of what they fetch", LOWER + "pipeline.c", "count *= s.extent;", ""),
    ("more stages than a target has are two", LOWER + "pipeline.c", "if (stages > 2 && !copies)", "if (false)"),
    ("a unit's registers are each thread's", LOWER + "registers.c", "gpu->unit_registers / threads", "gpu->unit_registers"),
    # barriers
    ("what a nest writes may be touched without a barrier", LOWER + "barriers.c",
     "(one->writes || other->writes) &&", "(one->writes && other->writes) &&"),
    ("loads need no barrier", LOWER + "barriers.c", "a->index_count = kiln_load_index(p, load, a->index);", "a->buffer = 0;"),
    ("stores need no barrier", LOWER + "barriers.c",
     "if (s.kind == KILN_STMT_STORE && o->ordered[s.buffer]) {", "if (false) {"),
    ("a barrier is left out", LOWER + "barriers.c", "kiln_lower_put_before(o->p, nest, kiln_stmt_create(o->p, KILN_STMT_BARRIER));", ""),
    ("a barrier stands behind its nest", LOWER + "rewrite.c",
     "const uint32_t at = kiln_nest_position(p, seq, stmt);", "const uint32_t at = kiln_nest_position(p, seq, stmt) + 1;"),
    ("a nest does not meet the iteration before", LOWER + "barriers.c", "if (s.kind == KILN_STMT_FOR) {", "if (false) {"),
    ("a barrier that may not be reached orders what is behind it", LOWER + "barriers.c",
     "i < before.item.count && may_run; i++)", "i < before.item.count && false; i++)"),
    ("slots of a ring are others in all iterations", LOWER + "barriers.c", "if (!is_before && is_of_both(", "if (is_of_both("),
    ("any two slots of a ring are others", LOWER + "barriers.c", "&apart) && apart % n != 0;", "&apart) && apart != n + 1;"),
    ("what threads touch in turn is each one's own", LOWER + "barriers.c",
     "!kiln_lower_is_owned(p, group, b);", "kiln_lower_is_owned(p, group, b);"),
    ("a temp that all threads touch becomes each one's own", LOWER + "launches.c",
     "kiln_lower_is_owned(p, kiln_lower_group(p, grid), buffer))))", "true)))"),
    ("a barrier is moved into a branch", LOWER + "unify.c",
     "kiln_expr guard = guard_of(u, &merged);",
     "kiln_expr guard = guard_of(u, &merged); kiln_stmt seq = p->stmt.data[merged.stmt].parent; "
     "if (guard && p->stmt.data[seq].kind == KILN_STMT_SEQ && p->stmt.data[seq].child.data[0] == merged.stmt) merged.stmt = seq;"),
    ("conditions on data may stand around nests", LOWER + "barriers.c",
     "if (s.kind == KILN_STMT_IF && kiln_lower_reads(p, s.condition))", "if (false)"),
    # unify
    ("every thread runs every nest", LOWER + "unify.c", "if (nest->extent[a] >= u->extent[a]) continue;", "continue;"),
    ("a nest lacks its last thread", LOWER + "unify.c",
     "kiln_expr_index(p, nest->extent[a]))", "kiln_expr_index(p, nest->extent[a] - 1))"),
    ("a launch has the threads of its last nest", LOWER + "unify.c",
     "u->extent[s->axis] = KILN_MAX(u->extent[s->axis], s->extent);", "u->extent[s->axis] = s->extent;"),
    ("threads share what is their own", LOWER + "unify.c", "if (touching < 2) return KILN_OK;", "return KILN_OK;"),
    ("an index need not tell the thread", LOWER + "owner.c",
     "if (!kiln_decoding_determines(", "if (false && !kiln_decoding_determines("),
    ("threads of two nests may have other elements", LOWER + "owner.c", "(o->started && from != o->origin[d])", "false"),
    ("a thread has one element of what is its own", LOWER + "owner.c",
     "(uint64_t)(o.inside[k].high - o.inside[k].low)", "0"),
    ("threads in neighbouring parts may overlap by one", "compiler-core/facts/decode.c", "stride <= reach", "stride < reach"),
    ("a group may have any number of threads", LOWER + "unify.c", "if (threads > KILN_GROUP_THREADS_MAX)", "if (false)"),
    # place
    ("a group's memory is allocated by each thread", LOWER + "place.c", "return seen == KILN_SEEN_BY_THREAD ? 0 : threads;", "return 0;"),
    ("a group's memory has room for one thread", LOWER + "place.c", "bool shares = a->is_lifted &&", "bool shares = false &&"),
    ("a group's memory has room for threads that do not run", LOWER + "place.c",
     "KILN_MIN(range[var->payload.id].high, end - 1)", "KILN_MAX(range[var->payload.id].high, end - 1)"),
]]
# Places of shared temps; the interpreter knows who lies on a byte.
FAULTS += [(name, file, old, new, SHARED) for name, file, old, new in [
    ("temps that live together lie on the same bytes", LOWER + "shared.c", "!live_together(sh, of, other))", "true)"),
    ("a temp is dead behind its last reader without a barrier", LOWER + "shared.c", "return between && (around || !loop);",
     "(void)between; return around || !loop;"),
    ("no barrier parts a temp from the next iteration", LOWER + "shared.c", "return between && (around || !loop);", "(void)around; return between;"),
    ("a barrier in a branch parts temps", LOWER + "shared.c", "if (s->kind == KILN_STMT_IF || (", "if ((")  ,
    ("a temp is alive in one iteration of its loop", LOWER + "shared.c", "if (sh->p->stmt.data[at].kind == KILN_STMT_FOR) alive = at;", "(void)at;"),
    ("copies under way keep nothing alive", LOWER + "shared.c", "return of->has_copies;", "return false;"),
    ("places of shared temps are not aligned", LOWER + "shared.c", "offset = KILN_ALIGN_UP(other->end, alignment);", "offset = other->end + 0 * alignment;"),
    ("a launch counts the bytes of all its temps", LOWER + "launches.c", "offset = b->is_placed ? b->offset", "offset = false ? b->offset"),
    ("nobody knows whose the bytes are", IR + "loop_shadow.c", "w->holder[sh->first_cell[element] + c] = buffer;", ";"),
    ("temps on the same bytes do not race", IR + "loop_shadow.c", "if (!sh->first_cell)\n        return touch", "if (sh->first_cell) return KILN_OK; else\n        return touch"),
    ("copies land in their own temp only", IR + "loop_shadow.c", "return in_a->first_cell && in_b->first_cell &&", "return false && in_a->first_cell && in_b->first_cell &&"),
]]

FAULTS += [(name, file, old, new, SHADOW) for name, file, old, new in [
    ("barriers order nothing", IR + "loop_eval.c", "g->level->instance = ++ex->w.instances;", ""),
    ("threads may disagree about a barrier", IR + "loop_eval.c", "if (runs[t] != runs[first])", "if (!ex->meets[stmt] && runs[t] != runs[first])"),
    ("threads share their own memory", IR + "loop_shadow.c", "sh->copies > 1 ? w->thread : 0;", "0;"),
    ("copies land at once", IR + "loop_shadow.c", "kiln_vec_push_in(w->arena, &w->flight, f);",
     "write_element(w, s->buffer, (size_t)element, value); (void)f;"),
    ("a wait leaves one group less in flight", IR + "loop_shadow.c", "f.group + pending <", "f.group + pending <="),
    ("a wait is for copies of all tokens", IR + "loop_shadow.c", "f.token == token &&", ""),
    ("what is being copied may be overwritten", IR + "loop_shadow.c",
     "(is_write && f->from == buffer && f->from_element == element)", "false"),
    ("a lane gets what it has", IR + "loop_eval.c", "enter_thread(ex, g, t - lane * stride + (lane ^ away) * stride);", "enter_thread(ex, g, t);"),
    ("lanes may disagree about an exchange", IR + "loop_eval.c", "if (runs[t] != runs[first])", "if (ex->meets[stmt] && runs[t] != runs[first])"),
    ("lanes that are not there have values", IR + "loop_eval.c", "if ((lane ^ away) >= lanes)", "if (false)"),
    ("what is being copied to may be touched", IR + "loop_shadow.c",
     "share_bytes(w, f->to, f->to_element, buffer, element) ||", ""),
    ("nobody need wait for a copy", IR + "loop_shadow.c", "if (w->flight.count == 0) return KILN_OK;", "return KILN_OK;"),
    ("copies are never committed", IR + "loop_shadow.c", "w->committed[w->thread][token]++;", ""),
    ("tokens do not say what was done", IR + "loop_shadow.c",
     "*known = KILN_MAX(*known, sent->time[u]);", "(void)known, (void)sent;"),
    ("time stands still", IR + "loop_shadow.c", "w->clock[s->from].time[s->from]++;", ""),
    ("tokens may be left over", IR + "loop_shadow.c",
     "if (w->queue[from][to].taken != w->queue[from][to].sent.count)", "if (false)"),
]]

# The back end of the null device, its launches in the manifest and the device.
NULL_EMIT, NULL_RUN = "compiler-core/codegen/null_emit.c", "deploy/runtime/null_run.c"
FAULTS += [(name, file, old, new, NULL_DEVICE) for name, file, old, new in [
    ("threads do not meet", NULL_EMIT, "case KILN_STMT_BARRIER: put(e, KILN_NULL_BARRIER, 0, 0, 0, 0, 0); return;",
     "case KILN_STMT_BARRIER: return;"),
    ("threads take themselves for groups", NULL_EMIT, "(uint16_t)(KILN_LAUNCH_DIMS + d)", "d"),
    ("loops that have not begun are in scope", NULL_EMIT, "e.var_level[i] = NOT_IN_SCOPE;", "e.var_level[i] = 0;"),
    ("temps between launches lie on one another", NULL_EMIT, "add_buffer(e, temp[i].buffer, place, argument, temp[i].offset);",
     "add_buffer(e, temp[i].buffer, place, argument, 0);"),
    ("shared memory is each thread's", NULL_EMIT, "launch->shared_count, KILN_NULL_SHARED, 0);",
     "launch->shared_count, KILN_NULL_LOCAL, 0);"),
    ("a launch takes its arguments in another order", "compiler-core/build.c", "arg[out->arg_count++] = k;",
     "arg[out->arg_count++] = lowered->arg_count - 1 - k;"),
    ("a launch has groups of one size in all directions", "compiler-core/build.c", "to[i].group[d] = launch->group_size[d];",
     "to[i].group[d] = launch->group_size[0];"),
    ("all threads have one memory", NULL_RUN, "ready->local + index * ready->local_stride +", "ready->local +"),
    ("a thread runs on beyond a barrier", NULL_RUN, "t->at = (uint32_t)(s - ready->step) + 1;\n    return STOPPED_AT_BARRIER;", "NEXT;"),
]]

# Exchanges between lanes, in text and in PTX.
FAULTS += [(name, file, old, new, LANES) for name, file, old, new in [
    ("each lane is built to have its own value", "compiler-core/codegen/walk_stmt.c", "if (exchange) value =", "if (false) value ="),
    ("text exchanges with the neighbour", "compiler-core/codegen/c_cuda.c", "kiln_c_whole(b, v), lanes);", "kiln_c_whole(b, v), 1u); (void)lanes;"),
    ("PTX has another exchange", "compiler-core/codegen/llvm_warp.c", "llvm.nvvm.shfl.sync.bfly.i32", "llvm.nvvm.shfl.sync.down.i32"),
]]

# Pitches and XORs of shared memory: where addresses are made, and where layouts say what they are.
SIMPLIFY, LAYOUT = "tests/unit/compiler-core/test-core-ir-simplify", "tests/unit/base/test-base-layout"
PRIM_MEMORY = "tests/unit/compiler-core/test-core-sched-prim_memory"
PROGRAMS += [SIMPLIFY, LAYOUT, PRIM_MEMORY]
FAULTS += [
    ("what is stored is not swizzled", NULL_EMIT,
     "address to = address_of(e, kiln_buffer_offset(e->p, s->buffer, s->index));",
     "const kiln_layout swizzled = e->p->buffer.data[s->buffer].layout; e->p->buffer.data[s->buffer].layout = (kiln_layout){0}; "
     "address to = address_of(e, kiln_buffer_offset(e->p, s->buffer, s->index)); e->p->buffer.data[s->buffer].layout = swizzled;",
     NULL_DEVICE),
    ("addresses are not XORed", IR + "simplify.c", "at = kiln_expr_binary(p, KILN_EXPR_XOR, at, by);", "(void)by;", SIMPLIFY),
    ("every row is XORed alike", IR + "simplify.c", "kiln_expr_index(p, piece.xor_divisor));", "kiln_expr_index(p, 1 << 20));", SIMPLIFY),
    ("an XOR leaves the row", "base/layout.c", "if (piece->xor_modulus) places = KILN_ALIGN_UP(places, piece->xor_modulus);", "", LAYOUT),
    ("rows have no pitch", "base/layout.c", "return places + piece->pitch;", "return places;", LAYOUT),
    ("a dimension may be XORed with what depends on it", "base/layout.c", "if (piece->xor_dim == piece->dim || (layout->piece[j].dim == piece->xor_dim && layout->piece[j].xor_modulus))", "if (false)", LAYOUT),
    ("memory of any kind is swizzled", SCHED + "prim_memory.c",
     "if (buffer->role != KILN_ROLE_TEMP || buffer->scope != KILN_SCOPE_SHARED)", "if (false)",
     PRIM_MEMORY),
]

# Tables whose rows are left out one by one: (file, the sources that read it, the program that must notice).
TABLES = [
    (LOWER + "lower.def", [LOWER + "lower.c"], PROGRAM),
]

FAULTS += [(name, file, old, new, PRODUCER) for name, file, old, new in [
    ("a slot fewer than tokens", LOWER + "producer.c", "kiln_pipeline_expand(l, slots, number", "kiln_pipeline_expand(l, slots - 1, number"),
    ("a slot is full before its copies are begun", LOWER + "producer.c",
     "kiln_pipeline_append(p, body, l->fetch.data, l->fetch.count, s.var, now);\n    kiln_stmt_append(p, body, token(p, KILN_STMT_TOKEN_PUSH, load, compute, number, slots));",
     "kiln_stmt_append(p, body, token(p, KILN_STMT_TOKEN_PUSH, load, compute, number, slots));\n    kiln_pipeline_append(p, body, l->fetch.data, l->fetch.count, s.var, now);"),
    ("nothing is left of what was pushed at the start", LOWER + "producer.c", "append_ends(p, all, KILN_STMT_TOKEN_POP, count, slots);", ""),
    ("fetches are of no unit", LOWER + "producer.c", "mark_stores(p, *fetch, unit);", "(void)unit;"),
    ("what other threads see is written in the loop", LOWER + "producer.c", "if (shared || has_steps(", "if (has_steps("),
    ("barriers order the two sides", LOWER + "barriers.c", "if (a->is_producer || b->is_producer) return false;", ""),
    ("what is shared by two sides is anew in each iteration", LOWER + "place.c",
     "outside_tokens(p, buffer, kiln_home_outside_vectors(p, a.home));", "kiln_home_outside_vectors(p, a.home);(void)outside_tokens;"),
]]

# Fetches that are boxes of tensor maps, and clusters whose groups copy for each other.
BOX = "tests/unit/compiler-core/test-core-codegen-gpu_box"
PROGRAMS += [BOX]
GENERATES += [BOX]
FAULTS += [(name, file, old, new, BOX) for name, file, old, new in [
    ("a box may lie in any order in shared memory", LOWER + "boxes.c", "x->place != place_in_boxes(f, x->at, map))", "false)"),
    ("all groups of a cluster fetch the same", LOWER + "boxes.c", "all &= !kiln_expr_uses_var(", "all |= kiln_expr_uses_var("),
    ("all threads of a producer come to a slot that one fills", CODEGEN + "walk_token.c", "producers = launch->boxes_alone ? 1 : threads,", "producers = threads,"),
    ("slots are empty though another group reads them", CODEGEN + "walk_token.c", "groups = launch->has_shared_boxes ? launch->cluster : 1;", "groups = 1;"),
    ("a group leaves while others come to its tokens", CODEGEN + "walk_token.c",
     "if (launch->has_shared_boxes) w->b->ops->cluster_sync(w->b);\n}", "}"),
    ("pieces of a box begin at one place", CODEGEN + "walk_copy.c", "const int64_t further = (int64_t)i * (int64_t)map->box[0];", "const int64_t further = 0;"),
    ("each group copies the first part for all", CODEGEN + "walk_copy.c", "target->pointer = w->b->ops->offset(w->b, target->pointer, bytes);", "(void)bytes;"),
]]

FAULTS += [(name, file, old, new, SHADOW) for name, file, old, new in [
    ("a token that came back orders nothing among threads", IR + "loop_shadow.c", "t->time <= w->returned[unit_of_touch(w, now)]", "false"),
    ("a push says nothing about copies", IR + "loop_shadow.c", "if (!st) st = land_of_unit(w, (kiln_unit)s->from);", "(void)land_of_unit;"),
    ("any number is a token's", IR + "loop_shadow.c", "if (number < 0 || number == wanted) return KILN_OK;", "if (number < 0 || number != wanted + 1000) return KILN_OK;"),
]]

# Accelerator cores: what a call waits for, and what it is.
CORE = "tests/unit/compiler-core/test-core-codegen-vta_emit"
PROGRAMS += [CORE]
GENERATES += [CORE]
FAULTS += [(name, file, old, new, CORE) for name, file, old, new in [
    ("what an engine still reads is overwritten", CODEGEN + "vta_order.c", "if (writes) want(o, u->read);", ""),
    ("a token is given a call too early", CODEGEN + "vta_order.c",
     "near == of ? call : first_that_knows", "near == of ? call - (call > 0) : first_that_knows"),
    ("what is left of a call goes over its first piece again", CODEGEN + "vta_order.c", "nest->base.dst += loop->step.dst;", ""),
    ("a reset stands behind what needs it", CODEGEN + "vta_improve.c", "s->used_by[reset - 1] = s->now + 1;", "s->used_by[reset - 1] = s->now + 2;"),
    ("a store that saturates takes every bound off", CODEGEN + "vta_chain.c",
     "if (o.imm == (o.op == KILN_VTA_ALU_MIN ? BYTE_MAX : BYTE_MIN)) continue;", "continue;"),
    ("accumulators are read that became outputs", CODEGEN + "vta_chain.c", "if (h.is_wrong)", "if (false)"),
    ("no zeros stand before a row", CODEGEN + "vta_match.c", ".before = (uint32_t)low,", ".before = 0,"),
    ("places of a pipeline do not take turns", CODEGEN + "vta_calls.c", "at->next = (at->next + 1) % at->count;", ""),
    ("virtual threads of a core share their places", LOWER + "vthread.c", "mark_stores(s, s->body);", ""),
]]

# The machine's library: instructions, streams, checkers, simulators.
VTA = "vta/"
ISA = "tests/unit/vta/test-vta-isa"
BUILDER = "tests/unit/vta/test-vta-builder"
FOLD = "tests/unit/vta/test-vta-fold"
CHECK = "tests/unit/vta/test-vta-check"
MACHINE = "tests/unit/vta/test-vta-core"
CYCLES = "tests/unit/vta/test-vta-csim"
RANDOM = "tests/unit/vta/test-vta-random"
PROGRAMS += [ISA, BUILDER, FOLD, CHECK, MACHINE, CYCLES, RANDOM]
FAULTS += [(name, VTA + file, old, new, program) for program, name, file, old, new in [
    (ISA, "a negative number spills into the next field", "isa.c", "(kiln_vta_field_get(in, f) & mask_of(f->bits)) << used", "(uint64_t)kiln_vta_field_get(in, f) << used"),
    (ISA, "a negative number loses its sign", "isa.c", "if (is_signed && value >> (f->bits - 1)) value |= ~(uint32_t)mask_of(f->bits);", ""),
    (ISA, "weights of a micro-op overlap its sources", "isa.c", "uop.wgt << (sizes->acc_bits + sizes->src_bits)", "uop.wgt << (sizes->acc_bits + sizes->inp_bits)"),
    (ISA, "a store may write rows over one another", "isa.c", "is_store && in->y_size > 1 && in->x_stride < in->x_size", "false"),
    (FOLD, "loops are one though their weights are apart", "fold.c", "outer->step.src == n * inner->step.src && outer->step.wgt == n * inner->step.wgt;", "outer->step.src == n * inner->step.src;"),
    (FOLD, "sums come again before the pipeline has written them", "fold.c", "repeats_early(&f, rules->distance) ||", ""),
    (BUILDER, "tiles behind a block of zeros overwrite it", "copy.c", "(above + rows + below) * columns);", "(rows + below) * columns);"),
    (BUILDER, "what a token says is known before it was taken", "builder.c", "if (!is_new) return;", "if (!is_new || token->from > engine) return;"),
    (BUILDER, "micro-ops leave that the ALU still reads", "emit.c", "w->alu_promised[kernel] == 0 && w->alu_used[kernel] <= w->alu_known;", "w->alu_promised[kernel] == 0;"),
    (CHECK, "what another engine still reads may be overwritten", "check.c", "if (u->read[e] && !is_ordered(s, e, u->read[e]))", "if (false)"),
    (CHECK, "what nothing wrote may be read", "check.c", "if (!u->written)\n", "if (false)\n"),
    (CHECK, "a chain drains as fast as one operation", "check.c", "KILN_VTA_ALU_PIPELINE + s->count - 1;", "KILN_VTA_ALU_PIPELINE;"),
    (MACHINE, "every store saturates", "core.c", "if (!saturate) return value;", ""),
    (MACHINE, "a shift by a negative number goes to the right", "core.c", "(int32_t)((uint32_t)a << -b)", "a >> -b"),
    (RANDOM, "a GEMM that overwrites does so in each round", "core.c", "const bool first = in->first && (in->dst_out || i == 0) && (in->dst_in || j == 0);", "const bool first = in->first;"),
    (RANDOM, "an engine does not wait for the one behind it", "fsim.c", "(!step->pop[KILN_VTA_BEHIND] || r->tokens[engine][KILN_VTA_BEHIND])", "true"),
    (CYCLES, "zeros behind a row take no time", "csim.c", "m->walk += m->zeros_behind;", ""),
    (CYCLES, "a chain takes as long as one operation", "csim.c", "KILN_VTA_ALU_PIPELINE + step->count - 1", "KILN_VTA_ALU_PIPELINE"),
    (CYCLES, "a channel serves the same engine as before", "csim.c", "c->last = chosen;", ""),
]]

# The compiler's part of it: what is scheduled, what becomes calls, what is added to sums, where kernels are.
COMPILED = "tests/unit/compiler-core/test-core-codegen-vta_compiled"
RULES = "tests/unit/compiler-core/test-core-rules-rules_vta"
INTEGERS = "tests/unit/compiler-core/test-core-passes-pass_integers"
PACK = "tests/unit/deploy/test-deploy-pack_loop"
PROGRAMS += [COMPILED, RULES, INTEGERS, PACK]
GENERATES += [COMPILED, RULES, INTEGERS, PACK]
FAULTS += [(name, file, old, new, program) for program, name, file, old, new in [
    (RULES, "virtual threads need no accumulators of their own", "compiler-core/rules/vta_sizes.c", "results = stages * p.threads * vectors_of(&p)", "results = stages * vectors_of(&p)"),
    (RULES, "a part takes the accumulator that streams keep", "compiler-core/rules/vta_sizes.c", "kiln_vta_tile_count(machine, KILN_VTA_ACC) -\n kiln_vta_config_has(machine, KILN_VTA_ENGINE);", "kiln_vta_tile_count(machine, KILN_VTA_ACC);"),
    (RULES, "zeros around one element are steps of main memory", CODEGEN + "vta_index.c", "shape->dim[d] == 1 ? kiln_expr_index(m->p, 0) : at[d];", "at[d];"),
    (RULES, "sums become bytes though they may be more", "compiler-core/rules/vta_chain.c", "range.low < INT8_MIN || range.high > INT8_MAX", "range.low < INT8_MIN"),
    (COMPILED, "what is added to results is a bias", "compiler-core/rules/vta_chain.c", "!(follower->from[from].iters & follower->spatial & ~along);", "along != 0;"),
    (COMPILED, "what the threads of a core share is not loaded", LOWER + "vthread.c", "kiln_lower_put_before(p, run[0], child[i]);", ""),
    (COMPILED, "a padding has nothing behind it", CODEGEN + "vta_match.c", ".behind = (uint32_t)(kiln_vta_loop_extent(m, i) - low - rounds)", ".behind = 0"),
    (COMPILED, "loops of a call are one though their sources are apart", CODEGEN + "vta_index.c", "outer->step.src == inner->step.src * inner->extent &&", ""),
    (CORE, "main memory orders nothing", CODEGEN + "vta_order.c", "use(o, &o->buffer[call->copy.buffer], writes);", ""),
    (COMPILED, "what the compiler makes has no place among buffers", CODEGEN + "vta_order.c", "const uint32_t buffers = calls->buffer.count + calls->made.count;", "const uint32_t buffers = calls->buffer.count;"),
    (COMPILED, "the ALU's sources order nothing", CODEGEN + "vta_calls.c", "if (multiplies || kiln_vta_call_has_sources(call)) visit_loops(", "if (multiplies) visit_loops("),
    (CORE, "operations on other results are joined", CODEGEN + "vta_improve.c", "!kiln_vta_call_has_sources(next) && has_same_results(&call->nest, &next->nest) &&", "!kiln_vta_call_has_sources(next) &&"),
    (INTEGERS, "halves go up that should go to the even neighbour", "compiler-core/passes/pass_integers.c", "if (nearest && (n->fraction == 0 || !add_number(n, 0.5))) return false;", "if (nearest && !add_number(n, 0.5)) return false;"),
    (INTEGERS, "half a unit is lost where there is a bias", "compiler-core/passes/pass_integers.c", "(((const int32_t *)was.data)[i] + plus)", "((const int32_t *)was.data)[i]"),
    (INTEGERS, "sums beyond the limit are in integers though nothing cuts them", "compiler-core/passes/pass_integers.c", "apply_cut(r, out) && !is_wide(out);", "apply_cut(r, out);"),
    (PACK, "what the host computed does not get to the device", "deploy/pack/pack_device.c", "add_copy(m->p, name, of->here, to);", ""),
    (PACK, "results of the host are on the device", "deploy/pack/pack_device.c", "root_of(m, step->arg[i])->is_hosts = true;", ";"),
]]
