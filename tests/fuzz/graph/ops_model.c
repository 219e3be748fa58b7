/* Recurrent layers, attention, and operators with graphs of their own. */
#include <string.h>

#include "compiler-core/frontend/onnx/dtype.h"
#include "tests/fuzz/graph/rules.h"

/* ---- recurrent layers ------------------------------------------------------------------------ */

/* X, W, R, then now and then B, sequence_lens and the initial states (of which there are `states`).
 */
static bool draw_recurrent(draw *d, int64_t gates, uint32_t states) {
    int64_t steps = between(d, 1, 4), batch = between(d, 1, 3), features = between(d, 1, 5),
            hidden = between(d, 1, 7);
    const char *direction = word(d, "forward reverse bidirectional");
    int64_t sides = strcmp(direction, "bidirectional") == 0 ? 2 : 1;
    kiln_dtype dtype = draw_dtype(d, opset(d) >= 7 ? T_(F32) | T_(F64) : T_(F32));
    kiln_shape state = {3, {sides, batch, hidden}};
    bool has_states = chance(d, 40);
    feed_of(d, dtype, (kiln_shape){3, {steps, batch, features}}, -1, 1);
    feed_of(d, dtype, (kiln_shape){3, {sides, gates * hidden, features}}, -1, 1);
    feed_of(d, dtype, (kiln_shape){3, {sides, gates * hidden, hidden}}, -1, 1);
    if (chance(d, 60))
        feed_of(d, dtype, (kiln_shape){2, {sides, 2 * gates * hidden}}, -1, 1);
    else
        feed_nothing(d);
    if (chance(d, 30))
        feed_of(d, KILN_I32, (kiln_shape){1, {batch}}, 1, (double)steps);
    else
        feed_nothing(d);
    for (uint32_t s = 0; has_states && s < states; s++) feed_of(d, dtype, state, -1, 1);
    if (has_states && states == 2 && chance(d, 40))
        feed_of(d, dtype, (kiln_shape){2, {sides, 3 * hidden}}, -1, 1);
    set_int(d, "hidden_size", hidden);
    set_text(d, "direction", direction);
    if (chance(d, 20)) set_float(d, "clip", 0.75);
    if (chance(d, 30)) {
        const char *names[6];
        uint32_t each = states == 2 ? 3 : gates == 3 ? 2 : 1, count = each * (uint32_t)sides;
        for (uint32_t i = 0; i < count; i++) names[i] = word(d, "Tanh Sigmoid Relu Softsign");
        set_texts(d, "activations", names, count);
    }
    results(d, states + 1);
    return true;
}

bool draw_rnn(draw *d) { return draw_recurrent(d, 1, 1); }

bool draw_gru(draw *d) {
    if (chance(d, 50)) set_int(d, "linear_before_reset", between(d, 0, 1));
    return draw_recurrent(d, 3, 1);
}

bool draw_lstm(draw *d) { return draw_recurrent(d, 4, 2); }

/* ---- attention ------------------------------------------------------------------------------- */

bool draw_attention(draw *d) {
    int64_t batch = between(d, 1, 2), heads = between(d, 1, 3), share = between(d, 1, 2),
            queries = between(d, 1, 5), keys = between(d, 1, 7), size = 2 * between(d, 1, 4),
            value_size = between(d, 1, 5);
    kiln_dtype dtype = draw_dtype(d, T_(F32) | T_(F64) | T_(F16));
    if (chance(d, 50)) {
        feed_of(d, dtype, (kiln_shape){4, {batch, heads * share, queries, size}}, -2, 2);
        feed_of(d, dtype, (kiln_shape){4, {batch, heads, keys, size}}, -2, 2);
        feed_of(d, dtype, (kiln_shape){4, {batch, heads, keys, value_size}}, -2, 2);
    } else {
        feed_of(d, dtype, (kiln_shape){3, {batch, queries, heads * share * size}}, -2, 2);
        feed_of(d, dtype, (kiln_shape){3, {batch, keys, heads * size}}, -2, 2);
        feed_of(d, dtype, (kiln_shape){3, {batch, keys, heads * value_size}}, -2, 2);
        set_int(d, "q_num_heads", heads * share);
        set_int(d, "kv_num_heads", heads);
    }
    if (chance(d, 30)) feed_of(d, dtype, (kiln_shape){2, {queries, keys}}, -2, 2);
    if (chance(d, 30)) set_int(d, "is_causal", 1);
    if (chance(d, 30)) set_float(d, "scale", 0.5);
    if (chance(d, 20)) set_float(d, "softcap", 2);
    results(d, 1);
    return true;
}

