#include "web/people_state.h"

#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/rand.h"

#define TICK_NS KILN_NS_PER_S
#define REDIAL_NS (UINT64_C(500) * KILN_NS_PER_MS)
#define REFUSED_NS (UINT64_C(10) * KILN_NS_PER_S) /* until a refused person is tried again */

/* ---- The connection ---- */

static void on_opened(void *context, kiln_conn *conn, const kiln_msg_hello *hello,
                      const kiln_msg_welcome *welcome) {
    (void)hello, (void)welcome;
    kiln_person *p = context;
    p->is_open = true;
    p->heard_ns = kiln_loop_now_ns(p->people->loop);
    p->blobs = kiln_blobs_attach(conn, p->people->options.blobs);
    kiln_person_send_all(p);
}

static void on_message(void *context, kiln_conn *conn, const kiln_message *message) {
    kiln_person *p = context;
    p->heard_ns = kiln_loop_now_ns(p->people->loop);
    if (message->type == KILN_MSG_PING) {
        const kiln_message pong = {
            .type = KILN_MSG_PONG, .stream = message->stream, .pong = {.t_ns = message->ping.t_ns}};
        kiln_status_free(kiln_conn_send(conn, &pong)); /* a connection that closes says so itself */
    } else if (message->stream) {
        kiln_person_answer(p, message);
    }
}

/* A dropped person lives until its connection has closed and its users have gone. */
static void free_if_done(kiln_person *p) {
    if (!p->is_dropped || p->users || p->conn) return;
    kiln_status_free(p->why);
    kiln_free(p);
}

static void on_closed(void *context, kiln_conn *conn, kiln_status why) {
    kiln_person *p = context;
    (void)conn;
    p->conn = NULL;
    if (p->is_dropped) {
        free_if_done(p);
        return;
    }
    p->blobs = NULL;
    p->is_open = false;
    kiln_status_free(p->why);
    p->why =
        kiln_status_make(kiln_status_code(why), __FILE__, __LINE__, "%s", kiln_status_text(why));
    p->dial_at_ns =
        kiln_loop_now_ns(p->people->loop) + (kiln_person_is_refused(p) ? REFUSED_NS : REDIAL_NS);
    kiln_person_end_sent(p);
    if (kiln_person_is_refused(p)) kiln_person_end_overdue(p, UINT64_MAX);
}

static const kiln_conn_handler handler = {on_opened, on_message, on_closed};

static void dial(kiln_person *p) {
    kiln_people *people = p->people;
    const kiln_address *address = kiln_addresses_next(&people->options.tracker);
    kiln_credentials credentials = {0};
    kiln_status st = kiln_credentials_load(address, people->options.home, people->options.key_file,
                                           people->options.insecure, &credentials);
    kiln_status_free(st); /* they were there at the start; the tracker refuses, and says so */
    const bool is_other = !p->who.is_owner && p->who.name[0];
    kiln_peer_role role = credentials.has_key ? credentials.key.role : KILN_PEER_ADMIN;
    if (!p->who.is_owner) role = KILN_PEER_WEB;
    const kiln_dial_options options = {.address = *address,
                                       .role = role,
                                       .node = people->node,
                                       .boot = people->node,
                                       .name = p->who.name,
                                       .software = "kiln-web " KILN_VERSION,
                                       .credentials = &credentials,
                                       .person = is_other ? p->who.name : NULL,
                                       .signed_in = p->who.token[0] ? p->who.token : NULL,
                                       .handler = &handler,
                                       .context = p};
    p->conn = kiln_net_dial(people->loop, &options);
}

static void dial_if_wanted(kiln_person *p, uint64_t now_ns) {
    if (!p->conn && (p->first || p->users) && now_ns >= p->dial_at_ns) dial(p);
}

/* ---- Persons ---- */

