/* `kiln key`: the key file of a tracker, and the one-key files of its nodes. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/identity.h"
#include "base/rand.h"
#include "cli/action.h"
#include "cli/common/records.h"
#include "cli/db_call.h"
#include "cli/module_trust.h"
#include "cli/release.h"
#include "proto/net.h"
#include "proto/signing.h"

#define LOOK_NS (100 * KILN_NS_PER_MS) /* between two looks at what the tracker wrote */

typedef struct key_call {
    const char *keys, *output, *expires, *name; /* `name`: NULL where none is needed */
    const char *db;                             /* of trust; NULL: the default */
    const char *key_file;                       /* of signing; NULL: the default */
    const char *trust;                          /* of check-release: a file of release keys */
    bool json, no, web;
    double wait_s; /* for a node to take its key */
    int lock;      /* of the key file; -1: none */
    kiln_arena *process;
} key_call;

static void report(const key_call *c, const char *event, const char *name, const char *file) {
    if (c->json)
        kiln_json_line(json_pack("{s:s, s:s, s:s}", "event", event, "key", name, "file", file));
}

/* ---- kiln key new ---- */

/* The file of one node, beside the tracker's: never over another one. */
static kiln_status write_own(const char *path, const kiln_key *key) {
    kiln_keys own = {0};
    if (kiln_file_exists(path))
        return KILN_ERROR(ALREADY_EXISTS, "%s exists already; name another file with -o", path);
    kiln_vec_push(&own.key, *key); /* the only one: nothing is left behind */
    kiln_status st = kiln_keys_write(path, &own);
    kiln_keys_deinit(&own);
    return st;
}

static kiln_status read_or_begin(const char *path, kiln_keys *out_keys) {
    return kiln_file_exists(path) ? kiln_keys_read(path, out_keys) : KILN_OK;
}

/* --expires: a day, or how many days from today. */
static kiln_status find_last_day(const char *text, uint32_t *out_day) {
    const uint32_t today = kiln_day_of(kiln_clock_wall_ns());
    uint64_t count = 0;
    uint32_t day = 0;
    if (!text) return KILN_OK;
    if (kiln_str_to_u64(kiln_str_from(text), &count) && count > 0 && count < KILN_DAY_MAX - today)
        day = today + (uint32_t)count;
    else if (!kiln_day_parse(kiln_str_from(text), &day))
        return KILN_ERROR(INVALID_ARGUMENT,
                          "--expires %s: a day (2031-12-31), or a number of days from today", text);
    if (day < today) return KILN_ERROR(INVALID_ARGUMENT, "--expires %s: that day is over", text);
    *out_day = day;
    return KILN_OK;
}

/* Secret and seed are new. `*own` is for the node; the tracker's file gets no seed. */
static kiln_status draw(kiln_key *own) {
    kiln_status st = kiln_rand_system(own->secret, sizeof own->secret);
    if (st || !kiln_sign_supported()) return st;
    st = kiln_rand_system(own->seed, sizeof own->seed);
    if (!st) st = kiln_sign_public_of(own->seed, &own->public_half);
    own->has_seed = own->has_public = !st;
    return st;
}

static kiln_status add_drawn(kiln_keys *keys, kiln_key *own) {
    kiln_key listed = *own;
    const kiln_key *key = NULL;
    explicit_bzero(listed.seed, sizeof listed.seed);
    listed.has_seed = false;
    kiln_status st = kiln_keys_add(keys, &listed, &key);
    if (!st) own->generation = key->generation;
    explicit_bzero(&listed, sizeof listed);
    return st;
}

/* A token has no pair for signatures. `*own` is what the tracker's file gets. */
static kiln_status draw_token(kiln_key *own, char out_text[KILN_WEB_TOKEN_TEXT]) {
    uint8_t secret[KILN_KEY_BYTES];
    kiln_status st = kiln_rand_system(secret, sizeof secret);
    if (!st) kiln_web_token_print(own->node, secret, out_text);
    if (!st) kiln_web_token_digest(secret, own->secret);
    explicit_bzero(secret, sizeof secret);
    return st;
}

static kiln_status write_token(const char *path, const char *token) {
    kiln_strbuf text = {0};
    if (kiln_file_exists(path))
        return KILN_ERROR(ALREADY_EXISTS, "%s exists already; name another file with -o", path);
    kiln_strbuf_reserve(&text, KILN_WEB_TOKEN_TEXT + 1);
    kiln_strbuf_printf(&text, "%s\n", token);
    kiln_status st = kiln_file_write(path, kiln_strbuf_view(&text), 0600);
    kiln_strbuf_wipe(&text);
    return st;
}

