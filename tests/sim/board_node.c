/* A board's shell, played: children that run, hang, crash and die late, and a blob cache. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "rpc-server/health.h"
#include "rpc-server/server.h"
#include "tests/sim/world.h"

#define SLOTS_MAX 3u
/* A phase's deadline as the tuner gives it, until the child is gone: killing may take its time. */
#define PHASE_NS (10 * SIM_S + KILN_SERVER_KILL_NS + 5 * SIM_S + SIM_S)

typedef struct child {
    bool alive;
    uint64_t run;
    uint64_t lease;
    bool dying;           /* it was told to */
    uint64_t phase_ns;    /* when its phase began */
    kiln_outcome outcome; /* what will come of it */
    bool raced, out_of_band, broken;
    bool hangs, crashes; /* in the end */
    bool waits, timing;  /* linked and not let time yet; let time */
    uint64_t rival_count;
} child;

typedef struct fetch {
    kiln_digest digest;
    uint64_t number, begun_ns;
} fetch;

/* What came of a blob before its transfer was cut. */
typedef struct half {
    kiln_digest digest;
    uint64_t held;
} half;

/* A TRIAL that came to this run of the board: it may come again, late. */
typedef struct heard_trial {
    uint64_t lease;
    uint32_t slot;
    kiln_strbuf frame;
} heard_trial;
#define TRIALS_HEARD 8u

typedef struct board_state {
    kiln_server *machine;
    child child[SLOTS_MAX];
    uint64_t seen[SLOTS_MAX]; /* newest lease of the TRIALs that came for each slot in this run */
    kiln_map slot_of;         /* lease -> its slot: of these TRIALs */
    heard_trial heard[TRIALS_HEARD];
    uint32_t heard_count;
    KILN_VEC(fetch) fetches;
    uint64_t last_fetch;
    kiln_map came;  /* trial, attempt, lease -> reign of the tracker that it came from last */
    kiln_map begun; /* the same and the reign -> that it was started in this run */
    uint64_t sick_until_ns, broken_until_ns, hot_until_ns, full_until_ns;
    uint32_t slowness; /* of its measurements, times; 0: not drawn yet */
    bool checking;
    /* What the launcher knows; lost with the power, but for `version`. */
    char next[KILN_RELEASE_WORD_MAX]; /* version that is tried or is to be tried */
    kiln_server_launch launch;        /* what it tells the next run */
    uint64_t wait_ns;
    bool relaunches; /* it stops this run and starts another */
    bool is_mute;    /* the flaw of a version on trial */
    /* Disk. */
    char version[KILN_RELEASE_WORD_MAX];
    KILN_VEC(kiln_digest) cache;
    KILN_VEC(half) halves;
} board_state;

static void set_version(char out[KILN_RELEASE_WORD_MAX], const char *version) {
    snprintf(out, KILN_RELEASE_WORD_MAX, "%s", version);
}

void *sim_board_state(void) {
    board_state *s = kiln_alloc(sizeof *s);
    kiln_map_init(&s->came);
    kiln_map_init(&s->begun);
    kiln_map_init(&s->slot_of);
    set_version(s->version, "0.0.0");
    return s;
}

void sim_board_free(void *memory) {
    board_state *s = memory;
    for (uint32_t i = 0; i < TRIALS_HEARD; i++) kiln_strbuf_deinit(&s->heard[i].frame);
    kiln_map_deinit(&s->slot_of);
    kiln_vec_deinit(&s->cache);
    kiln_vec_deinit(&s->halves);
    kiln_vec_deinit(&s->fetches);
    kiln_map_deinit(&s->came);
    kiln_map_deinit(&s->begun);
    kiln_free(s);
}

static void run_step(sim_node *node, const kiln_server_event *event);
static bool is_mistaken(const board_state *s);

/* ---- Blobs ---- */

static bool is_cached(const board_state *s, const kiln_digest *digest) {
    for (uint32_t i = 0; i < s->cache.count; i++)
        if (kiln_digest_equal(&s->cache.data[i], digest)) return true;
    return false;
}

static half *half_of(board_state *s, const kiln_digest *digest) {
    for (uint32_t i = 0; i < s->halves.count; i++)
        if (kiln_digest_equal(&s->halves.data[i].digest, digest)) return &s->halves.data[i];
    kiln_vec_push(&s->halves, ((half){.digest = *digest}));
    return &kiln_vec_last(&s->halves);
}

