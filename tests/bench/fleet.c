/* bench-fleet --tracker PROGRAM [--boards N] [--tls] ...: a fleet of thousands on loopback, through
 * the real kiln-tracker; all but the tracker is made up (swarm.h). Prints a JSON object.
 *
 * A grant is a LEASE_GRANT that reaches the tuner which asked for it: the tracker has taken the
 * LEASE_REQ, chosen a free slot of a board, written the lease to its disk and sent it. The tuner
 * gives it back at once (LEASE_RELEASE, written too; the board is told), so that N boards can be
 * granted for ever. "Full load" keeps --ahead requests out; "half load" asks at random times, half
 * as often as the full load was served or as is wanted, and counts a request's wait from when it
 * was due to be asked. "Pings" is the second of these with a PING for each request: nothing to
 * decide and nothing to write, so less than that no answer can take here and now. A placement is a
 * trial that went tuner, tracker, board and back, K to a lease.
 *
 * --check: small numbers, nothing is timed; ends with 1 when anything is not as it must be. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/opt.h"
#include "tests/bench/swarm.h"

#define WANTED_PER_S 20000.0
#define COUNTED 1000u                               /* grants that show that all is right */
#define PATIENCE_NS (UINT64_C(120) * KILN_NS_PER_S) /* only a broken build waits so long */

typedef struct options {
    const char *tracker, *state, *mover;
    uint64_t blob; /* MiB; 0: none is moved */
    uint64_t boards, clients, tuners, ahead, trials;
    double seconds;
    bool tls, check;
} options;

typedef struct bench {
    options options;
    kiln_arena arena;
    kiln_loop *loop;
    char *folder, *state; /* `state`: the tracker's */
    kiln_child tracker;
    kiln_address address;
    kiln_keys keys;
    swarm *swarm;
    bool parted; /* the cores, between the tracker and us */
    cpu_set_t tracker_cores, own_cores;
} bench;

static void fail(const char *what, kiln_status st) {
    fprintf(stderr, "bench-fleet: %s%s%s\n", what, st ? ": " : "", st ? kiln_status_text(st) : "");
    exit(1);
}

static void need(kiln_status st, const char *what) {
    if (st) fail(what, st);
}

/* ---- The tracker ---- */

static char *path(bench *b, const char *name) {
    return kiln_arena_printf(&b->arena, "%s/%s", b->folder, name);
}

static void write_keys(bench *b) {
    static const kiln_peer_role role[] = {KILN_PEER_BOARD, KILN_PEER_TUNER, KILN_PEER_CLIENT};
    const uint64_t count[] = {b->options.boards, b->options.tuners, b->options.clients};
    kiln_rand rand;
    kiln_rand_init(&rand, 1);
    kiln_strbuf text = {0};
    kiln_strbuf_text(&text, "kiln-keys 1\n");
    for (size_t r = 0; r < KILN_ARRAY_COUNT(role); r++)
        for (uint32_t i = 0; i < count[r]; i++) {
            char name[32];
            swarm_name(role[r], i, name);
            kiln_strbuf_printf(&text, "%s/%s/1 ", kiln_peer_role_name(role[r]), name);
            for (int k = 0; k < 4; k++)
                kiln_strbuf_printf(&text, "%016llx", (unsigned long long)kiln_rand_u64(&rand));
            kiln_strbuf_char(&text, '\n');
        }
    need(kiln_keys_parse(kiln_strbuf_view(&text), &b->keys), "making keys");
    need(kiln_keys_write(path(b, "keys"), &b->keys), "writing keys");
    kiln_strbuf_deinit(&text);
}

/* What is made up stands for other machines: it keeps to the last core, so that it does not take
 * the tracker's in turns with it. */
static void part_cores(bench *b) {
    int last = -1;
    CPU_ZERO(&b->own_cores);
    if (sched_getaffinity(0, sizeof b->tracker_cores, &b->tracker_cores) != 0) return;
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &b->tracker_cores)) last = i;
    b->parted = CPU_COUNT(&b->tracker_cores) > 1;
    if (!b->parted) return;
    CPU_CLR(last, &b->tracker_cores);
    CPU_SET(last, &b->own_cores);
}

