#include "tracker/key_list.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"

struct kiln_tracker_key_list {
    kiln_loop *loop;
    const char *path, *home;
    kiln_audit *audit;
    kiln_keyring *keyring;
    kiln_timer *timer;   /* while the usual key file is missing */
    struct stat refused; /* the file that could not be used */
    kiln_tracker_key_list_opened opened;
    void *context; /* of opened */
};

bool kiln_tracker_key_list_find(void *context, kiln_str node, const kiln_sign_public *half,
                                kiln_tracker_known_key *out_key) {
    const kiln_tracker_key_list *list = context;
    kiln_key name = {0};
    kiln_strbuf text = {0};
    if (!list->keyring) return false;
    kiln_strbuf_str(&text, node);
    if (node.size && !memchr(node.data, '/', node.size)) {
        kiln_strbuf_reset(&text);
        kiln_strbuf_printf(&text, "tuner/%.*s", KILN_STR_ARG(node));
    }
    kiln_status st = node.size ? kiln_key_name_parse(kiln_strbuf_view(&text), &name) : KILN_OK;
    const kiln_key *key =
        st ? NULL : kiln_keyring_signer(list->keyring, node.size ? &name : NULL, half);
    kiln_status_free(st); /* no key has a name that does not parse */
    kiln_strbuf_deinit(&text);
    if (!key) return false;
    /* Without the generation: a node keeps its name when its key is rotated. */
    snprintf(out_key->node, sizeof out_key->node, "%s/%s", kiln_peer_role_name(key->role),
             key->node);
    out_key->half = key->public_half;
    return true;
}

bool kiln_tracker_key_list_token(void *context, kiln_str person, kiln_str secret,
                                 kiln_tracker_token *out_token) {
    const kiln_tracker_key_list *list = context;
    const kiln_key *token =
        list->keyring ? kiln_keyring_token(list->keyring, person, secret) : NULL;
    if (!token) return false;
    kiln_key_name_print(token, out_token->name);
    out_token->is_admin = kiln_keyring_person(list->keyring, person).is_admin;
    return true;
}

kiln_status kiln_tracker_key_list_admit(const kiln_tracker_key_list *list, const kiln_peer *peer,
                                        bool is_member, bool *out_admin) {
    const kiln_str person = kiln_str_from(peer->person), token = kiln_str_from(peer->signed_in);
    kiln_person_keys keys = {0};
    if (list->keyring) keys = kiln_keyring_person(list->keyring, person);
    if (token.size && !(list->keyring && kiln_keyring_has_token(list->keyring, person, token)))
        return KILN_ERROR(UNAUTHENTICATED, "the token %s is revoked or has expired: sign in again",
                          peer->signed_in);
    if (!keys.has_any && !is_member)
        return KILN_ERROR(UNAUTHENTICATED,
                          "there is no person %s: `kiln key new client/NAME --web` makes a token, "
                          "`kiln project add PROJECT NAME` a member",
                          peer->person);
    *out_admin = keys.is_admin;
    return KILN_OK;
}

static void on_keys(void *context, kiln_status status) {
    kiln_tracker_key_list *list = context;
    uint32_t count = kiln_keyring_count(list->keyring);
    if (status)
        kiln_log(KILN_LOG_ERROR, "the key file changed, its %u keys stay in force: %s", count,
                 kiln_status_text(status));
    else
        kiln_log(KILN_LOG_INFO, "%u keys are in force", count);
    kiln_audit_keys(list->audit, count, status);
}

static void on_settled(void *context, const kiln_key *name, kiln_key_state outcome,
                       const char *why) {
    char text[KILN_KEY_NAME_BYTES];
    (void)context;
    kiln_key_name_print(name, text);
    if (outcome == KILN_KEY_IN_FORCE)
        kiln_log(KILN_LOG_INFO, "%s was taken by its node; the keys before it are revoked", text);
    else if (outcome == KILN_KEY_DECLINED)
        kiln_log(KILN_LOG_WARN, "%s was not taken by its node: %s", text, why);
    else
        kiln_log(KILN_LOG_ERROR, "the key file could not be updated for %s: %s", text, why);
}

static kiln_status open_keyring(kiln_tracker_key_list *list) {
    const char *path = list->path;
    kiln_strbuf usual = {0};
    kiln_strbuf_printf(&usual, "%s/keys", list->home);
    if (!path && kiln_file_exists(usual.data) && kiln_tls_supported()) path = usual.data;
    kiln_status st =
        path ? kiln_keyring_open(list->loop, path, on_keys, list, &list->keyring) : KILN_OK;
    kiln_strbuf_deinit(&usual);
    if (list->keyring) kiln_keyring_on_settled(list->keyring, on_settled);
    if (kiln_status_code(st) != KILN_NOT_FOUND) return st;
    return kiln_status_note(st, "there are no keys yet, `kiln key new ROLE/NODE` makes them");
}

static void use_new_file(kiln_tracker_key_list *list) {
    kiln_status st = open_keyring(list);
    if (st) kiln_log(KILN_LOG_ERROR, "the new key file cannot be used: %s", kiln_status_text(st));
    kiln_status_free(st);
    if (!list->keyring) return;
    on_keys(list, KILN_OK);
    if (list->opened) list->opened(list->context);
}

/* Waits for the usual key file. One that cannot be used is reported once, until it changes. */
static void look(void *context) {
    kiln_tracker_key_list *list = context;
    struct stat now = {0};
    kiln_strbuf usual = {0};
    if (list->keyring) return;
    kiln_strbuf_printf(&usual, "%s/keys", list->home);
    const bool is_there = stat(usual.data, &now) == 0;
    const bool is_new = now.st_ino != list->refused.st_ino ||
                        now.st_mode != list->refused.st_mode ||
                        now.st_mtim.tv_sec != list->refused.st_mtim.tv_sec ||
                        now.st_mtim.tv_nsec != list->refused.st_mtim.tv_nsec;
    kiln_strbuf_deinit(&usual);
    if (is_there && is_new) use_new_file(list);
    list->refused = now;
    if (!list->keyring) kiln_timer_start(list->timer, KILN_NET_KEYS_NS);
}

kiln_status kiln_tracker_key_list_open(kiln_loop *loop, const char *path, const char *home,
                                       kiln_audit *audit, kiln_tracker_key_list **out_list) {
    kiln_tracker_key_list *list = kiln_alloc(sizeof *list);
    *list = (kiln_tracker_key_list){.loop = loop, .path = path, .home = home, .audit = audit};
    kiln_status st = open_keyring(list);
    if (st) {
        kiln_free(list);
        return st;
    }
    if (!list->keyring && kiln_tls_supported()) {
        list->timer = kiln_timer_create(loop, look, list);
        kiln_timer_start(list->timer, KILN_NET_KEYS_NS);
    }
    *out_list = list;
    return KILN_OK;
}

void kiln_tracker_key_list_close(kiln_tracker_key_list *list) {
    if (!list) return;
    kiln_timer_destroy(list->timer);
    kiln_keyring_close(list->keyring);
    kiln_free(list);
}

kiln_keyring *kiln_tracker_key_list_keyring(const kiln_tracker_key_list *list) {
    return list->keyring;
}

void kiln_tracker_key_list_on_opened(kiln_tracker_key_list *list,
                                     kiln_tracker_key_list_opened opened, void *context) {
    list->opened = opened;
    list->context = context;
}

void kiln_tracker_key_list_reload(kiln_tracker_key_list *list) {
    if (list->keyring)
        kiln_keyring_reload(list->keyring);
    else
        use_new_file(list);
}
