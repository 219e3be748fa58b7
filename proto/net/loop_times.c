#include "proto/net/loop_times.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/macros.h"

#define WARN_EVERY_NS (10 * KILN_NS_PER_S)

const double kiln_turn_bound_s[KILN_TURN_BUCKETS - 1] = {0.0001, 0.0005, 0.001, 0.002, 0.005,
                                                         0.01,   0.05,   0.1,   1};

static void add_time(kiln_turn_times *times, uint64_t ns, const char *handler) {
    uint32_t bucket = 0;
    while (bucket < KILN_TURN_BUCKETS - 1 && (double)ns > kiln_turn_bound_s[bucket] * 1e9) bucket++;
    times->bucket[bucket]++;
    times->count++;
    times->sum_ns += ns;
    if (ns <= times->max_ns) return;
    times->max_ns = ns;
    times->handler = handler;
}

void kiln_loop_times_add(kiln_loop_times *times, const kiln_turn *turn) {
    add_time(&times->wall, turn->wall_ns, turn->handler);
    add_time(&times->cpu, turn->cpu_ns, turn->cpu_handler ? turn->cpu_handler : turn->handler);
    kiln_thread_work_max(&times->most, &turn->work);
}

void kiln_loop_times_note(kiln_loop_times *times, const char *handler, uint64_t cpu_ns) {
    if (cpu_ns <= KILN_TURN_NS) return;
    uint32_t at = 0;
    while (at < times->slow_count && strcmp(times->slow[at].handler, handler) != 0) at++;
    if (at == times->slow_count && at == KILN_TURN_SLOW_MAX) return;
    if (at == times->slow_count)
        times->slow[times->slow_count++] = (kiln_turn_slow){.handler = handler};
    times->slow[at].count++;
    times->slow[at].max_ns = KILN_MAX(times->slow[at].max_ns, cpu_ns);
}

bool kiln_turn_warns(kiln_turn_warner *warner, const kiln_turn *turn, uint64_t now_ns) {
    if (turn->wall_ns < KILN_TURN_WARN_NS) return false;
    if (warner->said_ns && now_ns - warner->said_ns < WARN_EVERY_NS) {
        warner->unsaid++;
        return false;
    }
    kiln_log(KILN_LOG_WARN,
             "the loop was held for %.1f ms (%.1f ms of CPU), %.1f ms of it by %s; %u other such "
             "turns since the last warning",
             (double)turn->wall_ns / 1e6, (double)turn->cpu_ns / 1e6,
             (double)turn->handler_ns / 1e6, turn->handler, warner->unsaid);
    *warner = (kiln_turn_warner){.said_ns = now_ns};
    return true;
}

/* ---- Text ---- */

static void print_times(const kiln_turn_times *times, const char *name, const char *doc,
                        kiln_strbuf *out) {
    uint64_t count = 0;
    kiln_strbuf_printf(out, "# HELP %s %s\n# TYPE %s histogram\n", name, doc, name);
    for (uint32_t i = 0; i < KILN_TURN_BUCKETS; i++) {
        count += times->bucket[i];
        kiln_strbuf_printf(out, "%s_bucket{le=\"", name);
        if (i < KILN_TURN_BUCKETS - 1)
            kiln_strbuf_printf(out, "%.9g", kiln_turn_bound_s[i]);
        else
            kiln_strbuf_text(out, "+Inf");
        kiln_strbuf_printf(out, "\"} %llu\n", (unsigned long long)count);
    }
    kiln_strbuf_printf(out, "%s_sum %.9g\n%s_count %llu\n", name, (double)times->sum_ns / 1e9, name,
                       (unsigned long long)times->count);
    kiln_strbuf_printf(out,
                       "# HELP %s_max the longest, and what took most of it\n"
                       "# TYPE %s_max gauge\n%s_max{handler=\"%s\"} %.9g\n",
                       name, name, name, times->handler ? times->handler : "",
                       (double)times->max_ns / 1e9);
}

static void print_most(uint64_t value, const char *name, const char *doc, kiln_strbuf *out) {
    kiln_strbuf_printf(out,
                       "# HELP kiln_loop_turn_%s most %s in one turn\n"
                       "# TYPE kiln_loop_turn_%s gauge\nkiln_loop_turn_%s %llu\n",
                       name, doc, name, name, (unsigned long long)value);
}

void kiln_loop_times_print(const kiln_loop_times *times, kiln_strbuf *out) {
    print_times(&times->wall, "kiln_loop_turn_seconds", "turns of the event loop, without waiting",
                out);
    print_times(&times->cpu, "kiln_loop_turn_cpu_seconds", "the same in CPU time of its thread",
                out);
    print_most(times->most.hashed_bytes, "hashed_bytes", "bytes hashed", out);
    print_most(times->most.compressed_bytes, "compressed_bytes", "bytes compressed", out);
    print_most(times->most.rows, "rows", "rows walked", out);
    print_most(times->most.processes, "processes", "processes started", out);
    kiln_strbuf_printf(out,
                       "# HELP kiln_loop_slow_total calls that took over %.3g ms of CPU\n"
                       "# TYPE kiln_loop_slow_total counter\n",
                       (double)KILN_TURN_NS / 1e6);
    for (uint32_t i = 0; i < times->slow_count; i++)
        kiln_strbuf_printf(out, "kiln_loop_slow_total{handler=\"%s\"} %llu\n",
                           times->slow[i].handler, (unsigned long long)times->slow[i].count);
}

void kiln_loop_times_summary(const kiln_loop_times *times, kiln_strbuf *out) {
    uint64_t slow = 0;
    for (uint32_t i = 0; i < KILN_TURN_BUCKETS; i++)
        if (i > 0 && kiln_turn_bound_s[i - 1] * 1e9 >= (double)KILN_TURN_NS)
            slow += times->wall.bucket[i];
    kiln_strbuf_printf(
        out,
        "%llu turns of the loop, %llu over %.3g ms; longest %.2f ms (%s), of CPU %.2f ms (%s), "
        "hashed %llu bytes, compressed %llu, walked %llu rows, started %llu processes",
        (unsigned long long)times->wall.count, (unsigned long long)slow, (double)KILN_TURN_NS / 1e6,
        (double)times->wall.max_ns / 1e6, times->wall.handler ? times->wall.handler : "-",
        (double)times->cpu.max_ns / 1e6, times->cpu.handler ? times->cpu.handler : "-",
        (unsigned long long)times->most.hashed_bytes,
        (unsigned long long)times->most.compressed_bytes, (unsigned long long)times->most.rows,
        (unsigned long long)times->most.processes);
    for (uint32_t i = 0; i < times->slow_count; i++)
        kiln_strbuf_printf(out, "%s%s (%llu, longest %.2f ms)",
                           i ? ", " : "; over in CPU: ", times->slow[i].handler,
                           (unsigned long long)times->slow[i].count,
                           (double)times->slow[i].max_ns / 1e6);
}