bool draw_rotary_embedding(draw *d) {
    int64_t batch = between(d, 1, 2), heads = between(d, 1, 3), length = between(d, 1, 5),
            size = 2 * between(d, 1, 4);
    kiln_dtype dtype = draw_dtype(d, FLOATS);
    bool flat = chance(d, 40), by_position = chance(d, 50);
    kiln_shape cache = {3, {batch, length, size / 2}};
    if (by_position) cache = (kiln_shape){2, {9, size / 2}};
    feed_of(d, dtype,
            flat ? (kiln_shape){3, {batch, length, heads * size}}
                 : (kiln_shape){4, {batch, heads, length, size}},
            -2, 2);
    feed_of(d, dtype, cache, -1, 1);
    feed_of(d, dtype, cache, -1, 1);
    if (by_position) feed_of(d, KILN_I64, (kiln_shape){2, {batch, length}}, 0, 8);
    if (flat) set_int(d, "num_heads", heads);
    if (chance(d, 50)) set_int(d, "interleaved", between(d, 0, 1));
    results(d, 1);
    return true;
}

/* ---- layers with a state --------------------------------------------------------------------- */

bool draw_linear_attention(draw *d) {
    const int64_t batch = between(d, 1, 2), steps = between(d, 1, 6), heads = between(d, 1, 2),
                  share = between(d, 1, 2), size = between(d, 1, 4), value_size = between(d, 1, 4);
    const kiln_dtype dtype = draw_dtype(d, T_(F32) | T_(F16));
    const int64_t kind = between(d, 0, 3);
    static const char *const name[] = {"linear", "gated", "delta", "gated_delta"};
    feed_of(d, dtype, (kiln_shape){3, {batch, steps, heads * share * size}}, -1, 1);
    feed_of(d, dtype, (kiln_shape){3, {batch, steps, heads * size}}, -1, 1);
    feed_of(d, dtype, (kiln_shape){3, {batch, steps, heads * value_size}}, -1, 1);
    if (chance(d, 50))
        feed_of(d, dtype, (kiln_shape){4, {batch, heads, size, value_size}}, -1, 1);
    else
        feed_nothing(d);
    if (kind == 1 || kind == 3)
        feed_of(d, dtype, (kiln_shape){3, {batch, steps, chance(d, 50) ? heads : heads * size}}, -2,
                0);
    else
        feed_nothing(d);
    if (kind >= 2)
        feed_of(d, dtype, (kiln_shape){3, {batch, steps, chance(d, 50) ? heads : 1}}, 0, 1);
    set_int(d, "q_num_heads", heads * share);
    set_int(d, "kv_num_heads", heads);
    set_text(d, "update_rule", name[kind]);
    if (chance(d, 30)) set_float(d, "scale", 0.5);
    results(d, 2);
    return true;
}

bool draw_causal_conv(draw *d) {
    const int64_t batch = between(d, 1, 2), channels = between(d, 1, 5), length = between(d, 1, 7),
                  taps = between(d, 1, 4);
    const kiln_dtype dtype = draw_dtype(d, T_(F32) | T_(F16));
    feed_of(d, dtype, (kiln_shape){3, {batch, channels, length}}, -2, 2);
    feed_of(d, dtype, (kiln_shape){3, {channels, 1, taps}}, -2, 2);
    if (chance(d, 50))
        feed_of(d, dtype, (kiln_shape){1, {channels}}, -2, 2);
    else
        feed_nothing(d);
    if (chance(d, 50) && taps > 1)
        feed_of(d, dtype, (kiln_shape){3, {batch, channels, taps - 1}}, -2, 2);
    set_text(d, "activation", word(d, "none silu swish"));
    results(d, taps > 1 ? 2 : 1);
    return true;
}

bool draw_tensor_scatter(draw *d) {
    kiln_shape shape = draw_shape(d, 2, 4);
    const int64_t axis = between(d, 1, shape.rank - 1), length = shape.dim[axis],
                  count = between(d, 1, KILN_MIN(length, 4));
    const bool circular = chance(d, 50);
    const kiln_dtype dtype = draw_dtype(d, FLOATS | SIGNED);
    feed_of(d, dtype, shape, 0, 0);
    shape.dim[axis] = count;
    feed_of(d, dtype, shape, 0, 0);
    if (chance(d, 70))
        feed_fixed(d, KILN_I64, (kiln_shape){1, {shape.dim[0]}}, 0,
                   (double)(circular ? length - 1 : length - count));
    set_int(d, "axis", chance(d, 50) ? axis : axis - shape.rank);
    set_text(d, "mode", circular ? "circular" : "linear");
    results(d, 1);
    return true;
}

/* ---- matrices -------------------------------------------------------------------------------- */

