/* Projects: who pays. Their members, settings and trusted signers, and what they use of the boards.
 */
#ifndef KILN_TRACKER_PROJECTS_H
#define KILN_TRACKER_PROJECTS_H

#include "tracker/people.h"
#include "tracker/rights.h"

#define KILN_TRACKER_PROJECTS_MAX 4096u
#define KILN_TRACKER_SHARE_PREFIX "project/" /* of the ids of share rows, so that none is empty */

typedef struct kiln_tracker_member {
    kiln_tracker_text person, by;
    kiln_member role;
    bool native;
    uint64_t given_ms;
} kiln_tracker_member;

/* A signer whose records count in a project's jobs. */
typedef struct kiln_tracker_trusted {
    kiln_sign_public half;
    char text[KILN_SIGN_PUBLIC_TEXT]; /* of `half` */
    char node[KILN_KEY_NAME_BYTES]; /* of whose key it is: it counts while that is in force; empty:
                                       of nobody in the tracker's list */
    kiln_tracker_text by;           /* who said so, and when */
    uint64_t given_ms;
} kiln_tracker_trusted;

/* Its jobs with requests in the queue, and how many requests these are. Written by queue.c. */
typedef struct kiln_tracker_project_queue {
    KILN_VEC(struct kiln_tracker_job *) jobs;
    uint32_t count;
} kiln_tracker_project_queue;

/* Who pays: jobs with the same name of project. One that nobody made is there while it has jobs,
 * and on the day on which it had boards. */
typedef struct kiln_tracker_project {
    uint64_t number; /* grows from project to project, as they stand in kiln_tracker_projects.all */
    char *name;
    bool is_made;
    char text[KILN_MESSAGES_NAME + 1]; /* what it is for */
    kiln_tracker_text by;              /* who made it, and when */
    uint64_t made_ms;
    uint64_t setting[KILN_SETTING_COUNT];
    KILN_VEC(kiln_tracker_member) member;
    KILN_VEC(kiln_tracker_trusted) trusted; /* at most KILN_MESSAGES_TRUSTED */
    uint32_t slots;                         /* held by its leases */
    uint64_t day;                           /* since 1970, of `day_ns` */
    double day_ns;                          /* time of slots on that day, up to `charged_ns` */
    uint64_t charged_ns;
    double kept_day_ns; /* as of its last row */
    bool is_used_up;    /* its time of the day, as of the last look */
    kiln_tracker_bucket requests;
    uint64_t refused; /* by its quotas */
    uint32_t jobs;    /* open ones */
    uint32_t weight;
    uint32_t held;   /* leases */
    double used;     /* time of slots over weight, on a scale that all projects share */
    double lease_ns; /* how long its leases last, lately */
    double kept;     /* `used` as of its last row */
    double running;  /* cost so far of the leases that it holds, as of the last look */
    bool is_kept;    /* it has a row */
    kiln_tracker_project_queue queue;
} kiln_tracker_project;

typedef struct kiln_tracker_projects {
    KILN_VEC(kiln_tracker_project *) all;
    kiln_map of_name;
    double shared;          /* project.used of who got the last lease: where newcomers begin */
    double lease_ns;        /* how long leases last, lately; 0: none ended yet */
    uint64_t keep_ns;       /* when shares are written again */
    uint64_t quota_refused; /* requests that a quota refused */
    kiln_tracker_find_key find_key; /* NULL: there is no list of keys */
    void *find_key_context;
} kiln_tracker_projects;

void kiln_tracker_projects_init(kiln_tracker *t);
/* The project that a job asks for: an empty name is that of the usual one. */
kiln_str kiln_tracker_project_asked(kiln_str name);

/* projects.c */
/* Any row of projects and persons. Shares come after the jobs. */
KILN_MUST_USE kiln_status kiln_tracker_project_restore(kiln_tracker *t,
                                                       const kiln_tracker_row *row);
/* NULL: there is none. */
kiln_tracker_project *kiln_tracker_project_find(kiln_tracker *t, kiln_str name);
kiln_tracker_project *kiln_tracker_project_get(kiln_tracker *t, kiln_str name); /* makes it */
/* It is dropped, or its day is over: goes when it has neither jobs nor leases. */
void kiln_tracker_project_forget(kiln_tracker *t, kiln_tracker_project *project);
/* One open job more, of this weight, in the project of that name, which is made if need be; or one
 * less: its weight is to be told anew then, and it may have to be forgotten. */
kiln_tracker_project *kiln_tracker_project_join(kiln_tracker *t, kiln_str name, uint32_t weight);
void kiln_tracker_project_leave(kiln_tracker_project *project);
/* The largest weight of its jobs. */
void kiln_tracker_project_set_weight(kiln_tracker_project *project, uint32_t weight);
void kiln_tracker_project_set_used_up(kiln_tracker_project *project, bool is_used_up);
/* A quota refused something; `project`: of this one, NULL: of a person. */
void kiln_tracker_count_over_quota(kiln_tracker *t, kiln_tracker_project *project);
/* NULL: it is none. */
kiln_tracker_member *kiln_tracker_member_find(const kiln_tracker_project *project, kiln_str person);
/* Whether only the fleet's admins set it. */
bool kiln_tracker_is_of_fleet(kiln_setting s);
/* Appends the settings that differ from 0; `wanted`: of these only, NULL: all. */
void kiln_tracker_project_settings(const kiln_tracker_project *project, kiln_msg_setting *out,
                                   uint32_t *out_count, bool (*wanted)(kiln_setting));
