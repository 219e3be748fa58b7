/* An application in C99 that knows nothing of Kiln but its header: tunes the model argv[1] for a
 * few measurements into the module argv[2], in one thread, and for very many in another, which a
 * third cancels. Prints what it heard. */
#include <kiln/kiln.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct work {
    kiln_request *request;
    const kiln_request_setting *settings;
    const char *model;
    unsigned results, most; /* measurements of the first task */
    int cancels;            /* once something was measured */
    int code;
    char error[256];
} work;

static void heard(void *context, kiln_request *request, const kiln_request_event *event) {
    work *w = context;
    if (event->kind == KILN_REQUEST_RESULT) w->results++;
    if (event->kind != KILN_REQUEST_PROGRESS) return;
    if (kiln_request_task_count(request) > 0) w->most = kiln_request_task_at(request, 0)->done;
}

static void *cancel(void *request) {
    kiln_request_cancel(request);
    return NULL;
}

static void *run(void *context) {
    work *w = context;
    kiln_request_options options = {
        sizeof options, KILN_REQUEST_TUNE, NULL, NULL, heard, NULL, NULL, 0};
    pthread_t other;
    int ended = 0, has_other = 0;
    options.subject = w->model;
    options.settings = w->settings;
    options.context = w;
    w->code = kiln_request_start(&options, &w->request, w->error, sizeof w->error);
    while (!w->code && !ended) {
        w->code = kiln_request_wait(w->request, 1000, &ended, w->error, sizeof w->error);
        if (w->cancels && w->most > 0 && !has_other)
            has_other = pthread_create(&other, NULL, cancel, w->request) == 0;
    }
    if (has_other) pthread_join(other, NULL);
    return NULL;
}

int main(int argc, char **argv) {
    const kiln_request_setting few[] = {{"trials", "4"}, {"db", argv[3]}, {"out", argv[2]}, {0}};
    const kiln_request_setting many[] = {{"trials", "100000"}, {"db", argv[4]}, {0}};
    const kiln_request_setting wrong[] = {{"trails", "4"}, {0}};
    work works[3];
    pthread_t thread[3];
    int i;
    if (argc != 5) return 99;
    memset(works, 0, sizeof works);
    works[0].settings = few;
    works[1].settings = many;
    works[1].cancels = 1;
    works[2].settings = wrong;
    for (i = 0; i < 3; i++) {
        works[i].model = argv[1];
        if (pthread_create(&thread[i], NULL, run, &works[i]) != 0) return 99;
    }
    for (i = 0; i < 3; i++) pthread_join(thread[i], NULL);
    printf("%d %s\n%u results, %u measured\n", works[0].code, works[0].error, works[0].results,
           works[0].most);
    printf("%d %s\n%s\n", works[1].code, works[1].error, works[1].most < 100000 ? "fewer" : "all");
    printf("%d %s\n", works[2].code, works[2].error);
    for (i = 0; i < 3; i++) kiln_request_free(works[i].request);
    return 0;
}