/* What is started then inherits them. */
static void keep_to(const bench *b, const cpu_set_t *cores) {
    if (b->parted && sched_setaffinity(0, sizeof *cores, cores) != 0)
        fprintf(stderr, "bench-fleet: the cores could not be parted\n");
}

/* On the port of the last one, if there was one; returns when it listens. */
static void start_tracker(bench *b) {
    char *port_file = path(b, "port");
    const char *listen = kiln_arena_printf(&b->arena, "127.0.0.1:%u", b->address.port);
    const char *argv[] = {b->options.tracker,
                          "--listen",
                          listen,
                          "--port-file",
                          port_file,
                          "--state",
                          b->state,
                          "--with-parent",
                          "--http",
                          "0",
                          "--http-port-file",
                          path(b, "http"),
                          NULL};
    const char *env[] = {kiln_arena_printf(&b->arena, "KILN_HOME=%s", b->folder), NULL};
    unlink(port_file);
    keep_to(b, &b->tracker_cores);
    need(kiln_child_start(&(kiln_child_options){.argv = argv,
                                                .env_extra = env,
                                                .error_path = path(b, "tracker.log")},
                          &b->tracker),
         "starting the tracker");
    keep_to(b, &b->own_cores);
    kiln_child_exit end;
    while (!kiln_file_exists(port_file)) {
        if (kiln_child_ended(&b->tracker, &end)) fail("the tracker ended; see tracker.log", NULL);
        kiln_clock_wait_until(kiln_clock_ns() + KILN_NS_PER_MS);
    }
    kiln_str text;
    need(kiln_file_read(port_file, 16, &b->arena, &text), "reading the port");
    b->address =
        (kiln_address){.is_loopback = true, .port = (uint16_t)strtoul(text.data, NULL, 10)};
    snprintf(b->address.host, sizeof b->address.host, "127.0.0.1");
}

/* Field `number`, from 1, of a file of /proc about the tracker that has one line. */
static uint64_t proc_field(bench *b, const char *file, int number) {
    kiln_arena scratch;
    kiln_str text;
    kiln_arena_init(&scratch, 0);
    char *name = kiln_arena_printf(&scratch, "/proc/%d/%s", (int)b->tracker.pid, file);
    need(kiln_file_read_system(name, &scratch, &text), "reading /proc");
    const char *at = text.data;
    for (int i = 1; i < number && at; i++) at = strchr(at, ' ') + 1;
    uint64_t value = strtoull(at, NULL, 10);
    kiln_arena_deinit(&scratch);
    return value;
}

static uint64_t tracker_rss(bench *b) {
    return proc_field(b, "statm", 2) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static double tracker_cpu_s(bench *b) {
    return (double)(proc_field(b, "stat", 14) + proc_field(b, "stat", 15)) /
           (double)sysconf(_SC_CLK_TCK);
}

static double own_cpu_s(void) {
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
           (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1e6;
}

/* The tracker's metrics, as text. */
static kiln_str scrape(bench *b) {
    static const char request[] = "GET /metrics HTTP/1.0\r\n\r\n";
    kiln_strbuf answer = {0};
    kiln_str port;
    char bytes[65536];
    ssize_t got = 0;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    need(kiln_file_read(path(b, "http"), 16, &b->arena, &port), "reading the port of HTTP");
    to.sin_port = htons((uint16_t)strtoul(port.data, NULL, 10));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) != 0 ||
        write(fd, request, sizeof request - 1) < 0)
        fail("asking for metrics", NULL);
    while ((got = read(fd, bytes, sizeof bytes)) > 0)
        kiln_strbuf_append(&answer, bytes, (size_t)got);
    close(fd);
    kiln_str text = {kiln_str_dup(&b->arena, kiln_strbuf_view(&answer)), answer.size};
    kiln_strbuf_deinit(&answer);
    return text;
}

static double metric(kiln_str text, const char *name) {
    const char *at = strstr(text.data, name);
    if (!at) fail(name, NULL);
    return strtod(at + strlen(name), NULL);
}

/* Turns of the tracker's loop, and those of them that took over 5 ms: of wall time, of CPU. */
typedef struct turns {
    double count, slow, slow_cpu, hashed_bytes;
} turns;