/* Ends what waits. Its connection may close later, when its owner is gone. */
static void drop_person(kiln_person *p) {
    p->is_dropped = true;
    p->is_open = false;
    kiln_person_end_all(p);
    if (p->extra) p->destroy_extra(p->extra);
    p->extra = NULL;
    kiln_person_end_all(p);                         /* asked by those that were told */
    if (p->conn) kiln_conn_close(p->conn, KILN_OK); /* `closed` follows later */
    free_if_done(p);
}

static bool is_unused(const kiln_person *p, uint64_t now_ns) {
    return !p->users && p->question_count == p->watch_count &&
           now_ns - p->unused_since_ns >= KILN_PERSON_IDLE_NS;
}

/* A tracker that says nothing is taken for dead. */
static void check_alive(kiln_person *p, uint64_t now_ns) {
    if (!p->is_open) return;
    if (now_ns - p->heard_ns > KILN_LINK_SILENCE_NS) {
        kiln_conn_close(p->conn, KILN_OK);
        return;
    }
    kiln_status_free(kiln_conn_send(p->conn, &(kiln_message){.type = KILN_MSG_PING}));
}

static void on_tick(void *context) {
    kiln_people *people = context;
    const uint64_t now_ns = kiln_loop_now_ns(people->loop);
    const bool was_held = now_ns - people->ticked_ns > KILN_LINK_GAP_NS;
    people->ticked_ns = now_ns;
    for (uint32_t i = people->all.count; i-- > 0;) {
        kiln_person *p = people->all.data[i];
        if (was_held) p->heard_ns = now_ns; /* what came meanwhile is not read yet */
        kiln_person_end_overdue(p, now_ns);
        check_alive(p, now_ns);
        dial_if_wanted(p, now_ns);
        if (!is_unused(p, now_ns)) continue;
        kiln_vec_remove(&people->all, p);
        drop_person(p);
    }
    kiln_timer_start(people->tick, TICK_NS);
}

static void on_soon(void *context) {
    kiln_people *people = context;
    const uint64_t now_ns = kiln_loop_now_ns(people->loop);
    for (uint32_t i = 0; i < people->all.count; i++) {
        kiln_person *p = people->all.data[i];
        dial_if_wanted(p, now_ns);
        if (!p->conn && kiln_person_is_refused(p)) kiln_person_end_overdue(p, UINT64_MAX);
        kiln_person_send_all(p);
        if (p->question_count > KILN_PERSON_ASKED_MAX) kiln_person_end_overdue(p, now_ns);
    }
}

/* Makes room, before their time. */
static void drop_unused(kiln_people *people) {
    for (uint32_t i = people->all.count; i-- > 0;) {
        kiln_person *p = people->all.data[i];
        if (!is_unused(p, UINT64_MAX)) continue;
        kiln_vec_remove(&people->all, p);
        drop_person(p);
    }
}

static bool is_same(const kiln_identity_of_person *a, const kiln_identity_of_person *b) {
    return a->is_owner == b->is_owner && strcmp(a->name, b->name) == 0 &&
           strcmp(a->token, b->token) == 0;
}

kiln_status kiln_person_get(kiln_people *people, const kiln_identity_of_person *who,
                            kiln_person **out_person) {
    if (who->is_owner && !people->owner[0]) return KILN_ERROR(UNAUTHENTICATED, "sign in again");
    for (uint32_t i = 0; i < people->all.count; i++) {
        if (!is_same(&people->all.data[i]->who, who)) continue;
        *out_person = people->all.data[i];
        (*out_person)->users++;
        return KILN_OK;
    }
    if (people->all.count == KILN_PEOPLE_MAX) drop_unused(people);
    if (people->all.count == KILN_PEOPLE_MAX)
        return KILN_ERROR(UNAVAILABLE, "%u persons are signed in at once; try again later",
                          KILN_PEOPLE_MAX);
    kiln_person *p = kiln_alloc(sizeof *p);
    p->people = people;
    p->who = *who;
    p->last = &p->first;
    p->users = 1;
    kiln_vec_push(&people->all, p);
    *out_person = p;
    return KILN_OK;
}

void kiln_person_release(kiln_person *person) {
    if (!person) return;
    KILN_CHECK(person->users > 0);
    person->users--;
    if (person->is_dropped)
        free_if_done(person);
    else
        person->unused_since_ns = kiln_loop_now_ns(person->people->loop);
}

