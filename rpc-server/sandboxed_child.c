#include "rpc-server/sandboxed_child.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/manifest.h"
#include "deploy/runtime/pages.h"
#include "rpc-server/cgroup.h"
#include "rpc-server/child_protocol.h"
#include "rpc-server/sandbox.h"
#include "rpc-server/sandboxed_module.h"
#include "rpc-server/zygote.h"

/* A kernel under measurement. */
typedef struct kernel {
    struct child *child;
    const kiln_executor_vtable *vtable;
    void *program;
    char *first, *last; /* receive its outputs after the first and the last call */
    uint64_t call_ns;   /* of the last checked call */
    kiln_timing timing;
} kernel;

/* State of the process. Static, because nothing may be allocated once the full sandbox is shut. */
typedef struct child {
    kiln_child_order order;
    int fd[KILN_CHILD_FDS_MAX];
    const kiln_executor *executor;
    void *device;
    kernel kernel[KILN_CHILD_KERNELS_MAX];
    kiln_sandboxed_module *module; /* instead of kernels; NULL: none */
    kiln_child_note note;
    kiln_sandbox sandbox;
    void *outputs; /* mapped */
    uint64_t outputs_bytes;
    bool knows_absence; /* whether time that the measuring thread was off its core can be told; not
                           with more threads, for which it may wait */
    kiln_reference_kernel reference;
    kiln_pages reference_data;
    bool reads_device; /* reference kernels run on the device, not on the core */
    kiln_timing_turn turn[KILN_CHILD_KERNELS_MAX];
} child;

static void say(child *self, kiln_child_said said) {
    self->note.magic = KILN_CHILD_MAGIC;
    self->note.said = said;
    /* Nobody needs the child when its parent has ended. */
    if (!kiln_child_send_note(KILN_SANDBOX_SOCKET, &self->note))
        kiln_sandbox_exit(KILN_UNAVAILABLE);
}

static void enter(child *self, kiln_phase phase) {
    self->note.phase = phase;
    say(self, KILN_CHILD_PHASE);
}

static void write_text(child *self, const char *text) {
    snprintf(self->note.text, sizeof self->note.text, "%s", text);
}

/* No code of the candidate ran. */
static void refuse(child *self, kiln_status status) {
    self->note.code = kiln_status_code(status);
    write_text(self, kiln_status_text(status));
    kiln_status_free(status);
    say(self, KILN_CHILD_REFUSED);
}

/* Reports a failed call with the device's message, if there is one. The process ends, because the
 * next trial needs a fresh device. */
KILN_NORETURN static void end_failed(child *self, kiln_ran ran) {
    const kiln_executor_vtable *vtable = self->executor ? self->executor->vtable : NULL;
    self->note.code = ran;
    const bool told = (ran == KILN_RAN_ERROR || ran == KILN_RAN_LOST) && vtable && vtable->error;
    write_text(self, told ? vtable->error(self->device) : "");
    say(self, KILN_CHILD_FAILED);
    kiln_sandbox_exit(0);
}

/* Ends the process unless the candidate's call succeeded. */
static void expect_ok(child *self, kiln_ran ran) {
    if (ran != KILN_RAN_OK) end_failed(self, ran);
}

static kiln_status pin_to(const uint32_t *core, uint32_t core_count) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (uint32_t i = 0; i < core_count; i++) CPU_SET(core[i], &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "cannot pin to core %u for measuring", core[0]);
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

