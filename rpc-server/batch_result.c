#include "rpc-server/batch_result.h"

#include <math.h>

#include "base/text.h"

static void print_text(const char *name, kiln_str text, kiln_strbuf *out) {
    kiln_strbuf_printf(out, ",\"%s\":\"", name);
    kiln_text_append_json(out, text);
    kiln_strbuf_char(out, '"');
}

static void print_int(const char *name, uint64_t value, kiln_strbuf *out) {
    kiln_strbuf_printf(out, ",\"%s\":%llu", name, (unsigned long long)value);
}

/* Messages carry finite numbers only. */
static void print_real(const char *name, double value, kiln_strbuf *out) {
    kiln_strbuf_printf(out, ",\"%s\":%.17g", name, isfinite(value) ? value : 0.0);
}

static void print_content(const kiln_batch_board *board, const kiln_msg_env *env,
                          kiln_strbuf *out) {
    kiln_strbuf_printf(out, "device=%.*s\nfirmware=%.*s\ngovernor=%.*s\nthrottle_bits=%u\n",
                       KILN_STR_ARG(board->device), KILN_STR_ARG(board->firmware),
                       KILN_STR_ARG(env->governor), env->throttle_bits);
}

void kiln_batch_fingerprint(const kiln_batch_board *board, const kiln_msg_env *env,
                            char out_id[KILN_HASH128_TEXT]) {
    kiln_strbuf content = {0};
    print_content(board, env, &content);
    kiln_hash128_print(kiln_hash128_of(content.data, content.size), out_id);
    kiln_strbuf_deinit(&content);
}

void kiln_batch_print_board(const kiln_batch_board *board, const kiln_msg_env *env,
                            kiln_strbuf *out) {
    char id[KILN_HASH128_TEXT];
    kiln_strbuf content = {0};
    kiln_batch_fingerprint(board, env, id);
    print_content(board, env, &content);
    kiln_strbuf_text(out, "{\"table\":\"device\"");
    print_text("id", board->node, out);
    print_text("name", board->key, out);
    print_text("target", board->target, out);
    kiln_strbuf_text(out, "}\n{\"table\":\"fingerprint\"");
    print_text("id", kiln_str_from(id), out);
    print_text("device_id", board->node, out);
    print_text("content", kiln_strbuf_view(&content), out);
    kiln_strbuf_text(out, "}\n");
    kiln_strbuf_deinit(&content);
}

static void print_samples(const kiln_msg_trial_result *result, kiln_strbuf *out) {
    const double runs = result->runs ? result->runs : 1;
    kiln_strbuf_text(out, ",\"samples_ns\":[");
    for (uint32_t i = 0; i < result->samples_ns.count; i++)
        kiln_strbuf_printf(out, "%s%.17g", i ? "," : "", (double)result->samples_ns.item[i] / runs);
    kiln_strbuf_char(out, ']');
}

static void print_measured(const kiln_msg_trial_result *r, kiln_strbuf *out) {
    const kiln_msg_phases *spent = &r->times_ns;
    print_int("attempt", r->attempt, out);
    print_text("outcome", kiln_str_from(kiln_outcome_name((kiln_outcome)r->outcome)), out);
    print_text("blame", kiln_str_from(kiln_blame_name((kiln_blame)r->blame)), out);
    print_text("detail", r->text, out);
    print_int("checked", r->checked, out);
    print_real("error", r->error, out);
    print_real("max_abs_error", r->max_abs_error, out);
    print_real("relative_error", r->relative_error, out);
    print_samples(r, out);
    print_int("runs_per_sample", r->runs, out);
    print_text("stop_reason", kiln_str_from(kiln_stop_name((kiln_stop)r->stop)), out);
    print_int("throttled", r->out_of_band, out);
    print_int("raced", r->stop == KILN_STOP_RACED, out);
    print_real("drift", r->drift, out);
    print_real("drift_memory", r->drift_memory, out);
    print_int("again", r->again, out);
    print_real("peak_flops", r->peak_flops, out);
    print_real("board_ns",
               (double)(spent->fetch + spent->load + spent->warm + spent->run + spent->check), out);
}

void kiln_batch_print_result(kiln_str record, const kiln_batch_board *board,
                             const kiln_msg_trial_result *result, int64_t now_wall_ns,
                             kiln_strbuf *out) {
    char fingerprint[KILN_HASH128_TEXT];
    kiln_batch_fingerprint(board, &result->before, fingerprint);
    kiln_strbuf_str(out, record);
    print_text("device_id", board->node, out);
    print_text("fingerprint_id", kiln_str_from(fingerprint), out);
    print_text("fences", board->fences, out);
    print_measured(result, out);
    print_int("stored_wall_ns", (uint64_t)now_wall_ns, out);
    kiln_strbuf_text(out, "}\n");
}