/* The same for a token with which a person signs in at a web server. */
static kiln_status token_new(key_call *c, kiln_key *own) {
    kiln_keys keys = {0};
    char name[KILN_KEY_NAME_BYTES], token[KILN_WEB_TOKEN_TEXT] = "";
    const char *output =
        c->output ? c->output : kiln_arena_printf(c->process, "%s.token", own->node);
    kiln_status st = KILN_OK;
    if (!kiln_peer_is_person(own->role))
        return KILN_ERROR(INVALID_ARGUMENT,
                          "only people sign in: --web is for client/NAME and admin/NAME");
    own->is_token = true;
    st = read_or_begin(c->keys, &keys);
    if (!st) st = draw_token(own, token);
    if (!st) st = add_drawn(&keys, own);
    if (!st) st = write_token(output, token);
    if (!st) {
        st = kiln_keys_write(c->keys, &keys);
        if (st) unlink(output); /* a token that no tracker knows */
    }
    kiln_key_name_print(own, name);
    explicit_bzero(token, sizeof token);
    kiln_keys_deinit(&keys);
    if (st) return st;
    report(c, "new", name, output);
    if (!c->json)
        printf("%s is in %s: %s signs in with it at a web server. The tracker's %s has only its "
               "digest.\n",
               name, output, own->node, c->keys);
    return KILN_OK;
}

static kiln_status key_new(key_call *c) {
    kiln_key own;
    kiln_keys keys = {0};
    char text[KILN_KEY_NAME_BYTES];
    kiln_status st = kiln_key_name_parse(kiln_str_from(c->name), &own);
    if (!st && own.generation)
        st = KILN_ERROR(INVALID_ARGUMENT,
                        "leave out the generation, which is counted automatically: %s/%s",
                        kiln_peer_role_name(own.role), own.node);
    if (!st) st = find_last_day(c->expires, &own.last_day);
    if (!st && (c->web || own.is_token)) return token_new(c, &own);
    if (st) return st;
    const char *output = c->output ? c->output : kiln_arena_printf(c->process, "%s.key", own.node);
    st = read_or_begin(c->keys, &keys);
    if (!st) st = draw(&own);
    if (!st) st = add_drawn(&keys, &own);
    if (!st) kiln_key_name_print(&own, text);
    if (!st) st = write_own(output, &own);
    if (!st) {
        st = kiln_keys_write(c->keys, &keys);
        if (st) unlink(output); /* a key that no tracker knows */
    }
    explicit_bzero(&own, sizeof own);
    kiln_keys_deinit(&keys);
    if (st) return st;
    report(c, "new", text, output);
    if (!c->json)
        printf("%s is in %s, and its tracker's in %s.\n"
               "Move it to the node as $KILN_HOME/key (~/.local/state/kiln/key), or name it there "
               "with --key-file.\n",
               text, output, c->keys);
    return KILN_OK;
}

/* ---- kiln key list ---- */

static void list_one(const key_call *c, const kiln_key *key) {
    static const char *const state[] = {[KILN_KEY_IN_FORCE] = "in force",
                                        [KILN_KEY_OFFERED] = "offered",
                                        [KILN_KEY_DECLINED] = "declined"};
    const bool over = kiln_key_has_expired(key, kiln_day_of(kiln_clock_wall_ns()));
    const char *word = over ? "expired" : state[key->state];
    char name[KILN_KEY_NAME_BYTES], day[KILN_DAY_TEXT] = "", half[KILN_SIGN_PUBLIC_TEXT] = "";
    kiln_key_name_print(key, name);
    if (key->last_day) kiln_day_print(key->last_day, day);
    if (key->has_public) kiln_sign_public_print(&key->public_half, half);
    if (c->json)
        kiln_json_line(json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "event", "key", "key", name,
                                 "file", c->keys, "state", word, "expires", day, "public", half));
    else
        printf("%s%s%s%s%s\n", name, *day ? "  until " : "", day, key->state || over ? "  " : "",
               key->state || over ? word : "");
}

static kiln_status key_list(key_call *c) {
    kiln_keys keys = {0};
    kiln_status st = read_or_begin(c->keys, &keys);
    if (st) return st;
    for (uint32_t i = 0; i < keys.key.count; i++)
        if (keys.key.data[i].state != KILN_KEY_REVOKED) list_one(c, &keys.key.data[i]);
    if (kiln_keys_in_force(&keys) == 0 && !c->json)
        printf("no keys in %s; kiln key new ROLE/NODE makes one\n", c->keys);
    kiln_keys_deinit(&keys);
    return KILN_OK;
}

