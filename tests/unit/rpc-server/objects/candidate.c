/* Candidates: input x, constant w, output y, packed p, all f32 [count]. prepare: p = 2 w. run: y =
 * x * p, a few times over so that a run takes a measurable time. FAULT picks what one of them does
 * besides. */
#include "base/kernel_abi.h"
#include "deploy/runtime/pages.h"

#define ROUNDS 8

typedef struct job {
    const float *x;
    float *p, *y;
    int64_t count;
    const kiln_kernel_services *services;
} job;

int32_t kiln_prepare(kiln_kernel_tensor *const *args, const kiln_kernel_services *services);
int32_t kiln_run(kiln_kernel_tensor *const *args, const kiln_kernel_services *services);

/* System calls without a C library, as a hostile object would make them. For other processors only
 * candidates are compiled that make none. */
#if defined(__x86_64__)
static inline long call_system(long number, long a, long b, long c, long d, long e, long f) {
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}
#else
long call_system(long number, long a, long b, long c, long d, long e, long f);
#endif

static inline void work(const job *j, int64_t count) {
    for (int round = 0; round < ROUNDS; round++) {
        for (int64_t i = 0; i < count; i++) j->y[i] = j->x[i] * j->p[i];
        __asm__ volatile("" ::: "memory"); /* else one round would do */
    }
}

static inline int32_t honest(const job *j) {
    work(j, j->count);
    return 0;
}

static int32_t one_share(void *context, int64_t begin, int64_t end, int32_t worker) {
    const job *whole = context;
    (void)worker;
    work(&(job){whole->x + begin, whole->p + begin, whole->y + begin, 0, 0}, end - begin);
    return 0;
}

static inline int32_t shares_its_work(const job *j) {
    return j->services->parallel_for(j->services->host, j->count, one_share, (void *)j);
}

static inline int32_t loops_for_ever(const job *j) {
    (void)j;
    for (volatile int forever = 1; forever;) {}
    return 0;
}

static inline int32_t reads_nothing(const job *j) {
    return (int32_t)*(volatile float *)(j->count - j->count);
}

static inline int32_t illegal_instruction(const job *j) {
    (void)j;
    __builtin_trap();
    return 0;
}

static inline int32_t starts_a_process(const job *j) {
    for (int i = 0; i < 1000; i++) call_system(57, 0, 0, 0, 0, 0, 0); /* fork */
    return honest(j);
}

static inline int32_t fills_memory(const job *j) {
    for (;;) { /* mmap, anonymous and populated */
        long at = call_system(9, 0, 64 << 20, 3, 0x8022, -1, 0);
        if (at < 0 && at > -4096) break;
    }
    return honest(j);
}

static inline float deeper(volatile float *from, int64_t depth) {
    volatile float here[4096];
    here[depth % 4096] = *from;
    return depth == 0 ? here[0] : deeper(here, depth - 1) + here[1];
}

static inline int32_t fills_the_stack(const job *j) {
    volatile float seed = j->x[0];
    j->y[0] = deeper(&seed, 1 << 20);
    return honest(j);
}

static inline int32_t opens_a_file(const job *j) {
    const char path[] = {'/', 't', 'm', 'p', '/', 'k', 'i', 'l', 'n', 0};
    call_system(2, (long)path, 0102, 0666, 0, 0, 0); /* open, O_CREAT | O_RDWR */
    return honest(j);
}

static inline int32_t opens_a_socket(const job *j) {
    call_system(41, 2, 1, 0, 0, 0, 0);
    return honest(j);
}

static inline int32_t executes_a_program(const job *j) {
    const char path[] = {'/', 'b', 'i', 'n', '/', 's', 'h', 0};
    call_system(59, (long)path, 0, 0, 0, 0, 0);
    return honest(j);
}

static inline int32_t kills_its_parent(const job *j) {
    call_system(62, call_system(110, 0, 0, 0, 0, 0, 0), 9, 0, 0, 0,
                0); /* kill(getppid(), SIGKILL) */
    return honest(j);
}

/* What lies above the first frame of a process: argv, NULL, envp, NULL, pairs of numbers that end
 * with 0, and the texts, of which the program's name is the last. Found by the pair of AT_PAGESZ.
 */
