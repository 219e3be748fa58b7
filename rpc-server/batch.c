#include "rpc-server/batch.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/target.h"
#include "rpc-server/batch_plan.h"
#include "rpc-server/batch_result.h"

#define LEASE UINT64_C(1)
#define TRIALS_BYTES_MAX ((size_t)256 << 20)
#define LINES_BYTES_MAX ((size_t)1 << 30)

typedef enum trial_state { TO_DO, GIVEN, DONE } trial_state;

struct kiln_batch {
    kiln_arena arena; /* of plan and board */
    char *folder;     /* for messages */
    int folder_fd, results_fd;
    kiln_batch_plan plan;
    trial_state *state; /* [plan.count] */
    uint32_t *attempt;  /* [plan.count] */
    uint32_t done_count;
    off_t size; /* of the results: whole lines, on the disk */
    kiln_batch_options options;
    kiln_batch_board board;
    uint32_t slot, slot_count;           /* first slot and number of slots of the target */
    char fingerprint[KILN_HASH128_TEXT]; /* of the board's rows that were written last; "": none */
    uint64_t sick_since_ns;              /* 0: the board is healthy */
    bool over;
    kiln_status failure;
};

/* ---- The folder ---- */

static kiln_status read_part(const char *folder, const char *name, size_t most, kiln_arena *arena,
                             kiln_str *out) {
    return kiln_file_read(kiln_arena_printf(arena, "%s/%s", folder, name), most, arena, out);
}

static kiln_status failure_of(const kiln_batch *b, const char *what) {
    const char *why = strerror(errno);
    if (errno == ENOSPC || errno == EDQUOT)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "%s %s/results.jsonl: %s", what, b->folder, why);
    return KILN_ERROR(PERMISSION_DENIED, "%s %s/results.jsonl: %s", what, b->folder, why);
}

/* Appends whole lines. A failed write leaves nothing behind. */
static kiln_status append(kiln_batch *b, kiln_str lines) {
    for (size_t done = 0; done < lines.size;) {
        const ssize_t wrote =
            pwrite(b->results_fd, lines.data + done, lines.size - done, b->size + (off_t)done);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) {
            kiln_status st = failure_of(b, "writing");
            (void)!ftruncate(b->results_fd, b->size); /* the next run drops the rest, too */
            return st;
        }
        done += (size_t)wrote;
    }
    if (fdatasync(b->results_fd) != 0) return failure_of(b, "syncing");
    b->size += (off_t)lines.size;
    return NULL;
}

/* Marks trials as DONE whose results an earlier run wrote, and cuts off an incomplete last line. */
static kiln_status read_results(kiln_batch *b) {
    kiln_mapping old = {0};
    size_t kept = 0;
    bool *done = KILN_ARENA_ARRAY(&b->arena, bool, b->plan.count);
    kiln_status st = kiln_file_map_fd(b->results_fd, "results.jsonl", &old);
    if (!st) st = kiln_batch_plan_resume(&b->plan, (kiln_str){old.data, old.size}, done, &kept);
    kiln_file_unmap(&old);
    if (st) return st;
    if (ftruncate(b->results_fd, (off_t)kept) != 0) return failure_of(b, "truncating");
    b->size = (off_t)kept;
    for (uint32_t i = 0; i < b->plan.count; i++) {
        b->state[i] = done[i] ? DONE : TO_DO;
        b->done_count += done[i];
    }
    return kept ? NULL : append(b, b->plan.rows);
}

