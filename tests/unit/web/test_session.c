#include "web/session.h"

#include <string.h>

#include "base/file.h"
#include "tests/support/test.h"
#include "tests/unit/web/client.h"

/* A server whose answer says what became of the sessions' functions. */
typedef struct fixture {
    kiln_arena arena;
    char *folder;
    kiln_loop *loop;
    kiln_people *people;
    kiln_sessions *sessions;
    kiln_http_server *server;
    kiln_session last;
} fixture;

static void on_head(void *context, kiln_http_request *r) { (void)context, (void)r; }

static void on_found(void *context, const kiln_session *session, kiln_status st) {
    fixture *f = context;
    if (!st) f->last = *session;
    kiln_status_free(st);
}

static void on_ended(void *context, kiln_status st) {
    kiln_http_request *r = context;
    if (st)
        kiln_http_answer_error(r, st);
    else
        kiln_http_answer_empty(r, 204);
}

static void on_whole(void *context, kiln_http_request *r) {
    fixture *f = context;
    kiln_status st = KILN_OK;
    f->last = (kiln_session){0};
    kiln_sessions_find(f->sessions, r, on_found, f);
    if (!f->last.who.name[0]) st = KILN_ERROR(UNAUTHENTICATED, "nobody");
    if (!st) st = kiln_sessions_check_origin(&f->last, r);
    if (!st && kiln_str_is(kiln_http_uri(r), "/begin"))
        st = kiln_sessions_begin(f->sessions, r, &f->last);
    if (!st && kiln_str_is(kiln_http_uri(r), "/end"))
        kiln_sessions_end(f->sessions, r, &f->last, on_ended, r);
    else
        on_ended(r, st);
}

static const kiln_http_handler handler = {on_head, on_whole, NULL};

static void open_sessions(fixture *f, const char *trust_header) {
    const kiln_sessions_options options = {
        .home = f->folder, .state = f->folder, .trust_header = trust_header};
    expect_ok(kiln_sessions_create(f->loop, f->people, &options, &f->sessions));
}

static int set_up(void **state) {
    static fixture the_fixture;
    fixture *f = &the_fixture;
    *f = (fixture){0};
    kiln_arena_init(&f->arena, 0);
    f->folder = make_folder(&f->arena);
    expect_ok(kiln_loop_create(&f->loop));
    kiln_people_options people = {.home = f->folder};
    expect_ok(kiln_addresses_parse(KILN_STR("unix:/nowhere"), &people.tracker));
    expect_ok(kiln_people_create(f->loop, &people, &f->people));
    open_sessions(f, NULL);
    kiln_http_server_options server = {.handler = &handler, .context = f};
    expect_ok(kiln_http_address_parse("0", &server.address));
    expect_ok(kiln_http_server_create(f->loop, &server, &f->server));
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    kiln_http_server_destroy(f->server);
    kiln_sessions_destroy(f->sessions);
    kiln_people_destroy(f->people);
    kiln_loop_destroy(f->loop);
    remove_folder(f->folder);
    kiln_arena_deinit(&f->arena);
    return 0;
}

static kiln_str token_of(fixture *f) {
    kiln_str text = {0};
    const char *path = kiln_arena_printf(&f->arena, "%s/" KILN_WEB_TOKEN_FILE, f->folder);
    expect_ok(kiln_file_read(path, KILN_WEB_TOKEN_BYTES_MAX, &f->arena, &text));
    return kiln_str_trim(text);
}

/* Sends a request with one more header, and returns the answer. */
static kiln_str ask(fixture *f, const char *line, const char *header) {
    const int fd = client_dial(kiln_http_server_port(f->server));
    const kiln_str request =
        kiln_str_printf(&f->arena, "%s HTTP/1.1\r\n%s\r\n" CLOSE, line, header);
    assert_true(client_send(f->loop, fd, request));
    kiln_strbuf answer = client_receive(f->loop, fd);
    return kiln_strbuf_end(&answer, &f->arena);
}