/* What is left of a blob, from where the last transfer of it was cut. */
static uint64_t fetch_time_ns(sim_node *node, const kiln_digest *digest) {
    board_state *s = node->state;
    sim_world *world = node->world;
    if (!world->options.blob_rate || !sim_store_has(world, digest) || is_cached(s, digest))
        return 0;
    half *h = half_of(s, digest);
    h->held = KILN_MIN(h->held, sim_blob_bytes(world, digest));
    return sim_blob_time_ns(world, digest, h->held);
}

static void fetched(sim_node *node, uint64_t number, uint64_t failed) {
    board_state *s = node->state;
    for (uint32_t i = 0; i < s->fetches.count; i++) {
        if (s->fetches.data[i].number != number) continue;
        kiln_digest digest = s->fetches.data[i].digest;
        if (!failed && node->conn && node->conn->silent)
            return; /* ends when the connection is given up */
        sim_world *world = node->world;
        uint64_t moved = sim_blob_moved(world, world->now_ns - s->fetches.data[i].begun_ns);
        s->fetches.data[i] = kiln_vec_pop(&s->fetches);
        bool full = world->now_ns < s->full_until_ns;
        bool is_there = sim_store_has(world, &digest);
        bool have = !failed && (is_cached(s, &digest) || (!full && is_there));
        if (failed && moved && is_there) half_of(s, &digest)->held += moved;
        if (!failed && !have && !is_there) sim_store_check_missing(world, &digest);
        if (have && !is_cached(s, &digest)) kiln_vec_push(&s->cache, digest);
        run_step(node, &(kiln_server_event){.kind = KILN_SERVER_FETCHED,
                                            .digest = digest,
                                            .failure = have   ? NULL
                                                       : full ? "the disk is full"
                                                              : "no such blob"});
        return;
    }
}

static void begin_fetch(sim_node *node, const kiln_digest *digest) {
    board_state *s = node->state;
    fetch f = {.digest = *digest, .number = ++s->last_fetch, .begun_ns = node->world->now_ns};
    kiln_vec_push(&s->fetches, f);
    uint64_t time_ns = sim_between(node->world, SIM_MS, 100 * SIM_MS);
    if (node->conn) time_ns += fetch_time_ns(node, digest);
    sim_at(node->world, time_ns, node, fetched, f.number, !node->conn);
}

static void fail_fetches(sim_node *node) {
    board_state *s = node->state;
    while (s->fetches.count) fetched(node, s->fetches.data[0].number, 1);
}

/* ---- Builders ---- */

/* Codegen version of a board; NULL: it builds nothing. The first builds with that of the tuners. */
static const char *codegen_of(const sim_node *node) {
    static const char *const codegen[] = {SIM_CODEGEN, NULL, "another"};
    return codegen[node->index % 3];
}

static void built(sim_node *node, uint64_t run, uint64_t trace) {
    board_state *s = node->state;
    const sim_options *o = &node->world->options;
    kiln_msg_built built = {.artefact.size = 4096, .algorithm = KILN_STR("direct")};
    kiln_server_event event = {.kind = KILN_SERVER_BUILT, .run = run, .built = &built};
    kiln_digest_of(&trace, sizeof trace, &built.artefact.digest);
    if (node->world->now_ns < s->full_until_ns)
        event.outcome = KILN_OUTCOME_INFRA;
    else if (sim_chance(node->world, o->crash_permille))
        event.outcome = KILN_OUTCOME_BUILD_ERROR;
    else if (!is_cached(s, &built.artefact.digest))
        kiln_vec_push(&s->cache, built.artefact.digest);
    run_step(node, &event);
}

static void begin_build(sim_node *node, const kiln_server_action *action) {
    const kiln_msg_recipe *recipe = &action->trial->recipe;
    uint64_t trace = kiln_hash64(recipe->trace.data, recipe->trace.size, 0);
    if (!codegen_of(node) || !kiln_str_is(recipe->codegen, codegen_of(node)))
        sim_fail(node->world, "board %u gets a recipe that it cannot build", node->index);
    if (!is_cached(node->state, &recipe->program.digest))
        sim_fail(node->world, "board %u builds without the program", node->index);
    node->world->built++;
    sim_at(node->world, sim_between(node->world, 5 * SIM_MS, 200 * SIM_MS), node, built,
           action->run, trace);
}

/* ---- Children ---- */