/* Orders that were checked; they return what kiln_tracker_persist does. `may_make_native`: whoever
 * sends it may let members run code of their own. */
uint64_t kiln_tracker_member_set(kiln_tracker *t, const kiln_tracker_peer *client,
                                 kiln_tracker_project *project, const kiln_msg_project_order *order,
                                 bool may_make_native);
uint64_t kiln_tracker_member_remove(kiln_tracker *t, kiln_tracker_project *project,
                                    kiln_str person);
uint64_t kiln_tracker_project_set(kiln_tracker *t, const kiln_tracker_peer *client,
                                  kiln_tracker_project *project,
                                  const kiln_msg_project_order *order);
uint64_t kiln_tracker_project_drop(kiln_tracker *t, kiln_tracker_project *project);
void kiln_tracker_projects_free(kiln_tracker *t);

/* usage.c */
/* Time of slots that the project had today. */
double kiln_tracker_project_day_ns(const kiln_tracker *t, const kiln_tracker_project *project);
/* Brings that up to now: before the slots that it holds change. */
void kiln_tracker_project_charge(kiln_tracker *t, kiln_tracker_project *project);
/* Whether it had all its time of boards today. */
bool kiln_tracker_project_is_used_up(const kiln_tracker *t, const kiln_tracker_project *project);
/* Whether its quotas let it have so many slots more. */
bool kiln_tracker_project_may_hold(const kiln_tracker *t, const kiln_tracker_project *project,
                                   uint32_t slots);
/* Looks again when its time of the day is used up, if that is before the next tick. */
void kiln_tracker_project_watch_time(kiln_tracker *t, const kiln_tracker_project *project);
/* Less is first: time of slots that it had or is about to have, over its weight. */
double kiln_tracker_project_claim(const kiln_tracker *t, const kiln_tracker_project *project);
/* Its first request comes into the queue. */
void kiln_tracker_project_starts_waiting(kiln_tracker *t, kiln_tracker_project *project);
void kiln_tracker_project_granted(kiln_tracker *t, kiln_tracker_project *project, uint32_t slots);
/* `held_ns`: time of slots. */
void kiln_tracker_project_ended(kiln_tracker *t, kiln_tracker_project *project, uint32_t slots,
                                uint64_t held_ns);
/* Writes the shares that moved, not more often than every KILN_TRACKER_SHARE_NS: when `begin` says
 * so, what each lease that is held has cost so far is added, and `keep` writes. After a restart
 * leases cost only what comes then. */
bool kiln_tracker_shares_begin(kiln_tracker *t);
void kiln_tracker_project_add_running(kiln_tracker_project *project, uint64_t cost_ns);
void kiln_tracker_shares_keep(kiln_tracker *t);
/* The row of a project that goes. */
void kiln_tracker_share_remove(kiln_tracker *t, const kiln_tracker_project *project);

/* signers.c */
/* NOT_FOUND: it names no signer, or none that is trusted. RESOURCE_EXHAUSTED: quota. */
KILN_MUST_USE kiln_status kiln_tracker_trusted_check(const kiln_tracker *t,
                                                     const kiln_tracker_project *project,
                                                     const kiln_msg_project_order *order);
/* Orders that were checked; they return what kiln_tracker_persist does. */
uint64_t kiln_tracker_trusted_add(kiln_tracker *t, const kiln_tracker_peer *client,
                                  kiln_tracker_project *project, kiln_str signer);
uint64_t kiln_tracker_trusted_remove(kiln_tracker *t, kiln_tracker_project *project,
                                     kiln_str signer);
void kiln_tracker_trusted_drop(kiln_tracker *t, kiln_tracker_project *project); /* all */
/* `half`: the text of the public half, from the row's id. */
KILN_MUST_USE kiln_status kiln_tracker_trusted_restore(kiln_tracker_project *project, kiln_str half,
                                                       const kiln_msg_kept_signer *kept);
/* Views into the project; returns how many. */
uint32_t kiln_tracker_trusted_rows(const kiln_tracker *t, const kiln_tracker_project *project,
                                   kiln_msg_signer_row out[KILN_MESSAGES_TRUSTED]);
/* Those that count in jobs of the project (NULL: none do) now, as JOB_ASSIGN and JOB_DONE carry
 * them: a view of `out`. */
kiln_str kiln_tracker_trusted_of(const kiln_tracker *t, const kiln_tracker_project *project,
                                 kiln_sign_public out[KILN_MESSAGES_TRUSTED]);
/* Invariants (kiln_tracker_check). */
void kiln_tracker_projects_check(const kiln_tracker *t);

#endif