/* ---- kiln key revoke ---- */

/* Makes c->name whole, of which a person may have typed the beginning: "board/rpi". One that is not
 * in the list stays as it is, as does one with a generation. */
static kiln_status complete_name(key_call *c) {
    kiln_identity_search search = {.typed = kiln_str_from(c->name), .arena = c->process};
    kiln_keys keys = {0};
    kiln_str whole = {0};
    kiln_status st = kiln_keys_read(c->keys, &keys);
    for (uint32_t i = 0; !st && i < keys.key.count; i++) {
        const kiln_key *key = &keys.key.data[i];
        if (key->state == KILN_KEY_REVOKED) continue;
        kiln_identity_try(
            &search,
            kiln_str_printf(c->process, "%s/%s", kiln_peer_role_name(key->role), key->node),
            (kiln_str){0});
    }
    kiln_keys_deinit(&keys);
    if (st || search.count == 0) return st;
    st = kiln_identity_found(&search, "key", &whole);
    if (!st) c->name = kiln_str_dup(c->process, whole);
    return st;
}

static kiln_status key_revoke(key_call *c) {
    kiln_key name;
    kiln_keys keys = {0};
    kiln_status st = complete_name(c);
    if (!st) st = kiln_key_name_parse(kiln_str_from(c->name), &name);
    if (!st) st = kiln_keys_read(c->keys, &keys);
    uint32_t count = st ? 0 : kiln_keys_revoke(&keys, &name);
    if (!st && count == 0) st = KILN_ERROR(NOT_FOUND, "%s has no key %s", c->keys, c->name);
    if (!st) st = kiln_keys_write(c->keys, &keys);
    kiln_keys_deinit(&keys);
    if (st) return st;
    report(c, "revoked", c->name, c->keys);
    if (!c->json)
        printf("%s: %u %s revoked; a running tracker disconnects its user within a second\n",
               c->name, count, count == 1 ? "key" : "keys");
    return KILN_OK;
}

/* ---- kiln key sign ---- */

static kiln_status sign_module(const char *path, kiln_signer *signer, kiln_arena *process) {
    (void)process;
    return kiln_module_sign(path, signer);
}

static kiln_status sign_by(key_call *c, kiln_status (*sign)(const char *path, kiln_signer *signer,
                                                            kiln_arena *process)) {
    kiln_signing own = {0};
    char *home = NULL, half[KILN_SIGN_PUBLIC_TEXT];
    kiln_status st = kiln_home(c->process, &home);
    if (!st) st = kiln_signing_load(home, c->key_file, &own);
    if (!st && !own.signer)
        st = KILN_ERROR(UNIMPLEMENTED, "this build has no OpenSSL: it makes no signatures");
    if (!st) st = sign(c->name, own.signer, c->process);
    if (!st) kiln_sign_public_print(kiln_signer_public(own.signer), half);
    kiln_signer_destroy(own.signer);
    if (st) return st;
    report(c, "signed", half, c->name);
    if (!c->json) printf("%s is signed by\n%s\n", c->name, half);
    return KILN_OK;
}

static kiln_status key_sign(key_call *c) { return sign_by(c, sign_module); }

static kiln_status key_sign_release(key_call *c) { return sign_by(c, kiln_release_file_sign); }

static kiln_status key_check_release(key_call *c) {
    kiln_release release;
    char half[KILN_SIGN_PUBLIC_TEXT];
    if (!c->trust)
        return KILN_ERROR(INVALID_ARGUMENT, "--trust F is missing: a file of release keys");
    kiln_status st = kiln_release_file_check(c->name, c->trust, c->process, &release);
    if (st) return st;
    kiln_sign_public_print(&release.key, half);
    if (c->json)
        kiln_json_line(json_pack("{s:s, s:s, s:s, s:s, s:s}", "event", "release", "name",
                                 release.name, "version", release.version, "arch", release.arch,
                                 "key", half));
    else
        printf("%s %s for %s is signed by\n%s\n", release.name, release.version, release.arch,
               half);
    return KILN_OK;
}

/* ---- kiln key trust ---- */

static kiln_status key_trust(key_call *c) {
    kiln_db_call call = {.process = c->process, .json = c->json};
    kiln_status st = kiln_db_path(c->db, c->process, &call.path);
    if (!st)
        st = kiln_db_open(call.path, KILN_DB_RECORDS, c->name ? KILN_DB_WRITE : KILN_DB_READ,
                          &call.db);
    if (!st) st = kiln_db_call_trust(&call, c->name, c->no);
    kiln_db_close(call.db);
    return st;
}