static void child_died(sim_node *node, uint64_t slot, uint64_t run) {
    board_state *s = node->state;
    if (!s->child[slot].alive || s->child[slot].run != run) return;
    s->child[slot].alive = false;
    run_step(node, &(kiln_server_event){.kind = KILN_SERVER_DIED,
                                        .slot = (uint32_t)slot,
                                        .run = run,
                                        .text = "signal 11"});
}

/* Everything of it is gone, and its outputs are compared: perhaps beside the next one's run. */
static void child_judged(sim_node *node, uint64_t slot_and_child, uint64_t run) {
    uint64_t base = sim_between(node->world, 1000, 1000000); /* as different as kernels are */
    uint64_t samples[] = {base, base + 100, base + 50, base + 20, base + 10};
    kiln_msg_rival_result rivals[KILN_MESSAGES_RIVALS];
    uint32_t rival_count = (uint32_t)(slot_and_child >> 8 & 255);
    kiln_msg_trial_result result = {
        .outcome = (uint32_t)(slot_and_child & 255),
        .checked = true,
        .runs = 1,
        .stop = slot_and_child >> 24 & 1 ? KILN_STOP_RACED : KILN_STOP_CONVERGED,
        .drift = 1,
        .out_of_band = slot_and_child >> 25 & 1,
        .blame = slot_and_child >> 26 & 1 ? KILN_BLAME_BOARD : KILN_BLAME_NONE,
        .times_ns = {.run = 3 * SIM_S}, /* as told: enough that there is time for judgements */
    };
    if (result.outcome == KILN_OUTCOME_OK)
        result.samples_ns = (kiln_u64s){samples, KILN_ARRAY_COUNT(samples)};
    for (uint32_t i = 0; i < rival_count; i++)
        rivals[i] = (kiln_msg_rival_result){
            .outcome = result.outcome, .samples_ns = result.samples_ns, .runs = 1, .checked = true};
    result.rivals.item = rivals;
    result.rivals.count = rival_count;
    run_step(node, &(kiln_server_event){.kind = KILN_SERVER_FINISHED,
                                        .slot = (uint32_t)(slot_and_child >> 16 & 255),
                                        .run = run,
                                        .result = &result});
}

static void child_finished(sim_node *node, uint64_t slot, uint64_t run) {
    board_state *s = node->state;
    child *c = &s->child[slot];
    if (!c->alive || c->run != run) return;
    c->alive = false;
    uint64_t ends = slot << 16 | c->rival_count << 8 | c->outcome;
    ends |= (uint64_t)c->raced << 24 | (uint64_t)c->out_of_band << 25 | (uint64_t)c->broken << 26;
    sim_at(node->world, sim_between(node->world, 0, 50 * SIM_MS), node, child_judged, ends, run);
    run_step(node,
             &(kiln_server_event){.kind = KILN_SERVER_VACATED, .slot = (uint32_t)slot, .run = run});
}

static void child_phase(sim_node *node, uint64_t slot_and_phase, uint64_t run) {
    board_state *s = node->state;
    uint32_t slot = (uint32_t)(slot_and_phase >> 8);
    if (!s->child[slot].alive || s->child[slot].run != run) return;
    s->child[slot].phase_ns = node->world->now_ns;
    run_step(node, &(kiln_server_event){.kind = KILN_SERVER_PHASE,
                                        .slot = slot,
                                        .run = run,
                                        .phase = (kiln_phase)(slot_and_phase & 255)});
}

/* Nothing is timed beside what links or times, and nothing is linked beside what times: all slots
 * of a board disturb each other here. */
static void check_quiet(sim_node *node, uint32_t slot, bool times) {
    const board_state *s = node->state;
    for (uint32_t i = 0; i < SLOTS_MAX; i++) {
        const child *other = &s->child[i];
        if (i == slot || !other->alive || other->waits) continue;
        if (times || other->timing)
            sim_fail(node->world, "board %u %s in slot %u beside slot %u, which %s", node->index,
                     times ? "times" : "links", slot, i, other->timing ? "times" : "links");
    }
}

static void child_loaded(sim_node *node, uint64_t slot, uint64_t run) {
    board_state *s = node->state;
    child *c = &s->child[slot];
    if (!c->alive || c->run != run) return;
    c->waits = true;
    run_step(node,
             &(kiln_server_event){.kind = KILN_SERVER_LOADED, .slot = (uint32_t)slot, .run = run});
}

static uint64_t time_of_phase(sim_node *node) {
    const board_state *s = node->state;
    return sim_between(node->world, SIM_MS, 300 * SIM_MS) * s->slowness;
}

