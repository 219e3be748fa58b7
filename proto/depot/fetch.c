#include "proto/fetch.h"

#include <curl/curl.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"

#define CONNECT_S 10L
#define STALL_S 60L
#define TOKEN_MAX 512u

typedef struct exchange {
    CURL *curl;
    const kiln_fetch *fetch;
    kiln_strbuf answer;
    char why[CURL_ERROR_SIZE];
} exchange;

static size_t on_bytes(char *data, size_t one, size_t size, void *context) {
    exchange *e = context;
    long code = 0;
    (void)one;
    curl_easy_getinfo(e->curl, CURLINFO_RESPONSE_CODE, &code);
    if (code == 200 && e->fetch->answer_fd >= 0)
        return kiln_file_write_fully(e->fetch->answer_fd, (kiln_str){data, size}) ? size : 0;
    if (size > KILN_FETCH_ANSWER_MAX - e->answer.size) return 0;
    kiln_strbuf_append(&e->answer, data, size);
    return size;
}

static struct curl_slist *headers_of(const kiln_fetch *fetch) {
    char line[TOKEN_MAX + sizeof "Authorization: Bearer "];
    struct curl_slist *list = curl_slist_append(NULL, "Expect:"); /* it waits for nothing */
    if (fetch->token) {
        snprintf(line, sizeof line, "Authorization: Bearer %s", fetch->token);
        list = curl_slist_append(list, line);
    }
    for (uint32_t i = 0; i < KILN_FETCH_HEADERS_MAX && fetch->header[i]; i++)
        list = curl_slist_append(list, fetch->header[i]);
    return list;
}

static CURLcode run(exchange *e) {
    const kiln_fetch *f = e->fetch;
    struct curl_slist *headers = headers_of(f);
    curl_easy_setopt(e->curl, CURLOPT_URL, f->url);
    curl_easy_setopt(e->curl, CURLOPT_CUSTOMREQUEST, f->method);
    curl_easy_setopt(e->curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(e->curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(e->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e->curl, CURLOPT_ERRORBUFFER, e->why);
    curl_easy_setopt(e->curl, CURLOPT_CONNECTTIMEOUT, CONNECT_S);
    curl_easy_setopt(e->curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(e->curl, CURLOPT_LOW_SPEED_TIME, STALL_S);
    curl_easy_setopt(e->curl, CURLOPT_WRITEFUNCTION, on_bytes);
    curl_easy_setopt(e->curl, CURLOPT_WRITEDATA, e);
    if (f->body.size) {
        curl_easy_setopt(e->curl, CURLOPT_POSTFIELDS, f->body.data);
        curl_easy_setopt(e->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)f->body.size);
    }
    const CURLcode result = curl_easy_perform(e->curl);
    curl_slist_free_all(headers);
    return result;
}

kiln_status kiln_fetch_send(const kiln_fetch *fetch, kiln_arena *arena, unsigned *out_status,
                            kiln_str *out_answer) {
    exchange e = {.fetch = fetch};
    long code = 0;
    if (fetch->token && strlen(fetch->token) > TOKEN_MAX)
        return KILN_ERROR(INVALID_ARGUMENT, "the token is too long");
    e.curl = curl_easy_init();
    if (!e.curl) return KILN_ERROR(RESOURCE_EXHAUSTED, "libcurl does not start");
    const CURLcode result = run(&e);
    curl_easy_getinfo(e.curl, CURLINFO_RESPONSE_CODE, &code);
    kiln_status st = KILN_OK;
    if (result == CURLE_WRITE_ERROR)
        st = KILN_ERROR(DATA_LOSS, "%s: the answer is too long, or cannot be written", fetch->url);
    else if (result != CURLE_OK)
        st = KILN_ERROR(UNAVAILABLE, "%s: %s", fetch->url,
                        *e.why ? e.why : curl_easy_strerror(result));
    curl_easy_cleanup(e.curl);
    if (st) {
        kiln_strbuf_deinit(&e.answer);
        return st;
    }
    *out_status = (unsigned)code;
    *out_answer = kiln_strbuf_end(&e.answer, arena);
    return KILN_OK;
}
