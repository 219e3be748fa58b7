#include "web/session.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/rand.h"
#include "web/attempts.h"
#include "web/seal.h"
#include "web/sign_outs.h"

#define SECRET_BYTES 32u
#define ID_BYTES 16u

/* A token that the tracker knew shortly ago: programs send theirs with each request. */
#define KNOWN_TOKENS 64u
#define KNOWN_NS (UINT64_C(10) * KILN_NS_PER_S)

typedef struct known_token {
    kiln_digest digest;
    uint64_t until_ns;
    kiln_identity_of_person who;
} known_token;

struct kiln_sessions {
    kiln_loop *loop;
    kiln_people *people;
    const char *home, *trust_header;
    bool has_owner;
    kiln_digest token; /* hash of the token that signs in the owner */
    kiln_digest key;   /* of the cookies */
    kiln_attempts attempts;
    kiln_sign_outs *ended;
    known_token known[KNOWN_TOKENS];
    uint32_t known_next;
};

/* A question to the tracker about a token. */
typedef struct asked_token {
    kiln_sessions *sessions;
    kiln_digest digest;
    char peer[64];
    kiln_session_found found;
    void *context;
} asked_token;

/* ---- Secrets in files ---- */

static void print_hex(const uint8_t *byte, size_t size, kiln_strbuf *out) {
    for (size_t i = 0; i < size; i++) kiln_strbuf_printf(out, "%02x", byte[i]);
}

static kiln_status make_secret(const char *path, const char *prefix, kiln_strbuf *out) {
    uint8_t secret[SECRET_BYTES];
    kiln_status st = kiln_rand_system(secret, sizeof secret);
    if (st) return st;
    kiln_strbuf_text(out, prefix);
    print_hex(secret, sizeof secret, out);
    kiln_strbuf_char(out, '\n');
    kiln_wipe(secret, sizeof secret);
    return kiln_file_write(path, kiln_strbuf_view(out), 0600);
}

/* Reads the secret in folder/name, or makes it, and hashes it. */
static kiln_status read_secret(const char *folder, const char *name, const char *prefix,
                               kiln_digest *out) {
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    kiln_strbuf made = {0};
    kiln_str text = {0};
    const char *path = kiln_arena_printf(&scratch, "%s/%s", folder, name);
    kiln_status st = kiln_file_read(path, KILN_WEB_TOKEN_BYTES_MAX, &scratch, &text);
    if (kiln_status_code(st) == KILN_NOT_FOUND) {
        kiln_status_free(st);
        st = make_secret(path, prefix, &made);
        text = kiln_strbuf_view(&made);
    }
    text = kiln_str_trim(text);
    if (!st && text.size < SECRET_BYTES)
        st = KILN_ERROR(DATA_LOSS, "%s holds no secret; remove it, and a new one is made", path);
    if (!st) kiln_digest_of(text.data, text.size, out);
    kiln_strbuf_wipe(&made);
    kiln_arena_deinit(&scratch);
    return st;
}

kiln_status kiln_sessions_create(kiln_loop *loop, kiln_people *people,
                                 const kiln_sessions_options *options,
                                 kiln_sessions **out_sessions) {
    kiln_sessions *s = kiln_alloc(sizeof *s);
    kiln_digest secret = {0};
    const kiln_str purpose = KILN_STR("kiln-web cookie 1");
    s->loop = loop;
    s->people = people;
    s->home = options->home;
    s->trust_header = options->trust_header;
    s->has_owner = kiln_people_owner(people) != NULL;
    kiln_status st = read_secret(options->state, "secret", "", &secret);
    kiln_hmac_of_parts((kiln_str){(const char *)secret.byte, sizeof secret.byte}, &purpose, 1,
                       &s->key);
    if (!st && s->has_owner)
        st = read_secret(options->home, KILN_WEB_TOKEN_FILE, "kiln-web-", &s->token);
    if (!st) st = kiln_sign_outs_create(loop, options->state, &s->ended);
    if (st) {
        kiln_sessions_destroy(s);
        return st;
    }
    *out_sessions = s;
    return KILN_OK;
}

