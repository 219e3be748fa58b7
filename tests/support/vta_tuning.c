#include "tests/support/vta_tuning.h"

#include <math.h>
#include <stdlib.h>

#define CANDIDATE_ARENA_BYTES ((size_t)1 << 20)

/* ---- the task ---- */

/* Text of the layer's task, as import and passes leave a convolution of `kiln zoo conv:... --int8`:
 * y = i8(min(max((x*w + b) >> 6, 0), 127)), as many images as the machine's batch, channels in
 * whole tiles of the machine. */
static kiln_str task_text(const kiln_vta_layer *layer, const kiln_vta_config *config,
                          kiln_arena *arena) {
    const kiln_vta_conv c = kiln_vta_layer_tiled(layer, config);
    const uint32_t in = c.in * config->block_in, out = c.out * config->block_out, p = c.padding,
                   height = kiln_vta_conv_out_height(&c), width = kiln_vta_conv_out_width(&c);
    kiln_strbuf text = {0};
    kiln_strbuf_printf(&text,
                       "program conv\n"
                       "input x: i8[%u,%u,%u,%u]\n"
                       "constant w: i8[%u,%u,%u,%u]\n"
                       "constant b: i32[%u,1,1]\n",
                       config->batch, in, c.height, c.width, out, in, c.kernel, c.kernel, out);
    if (p)
        kiln_strbuf_printf(&text, "temp pad: i8[%u,%u,%u,%u]\n", config->batch, in,
                           c.height + 2 * p, c.width + 2 * p);
    kiln_strbuf_printf(&text, "temp s: i32[%u,%u,%u,%u]\noutput y: i8[%u,%u,%u,%u]\n",
                       config->batch, out, height, width, config->batch, out, height, width);
    if (p)
        kiln_strbuf_printf(&text,
                           "block pad(n:%u, c:%u, h:%u, v:%u): pad[n, c, h, v] = select("
                           "and(and(%u <= h, h < %u), and(%u <= v, v < %u)), "
                           "x[n, c, h - %u, v - %u], 0i8)\n",
                           config->batch, in, c.height + 2 * p, c.width + 2 * p, p, p + c.height, p,
                           p + c.width, p, p);
    kiln_strbuf_printf(&text,
                       "block conv(n:%u, o:%u, h:%u, v:%u | c:%u, r:%u, q:%u): s[n, o, h, v] sum= "
                       "i32(%s[n, c, h*%u + r, v*%u + q])*i32(w[o, c, r, q]) init 0i32\n"
                       "block out(n:%u, o:%u, h:%u, v:%u): y[n, o, h, v] = "
                       "i8(min(max(shr(s[n, o, h, v] + b[o, 0, 0], 6i32), 0i32), 127i32))\n",
                       config->batch, out, height, width, in, c.kernel, c.kernel, p ? "pad" : "x",
                       c.stride, c.stride, config->batch, out, height, width);
    return kiln_strbuf_end(&text, arena);
}

/* ---- candidates ---- */

static void read_overlap(const kiln_program *p, uint32_t *out_threads, uint32_t *out_stages) {
    *out_threads = *out_stages = 1;
    for (kiln_stmt s = 1; s < p->stmt.count; s++) {
        const kiln_stmt_info *info = &p->stmt.data[s];
        if (info->kind == KILN_STMT_FOR && info->loop_kind == KILN_LOOP_VTHREAD)
            *out_threads = KILN_MAX(*out_threads, (uint32_t)info->extent);
        for (uint32_t i = 0; i < info->attribute.count; i++)
            if (info->attribute.data[i].id == KILN_ATTRIBUTE_PIPELINE)
                *out_stages = KILN_MAX(*out_stages, info->attribute.data[i].row);
    }
}

static double predicted_cycles(const kiln_program *scheduled, const kiln_target *target,
                               kiln_arena *scratch) {
    const kiln_feature_set *set = kiln_features_of(target);
    float *number = KILN_ARENA_ARRAY(scratch, float, set->count);
    set->compute(scheduled, target, scratch, number);
    return exp2((double)number[set->predicted_ns]) * target->vta.clock_mhz / 1e3;
}

