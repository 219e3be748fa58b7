/* A bucket of a service with Amazon S3's HTTP interface (API version 2006-03-01), by libcurl, which
 * signs requests (AWS Signature Version 4). A blob is the object PREFIX/<SHA-256>; its name is also
 * the digest that the signature of an upload needs, so nothing is hashed twice. Keys come from the
 * environment: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION. */
#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/opt.h"
#include "base/text.h"
#include "base/vec.h"
#include "proto/depot/parts.h"

#define CONNECT_S 10L
#define STALL_S 30L                /* a transfer without a byte in this time fails */
#define SAID_MAX ((size_t)4 << 20) /* of other answers than blobs; a page of a list has 0.5 MB */
#define EMPTY_SHA256 "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

typedef struct s3_depot {
    kiln_depot depot;
    kiln_arena arena;
    char *bucket; /* URL of the bucket, without a slash at its end */
    char *prefix; /* of object names: "" or "kiln/blobs/" */
    char *user, *sigv4, *session;
    pthread_mutex_t lock;
    KILN_VEC(CURL *) idle; /* with open connections */
} s3_depot;

/* One request and its answer. */
typedef struct exchange {
    CURL *curl;
    kiln_depot_sink *sink; /* gets the blob; NULL: `said` does */
    kiln_strbuf said;      /* errors, and pages of lists */
    char why[CURL_ERROR_SIZE];
} exchange;

static s3_depot *of(kiln_depot *depot) { return (s3_depot *)depot; }

/* ---- Opening ---- */

/* Characters that are the same in a URL and in its signature. */
static bool is_plain(kiln_str text) {
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/";
    for (size_t i = 0; i < text.size; i++)
        if (!memchr(plain, text.data[i], sizeof plain - 1)) return false;
    return true;
}

/* URL/BUCKET[/PREFIX] */
static kiln_status parse(kiln_str rest, s3_depot *self) {
    const char *scheme = kiln_str_starts(rest, "https://")  ? "https://"
                         : kiln_str_starts(rest, "http://") ? "http://"
                                                            : NULL;
    if (!scheme)
        return KILN_ERROR(INVALID_ARGUMENT, "expected https:// (or http://) after s3:, as in %s",
                          kiln_depot_s3.form);
    kiln_str path = kiln_str_slice(rest, strlen(scheme), rest.size);
    kiln_str host = kiln_str_cut(&path, '/');
    kiln_str bucket = kiln_str_cut(&path, '/');
    while (kiln_str_ends(path, "/")) path.size--;
    if (host.size == 0 || bucket.size == 0 || !is_plain(bucket) || !is_plain(path))
        return KILN_ERROR(INVALID_ARGUMENT,
                          "expected %s; bucket and prefix are letters, digits, "
                          "dots, dashes, underscores",
                          kiln_depot_s3.form);
    self->bucket = kiln_arena_printf(&self->arena, "%s%.*s/%.*s", scheme, KILN_STR_ARG(host),
                                     KILN_STR_ARG(bucket));
    self->prefix = path.size ? kiln_arena_printf(&self->arena, "%.*s/", KILN_STR_ARG(path))
                             : kiln_arena_printf(&self->arena, "%s", "");
    return KILN_OK;
}

static kiln_status read_keys(s3_depot *self) {
    const char *id = kiln_env("AWS_ACCESS_KEY_ID"), *secret = kiln_env("AWS_SECRET_ACCESS_KEY");
    const char *session = kiln_env("AWS_SESSION_TOKEN"), *region = kiln_env("AWS_REGION");
    if (!id || !secret || !*id || !*secret)
        return KILN_ERROR(INVALID_ARGUMENT,
                          "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY must stand "
                          "in the environment");
    self->user = kiln_arena_printf(&self->arena, "%s:%s", id, secret);
    self->sigv4 =
        kiln_arena_printf(&self->arena, "aws:amz:%s:s3", region && *region ? region : "us-east-1");
    if (session && *session)
        self->session = kiln_arena_printf(&self->arena, "x-amz-security-token: %s", session);
    return KILN_OK;
}