static kiln_status open_results(kiln_batch *b) {
    b->folder_fd = open(b->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (b->folder_fd < 0) return failure_of(b, "opening the folder of");
    b->results_fd =
        openat(b->folder_fd, "results.jsonl", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (b->results_fd < 0) return failure_of(b, "opening");
    if (flock(b->results_fd, LOCK_EX | LOCK_NB) != 0)
        return KILN_ERROR(FAILED_PRECONDITION, "another kiln-rpc-server measures %s", b->folder);
    return NULL;
}

kiln_status kiln_batch_open(const char *folder, kiln_batch **out_batch) {
    kiln_batch *b = kiln_alloc(sizeof *b);
    kiln_str trials = {0}, records = {0}, rows = {0};
    *b = (kiln_batch){.folder_fd = -1, .results_fd = -1};
    kiln_arena_init(&b->arena, 0);
    b->folder = kiln_str_dup(&b->arena, kiln_str_from(folder));
    kiln_status st = read_part(folder, "trials", TRIALS_BYTES_MAX, &b->arena, &trials);
    if (!st) st = read_part(folder, "records.jsonl", LINES_BYTES_MAX, &b->arena, &records);
    if (!st) st = read_part(folder, "rows.jsonl", LINES_BYTES_MAX, &b->arena, &rows);
    if (!st) st = kiln_batch_plan_read(trials, records, rows, &b->arena, &b->plan);
    if (!st) {
        b->state = KILN_ARENA_ARRAY(&b->arena, trial_state, b->plan.count);
        b->attempt = KILN_ARENA_ARRAY(&b->arena, uint32_t, b->plan.count);
        st = open_results(b);
    }
    if (!st) st = read_results(b);
    if (st) {
        kiln_batch_close(b);
        return kiln_status_note(st, "--batch %s (kiln batch writes such folders)", folder);
    }
    *out_batch = b;
    return NULL;
}

void kiln_batch_close(kiln_batch *b) {
    if (!b) return;
    kiln_fd_close(&b->folder_fd);
    kiln_fd_close(&b->results_fd);
    kiln_batch_plan_deinit(&b->plan);
    kiln_status_free(b->failure);
    kiln_arena_deinit(&b->arena);
    kiln_free(b);
}

/* ---- The board ---- */

/* Finds the first of the board's targets that serves the wanted one, and its slots. */
static kiln_status choose_slots(kiln_batch *b, const kiln_msg_board_up *up) {
    kiln_target wanted, offered;
    kiln_strbuf reason = {0};
    kiln_status st = kiln_target_parse(b->plan.target, &b->arena, &wanted);
    uint32_t slot = 0;
    for (uint32_t i = 0; !st && !b->slot_count && i < 1 + up->targets.count; i++) {
        const kiln_msg_board_target *other = i ? &up->targets.item[i - 1] : NULL;
        const kiln_str text = other ? other->target : up->target;
        const uint32_t slots = other ? other->slots : up->slots;
        kiln_strbuf_printf(&reason, "%s%.*s: ", i ? "; " : "", KILN_STR_ARG(text));
        st = kiln_target_parse(text, &b->arena, &offered);
        if (!st && kiln_target_serves(&wanted, &offered, &reason)) {
            b->slot = slot;
            b->slot_count = wanted.threads > 1 ? 1 : slots; /* the others would share its cores */
            b->board.target = text;
            b->board.device = other && other->device.size ? other->device : up->device;
            b->board.firmware = other && other->firmware.size ? other->firmware : up->firmware;
        }
        slot += slots;
    }
    if (!st && !b->slot_count)
        st = KILN_ERROR(FAILED_PRECONDITION, "%s is for %.*s, which this server does not offer: %s",
                        b->folder, KILN_STR_ARG(b->plan.target), reason.data);
    kiln_strbuf_deinit(&reason);
    return st;
}

kiln_status kiln_batch_begin(kiln_batch *b, const kiln_batch_options *options) {
    const kiln_message up = {.type = KILN_MSG_BOARD_UP, .board_up = *options->board};
    const kiln_msg_board_up board = kiln_message_copy(&up, &b->arena).board_up;
    b->options = *options;
    b->options.board = NULL;
    b->board.key = board.key;
    b->board.fences = board.fences;
    b->board.node = kiln_str_from(options->node);
    return choose_slots(b, &board);
}

/* ---- Trials ---- */

/* Ends the run. Keeps the first error. */
static void end(kiln_batch *b, kiln_status failure) {
    if (b->failure)
        kiln_status_free(failure);
    else
        b->failure = failure;
    if (!b->over) b->options.ended(b->options.context);
    b->over = true;
}

static void tell(kiln_batch *b, const kiln_message *message) {
    b->options.handler->message(b->options.context, message);
}

static void give(kiln_batch *b, uint32_t number, uint32_t slot) {
    kiln_message message = {.type = KILN_MSG_TRIAL, .trial = b->plan.trial[number].trial};
    message.trial.lease = LEASE;
    message.trial.slot = slot;
    message.trial.attempt = ++b->attempt[number];
    b->plan.trial[number].trial.slot = slot;
    b->state[number] = GIVEN;
    tell(b, &message);
}

static uint32_t given_to(const kiln_batch *b, uint32_t slot) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < b->plan.count; i++)
        count += b->state[i] == GIVEN && b->plan.trial[i].trial.slot == slot;
    return count;
}