static void child_goes_on(sim_node *node, uint64_t slot, uint64_t run) {
    board_state *s = node->state;
    child *c = &s->child[slot];
    if (!c->alive || c->run != run) return; /* it just died */
    check_quiet(node, (uint32_t)slot, true);
    c->waits = false;
    c->timing = true;
    c->phase_ns = node->world->now_ns;
    uint64_t at = SIM_MS;
    for (uint64_t phase = KILN_PHASE_WARM; phase <= KILN_PHASE_CHECK; phase++) {
        sim_at(node->world, at, node, child_phase, slot << 8 | phase, run);
        at += time_of_phase(node);
    }
    if (c->hangs) return;
    sim_at(node->world, c->crashes ? sim_between(node->world, 0, at) : at, node,
           c->crashes ? child_died : child_finished, slot, run);
}

static kiln_str name_of(sim_node *node, const kiln_msg_trial *trial) {
    return kiln_str_from(kiln_arena_printf(&node->world->scratch, "%.*s %u %llu",
                                           KILN_STR_ARG(trial->trial), trial->attempt,
                                           (unsigned long long)trial->lease));
}

/* One trial per slot, and never under an older lease than the slot has run, whatever the network
 * did. */
static void check_start(sim_node *node, const kiln_server_action *action) {
    board_state *s = node->state;
    sim_world *world = node->world;
    uint64_t key = node->index * 16 + action->slot, newest = 0;
    kiln_str view = {(const char *)&key, sizeof key};
    if (s->checking) sim_fail(world, "board %u runs a trial beside its check", node->index);
    if (s->child[action->slot].alive)
        sim_fail(world, "board %u runs two trials in slot %u", node->index, action->slot);
    if (kiln_map_find(&world->started, view, &newest) && action->trial->lease < newest)
        sim_fail(world, "board %u runs lease %llu after lease %llu", node->index,
                 (unsigned long long)action->trial->lease, (unsigned long long)newest);
    kiln_map_put(&world->started, view, action->trial->lease);
    const kiln_msg_trial *trial = action->trial;
    /* A tracker may be killed between telling the end of a lease and writing it down; then the next
     * one takes it for held, and its trials are sent again. */
    kiln_str name = name_of(node, trial);
    uint64_t reign = 0;
    KILN_CHECK(kiln_map_find(&s->came, name, &reign));
    char *begun =
        kiln_arena_printf(&world->scratch, "%.*s %u", KILN_STR_ARG(name), (uint32_t)reign);
    if (!kiln_map_put(&s->begun, kiln_str_from(begun), 1))
        sim_fail(world, "trial %.*s runs twice under lease %llu", KILN_STR_ARG(trial->trial),
                 (unsigned long long)trial->lease);
}

/* Liars hear of it. */
static void remember_trial(sim_node *node, const kiln_msg_trial *trial) {
    sim_heard *heard = &node->world->heard[node->world->heard_count++ % SIM_HEARD];
    *heard = (sim_heard){.lease = trial->lease, .attempt = trial->attempt, .board = node->index};
    memcpy(heard->trial, trial->trial.data, trial->trial.size);
}

static void start_child(sim_node *node, const kiln_server_action *action) {
    board_state *s = node->state;
    sim_world *world = node->world;
    const sim_options *o = &world->options;
    check_start(node, action);
    check_quiet(node, action->slot, false);
    if (!is_cached(s, &action->trial->artefact.digest))
        sim_fail(world, "a trial starts without its artefact");
    child *c = &s->child[action->slot];
    *c = (child){.alive = true,
                 .run = action->run,
                 .lease = action->trial->lease,
                 .phase_ns = world->now_ns};
    c->outcome = sim_chance(world, o->wrong_permille) ? KILN_OUTCOME_WRONG_RESULT : KILN_OUTCOME_OK;
    c->raced = action->trial->race_ns > 0 && sim_chance(world, 300);
    c->out_of_band = sim_chance(world, world->now_ns < s->hot_until_ns ? 900 : o->drift_permille);
    c->broken = world->now_ns < s->broken_until_ns;
    if (c->broken) c->outcome = KILN_OUTCOME_INFRA;
    if (!s->slowness)
        s->slowness = sim_chance(world, o->slow_permille) ? (uint32_t)sim_between(world, 2, 8) : 1;
    remember_trial(node, action->trial);
    world->trials++;
    c->rival_count = action->trial->rivals.count;
    c->hangs = sim_chance(world, o->hang_permille);
    c->crashes = sim_chance(world, o->crash_permille);
    const uint64_t loaded = time_of_phase(node);
    const bool early = sim_chance(world, 200); /* already when it is linked */
    if (early && c->crashes)
        sim_at(world, sim_between(world, 0, loaded), node, child_died, action->slot, action->run);
    else if (!(early && c->hangs))
        sim_at(world, loaded, node, action->waits ? child_loaded : child_goes_on, action->slot,
               action->run);
}

