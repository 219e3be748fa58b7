/* Projects: their members, settings and trusted signers, and their use of the boards. */
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
    char node[KILN_KEY_NAME_BYTES]; /* the node in the tracker's key list with this key: the signer
                                       counts while the key is in force; empty: the key is not in
                                       the list */
    kiln_tracker_text by;           /* the person that gave the order, and when */
    uint64_t given_ms;
} kiln_tracker_trusted;

/* Its jobs with requests in the queue, and the number of these requests. Written by queue.c. */
typedef struct kiln_tracker_project_queue {
    KILN_VEC(struct kiln_tracker_job *) jobs;
    uint32_t count;
} kiln_tracker_project_queue;

/* A project. One that was not made by an order exists while it has jobs, and until the end of the
 * day on which it used boards. */
typedef struct kiln_tracker_project {
    uint64_t number; /* ascending in kiln_tracker_projects.all */
    char *name;
    bool is_made;
    char text[KILN_MESSAGES_NAME + 1]; /* its description */
    kiln_tracker_text by;              /* the person that made it, and when */
    uint64_t made_ms;
    uint64_t setting[KILN_SETTING_COUNT];
    KILN_VEC(kiln_tracker_member) member;
    KILN_VEC(kiln_tracker_trusted) trusted; /* at most KILN_MESSAGES_TRUSTED */
    uint32_t slots;                         /* held by its leases */
    uint64_t day;                           /* since 1970, of `day_ns` */
    double day_ns;                          /* slot time used on that day, up to `charged_ns` */
    uint64_t charged_ns;
    double kept_day_ns; /* as of its last row */
    bool is_used_up;    /* its slot time of the day, as last checked */
    kiln_tracker_bucket requests;
    uint64_t refused; /* requests, by its quotas */
    uint32_t jobs;    /* open ones */
    uint32_t weight;
    uint32_t held;   /* leases */
    double used;     /* slot time over weight, on a scale common to all projects */
    double lease_ns; /* recent duration of its leases */
    double kept;     /* `used` as of its last row */
    double running;  /* cost so far of its current leases, as last counted */
    bool is_kept;    /* it has a row on disk */
    kiln_tracker_project_queue queue;
} kiln_tracker_project;

