#include "rpc-server/inmate.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/manifest.h"
#include "deploy/runtime/peak.h"
#include "deploy/runtime/region.h"
#include "rpc-server/sandbox.h"
#include "rpc-server/talk.h"

typedef struct inmate {
    kiln_inmate_order order;
    int fd[KILN_INMATE_FD_COUNT];
    const kiln_executor *executor;
    void *device, *program;
    char *outputs;         /* [2 * order.output_bytes] */
    kiln_inmate_note note; /* reused: nothing may be allocated once the sandbox is shut */
} inmate;

static void say(inmate *self, kiln_inmate_said said) {
    self->note.magic = KILN_INMATE_MAGIC;
    self->note.said = said;
    /* Without its parent the child has nothing to live for. */
    if (!kiln_inmate_send_note(KILN_SANDBOX_SOCKET, &self->note))
        kiln_sandbox_exit(KILN_UNAVAILABLE);
}

static void enter(inmate *self, kiln_phase phase) {
    self->note.phase = phase;
    say(self, KILN_INMATE_PHASE);
}

KILN_NORETURN static void end_refused(inmate *self, kiln_status status) {
    self->note.code = kiln_status_code(status);
    snprintf(self->note.text, sizeof self->note.text, "%s", kiln_status_text(status));
    say(self, KILN_INMATE_REFUSED);
    kiln_sandbox_exit(0);
}

KILN_NORETURN static void end_failed(inmate *self, kiln_ran ran) {
    self->note.code = ran;
    say(self, KILN_INMATE_FAILED);
    kiln_sandbox_exit(0);
}

/* Goes on only when the candidate did. */
static void expect_ok(inmate *self, kiln_ran ran) {
    if (ran != KILN_RAN_OK) end_failed(self, ran);
}

static kiln_status pin_to(uint32_t core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "core %u is not to be had for measuring", core);
    return NULL;
}

static kiln_status map(int fd, uint64_t size, int protection, void **out_data) {
    if (size == 0) return NULL;
    void *data = mmap(NULL, (size_t)size, protection, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (data == MAP_FAILED)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "cannot map %llu bytes", (unsigned long long)size);
    *out_data = data;
    return NULL;
}

/* Links and fills. Nothing of the candidate runs before the sandbox is shut. */
static kiln_status load(inmate *self, kiln_arena *arena) {
    const kiln_inmate_order *order = &self->order;
    void *bytes = NULL, *outputs = NULL;
    kiln_artefact artefact;
    kiln_status st = pin_to(order->core[0]);
    if (!st) st = map(self->fd[KILN_INMATE_ARTEFACT], order->artefact_bytes, PROT_READ, &bytes);
    if (!st)
        st = map(self->fd[KILN_INMATE_OUTPUTS], 2 * order->output_bytes, PROT_READ | PROT_WRITE,
                 &outputs);
    kiln_str artefact_bytes = {bytes, (size_t)order->artefact_bytes};
    if (!st) st = kiln_artefact_decode(artefact_bytes, arena, &artefact);
    if (st) return st;

    self->outputs = outputs;
    self->executor = kiln_executor_at(order->executor);
    kiln_executor_setup setup = {order->core_count, order->core};
    st = self->executor->vtable->open(&setup, &self->device);
    if (!st)
        st = self->executor->vtable->load(self->device, artefact_bytes, &artefact.manifest,
                                          &self->program);
    if (!st) self->executor->vtable->fill(self->program, order->seed);
    return st;
}

/* Source of times for timing.h. What went wrong ends the process here, so it never fails. */
static void run_timed(void *context, uint32_t runs, uint64_t *out_ns) {
    inmate *self = context;
    expect_ok(self, self->executor->vtable->run(self->program, runs, out_ns));
}

KILN_NORETURN static void measure(inmate *self) {
    const kiln_executor_vtable *vtable = self->executor->vtable;
    const kiln_inmate_order *order = &self->order;
    const kiln_timing_source source = {run_timed, self, kiln_timing_overhead_ns()};
    uint64_t call_ns = 0;
    expect_ok(self, vtable->prepare(self->program));
    expect_ok(self, vtable->check(self->program, KILN_POISON_FIRST, self->outputs, &call_ns));
    uint32_t runs = kiln_timing_warm_up(&source, &order->policy, call_ns);

    enter(self, KILN_PHASE_RUN);
    kiln_timing_sample(&source, &order->policy, runs, &self->note.timing);

    enter(self, KILN_PHASE_CHECK);
    char *last = self->outputs + order->output_bytes;
    expect_ok(self, vtable->check(self->program, KILN_POISON_LAST, last, &call_ns));
    say(self, KILN_INMATE_MEASURED);
    kiln_sandbox_exit(0);
}

void kiln_inmate_main(void) {
    static inmate self; /* large, and used to the end of the process */
    kiln_sandbox_confine();
    if (!kiln_inmate_read_order(KILN_SANDBOX_SOCKET, &self.order, self.fd)) kiln_sandbox_exit(0);
    if (fchdir(self.fd[KILN_INMATE_FOLDER]) != 0) kiln_sandbox_exit(KILN_INTERNAL);

    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    enter(&self, KILN_PHASE_LOAD);
    kiln_status st = load(&self, &arena);
    if (st) end_refused(&self, st);
    self.note.peak_flops = kiln_peak_flops();
    kiln_sandbox_shut(self.executor->sandbox, self.order.cpu_seconds);
    enter(&self, KILN_PHASE_WARM);
    measure(&self);
}