static void kill_child(sim_node *node, const kiln_server_action *action) {
    board_state *s = node->state;
    if (action->slot < SLOTS_MAX && s->child[action->slot].run == action->run)
        s->child[action->slot].dying = true;
    /* Now and then the kernel takes its time. */
    uint64_t delay = sim_chance(node->world, 50) ? sim_between(node->world, SIM_S, 5 * SIM_S)
                                                 : sim_between(node->world, SIM_MS, 50 * SIM_MS);
    sim_at(node->world, delay, node, child_died, action->slot, action->run);
}

/* ---- The self-check ---- */

static void check_ends(sim_node *node, uint64_t run, uint64_t passes) {
    board_state *s = node->state;
    s->checking = false;
    run_step(node, &(kiln_server_event){.kind = KILN_SERVER_CHECKED,
                                        .run = run,
                                        .failure = passes ? NULL : "a wrong output"});
}

/* With nothing beside it, and now and then in vain. */
static void begin_check(sim_node *node, const kiln_server_action *action) {
    board_state *s = node->state;
    for (uint32_t i = 0; i < SLOTS_MAX; i++)
        if (s->child[i].alive)
            sim_fail(node->world, "board %u checks itself beside a trial", node->index);
    s->checking = true;
    sim_at(node->world, sim_between(node->world, SIM_MS, 50 * SIM_MS), node, check_ends,
           action->run,
           (sim_is_calm(node->world) || !sim_chance(node->world, 50)) && !is_mistaken(s));
}

/* ---- Lies ---- */

/* A result of what others measure, of what nobody asked for, or under a lease that is yet to come:
 * all of them must be refused. */
static void lie(sim_node *node, const kiln_msg_trial_result *truth) {
    sim_world *world = node->world;
    const sim_heard *heard = &world->heard[sim_between(world, 0, SIM_HEARD - 1)];
    kiln_message lie = {.type = KILN_MSG_TRIAL_RESULT, .trial_result = *truth};
    lie.trial_result.text = KILN_STR("a lie");
    uint64_t kind = sim_between(world, 0, 2);
    if (kind == 0) {
        if (heard->board == node->index || !heard->trial[0]) return;
        lie.trial_result.trial = kiln_str_from(heard->trial);
        lie.trial_result.lease = heard->lease;
        lie.trial_result.attempt = heard->attempt;
    } else if (kind == 1) {
        lie.trial_result.trial = KILN_STR("nobody");
    } else {
        /* Not the next one: that may be given, for the same trial, before this arrives. */
        lie.trial_result.lease += sim_between(world, 1000, 2000);
    }
    sim_note(world, "board %u lies", node->index);
    sim_send(node, node->conn, &lie);
}

/* ---- The fence ---- */

static kiln_str key_of(const uint64_t *number) {
    return (kiln_str){(const char *)number, sizeof *number};
}

/* Once a slot has seen a newer lease, its board says nothing of what came under older ones. */
static void check_result(sim_node *node, uint64_t lease) {
    const board_state *s = node->state;
    uint64_t slot = 0;
    if (kiln_map_find(&s->slot_of, key_of(&lease), &slot) && lease < s->seen[slot])
        sim_fail(node->world, "board %u sends a result under lease %llu after lease %llu came",
                 node->index, (unsigned long long)lease, (unsigned long long)s->seen[slot]);
}

/* ... and what still runs under one was told to die. */
static void check_fence(sim_node *node, uint32_t slot) {
    const board_state *s = node->state;
    const child *c = &s->child[slot];
    if (c->alive && !c->dying && c->lease < s->seen[slot])
        sim_fail(node->world, "board %u goes on with lease %llu after lease %llu came", node->index,
                 (unsigned long long)c->lease, (unsigned long long)s->seen[slot]);
}

/* What a leader says that was replaced and does not know it: a TRIAL that came before, after others
 * under a newer lease of its slot. */
