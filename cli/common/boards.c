#include "cli/common/boards.h"

#include "base/identity.h"

kiln_status kiln_boards_parse_on(const char *on, kiln_arena *process, kiln_msg_job_spec *spec) {
    kiln_str rest = kiln_str_from(on);
    spec->labels.item = KILN_ARENA_ARRAY(process, kiln_msg_label, KILN_MESSAGES_LABELS);
    for (bool first = true; rest.size; first = false) {
        kiln_str value = kiln_str_cut(&rest, ',');
        if (first && kiln_str_find_char(value, '=') == value.size) {
            spec->key = value;
            continue;
        }
        kiln_str key = kiln_str_cut(&value, '=');
        if (!key.size || !value.size || spec->labels.count == KILN_MESSAGES_LABELS)
            return KILN_ERROR(INVALID_ARGUMENT,
                              "--on %s: write the board's key, or labels as K=V, or both, "
                              "comma-separated, %u labels at most",
                              on, KILN_MESSAGES_LABELS);
        spec->labels.item[spec->labels.count++] = (kiln_msg_label){key, value};
    }
    return KILN_OK;
}

typedef struct fleet_count {
    uint32_t real, emulated; /* devices that run the target, here or away */
} fleet_count;

static bool is_asked_for(const kiln_msg_board_row *board, const kiln_msg_job_spec *spec) {
    if (spec->key.size && !kiln_str_equal(spec->key, board->key) &&
        !kiln_str_equal(spec->key, board->node))
        return false;
    uint32_t found = 0;
    for (uint32_t i = 0; i < spec->labels.count; i++)
        for (uint32_t k = 0; k < board->labels.count; k++)
            found += kiln_str_equal(spec->labels.item[i].key, board->labels.item[k].key) &&
                     kiln_str_equal(spec->labels.item[i].value, board->labels.item[k].value);
    return found >= spec->labels.count;
}

static kiln_status count_target(const kiln_target *target, kiln_str text, kiln_arena *process,
                                fleet_count *count) {
    kiln_target device;
    kiln_strbuf reason = {0};
    kiln_status st = kiln_target_parse(text, process, &device);
    if (!st && kiln_target_runs_on(target, &device, &reason))
        *(device.emulated ? &count->emulated : &count->real) += 1;
    kiln_strbuf_deinit(&reason);
    return st;
}

static kiln_status count_board(const kiln_target *target, const kiln_msg_board_row *board,
                               kiln_arena *process, fleet_count *count) {
    kiln_status st = count_target(target, board->target, process, count);
    for (uint32_t i = 0; !st && i < board->targets.count; i++)
        st = count_target(target, board->targets.item[i].target, process, count);
    return st;
}

/* Calls `each` with every row of the fleet. */
static kiln_status each_board(kiln_client *client, kiln_arena *process,
                              kiln_status (*each)(void *context, const kiln_msg_board_row *board),
                              void *context) {
    uint32_t offset = 0;
    for (bool more = true; more;) {
        kiln_message question = {.type = KILN_MSG_QUERY, .query = {KILN_TOPIC_FLEET, {0}, offset}};
        kiln_message answer = {0};
        kiln_status st = kiln_client_ask(client, &question, process, &answer);
        if (!st && answer.type != KILN_MSG_ANSWER)
            st = KILN_ERROR(DATA_LOSS, "the tracker answered %s", kiln_message_name(answer.type));
        const kiln_msg_answer *page = &answer.answer;
        for (uint32_t i = 0; !st && i < page->boards.count; i++)
            st = each(context, &page->boards.item[i]);
        if (st) return st;
        offset += page->boards.count;
        more = page->boards.count > 0 && offset < page->total;
    }
    return KILN_OK;
}

typedef struct counting {
    const kiln_target *target;
    const kiln_msg_job_spec *spec;
    kiln_arena *process;
    fleet_count count;
} counting;

static kiln_status count_one(void *context, const kiln_msg_board_row *board) {
    counting *c = context;
    return is_asked_for(board, c->spec) ? count_board(c->target, board, c->process, &c->count)
                                        : KILN_OK;
}

/* Several boards may have one key; each may be named by its node, too. */
static kiln_status try_board(void *context, const kiln_msg_board_row *board) {
    kiln_identity_try(context, board->key, (kiln_str){0});
    kiln_identity_try(context, board->node, (kiln_str){0});
    return KILN_OK;
}

/* Makes the spec's key whole, of which a person may have typed the beginning. One that no board has
 * stays as it is: the tracker knows what to say of it. */
static kiln_status complete_key(kiln_client *client, kiln_msg_job_spec *spec, kiln_arena *process) {
    kiln_identity_search search = {.typed = spec->key, .arena = process};
    if (spec->key.size == 0) return KILN_OK;
    kiln_status st = each_board(client, process, try_board, &search);
    return st || search.count == 0 ? st : kiln_identity_found(&search, "board", &spec->key);
}

kiln_status kiln_boards_settle(kiln_client *client, kiln_target *target, kiln_msg_job_spec *spec,
                               kiln_arena *process, bool *out_emulated) {
    counting c = {.target = target, .spec = spec, .process = process};
    *out_emulated = target->emulated;
    kiln_status st = complete_key(client, spec, process);
    if (st || target->emulated) return st;
    st = each_board(client, process, count_one, &c);
    if (st || c.count.real || !c.count.emulated) return st;
    kiln_strbuf text = {0};
    st = kiln_target_emulated(target, process, target);
    if (st) return st;
    *out_emulated = true;
    kiln_target_print(target, &text);
    spec->target = kiln_str_from(kiln_str_dup(process, kiln_strbuf_view(&text)));
    kiln_strbuf_deinit(&text);
    return KILN_OK;
}

typedef struct looking {
    kiln_str wanted; /* text of a processor */
    kiln_arena *process;
    kiln_figures *figures;
} looking;

/* Without what one machine offers of it. */
static kiln_str processor_text(const kiln_target *target, kiln_arena *process) {
    kiln_strbuf text = {0};
    kiln_target_print_processor(target, &text);
    return kiln_strbuf_end(&text, process);
}

static kiln_status look_at(void *context, const kiln_msg_board_row *board) {
    looking *l = context;
    kiln_target device;
    if (board->figures.size == 0) return KILN_OK;
    kiln_status st = kiln_target_parse(board->target, l->process, &device);
    if (!st && kiln_str_equal(processor_text(&device, l->process), l->wanted))
        st = kiln_figures_decode(board->figures, l->figures);
    return kiln_status_note(st, "board %.*s", KILN_STR_ARG(board->key));
}

kiln_status kiln_boards_figures(const kiln_client_options *options, const kiln_target *target,
                                kiln_arena *process, kiln_figures *out_figures) {
    kiln_client *client = NULL;
    kiln_figures figures = {0};
    looking l = {processor_text(target, process), process, &figures};
    kiln_status st = kiln_client_open(options, process, &client);
    if (!st) st = each_board(client, process, look_at, &l);
    kiln_client_close(client);
    if (!st) *out_figures = figures;
    return st;
}