/* Links and fills kernel `index`, whose outputs go to `outputs`. */
static kiln_status load_kernel(child *self, uint32_t index, char *outputs, kiln_arena *arena) {
    const kiln_child_kernel *order = &self->order.kernel[index];
    kernel *k = &self->kernel[index];
    void *bytes = NULL;
    kiln_artefact artefact;
    kiln_status st =
        map(self->fd[KILN_CHILD_ARTEFACT + index], order->artefact_bytes, PROT_READ, &bytes);
    kiln_str artefact_bytes = {bytes, (size_t)order->artefact_bytes};
    if (!st) st = kiln_artefact_decode(artefact_bytes, arena, &artefact);
    *k = (kernel){.child = self, .vtable = self->executor->vtable};
    k->first = outputs;
    k->last = outputs + order->output_bytes;
    if (!st) st = k->vtable->load(self->device, artefact_bytes, &artefact.manifest, &k->program);
    if (bytes) munmap(bytes, (size_t)order->artefact_bytes); /* load copied it */
    if (!st) k->vtable->fill(k->program, self->order.seed);
    return st;
}

/* Sets the driver's environment, so that it writes into the child's own folder. The path is
 * relative unless the child has its own root, because it may not be allowed to enter the folders
 * above. */
static void set_driver_environment(const child *self) {
    kiln_driver_variable variable;
    const char *here = self->sandbox.fences & 1U << KILN_FENCE_FOLDER ? "/tmp" : "./driver";
    for (uint32_t at = 0; kiln_driver_next_variable(self->sandbox.driver, &at, &variable);)
        setenv(variable.name, variable.value ? variable.value : here, 1);
}

static kiln_status load_module(child *self, kiln_arena *arena) {
    const kiln_child_order *order = &self->order;
    void *module = NULL, *inputs = NULL, *outputs = NULL;
    const int *file = self->fd + KILN_CHILD_ARTEFACT;
    if (self->sandbox.driver) set_driver_environment(self);
    kiln_status st = pin_to(order->core, self->sandbox.driver ? order->core_count : 1);
    if (!st) st = map(file[0], order->kernel[0].artefact_bytes, PROT_READ, &module);
    if (!st) st = map(file[1], order->module.input_bytes, PROT_READ, &inputs);
    if (!st)
        st = map(self->fd[KILN_CHILD_OUTPUTS], order->kernel[0].output_bytes,
                 PROT_READ | PROT_WRITE, &outputs);
    if (st) return st;
    return kiln_sandboxed_module_load(
        order, &(kiln_sandboxed_module_bytes){module, inputs, outputs}, arena, &self->module);
}

static void shut(const child *self) {
    const kiln_child_order *order = &self->order;
    kiln_sandbox_shut(&self->sandbox,
                      &(kiln_sandbox_bounds){order->cpu_seconds, order->memory_bytes});
}

/* A driver's threads inherit this thread's cores when the device is opened: a device in software
 * needs all cores of the slot. */
static kiln_status open_device(child *self) {
    const kiln_child_order *order = &self->order;
    const kiln_executor *executor = kiln_executor_at(order->executor);
    const kiln_executor_setup setup = {order->core_count, order->core, executor->name,
                                       order->device};
    self->executor = executor;
    if (self->sandbox.driver) set_driver_environment(self);
    kiln_status st = pin_to(order->core, executor->driver ? order->core_count : 1);
    if (!st) st = executor->vtable->open(&setup, &self->device);
    if (!st || !executor->driver) return st;
    /* No candidate has run, so the fault is the board's. */
    kiln_status unavailable =
        KILN_ERROR(UNAVAILABLE, "opening device %u: %s", order->device, kiln_status_text(st));
    kiln_status_free(st);
    return unavailable;
}

/* Loads all kernels. No candidate code runs before the sandbox is shut. */
static kiln_status load(child *self, kiln_arena *arena) {
    const kiln_child_order *order = &self->order;
    if (order->module.is_asked) return load_module(self, arena);
    self->outputs_bytes = 0;
    for (uint32_t i = 0; i < order->kernel_count; i++)
        self->outputs_bytes += 2 * order->kernel[i].output_bytes;
    kiln_status st = map(self->fd[KILN_CHILD_OUTPUTS], self->outputs_bytes, PROT_READ | PROT_WRITE,
                         &self->outputs);
    if (!st && !self->device) {
        st = open_device(self);
        if (!st && self->sandbox.driver) shut(self);
    } else if (!st) {
        kiln_sandbox_allow_time(order->cpu_seconds);
    }
    char *at = self->outputs;
    for (uint32_t i = 0; !st && i < order->kernel_count; i++) {
        st = load_kernel(self, i, at, arena);
        at += 2 * order->kernel[i].output_bytes;
    }
    return st;
}