static turns count_turns(bench *b) {
    const kiln_str text = scrape(b);
    const double count = metric(text, "\nkiln_loop_turn_seconds_count ");
    return (turns){
        .count = count,
        .slow = count - metric(text, "\nkiln_loop_turn_seconds_bucket{le=\"0.005\"} "),
        .slow_cpu = count - metric(text, "\nkiln_loop_turn_cpu_seconds_bucket{le=\"0.005\"} "),
        .hashed_bytes = metric(text, "\nkiln_loop_turn_hashed_bytes "),
    };
}

/* ---- Waiting ---- */

typedef bool (*condition)(bench *b, uint64_t number);

/* Seconds until it holds. */
static double wait_for(bench *b, condition holds, uint64_t number, const char *what) {
    uint64_t begin = kiln_clock_ns();
    while (!holds(b, number)) {
        if (kiln_clock_ns() - begin > PATIENCE_NS) fail(what, NULL);
        kiln_loop_run_once(b->loop);
    }
    return (double)(kiln_clock_ns() - begin) / 1e9;
}

static bool all_jobs(bench *b, uint64_t number) {
    (void)number;
    return swarm_counted(b->swarm)->jobs == b->options.clients;
}

static bool all_opened(bench *b, uint64_t number) {
    (void)number;
    return swarm_counted(b->swarm)->opened == b->options.clients;
}

static bool all_boards(bench *b, uint64_t number) {
    (void)number;
    return swarm_counted(b->swarm)->boards == b->options.boards && all_opened(b, 0) &&
           all_jobs(b, 0);
}

static bool so_many_grants(bench *b, uint64_t number) {
    return swarm_counted(b->swarm)->grants >= number;
}

static bool time_is_over(bench *b, uint64_t end_ns) {
    (void)b;
    return kiln_clock_ns() >= end_ns;
}

static bool nothing_out(bench *b, uint64_t number) {
    (void)number;
    return swarm_out(b->swarm) == 0;
}

/* ---- Phases ---- */