static void hear_again(sim_node *node, uint64_t at, uint64_t lease) {
    board_state *s = node->state;
    const heard_trial *heard = &s->heard[at];
    if (!node->conn || heard->lease != lease || lease >= s->seen[heard->slot]) return;
    kiln_frame_reader reader = {0};
    kiln_str input = kiln_strbuf_view(&heard->frame);
    kiln_frame frame;
    kiln_message message;
    bool ready = false;
    kiln_status st = kiln_frame_read(&reader, &input, &frame, &ready);
    if (!st)
        st = kiln_message_decode(frame.type, frame.stream, frame.body, &node->world->scratch,
                                 &message);
    KILN_CHECK(st == NULL);
    kiln_frame_reader_deinit(&reader);
    sim_note(node->world, "board %u hears a trial of lease %llu again", node->index,
             (unsigned long long)lease);
    run_step(node, &(kiln_server_event){.kind = KILN_SERVER_MESSAGE, .message = &message});
}

/* Notes a TRIAL that is about to be given to the machine. */
static void hear_trial(sim_node *node, const kiln_message *message, uint32_t reign) {
    board_state *s = node->state;
    const kiln_msg_trial *trial = &message->trial;
    if (trial->slot >= SLOTS_MAX) return;
    s->seen[trial->slot] = KILN_MAX(s->seen[trial->slot], trial->lease);
    kiln_map_put(&s->slot_of, key_of(&trial->lease), trial->slot);
    kiln_map_put(&s->came, name_of(node, trial), reign);
    uint32_t at = s->heard_count++ % TRIALS_HEARD;
    heard_trial *heard = &s->heard[at];
    heard->lease = trial->lease;
    heard->slot = trial->slot;
    kiln_strbuf_reset(&heard->frame);
    kiln_status st = kiln_frame_write_message(&heard->frame, message);
    KILN_CHECK(st == NULL);
    if (sim_chance(node->world, node->world->options.late_permille))
        sim_at(node->world, sim_between(node->world, 0, 20 * SIM_S), node, hear_again, at,
               trial->lease);
}

/* ---- The program ---- */

static void send_message(sim_node *node, const kiln_message *message) {
    if (message->type == KILN_MSG_TRIAL_RESULT) check_result(node, message->trial_result.lease);
    if (!node->conn) return;
    if (message->type == KILN_MSG_TRIAL_RESULT &&
        sim_chance(node->world, node->world->options.lie_permille))
        lie(node, &message->trial_result);
    sim_send(node, node->conn, message);
}

/* ---- The launcher ---- */

static sim_flaw flaw_of(const char *version) { return (sim_flaw)(strrchr(version, '.')[1] - '0'); }

/* Ends this run; the next one is told `launch`. */
static void relaunch(sim_node *node, kiln_server_launch launch) {
    board_state *s = node->state;
    s->launch = launch;
    s->relaunches = true;
    sim_kill(node, false);
    sim_start_later(node, sim_between(node->world, 10 * SIM_MS, 2 * SIM_S));
}

static void roll_back(sim_node *node, uint64_t run, uint64_t why) {
    const board_state *s = node->state;
    if (!s->launch.is_trial || node->run != run) return;
    relaunch(node, (kiln_server_launch){.number = s->launch.number,
                                        .failure = (const char *)(uintptr_t)why});
}

static void roll_back_after(sim_node *node, uint64_t delay_ns, const char *why) {
    sim_at(node->world, delay_ns, node, roll_back, node->run, (uintptr_t)why);
}

static void try_next(sim_node *node, uint64_t number, uint64_t b) {
    (void)b;
    const board_state *s = node->state;
    const kiln_str version = kiln_str_from(s->next);
    uint64_t canary = node->index;
    if (flaw_of(s->next) != SIM_FLAW_NONE) {
        if (kiln_map_find(&node->world->tried, version, &canary) && canary != node->index)
            sim_fail(node->world, "boards %llu and %u try the broken version %s",
                     (unsigned long long)canary, node->index, s->next);
        kiln_map_put(&node->world->tried, version, node->index);
    }
    node->world->tries++;
    relaunch(node, (kiln_server_launch){.number = number, .is_trial = true});
}

static void ask_launcher(sim_node *node, const kiln_server_action *action) {
    board_state *s = node->state;
    kiln_release release;
    kiln_status st = kiln_release_parse(kiln_str_from(action->text), &release);
    if (st) sim_fail(node->world, "board %u restarts without a statement", node->index);
    if (!st) set_version(s->next, release.version);
    kiln_status_free(st);
    for (uint32_t i = 0; i < SLOTS_MAX; i++)
        if (s->child[i].alive)
            sim_fail(node->world, "board %u restarts while a trial runs", node->index);
    s->wait_ns = action->deadline_ns;
    sim_at(node->world, 0, node, try_next, action->run, 0);
}

