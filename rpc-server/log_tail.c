#include "rpc-server/log_tail.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/macros.h"

typedef struct reader {
    uint64_t number, since;
} reader;

struct kiln_log_tail {
    kiln_loop *loop;
    void (*send)(void *context, const kiln_message *message);
    void *context;
    reader waiting[KILN_LOG_TAIL_READERS_MAX];
    uint32_t waiting_count;
    /* Under the lock. */
    pthread_mutex_t lock;
    uint64_t newest; /* number of the last line; 0: none yet */
    uint16_t size[KILN_LOG_TAIL_LINES];
    char text[KILN_LOG_TAIL_LINES]
             [KILN_LOG_TAIL_LINE_BYTES]; /* line n at n % KILN_LOG_TAIL_LINES */
};

/* The lines after `since`, copied under the lock. */
typedef struct page {
    uint64_t newest;
    uint32_t count;
    kiln_msg_log_line line[KILN_MESSAGES_PAGE];
    char text[KILN_MESSAGES_PAGE][KILN_LOG_TAIL_LINE_BYTES];
} page;

static void read_page(kiln_log_tail *tail, uint64_t since, page *out) {
    pthread_mutex_lock(&tail->lock);
    out->newest = tail->newest;
    out->count = 0;
    const uint64_t oldest =
        tail->newest > KILN_LOG_TAIL_LINES ? tail->newest - KILN_LOG_TAIL_LINES : 0;
    if (since > tail->newest)
        since = 0; /* the reader's number is from an earlier run of this program */
    for (uint64_t n = KILN_MAX(since, oldest) + 1;
         n <= tail->newest && out->count < KILN_MESSAGES_PAGE; n++) {
        const size_t at = n % KILN_LOG_TAIL_LINES;
        char *text = out->text[out->count];
        memcpy(text, tail->text[at], tail->size[at]);
        out->line[out->count++] = (kiln_msg_log_line){n, {text, tail->size[at]}};
    }
    pthread_mutex_unlock(&tail->lock);
}

static void send_page(kiln_log_tail *tail, uint64_t number, page *lines) {
    kiln_message message = {.type = KILN_MSG_LINES,
                            .lines = {.newest = lines->newest, .reader = number}};
    message.lines.lines.item = lines->line;
    message.lines.lines.count = lines->count;
    tail->send(tail->context, &message);
}

/* Sends a page, unless it is empty and the reader waits. Returns whether it sent one. */
static bool answer(kiln_log_tail *tail, const reader *from, bool waits) {
    page *lines = kiln_alloc(sizeof *lines);
    read_page(tail, from->since, lines);
    const bool answers = lines->count > 0 || !waits;
    if (answers) send_page(tail, from->number, lines);
    kiln_free(lines);
    return answers;
}

static void forget_reader(kiln_log_tail *tail, uint64_t number) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < tail->waiting_count; i++)
        if (tail->waiting[i].number != number) tail->waiting[kept++] = tail->waiting[i];
    tail->waiting_count = kept;
}

void kiln_log_tail_ask(kiln_log_tail *tail, const kiln_msg_tail *question) {
    const reader from = {question->reader, question->since};
    forget_reader(tail, from.number);
    if (question->stop) return;
    const bool may_wait = question->follow && tail->waiting_count < KILN_LOG_TAIL_READERS_MAX;
    if (!answer(tail, &from, may_wait)) tail->waiting[tail->waiting_count++] = from;
}

/* There are new lines: answers the waiting readers, which ask again for more. */
static void on_wake(void *context) {
    kiln_log_tail *tail = context;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < tail->waiting_count; i++)
        if (!answer(tail, &tail->waiting[i], true)) tail->waiting[kept++] = tail->waiting[i];
    tail->waiting_count = kept;
}

/* Texts are UTF-8 on the wire, and a log may hold any bytes, so every byte beyond ASCII becomes a
 * question mark. */
void kiln_log_tail_put(void *context, kiln_str line) {
    kiln_log_tail *tail = context;
    pthread_mutex_lock(&tail->lock);
    const size_t at = ++tail->newest % KILN_LOG_TAIL_LINES;
    tail->size[at] = (uint16_t)KILN_MIN(line.size, (size_t)KILN_LOG_TAIL_LINE_BYTES);
    for (size_t i = 0; i < tail->size[at]; i++)
        tail->text[at][i] = (unsigned char)line.data[i] < 0x80 ? line.data[i] : '?';
    pthread_mutex_unlock(&tail->lock);
    kiln_loop_wake(tail->loop);
}

void kiln_log_tail_forget(kiln_log_tail *tail) { tail->waiting_count = 0; }

kiln_log_tail *kiln_log_tail_create(kiln_loop *loop,
                                    void (*send)(void *context, const kiln_message *message),
                                    void *context) {
    kiln_log_tail *tail = kiln_alloc(sizeof *tail);
    tail->loop = loop;
    tail->send = send;
    tail->context = context;
    pthread_mutex_init(&tail->lock, NULL);
    kiln_loop_on_wake(loop, on_wake, tail);
    return tail;
}

void kiln_log_tail_destroy(kiln_log_tail *tail) {
    if (!tail) return;
    pthread_mutex_destroy(&tail->lock);
    kiln_free(tail);
}
