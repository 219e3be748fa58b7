#include "web/session.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/rand.h"

#define SECRET_BYTES 32u

struct kiln_sessions {
    kiln_loop *loop;
    kiln_people *people;
    kiln_digest token; /* hash of the token that signs in the owner of a single server */
};

/* ---- The token of this user ---- */

static kiln_status make_token(const char *path, kiln_strbuf *out) {
    uint8_t secret[SECRET_BYTES];
    kiln_status st = kiln_rand_system(secret, sizeof secret);
    if (st) return st;
    kiln_strbuf_text(out, "kiln-web-");
    for (size_t i = 0; i < sizeof secret; i++) kiln_strbuf_printf(out, "%02x", secret[i]);
    kiln_strbuf_char(out, '\n');
    kiln_wipe(secret, sizeof secret);
    return kiln_file_write(path, kiln_strbuf_view(out), 0600);
}

static kiln_status read_token(kiln_sessions *s, const char *home) {
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    kiln_strbuf made = {0};
    kiln_str text = {0};
    const char *path = kiln_arena_printf(&scratch, "%s/" KILN_WEB_TOKEN_FILE, home);
    kiln_status st = kiln_file_read(path, KILN_WEB_TOKEN_BYTES_MAX, &scratch, &text);
    if (kiln_status_code(st) == KILN_NOT_FOUND) {
        kiln_status_free(st);
        st = make_token(path, &made);
        text = kiln_strbuf_view(&made);
    }
    text = kiln_str_trim(text);
    if (!st && text.size < SECRET_BYTES)
        st = KILN_ERROR(DATA_LOSS, "%s is no token; remove it, and a new one is made", path);
    if (!st) kiln_digest_of(text.data, text.size, &s->token);
    kiln_strbuf_wipe(&made);
    kiln_arena_deinit(&scratch);
    return st;
}

kiln_status kiln_sessions_create(kiln_loop *loop, kiln_people *people,
                                 const kiln_sessions_options *options,
                                 kiln_sessions **out_sessions) {
    kiln_sessions *s = kiln_alloc(sizeof *s);
    s->loop = loop;
    s->people = people;
    kiln_status st = kiln_people_is_single(people) ? read_token(s, options->home) : KILN_OK;
    if (st) {
        kiln_sessions_destroy(s);
        return st;
    }
    *out_sessions = s;
    return KILN_OK;
}

void kiln_sessions_destroy(kiln_sessions *sessions) {
    if (!sessions) return;
    kiln_wipe(sessions, sizeof *sessions);
    kiln_free(sessions);
}

/* ---- Requests ---- */

/* Compares hashes, so that the time says nothing about the token. */
static bool is_owners(const kiln_sessions *s, kiln_str token) {
    kiln_digest digest;
    if (!kiln_people_is_single(s->people)) return false;
    kiln_digest_of(token.data, token.size, &digest);
    return kiln_digest_equal_secret(&digest, &s->token);
}

void kiln_sessions_find(kiln_sessions *sessions, kiln_http_request *r, kiln_session_found found,
                        void *context) {
    kiln_session session = {0};
    kiln_str token = kiln_http_header(r, "Authorization");
    const kiln_str scheme = kiln_str_cut(&token, ' ');
    if (!kiln_str_is(scheme, "Bearer") || !is_owners(sessions, kiln_str_trim(token))) {
        found(context, NULL, KILN_ERROR(UNAUTHENTICATED, "sign in first"));
        return;
    }
    snprintf(session.person, sizeof session.person, "%s", kiln_people_owner(sessions->people));
    found(context, &session, KILN_OK);
}