/* ---- kiln key rotate ---- */

/* The next generation, in force beside the present one, and offered to the node. An offer that is
 * still open stands. */
static kiln_status offer_next(key_call *c, const kiln_key *name, kiln_key *out_next) {
    kiln_keys keys = {0};
    const kiln_key *now = NULL, *added = NULL;
    kiln_key next = {0};
    kiln_status st = kiln_keys_read(c->keys, &keys);
    if (!st) st = kiln_keys_newest(&keys, name, &now);
    if (!st) next = *now;
    if (!st && next.state != KILN_KEY_OFFERED) {
        next.state = KILN_KEY_OFFERED;
        st = find_last_day(c->expires, &next.last_day);
        if (!st && kiln_key_has_expired(&next, kiln_day_of(kiln_clock_wall_ns())))
            st = KILN_ERROR(FAILED_PRECONDITION,
                            "its last day is over, so the node cannot connect to get another: make "
                            "one with `kiln key new` and copy it to the node");
        if (!st) st = kiln_rand_system(next.secret, sizeof next.secret);
        if (!st) st = kiln_keys_add(&keys, &next, &added);
        if (!st) next.generation = added->generation;
        if (!st) st = kiln_keys_write(c->keys, &keys);
    }
    explicit_bzero(next.secret, sizeof next.secret);
    kiln_keys_deinit(&keys);
    if (!st) *out_next = next;
    return st;
}

/* What the list says of the offer; REVOKED also when it is gone. */
static kiln_status look_up(const key_call *c, const kiln_key *next, kiln_key_state *out_state) {
    kiln_keys keys = {0};
    kiln_status st = kiln_keys_read(c->keys, &keys);
    const kiln_key *key = st ? NULL : kiln_keys_find(&keys, next);
    if (!st) *out_state = key ? key->state : KILN_KEY_REVOKED;
    kiln_keys_deinit(&keys);
    return st;
}

/* The tracker writes into the list what came of the offer. */
static kiln_status wait_for_node(const key_call *c, const kiln_key *next,
                                 kiln_key_state *out_state) {
    const uint64_t end_ns = kiln_clock_ns() + (uint64_t)(c->wait_s * (double)KILN_NS_PER_S);
    kiln_status st = look_up(c, next, out_state);
    while (!st && *out_state == KILN_KEY_OFFERED && kiln_clock_ns() < end_ns) {
        kiln_clock_wait_until(kiln_clock_ns() + LOOK_NS);
        st = look_up(c, next, out_state);
    }
    return st;
}

/* The older key stays the only one: a second `new` must not push it out. */
static kiln_status take_back(const key_call *c, const kiln_key *next, const char *name) {
    kiln_keys keys = {0};
    int lock = -1;
    kiln_status st = kiln_file_lock(c->keys, &lock);
    if (!st) st = kiln_keys_read(c->keys, &keys);
    if (!st) kiln_keys_revoke(&keys, next);
    if (!st) st = kiln_keys_write(c->keys, &keys);
    kiln_keys_deinit(&keys);
    if (lock >= 0) close(lock);
    if (st) return st;
    return KILN_ERROR(
        PERMISSION_DENIED,
        "the node could not write its key file (the tracker's log says why), so it keeps its key: "
        "make one with `kiln key new %s -o FILE` and copy it to the node",
        name);
}

static kiln_status key_rotate(key_call *c) {
    kiln_key name, next;
    char text[KILN_KEY_NAME_BYTES];
    kiln_key_state state = KILN_KEY_OFFERED;
    kiln_status st = complete_name(c);
    if (!st) st = kiln_key_name_parse(kiln_str_from(c->name), &name);
    if (!st && name.is_token)
        st = KILN_ERROR(INVALID_ARGUMENT,
                        "a token is not rotated: make another with `kiln key new %s/%s --web`",
                        kiln_peer_role_name(name.role), name.node);
    if (!st && name.generation)
        st = KILN_ERROR(INVALID_ARGUMENT, "kiln key rotate takes ROLE/NODE, without a generation");
    if (!st) st = offer_next(c, &name, &next);
    if (st) return st;
    kiln_key_name_print(&next, text);
    close(c->lock); /* the tracker needs it */
    c->lock = -1;
    st = wait_for_node(c, &next, &state);
    if (!st && state == KILN_KEY_DECLINED) st = take_back(c, &next, c->name);
    if (!st && state == KILN_KEY_REVOKED)
        st = KILN_ERROR(ABORTED, "%s was revoked meanwhile", text);
    if (st) return st;
    const bool taken = state == KILN_KEY_IN_FORCE;
    report(c, taken ? "rotated" : "offered", text, c->keys);
    if (!c->json)
        printf(taken ? "%s has replaced the previous key, which is revoked.\n"
                     : "%s is offered; the node gets it when it is connected to the tracker over "
                       "TLS, and keeps the older key until then.\n",
               text);
    return KILN_OK;
}

