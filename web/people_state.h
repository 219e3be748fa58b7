/* What web/people.c (persons and their connections) and web/person_questions.c (what they ask)
 * share. */
#ifndef KILN_WEB_PEOPLE_STATE_H
#define KILN_WEB_PEOPLE_STATE_H

#include "base/arena.h"
#include "base/vec.h"
#include "web/people.h"

/* What waits for the tracker. Every one is in the list of its person until it is told. */
typedef struct kiln_person_question {
    struct kiln_person_question *next;
    kiln_arena arena;
    kiln_message message;     /* in `arena` */
    bool is_upload, is_fetch; /* of `digest`, instead of the message */
    kiln_digest digest;
    bool is_watch;
    bool is_sent, is_refused; /* refused: too many others wait */
    uint32_t stream;
    uint64_t deadline_ns;
    kiln_person_answered answered;
    kiln_blobs_done done;
    void *context;
    kiln_person *person; /* of a transfer that runs; NULL: nobody waits for it any more */
} kiln_person_question;

struct kiln_person {
    kiln_people *people;
    kiln_identity_of_person who;
    uint32_t users;
    uint64_t unused_since_ns;
    kiln_conn *conn;
    kiln_blobs *blobs;
    bool is_open, is_dropped; /* freed when its connection has closed */
    uint64_t dial_at_ns, heard_ns;
    kiln_status why; /* of the last failed connection */
    kiln_person_question *first, **last;
    uint32_t question_count, watch_count;
    void *extra;
    void (*destroy_extra)(void *extra);
};

struct kiln_people {
    kiln_loop *loop;
    kiln_people_options options;
    char node[KILN_HASH128_TEXT];
    char owner[KILN_PERSON_MAX + 1]; /* "": none */
    bool speaks_for_others;
    kiln_person *server; /* asks whose tokens are; NULL: nobody has signed in yet */
    kiln_timer *tick, *soon;
    uint64_t ticked_ns;
    kiln_arena message; /* the one that is handled */
    KILN_VEC(kiln_person *) all;
};

/* ---- web/person_questions.c ---- */

/* Sends what waits, over the open connection. */
void kiln_person_send_all(kiln_person *person);
/* Gives an answer or an error of the tracker to the question on its stream. */
void kiln_person_answer(kiln_person *person, const kiln_message *message);
/* Ends what was sent over a connection that is lost. Its transfers end by themselves. */
void kiln_person_end_sent(kiln_person *person);
/* Ends what is refused or has waited until `now_ns`. */
void kiln_person_end_overdue(kiln_person *person, uint64_t now_ns);
/* Ends everything, because the server ends or the person is dropped. */
void kiln_person_end_all(kiln_person *person);

#endif