bool draw_det(draw *d) {
    const int64_t size = between(d, 1, 5);
    kiln_shape shape = {.rank = (uint32_t)between(d, 0, 2), .dim = {between(d, 1, 3), 2}};
    shape.dim[shape.rank++] = size;
    shape.dim[shape.rank++] = size;
    feed_of(d, draw_dtype(d, T_(F32) | T_(F64)), shape, -2, 2);
    results(d, 1);
    return true;
}

/* ---- graphs in nodes ------------------------------------------------------------------------- */

static message port(draw *d, const char *name, kiln_dtype dtype, const kiln_shape *shape) {
    kiln_arena *arena = d->g->arena;
    message dims = message_of(arena);
    for (uint32_t i = 0; i < shape->rank; i++)
        dims = with_message(dims, 1, with_int(message_of(arena), 1, shape->dim[i]));
    message tensor =
        with_message(with_int(message_of(arena), 1, kiln_onnx_dtype_number(dtype)), 2, dims);
    return with_message(with_text(message_of(arena), 1, name), 2,
                        with_message(message_of(arena), 1, tensor));
}

/* Both branches read a value of the graph around them. */
bool draw_if(draw *d) {
    kiln_arena *arena = d->g->arena;
    const fuzz_value *x = feed(d, &(wanted){T_(F32) | T_(F64), 0, 4, 0, 0});
    message then_graph = with_text(message_of(arena), 2, "then"),
            else_graph = with_text(message_of(arena), 2, "else");
    then_graph = with_message(then_graph, 1, node_of(arena, "Neg", x->name, "t"));
    then_graph = with_message(then_graph, 12, port(d, "t", x->truth.dtype, &x->truth.shape));
    else_graph = with_message(else_graph, 1, node_of(arena, "Abs", x->name, "e"));
    else_graph = with_message(else_graph, 12, port(d, "e", x->truth.dtype, &x->truth.shape));
    d->node->input_count = 0;
    feed_of(d, KILN_BOOL, (kiln_shape){0}, 0, 0);
    feed_same(d, x);
    d->node->hidden_count = 1;
    set_graph(d, "then_branch", then_graph);
    set_graph(d, "else_branch", else_graph);
    results(d, 1);
    return true;
}

/* out = tanh(state) + x */
static message tanh_plus(draw *d, message graph, const char *x) {
    kiln_arena *arena = d->g->arena;
    graph = with_message(graph, 1, node_of(arena, "Tanh", "state", "bounded"));
    return with_message(graph, 1,
                        node_of(arena, "Add", kiln_arena_printf(arena, "bounded %s", x), "next"));
}

bool draw_loop(draw *d) {
    kiln_arena *arena = d->g->arena;
    kiln_shape scalar = {0};
    int64_t trips = between(d, 1, 4);
    feed_int(d, trips);
    kiln_tensor yes = kiln_tensor_create(arena, KILN_BOOL, &scalar);
    kiln_dtype_store_i64(KILN_BOOL, yes.data, 0, 1);
    feed_same(d, &d->g->value[fuzz_graph_fix(d->g, &yes)]);
    const fuzz_value *x = feed(d, &(wanted){T_(F32) | T_(F64), 0, 3, 0, 0});
    message body = with_text(message_of(arena), 2, "body");
    body = with_message(body, 1, node_of(arena, "Identity", "again", "go_on"));
    body = tanh_plus(d, body, "state");
    body = with_message(body, 1, node_of(arena, "Neg", "next", "row"));
    body = with_message(body, 11, port(d, "trip", KILN_I64, &scalar));
    body = with_message(body, 11, port(d, "again", KILN_BOOL, &scalar));
    body = with_message(body, 11, port(d, "state", x->truth.dtype, &x->truth.shape));
    body = with_message(body, 12, port(d, "go_on", KILN_BOOL, &scalar));
    body = with_message(body, 12, port(d, "next", x->truth.dtype, &x->truth.shape));
    body = with_message(body, 12, port(d, "row", x->truth.dtype, &x->truth.shape));
    set_graph(d, "body", body);
    results(d, 2);
    return true;
}

bool draw_scan(draw *d) {
    kiln_arena *arena = d->g->arena;
    const fuzz_value *x = feed(d, &(wanted){T_(F32) | T_(F64), 1, 3, 0, 0});
    kiln_shape step = x->truth.shape;
    const bool batched = opset(d) < 9; /* dimension 0 is the batch, and 1 is scanned */
    if (step.dim[0] > 7 || (batched && (step.rank < 2 || step.dim[1] > 7))) return false;
    d->node->input_count = 0;
    if (batched) feed_nothing(d);
    if (batched) memmove(step.dim + 1, step.dim + 2, (step.rank - 2) * sizeof *step.dim);
    if (!batched) memmove(step.dim, step.dim + 1, (step.rank - 1) * sizeof *step.dim);
    step.rank--;
    feed_of(d, x->truth.dtype, step, -1, 1);
    feed_same(d, x);
    if (batched) memmove(step.dim, step.dim + 1, --step.rank * sizeof *step.dim);
    message body = with_text(message_of(arena), 2, "body");
    body = tanh_plus(d, body, "item");
    body = with_message(body, 1, node_of(arena, "Neg", "next", "row"));
    body = with_message(body, 11, port(d, "state", x->truth.dtype, &step));
    body = with_message(body, 11, port(d, "item", x->truth.dtype, &step));
    body = with_message(body, 12, port(d, "next", x->truth.dtype, &step));
    body = with_message(body, 12, port(d, "row", x->truth.dtype, &step));
    set_graph(d, "body", body);
    set_int(d, "num_scan_inputs", 1);
    results(d, 2);
    return true;
}

