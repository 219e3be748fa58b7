#include "cli/fleet_doctor.h"

#include <stdarg.h>

/* Half the interval of a trial's figure, over it: kernels that are closer are not told apart. */
#define NOISE_HIGH 0.04
#define DRIFT_HIGH 1.05
#define HOT_MC 80000u
#define SILENT_MS 7000u
#define CLOCK_MS 5000.0

typedef struct patient {
    const kiln_msg_board_row *board;
    kiln_strbuf *out;
    uint32_t count;
} patient;

KILN_PRINTF(3, 4)
static void say(patient *p, const char *verdict, const char *format, ...) {
    va_list args;
    va_start(args, format);
    kiln_strbuf_printf(p->out, "%-4s ", verdict);
    kiln_strbuf_vprintf(p->out, format, args);
    kiln_strbuf_text(p->out, "\n");
    va_end(args);
    p->count++;
}

static kiln_str fact(const kiln_msg_board_row *board, const char *name) {
    for (uint32_t i = 0; i < board->facts.count; i++)
        if (kiln_str_is(board->facts.item[i].key, name)) return board->facts.item[i].value;
    return (kiln_str){0};
}

static void look_at_state(patient *p) {
    const kiln_msg_board_row *b = p->board;
    if (kiln_str_is(b->state, "lost"))
        say(p, "BAD",
            "not connected for %.0f s: on the board, kiln-rpc-server --doctor --tracker ADDR says "
            "whether it "
            "is the address, the key, the version or the network",
            (double)b->silent_ms / 1e3);
    else if (b->silent_ms > SILENT_MS)
        say(p, "note", "not heard for %.0f s", (double)b->silent_ms / 1e3);
    if (kiln_str_is(b->state, "sick"))
        say(p, "BAD", "its self-check fails: %.*s", KILN_STR_ARG(b->text));
    if (kiln_str_is(b->state, "unfenced")) say(p, "BAD", "%.*s", KILN_STR_ARG(b->text));
    if (kiln_str_is(b->state, "quarantined") || kiln_str_is(b->state, "drained"))
        say(p, "BAD", "%.*s: %.*s; kiln fleet release %.*s puts it back", KILN_STR_ARG(b->state),
            KILN_STR_ARG(b->text), KILN_STR_ARG(b->key));
    if (b->fault_run > 0)
        say(p, "note", "%u faults of its own since its last good result", b->fault_run);
}

static void look_at_times(patient *p) {
    const kiln_msg_board_row *b = p->board;
    const kiln_str governor = fact(b, "governor"), throttled = fact(b, "throttled");
    if (kiln_str_starts(b->device, "emulated"))
        say(p, "note", "an emulator: its times say nothing about a processor");
    if (governor.size && !kiln_str_is(governor, "performance"))
        say(p, "note",
            "governor %.*s: the clock changes while kernels are timed; choose performance",
            KILN_STR_ARG(governor));
    if (throttled.size)
        say(p, "note",
            "since its start there was %.*s: use a stronger power supply and a heat sink",
            KILN_STR_ARG(throttled));
    if (b->env.throttle_bits)
        say(p, "BAD", "it is throttled now (0x%x): samples are taken again", b->env.throttle_bits);
    if (b->env.temperature_mc > HOT_MC)
        say(p, "note", "%.0f degrees: it will slow down", (double)b->env.temperature_mc / 1e3);
    if (b->noise > NOISE_HIGH)
        say(p, "note", "times are known to %.1f %% only: look for other programs that run there",
            100 * b->noise);
    if (b->drift > DRIFT_HIGH)
        say(p, "note", "it is %.0f %% slower than usual", 100 * (b->drift - 1));
}

/* A board that is not connected was told of already. */
static void look_at_answer(patient *p, const kiln_msg_probe_row *probe) {
    if (kiln_str_is(p->board->state, "lost")) return;
    if (!probe->answered) {
        say(p, "BAD", "it does not answer a ping: %.*s", KILN_STR_ARG(probe->text));
        return;
    }
    if (probe->clock && (probe->ahead_ms > CLOCK_MS || probe->ahead_ms < -CLOCK_MS))
        say(p, "note", "its clock is %.0f s %s the tracker's: timedatectl set-ntp true sets it",
            (probe->ahead_ms < 0 ? -probe->ahead_ms : probe->ahead_ms) / 1e3,
            probe->ahead_ms < 0 ? "behind" : "ahead of");
    if (probe->version < KILN_PROTO_VERSION_MAX)
        say(p, "note",
            "it runs %.*s, which speaks version %u of the protocol, not %u: replace its "
            "kiln-rpc-server",
            KILN_STR_ARG(probe->software), probe->version, KILN_PROTO_VERSION_MAX);
}

uint32_t kiln_fleet_diagnose(const kiln_msg_board_row *board, const kiln_msg_probe_row *probe,
                             kiln_strbuf *out) {
    patient p = {board, out, 0};
    look_at_state(&p);
    if (probe) look_at_answer(&p, probe);
    look_at_times(&p);
    if (board->missing.size)
        say(&p, "note", "candidates run without these fences, which its system refuses: %.*s",
            KILN_STR_ARG(board->missing));
    if (p.count == 0)
        kiln_strbuf_printf(out, "ok   %.*s runs %.*s\n", KILN_STR_ARG(board->key),
                           KILN_STR_ARG(board->target));
    return p.count;
}