void kiln_sessions_destroy(kiln_sessions *sessions) {
    if (!sessions) return;
    kiln_sign_outs_destroy(sessions->ended);
    kiln_wipe(sessions, sizeof *sessions);
    kiln_free(sessions);
}

kiln_status kiln_sessions_token(const kiln_sessions *sessions, kiln_arena *arena,
                                kiln_str *out_token) {
    kiln_str text = {0};
    if (!sessions->has_owner)
        return KILN_ERROR(NOT_FOUND,
                          "a server with a key of role web speaks for those who sign in, "
                          "and has no token of its own");
    kiln_status st =
        kiln_file_read(kiln_arena_printf(arena, "%s/" KILN_WEB_TOKEN_FILE, sessions->home),
                       KILN_WEB_TOKEN_BYTES_MAX, arena, &text);
    if (!st) *out_token = kiln_str_trim(text);
    return st;
}

/* ---- Cookies ---- */

kiln_str kiln_cookie_find(kiln_str header, const char *name) {
    while (header.size) {
        kiln_str value = kiln_str_cut(&header, ';');
        const kiln_str found = kiln_str_trim(kiln_str_cut(&value, '='));
        if (kiln_str_is(found, name)) return kiln_str_trim(value);
    }
    return (kiln_str){0};
}

/* What a page must send with changes: it follows from the session, and other pages cannot read it.
 */
static void make_csrf(const kiln_sessions *s, kiln_session *session) {
    kiln_digest digest;
    char text[KILN_DIGEST_TEXT];
    const kiln_str part[] = {KILN_STR("csrf"), kiln_str_from(session->id),
                             kiln_str_from(session->who.name)};
    kiln_hmac_of_parts((kiln_str){(const char *)s->key.byte, sizeof s->key.byte}, part,
                       KILN_ARRAY_COUNT(part), &digest);
    kiln_digest_print(&digest, text);
    memcpy(session->csrf, text, sizeof session->csrf - 1);
}

static kiln_sign_out sign_out_of(const kiln_session *session) {
    return (kiln_sign_out){session->who.name, session->id, session->expires_s};
}

static bool was_ended(const kiln_sessions *s, const kiln_session *session) {
    const kiln_sign_out one = sign_out_of(session);
    return kiln_sign_outs_has(s->ended, &one);
}

/* Copies a text with its NUL; false: too long. */
static bool copy_text(char *to, size_t size, kiln_str text) {
    if (text.size >= size || memchr(text.data ? text.data : "", 0, text.size)) return false;
    memcpy(to, text.data ? text.data : "", text.size);
    to[text.size] = 0;
    return true;
}

/* "1 EXPIRES ID FLAGS TOKEN NAME", with a line end after each. */
static bool read_cookie(kiln_str text, uint64_t now_s, kiln_session *out) {
    kiln_str rest = text;
    if (!kiln_str_is(kiln_str_cut(&rest, '\n'), "1")) return false;
    if (!kiln_str_to_u64(kiln_str_cut(&rest, '\n'), &out->expires_s)) return false;
    if (out->expires_s <= now_s) return false;
    if (!copy_text(out->id, sizeof out->id, kiln_str_cut(&rest, '\n'))) return false;
    const kiln_str flags = kiln_str_cut(&rest, '\n');
    out->who.is_owner = kiln_str_find_char(flags, 'o') < flags.size;
    out->who.is_admin = kiln_str_find_char(flags, 'a') < flags.size;
    return copy_text(out->who.token, sizeof out->who.token, kiln_str_cut(&rest, '\n')) &&
           copy_text(out->who.name, sizeof out->who.name, kiln_str_cut(&rest, '\n'));
}

bool kiln_session_parse(const kiln_sessions *sessions, kiln_str cookie, uint64_t now_s,
                        kiln_session *out_session) {
    kiln_strbuf text = {0};
    kiln_session session = {.needs_csrf = true};
    const bool is_ours = kiln_unseal(&sessions->key, cookie, &text) &&
                         read_cookie(kiln_strbuf_view(&text), now_s, &session) &&
                         !was_ended(sessions, &session);
    kiln_strbuf_deinit(&text);
    if (!is_ours) return false;
    make_csrf(sessions, &session);
    *out_session = session;
    return true;
}

