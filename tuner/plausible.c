#include "tuner/plausible.h"

#include <math.h>

#include "base/alloc.h"
#include "base/target.h"

struct kiln_plausible {
    kiln_arena scratch;
    bool is_for_known;
    const kiln_plausible_task *known;
    uint32_t known_count;
    /* Of the task that was asked for last: records of one task come together. */
    kiln_strbuf task_key;
    bool is_read, is_of_key;
    double flops, written_bytes;
};

kiln_plausible *kiln_plausible_create(void) {
    kiln_plausible *p = kiln_alloc(sizeof *p);
    kiln_arena_init(&p->scratch, 0);
    return p;
}

kiln_plausible *kiln_plausible_create_for(const kiln_plausible_task *known, uint32_t count) {
    kiln_plausible *p = kiln_plausible_create();
    p->is_for_known = true;
    p->known = known;
    p->known_count = count;
    return p;
}

void kiln_plausible_destroy(kiln_plausible *p) {
    if (!p) return;
    kiln_arena_deinit(&p->scratch);
    kiln_strbuf_deinit(&p->task_key);
    kiln_free(p);
}

static double written_bytes(const kiln_program *te) {
    double bytes = 0;
    for (uint32_t i = 1; i < te->buffer.count; i++) {
        const kiln_buffer_info *buffer = &te->buffer.data[i];
        if (buffer->role == KILN_ROLE_OUTPUT)
            bytes +=
                (double)kiln_shape_count(&buffer->shape) * (double)kiln_dtype_size(buffer->dtype);
    }
    return bytes;
}

/* Keys of another version are made in another way. */
static bool is_of_key(kiln_str key, kiln_str ours) {
    kiln_str version = kiln_str_cut(&(kiln_str){key.data, key.size}, ':'),
             our_version = kiln_str_cut(&(kiln_str){ours.data, ours.size}, ':');
    return !kiln_str_equal(version, our_version) || kiln_str_equal(key, ours);
}

static void take_program(kiln_plausible *p, const kiln_program *te) {
    p->is_read = true;
    p->flops = kiln_program_flops_with_zeros(te);
    p->written_bytes = written_bytes(te);
}

static void find_known(kiln_plausible *p, kiln_str key) {
    for (uint32_t i = 0; i < p->known_count; i++) {
        if (!kiln_str_equal(p->known[i].key, key)) continue;
        p->is_of_key = true;
        take_program(p, p->known[i].te);
        return;
    }
}

static void parse_program(kiln_plausible *p, const kiln_db_task *task) {
    kiln_program *te = NULL;
    kiln_status st = kiln_program_parse(task->canonical, &p->scratch, &te);
    if (!st) {
        p->is_of_key = is_of_key(task->key, kiln_task_key(te, &p->scratch));
        take_program(p, te);
    }
    kiln_status_free(st); /* of another version */
    kiln_arena_reset(&p->scratch);
}

static void read_task(kiln_plausible *p, const kiln_db_task *task) {
    if (kiln_str_equal(kiln_strbuf_view(&p->task_key), task->key)) return;
    kiln_strbuf_reset(&p->task_key);
    kiln_strbuf_str(&p->task_key, task->key);
    p->is_read = false;
    if (p->is_for_known)
        find_known(p, task->key);
    else
        parse_program(p, task);
}

static double bytes_per_second(const kiln_db_record *record, kiln_arena *scratch) {
    kiln_target target;
    kiln_status unknown = kiln_target_parse(record->target, scratch, &target);
    bool is_known = !unknown;
    kiln_status_free(unknown);
    if (!is_known) return INFINITY;
    return target.kind == KILN_TARGET_CPU || target.kind == KILN_TARGET_MICRO
               ? KILN_PLAUSIBLE_CORE_BYTES * KILN_MAX(target.threads, 1)
               : KILN_PLAUSIBLE_DEVICE_BYTES;
}

const char *kiln_plausible_why_not(void *context, const kiln_db_record *record,
                                   const kiln_db_task *task) {
    kiln_plausible *p = context;
    if (!task) return NULL;
    read_task(p, task);
    if (!p->is_read) return NULL;
    if (!p->is_of_key) return "its task's program is not that of the task's key";
    if (fabs(p->flops - record->flops) > 1e-6 * p->flops)
        return "its operations are not those of its task's program";
    if (!kiln_str_is(record->outcome, "ok")) return NULL;
    double most = bytes_per_second(record, &p->scratch);
    kiln_arena_reset(&p->scratch);
    for (size_t i = 0; i < record->samples_ns.count; i++)
        if (p->written_bytes / record->samples_ns.data[i] * 1e9 > most)
            return "it writes its output faster than any such machine";
    return NULL;
}