static const char *text(fixture *f, kiln_str s) { return kiln_str_dup(&f->arena, s); }

static const char *bearer(fixture *f) {
    const kiln_str token = token_of(f);
    return kiln_arena_printf(&f->arena, "Authorization: Bearer %.*s", KILN_STR_ARG(token));
}

/* Begins a session; the Cookie header of later requests. */
static const char *sign_in(fixture *f) {
    const char *answer = text(f, ask(f, "POST /begin", bearer(f)));
    expect_contains(answer, "HTTP/1.1 204");
    const char *at = strstr(answer, "Set-Cookie: ");
    assert_non_null(at);
    expect_contains(at, "; HttpOnly; SameSite=Strict\r\n");
    kiln_str cookie = kiln_str_from(at + strlen("Set-Cookie: "));
    const kiln_str pair = kiln_str_cut(&cookie, ';');
    return kiln_arena_printf(&f->arena, "Cookie: other=1; %.*s", KILN_STR_ARG(pair));
}

static void the_owners_token_signs_in(void **state) {
    fixture *f = *state;
    expect_contains(text(f, ask(f, "GET /x", bearer(f))), "HTTP/1.1 204");
    assert_true(f->last.who.is_owner);
    assert_string_equal(f->last.who.name, kiln_people_owner(f->people));
    /* A token is sent on purpose: it needs no other header. */
    expect_contains(text(f, ask(f, "POST /x", bearer(f))), "HTTP/1.1 204");
}

static void other_tokens_do_not(void **state) {
    fixture *f = *state;
    static const char *const wrong[] = {"X: y",
                                        "Authorization: Bearer",
                                        "Authorization: Bearer ",
                                        "Authorization: Bearer kiln-web-0",
                                        "Authorization: Basic a2lsbjprbG4=",
                                        "Authorization: bearer x",
                                        "Cookie: kiln_session=",
                                        "Cookie: kiln_session=AAAA",
                                        "Cookie: kiln_session"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(wrong); i++)
        expect_contains(text(f, ask(f, "GET /x", wrong[i])), "HTTP/1.1 401");
    kiln_str token = token_of(f);
    expect_contains(text(f, ask(f, "GET /x",
                                kiln_arena_printf(&f->arena, "Authorization: Bearer %.*s",
                                                  (int)token.size - 1, token.data))),
                    "HTTP/1.1 401");
}

static void a_cookie_needs_the_csrf_header_to_change(void **state) {
    fixture *f = *state;
    const char *cookie = sign_in(f);
    expect_contains(text(f, ask(f, "GET /x", cookie)), "HTTP/1.1 204");
    assert_int_equal(strlen(f->last.csrf), KILN_CSRF_TEXT - 1);
    const char *csrf = kiln_arena_printf(&f->arena, "%s\r\nX-Kiln-CSRF: %s", cookie, f->last.csrf);
    expect_contains(text(f, ask(f, "POST /x", cookie)), "HTTP/1.1 403");
    expect_contains(text(f, ask(f, "DELETE /x", cookie)), "HTTP/1.1 403");
    expect_contains(text(f, ask(f, "POST /x", kiln_arena_printf(&f->arena, "%s0", csrf))),
                    "HTTP/1.1 403");
    expect_contains(text(f, ask(f, "POST /x", csrf)), "HTTP/1.1 204");
    expect_contains(
        text(f, ask(f, "POST /x",
                    kiln_arena_printf(&f->arena, "%s\r\nSec-Fetch-Site: cross-site", csrf))),
        "HTTP/1.1 403");
}

static void two_sessions_have_two_csrf_values(void **state) {
    fixture *f = *state;
    const char *first = sign_in(f), *second = sign_in(f);
    ask(f, "GET /x", first);
    const kiln_session before = f->last;
    ask(f, "GET /x", second);
    assert_string_not_equal(before.csrf, f->last.csrf);
}