static uint64_t now_s(void) { return kiln_clock_wall_ns() / KILN_NS_PER_S; }

static void set_cookie(kiln_http_request *r, const char *value, uint64_t age_s) {
    kiln_strbuf cookie = {0};
    kiln_strbuf_printf(&cookie,
                       KILN_SESSION_COOKIE "=%s; Path=/; Max-Age=%llu; HttpOnly; "
                                           "SameSite=Strict%s",
                       value, (unsigned long long)age_s, kiln_http_is_tls(r) ? "; Secure" : "");
    kiln_http_add_header(r, "Set-Cookie", cookie.data);
    kiln_strbuf_wipe(&cookie);
}

kiln_status kiln_sessions_begin(kiln_sessions *sessions, kiln_http_request *r,
                                kiln_session *session) {
    uint8_t id[ID_BYTES];
    kiln_strbuf text = {0}, sealed = {0};
    kiln_status st = kiln_rand_system(id, sizeof id);
    if (st) return st;
    print_hex(id, sizeof id, &text);
    snprintf(session->id, sizeof session->id, "%s", text.data);
    kiln_strbuf_reset(&text);
    session->expires_s = now_s() + KILN_SESSION_S;
    kiln_strbuf_printf(&text, "1\n%llu\n%s\n%s%s\n%s\n%s\n", (unsigned long long)session->expires_s,
                       session->id, session->who.is_owner ? "o" : "",
                       session->who.is_admin ? "a" : "", session->who.token, session->who.name);
    st = kiln_seal(&sessions->key, kiln_strbuf_view(&text), &sealed);
    if (!st) set_cookie(r, sealed.data, KILN_SESSION_S);
    session->needs_csrf = true;
    make_csrf(sessions, session);
    kiln_strbuf_wipe(&text);
    kiln_strbuf_wipe(&sealed);
    return st;
}

void kiln_sessions_end(kiln_sessions *sessions, kiln_http_request *r, const kiln_session *session,
                       void (*done)(void *context, kiln_status st), void *context) {
    const kiln_sign_out ended = sign_out_of(session);
    set_cookie(r, "", 0);
    if (session->id[0])
        kiln_sign_outs_add(sessions->ended, &ended, now_s(), done, context);
    else
        done(context, KILN_OK);
}

/* ---- Requests ---- */

/* Hashes of one length, in constant time. */
static bool is_secret(kiln_str text, const kiln_digest *digest_of_secret) {
    kiln_digest digest;
    kiln_digest_of(text.data ? text.data : "", text.size, &digest);
    return kiln_digest_equal_secret(&digest, digest_of_secret);
}

static bool is_owners(const kiln_sessions *s, kiln_str token) {
    return s->has_owner && is_secret(token, &s->token);
}

kiln_status kiln_sessions_check_origin(const kiln_session *session, const kiln_http_request *r) {
    kiln_digest digest;
    const char *method = kiln_http_method(r);
    if (!session->needs_csrf || strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0)
        return KILN_OK;
    if (kiln_str_is(kiln_http_header(r, "Sec-Fetch-Site"), "cross-site"))
        return KILN_ERROR(PERMISSION_DENIED, "a page of another site sent this request");
    kiln_digest_of(session->csrf, strlen(session->csrf), &digest);
    if (is_secret(kiln_http_header(r, KILN_CSRF_HEADER), &digest)) return KILN_OK;
    return KILN_ERROR(PERMISSION_DENIED,
                      "the header " KILN_CSRF_HEADER " is missing or wrong: send `csrf` of "
                      "/api/v1/me");
}

static kiln_digest digest_of(kiln_str token) {
    kiln_digest digest;
    kiln_digest_of(token.data ? token.data : "", token.size, &digest);
    return digest;
}