static inline int finds_an_environment(void) {
    const unsigned long *at = __builtin_frame_address(0);
    while (!(at[0] == 6 && (at[1] == 4096 || at[1] == 16384 || at[1] == 65536) && at[2] < 64 &&
             at[-2] < 64))
        at++;
    const unsigned long *pair = at;
    while (pair[-2] > 0 && pair[-2] < 64) pair -= 2; /* the first; before it envp ends */
    if (pair[-2] != 0) return 1;
    const char *text = 0;
    for (; pair[0]; pair += 2)
        if (pair[0] == 31) text = (const char *)pair[1]; /* AT_EXECFN */
    const char *end = text;
    while (*end) end++;
    for (const char *from = (const char *)(pair + 2); from < end; from++)
        if (from[0] == 'h' && from[1] == 'u' && from[2] == 'n' && from[3] == 't' &&
            from[4] == 'e' && from[5] == 'r' && from[6] == '2')
            return 1;
    return 0;
}

static inline int32_t reads_its_environment(const job *j) {
    honest(j);
    if (finds_an_environment()) j->y[0] += 1; /* as if it told what it found */
    return 0;
}

static inline int32_t reads_descriptors(const job *j) {
    char found[64];
    for (int fd = 1; fd < 64; fd++)
        call_system(17, fd, (long)found, sizeof found, 0, 0, 0); /* pread64 */
    return honest(j);
}

static inline int32_t reads_proc(const job *j) {
    const char path[] = {'/', 'p', 'r', 'o', 'c', '/', '1', '/',
                         'e', 'n', 'v', 'i', 'r', 'o', 'n', 0};
    call_system(257, -100, (long)path, 0, 0, 0, 0); /* openat */
    return honest(j);
}

static inline int32_t reads_its_parents_memory(const job *j) {
    char found[64];
    const void *here[] = {found, (void *)sizeof found}, *there[] = {j->x, (void *)sizeof found};
    call_system(310, 1, (long)here, 1, (long)there, 1, 0); /* process_vm_readv */
    return honest(j);
}

static inline int32_t traces_its_parent(const job *j) {
    call_system(101, 16, 1, 0, 0, 0, 0); /* ptrace(PTRACE_ATTACH, 1) */
    return honest(j);
}

static inline int32_t takes_a_descriptor(const job *j) {
    call_system(438, call_system(434, 1, 0, 0, 0, 0, 0), 0, 0, 0, 0,
                0); /* pidfd_getfd(pidfd_open) */
    return honest(j);
}

static inline int32_t asks_the_kernel(const job *j) {
    char found[64];
    call_system(157, 39, (long)found, 0, 0, 0, 0); /* prctl(PR_GET_...) */
    return honest(j);
}

static inline int32_t aborts(const job *j) {
    long self = call_system(39, 0, 0, 0, 0, 0, 0);
    call_system(62, self, 6, 0, 0, 0, 0); /* kill(getpid(), SIGABRT) */
    return honest(j);
}

static inline int32_t stops_everybody(const job *j) {
    call_system(62, -1, 19, 0, 0, 0, 0); /* kill(-1, SIGSTOP) */
    return honest(j);
}

static inline int32_t kills_its_group(const job *j) {
    call_system(62, 0, 9, 0, 0, 0, 0);
    return honest(j);
}

static inline int32_t leaves_its_session(const job *j) {
    call_system(112, 0, 0, 0, 0, 0, 0); /* setsid */
    return honest(j);
}

/* Each child starts children of its own, in a session of its own. */
static inline int32_t is_a_fork_bomb(const job *j) {
    for (;;) {
        if (call_system(57, 0, 0, 0, 0, 0, 0) == 0) call_system(112, 0, 0, 0, 0, 0, 0);
    }
    return honest(j);
}

static inline int32_t closes_descriptors(const job *j) {
    call_system(436, 0, ~0U, 0, 0, 0, 0); /* close_range */
    return honest(j);
}

static inline int32_t fills_the_disk(const job *j) {
    const char path[] = {'f', 'u', 'l', 'l', 0};
    long file = call_system(2, (long)path, 0101, 0600, 0, 0, 0);
    while (call_system(1, file, (long)j->x, 4096, 0, 0, 0) > 0) {}
    return honest(j);
}

static inline int32_t catches_signals(const job *j) {
    long action[4] = {1, 0, 0, 0}; /* SIG_IGN */
    call_system(13, 11, (long)action, 0, 8, 0, 0);
    return honest(j);
}