/* ---- what folds away ------------------------------------------------------------------------- */

static message one_port(kiln_arena *arena, message graph, uint32_t field, const char *name) {
    return with_message(graph, field, with_text(message_of(arena), 1, name));
}

/* Sequences and optional values are no results of nodes that are drawn: a branch that is taken
 * makes some of `x`, and gives the negatives of x twice, then x. */
bool draw_folded(draw *d) {
    kiln_arena *arena = d->g->arena;
    const fuzz_value *x = feed(d, &(wanted){T_(F32) | T_(F64), 1, 3, 0, 0});
    kiln_shape whole = x->truth.shape;
    const kiln_dtype dtype = x->truth.dtype;
    if (whole.dim[0] > 7) return false;
    whole.dim[0] *= 3;
    const kiln_tensor zero = kiln_tensor_create(arena, KILN_I64, &(kiln_shape){0});
    message item = one_port(arena, with_text(message_of(arena), 2, "item"), 11, "i");
    item = with_message(item, 1, node_of(arena, "Neg", "i", "j"));
    item = with_message(item, 12, port(d, "j", dtype, &(kiln_shape){0}));
    message body = with_text(message_of(arena), 2, "body"), join;
    const char *two = kiln_arena_printf(arena, "%s %s", x->name, x->name);
    body = with_message(body, 5, tensor_message(arena, "zero", &zero));
    message node = with_attr_int(node_of(arena, "SequenceEmpty", "", "s0"), "dtype",
                                 kiln_onnx_dtype_number(dtype));
    body = with_message(body, 1, node);
    body = with_message(body, 1, node_of(arena, "SplitToSequence", x->name, "rows"));
    join = with_attr_int(node_of(arena, "ConcatFromSequence", "rows", "same"), "axis", 0);
    body = with_message(body, 1, join);
    body = with_message(body, 1, node_of(arena, "SequenceInsert", "s0 same", "s1"));
    body = with_message(
        body, 1,
        node_of(arena, "SequenceInsert", kiln_arena_printf(arena, "s1 %s zero", x->name), "s2"));
    body = with_message(body, 1, node_of(arena, "SequenceErase", "s2 zero", "s3"));
    body = with_message(body, 1, node_of(arena, "SequenceAt", "s3 zero", "first"));
    body = with_message(body, 1, node_of(arena, "SequenceLength", "s3", "length"));
    body = with_message(body, 1, node_of(arena, "SequenceConstruct", two, "s4"));
    node = with_attr_graph(node_of(arena, "SequenceMap", "s4", "s5"), "body", item);
    body = with_message(body, 1, node);
    join = with_attr_int(node_of(arena, "ConcatFromSequence", "s5", "both"), "axis", 0);
    body = with_message(body, 1, join);
    body = with_message(body, 1, node_of(arena, "Optional", "first", "maybe"));
    body = with_message(body, 1, node_of(arena, "OptionalHasElement", "maybe", "is_there"));
    body = with_message(body, 1, node_of(arena, "OptionalGetElement", "maybe", "got"));
    join = with_attr_int(node_of(arena, "Concat", "both got", "all"), "axis", 0);
    body = with_message(with_message(body, 1, join), 12, port(d, "all", dtype, &whole));
    message other = with_text(message_of(arena), 2, "other");
    other = with_message(other, 1, node_of(arena, "Identity", x->name, "alone"));
    other = with_message(other, 12, port(d, "alone", dtype, &x->truth.shape));
    d->node->op = "If";
    d->node->input_count = 0;
    const kiln_tensor yes = kiln_tensor_create(arena, KILN_BOOL, &(kiln_shape){0});
    *(uint8_t *)yes.data = 1;
    feed_same(d, &d->g->value[fuzz_graph_fix(d->g, &yes)]);
    feed_same(d, x);
    d->node->hidden_count = 1;
    set_graph(d, "then_branch", body);
    set_graph(d, "else_branch", other);
    results(d, 1);
    peer_may_differ(d, "not every opset has each of them");
    return opset(d) >= 17;
}