typedef struct kiln_tracker_projects {
    KILN_VEC(kiln_tracker_project *) all;
    kiln_map of_name;
    double shared; /* `used` of the project that got the last lease: a new project starts from it */
    double lease_ns;                /* recent duration of leases; 0: none ended yet */
    uint64_t keep_ns;               /* when shares are written next */
    uint64_t quota_refused;         /* requests that a quota refused */
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
kiln_tracker_project *kiln_tracker_project_get(kiln_tracker *t,
                                               kiln_str name); /* adds it if need be */
/* Removes a project that was dropped, or whose day is over, if it has neither jobs nor leases. */
void kiln_tracker_project_forget(kiln_tracker *t, kiln_tracker_project *project);
/* Counts one more open job of this weight in the named project, which is added if need be; or one
 * less, after which its weight has to be set and the project may have to be forgotten. */
kiln_tracker_project *kiln_tracker_project_join(kiln_tracker *t, kiln_str name, uint32_t weight);
void kiln_tracker_project_leave(kiln_tracker_project *project);
/* The largest weight of its jobs. */
void kiln_tracker_project_set_weight(kiln_tracker_project *project, uint32_t weight);
void kiln_tracker_project_set_used_up(kiln_tracker_project *project, bool is_used_up);
/* Counts a refusal by a quota of `project`; NULL: of a person. */
void kiln_tracker_count_over_quota(kiln_tracker *t, kiln_tracker_project *project);
/* NULL: the person is no member. */
kiln_tracker_member *kiln_tracker_member_find(const kiln_tracker_project *project, kiln_str person);
/* Whether only administrators of the fleet may set it. */
bool kiln_tracker_is_of_fleet(kiln_setting s);
/* Appends the settings that differ from 0 and for which `wanted` holds; NULL: all. */
void kiln_tracker_project_settings(const kiln_tracker_project *project, kiln_msg_setting *out,
                                   uint32_t *out_count, bool (*wanted)(kiln_setting));
/* Carry out orders that were checked; return the number of the PERSIST. `may_make_native`: the
 * sender may allow members to run machine code of their own. */
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
/* Slot time that the project used today, in ns. */
double kiln_tracker_project_day_ns(const kiln_tracker *t, const kiln_tracker_project *project);
/* Charges it up to now; called before the number of its slots changes. */
void kiln_tracker_project_charge(kiln_tracker *t, kiln_tracker_project *project);
/* Whether the project has used up its quota of board time today. */
bool kiln_tracker_project_is_used_up(const kiln_tracker *t, const kiln_tracker_project *project);
/* Whether its quotas allow `slots` more slots. */
bool kiln_tracker_project_may_hold(const kiln_tracker *t, const kiln_tracker_project *project,
                                   uint32_t slots);
/* Asks for a tick at the time when its board time of the day will be used up. */
void kiln_tracker_project_watch_time(kiln_tracker *t, const kiln_tracker_project *project);
/* Used and expected slot time over weight: the project with the least is served first. */
double kiln_tracker_project_claim(const kiln_tracker *t, const kiln_tracker_project *project);
/* Called when its first request enters the queue. */
void kiln_tracker_project_starts_waiting(kiln_tracker *t, kiln_tracker_project *project);
void kiln_tracker_project_granted(kiln_tracker *t, kiln_tracker_project *project, uint32_t slots);
/* `held_ns`: slot time. */
void kiln_tracker_project_ended(kiln_tracker *t, kiln_tracker_project *project, uint32_t slots,
                                uint64_t held_ns);
/* Writes changed shares, at most once in KILN_TRACKER_SHARE_NS: when `begin` returns true, the
 * caller adds the cost so far of each current lease, and calls `keep`. After a restart a lease
 * costs only the time from then on. */
bool kiln_tracker_shares_begin(kiln_tracker *t);
void kiln_tracker_project_add_running(kiln_tracker_project *project, uint64_t cost_ns);
void kiln_tracker_shares_keep(kiln_tracker *t);
/* Removes the row of a project that is removed. */
void kiln_tracker_share_remove(kiln_tracker *t, const kiln_tracker_project *project);

/* signers.c */
/* Checks an order about a signer. NOT_FOUND: it names no signer, or none that is trusted.
 * RESOURCE_EXHAUSTED: quota. */
KILN_MUST_USE kiln_status kiln_tracker_trusted_check(const kiln_tracker *t,
                                                     const kiln_tracker_project *project,
                                                     const kiln_msg_project_order *order);
/* Carry out orders that were checked; return the number of the PERSIST. */
uint64_t kiln_tracker_trusted_add(kiln_tracker *t, const kiln_tracker_peer *client,
                                  kiln_tracker_project *project, kiln_str signer);
uint64_t kiln_tracker_trusted_remove(kiln_tracker *t, kiln_tracker_project *project,
                                     kiln_str signer);
void kiln_tracker_trusted_drop(kiln_tracker *t, kiln_tracker_project *project); /* all */
/* `half`: the text of the public half, from the row's id. */
KILN_MUST_USE kiln_status kiln_tracker_trusted_restore(kiln_tracker_project *project, kiln_str half,
                                                       const kiln_msg_kept_signer *kept);
/* The trusted signers as rows, which are views of the project; returns how many. */
uint32_t kiln_tracker_trusted_rows(const kiln_tracker *t, const kiln_tracker_project *project,
                                   kiln_msg_signer_row out[KILN_MESSAGES_TRUSTED]);
/* The signers that count in jobs of the project now (NULL: none do), as JOB_ASSIGN and JOB_DONE
 * carry them; a view of `out`. */
kiln_str kiln_tracker_trusted_of(const kiln_tracker *t, const kiln_tracker_project *project,
                                 kiln_sign_public out[KILN_MESSAGES_TRUSTED]);
/* Invariants (kiln_tracker_check). */
void kiln_tracker_projects_check(const kiln_tracker *t);

#endif