/* Frees everything of a trial before the next one. */
static void unload(child *self) {
    const kiln_child_order *order = &self->order;
    for (uint32_t i = 0; i < order->kernel_count; i++) {
        if (self->kernel[i].program) self->executor->vtable->unload(self->kernel[i].program);
        self->kernel[i] = (kernel){0};
    }
    if (self->outputs) munmap(self->outputs, (size_t)self->outputs_bytes);
    self->outputs = NULL;
    for (uint32_t i = 0; i < KILN_CHILD_ARTEFACT + kiln_child_file_count(order); i++)
        close(self->fd[i]);
}

/* Runs and times the kernel for timing.h. A failure ends the process. */
static kiln_timing_spent run_timed(void *context, uint32_t runs) {
    kernel *k = context;
    kiln_timing_spent spent = {0};
    const uint64_t begin_ns = kiln_clock_precise_ns(), worked_ns = kiln_clock_thread_ns();
    expect_ok(k->child, k->vtable->run(k->program, runs, &spent.elapsed_ns));
    const uint64_t worked = kiln_clock_thread_ns() - worked_ns;
    const uint64_t passed = kiln_clock_precise_ns() - begin_ns;
    if (k->child->knows_absence && passed > worked) spent.away_ns = passed - worked;
    return spent;
}

static kiln_reference_kernel_times take_core_times(void *context) {
    child *self = context;
    return kiln_reference_kernel_take(&self->reference);
}

static kiln_reference_kernel_times take_device_times(void *context) {
    child *self = context;
    return self->executor->vtable->reference(self->device);
}

/* Measures reference kernels on the device or core that runs the candidates. For a device in
 * software the cores' reading is the better one, because it shares them with this process. */
static void take_round(child *self) {
    const kiln_executor_vtable *vtable = self->executor ? self->executor->vtable : NULL;
    self->reads_device = false;
    self->note.round = (kiln_reference_kernel_round){0};
    if (!self->order.is_gpu || !vtable)
        self->note.round = kiln_reference_kernel_measure(&self->reference);
    else if (vtable->round)
        self->reads_device = vtable->round(self->device, &self->note.round);
}

/* Reads the device's state into the note, which carries it from here on. */
static void read_device(child *self) {
    const kiln_executor_vtable *vtable = self->executor ? self->executor->vtable : NULL;
    self->note.is_read = vtable && vtable->read && vtable->read(self->device, &self->note.reading);
}

static void check(kernel *k, uint16_t poison, char *outputs) {
    expect_ok(k->child, k->vtable->check(k->program, poison, outputs, &k->call_ns));
}

static void report(child *self) {
    for (uint32_t i = 0; i < self->order.kernel_count; i++) {
        self->note.kernel = i;
        self->note.timing = self->kernel[i].timing;
        say(self, KILN_CHILD_MEASURED);
    }
}

/* For simulators, which count time: another run would give the same time and outputs. */
static void measure_once(child *self) {
    const kiln_child_order *order = &self->order;
    for (uint32_t i = 0; i < order->kernel_count; i++) {
        kernel *k = &self->kernel[i];
        expect_ok(self, k->vtable->prepare(k->program));
        check(k, KILN_POISON_FIRST, k->first);
        memcpy(k->last, k->first, (size_t)order->kernel[i].output_bytes);
        k->timing = (kiln_timing){.runs = 1, .sample_count = 1, .stop = KILN_STOP_CONVERGED};
        k->timing.sample_ns[0] = KILN_MAX(k->call_ns, 1);
    }
    enter(self, KILN_PHASE_RUN);
    enter(self, KILN_PHASE_CHECK);
    report(self);
}