static int compare(const void *a, const void *b) {
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

static uint64_t *sort(bench *b, const uint64_t *wait, uint32_t count) {
    uint64_t *sorted = kiln_arena_copy(&b->arena, wait, count * sizeof *wait);
    qsort(sorted, count, sizeof *sorted, compare);
    return sorted;
}

static void print_waits(bench *b) {
    uint32_t count = 0, late_count = 0;
    const uint64_t *wait = swarm_waits(b->swarm, &count);
    const uint64_t *late = swarm_late(b->swarm, &late_count);
    if (count == 0) fail("nothing was granted", NULL);
    wait = sort(b, wait, count);
    late = sort(b, late, late_count);
    printf(",\"p50_ms\":%.4g,\"p99_ms\":%.4g,\"max_ms\":%.4g,\"late_p99_ms\":%.4g",
           (double)wait[count / 2] / 1e6, (double)wait[(uint64_t)count * 99 / 100] / 1e6,
           (double)wait[count - 1] / 1e6, (double)late[(uint64_t)late_count * 99 / 100] / 1e6);
}

/* Runs the load that is set and prints what came of it; returns answers per second. */
static double measure(bench *b, const char *name, bool with_waits) {
    uint64_t warm_ns = kiln_clock_ns() + (uint64_t)(b->options.seconds / 4 * 1e9);
    wait_for(b, time_is_over, warm_ns, "warm-up");
    const swarm_counts before = *swarm_counted(b->swarm);
    double tracker_s = tracker_cpu_s(b), own_s = own_cpu_s();
    uint64_t begin = kiln_clock_ns();
    wait_for(b, time_is_over, begin + (uint64_t)(b->options.seconds * 1e9), "the load");
    double wall_s = (double)(kiln_clock_ns() - begin) / 1e9;
    const swarm_counts *after = swarm_counted(b->swarm);
    uint64_t answers = after->grants + after->pongs - before.grants - before.pongs;
    double per_s = (double)answers / wall_s;
    printf(",\"%s\":{\"answers_per_s\":%.6g,\"placements_per_s\":%.6g", name, per_s,
           (double)(after->results - before.results) / wall_s);
    if (with_waits) print_waits(b);
    printf(",\"tracker_cpu\":%.3g,\"generator_cpu\":%.3g}", (tracker_cpu_s(b) - tracker_s) / wall_s,
           (own_cpu_s() - own_s) / wall_s);
    fflush(stdout);
    return per_s;
}

static void stop_load(bench *b) {
    swarm_load_closed(b->swarm, 0, 0);
    wait_for(b, nothing_out, 0, "requests stayed without an answer");
}

static void run_loads(bench *b) {
    uint32_t ahead = (uint32_t)b->options.ahead;
    swarm_load_closed(b->swarm, ahead, 0);
    double per_s = measure(b, "full", false);
    stop_load(b);
    swarm_load_open(b->swarm, per_s / 2, 0);
    measure(b, "half", true);
    stop_load(b);
    swarm_load_open(b->swarm, WANTED_PER_S / 2, 0);
    measure(b, "wanted", true);
    stop_load(b);
    swarm_load_pings(b->swarm, WANTED_PER_S / 2);
    measure(b, "pings", true);
    stop_load(b);
    swarm_load_closed(b->swarm, ahead, (uint32_t)b->options.trials);
    measure(b, "trials", false);
    stop_load(b);
}

/* So many grants of each kind, whatever the time. */
static void run_counted(bench *b) {
    for (uint32_t kind = 0; kind < 2; kind++) {
        swarm_load_closed(b->swarm, (uint32_t)b->options.ahead,
                          kind ? (uint32_t)b->options.trials : 0);
        wait_for(b, so_many_grants, swarm_counted(b->swarm)->grants + COUNTED, "too few grants");
        stop_load(b);
    }
}

static bool back_again(bench *b, uint64_t closed) {
    uint64_t peers = b->options.boards + b->options.tuners + b->options.clients;
    return swarm_counted(b->swarm)->closed >= closed + peers && all_boards(b, 0);
}

/* Seconds until all are registered again after every connection was cut, and after the tracker was
 * killed and at once started again. */
static void run_storms(bench *b) {
    uint64_t closed = swarm_counted(b->swarm)->closed;
    swarm_cut(b->swarm);
    printf(",\"cut_s\":%.4g", wait_for(b, back_again, closed, "not all came back"));
    closed = swarm_counted(b->swarm)->closed;
    uint64_t begin = kiln_clock_ns();
    kill(b->tracker.pid, SIGKILL);
    kiln_child_wait(&b->tracker);
    start_tracker(b);
    double serving_s = (double)(kiln_clock_ns() - begin) / 1e9;
    wait_for(b, back_again, closed, "not all came back to the tracker that was killed");
    printf(",\"restart_s\":%.4g,\"killed_s\":%.4g", serving_s,
           (double)(kiln_clock_ns() - begin) / 1e9);
    run_counted(b); /* and all goes on */
}

/* ---- A blob ---- */

#define PINGS_PER_S 1000.0

static bool is_moving(bench *b, uint64_t number) {
    (void)number;
    return kiln_file_exists(path(b, "moving"));
}

static bool is_moved(bench *b, uint64_t number) {
    (void)number;
    return kiln_file_exists(path(b, "moved"));
}

/* PINGs until it holds; prints what they waited. */
static void ping_until(bench *b, const char *name, condition holds, uint64_t number) {
    const turns before = count_turns(b);
    const uint64_t closed = swarm_counted(b->swarm)->closed;
    swarm_load_pings(b->swarm, PINGS_PER_S);
    wait_for(b, holds, number, "the blob did not get through");
    const turns after = count_turns(b);
    printf(",\"%s\":{\"closed\":%llu,\"turns\":%.9g,\"slow\":%.9g,\"slow_cpu\":%.9g", name,
           (unsigned long long)(swarm_counted(b->swarm)->closed - closed),
           after.count - before.count, after.slow - before.slow, after.slow_cpu - before.slow_cpu);
    print_waits(b);
    stop_load(b);
    printf("}");
    fflush(stdout);
}

static void start_mover(bench *b, kiln_child *mover) {
    char *key = NULL;
    unlink(path(b, "moving"));
    unlink(path(b, "moved"));
    if (b->options.tls) {
        key = path(b, "mover-key");
        kiln_keys one = {0};
        char name[32];
        swarm_name(KILN_PEER_CLIENT, 0, name);
        for (uint32_t i = 0; i < b->keys.key.count; i++)
            if (strcmp(b->keys.key.data[i].node, name) == 0)
                kiln_vec_push(&one.key, b->keys.key.data[i]);
        need(kiln_keys_write(key, &one), "writing a key");
        kiln_keys_deinit(&one);
    }
    const char *mib = kiln_arena_printf(&b->arena, "%u", (unsigned)b->options.blob);
    const char *address = kiln_arena_printf(&b->arena, "127.0.0.1:%u", b->address.port);
    const char *argv[] = {b->options.mover,
                          "--tracker",
                          address,
                          "--home",
                          b->folder,
                          "--folder",
                          b->folder,
                          "--mib",
                          mib,
                          key ? "--key" : NULL,
                          key,
                          NULL};
    need(kiln_child_start(&(kiln_child_options){.argv = argv}, mover), "starting the mover");
    wait_for(b, is_moving, 0, "the blob was not made");
}

/* A blob up and down while all boards beat, and PINGs as without it. */
static void move_blob(bench *b) {
    kiln_child mover;
    kiln_str took;
    start_mover(b, &mover);
    ping_until(b, "moving", is_moved, 0);
    kiln_child_destroy(&mover);
    need(kiln_file_read(path(b, "moved"), 200, &b->arena, &took), "what it took");
    printf(",\"moved\":%s", took.data);
    const turns t = count_turns(b);
    printf(",\"hashed_bytes\":%.9g", t.hashed_bytes);
    if (t.hashed_bytes > 65536) fail("the tracker hashed a blob on its loop", NULL);
}

/* No turn of the loop takes 5 ms of CPU. One that was interrupted may: then the blob goes again. */
static void check_blob(bench *b) {
    double slow = 1;
    for (int tries = 0; slow > 0 && tries < 5; tries++) {
        const turns before = count_turns(b);
        move_blob(b);
        slow = count_turns(b).slow_cpu - before.slow_cpu;
    }
    if (slow > 0 && !KILN_SANITIZED_ADDRESS && !KILN_SANITIZED_THREAD)
        fail("turns of the loop take over 5 ms of CPU", NULL);
}

static void run_blob(bench *b) {
    uint64_t end_ns = kiln_clock_ns() + (uint64_t)(b->options.seconds * 1e9);
    wait_for(b, time_is_over, kiln_clock_ns() + 3 * KILN_NS_PER_S, "a pause");
    ping_until(b, "idle", time_is_over, end_ns + 3 * KILN_NS_PER_S);
    move_blob(b);
}

/* Before the storms. */
static void run_load(bench *b) {
    if (b->options.check) run_counted(b);
    if (b->options.check && b->options.blob) check_blob(b);
    if (!b->options.check && b->options.blob) run_blob(b);
    if (!b->options.check && !b->options.blob) run_loads(b);
}

static void run_bench(bench *b) {
    wait_for(b, all_opened, 0, "the jobs were not opened");
    uint64_t rss = tracker_rss(b), boards = b->options.boards;
    uint64_t begin = kiln_clock_ns();
    swarm_add_boards(b->swarm);
    wait_for(b, all_boards, 0, "the boards were not registered");
    printf("{\"event\":\"fleet\",\"boards\":%llu,\"tls\":%s,\"registered_s\":%.4g",
           (unsigned long long)boards, b->options.tls ? "true" : "false",
           (double)(kiln_clock_ns() - begin) / 1e9);
    wait_for(b, time_is_over, kiln_clock_ns() + KILN_NS_PER_S, "a second");
    uint64_t after = tracker_rss(b);
    run_load(b);
    printf(",\"rss_bytes\":%llu,\"rss_loaded_bytes\":%llu,\"connection_bytes\":%.6g",
           (unsigned long long)after, (unsigned long long)tracker_rss(b),
           after > rss ? (double)(after - rss) / (double)boards : 0.0);
    if (b->options.check || !b->options.blob) run_storms(b);
    const swarm_counts *counts = swarm_counted(b->swarm);
    printf(",\"refused\":%llu,\"lost\":%llu,\"breaches\":%llu}\n",
           (unsigned long long)counts->refused, (unsigned long long)counts->lost,
           (unsigned long long)counts->breaches);
    if (counts->breaches) fail("a board was leased twice, or a fence went back", NULL);
    if (b->options.check && counts->refused) fail("requests were refused", NULL);
}

/* ---- Life ---- */

/* As many connections as the machine allows; the tracker inherits it. */
static void raise_limits(const options *o) {
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    uint64_t wanted = o->boards + o->clients + o->tuners + 64;
    if (limit.rlim_cur < wanted)
        fprintf(stderr, "bench-fleet: %llu descriptors are wanted, %llu allowed (RLIMIT_NOFILE)\n",
                (unsigned long long)wanted, (unsigned long long)limit.rlim_cur);
}

static void set_up(bench *b) {
    kiln_arena_init(&b->arena, 0);
    raise_limits(&b->options);
    need(kiln_folder_create_temp("kiln-bench-fleet", &b->arena, &b->folder), "a folder");
    b->state = b->options.state ? kiln_arena_printf(&b->arena, "%s/kiln-bench-fleet-%d",
                                                    b->options.state, getpid())
                                : path(b, "tracker");
    need(kiln_loop_create(&b->loop), "the loop");
    swarm_options made_up = {.boards = (uint32_t)b->options.boards,
                             .tuners = (uint32_t)b->options.tuners,
                             .clients = (uint32_t)b->options.clients,
                             .seed = 1};
    if (b->options.tls) {
        write_keys(b);
        made_up.keys = &b->keys;
    }
    part_cores(b);
    start_tracker(b);
    made_up.address = b->address;
    if (!b->options.tls) need(kiln_token_read(b->folder, false, made_up.token), "the token");
    b->swarm = swarm_create(b->loop, &made_up);
}

static void tear_down(bench *b) {
    swarm_close(b->swarm);
    kiln_loop_destroy(b->loop);
    swarm_free(b->swarm);
    kiln_child_destroy(&b->tracker);
    kiln_keys_deinit(&b->keys);
    if (b->options.state) kiln_status_free(kiln_folder_remove(b->state));
    kiln_status_free(kiln_folder_remove(b->folder)); /* what is left is temporary */
    kiln_arena_deinit(&b->arena);
}

int main(int argc, char **argv) {
    bench b = {
        .options = {
            .boards = 2000, .clients = 200, .tuners = 8, .ahead = 512, .trials = 16, .seconds = 5}};
    options *o = &b.options;
    const kiln_opt option[] = {
        {"tracker", KILN_OPT_TEXT, &o->tracker, "PROGRAM", "the built kiln-tracker"},
        {"mover", KILN_OPT_TEXT, &o->mover, "PROGRAM", "the built bench-mover, with --blob"},
        {"blob", KILN_OPT_COUNT, &o->blob, "MIB",
         "in place of the loads: a blob of this size up and down, and what PINGs wait meanwhile"},
        {"state", KILN_OPT_TEXT, &o->state, "DIR",
         "where the tracker keeps leases (default $TMPDIR)"},
        {"boards", KILN_OPT_COUNT, &o->boards, "N", "boards (default 2000)"},
        {"clients", KILN_OPT_COUNT, &o->clients, "N", "clients, a job each (default 200)"},
        {"tuners", KILN_OPT_COUNT, &o->tuners, "N", "tuners (default 8)"},
        {"ahead", KILN_OPT_COUNT, &o->ahead, "N", "requests out at full load (default 512)"},
        {"trials", KILN_OPT_COUNT, &o->trials, "K", "trials to a lease (default 16)"},
        {"seconds", KILN_OPT_NUMBER, &o->seconds, "S", "length of each load (default 5)"},
        {"tls", KILN_OPT_FLAG, &o->tls, NULL, "over TLS, a key each; else in plain text"},
        {"check", KILN_OPT_FLAG, &o->check, NULL, "time nothing, only see that all is right"},
    };
    const kiln_opt_table table = {.usage = "bench-fleet --tracker PROGRAM [options]",
                                  .summary = "A fleet that is made up, through a real tracker.",
                                  .option = option,
                                  .option_count = KILN_ARRAY_COUNT(option)};
    kiln_arena scratch;
    kiln_args args;
    kiln_arena_init(&scratch, 0);
    need(kiln_opt_parse(&table, argc, argv, &scratch, &args), "options");
    if (o->blob && !o->mover) fail("--blob needs --mover PROGRAM", NULL);
    if (args.help || !o->tracker || !o->boards || !o->clients || !o->tuners || o->seconds <= 0)
        fail("--tracker PROGRAM, and at least one of each", NULL);
    set_up(&b);
    run_bench(&b);
    tear_down(&b);
    kiln_arena_deinit(&scratch);
    return 0;
}
