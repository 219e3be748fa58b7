/* Judges cost models on recorded trials, with nothing measured:
 *
 *     bench-cost DATABASE...          tables: how well each model ranks the trials of each task
 *     bench-cost --dump DATABASE...   one line a trial: task, nanoseconds, decisions, features
 *     bench-cost --calibrate ...      the same with figures measured here in place of the table's
 *
 * A database (kiln tune --db) gives its tasks and their records. Random searches give the fairest
 * picture. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/sched/trace.h"
#include "db/db.h"
#include "deploy/runtime/calibrate.h"
#include "tests/bench/cost.h"
#include "tests/support/features_autotvm.h"

static char *print_decisions(const kiln_trace *trace) {
    kiln_strbuf text = {0};
    for (uint32_t i = 0; i < trace->count; i++) {
        const kiln_instruction *in = &trace->instruction[i];
        for (uint32_t k = 0; k < in->decision_count; k++)
            kiln_strbuf_printf(&text, "%s%lld",
                               k           ? ","
                               : text.size ? ";"
                                           : "",
                               (long long)in->decision[k]);
    }
    kiln_strbuf_char(&text, '\0');
    return text.data;
}

/* ---- reading --------------------------------------------------------------------------------- */

static void add_trial(cost_task *task, const kiln_trace *trace, const kiln_program *te,
                      const kiln_target *target, double ns, kiln_arena *memory, cost_speed *speed) {
    kiln_arena arena;
    kiln_arena_init(&arena, 1 << 20);
    kiln_program *program = NULL;
    uint64_t begin = kiln_clock_thread_ns();
    kiln_status st = kiln_trace_replay(trace, te, NULL, &arena, &program, NULL);
    uint64_t replayed = kiln_clock_thread_ns();
    if (!st) {
        cost_trial trial = {.ns = ns};
        trial.decisions = print_decisions(trace);
        float *autotvm = KILN_ARENA_ARRAY(memory, float, FEATURES_AUTOTVM_COUNT);
        st = kiln_model_encode(KILN_MODEL_XGBOOST, program, target, &arena, memory, &trial.exact);
        uint64_t computed = kiln_clock_thread_ns();
        features_autotvm_compute(program, target, &arena, autotvm);
        trial.autotvm = (kiln_encoding){.data = autotvm,
                                        .size_bytes = FEATURES_AUTOTVM_COUNT * sizeof *autotvm};
        speed->replay_ns += (double)(replayed - begin);
        speed->features_ns += (double)(computed - replayed);
        speed->count++;
        if (!st) kiln_vec_push(&task->trial, trial);
    }
    kiln_status_free(st); /* a trace of an older version that does not replay is no trial */
    kiln_arena_deinit(&arena);
}

static kiln_status read_task(kiln_db *db, const char *path, kiln_arena *arena,
                             const kiln_db_task *row, cost_data *data) {
    kiln_db_record *record = NULL;
    uint32_t count = 0;
    kiln_program *te = NULL;
    cost_task task = {.name = path, .op = row->op, .key = row->key};
    const kiln_db_filter filter = {.task_key = row->key};
    kiln_status st = kiln_program_parse(row->canonical, arena, &te);
    if (!st) st = kiln_db_records(db, &filter, arena, &record, &count);
    for (uint32_t i = 0; i < count && !st; i++) {
        kiln_trace trace;
        kiln_target target;
        st = kiln_trace_decode(record[i].trace, arena, &trace);
        if (!st) st = kiln_target_parse(record[i].target, arena, &target);
        if (!st) kiln_target_calibrate(&target, &data->calibration);
        if (!st && kiln_str_is(record[i].outcome, "ok"))
            add_trial(&task, &trace, te, &target, record[i].min_ns, arena, &data->speed);
    }
    if (!st && task.trial.count > 0) kiln_vec_push(&data->task, task);
    return kiln_status_note(st, "task %.*s of %s", KILN_STR_ARG(row->op), path);
}

typedef struct task_list {
    kiln_arena *arena;
    KILN_VEC(kiln_db_task) row;
} task_list;

static kiln_status collect_task(void *context, kiln_db_table table, const void *row) {
    (void)table;
    task_list *list = context;
    kiln_db_task task = *(const kiln_db_task *)row;
    task.key = kiln_str_from(kiln_str_dup(list->arena, task.key));
    task.op = kiln_str_from(kiln_str_dup(list->arena, task.op));
    task.canonical = kiln_str_from(kiln_str_dup(list->arena, task.canonical));
    kiln_vec_push(&list->row, task);
    return KILN_OK;
}

static kiln_status read_database(const char *path, kiln_arena *arena, cost_data *data) {
    kiln_db *db = NULL;
    task_list list = {.arena = arena};
    kiln_status st = kiln_db_open(path, KILN_DB_RECORDS, KILN_DB_READ, &db);
    if (!st) st = kiln_db_each(db, KILN_DB_TABLE_TASK, collect_task, &list);
    for (uint32_t i = 0; i < list.row.count && !st; i++)
        st = read_task(db, path, arena, &list.row.data[i], data);
    kiln_vec_deinit(&list.row);
    kiln_db_close(db);
    return st;
}

static void dump(const cost_data *data) {
    for (uint32_t t = 0; t < data->task.count; t++)
        for (uint32_t i = 0; i < data->task.data[t].trial.count; i++) {
            const cost_trial *trial = &data->task.data[t].trial.data[i];
            printf("%s %.9g %s", data->task.data[t].name, trial->ns, trial->decisions);
            for (uint32_t f = 0; f < trial->exact.features->count; f++)
                printf(" %.6g", (double)((const float *)trial->exact.data)[f]);
            printf("\n");
        }
}

int main(int argc, char **argv) {
    bool calibrates = argc > 1 && strcmp(argv[1], "--calibrate") == 0;
    argc -= calibrates;
    argv += calibrates;
    bool dumps = argc > 1 && strcmp(argv[1], "--dump") == 0;
    if (argc < 2 + dumps) {
        fprintf(stderr, "usage: bench-cost [--calibrate] [--dump] DATABASE...\n");
        return 2;
    }
    kiln_arena arena;
    kiln_arena_init(&arena, 1 << 20);
    cost_data data = {0};
    if (calibrates) data.calibration = kiln_calibrate_core().calibration;
    kiln_status st = NULL;
    for (int i = 1 + dumps; i < argc && !st; i++) st = read_database(argv[i], &arena, &data);
    if (!st && dumps) dump(&data);
    if (!st && !dumps) cost_judge(&data);
    fprintf(stderr, "replay %.1f us, features %.1f us a candidate\n",
            data.speed.replay_ns * 1e-3 / KILN_MAX(data.speed.count, 1),
            data.speed.features_ns * 1e-3 / KILN_MAX(data.speed.count, 1));
    if (st) fprintf(stderr, "%s\n", kiln_status_text(st));
    int code = kiln_code_exit(kiln_status_code(st));
    kiln_status_free(st);
    kiln_arena_deinit(&arena);
    return code;
}