static void close_s3(kiln_depot *depot) {
    s3_depot *self = of(depot);
    for (uint32_t i = 0; i < self->idle.count; i++) curl_easy_cleanup(self->idle.data[i]);
    kiln_vec_deinit(&self->idle);
    if (self->user) explicit_bzero(self->user, strlen(self->user));
    if (self->session) explicit_bzero(self->session, strlen(self->session));
    kiln_arena_deinit(&self->arena);
    pthread_mutex_destroy(&self->lock);
    kiln_free(self);
    curl_global_cleanup();
}

static kiln_status open_s3(kiln_str rest, kiln_depot **out_depot) {
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) /* counted; ended by close_s3 */
        return KILN_ERROR(RESOURCE_EXHAUSTED, "libcurl does not start");
    s3_depot *self = kiln_alloc(sizeof *self);
    *self = (s3_depot){.depot.row = &kiln_depot_s3};
    kiln_arena_init(&self->arena, 512);
    pthread_mutex_init(&self->lock, NULL);
    kiln_status st = parse(rest, self);
    if (!st) st = read_keys(self);
    if (st)
        close_s3(&self->depot);
    else
        *out_depot = &self->depot;
    return st;
}

/* ---- One request ---- */

static CURL *take_handle(s3_depot *self) {
    pthread_mutex_lock(&self->lock);
    CURL *curl = self->idle.count ? kiln_vec_pop(&self->idle) : NULL;
    pthread_mutex_unlock(&self->lock);
    if (!curl) return curl_easy_init();
    curl_easy_reset(curl); /* its connection stays open */
    return curl;
}

static void give_handle(s3_depot *self, CURL *curl) {
    pthread_mutex_lock(&self->lock);
    kiln_vec_push(&self->idle, curl);
    pthread_mutex_unlock(&self->lock);
}

static size_t on_bytes(char *data, size_t one, size_t size, void *context) {
    exchange *e = context;
    long code = 0;
    (void)one;
    curl_easy_getinfo(e->curl, CURLINFO_RESPONSE_CODE, &code);
    if (code == 200 && e->sink) return kiln_depot_sink_write(e->sink, data, size) ? size : 0;
    if (size > SAID_MAX - e->said.size) return 0;
    kiln_strbuf_append(&e->said, data, size);
    return size;
}

/* The text between <name> and </name>, from *at on, which moves behind it; empty: none is left. */
static kiln_str next_element(kiln_str xml, const char *name, size_t *at) {
    char open[32], end[32];
    snprintf(open, sizeof open, "<%s>", name);
    snprintf(end, sizeof end, "</%s>", name);
    if (*at >= xml.size) return (kiln_str){0};
    const char *begin = memmem(xml.data + *at, xml.size - *at, open, strlen(open));
    if (!begin) return (kiln_str){0};
    begin += strlen(open);
    const char *stop = memmem(begin, (size_t)(xml.data + xml.size - begin), end, strlen(end));
    if (!stop) return (kiln_str){0};
    *at = (size_t)(stop - xml.data) + strlen(end);
    return (kiln_str){begin, (size_t)(stop - begin)};
}

static kiln_status refusal(const exchange *e, long code) {
    size_t at = 0;
    kiln_str xml = kiln_strbuf_view(&e->said);
    kiln_str said = next_element(xml, "Message", &at);
    kiln_strbuf text = {0};
    kiln_text_append(&text, said, KILN_TEXT_LINE, 300);
    const char *why = text.size ? text.data : "no reason given";
    kiln_status st = NULL;
    if (code == 404)
        st = KILN_ERROR(NOT_FOUND, "the service answered 404: %s", why);
    else if (code == 401 || code == 403)
        st = KILN_ERROR(PERMISSION_DENIED, "the service answered %ld: %s", code, why);
    else if (code == 507)
        st = KILN_ERROR(RESOURCE_EXHAUSTED, "the service answered %ld: %s", code, why);
    else if (code == 429 || code >= 500)
        st = KILN_ERROR(UNAVAILABLE, "the service answered %ld: %s", code, why);
    else
        st = KILN_ERROR(FAILED_PRECONDITION, "the service answered %ld: %s", code, why);
    kiln_strbuf_deinit(&text);
    return st;
}

