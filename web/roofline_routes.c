/* The route for what bounds a target's kernels beside its arithmetic: memory and caches. */
#include "base/alloc.h"
#include "base/figures.h"
#include "base/macros.h"
#include "base/target.h"
#include "web/lists.h"

#define OK 200u

/* A question for a target's rates. */
typedef struct asked {
    kiln_call *call;
    kiln_arena arena;
    kiln_target target;
    kiln_str processor; /* what its figures are kept by */
} asked;

static const struct {
    kiln_figure rate;
    const char *name;
} level_table[] = {
    {KILN_FIGURE_MEMORY_RATE, "memory"},
    {KILN_FIGURE_L3_RATE, "third cache"},
    {KILN_FIGURE_L2_RATE, "second cache"},
    {KILN_FIGURE_L1_RATE, "first cache"},
};

static void add_level(json_t *levels, const char *name, double bytes_per_second) {
    if (bytes_per_second > 0)
        json_array_append_new(
            levels, json_pack("{s:s, s:f}", "name", name, "bytes_per_s", bytes_per_second));
}

/* Takes `levels`. `of`, `source`: NULL where nothing is known. */
static void answer(asked *a, const char *of, const char *source, json_t *levels) {
    const kiln_str target = kiln_call_text(a->call, "target");
    const bool is_known = json_array_size(levels) > 0;
    kiln_http_answer_json(a->call->request, OK,
                          json_pack("{s:s%, s:s?, s:s?, s:o}", "target", target.data, target.size,
                                    "of", is_known ? of : NULL, "source", is_known ? source : NULL,
                                    "levels", levels));
    kiln_arena_deinit(&a->arena);
    kiln_free(a);
}

static kiln_str processor_of(const kiln_target *target, kiln_arena *arena) {
    kiln_strbuf text = {0};
    kiln_target_print_processor(target, &text);
    return kiln_strbuf_end(&text, arena);
}

/* Whether a board has figures of the processor that is asked for. */
static bool find_figures(const asked *a, const kiln_msg_board_row *board, kiln_arena *scratch,
                         kiln_figures *out) {
    kiln_target target;
    if (!board->figures.size) return false;
    kiln_status st = kiln_target_parse(board->target, scratch, &target);
    const bool is_it = !st && kiln_str_equal(processor_of(&target, scratch), a->processor);
    if (is_it) st = kiln_figures_decode(board->figures, out);
    const bool is_read = is_it && !st;
    kiln_status_free(st); /* a board of a later version: nothing is known of it */
    return is_read;
}

/* The tracker keeps one set of figures for each processor, so the first board that has them will
 * do. */
static void on_boards(void *context, const kiln_rows *rows, kiln_status st) {
    asked *a = context;
    kiln_figures figures = {0};
    kiln_arena scratch;
    uint32_t cursor = 0;
    uint64_t at = 0;
    kiln_str id;
    bool found = false;
    if (st) {
        kiln_http_answer_error(a->call->request, st);
        kiln_arena_deinit(&a->arena);
        kiln_free(a);
        return;
    }
    kiln_arena_init(&scratch, 0);
    while (!found && kiln_map_next(&rows->by_id, &cursor, &id, &at)) {
        kiln_msg_board_row board;
        kiln_row_board((const kiln_row *)(uintptr_t)at, 0, &scratch, &board);
        found = find_figures(a, &board, &scratch, &figures);
        kiln_arena_reset(&scratch);
    }
    kiln_arena_deinit(&scratch);
    json_t *levels = json_array();
    for (size_t i = 0; i < KILN_ARRAY_COUNT(level_table); i++)
        add_level(levels, level_table[i].name,
                  kiln_figures_bytes_per_second(&figures, level_table[i].rate));
    answer(a, "core", "measured by a board with this processor", levels);
}

/* Rows that stand for several devices, or only rank schedules, tell nothing of one device. */
static bool is_of_one_device(const kiln_gpu *gpu) {
    return gpu->capability > 0 && !gpu->is_generic && !gpu->is_cpu;
}

void kiln_web_roofline(kiln_call *call) {
    asked *a = kiln_alloc(sizeof *a);
    *a = (asked){.call = call};
    kiln_arena_init(&a->arena, 0);
    kiln_status st = kiln_target_parse(kiln_call_text(call, "target"), &a->arena, &a->target);
    if (st) {
        kiln_http_answer_error(call->request, st);
        kiln_arena_deinit(&a->arena);
        kiln_free(a);
    } else if (a->target.gpu) {
        json_t *levels = json_array();
        if (is_of_one_device(a->target.gpu))
            add_level(levels, "memory", a->target.gpu->memory_rate);
        answer(a, "device", "stated by the maker (base/gpus.def)", levels);
    } else {
        a->processor = processor_of(&a->target, &a->arena);
        kiln_copy_get(call->web->loop, call->person, KILN_ROWS_BOARDS, on_boards, a);
    }
}
