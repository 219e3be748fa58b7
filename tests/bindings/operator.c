/* An application with an operator of its own: prints it and a schedule of it, checks what both
 * compute, and writes the model argv[1] and the schedule argv[2]. */
#include <kiln/kiln.h>

#include <stdio.h>
#include <string.h>

enum { ROWS = 6, STEPS = 5, COLUMNS = 32 };

static char error[KILN_MODULE_ERROR_BYTES];

static int fail(int code) {
    fprintf(stderr, "operator: %d: %s\n", code, error);
    return code;
}

/* What is wrong is said, and changes nothing. */
static void refused(int code) { printf("%d %s\n", code, error); }

static int write_file(const char *path, const void *data, size_t bytes) {
    FILE *file = fopen(path, "wb");
    size_t written = file ? fwrite(data, 1, bytes, file) : 0;
    return file && fclose(file) == 0 && written == bytes ? 0 : 1;
}

static int write_model(kiln_operator *op, const char *path) {
    const void *data;
    size_t bytes;
    int code = kiln_operator_model(op, &data, &bytes, error, sizeof error);
    return code ? fail(code) : write_file(path, data, bytes);
}

static int write_schedule(const kiln_schedule *schedule, const char *path) {
    char text[4096];
    int bytes = snprintf(text, sizeof text, "task %s\n%s", kiln_schedule_task(schedule),
                         kiln_schedule_trace(schedule));
    return write_file(path, text, (size_t)bytes);
}

static int write_operator(kiln_operator **out_operator) {
    const float bias[COLUMNS] = {1};
    kiln_operator *op;
    int code = kiln_operator_create("maxplus", &op, error, sizeof error);
    if (code) return code;
    *out_operator = op;
    code = kiln_operator_add(op,
                             "input a: f32[6,5]\n"
                             "input b: f32[5,32]\n"
                             "constant bias: f32[32]\n"
                             "temp t: f32[6,32]\n"
                             "output c: f32[6,32]\n"
                             "block t(i:6, j:32 | k:5): t[i, j] max= a[i, k] + b[k, j]\n"
                             "block c(i:6, j:32): c[i, j] = t[i, j] + bias[j]\n",
                             error, sizeof error);
    if (!code)
        code = kiln_operator_set_constant(op, "bias", bias, sizeof bias, error, sizeof error);
    return code;
}

/* Compares with loops of C. */
static int differs(const float *a, const float *b, const float *c) {
    int i, j, k;
    for (i = 0; i < ROWS; i++)
        for (j = 0; j < COLUMNS; j++) {
            float most = a[i * STEPS] + b[j];
            for (k = 1; k < STEPS; k++)
                if (a[i * STEPS + k] + b[k * COLUMNS + j] > most)
                    most = a[i * STEPS + k] + b[k * COLUMNS + j];
            if (c[i * COLUMNS + j] != most + (j == 0 ? 1.0f : 0.0f)) return 1;
        }
    return 0;
}

static int run(kiln_operator *op, kiln_schedule *schedule) {
    float a[ROWS * STEPS], b[STEPS * COLUMNS], c[ROWS * COLUMNS];
    const void *inputs[2];
    void *outputs[1];
    int i, code;
    for (i = 0; i < ROWS * STEPS; i++) a[i] = (float)(i * 7 % 11);
    for (i = 0; i < STEPS * COLUMNS; i++) b[i] = (float)(i * 5 % 13);
    inputs[0] = a;
    inputs[1] = b;
    outputs[0] = c;
    code = kiln_operator_run(op, inputs, outputs, error, sizeof error);
    if (code) return code;
    printf("operator %s\n", differs(a, b, c) ? "differs" : "agrees");
    memset(c, 0, sizeof c);
    code = kiln_schedule_run(schedule, inputs, outputs, error, sizeof error);
    if (code) return code;
    printf("schedule %s\n", differs(a, b, c) ? "differs" : "agrees");
    return 0;
}