static void a_session_outlives_a_restart(void **state) {
    fixture *f = *state;
    const char *cookie = sign_in(f);
    kiln_sessions_destroy(f->sessions);
    open_sessions(f, NULL);
    expect_contains(text(f, ask(f, "GET /x", cookie)), "HTTP/1.1 204");
}

static void a_session_ends(void **state) {
    fixture *f = *state;
    const char *cookie = sign_in(f);
    kiln_session session;
    const kiln_str value =
        kiln_cookie_find(kiln_str_from(cookie + strlen("Cookie: ")), KILN_SESSION_COOKIE);
    assert_true(kiln_session_parse(f->sessions, value, 0, &session));
    assert_false(kiln_session_parse(f->sessions, value, UINT64_MAX, &session));
    const char *csrf = kiln_arena_printf(&f->arena, "%s\r\nX-Kiln-CSRF: %s", cookie, session.csrf);
    expect_contains(text(f, ask(f, "DELETE /end", csrf)), "Max-Age=0");
    expect_contains(text(f, ask(f, "GET /x", cookie)), "HTTP/1.1 401");
    const char *other = sign_in(f);
    kiln_sessions_destroy(f->sessions);
    open_sessions(f, NULL);
    expect_contains(text(f, ask(f, "GET /x", cookie)), "HTTP/1.1 401");
    expect_contains(text(f, ask(f, "GET /x", other)), "HTTP/1.1 204");
}

static void a_proxys_header_names_the_person(void **state) {
    fixture *f = *state;
    expect_contains(text(f, ask(f, "GET /x", "X-User: ann")), "HTTP/1.1 401");
    kiln_sessions_destroy(f->sessions);
    open_sessions(f, "X-User");
    expect_contains(text(f, ask(f, "GET /x", "X-User: ann")), "HTTP/1.1 204");
    assert_string_equal(f->last.who.name, "ann");
    assert_false(f->last.who.is_owner);
    expect_contains(text(f, ask(f, "POST /x", "X-User: ann")), "HTTP/1.1 403");
    expect_contains(
        text(f, ask(f, "POST /x",
                    kiln_arena_printf(&f->arena, "X-User: ann\r\nX-Kiln-CSRF: %s", f->last.csrf))),
        "HTTP/1.1 204");
    char name[KILN_PERSON_MAX + 2] = "";
    memset(name, 'a', sizeof name - 1);
    expect_contains(text(f, ask(f, "GET /x", kiln_arena_printf(&f->arena, "X-User: %s", name))),
                    "HTTP/1.1 401");
}

static void wrong_tokens_are_limited_but_not_the_right_one(void **state) {
    fixture *f = *state;
    for (int i = 0; i < 10; i++)
        expect_contains(text(f, ask(f, "GET /x", "Authorization: Bearer wrong")), "HTTP/1.1 401");
    ask(f, "GET /x", "Authorization: Bearer wrong");
    assert_string_equal(f->last.who.name, "");
    expect_contains(text(f, ask(f, "GET /x", bearer(f))), "HTTP/1.1 204");
}

static void a_cookie_is_found_among_others(void **state) {
    (void)state;
    expect_str(kiln_cookie_find(KILN_STR("a=1; kiln_session=x=y ; b=2"), "kiln_session"), "x=y");
    expect_str(kiln_cookie_find(KILN_STR("akiln_session=1; =2;;"), "kiln_session"), "");
    expect_str(kiln_cookie_find((kiln_str){0}, "kiln_session"), "");
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(the_owners_token_signs_in),
        TEST(other_tokens_do_not),
        TEST(a_cookie_needs_the_csrf_header_to_change),
        TEST(two_sessions_have_two_csrf_values),
        TEST(a_session_outlives_a_restart),
        TEST(a_session_ends),
        TEST(a_proxys_header_names_the_person),
        TEST(wrong_tokens_are_limited_but_not_the_right_one),
        TEST(a_cookie_is_found_among_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
