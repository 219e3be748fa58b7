/* An application in C99 that knows nothing of Kiln but its header: runs the module argv[1] in two
 * threads at once, each with a handle of its own and each way of passing tensors, and prints what
 * they agree on. */
#include <kiln/kiln.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct job {
    const char *path;
    int bound; /* tensors instead of pointers */
    unsigned steps;
    float first;
    int failed;
} job;

static void count_step(void *context, uint32_t step, int done) {
    (void)step;
    *(unsigned *)context += done ? 1 : 0;
}

static int call(kiln_module *module, int bound, void *const *in, void *const *out) {
    kiln_module_tensor tensor[16];
    const kiln_module_tensor *inputs[8], *outputs[8];
    uint32_t i, inputs_count = kiln_module_input_count(module);
    if (!bound) return kiln_module_run(module, (const void *const *)in, out);
    for (i = 0; i < inputs_count; i++) {
        tensor[i] = kiln_module_tensor_at(kiln_module_input(module, i), 1, 0, in[i]);
        inputs[i] = &tensor[i];
    }
    for (i = 0; i < kiln_module_output_count(module); i++) {
        tensor[8 + i] = kiln_module_tensor_at(kiln_module_output(module, i), 1, 0, out[i]);
        outputs[i] = &tensor[8 + i];
    }
    return kiln_module_run_tensors(module, inputs, outputs);
}

static void *run(void *context) {
    job *j = context;
    kiln_module *module = NULL;
    char error[KILN_MODULE_ERROR_BYTES] = "";
    void *in[8], *out[8];
    uint32_t i;
    j->failed = kiln_module_open(j->path, NULL, &module, error, sizeof error);
    if (j->failed) {
        fprintf(stderr, "app: %d: %s\n", j->failed, error);
        return NULL;
    }
    for (i = 0; i < kiln_module_input_count(module); i++)
        in[i] = calloc(1, kiln_module_input(module, i)->size_bytes);
    for (i = 0; i < kiln_module_output_count(module); i++)
        out[i] = malloc(kiln_module_output(module, i)->size_bytes);
    kiln_module_set_hook(module, count_step, &j->steps);
    j->failed = call(module, j->bound, in, out);
    if (j->failed) fprintf(stderr, "app: %d: %s\n", j->failed, kiln_module_error(module));
    memcpy(&j->first, out[0], sizeof j->first);
    for (i = 0; i < kiln_module_input_count(module); i++) free(in[i]);
    for (i = 0; i < kiln_module_output_count(module); i++) free(out[i]);
    kiln_module_close(module);
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t thread[2];
    job jobs[2];
    int i;
    if (argc != 2) return 99;
    memset(jobs, 0, sizeof jobs);
    for (i = 0; i < 2; i++) {
        jobs[i].path = argv[1];
        jobs[i].bound = i;
        if (pthread_create(&thread[i], NULL, run, &jobs[i]) != 0) return 99;
    }
    for (i = 0; i < 2; i++) pthread_join(thread[i], NULL);
    if (jobs[0].failed) return jobs[0].failed;
    printf("kiln %s of header %d.%d.%d\n", kiln_version(), KILN_VERSION_MAJOR, KILN_VERSION_MINOR,
           KILN_VERSION_PATCH);
    printf("%u %u steps, %g %g\n", jobs[0].steps, jobs[1].steps, (double)jobs[0].first,
           (double)jobs[1].first);
    return jobs[1].failed;
}