/* Those that change the tracker's file do so one at a time, or the last would win. */
#define ACTIONS(X)                                                                               \
    X("new", "ROLE/NODE", key_new, true,                                                         \
      "make a key, as for board/rpi-1 or client/ann; a second one begins to replace the first: " \
      "both are valid until the older one is revoked")                                           \
    X("list", "", key_list, false, "list the keys of a tracker")                                 \
    X("rotate", "ROLE/NODE", key_rotate, true,                                                   \
      "replace a key in the running fleet: the tracker sends the new one to its node")           \
    X("revoke", "ROLE/NODE[/GENERATION]", key_revoke, true,                                      \
      "revoke a key, or all of a node and the person's tokens; client/ann/web names tokens")     \
    X("sign", "MODULE", key_sign, false, "sign a module for kiln run --trust")                   \
    X("sign-release", "ARCHIVE", key_sign_release, false,                                        \
      "sign an archive of programs for boards: writes ARCHIVE.release")                          \
    X("check-release", "ARCHIVE", key_check_release, false,                                      \
      "check an archive and ARCHIVE.release by the release keys of --trust")                     \
    X("trust", "[NAME|PUBLIC]", key_trust, false,                                                \
      "let the records of a signer count in a database (PUBLIC: the public half of a tuner's "   \
      "key), or list the signers")

static const kiln_action actions[] = {
#define X(name, arguments, run, locks, help) {name, arguments, help},
    ACTIONS(X)
#undef X
};

static const struct {
    kiln_status (*run)(key_call *c);
    bool locks;
} does[] = {
#define X(name, arguments, run, locks, help) {run, locks},
    ACTIONS(X)
#undef X
};

kiln_status kiln_cmd_key(kiln_arena *process, int argc, char **argv) {
    key_call c = {.process = process, .wait_s = 20, .lock = -1};
    const kiln_opt option[] = {
        {"keys", KILN_OPT_TEXT, &c.keys, "F", "the tracker's key file (default $KILN_HOME/keys)"},
        {"output|o", KILN_OPT_TEXT, &c.output, "FILE", "the node's key file (default NODE.key)"},
        {"web", KILN_OPT_FLAG, &c.web, NULL,
         "new: a token with which the person signs in at a web server, in NAME.token"},
        {"expires", KILN_OPT_TEXT, &c.expires, "DATE|DAYS",
         "new: the last day on which the key is valid (UTC), or in how many days that is"},
        {"db", KILN_OPT_TEXT, &c.db, "PATH",
         "trust: records database (default $KILN_HOME/kiln.db)"},
        {"key-file", KILN_OPT_TEXT, &c.key_file, "F",
         "sign, sign-release: with the key of this file (default $KILN_HOME/key, else "
         "$KILN_HOME/signing.key)"},
        {"trust", KILN_OPT_TEXT, &c.trust, "F",
         "check-release: a file of release keys, whose lines begin with public halves"},
        {"no", KILN_OPT_FLAG, &c.no, NULL, "trust: no longer trust that signer"},
        {"wait", KILN_OPT_NUMBER, &c.wait_s, "SECONDS",
         "rotate: wait so long for the node to take its key (default 20); it may also take it "
         "later"},
        {"json", KILN_OPT_FLAG, &c.json, NULL, "print one object per line"},
    };
    static const kiln_actions table = {
        .command = "key",
        .summary = "Manages the keys with which boards, tuners and people on other machines "
                   "connect to a tracker. ROLE is board, tuner, client, builder, admin or web.",
        .action = actions,
        .count = KILN_ARRAY_COUNT(actions)};
    kiln_args args;
    size_t index = 0;
    char *home = NULL;
    kiln_status st = kiln_action_parse(&table, option, KILN_ARRAY_COUNT(option), argc, argv,
                                       process, &args, &index);
    if (st || args.help) return st;
    c.name = args.count ? args.positional[0] : NULL;
    if (!c.keys) st = kiln_home(process, &home);
    if (home) c.keys = kiln_arena_printf(process, "%s/keys", home);
    if (!st && does[index].locks) st = kiln_file_lock(c.keys, &c.lock);
    if (!st) st = does[index].run(&c);
    if (c.lock >= 0) close(c.lock);
    return st;
}