static void commit(sim_node *node, uint64_t a, uint64_t b) {
    (void)a, (void)b;
    board_state *s = node->state;
    if (!s->launch.is_trial) return; /* it was given up meanwhile */
    if (flaw_of(s->next) != SIM_FLAW_NONE)
        sim_fail(node->world, "board %u keeps the broken version %s", node->index, s->next);
    set_version(s->version, s->next);
    s->launch.is_trial = false;
    node->world->upgraded++;
    run_step(node, &(kiln_server_event){.kind = KILN_SERVER_LAUNCHER});
}

/* A version on trial shows its flaw. */
static void begin_trial(sim_node *node) {
    board_state *s = node->state;
    roll_back_after(node, s->wait_ns, "it was late");
    s->is_mute = flaw_of(s->next) == SIM_FLAW_MUTE;
    if (flaw_of(s->next) == SIM_FLAW_ENDS) roll_back_after(node, 0, "it ended");
}

static bool is_mistaken(const board_state *s) {
    return s->launch.is_trial && flaw_of(s->next) == SIM_FLAW_MISTAKEN;
}

static void carry_out(sim_node *node, const kiln_server_action *action) {
    board_state *s = node->state;
    switch (action->kind) {
    case KILN_SERVER_DIAL:
        if (!s->is_mute) sim_dial(node);
        break;
    case KILN_SERVER_HANG_UP:
        if (node->conn) sim_close(node, node->conn);
        fail_fetches(node);
        break;
    case KILN_SERVER_SEND: send_message(node, &action->message); break;
    case KILN_SERVER_FETCH: begin_fetch(node, &action->digest); break;
    case KILN_SERVER_BUILD: begin_build(node, action); break;
    case KILN_SERVER_START: start_child(node, action); break;
    case KILN_SERVER_TIME: child_goes_on(node, action->slot, action->run); break;
    case KILN_SERVER_KILL: kill_child(node, action); break;
    case KILN_SERVER_CHECK: begin_check(node, action); break;
    case KILN_SERVER_RESTART: ask_launcher(node, action); break;
    case KILN_SERVER_CONFIRM:
        sim_at(node->world, sim_between(node->world, 0, 20 * SIM_MS), node, commit, 0, 0);
        break;
    case KILN_SERVER_GIVE_UP: roll_back_after(node, 0, "its self-check failed"); break;
    case KILN_SERVER_POWER_CYCLE:
        sim_note(node->world, "board %u: %s", node->index, action->text);
        break;
    }
}

/* No child outlives its deadline. */
static void check_children(sim_node *node) {
    const board_state *s = node->state;
    for (uint32_t i = 0; i < SLOTS_MAX; i++)
        if (s->child[i].alive && !s->child[i].waits &&
            node->world->now_ns > s->child[i].phase_ns + PHASE_NS)
            sim_fail(node->world, "board %u leaves a hanging child alone", node->index);
}

static void run_step(sim_node *node, const kiln_server_event *event) {
    board_state *s = node->state;
    kiln_server_actions actions = {0};
    kiln_arena_init(&actions.arena, 0);
    const kiln_thread_work before = *kiln_thread_work_here();
    kiln_server_step(s->machine, sim_clock(node), event, &actions);
    sim_check_work(node, &before);
    for (uint32_t i = 0; i < actions.list.count; i++) carry_out(node, &actions.list.data[i]);
    kiln_server_actions_deinit(&actions);
    check_children(node);
    sim_tick_at(node, kiln_server_next_ns(s->machine));
}

static void start(sim_node *node) {
    board_state *s = node->state;
    const char *codegen = codegen_of(node);
    kiln_msg_label builds = {KILN_STR(KILN_LABEL_BUILDS), kiln_str_from(codegen)};
    kiln_msg_board_target other = {.target = KILN_STR(SIM_OTHER_TARGET), .slots = 1};
    kiln_msg_board_up up = {
        .key = KILN_STR("board"),
        .target = KILN_STR(SIM_TARGET),
        .slots = 1 + node->index % 2,
        .labels = {&builds, codegen ? 1 : 0},
        .targets = {&other, node->index % 2 == 0 ? 1 : 0},
    };
    kiln_release_keys keys = {0};
    if (node->world->options.upgrades) sim_upgrade_keys(&keys);
    s->machine = kiln_server_create(
        &(kiln_server_options){.board = &up,
                               .release_keys = &keys,
                               .version = s->launch.is_trial ? s->next : s->version,
                               .launch = s->launch,
                               .seed = kiln_rand_u64(&node->world->rand),
                               .check_ns = KILN_HEALTH_CHECK_NS},
        sim_clock(node));
    s->is_mute = false;
    if (s->launch.is_trial) begin_trial(node);
    sim_tick_at(node, sim_clock(node));
}