const kiln_identity_of_person *kiln_person_who(const kiln_person *person) { return &person->who; }
bool kiln_person_is_refused(const kiln_person *person) {
    const kiln_code code = kiln_status_code(person->why);
    return !person->is_open && (code == KILN_UNAUTHENTICATED || code == KILN_PERMISSION_DENIED);
}

bool kiln_person_is_connected(const kiln_person *person) { return person->is_open; }
uint32_t kiln_person_version(const kiln_person *person) {
    return person->is_open ? kiln_conn_version(person->conn) : 0;
}

uint32_t kiln_person_stream(kiln_person *person) {
    return person->is_open ? kiln_conn_stream(person->conn) : 0;
}

void kiln_person_set_extra(kiln_person *person, void *extra, void (*destroy)(void *extra)) {
    person->extra = extra;
    person->destroy_extra = destroy;
}

void *kiln_person_extra(const kiln_person *person) { return person->extra; }

kiln_blob_store *kiln_people_blobs(kiln_people *people) { return people->options.blobs; }

kiln_status kiln_people_server(kiln_people *people, kiln_person **out_person) {
    const kiln_identity_of_person nobody = {0};
    if (!people->speaks_for_others)
        return KILN_ERROR(UNAUTHENTICATED, "this server speaks for nobody but %s", people->owner);
    kiln_status st = people->server ? KILN_OK : kiln_person_get(people, &nobody, &people->server);
    if (!st) *out_person = people->server;
    return st;
}

/* ---- Life ---- */

const char *kiln_people_owner(const kiln_people *people) {
    return people->owner[0] ? people->owner : NULL;
}

static kiln_status find_owner(kiln_people *people) {
    kiln_credentials credentials = {0};
    kiln_status st =
        kiln_credentials_load(&people->options.tracker.item[0], people->options.home,
                              people->options.key_file, people->options.insecure, &credentials);
    if (st) return st;
    const struct passwd *user = getpwuid(getuid());
    const bool is_web = credentials.has_key && credentials.key.role == KILN_PEER_WEB;
    people->speaks_for_others = is_web || !credentials.has_key;
    if (is_web)
        people->owner[0] = 0;
    else if (credentials.has_key)
        snprintf(people->owner, sizeof people->owner, "%s", credentials.key.node);
    else if (user)
        snprintf(people->owner, sizeof people->owner, "%s", user->pw_name);
    else
        snprintf(people->owner, sizeof people->owner, "uid-%u", (unsigned)getuid());
    kiln_wipe(&credentials, sizeof credentials);
    return KILN_OK;
}

kiln_status kiln_people_create(kiln_loop *loop, const kiln_people_options *options,
                               kiln_people **out_people) {
    kiln_people *people = kiln_alloc(sizeof *people);
    kiln_hash128 identity = {0};
    people->loop = loop;
    people->options = *options;
    kiln_arena_init(&people->message, 0);
    people->tick = kiln_timer_create(loop, on_tick, people);
    people->soon = kiln_timer_create(loop, on_soon, people);
    kiln_timer_start(people->tick, TICK_NS);
    kiln_status st = kiln_credentials_check(&options->tracker, options->home, options->key_file,
                                            options->insecure);
    if (!st) st = find_owner(people);
    if (!st) st = kiln_rand_system(&identity, sizeof identity);
    if (!st) kiln_hash128_print(identity, people->node);
    if (st) {
        kiln_people_destroy(people);
        return st;
    }
    *out_people = people;
    return KILN_OK;
}

void kiln_people_destroy(kiln_people *people) {
    if (!people) return;
    kiln_person_release(people->server);
    while (people->all.count) drop_person(kiln_vec_pop(&people->all));
    kiln_vec_deinit(&people->all);
    kiln_timer_destroy(people->tick);
    kiln_timer_destroy(people->soon);
    kiln_arena_deinit(&people->message);
    kiln_free(people);
}