static const known_token *find_known(const kiln_sessions *s, kiln_str token, uint64_t now_ns) {
    const kiln_digest digest = digest_of(token);
    for (uint32_t i = 0; i < KNOWN_TOKENS; i++)
        if (s->known[i].until_ns > now_ns && kiln_digest_equal_secret(&s->known[i].digest, &digest))
            return &s->known[i];
    return NULL;
}

static void on_token(void *context, const kiln_identity_of_person *who, kiln_status st) {
    const asked_token asked = *(asked_token *)context;
    kiln_sessions *s = asked.sessions;
    const uint64_t now_ns = kiln_loop_now_ns(s->loop);
    kiln_session session = {0};
    kiln_free(context);
    if (kiln_status_code(st) == KILN_UNAUTHENTICATED)
        kiln_attempts_failed(&s->attempts, asked.peer, now_ns);
    if (!st) {
        session.who = *who;
        s->known[s->known_next++ % KNOWN_TOKENS] =
            (known_token){asked.digest, now_ns + KNOWN_NS, *who};
    }
    asked.found(asked.context, st ? NULL : &session, st);
}

static void ask_for_token(kiln_sessions *s, const kiln_http_request *r, kiln_str token,
                          kiln_session_found found, void *context) {
    asked_token *asked = kiln_alloc(sizeof *asked);
    *asked = (asked_token){
        .sessions = s, .digest = digest_of(token), .found = found, .context = context};
    snprintf(asked->peer, sizeof asked->peer, "%s", kiln_http_peer(r));
    kiln_people_sign_in(s->people, token, on_token, asked);
}

void kiln_sessions_sign_in(kiln_sessions *sessions, kiln_http_request *r, kiln_str token,
                           kiln_session_found found, void *context) {
    const uint64_t now_ns = kiln_loop_now_ns(sessions->loop);
    const known_token *known = find_known(sessions, token, now_ns);
    kiln_session session = {0};
    if (is_owners(sessions, token)) { /* also while others at its address fail */
        snprintf(session.who.name, sizeof session.who.name, "%s",
                 kiln_people_owner(sessions->people));
        session.who.is_owner = session.who.is_admin = true;
        found(context, &session, KILN_OK);
    } else if (known) {
        session.who = known->who;
        found(context, &session, KILN_OK);
    } else if (!kiln_attempts_allow(&sessions->attempts, kiln_http_peer(r), now_ns)) {
        found(context, NULL,
              KILN_ERROR(RESOURCE_EXHAUSTED,
                         "too many wrong tokens from your address; wait a minute"));
    } else {
        ask_for_token(sessions, r, token, found, context);
    }
}

/* Of the proxy that signed the person in. */
static bool find_by_header(const kiln_sessions *s, const kiln_http_request *r, kiln_session *out) {
    if (!s->trust_header) return false;
    const kiln_str name = kiln_http_header(r, s->trust_header);
    if (!name.size || !copy_text(out->who.name, sizeof out->who.name, name)) return false;
    out->needs_csrf = true;
    make_csrf(s, out);
    return true;
}

void kiln_sessions_find(kiln_sessions *sessions, kiln_http_request *r, kiln_session_found found,
                        void *context) {
    kiln_session session = {0};
    kiln_str token = kiln_http_header(r, "Authorization");
    const kiln_str cookie = kiln_cookie_find(kiln_http_header(r, "Cookie"), KILN_SESSION_COOKIE);
    if (token.size) {
        const kiln_str scheme = kiln_str_cut(&token, ' ');
        if (kiln_str_is(scheme, "Bearer"))
            kiln_sessions_sign_in(sessions, r, kiln_str_trim(token), found, context);
        else
            found(context, NULL, KILN_ERROR(UNAUTHENTICATED, "Authorization is no Bearer token"));
    } else if (find_by_header(sessions, r, &session) ||
               kiln_session_parse(sessions, cookie, now_s(), &session)) {
        found(context, &session, KILN_OK);
    } else {
        found(context, NULL, KILN_ERROR(UNAUTHENTICATED, "sign in first"));
    }
}
