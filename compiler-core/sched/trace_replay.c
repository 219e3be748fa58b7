/* Replay: names are resolved, samplers closed, primitives applied. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/macros.h"
#include "base/vec.h"
#include "compiler-core/algorithm/algorithm.h"
#include "compiler-core/sched/nest.h"
#include "compiler-core/sched/prim.h"
#include "compiler-core/sched/replay.h"

/* ---- tilings ---- */

#define SCRATCH_BYTES 2048 /* enough for the divisors of most extents */

/* The divisors of an extent, ascending: below 2^40 there are at most 6720. */
typedef struct divisors {
    uint32_t count;
    int64_t *of;
} divisors;

static int compare_divisors(const void *a, const void *b) {
    const int64_t *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

static divisors divisors_of(int64_t extent, kiln_arena *arena) {
    divisors d = {1, NULL};
    uint32_t capacity = 0;
    d.of = kiln_vec_grow_in(arena, NULL, sizeof *d.of, &capacity, 16);
    d.of[0] = 1;
    for (int64_t prime = 2; extent > 1; prime++) {
        if (prime * prime > extent) prime = extent; /* the rest is prime */
        uint32_t before = d.count;
        for (int64_t power = 1; extent % prime == 0; extent /= prime) {
            power *= prime;
            for (uint32_t i = 0; i < before; i++) {
                if (d.count == capacity)
                    d.of = kiln_vec_grow_in(arena, d.of, sizeof *d.of, &capacity, d.count + 1);
                d.of[d.count++] = d.of[i] * power;
            }
        }
    }
    qsort(d.of, d.count, sizeof *d.of, compare_divisors);
    return d;
}

/* Ordered factorisations without a limit: each power of a prime is distributed over the parts. */
static uint64_t count_unlimited(int64_t extent, uint32_t parts) {
    uint64_t count = 1;
    for (int64_t prime = 2; extent > 1; prime++) {
        if (prime * prime > extent) prime = extent;
        uint64_t ways = 1; /* (power + parts - 1) choose power */
        for (uint64_t power = 1; extent % prime == 0; extent /= prime, power++)
            ways = ways * (power + parts - 1) / power;
        count *= ways;
    }
    return count;
}

uint64_t kiln_tilings_count(int64_t extent, uint32_t parts, int64_t last_max) {
    if (extent < 1 || parts == 0) return 0;
    if (parts == 1) return extent <= last_max;
    if (extent <= last_max) return count_unlimited(extent, parts);
    kiln_arena scratch;
    kiln_arena_init(&scratch, SCRATCH_BYTES);
    divisors last = divisors_of(extent, &scratch);
    uint64_t count = 0;
    for (uint32_t i = 0; i < last.count && last.of[i] <= last_max; i++)
        count += count_unlimited(extent / last.of[i], parts - 1);
    kiln_arena_deinit(&scratch);
    return count;
}

void kiln_tilings_at(int64_t extent, uint32_t parts, int64_t last_max, uint64_t index,
                     int64_t *out_factor) {
    kiln_arena scratch;
    kiln_arena_init(&scratch, SCRATCH_BYTES);
    divisors all = divisors_of(extent, &scratch);
    for (uint32_t i = 0; parts > 1 && i < all.count;) {
        int64_t first = all.of[i];
        uint64_t count =
            extent % first ? 0 : kiln_tilings_count(extent / first, parts - 1, last_max);
        if (index >= count) {
            index -= count;
            i++;
            continue;
        }
        *out_factor++ = first;
        extent /= first;
        parts--;
        i = 0;
    }
    *out_factor = extent;
    kiln_arena_deinit(&scratch);
}

/* ---- resolving operands ---- */

typedef kiln_replay replay;
typedef kiln_replay_result result;

static kiln_status resolve_int(const replay *r, const kiln_operand *operand, int64_t *out) {
    int64_t product = 1;
    if (operand->factor_count == 0)
        return KILN_ERROR(INVALID_ARGUMENT, "\"%.*s\" is no integer", KILN_STR_ARG(operand->text));
    for (uint32_t i = 0; i < operand->factor_count; i++) {
        int64_t factor = operand->factor[i].value;
        uint32_t sampler = operand->factor[i].sampler;
        if (sampler > 0) {
            const result *from = sampler <= r->closed.count ? &r->result[sampler - 1] : NULL;
            if (!from || factor < 0 || (uint64_t)factor >= from->count)
                return KILN_ERROR(INVALID_ARGUMENT,
                                  "an operand refers to a value that no sampler before it gives");
            factor = from->value[factor];
        }
        if (__builtin_mul_overflow(product, factor, &product))
            return KILN_ERROR(INVALID_ARGUMENT, "a product of operands overflows");
    }
    *out = product;
    return NULL;
}

static kiln_status resolve_loop(const replay *r, const kiln_operand *operand, kiln_stmt *out) {
    kiln_str name = operand->text;
    if (name.size == 0 && operand->factor_count == 1 &&
        operand->factor[0].sampler - 1 < r->closed.count)
        name = r->result[operand->factor[0].sampler - 1].place;
    *out = kiln_program_find_loop(r->p, name);
    return *out ? NULL : ILLEGAL("there is no loop %.*s", KILN_STR_ARG(name));
}

static kiln_status resolve(const replay *r, const kiln_instruction *in, kiln_prim_args *out) {
    const char *letter = kiln_prim_operands(in->prim);
    kiln_status st = NULL;
    for (uint32_t i = 0; i < in->operand_count && !st; i++) {
        const kiln_operand *operand = &in->operand[i];
        if (*letter == '\0') return KILN_ERROR(INVALID_ARGUMENT, "too many operands");
        switch (*letter) {
        case 'b':
            out->block = kiln_program_find_block(r->p, operand->text);
            if (!out->block) st = ILLEGAL("there is no block %.*s", KILN_STR_ARG(operand->text));
            break;
        case 'u':
            out->buffer = kiln_program_find_buffer(r->p, operand->text);
            if (!out->buffer) st = ILLEGAL("there is no buffer %.*s", KILN_STR_ARG(operand->text));
            break;
        case 't': out->text = operand->text; break;
        case 'l':
        case 'L':
            if (out->loop_count == KILN_ARRAY_COUNT(out->loop))
                return KILN_ERROR(INVALID_ARGUMENT, "too many loops");
            st = resolve_loop(r, operand, &out->loop[out->loop_count++]);
            break;
        default:
            if (out->integer_count == KILN_ARRAY_COUNT(out->integer))
                return KILN_ERROR(INVALID_ARGUMENT, "too many integers");
            st = resolve_int(r, operand, &out->integer[out->integer_count++]);
            break;
        }
        if (*letter != 'I' && *letter != 'L') letter++;
    }
    if (!st && *letter != '\0' && *letter != 'I' && *letter != 'L')
        st = KILN_ERROR(INVALID_ARGUMENT, "too few operands");
    return st;
}

/* ---- samplers ---- */

static kiln_status choose(replay *r, uint64_t ways, uint64_t *out) {
    if (!r->choose) return KILN_ERROR(FAILED_PRECONDITION, "the decision is open");
    *out = r->choose(r->context, ways);
    KILN_CHECK(*out < ways);
    return NULL;
}

static bool tile_fits(const kiln_instruction *in, int64_t extent, uint32_t parts,
                      int64_t last_max) {
    int64_t product = 1;
    if (in->decision_count != parts || in->decision[parts - 1] > last_max) return false;
    for (uint32_t i = 0; i < parts; i++)
        if (in->decision[i] < 1 || __builtin_mul_overflow(product, in->decision[i], &product))
            return false;
    return product == extent;
}

typedef struct snapping {
    kiln_instruction *in;
    uint32_t parts;
    int64_t last_max;
    divisors all; /* of the extent */
    int64_t factor[KILN_DECISIONS_MAX];
    double least; /* distance of the nearest tiling so far, which is in in->decision */
    int64_t had[KILN_DECISIONS_MAX];
} snapping;

/* Tries every `part`-th factor of `left`, unless the factors before it are already too far away:
 * distances only grow. */
static void snap_part(snapping *s, uint32_t part, int64_t left, double before) {
    bool last = part + 1 == s->parts;
    if (last && left > s->last_max) return;
    for (uint32_t i = 0; i < (last ? 1 : s->all.count); i++) {
        int64_t factor = last ? left : s->all.of[i];
        if (left % factor != 0) continue;
        double ratio = fabs(log2((double)factor / (double)s->had[part]));
        double distance = before + ratio * (part > 0 ? 2 : 1);
        if (distance >= s->least) continue;
        s->factor[part] = factor;
        if (!last) {
            snap_part(s, part + 1, left / factor, distance);
            continue;
        }
        s->least = distance;
        memcpy(s->in->decision, s->factor, sizeof s->factor);
    }
}

/* The tiling nearest to the decision, by ratios of the parts; inner parts, which rules choose with
 * more care, count double. */
static void snap_tile(kiln_instruction *in, int64_t extent, uint32_t parts, int64_t last_max) {
    kiln_arena scratch;
    kiln_arena_init(&scratch, SCRATCH_BYTES);
    snapping s = {.in = in,
                  .parts = parts,
                  .last_max = last_max,
                  .all = divisors_of(extent, &scratch),
                  .least = INFINITY};
    for (uint32_t i = 0; i < parts; i++)
        s.had[i] = i < in->decision_count ? KILN_MAX(in->decision[i], 1) : 1;
    snap_part(&s, 0, extent, 0);
    in->decision_count = parts;
    kiln_arena_deinit(&scratch);
}

static kiln_status close_tile(replay *r, kiln_instruction *in, const kiln_prim_args *args,
                              result *out) {
    int64_t extent = r->p->stmt.data[args->loop[0]].extent;
    int64_t parts = args->integer[0], last_max = args->integer[1];
    if (parts < 1 || parts > KILN_DECISIONS_MAX)
        return KILN_ERROR(INVALID_ARGUMENT, "a tile has 1 to %d parts", KILN_DECISIONS_MAX);
    out->ways = kiln_tilings_count(extent, (uint32_t)parts, last_max);
    if (r->snaps && in->decided && out->ways > 0 &&
        !tile_fits(in, extent, (uint32_t)parts, last_max))
        snap_tile(in, extent, (uint32_t)parts, last_max);
    if (!in->decided) {
        uint64_t index = 0;
        if (out->ways == 0)
            return ILLEGAL("%.*s has no such tiling", LOOP_NAME(r->p, args->loop[0]));
        kiln_status st = choose(r, out->ways, &index);
        if (st) return st;
        kiln_tilings_at(extent, (uint32_t)parts, last_max, index, in->decision);
        in->decision_count = (uint32_t)parts;
    }
    int64_t product = 1;
    bool fits = in->decision_count == (uint32_t)parts;
    for (uint32_t i = 0; i < in->decision_count && fits; i++) {
        fits = in->decision[i] >= 1 && !__builtin_mul_overflow(product, in->decision[i], &product);
        out->value[out->count++] = in->decision[i];
    }
    if (!fits || product != extent)
        return KILN_ERROR(INVALID_ARGUMENT,
                          "the tile does not multiply to the %lld iterations of %.*s",
                          (long long)extent, LOOP_NAME(r->p, args->loop[0]));
    return NULL;
}

static kiln_status close_index(replay *r, kiln_instruction *in, uint64_t ways, result *to,
                               uint64_t *out) {
    to->ways = ways;
    if (r->snaps && in->decided && in->decision_count == 1 && (uint64_t)in->decision[0] >= ways)
        in->decision[0] = (int64_t)ways - 1;
    if (!in->decided) {
        kiln_status st = choose(r, ways, out);
        if (st) return st;
        in->decision_count = 1;
        in->decision[0] = (int64_t)*out;
    }
    if (in->decision_count != 1 || in->decision[0] < 0 || (uint64_t)in->decision[0] >= ways)
        return KILN_ERROR(INVALID_ARGUMENT, "the decision is not one of %llu",
                          (unsigned long long)ways);
    *out = (uint64_t)in->decision[0];
    return NULL;
}

/* Rows of `width` integers follow the first `skip` operands. */
static kiln_status close_row(replay *r, kiln_instruction *in, uint32_t skip, int64_t width,
                             result *out) {
    uint32_t values = in->operand_count - skip;
    if (width < 1 || width > KILN_DECISIONS_MAX || values == 0 || values % (uint32_t)width != 0)
        return KILN_ERROR(INVALID_ARGUMENT, "%u integers make no rows of %lld", values,
                          (long long)width);
    uint64_t row = 0;
    kiln_status st = close_index(r, in, values / (uint32_t)width, out, &row);
    for (uint32_t i = 0; i < (uint32_t)width && !st; i++)
        st = resolve_int(r, &in->operand[skip + (uint32_t)row * (uint32_t)width + i],
                         &out->value[out->count++]);
    return st;
}

static kiln_status close_location(replay *r, kiln_instruction *in, const kiln_prim_args *args,
                                  result *out) {
    kiln_loops location = kiln_block_locations(r->p, args->block);
    uint32_t count = location.count;
    if (args->integer[0] < 0) return KILN_ERROR(INVALID_ARGUMENT, "a negative number of locations");
    if (count > args->integer[0]) count = (uint32_t)args->integer[0];
    uint64_t which = 0;
    kiln_status st = close_index(r, in, (uint64_t)count + 1, out, &which);
    if (st) return st;
    out->value[out->count++] = (int64_t)which;
    if (which > 0) out->place = r->p->var.data[r->p->stmt.data[location.loop[which - 1]].var].name;
    return NULL;
}

static kiln_status close_sampler(replay *r, uint32_t at) {
    kiln_instruction *in = &r->closed.instruction[at];
    kiln_prim_args args = {0};
    kiln_instruction head = *in; /* tables of categories can be longer than kiln_prim_args */
    if (in->prim == KILN_PRIM_CATEGORICAL || in->prim == KILN_PRIM_CHOICE)
        head.operand_count = KILN_MIN(in->operand_count, 2);
    kiln_status st = resolve(r, &head, &args);
    result *out = &r->result[at];
    if (st) return st;
    switch (in->prim) {
    case KILN_PRIM_PERFECT_TILE: st = close_tile(r, in, &args, out); break;
    case KILN_PRIM_CATEGORICAL: st = close_row(r, in, 0, 1, out); break;
    case KILN_PRIM_CHOICE: st = close_row(r, in, 1, args.integer[0], out); break;
    case KILN_PRIM_LOCATION: st = close_location(r, in, &args, out); break;
    default: return KILN_ERROR(INTERNAL, "%s has no way to be closed", kiln_prim_name(in->prim));
    }
    if (!st) in->decided = true;
    return st;
}

/* ---- the whole trace ---- */

static bool is_at_root(const replay *r, const kiln_instruction *in) {
    for (uint32_t i = 0; i < in->operand_count; i++) {
        const kiln_operand *operand = &in->operand[i];
        uint32_t sampler =
            operand->text.size == 0 && operand->factor_count == 1 ? operand->factor[0].sampler : 0;
        if (sampler == 0 || sampler > r->closed.count) continue;
        if (r->closed.instruction[sampler - 1].prim == KILN_PRIM_LOCATION &&
            r->result[sampler - 1].place.size == 0)
            return true;
    }
    return false;
}

static kiln_status begin_with(replay *r, uint32_t at) {
    kiln_prim_args args = {0};
    kiln_status st = resolve(r, &r->closed.instruction[at], &args);
    if (st) return st;
    if (at > 0) return ILLEGAL("the algorithm is chosen before anything is scheduled");
    kiln_algorithm algorithm = kiln_algorithm_find(args.text);
    if (algorithm == KILN_ALGORITHM_COUNT)
        return ILLEGAL("there is no algorithm \"%.*s\"", KILN_STR_ARG(args.text));
    kiln_program *alternative = kiln_algorithm_apply(algorithm, r->te, r->arena);
    if (!alternative)
        return ILLEGAL("%.*s does not apply to %.*s", KILN_STR_ARG(args.text),
                       KILN_STR_ARG(r->te->name));
    kiln_program_make_loops(alternative);
    r->p = alternative;
    return NULL;
}

static kiln_status apply_one(replay *r, uint32_t at) {
    const kiln_instruction *in = &r->closed.instruction[at];
    if (kiln_prim_begins(in->prim)) return begin_with(r, at);
    if (kiln_prim_is_sampler(in->prim)) return close_sampler(r, at);
    if (is_at_root(r, in)) return NULL; /* a location that means: do not move */
    kiln_prim_args args = {0};
    kiln_status st = resolve(r, in, &args);
    if (st) return st;
    return r->ends_early ? kiln_prim_apply_once(r->p, in->prim, &args)
                         : kiln_prim_apply(r->p, in->prim, &args);
}

kiln_replay kiln_replay_begin(const kiln_program *te, kiln_choose choose_one, void *context,
                              kiln_arena *arena) {
    kiln_replay r = {.te = te,
                     .p = kiln_program_copy(te, arena),
                     .choose = choose_one,
                     .context = context,
                     .arena = arena};
    kiln_program_make_loops(r.p);
    return r;
}

kiln_status kiln_replay_step(kiln_replay *r, const kiln_instruction *in) {
    uint32_t at = r->closed.count;
    if (at == KILN_TRACE_INSTRUCTIONS_MAX) return ILLEGAL("the trace has too many instructions");
    if (at == r->closed.capacity) {
        uint32_t capacity = r->closed.capacity;
        r->closed.instruction =
            kiln_vec_grow_in(r->arena, r->closed.instruction, sizeof *r->closed.instruction,
                             &r->closed.capacity, at + 1);
        r->result =
            kiln_vec_grow_in(r->arena, r->result, sizeof *r->result, &capacity, r->closed.capacity);
    }
    r->closed.instruction[at] = *in;
    r->result[at] = (result){.count = 0};
    r->closed.count++;
    kiln_status st = apply_one(r, at);
    if (st) r->closed.count--;
    return st;
}

static kiln_status replay_all(kiln_replay *r, const kiln_trace *trace, kiln_program **out_program,
                              kiln_trace *out_closed) {
    r->ends_early = true;
    for (uint32_t i = 0; i < trace->count; i++) {
        kiln_status st = kiln_replay_step(r, &trace->instruction[i]);
        if (st)
            return kiln_status_note(st, "instruction %u (%s)", i + 1,
                                    kiln_prim_name(trace->instruction[i].prim));
    }
    if (out_closed) *out_closed = kiln_trace_copy(&r->closed, r->arena);
    if (out_program) *out_program = r->p;
    return NULL;
}

kiln_status kiln_trace_replay_choosing(const kiln_trace *trace, const kiln_program *te,
                                       kiln_choose choose_one, void *context, kiln_arena *arena,
                                       kiln_program **out_program, kiln_trace *out_closed) {
    kiln_replay r = kiln_replay_begin(te, choose_one, context, arena);
    return replay_all(&r, trace, out_program, out_closed);
}

static uint64_t choose_randomly(void *context, uint64_t ways) {
    return kiln_rand_below(context, ways);
}

kiln_status kiln_trace_replay(const kiln_trace *trace, const kiln_program *te, kiln_rand *rand,
                              kiln_arena *arena, kiln_program **out_program,
                              kiln_trace *out_closed) {
    return kiln_trace_replay_choosing(trace, te, rand ? choose_randomly : NULL, rand, arena,
                                      out_program, out_closed);
}

kiln_status kiln_trace_replay_snapping(const kiln_trace *trace, const kiln_program *te,
                                       kiln_rand *rand, kiln_arena *arena,
                                       kiln_program **out_program, kiln_trace *out_closed) {
    kiln_replay r = kiln_replay_begin(te, choose_randomly, rand, arena);
    r.snaps = true;
    return replay_all(&r, trace, out_program, out_closed);
}