static inline int32_t makes_code(const job *j) {
    call_system(10, (long)j->y & -4096L, 4096, 7, 0, 0, 0); /* mprotect, to write and execute */
    return honest(j);
}

static inline int32_t lowers_its_guard(const job *j) {
    call_system(157, 1, 0, 0, 0, 0, 0); /* prctl(PR_SET_PDEATHSIG, 0) */
    return honest(j);
}

static inline int32_t divides_by_zero(const job *j) {
    volatile int64_t zero = j->count - j->count;
    return (int32_t)(j->count / zero);
}

/* Waits for a wake-up that never comes, and takes no processor time meanwhile. */
static inline int32_t sleeps_for_ever(const job *j) {
    int word = 0;
    for (;;) call_system(202, (long)&word, 0, 0, 0, 0, 0); /* futex */
    return honest(j);
}

static int32_t spin(void *context, int64_t begin, int64_t end, int32_t worker) {
    (void)context, (void)begin, (void)end, (void)worker;
    for (volatile int forever = 1; forever;) {}
    return 0;
}

static inline int32_t loops_in_all_threads(const job *j) {
    return j->services->parallel_for(j->services->host, 2, spin, 0);
}

static inline int32_t jumps_into_nothing(const job *j) {
    ((void (*)(void))(j->count - j->count))();
    return 0;
}

static inline int32_t jumps_into_its_data(const job *j) {
    ((void (*)(void))j->y)();
    return 0;
}

static inline int32_t ends_early(const job *j) {
    (void)j;
    call_system(231, 0, 0, 0, 0, 0, 0); /* exit_group(0): as if all had gone well */
    return 0;
}

static inline int32_t writes_after(const job *j) {
    work(j, j->count + 64);
    return 0;
}

static inline int32_t writes_before(const job *j) {
    work(j, j->count);
    for (int64_t i = 1; i <= 2048; i++) j->y[-i] = 0;
    return 0;
}

/* Only as far as alignment leaves room before the guard page. */
static inline int32_t writes_beside(const job *j) {
    work(j, j->count + 1);
    return 0;
}

static inline int32_t writes_its_input(const job *j) {
    work(j, j->count);
    ((float *)j->x)[0] = 0;
    return 0;
}

static inline int32_t half_of_it(const job *j) {
    work(j, j->count / 2);
    return 0;
}

/* Knows the first check by its poison. */
static inline int32_t right_once(const job *j) {
    int first = *(const unsigned short *)j->y == KILN_POISON_FIRST;
    work(j, j->count);
    if (!first) j->y[j->count - 1] += 1;
    return 0;
}

static inline int32_t skips_when_done(const job *j) {
    if (j->y[0] == j->x[0] * j->p[0]) return 0;
    return honest(j);
}

static inline int32_t says_it_failed(const job *j) {
    honest(j);
    return 7;
}

/* The report of a child that is done, as far as one can know it from outside. */
static inline int32_t forges_a_report(const job *j) {
    unsigned note[2300] = {0x31444c4b, 4, 5};
    call_system(44, 0, (long)note, 8752, 0x4000, 0, 0);
    call_system(231, 0, 0, 0, 0, 0, 0);
    return honest(j);
}

static inline int32_t floods_its_parent(const job *j) {
    for (;;) call_system(44, 0, (long)j->x, 4096, 0x4000, 0, 0);
    return 0;
}

static inline int32_t is_impossibly_fast(const job *j) {
    return honest(j); /* the manifest claims more work than it does */
}

static inline int32_t slightly_wrong(const job *j) {
    work(j, j->count);
    j->y[7] *= 1.001f;
    return 0;
}

static inline int32_t loops_in_prepare(const job *j) { return honest(j); }

int32_t kiln_prepare(kiln_kernel_tensor *const *args, const kiln_kernel_services *services) {
    const float *w = args[1]->data;
    float *p = args[3]->data;
    (void)services;
    const job j = {.count = args[0]->shape[0]};
    if ((void *)FAULT == (void *)loops_in_prepare) loops_for_ever(&j);
    for (int64_t i = 0; i < args[1]->shape[0]; i++) p[i] = 2 * w[i];
    return 0;
}

int32_t kiln_run(kiln_kernel_tensor *const *args, const kiln_kernel_services *services) {
    const job j = {args[0]->data, args[3]->data, args[2]->data, args[0]->shape[0], services};
    return FAULT(&j);
}
