/* An administrator who upgrades the fleet again and again (kiln-sim --upgrades): some versions do
 * not start, do not connect, or fail their self-check. When it is calm, a good version must reach
 * every board. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/sign/release.h"
#include "tests/sim/world.h"

#define PATIENCE_NS (7 * SIM_S)
#define LOOK_NS (3 * SIM_S) /* between two questions */
#define WAIT_S 20u

typedef struct upgrader_state {
    /* What the person knows; survives the program. */
    uint32_t version; /* of the last order */
    bool is_good;     /* that version */
    bool is_done;     /* every board runs a good version, and it is calm */
    /* Of this run. */
    uint64_t sent_ns, next_ns;
} upgrader_state;

void *sim_upgrader_state(void) { return kiln_alloc(sizeof(upgrader_state)); }

bool sim_upgrader_is_done(const sim_node *node) {
    return ((const upgrader_state *)node->state)->is_done;
}

void sim_upgrade_keys(kiln_release_keys *out_keys) {
    const uint8_t seed[KILN_SIGN_SEED_BYTES] = {1};
    *out_keys = (kiln_release_keys){.count = 1};
    kiln_status_free(kiln_sign_public_of(seed, &out_keys->key[0])); /* --upgrades asks before */
}

/* A statement about version "0.N.FLAW". */
static void sign(sim_node *node, uint32_t version, sim_flaw flaw, kiln_strbuf *out) {
    const uint8_t seed[KILN_SIGN_SEED_BYTES] = {1};
    kiln_signer *signer = NULL;
    kiln_release release = {.name = "kiln-board", .size_bytes = 7};
    snprintf(release.version, sizeof release.version, "0.%u.%d", version, (int)flaw);
    snprintf(release.arch, sizeof release.arch, "%s", kiln_release_arch());
    kiln_digest_of(release.version, strlen(release.version), &release.digest);
    sim_store_put(node->world, &release.digest);
    kiln_status st = kiln_signer_create(seed, &signer);
    if (!st) st = kiln_release_sign(&release, signer, out);
    if (st) sim_fail(node->world, "signing: %s", kiln_status_text(st));
    kiln_status_free(st);
    kiln_signer_destroy(signer);
}

static void send_order(sim_node *node) {
    upgrader_state *s = node->state;
    sim_world *world = node->world;
    kiln_strbuf text = {0};
    const sim_flaw flaw =
        sim_is_calm(world) ? SIM_FLAW_NONE : (sim_flaw)sim_between(world, 0, SIM_FLAW_COUNT - 1);
    s->is_good = flaw == SIM_FLAW_NONE;
    sign(node, ++s->version, flaw, &text);
    kiln_msg_release_statement statement = {kiln_strbuf_view(&text)};
    sim_note(world, "upgrade to 0.%u.%d", s->version, (int)flaw);
    sim_send(node, node->conn,
             &(kiln_message){.type = KILN_MSG_UPGRADE_ORDER,
                             .stream = 2,
                             .upgrade_order = {.releases = {&statement, 1},
                                               .canaries = 1,
                                               .at_once = (uint32_t)sim_between(world, 1, 3),
                                               .wait_s = WAIT_S}});
    kiln_strbuf_deinit(&text);
}

static void on_upgrades(sim_node *node, const kiln_msg_upgrade_row *row) {
    upgrader_state *s = node->state;
    sim_world *world = node->world;
    char version[KILN_RELEASE_WORD_MAX];
    snprintf(version, sizeof version, "0.%u.0", s->version);
    s->is_done = sim_is_calm(world) && row->state == KILN_UPGRADE_DONE && s->is_good &&
                 kiln_str_is(row->version, version) && row->done == world->options.boards;
    if (row->state != KILN_UPGRADE_RUNNING && !s->is_done)
        send_order(node);
    else if (row->state == KILN_UPGRADE_RUNNING && !sim_is_calm(world) && sim_chance(world, 30))
        sim_send(node, node->conn,
                 &(kiln_message){.type = KILN_MSG_UPGRADE_ORDER,
                                 .stream = 2,
                                 .upgrade_order = {.act = KILN_UPGRADE_CANCEL}});
}

static void start(sim_node *node) {
    upgrader_state *s = node->state;
    s->sent_ns = 0;
    s->next_ns = node->world->now_ns + sim_between(node->world, SIM_S, 20 * SIM_S);
    sim_tick_at(node, node->world->now_ns);
}

static void stop(sim_node *node) { (void)node; }

static void opened(sim_node *node, sim_conn *conn, const kiln_msg_hello *hello) {
    (void)conn, (void)hello;
    sim_tick_at(node, node->world->now_ns);
}

static void on_message(sim_node *node, sim_conn *conn, const kiln_message *message) {
    (void)conn;
    upgrader_state *s = node->state;
    if (message->type != KILN_MSG_UPGRADES && message->type != KILN_MSG_ERROR) return;
    s->sent_ns = 0;
    s->next_ns = node->world->now_ns + LOOK_NS;
    if (message->type == KILN_MSG_UPGRADES && message->stream == 1)
        on_upgrades(node, &message->upgrades.upgrade);
}

static void closed(sim_node *node, sim_conn *conn) {
    (void)conn;
    upgrader_state *s = node->state;
    s->sent_ns = 0;
}

static void tick(sim_node *node) {
    upgrader_state *s = node->state;
    const uint64_t now_ns = node->world->now_ns;
    if (s->is_done) return;
    if (node->conn && s->sent_ns && now_ns - s->sent_ns > PATIENCE_NS) {
        sim_close(node, node->conn);
        s->sent_ns = 0;
    } else if (!node->conn) {
        sim_dial(node);
    } else if (node->conn->shaken && !s->sent_ns && now_ns >= s->next_ns) {
        s->sent_ns = now_ns;
        sim_send(node, node->conn, &(kiln_message){.type = KILN_MSG_UPGRADE_QUERY, .stream = 1});
    }
    sim_tick_at(node, now_ns + SIM_S);
}

const sim_program sim_upgrader_program = {start, stop, opened, on_message, closed, tick};
