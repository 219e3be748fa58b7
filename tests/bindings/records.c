/* An application that asks a database: prints the best of each task of argv[1], for the target
 * argv[2] if it is there, then a count by SQL. */
#include <kiln/kiln.h>

#include <stdio.h>

static int fail(int code, const char *error) {
    fprintf(stderr, "records: %d: %s\n", code, error);
    return code;
}

static uint32_t column(const kiln_rows *rows, const char *name) {
    uint32_t i = 0;
    const char *wanted, *has;
    for (; i < kiln_rows_column_count(rows); i++) {
        wanted = name;
        has = kiln_rows_column_name(rows, i);
        while (*wanted && *wanted == *has) wanted++, has++;
        if (*wanted == *has) return i;
    }
    fprintf(stderr, "records: no column %s\n", name);
    return 0;
}

int main(int argc, char **argv) {
    kiln_records *records = NULL;
    kiln_rows *rows = NULL;
    kiln_records_filter filter = {sizeof filter, NULL, NULL, NULL, KILN_RECORDS_FASTEST, 0};
    char error[256] = "";
    size_t i, samples;
    int code = kiln_records_open(argv[1], &records, error, sizeof error);
    if (code) return fail(code, error);
    filter.target = argc > 2 ? argv[2] : NULL;
    code = kiln_records_best(records, &filter, &rows, error, sizeof error);
    if (!code) {
        for (i = 0; i < kiln_rows_count(rows); i++) {
            kiln_rows_reals(rows, i, column(rows, "samples_ns"), &samples);
            printf("%s %s %.17g %lu %ld\n", kiln_rows_text(rows, i, column(rows, "op"), NULL),
                   kiln_rows_text(rows, i, column(rows, "trace_hash"), NULL),
                   kiln_rows_real(rows, i, column(rows, "median_ns")), (unsigned long)samples,
                   (long)kiln_rows_int(rows, i, column(rows, "attempt")));
        }
        kiln_rows_free(rows);
        code = kiln_records_sql(records,
                                "select count(*) as n, null as missing, 1.5 as half from record",
                                &rows, error, sizeof error);
    }
    if (!code) {
        kiln_records_close(records); /* rows outlive it */
        records = NULL;
        printf("%ld %d %g %lu\n", (long)kiln_rows_int(rows, 0, column(rows, "n")),
               kiln_rows_is_null(rows, 0, 1), kiln_rows_real(rows, 0, column(rows, "half")),
               (unsigned long)kiln_rows_column_type(rows, 2));
        kiln_rows_free(rows);
    }
    kiln_records_close(records);
    return code ? fail(code, error) : 0;
}
