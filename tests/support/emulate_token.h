/* Barriers with phases (mbarrier) for the block emulator: what lies in shared memory where a kernel
 * has placed one. */
#ifndef KILN_TESTS_SUPPORT_EMULATE_TOKEN_H
#define KILN_TESTS_SUPPORT_EMULATE_TOKEN_H

#include <stdbool.h>

#include "base/arena.h"
#include "tests/support/emulate_calls.h"

typedef struct emulate_tokens emulate_tokens;

/* All functions below that give text say what is wrong, or NULL. */
emulate_tokens *emulate_tokens_create(kiln_arena *arena);
void emulate_tokens_reset(emulate_tokens *t); /* At the start of a block. */
/* Whether the block has any. */
bool emulate_tokens_exist(const emulate_tokens *t);
/* One more, whose phases end when so many have come. */
const char *emulate_tokens_place(emulate_tokens *t, const void *at, unsigned arrivals);
/* One has come; the last of a phase ends it. */
const char *emulate_tokens_arrive(emulate_tokens *t, const void *at);
/* The phase does not end before so many bytes more have landed. */
const char *emulate_tokens_expect(emulate_tokens *t, const void *at, unsigned bytes);
/* So many have. */
const char *emulate_tokens_land(emulate_tokens *t, const void *at, unsigned bytes);
/* A thread of the warp has come; all of them are one. */
const char *emulate_tokens_arrive_in_warp(emulate_tokens *t, const void *at, unsigned warp);
/* All groups of the cluster see the tokens that are there, from now on. */
void emulate_tokens_show(emulate_tokens *t);
/* Whether they see this one. */
const char *emulate_tokens_check_seen(const emulate_tokens *t, const void *at);
/* Whether the last phase of that parity has ended, which a wait asks for. */
const char *emulate_tokens_has_ended(const emulate_tokens *t, const void *at, unsigned parity,
                                     bool *out_has);

#endif
