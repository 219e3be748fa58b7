/* Whether the tracker shares boards fairly, judged from outside (fair.c): by the time that slots
 * were held, not by what the tracker charged for it. */
#ifndef KILN_TESTS_SIM_FAIR_H
#define KILN_TESTS_SIM_FAIR_H

#include "tests/sim/world.h"
#include "tracker/state.h"

extern const char *const sim_project_name[SIM_PROJECTS];

/* A job that waited before a step, since when. */
typedef struct sim_turn {
    const kiln_tracker_job *job;
    uint64_t since_ns;
} sim_turn;

/* Of a lease: which projects waited when it was given. */
typedef struct sim_given {
    uint64_t lease;
    bool passed_over[SIM_PROJECTS];
} sim_given;

/* Times are those of slots over the weight of who has them, since the world began. */
typedef struct sim_share {
    uint32_t weight;                /* 0: it has no open job */
    bool waits;                     /* after the last step */
    double served_ns;               /* that it had */
    double passed_ns[SIM_PROJECTS]; /* that another had of what was given while this one waited */
    double least_ns[SIM_PROJECTS];  /* least of their difference, since weights are what they are */
} sim_share;

typedef struct sim_fair {
    uint64_t seen_ns, epoch;
    double longest_ns; /* that a lease lasted since weights are what they are, by its slots */
    sim_share share[SIM_PROJECTS];
    KILN_VEC(sim_turn) turn;
    KILN_VEC(sim_given) given; /* of the leases that are held */
} sim_fair;

/* Around each step of the tracker at `now_ns` of its clock. */
void sim_fair_before(sim_fair *fair, const kiln_tracker *t, uint64_t now_ns);
void sim_fair_after(sim_fair *fair, sim_world *world, kiln_tracker *t, uint64_t now_ns);
/* The tracker is gone, and with it what it knew of shares. */
void sim_fair_break(sim_fair *fair);
void sim_fair_deinit(sim_fair *fair);

#endif