/* A recurrence of four steps: each is clamped to what the next one begins with. */
static int repeat(void) {
    const float first[1] = {1}, x[4] = {2, 3, 0.5f, 4};
    float last[1], each[4];
    const void *inputs[2];
    void *outputs[2];
    kiln_operator *op = NULL;
    int i, code = kiln_operator_create("product", &op, error, sizeof error);
    inputs[0] = first;
    inputs[1] = x;
    outputs[0] = last;
    outputs[1] = each;
    if (!code)
        code = kiln_operator_add(op,
                                 "input s: f32[1]\ninput x: f32[1]\noutput n: f32[1]\n"
                                 "block n(i:1): n[i] = min(s[i]*x[i], 5.0)\n"
                                 "output each: f32[1]\nblock each(i:1): each[i] = n[i]\n",
                                 error, sizeof error);
    if (!code) {
        refused(kiln_operator_repeat(op, 4, 2, 1, error, sizeof error));
        code = kiln_operator_repeat(op, 4, 1, 1, error, sizeof error);
    }
    if (!code) code = kiln_operator_run(op, inputs, outputs, error, sizeof error);
    if (!code) {
        printf("%lu bytes:", (unsigned long)kiln_operator_tensor(op, 1, 1)->size_bytes);
        for (i = 0; i < 4; i++) printf(" %g", each[i]);
        printf(", at last %g\n", last[0]);
    }
    kiln_operator_destroy(op);
    return code;
}

static int schedule_it(kiln_schedule *schedule) {
    kiln_names made;
    uint32_t i;
    int code = kiln_schedule_apply(schedule, "reverse_compute_at(c, t.i)\nsplit(t.j, -1, 16)",
                                   error, sizeof error);
    if (code) return code;
    made = kiln_schedule_made(schedule, KILN_SCHEDULE_LOOPS);
    for (i = 0; i < made.count; i++) printf("%s ", made.name[i]);
    made = kiln_schedule_loops_around(schedule, "t");
    printf("in %u loops, a is %s, t is %s, %s\n", made.count, kiln_schedule_tensor(schedule, "a"),
           kiln_schedule_tensor(schedule, "t"),
           kiln_schedule_tensor(schedule, "no") ? "no is there" : "no is not there");
    refused(kiln_schedule_apply(schedule, "parallel(t.i)\nparallel(t.k)", error, sizeof error));
    refused(kiln_schedule_apply(schedule, "paralel(t.i)", error, sizeof error));
    return kiln_schedule_apply(schedule, "reorder(t.j.0, t.k, t.j.1)\nvectorize(t.j.1)", error,
                               sizeof error);
}

int main(int argc, char **argv) {
    kiln_operator *op = NULL;
    kiln_schedule *schedule = NULL;
    int code = argc == 3 ? write_operator(&op) : 2;
    if (code) return fail(code);
    printf("%s", kiln_operator_text(op));
    printf("%u inputs, the second %s of %lu bytes\n",
           kiln_operator_tensor_count(op, KILN_OPERATOR_INPUT),
           kiln_operator_tensor(op, KILN_OPERATOR_INPUT, 1)->name,
           (unsigned long)kiln_operator_tensor(op, KILN_OPERATOR_INPUT, 1)->size_bytes);
    refused(kiln_operator_add(op, "output d: f32[6]\nblock d(i:6): d[i] = a[i, 5]", error,
                              sizeof error));
    refused(kiln_operator_add(op, "loops:", error, sizeof error));
    refused(kiln_operator_set_constant(op, "b", error, 1, error, sizeof error));
    code = kiln_schedule_create(op, &schedule, error, sizeof error);
    if (!code) code = schedule_it(schedule);
    if (!code) code = run(op, schedule);
    if (!code) code = repeat();
    if (!code) code = write_model(op, argv[1]);
    kiln_operator_destroy(op);
    if (!code) code = write_schedule(schedule, argv[2]); /* it outlives the operator */
    kiln_schedule_destroy(schedule);
    return code ? fail(code) : 0;
}