static void stop(sim_node *node) {
    board_state *s = node->state;
    kiln_server_destroy(s->machine);
    s->machine = NULL;
    if (!s->relaunches) s->launch = (kiln_server_launch){0}; /* the power was lost */
    s->relaunches = false;
    s->fetches.count = 0;
    s->checking = false;
    kiln_map_reset(&s->came);
    kiln_map_reset(&s->begun);
    kiln_map_reset(&s->slot_of);
    memset(s->seen, 0, sizeof s->seen);
    s->heard_count = 0;
    for (uint32_t i = 0; i < TRIALS_HEARD; i++) s->heard[i].lease = 0;
    for (uint32_t i = 0; i < SLOTS_MAX; i++)
        s->child[i].alive = false; /* they die with their parent */
}

static void opened(sim_node *node, sim_conn *conn, const kiln_msg_hello *hello) {
    (void)conn, (void)hello;
    run_step(node, &(kiln_server_event){.kind = KILN_SERVER_OPENED});
}

static void on_message(sim_node *node, sim_conn *conn, const kiln_message *message) {
    sim_world *world = node->world;
    const bool is_trial = message->type == KILN_MSG_TRIAL;
    if (is_trial && message->trial.artefact.size == 0 && message->trial.recipe.trace.size == 0)
        sim_fail(world, "board %u gets a trial of nothing", node->index);
    if (is_trial) hear_trial(node, message, conn->side[1]->reign);
    if (message->type == KILN_MSG_LEASE_LOST && !sim_is_calm(world) &&
        sim_chance(world, world->options.deaf_permille))
        return;
    run_step(node, &(kiln_server_event){.kind = KILN_SERVER_MESSAGE, .message = message});
    if (is_trial && message->trial.slot < SLOTS_MAX) check_fence(node, message->trial.slot);
}

static void closed(sim_node *node, sim_conn *conn) {
    (void)conn;
    fail_fetches(node);
    run_step(node, &(kiln_server_event){.kind = KILN_SERVER_CLOSED});
}

static void tick(sim_node *node) { run_step(node, &(kiln_server_event){.kind = KILN_SERVER_TICK}); }

const sim_program sim_board_program = {start, stop, opened, on_message, closed, tick};

static void read_health(sim_node *node, uint64_t a, uint64_t b) {
    (void)a, (void)b;
    board_state *s = node->state;
    bool sick = node->world->now_ns < s->sick_until_ns;
    run_step(node, &(kiln_server_event){.kind = KILN_SERVER_READING,
                                        .failure = sick ? "too hot" : NULL,
                                        .env = &(kiln_msg_env){.temperature_mc = 50000}});
}

void sim_board_make_sick(sim_node *node, uint64_t until_ns) {
    board_state *s = node->state;
    sim_note(node->world, "board %u is sick", node->index);
    s->sick_until_ns = until_ns;
    sim_at(node->world, 0, node, read_health, 0, 0);
    sim_at(node->world, until_ns - node->world->now_ns, node, read_health, 0, 0);
}

void sim_board_break(sim_node *node, uint64_t until_ns) {
    board_state *s = node->state;
    sim_note(node->world, "board %u breaks", node->index);
    s->broken_until_ns = until_ns;
}

void sim_board_fill_disk(sim_node *node, uint64_t until_ns) {
    board_state *s = node->state;
    s->full_until_ns = until_ns;
}

void sim_board_heat(sim_node *node, uint64_t until_ns) {
    board_state *s = node->state;
    sim_note(node->world, "board %u is hot", node->index);
    s->hot_until_ns = until_ns;
}

void sim_board_check_rest(sim_node *node) {
    board_state *s = node->state;
    kiln_server_counts counts = kiln_server_counts_of(s->machine);
    if (counts.waiting || counts.running || counts.kept)
        sim_fail(node->world, "board %u still has %u waiting, %u running, %u kept trials",
                 node->index, counts.waiting, counts.running, counts.kept);
    if (counts.sick) sim_fail(node->world, "board %u is still sick", node->index);
}