static int by_prediction(const void *a, const void *b) {
    const kiln_vta_candidate *x = a, *y = b;
    if (x->cycles != y->cycles) return x->cycles < y->cycles ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

static void predict(kiln_vta_tuning *t, kiln_arena *arena) {
    const uint64_t size = (uint64_t)kiln_space_size(&t->space);
    t->candidate = KILN_ARENA_ARRAY(arena, kiln_vta_candidate, size);
    for (uint64_t i = 0; i < size; i++) {
        kiln_arena scratch;
        kiln_trace trace;
        kiln_program *program;
        kiln_arena_init(&scratch, CANDIDATE_ARENA_BYTES);
        kiln_status st = kiln_space_at(&t->space, i, &scratch, &trace, &program);
        if (!st) {
            kiln_vta_candidate *c = &t->candidate[t->count++];
            c->index = i;
            c->cycles = predicted_cycles(program, &t->target, &scratch);
            read_overlap(program, &c->threads, &c->stages);
        }
        kiln_status_free(st); /* what legality refuses is no candidate */
        kiln_arena_deinit(&scratch);
    }
    if (t->count) qsort(t->candidate, t->count, sizeof *t->candidate, by_prediction);
}

kiln_status kiln_vta_tuning_create(const kiln_vta_layer *layer, const kiln_vta_config *config,
                                   kiln_arena *arena, kiln_vta_tuning *out_tuning) {
    kiln_strbuf name = {0};
    *out_tuning = (kiln_vta_tuning){0};
    kiln_strbuf_text(&name, "vta:");
    kiln_vta_config_print(config, &name);
    kiln_status st = kiln_target_parse(kiln_strbuf_end(&name, arena), arena, &out_tuning->target);
    if (!st) st = kiln_program_parse(task_text(layer, config, arena), arena, &out_tuning->te);
    if (!st) st = kiln_space_create(out_tuning->te, &out_tuning->target, arena, &out_tuning->space);
    if (!st) predict(out_tuning, arena);
    return st;
}

/* ---- by the cycle ---- */

static kiln_status compile(const kiln_vta_tuning *t, const kiln_program *scheduled,
                           kiln_arena *scratch, kiln_vta_compiled *out) {
    kiln_artefact artefact;
    kiln_vta_program program;
    kiln_vta_fault fault;
    read_overlap(scheduled, &out->threads, &out->stages);
    kiln_status st =
        kiln_build_scheduled(t->te, KILN_STR("layer"), scheduled, &t->target, scratch, &artefact);
    if (!st) st = kiln_vta_program_decode(artefact.payload, scratch, &program);
    if (st) return st;
    out->program = artefact.payload;
    out->instructions = program.instruction_count;
    out->stream_bytes = kiln_vta_program_stream_bytes(&program);
    if (!kiln_vta_csim_run(&program, NULL, 0, &(kiln_vta_csim_options){.timing_only = true},
                           scratch, &out->timing, &fault))
        return KILN_ERROR(INTERNAL, "instruction %u: %s", fault.instruction, fault.text);
    return KILN_OK;
}

kiln_status kiln_vta_tuning_default(const kiln_vta_tuning *t, kiln_arena *arena,
                                    kiln_vta_compiled *out_compiled) {
    kiln_trace trace;
    kiln_program *program;
    kiln_status st = kiln_space_default(&t->space, arena, &trace, &program);
    return st ? st : compile(t, program, arena, out_compiled);
}

kiln_status kiln_vta_tuning_at(const kiln_vta_tuning *t, uint64_t index, kiln_arena *arena,
                               kiln_trace *out_trace, kiln_vta_compiled *out_compiled) {
    kiln_program *program;
    kiln_status st = kiln_space_at(&t->space, index, arena, out_trace, &program);
    return st ? st : compile(t, program, arena, out_compiled);
}

/* Takes the candidate's place in `best` where it is faster, or the first. */
static kiln_status try_candidate(const kiln_vta_tuning *t, const kiln_vta_candidate *c,
                                 kiln_arena *arena, kiln_vta_compiled *best) {
    kiln_arena scratch;
    kiln_trace trace;
    kiln_vta_compiled now;
    kiln_arena_init(&scratch, CANDIDATE_ARENA_BYTES);
    kiln_status st = kiln_vta_tuning_at(t, c->index, &scratch, &trace, &now);
    if (!st && (!best->program.size || now.timing.cycles < best->timing.cycles)) {
        *best = now;
        best->program = kiln_str_copy(arena, now.program);
    }
    kiln_arena_deinit(&scratch);
    return st;
}

kiln_status kiln_vta_tuning_best(const kiln_vta_tuning *t, bool alone, uint32_t simulate_count,
                                 kiln_arena *arena, kiln_vta_compiled *out_best) {
    uint32_t taken = 0;
    *out_best = (kiln_vta_compiled){0};
    for (uint32_t i = 0; i < t->count && taken < simulate_count; i++) {
        if (alone && (t->candidate[i].threads > 1 || t->candidate[i].stages > 1)) continue;
        taken++;
        kiln_status st = try_candidate(t, &t->candidate[i], arena, out_best);
        const kiln_code code = kiln_status_code(st);
        if (code && code != KILN_ILLEGAL_SCHEDULE && code != KILN_RESOURCE_EXHAUSTED) return st;
        kiln_status_free(st);
    }
    return out_best->program.size ? KILN_OK
                                  : KILN_ERROR(NOT_FOUND, "no schedule of %u can be built%s", taken,
                                               alone ? " with one thread and one stage" : "");
}
