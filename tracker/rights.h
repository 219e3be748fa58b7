/* Rights of people: roles in projects, rights, and the right that each message needs (rights.def).
 * Knows no tracker: tracker/access.c looks up the role of a peer and asks here. Handlers call
 * kiln_tracker_may and compare no roles themselves. */
#ifndef KILN_TRACKER_RIGHTS_H
#define KILN_TRACKER_RIGHTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "proto/proto.h"

typedef enum kiln_right {
    KILN_RIGHT_NONE, /* every connected peer has it */
#define RIGHT(NAME, name, own, any, text) KILN_RIGHT_##NAME,
#include "tracker/rights.def"
#undef RIGHT
    KILN_RIGHT_COUNT
} kiln_right;

/* What the right must apply to. */
#define KILN_NEED_SCOPES(X)                                                                     \
    X(CONNECTION, "the connection itself")                                                      \
    X(TRACKER, "only the tracker sends it")                                                     \
    X(PROGRAM, "only programs send it")                                                         \
    X(FLEET, "all projects")                                                                    \
    X(PROJECT, "the project that it names")                                                     \
    X(ANY_PROJECT, "any project at all")                                                        \
    X(JOB, "the project of the job that it names")                                              \
    X(JOB_OR_PROJECT, "the project of the job that it names; a new job: that of its `project`") \
    X(LEASE, "the project of the job whose lease it names")                                     \
    X(BLOB, "a project with a job that has the blob, unless the peer put it itself")            \
    X(ROWS, "the project of each row: others are left out")
typedef enum kiln_need_scope {
#define X(NAME, text) KILN_NEED_##NAME,
    KILN_NEED_SCOPES(X)
#undef X
} kiln_need_scope;

typedef struct kiln_need {
    kiln_right right;
    kiln_need_scope scope;
} kiln_need;

/* The role and special rights of a person in one project. */
typedef struct kiln_standing {
    bool all;         /* every right, `native` too: the tracker's user, an admin key */
    bool rules;       /* RULE, but not `native`: an administrator who proved nothing */
    bool native;      /* was granted the right `native` */
    kiln_member role; /* NONE: no role */
} kiln_standing;

/* Whether the person has the right; `own`: on the person's own jobs. */
bool kiln_right_is_held(const kiln_standing *standing, kiln_right right, bool own);
/* False: the message has no row in rights.def. */
bool kiln_need_of(kiln_message_type type, kiln_need *out_need);

const char *kiln_right_name(kiln_right right); /* "stop" */
const char *kiln_right_text(kiln_right right); /* "cancel jobs, ..." */
/* The lowest role with the right on everybody's jobs; COUNT: no role has it. */
kiln_member kiln_right_role(kiln_right right);

#endif
