#include "cli/tune_print.h"

#include <stdio.h>
#include <string.h>

#include "base/stats.h"
#include "base/str.h"
#include "cli/common/bench_turns.h"
#include "compiler-core/core.h"

static const char *text_of(const json_t *object, const char *name) {
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

static double number_of(const json_t *object, const char *name) {
    return json_number_value(json_object_get(object, name));
}

static unsigned count_of(const json_t *object, const char *name) {
    return (unsigned)json_integer_value(json_object_get(object, name));
}

static bool is_set(const json_t *object, const char *name) {
    return json_is_true(json_object_get(object, name));
}

/* ---- tasks ----------------------------------------------------------------------------------- */

static void append_best(const json_t *task, kiln_strbuf *line) {
    const double best_ms = number_of(task, "best_ms"), default_ms = number_of(task, "default_ms");
    const char *algorithm = text_of(task, "algorithm");
    kiln_strbuf_text(line, "  best ");
    kiln_print_time(best_ms * 1e6, line);
    if (number_of(task, "share_of_peak") > 0)
        kiln_strbuf_printf(line, " (%.1f GFLOP/s, %.0f %% of peak)", number_of(task, "gflops"),
                           100 * number_of(task, "share_of_peak"));
    if (default_ms > 0) kiln_strbuf_printf(line, ", %.2fx of the default", default_ms / best_ms);
    if (strcmp(algorithm, kiln_algorithm_name(KILN_ALGORITHM_DIRECT)) != 0)
        kiln_strbuf_printf(line, ", %s (error %.1e)", algorithm, number_of(task, "measured_error"));
    if (is_set(task, "by_hand")) kiln_strbuf_text(line, ", written by hand");
}

static void print_task(const json_t *task) {
    const unsigned trials = count_of(task, "trials");
    kiln_strbuf line = {0};
    kiln_strbuf_printf(&line, "  %-40s %4u trial%s", text_of(task, "label"), trials,
                       trials == 1 ? " " : "s");
    if (number_of(task, "best_ms") > 0)
        append_best(task, &line);
    else
        kiln_strbuf_printf(&line, "  nothing %s; the default schedule is used",
                           trials ? "measured ran right" : "was measured");
    if (*text_of(task, "note")) kiln_strbuf_printf(&line, "; %s", text_of(task, "note"));
    if (*text_of(task, "error")) kiln_strbuf_printf(&line, "; %s", text_of(task, "error"));
    puts(line.data);
    kiln_strbuf_deinit(&line);
}

static void print_done(const json_t *done) {
    size_t i = 0;
    const json_t *task = NULL;
    json_array_foreach(json_object_get(done, "tasks"), i, task) print_task(task);
    printf("%u new trials, %u verified", count_of(done, "measured"), count_of(done, "verified"));
    if (count_of(done, "raced")) printf(", %u stopped early", count_of(done, "raced"));
    printf(", %.1f per second, %.1f s; records in %s\n", number_of(done, "trials_per_s"),
           number_of(done, "wall_s"), text_of(done, "db"));
}

/* ---- the module ------------------------------------------------------------------------------ */

static void print_accuracy(const json_t *accuracy) {
    const double error = number_of(accuracy, "error"), error_max = number_of(accuracy, "error_max");
    const json_t *parts = json_object_get(accuracy, "taken_back"), *part = NULL;
    size_t i = 0;
    if (!is_set(accuracy, "checked")) {
        printf("error of the whole: not known, %s\n", text_of(accuracy, "why_not"));
        return;
    }
    json_array_foreach(parts, i, part)
        printf("  taken back for accuracy: %s: %s, whose own error is %.2g\n",
               text_of(part, "label"), text_of(part, "algorithm"), number_of(part, "error"));
    if (is_set(accuracy, "unnarrowed"))
        printf("  taken back for accuracy: halves between kernels\n");
    if (json_array_size(parts) || is_set(accuracy, "unnarrowed"))
        printf("  with them the error of the whole is %.2g\n", number_of(accuracy, "before"));
    printf("error of the whole, against double precision: %.2g of the largest output, %s %.2g\n",
           error, error <= error_max ? "within the budget of" : "which no schedule brings to",
           error_max);
}

static void print_taken(const json_t *module) {
    const json_t *rows = json_object_get(module, "taken_back"), *row = NULL;
    const unsigned variants = count_of(module, "variants");
    size_t i = 0;
    json_array_foreach(rows, i, row) {
        const size_t tasks = json_array_size(json_object_get(row, "tasks"));
        kiln_strbuf line = {0};
        kiln_strbuf_printf(&line, "  taken back: %s", text_of(row, "label"));
        if (tasks > 1) kiln_strbuf_printf(&line, " and %zu more of its layouts", tasks - 1);
        kiln_strbuf_text(&line, ": inside of the module ");
        kiln_print_time(number_of(row, "tuned_ms") * 1e6, &line);
        kiln_strbuf_text(&line, " tuned, ");
        kiln_print_time(number_of(row, "default_ms") * 1e6, &line);
        kiln_strbuf_text(&line, " by default");
        puts(line.data);
        kiln_strbuf_deinit(&line);
    }
    if (variants)
        printf("  %u variant%s of the module judged, %.1f s in all (%.0f %% of the time)\n",
               variants, variants == 1 ? "" : "s", number_of(module, "turns_s"),
               100 * number_of(module, "turns_share"));
}

/* Default and tuned schedules in turns, as whole modules. */
static void print_turns(const json_t *module) {
    const kiln_bench_pair pair = {.ratio = number_of(module, "ratio"),
                                  .low = number_of(module, "low"),
                                  .high = number_of(module, "high")};
    const json_t *accuracy = json_object_get(module, "accuracy");
    const char *board = text_of(module, "board"), *file = text_of(module, "file");
    const bool tuned = is_set(module, "tuned");
    const int order = kiln_bench_order(&pair);
    print_taken(module);
    print_accuracy(accuracy);
    printf(
        "whole model, interleaved%s%s: default %.4f ms, tuned %.4f ms: %s (%.2fx, 95 %% interval "
        "%.2f to %.2f)\n",
        *board ? " on board " : "", board, number_of(module, "default_ms"),
        number_of(module, "tuned_ms"),
        order > 0   ? "faster"
        : order < 0 ? "slower"
                    : "equally fast",
        pair.ratio, pair.low, pair.high);
    if (tuned && pair.low <= 1)
        printf("module in %s, with the tuned schedules: the error of the default ones is %.2g\n",
               file, number_of(accuracy, "default_error"));
    else
        printf("module in %s%s\n", file,
               tuned        ? ""
               : order == 0 ? ", with the default schedules: the tuned ones are not faster here"
                            : ", with the default schedules, which are faster here");
}

/* Of a module that was not run in turns. */
static void print_sums(const json_t *module) {
    const json_t *accuracy = json_object_get(module, "accuracy"); /* of one that was to be run */
    const bool checked = is_set(accuracy, "checked");
    if (checked) print_accuracy(accuracy);
    if (accuracy)
        printf("not compared with the default schedules as a whole%s: %s\n",
               checked ? "" : ", nor with double precision", text_of(module, "untimed"));
    printf("whole model, the sum of its kernels: default %.4f ms, tuned %.4f ms (%.2fx)\n"
           "module in %s\n",
           number_of(module, "default_ms"), number_of(module, "tuned_ms"),
           number_of(module, "ratio"), text_of(module, "file"));
}

/* ---- several sizes --------------------------------------------------------------------------- */

static void print_size(const json_t *size) {
    printf("%s%s=%lld:\n", count_of(size, "number") ? "\n" : "", text_of(size, "dim"),
           (long long)json_integer_value(json_object_get(size, "size")));
}

void kiln_sizes_print(const json_t *module) {
    const json_t *sizes = json_object_get(module, "sizes"), *size = NULL;
    size_t i = 0;
    printf("%s: %lld bytes, for %s", text_of(module, "module"),
           (long long)json_integer_value(json_object_get(module, "bytes")), text_of(module, "dim"));
    json_array_foreach(sizes, i, size)
        printf("%s %lld", i ? "," : "", (long long)json_integer_value(size));
    printf(is_set(module, "takes_all")
               ? "; rows are independent, so it takes every size up to the largest\n"
               : "; rows may depend on each other, so it takes no other size\n");
}

/* ---- all of them ----------------------------------------------------------------------------- */

void kiln_tune_print(void *tracker, const json_t *result) {
    const char *event = text_of(result, "event"), *job = text_of(result, "job");
    if (strcmp(event, "detached") == 0)
        printf(
            "the tracker has job %s; import its records with: kiln jobs attach %s --tracker %s\n",
            job, job, (const char *)tracker);
    if (strcmp(event, "module") == 0 && json_object_get(result, "low")) print_turns(result);
    if (strcmp(event, "module") == 0 && !json_object_get(result, "low")) print_sums(result);
    if (strcmp(event, "size") == 0) print_size(result);
    if (json_object_get(result, "sizes")) kiln_sizes_print(result);
    if (json_object_get(result, "tasks")) print_done(result); /* all of it, or one size */
}
