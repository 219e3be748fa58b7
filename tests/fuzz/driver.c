/* main of every fuzz program: fuzz-NAME [--seconds S] [--runs N] [--seed N] [--corpus FOLDER]
 * [FILE...]
 *
 * Files are run once each. Else the corpus is replayed, then mutated until the time or the number
 * of runs is up. An input that kills the process is written to a file first, and the line that runs
 * it again is printed. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/macros.h"
#include "base/opt.h"
#include "base/rand.h"
#include "base/vec.h"
#include "tests/fuzz/fuzz.h"

#define INPUT_BYTES_MAX ((size_t)1 << 16)
#define CORPUS_MAX 20000
#define HANG_SECONDS 20 /* for one input, sanitizers included */
#define EDGE_COUNT (1u << 16)

typedef struct input {
    uint8_t *data;
    size_t size;
} input;

/* A signal handler and the coverage callback can be told nothing by parameter. */
static input current;
static const char *program = "fuzz";
static uint8_t edge_seen[EDGE_COUNT];
static uint32_t new_edges;
static uintptr_t edge_before;

/* Called by code that was built with -fsanitize-coverage=trace-pc, at each edge. */
void __sanitizer_cov_trace_pc(void);
KILN_NO_COVERAGE void __sanitizer_cov_trace_pc(void) {
    uintptr_t here = (uintptr_t)__builtin_return_address(0);
    uint32_t edge = (uint32_t)((here ^ edge_before * 3) % EDGE_COUNT);
    edge_before = here;
    if (edge_seen[edge]) return;
    edge_seen[edge] = 1;
    new_edges++;
}

/* Sanitizers end in abort, so that the handler below sees them. They ask before they are set up
 * themselves, so nothing instrumented may run here. */
const char *__asan_default_options(void);
KILN_NO_COVERAGE const char *__asan_default_options(void) {
    return "abort_on_error=1:allocator_may_return_null=0:detect_leaks=1";
}
const char *__ubsan_default_options(void);
KILN_NO_COVERAGE const char *__ubsan_default_options(void) {
    return "abort_on_error=1:print_stacktrace=1";
}

static void on_death(int signal_number) {
    char name[64], line[256];
    signal(signal_number, SIG_DFL);
    snprintf(name, sizeof name, "crash-%d.bin", (int)getpid());
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ssize_t ignored = write(fd, current.data, current.size);
    int size =
        snprintf(line, sizeof line, "%s: signal %d%s\n  again: %s %s\n", program, signal_number,
                 signal_number == SIGALRM ? " (it hangs)" : "", program, name);
    ignored += write(STDERR_FILENO, line, (size_t)size);
    (void)ignored; /* dying anyway */
    raise(signal_number);
}

static void run_one(const uint8_t *data, size_t size) {
    /* An exact heap copy, so that the sanitizer sees the first byte beyond. */
    current = (input){kiln_realloc(NULL, size), size};
    if (size) memcpy(current.data, data, size);
    alarm(HANG_SECONDS);
    edge_before = 0;
    kiln_fuzz_one(current.data, size);
    alarm(0);
    kiln_free(current.data);
    current = (input){0};
}

typedef KILN_VEC(input) corpus;

static void corpus_add(corpus *c, const uint8_t *data, size_t size) {
    if (c->count >= CORPUS_MAX) return;
    uint8_t *copy = kiln_realloc(NULL, size);
    if (size) memcpy(copy, data, size);
    kiln_vec_push(c, ((input){copy, size}));
}

static void corpus_deinit(corpus *c) {
    for (uint32_t i = 0; i < c->count; i++) kiln_free(c->data[i].data);
    kiln_vec_deinit(c);
}

static kiln_status corpus_read(corpus *c, const char *folder) {
    kiln_arena arena = {0};
    char **name = NULL;
    size_t count = 0;
    kiln_status st = kiln_folder_list(folder, &arena, &name, &count);
    for (size_t i = 0; i < count && !st; i++) {
        kiln_str content;
        st = kiln_file_read(kiln_arena_printf(&arena, "%s/%s", folder, name[i]), INPUT_BYTES_MAX,
                            &arena, &content);
        if (!st) corpus_add(c, (const uint8_t *)content.data, content.size);
    }
    kiln_arena_deinit(&arena);
    return st;
}

static void put_number(kiln_rand *r, uint8_t *at, size_t bytes) {
    static const uint64_t interesting[] = {0,     1,         2,          7,         8,    16,
                                           127,   128,       255,        256,       1024, 65535,
                                           65536, INT32_MAX, UINT32_MAX, UINT64_MAX};
    uint64_t value = kiln_rand_below(r, 2)
                         ? interesting[kiln_rand_below(r, KILN_ARRAY_COUNT(interesting))]
                         : kiln_rand_u64(r);
    bool big_endian = kiln_rand_below(r, 2);
    for (size_t i = 0; i < bytes; i++)
        at[big_endian ? bytes - 1 - i : i] = (uint8_t)(value >> (8 * i));
}

/* Replaces [at, at + cut) of the input by `size` bytes of `data`, within INPUT_BYTES_MAX. */
static void replace_part(input *in, size_t at, size_t cut, const uint8_t *data, size_t size) {
    size = KILN_MIN(size, INPUT_BYTES_MAX - (in->size - cut));
    memmove(in->data + at + size, in->data + at + cut, in->size - at - cut);
    if (size) memmove(in->data + at, data, size);
    in->size += size - cut;
}