/* libcurl reports a local failure only as an aborted callback; kiln_depot_sink_end returns it. */
static kiln_status outcome(const exchange *e, CURLcode result) {
    long code = 0;
    curl_easy_getinfo(e->curl, CURLINFO_RESPONSE_CODE, &code);
    if (result != CURLE_OK)
        return KILN_ERROR(UNAVAILABLE, "%s", *e->why ? e->why : curl_easy_strerror(result));
    return code / 100 == 2 ? KILN_OK : refusal(e, code);
}

/* Sends one request to `url` whose body has this SHA-256; `e` has the options of the request. */
static kiln_status exchange_with(s3_depot *self, exchange *e, const char *url, const char *sha256) {
    char content[sizeof "x-amz-content-sha256: " + KILN_DIGEST_TEXT];
    struct curl_slist *header = NULL;
    snprintf(content, sizeof content, "x-amz-content-sha256: %s", sha256);
    header = curl_slist_append(header, content);
    if (self->session) header = curl_slist_append(header, self->session);
    curl_easy_setopt(e->curl, CURLOPT_URL, url);
    curl_easy_setopt(e->curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(e->curl, CURLOPT_AWS_SIGV4, self->sigv4);
    curl_easy_setopt(e->curl, CURLOPT_USERPWD, self->user);
    curl_easy_setopt(e->curl, CURLOPT_HTTPHEADER, header);
    curl_easy_setopt(e->curl, CURLOPT_EXPECT_100_TIMEOUT_MS, 1L); /* send the body at once */
    curl_easy_setopt(e->curl, CURLOPT_CONNECTTIMEOUT, CONNECT_S);
    curl_easy_setopt(e->curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(e->curl, CURLOPT_LOW_SPEED_TIME, STALL_S);
    curl_easy_setopt(e->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e->curl, CURLOPT_ERRORBUFFER, e->why);
    curl_easy_setopt(e->curl, CURLOPT_WRITEFUNCTION, on_bytes);
    curl_easy_setopt(e->curl, CURLOPT_WRITEDATA, e);
    kiln_status st = outcome(e, curl_easy_perform(e->curl));
    curl_slist_free_all(header);
    return kiln_status_note(st, "%s", self->bucket);
}

static kiln_status begin(s3_depot *self, exchange *e) {
    e->curl = take_handle(self);
    return e->curl ? KILN_OK : KILN_ERROR(RESOURCE_EXHAUSTED, "libcurl gave no handle");
}

static void end(s3_depot *self, exchange *e) {
    give_handle(self, e->curl);
    kiln_strbuf_deinit(&e->said);
}

/* ---- The calls ---- */

/* One request about the blob: to send `file` of `size` bytes, to get it into `sink`, or, with
 * neither, to delete it. */
static kiln_status call(kiln_depot *depot, const kiln_digest *digest, FILE *file, off_t size,
                        kiln_depot_sink *sink) {
    s3_depot *self = of(depot);
    char name[KILN_DIGEST_TEXT];
    kiln_strbuf url = {0};
    exchange e = {.sink = sink};
    kiln_digest_print(digest, name);
    kiln_strbuf_printf(&url, "%s/%s%s", self->bucket, self->prefix, name);
    kiln_status st = begin(self, &e);
    if (!st) {
        if (file) {
            curl_easy_setopt(e.curl, CURLOPT_UPLOAD, 1L);
            curl_easy_setopt(e.curl, CURLOPT_READDATA, file); /* read by fread */
            curl_easy_setopt(e.curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t)size);
        } else if (!sink) {
            curl_easy_setopt(e.curl, CURLOPT_CUSTOMREQUEST, "DELETE");
        }
        st = exchange_with(self, &e, url.data, file ? name : EMPTY_SHA256);
        end(self, &e);
    }
    kiln_strbuf_deinit(&url);
    return st;
}

static kiln_status put(kiln_depot *depot, const kiln_digest *digest, const char *path) {
    struct stat info;
    FILE *file = fopen(path, "rbe");
    kiln_status st = file && fstat(fileno(file), &info) == 0
                         ? call(depot, digest, file, info.st_size, NULL)
                         : KILN_SYSTEM_ERROR(errno, "opening", path);
    if (file) fclose(file);
    return st;
}

static kiln_status get(kiln_depot *depot, const kiln_digest *digest, uint64_t bytes_max,
                       const char *path) {
    kiln_depot_sink sink;
    kiln_depot_sink_begin(&sink, path, bytes_max);
    return kiln_depot_sink_end(&sink, digest, call(depot, digest, NULL, 0, &sink));
}

static kiln_status remove_blob(kiln_depot *depot, const kiln_digest *digest) {
    kiln_status st = call(depot, digest, NULL, 0, NULL);
    if (kiln_status_code(st) != KILN_NOT_FOUND) return st;
    kiln_status_free(st);
    return KILN_OK;
}

/* "2026-11-23T01:22:37.000Z" */
static int64_t parse_time(kiln_str text) {
    struct tm at = {0};
    char copy[32] = "";
    memcpy(copy, text.data, text.size < sizeof copy ? text.size : sizeof copy - 1);
    return strptime(copy, "%Y-%m-%dT%H:%M:%S", &at) ? (int64_t)timegm(&at) : 0;
}

/* Visits the objects of one page; *last becomes the name of the last one. */
static kiln_status visit_page(kiln_str xml, size_t prefix_size, kiln_strbuf *last,
                              kiln_depot_visit visit, void *context) {
    size_t at = 0;
    kiln_strbuf_reset(last);
    for (kiln_str part; (part = next_element(xml, "Contents", &at)).size;) {
        size_t in_key = 0, in_size = 0, in_time = 0;
        kiln_str key = next_element(part, "Key", &in_key);
        kiln_depot_blob blob = {0};
        kiln_strbuf_reset(last);
        kiln_strbuf_append(last, key.data, key.size);
        blob.stored_s = parse_time(next_element(part, "LastModified", &in_time));
        if (!kiln_str_to_u64(next_element(part, "Size", &in_size), &blob.size) ||
            !kiln_digest_parse(kiln_str_slice(key, prefix_size, key.size), &blob.digest))
            continue;
        kiln_status st = visit(context, &blob);
        if (st) return st;
    }
    return KILN_OK;
}

/* Appends a value of a query, escaped as its signature needs it. */
static void escape(CURL *curl, const char *text, kiln_strbuf *out) {
    char *escaped = curl_easy_escape(curl, text, 0);
    kiln_strbuf_text(out, escaped ? escaped : "");
    curl_free(escaped);
}

static kiln_status each(kiln_depot *depot, kiln_depot_visit visit, void *context) {
    s3_depot *self = of(depot);
    kiln_strbuf url = {0}, last = {0};
    kiln_status st = KILN_OK;
    do {
        exchange e = {0};
        st = begin(self, &e);
        if (st) break;
        kiln_strbuf_reset(&url); /* parameters in alphabetical order, as signatures need */
        kiln_strbuf_printf(&url, "%s?list-type=2&prefix=", self->bucket);
        escape(e.curl, self->prefix, &url);
        if (last.size) {
            kiln_strbuf_text(&url, "&start-after=");
            escape(e.curl, last.data, &url);
        }
        st = exchange_with(self, &e, url.data, EMPTY_SHA256);
        if (!st)
            st = visit_page(kiln_strbuf_view(&e.said), strlen(self->prefix), &last, visit, context);
        end(self, &e);
    } while (!st && last.size);
    kiln_strbuf_deinit(&url);
    kiln_strbuf_deinit(&last);
    return st;
}

const kiln_depot_row kiln_depot_s3 = {
    .prefix = "s3:",
    .form = "s3:https://HOST[:PORT]/BUCKET[/PREFIX]",
    .open = open_s3,
    .close = close_s3,
    .put = put,
    .get = get,
    .remove = remove_blob,
    .each = each,
};
