/* The monitor: the program in a microcontroller's flash that answers a host's frames (frames.h). It
 * keeps no state between two requests. */
#include "base/kernel_abi.h"
#include "deploy/monitor/contain.h"
#include "deploy/monitor/frames.h"
#include "deploy/monitor/port.h"
#include "deploy/monitor/support.h"

#define STACK_BYTES (16u << 10) /* of candidates, at the end of their memory */
#define AIRCR (*(volatile uint32_t *)0xe000ed0c)
#define AIRCR_RESET 0x05fa0004u

static kiln_frame request;

/* The arguments of a call lie below the candidates' stack, because candidates cannot access the
 * monitor's memory. */
typedef struct call_memory {
    kiln_kernel_tensor tensor[KILN_FRAME_ARGS_MAX];
    kiln_kernel_tensor *args[KILN_FRAME_ARGS_MAX];
    kiln_kernel_services services;
} call_memory;

static uint32_t data_bytes(void) {
    return kiln_port_here.memory_bytes - STACK_BYTES - (uint32_t)sizeof(call_memory);
}

static bool is_inside(uint32_t address, uint32_t size_bytes) {
    const uint32_t at = address - kiln_port_here.memory_begin;
    return address >= kiln_port_here.memory_begin && at <= data_bytes() &&
           size_bytes <= data_bytes() - at;
}

static void send(const void *data, uint32_t size) {
    for (uint32_t i = 0; i < size; i++) kiln_port_send(((const uint8_t *)data)[i]);
}

static void answer(const void *first, uint32_t first_bytes, const void *rest, uint32_t rest_bytes) {
    const kiln_frame_ends ends = kiln_frame_seal(request.kind | KILN_FRAME_ANSWER, request.number,
                                                 first, first_bytes, rest, rest_bytes);
    send(ends.head, sizeof ends.head);
    send(first, first_bytes);
    send(rest, rest_bytes);
    send(ends.crc, sizeof ends.crc);
}

static void answer_status(uint32_t status) { answer(&status, sizeof status, NULL, 0); }

static void copy_text(char to[KILN_FRAME_TEXT_BYTES], const char *from) {
    for (uint32_t i = 0; i + 1 < KILN_FRAME_TEXT_BYTES && from[i]; i++) to[i] = from[i];
}

static void do_hello(void) {
    kiln_frame_hello_answer a = {.version = KILN_FRAME_VERSION,
                                 .memory_begin = kiln_port_here.memory_begin,
                                 .memory_bytes = data_bytes(),
                                 .tick_hz = kiln_port_here.tick_hz};
    copy_text(a.target, kiln_port_here.target);
    copy_text(a.board, kiln_port_here.board);
    answer(&a, sizeof a, NULL, 0);
}

static void do_read(void) {
    const kiln_frame_read *r = (const kiln_frame_read *)request.body;
    const uint32_t ok = KILN_FRAME_OK;
    if (request.body_bytes != sizeof *r || r->size_bytes > KILN_FRAME_DATA_MAX ||
        !is_inside(r->address, r->size_bytes))
        answer_status(KILN_FRAME_REFUSED);
    else
        answer(&ok, sizeof ok, (const void *)(uintptr_t)r->address, r->size_bytes);
}

static void do_write(void) {
    const kiln_frame_write *w = (const kiln_frame_write *)request.body;
    const uint32_t bytes = request.body_bytes - (uint32_t)sizeof *w;
    bool fits = request.body_bytes >= sizeof *w && is_inside(w->address, bytes);
    if (fits) memcpy((void *)(uintptr_t)w->address, w + 1, bytes);
    answer_status(fits ? KILN_FRAME_OK : KILN_FRAME_REFUSED);
}

static void do_copy(void) {
    const kiln_frame_copy *c = (const kiln_frame_copy *)request.body;
    bool fits = request.body_bytes == sizeof *c && is_inside(c->to, c->size_bytes) &&
                is_inside(c->from, c->size_bytes);
    if (fits) memcpy((void *)(uintptr_t)c->to, (const void *)(uintptr_t)c->from, c->size_bytes);
    answer_status(fits ? KILN_FRAME_OK : KILN_FRAME_REFUSED);
}

static void do_call(void) {
    const kiln_frame_call *c = (const kiln_frame_call *)request.body;
    const uint32_t head = (uint32_t)offsetof(kiln_frame_call, arg);
    if (request.body_bytes < head || c->arg_count > KILN_FRAME_ARGS_MAX ||
        request.body_bytes != head + 4 * c->arg_count || !is_inside(c->entry, 0) ||
        !is_inside(c->scratch, 0)) {
        answer_status(KILN_FRAME_REFUSED);
        return;
    }
    const uint32_t begin = kiln_port_here.memory_begin + data_bytes();
    call_memory *m = (call_memory *)(uintptr_t)begin;
    memset(m, 0, sizeof *m);
    m->services = (kiln_kernel_services){.version = KILN_KERNEL_ABI_VERSION,
                                         .worker_count = 1,
                                         .parallel_for = kiln_support_parallel_for,
                                         .scratch = (void *)(uintptr_t)c->scratch};
    for (uint32_t i = 0; i < c->arg_count; i++) {
        m->tensor[i] = (kiln_kernel_tensor){.data = (void *)(uintptr_t)c->arg[i], .device_type = 1};
        m->args[i] = &m->tensor[i];
    }
    const kiln_frame_call_answer a =
        kiln_contain_call((kiln_kernel_entry)(uintptr_t)c->entry, m->args, &m->services,
                          begin + (uint32_t)sizeof *m + STACK_BYTES);
    answer(&a, sizeof a, NULL, 0);
}

static void do_find(void) {
    const kiln_frame_find_answer a = {
        KILN_FRAME_OK, kiln_support_find((const char *)request.body, request.body_bytes)};
    answer(&a, sizeof a, NULL, 0);
}

static void do_reset(void) {
    answer_status(KILN_FRAME_OK);
    AIRCR = AIRCR_RESET;
    for (;;) {}
}

static void obey(void) {
    switch ((kiln_frame_kind)request.kind) {
    case KILN_FRAME_HELLO: do_hello(); return;
    case KILN_FRAME_READ: do_read(); return;
    case KILN_FRAME_WRITE: do_write(); return;
    case KILN_FRAME_COPY: do_copy(); return;
    case KILN_FRAME_CALL: do_call(); return;
    case KILN_FRAME_FIND: do_find(); return;
    case KILN_FRAME_RESET: do_reset(); return;
    }
    answer_status(KILN_FRAME_REFUSED);
}

void kiln_monitor_main(void) {
    __asm__ volatile("cpsid i" ::: "memory");
    request.received = 0; /* memory is not cleared at the start */
    kiln_contain_start();
    kiln_port_start();
    for (;;) {
        uint8_t byte;
        if (!kiln_port_receive(&byte)) {
            __asm__ volatile("wfi"); /* a masked interrupt wakes as well */
            continue;
        }
        if (kiln_frame_take(&request, byte) == KILN_FRAME_WHOLE) obey();
    }
}