/* One random change. `in->data` has room for INPUT_BYTES_MAX. */
static void mutate(kiln_rand *r, input *in, const input *other) {
    size_t at = (size_t)kiln_rand_below(r, in->size + 1), left = in->size - at;
    size_t length = (size_t)kiln_rand_below(r, KILN_MIN(left, (size_t)16) + 1);
    switch (kiln_rand_below(r, 7)) {
    case 0:
        if (left) in->data[at] ^= (uint8_t)(1u << kiln_rand_below(r, 8));
        break;
    case 1:
        if (left) in->data[at] = (uint8_t)kiln_rand_u64(r);
        break;
    case 2: put_number(r, in->data + at, KILN_MIN(left, (size_t)1 << kiln_rand_below(r, 4))); break;
    case 3: replace_part(in, at, length, NULL, 0); break;
    case 4: {
        uint8_t fresh[16];
        for (size_t i = 0; i < sizeof fresh; i++) fresh[i] = (uint8_t)kiln_rand_u64(r);
        replace_part(in, at, 0, fresh, 1 + (size_t)kiln_rand_below(r, sizeof fresh));
        break;
    }
    case 5: {
        size_t from = (size_t)kiln_rand_below(r, other->size + 1);
        replace_part(in, at, length, other->data + from,
                     (size_t)kiln_rand_below(r, other->size - from + 1));
        break;
    }
    default: in->size = kiln_rand_below(r, 4) ? in->size : at; /* a truncation, seldom */
    }
}

static uint64_t fuzz(corpus *c, uint64_t seed, uint64_t runs, double seconds) {
    kiln_rand r;
    kiln_rand_init(&r, seed);
    uint64_t done = 0, begin_ns = kiln_clock_ns();
    uint8_t *room = kiln_alloc(INPUT_BYTES_MAX);
    if (c->count == 0) corpus_add(c, NULL, 0);
    while (done < runs && (double)(kiln_clock_ns() - begin_ns) < seconds * 1e9) {
        const input *from = &c->data[kiln_rand_below(&r, c->count)],
                    *other = &c->data[kiln_rand_below(&r, c->count)];
        input in = {room, from->size};
        if (from->size) memcpy(room, from->data, from->size);
        for (uint64_t changes = 1 + kiln_rand_below(&r, 8); changes > 0; changes--)
            mutate(&r, &in, other);
        uint32_t edges_before = new_edges;
        run_one(in.data, in.size);
        if (new_edges > edges_before) corpus_add(c, in.data, in.size);
        done++;
    }
    kiln_free(room);
    return done;
}

static void catch_deaths(void) {
    static const int signals[] = {SIGABRT, SIGALRM, SIGFPE, SIGILL, SIGTRAP};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(signals); i++) signal(signals[i], on_death);
#ifndef __SANITIZE_ADDRESS__ /* which reports these itself, then aborts */
    signal(SIGSEGV, on_death);
    signal(SIGBUS, on_death);
#endif
}

static kiln_status run(int argc, char **argv, kiln_arena *arena) {
    uint64_t seed = 1, runs = UINT64_MAX;
    double seconds = 0;
    const char *folder = NULL;
    kiln_args args;
    const kiln_opt option[] = {
        {"seconds", KILN_OPT_NUMBER, &seconds, "S", "Ends after S seconds."},
        {"runs", KILN_OPT_COUNT, &runs, "N", "Ends after N mutated inputs."},
        {"seed", KILN_OPT_COUNT, &seed, "N", "Same seed, same inputs (without coverage)."},
        {"corpus", KILN_OPT_TEXT, &folder, "FOLDER", "Starts from the files in it."},
    };
    const kiln_opt_table table = {"fuzz-NAME [options] [FILE...]",
                                  "Feeds a parser with bytes that it does not expect.",
                                  option,
                                  KILN_ARRAY_COUNT(option),
                                  0,
                                  1000};
    kiln_status st = kiln_opt_parse(&table, argc, argv, arena, &args);
    if (st || args.help) return st;
    corpus c = {0};
    if (folder && kiln_file_is_folder(folder)) st = corpus_read(&c, folder);
    for (size_t i = 0; i < args.count && !st; i++) {
        kiln_str content;
        st = kiln_file_read(args.positional[i], INPUT_BYTES_MAX, arena, &content);
        if (!st) corpus_add(&c, (const uint8_t *)content.data, content.size);
    }
    uint32_t replayed = c.count;
    for (uint32_t i = 0; i < replayed && !st; i++) run_one(c.data[i].data, c.data[i].size);
    if (seconds == 0 && runs != UINT64_MAX) seconds = 1e9;
    uint64_t done = st || args.count ? 0 : fuzz(&c, seed, runs, seconds);
    printf("%s: %u from the corpus, %llu mutated, %u edges, seed %llu\n", program, replayed,
           (unsigned long long)done, new_edges, (unsigned long long)seed);
    corpus_deinit(&c);
    return st;
}

int main(int argc, char **argv) {
    kiln_arena arena = {0};
    program = argv[0];
    catch_deaths();
    kiln_status st = run(argc, argv, &arena);
    int code = kiln_code_exit(kiln_status_code(st));
    if (st) fprintf(stderr, "%s: %s\n", program, kiln_status_text(st));
    kiln_status_free(st);
    kiln_arena_deinit(&arena);
    return code;
}