static uint32_t next_to_do(const kiln_batch *b) {
    uint32_t i = 0;
    while (i < b->plan.count && b->state[i] != TO_DO) i++;
    return i;
}

/* Fills the slots' queues in the order of the folder, where trials of one task follow each other.
 */
static void fill_slots(kiln_batch *b) {
    if (b->over) return;
    for (uint32_t slot = b->slot; slot < b->slot + b->slot_count; slot++)
        for (uint32_t held = given_to(b, slot); held < KILN_BATCH_DEPTH; held++) {
            const uint32_t number = next_to_do(b);
            if (number < b->plan.count) give(b, number, slot);
        }
    if (b->done_count == b->plan.count) end(b, NULL);
}

/* ---- Results ---- */

static kiln_status write_result(kiln_batch *b, uint32_t number,
                                const kiln_msg_trial_result *result) {
    char fingerprint[KILN_HASH128_TEXT];
    kiln_strbuf lines = {0};
    kiln_batch_fingerprint(&b->board, &result->before, fingerprint);
    if (strcmp(fingerprint, b->fingerprint) != 0)
        kiln_batch_print_board(&b->board, &result->before, &lines);
    kiln_batch_print_result(b->plan.trial[number].record, &b->board, result,
                            (int64_t)kiln_clock_wall_ns(), &lines);
    kiln_status st = append(b, kiln_strbuf_view(&lines));
    kiln_strbuf_deinit(&lines);
    memcpy(b->fingerprint, fingerprint, sizeof fingerprint);
    return st;
}

static void log_result(const kiln_batch *b, const kiln_msg_trial_result *result) {
    kiln_log(KILN_LOG_INFO, "%u of %u: %s%s%.*s", b->done_count, b->plan.count,
             kiln_outcome_name((kiln_outcome)result->outcome), result->text.size ? ": " : "",
             KILN_STR_ARG(result->text));
}

static bool is_to_be_repeated(const kiln_batch *b, uint32_t number,
                              const kiln_msg_trial_result *result) {
    const bool disturbed = result->outcome == KILN_OUTCOME_OK && result->out_of_band;
    return (disturbed || result->outcome == KILN_OUTCOME_INFRA) &&
           b->attempt[number] < KILN_BATCH_ATTEMPTS_MAX;
}

static void acknowledge(kiln_batch *b, const kiln_msg_trial_result *result) {
    const kiln_message ack = {
        .type = KILN_MSG_TRIAL_ACK,
        .trial_ack = {.trial = result->trial, .attempt = result->attempt, .lease = result->lease}};
    tell(b, &ack);
}

static void on_result(kiln_batch *b, const kiln_msg_trial_result *result) {
    uint64_t number = 0;
    kiln_status st = NULL;
    if (b->over || !kiln_map_find(&b->plan.by_id, result->trial, &number) ||
        b->state[number] != GIVEN)
        return;
    const bool again = is_to_be_repeated(b, (uint32_t)number, result);
    /* The other trials would fail in the same way. */
    const bool hopeless =
        !again && result->outcome == KILN_OUTCOME_INFRA && result->blame != KILN_BLAME_CLIENT;
    if (hopeless)
        st = KILN_ERROR(UNAVAILABLE, "trial %.*s failed in every attempt: %.*s",
                        KILN_STR_ARG(result->trial), KILN_STR_ARG(result->text));
    else if (!again)
        st = write_result(b, (uint32_t)number, result);
    if (st) {
        end(b, st);
        return;
    }
    b->state[number] = again ? TO_DO : DONE;
    b->done_count += !again;
    if (!again) log_result(b, result);
    acknowledge(b, result);
    fill_slots(b);
}

