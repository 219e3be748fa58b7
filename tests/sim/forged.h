/* The records of tuners in a real database, in the worlds whose jobs come with bundles that a
 * tuner's shell imports byte by byte before it prepares the job. Somebody who knows the jobs, the
 * tuners' public key and what they stored forges rows of 100 ns. None of them may be best, take the
 * place of ours or of a trial that is still to come, or make ours be forgotten. Honest rows lie
 * between them: ours, which come back, and those of a colleague whom a person trusts, which count.
 */
#ifndef KILN_TESTS_SIM_FORGED_H
#define KILN_TESTS_SIM_FORGED_H

#include "tests/sim/world.h"

#define SIM_TASKS_MAX 4u

typedef struct sim_ledger sim_ledger;

/* A record of ours. */
typedef struct sim_entry {
    const char *job, *trial;
    uint32_t task, index, attempt;
    kiln_outcome outcome;
    double median_ns;
} sim_entry;

extern const char *const sim_task_key[SIM_TASKS_MAX];

bool sim_has_forgers(const sim_world *world);
sim_ledger *sim_ledger_create(uint64_t seed);
void sim_ledger_destroy(sim_ledger *ledger); /* NULL is fine */
/* It is signed and becomes durable. */
void sim_ledger_store(sim_ledger *ledger, sim_world *world, const sim_entry *entry);
/* The job comes to its tuner, with a bundle. */
void sim_ledger_import(sim_ledger *ledger, sim_world *world, const char *job);
/* Trials of the job that the database says were measured here. */
uint32_t sim_ledger_measured(sim_ledger *ledger, const char *job);
/* All `count` records are there as we stored them, and the best of each task is one of them, and
 * takes so long; 0: none of that task may be best. */
void sim_ledger_check(sim_ledger *ledger, sim_world *world, uint32_t count,
                      const double best_ns[SIM_TASKS_MAX]);

#endif