static void measure(child *self) {
    const kiln_child_order *order = &self->order;
    const uint64_t overhead_ns = kiln_timing_overhead_ns();
    kiln_timing_turn *turn = self->turn;
    /* A thread that waits for a device is not off its core. */
    self->knows_absence =
        !self->executor->driver && order->core_count == 1 && kiln_timing_knows_absence();
    /* Readings of this core do not tell a device's speed, and would take a core away from a device
     * in software. */
    kiln_timing_reference reference = {.context = self};
    const kiln_timing_warmth warmth =
        order->is_gpu ? KILN_TIMING_WARM_DEVICE : KILN_TIMING_WARM_CORE;
    if (!self->executor->driver || self->reads_device) {
        reference.take = self->reads_device ? take_device_times : take_core_times;
        reference.norm = order->norm;
    }
    for (uint32_t i = 0; i < order->kernel_count; i++) {
        kernel *k = &self->kernel[i];
        turn[i].source = (kiln_timing_source){run_timed, k, overhead_ns};
        turn[i].timing = &k->timing;
        expect_ok(self, k->vtable->prepare(k->program));
        check(k, KILN_POISON_FIRST, k->first);
        turn[i].runs = kiln_timing_warm_up(&turn[i].source, &order->policy, k->call_ns, &warmth);
    }
    enter(self, KILN_PHASE_RUN);
    kiln_timing_sample(turn, order->kernel_count, &reference, &order->policy, order->race_ns);

    read_device(self);
    enter(self, KILN_PHASE_CHECK);
    for (uint32_t i = 0; i < order->kernel_count; i++) {
        kernel *k = &self->kernel[i];
        /* A kernel that was raced out is not shipped, so its first check suffices. */
        if (k->timing.stop != KILN_STOP_RACED) check(k, KILN_POISON_LAST, k->last);
    }
    report(self);
}

KILN_NORETURN static void run_module(child *self) {
    expect_ok(self, kiln_sandboxed_module_pack(self->module) ? KILN_RAN_OK : KILN_RAN_ERROR);
    enter(self, KILN_PHASE_RUN);
    expect_ok(self, kiln_sandboxed_module_run(self->module, self->note.round.peak_flops)
                        ? KILN_RAN_OK
                        : KILN_RAN_ERROR);
    enter(self, KILN_PHASE_CHECK);
    say(self, KILN_CHILD_MEASURED);
    kiln_sandbox_exit(0);
}

static void open_reference(child *self) {
    kiln_status st =
        kiln_pages_create(KILN_REFERENCE_KERNEL_BYTES, KILN_GUARD_NONE, &self->reference_data);
    if (st) kiln_sandbox_exit(KILN_RESOURCE_EXHAUSTED);
    kiln_reference_kernel_init(&self->reference, self->reference_data.data);
}

static bool is_zygote(int argc, char **argv) {
    return argc == 2 && strcmp(argv[1], "--children") == 0;
}

bool kiln_sandboxed_child_is_asked(int argc, char **argv) {
    return is_zygote(argc, argv) || ((argc == 3 || argc == 4) && strcmp(argv[1], "--child") == 0);
}

/* The same facts that a zygote's fork gets from kiln_zygote_serve. */
static kiln_zygote_birth read_arguments(int argc, char **argv) {
    kiln_zygote_birth birth = {.is_grouped = argc == 4 && kiln_cgroup_enter(argv[3])};
    for (uint32_t i = 0; i < kiln_driver_count(); i++)
        if (strcmp(argv[2], kiln_driver_at(i)->name) == 0) birth.driver = kiln_driver_at(i);
    return birth;
}