static void on_state(kiln_batch *b, const kiln_msg_board_state *state) {
    const uint64_t now_ns = kiln_clock_ns();
    if (!state->sick) {
        b->sick_since_ns = 0;
        return;
    }
    if (!b->sick_since_ns) b->sick_since_ns = now_ns;
    if (now_ns - b->sick_since_ns >= KILN_BATCH_SICK_NS)
        end(b, KILN_ERROR(UNAVAILABLE, "this machine is not fit to measure: %.*s",
                          KILN_STR_ARG(state->text)));
}

/* ---- The tracker's side ---- */

void kiln_batch_dial(kiln_batch *b) { b->options.handler->opened(b->options.context); }

void kiln_batch_take(kiln_batch *b, const kiln_message *message) {
    switch ((int)message->type) {
    case KILN_MSG_BOARD_UP: fill_slots(b); break;
    case KILN_MSG_TRIAL_RESULT: on_result(b, &message->trial_result); break;
    case KILN_MSG_BOARD_STATE: on_state(b, &message->board_state); break;
    case KILN_MSG_PING: {
        const kiln_message pong = {.type = KILN_MSG_PONG, .pong = {.t_ns = message->ping.t_ns}};
        tell(b, &pong);
        break;
    }
    case KILN_MSG_ERROR:
        end(b, KILN_ERROR(INTERNAL, "the server refuses its own trial: %.*s",
                          KILN_STR_ARG(message->error.text)));
        break;
    default: break; /* events of trials */
    }
}

static kiln_status copy_blob(kiln_batch *b, const kiln_digest *digest) {
    char name[KILN_DIGEST_TEXT], path[KILN_DIGEST_TEXT + 8] = "blobs/";
    kiln_mapping content = {0};
    kiln_digest found;
    kiln_digest_print(digest, name);
    memcpy(path + strlen(path), name, sizeof name);
    if (kiln_blob_store_has(b->options.store, digest)) return NULL;
    const int fd = openat(b->folder_fd, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return KILN_ERROR(DATA_LOSS, "%s/%s: %s; copy the whole folder, readable for all",
                          b->folder, path, strerror(errno));
    kiln_status st = kiln_file_map_fd(fd, path, &content);
    if (!st && content.size > KILN_BLOB_BYTES_MAX)
        st = KILN_ERROR(DATA_LOSS, "%s/%s is larger than a blob may be", b->folder, path);
    if (!st)
        st = kiln_blob_store_put(b->options.store, (kiln_str){content.data, content.size}, &found);
    if (!st && !kiln_digest_equal(&found, digest))
        st = KILN_ERROR(DATA_LOSS, "%s/%s is damaged: its content has another SHA-256", b->folder,
                        path);
    kiln_file_unmap(&content);
    close(fd);
    return st;
}

void kiln_batch_fetch(kiln_batch *b, const kiln_digest *digest) {
    kiln_status st = copy_blob(b, digest);
    b->options.handler->fetched(b->options.context, digest, st ? kiln_status_text(st) : NULL);
    if (st) end(b, st);
}

kiln_status kiln_batch_end(kiln_batch *b) {
    kiln_status st = b->failure;
    b->failure = NULL;
    if (!st && b->done_count < b->plan.count)
        st = KILN_ERROR(CANCELLED, "run the same command again to measure the rest");
    kiln_log(KILN_LOG_INFO, "%u of %u trials are in %s/results.jsonl", b->done_count, b->plan.count,
             b->folder);
    return kiln_status_note(st, "%u of %u trials are measured", b->done_count, b->plan.count);
}
