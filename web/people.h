/* The persons that are signed in: for each one connection to the tracker, which knows the person
 * and decides what it may do. It is opened when something is asked for the person, and closed after
 * KILN_PERSON_IDLE_NS without a user. Everything runs on the loop's thread. */
#ifndef KILN_WEB_PEOPLE_H
#define KILN_WEB_PEOPLE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/loop.h"
#include "proto/net.h"
#include "proto/proto.h"

#define KILN_PEOPLE_MAX 256u /* connections to the tracker */
#define KILN_PERSON_IDLE_NS UINT64_C(60000000000)
#define KILN_PERSON_WAIT_NS UINT64_C(10000000000) /* for an answer, connecting included */
#define KILN_PERSON_ASKED_MAX 256u                /* questions of a person that wait */

typedef struct kiln_people kiln_people;
typedef struct kiln_person kiln_person;

typedef struct kiln_people_options {
    const char *home, *key_file; /* as kiln_credentials_load has them */
    bool insecure;
    kiln_addresses tracker;
    kiln_blob_store *blobs; /* shared by all persons; closed after the loop is destroyed */
} kiln_people_options;

/* INVALID_ARGUMENT, NOT_FOUND, PERMISSION_DENIED: the credentials. Does not connect yet. */
KILN_MUST_USE kiln_status kiln_people_create(kiln_loop *loop, const kiln_people_options *options,
                                             kiln_people **out_people);
/* Questions end with CANCELLED. Before the loop is destroyed. NULL is fine. */
void kiln_people_destroy(kiln_people *people);

/* The person as whom the server itself may speak: this user on the tracker's own machine, or the
 * holder of its key, if that is no `web` key. NULL: nobody. */
const char *kiln_people_owner(const kiln_people *people);

typedef struct kiln_identity_of_person {
    char name[KILN_PERSON_MAX + 1];
    char token[KILN_KEY_NAME_BYTES]; /* name of the token that the person signed in with; or "" */
    bool is_owner;                   /* the server itself: kiln_people_owner */
    bool is_admin;                   /* has every right, as far as the server was told; for show */
} kiln_identity_of_person;

/* Whose token that is, asked of the tracker: `found` is called once, perhaps from
 * inside, with the person, which lasts until it returns, or with an owned status. UNAUTHENTICATED:
 * it is nobody's, or this server may not speak for others; errors of kiln_person_ask. */
typedef void (*kiln_person_found)(void *context, const kiln_identity_of_person *who,
                                  kiln_status st);
void kiln_people_sign_in(kiln_people *people, kiln_str token, kiln_person_found found,
                         void *context);

/* The server's own connection, which may only ask whose tokens are. Lives as long as `people`.
 * UNAUTHENTICATED: its key is no `web` key. */
KILN_MUST_USE kiln_status kiln_people_server(kiln_people *people, kiln_person **out_person);

/* That person, held for one more user. UNAVAILABLE: KILN_PEOPLE_MAX are in use. */
KILN_MUST_USE kiln_status kiln_person_get(kiln_people *people, const kiln_identity_of_person *who,
                                          kiln_person **out_person);
void kiln_person_release(kiln_person *person); /* NULL is fine */

const kiln_identity_of_person *kiln_person_who(const kiln_person *person);
bool kiln_person_is_connected(const kiln_person *person);
/* The tracker did not let the person in when it was asked last: the token was revoked, or there is
 * no such person. */
bool kiln_person_is_refused(const kiln_person *person);
/* Of the protocol; 0: not connected. */
uint32_t kiln_person_version(const kiln_person *person);

/* Sends and waits for the answer on the same stream, connecting first where needed. `answered` is
 * called once, from the loop and never from inside: with an answer, valid until it returns, and a
 * NULL status, or with an owned status. UNAVAILABLE: the tracker cannot be reached, or the
 * connection was lost before it answered; DEADLINE_EXCEEDED; RESOURCE_EXHAUSTED: too many questions
 * wait; an ERROR of the tracker's. Texts are printable (base/text.h). The question is copied. */
typedef void (*kiln_person_answered)(void *context, const kiln_message *answer, kiln_status st);
void kiln_person_ask(kiln_person *person, const kiln_message *question,
                     kiln_person_answered answered, void *context);

/* The same for a question that may be answered at any later time, as long as the connection lasts:
 * WATCH. It does not keep the connection open by itself. Uses the question's stream unless that is
 * 0: one of kiln_person_stream, of the present connection. */
void kiln_person_watch(kiln_person *person, const kiln_message *question,
                       kiln_person_answered answered, void *context);
/* A new stream of the present connection; 0: there is none. */
uint32_t kiln_person_stream(kiln_person *person);

/* One object that lives as long as the person: `destroy` is called when the person is dropped,
 * after its questions have ended. NULL at first. */
void kiln_person_set_extra(kiln_person *person, void *extra, void (*destroy)(void *extra));
void *kiln_person_extra(const kiln_person *person);

/* Blobs of the tracker, through a store that all persons share: a cache. */
kiln_blob_store *kiln_people_blobs(kiln_people *people);
/* As kiln_blobs_upload and kiln_blobs_fetch: gives the tracker a blob of the store, or gets one
 * into it. `done` is called once, from the loop and never from inside. */
void kiln_person_put_blob(kiln_person *person, const kiln_digest *digest, kiln_blobs_done done,
                          void *context);
void kiln_person_get_blob(kiln_person *person, const kiln_digest *digest, kiln_blobs_done done,
                          void *context);

#endif