/* Carries out one order, to its last note. */
static void serve(child *self, kiln_arena *arena) {
    enter(self, KILN_PHASE_LOAD);
    kiln_status st = load(self, arena);
    if (st) {
        refuse(self, st);
        return;
    }
    if (self->order.waits) {
        say(self, KILN_CHILD_LOADED);
        if (!kiln_child_await_turn(KILN_SANDBOX_SOCKET)) kiln_sandbox_exit(0);
    }
    take_round(self);
    read_device(self); /* the round has raised its clock */
    if (!self->sandbox.driver || self->module) shut(self);
    enter(self, KILN_PHASE_WARM);
    if (self->module) run_module(self);
    if (self->executor->exact)
        measure_once(self);
    else
        measure(self);
}

static kiln_status copy_text(kiln_str text, char out[KILN_CHILD_TEXT_BYTES]) {
    if (text.size >= KILN_CHILD_TEXT_BYTES)
        return KILN_ERROR(OUT_OF_RANGE, "a text of a device has %zu bytes", text.size);
    memcpy(out, text.data, text.size);
    return NULL;
}

static kiln_status describe_device(child *self, kiln_arena *arena) {
    const kiln_executor *executor = kiln_executor_at(self->order.executor);
    const kiln_executor_setup setup = {.name = executor->name, .device = self->order.device};
    kiln_executor_facts facts;
    kiln_strbuf text = {0};
    kiln_child_device *device = &self->note.device;
    if (!executor->vtable->describe)
        return KILN_ERROR(UNIMPLEMENTED, "%s has no devices to choose from", executor->name);
    if (self->sandbox.driver) set_driver_environment(self);
    kiln_status st = executor->vtable->describe(&setup, arena, &facts);
    if (st) return st;
    kiln_target_print(&facts.target, &text);
    st = copy_text(kiln_strbuf_view(&text), device->target);
    if (!st) st = copy_text(kiln_str_from(facts.name), device->name);
    if (!st) st = copy_text(kiln_str_from(facts.driver), device->driver);
    if (!st && facts.management)
        st = copy_text(kiln_str_from(facts.management), device->management);
    device->memory_bytes = facts.memory_bytes;
    kiln_strbuf_deinit(&text);
    return st;
}

/* Sends the device's description and ends. */
KILN_NORETURN static void answer_device(child *self, kiln_arena *arena) {
    kiln_status st = describe_device(self, arena);
    if (st)
        refuse(self, st);
    else
        say(self, KILN_CHILD_DEVICE);
    kiln_sandbox_exit(0);
}

/* Whether the device is kept for another trial. */
static bool keeps_device(const child *self) {
    return self->device && self->executor->lifetime == KILN_LIFETIME_FAULT;
}

void kiln_sandboxed_child_main(int argc, char **argv) {
    static child self;     /* large; lives as long as the process */
    open_reference(&self); /* before forks, so that they share the memory */
    const kiln_zygote_birth birth =
        is_zygote(argc, argv) ? kiln_zygote_serve() : read_arguments(argc, argv);
    kiln_sandbox_confine(birth.driver, &self.sandbox);
    if (birth.is_grouped) self.sandbox.fences |= 1U << KILN_FENCE_GROUP;
    do {
        kiln_arena arena;
        kiln_arena_init(&arena, 0);
        self.note = (kiln_child_note){.code = self.sandbox.fences};
        say(&self, KILN_CHILD_READY);
        if (!kiln_child_read_order(KILN_SANDBOX_SOCKET, &self.order, self.fd)) kiln_sandbox_exit(0);
        /* Without a file system of its own the child works in its empty folder. */
        if (!(self.sandbox.fences & 1U << KILN_FENCE_FOLDER) && !self.device &&
            fchdir(self.fd[KILN_CHILD_FOLDER]) != 0)
            kiln_sandbox_exit(KILN_INTERNAL);
        if (self.order.asks) answer_device(&self, &arena);
        serve(&self, &arena);
        if (keeps_device(&self)) unload(&self);
        kiln_arena_deinit(&arena);
    } while (keeps_device(&self));
    kiln_sandbox_exit(0);
}
