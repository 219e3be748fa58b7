#include "rpc-server/release_archive.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/macros.h"
#include "proto/inflate.h"

#define BLOCK 512u /* bytes of a header; contents are filled up to it */
/* Places of fields in a header of ustar (POSIX.1-2017, pax, "ustar Interchange Format"). */
#define NAME_SIZE 100u
#define SIZE_AT 124u
#define SIZE_SIZE 12u
#define TYPE_AT 156u
#define MAGIC_AT 257u

typedef enum target { SKIPPED, MANIFEST, PROGRAM } target;

typedef struct reader {
    char folder[4 * KILN_RELEASE_WORD_MAX]; /* before all names, with a slash */
    const char *wanted;
    int out_fd;
    char header[BLOCK];
    uint32_t header_size;
    uint64_t left, padding; /* of the member under way */
    target target;
    bool ended; /* the empty block at the end came */
    kiln_strbuf manifest;
    kiln_hasher hasher; /* of the program */
    uint64_t size;
    uint32_t found;
} reader;

/* ---- Members ---- */

/* Octal digits, ended by NUL or a space. */
static bool parse_octal(const char *text, size_t size, uint64_t *out) {
    uint64_t number = 0;
    size_t i = 0;
    for (; i < size && text[i] >= '0' && text[i] <= '7'; i++)
        number = number * 8 + (uint64_t)(text[i] - '0');
    *out = number;
    return i > 0 && (i == size || text[i] == '\0' || text[i] == ' ');
}

static kiln_status begin_member(reader *r) {
    const char *header = r->header;
    const kiln_str name = {header, strnlen(header, NAME_SIZE)};
    if (name.size == 0) {
        r->ended = true;
        return KILN_OK;
    }
    if (memcmp(header + MAGIC_AT, "ustar", 5) != 0 || header[TYPE_AT] != '0' ||
        !parse_octal(header + SIZE_AT, SIZE_SIZE, &r->left) || !kiln_str_starts(name, r->folder))
        return KILN_ERROR(INVALID_ARGUMENT,
                          "the archive has a member that releases do not have: %.*s",
                          KILN_STR_ARG(name));
    const kiln_str inner = kiln_str_slice(name, strlen(r->folder), name.size);
    r->padding = (BLOCK - r->left % BLOCK) % BLOCK;
    r->target = kiln_str_is(inner, "MANIFEST")  ? MANIFEST
                : kiln_str_is(inner, r->wanted) ? PROGRAM
                                                : SKIPPED;
    r->found += r->target == PROGRAM;
    if (r->target != MANIFEST || r->left <= KILN_RELEASE_MANIFEST_MAX) return KILN_OK;
    return KILN_ERROR(INVALID_ARGUMENT, "the archive's manifest is too large");
}

static kiln_status take_content(reader *r, kiln_str bytes) {
    if (r->target == MANIFEST) kiln_strbuf_append(&r->manifest, bytes.data, bytes.size);
    if (r->target != PROGRAM) return KILN_OK;
    kiln_hasher_add(&r->hasher, bytes.data, bytes.size);
    r->size += bytes.size;
    if (kiln_file_write_fully(r->out_fd, bytes)) return KILN_OK;
    return KILN_ERROR(RESOURCE_EXHAUSTED, "writing the new program: %s", strerror(errno));
}

static size_t take_header(reader *r, kiln_str bytes) {
    const size_t size = KILN_MIN(BLOCK - r->header_size, bytes.size);
    memcpy(r->header + r->header_size, bytes.data, size);
    r->header_size += (uint32_t)size;
    return size;
}

static kiln_status take(void *context, kiln_str bytes) {
    reader *r = context;
    kiln_status st = KILN_OK;
    while (!st && bytes.size && !r->ended) {
        size_t used;
        if (r->left) {
            used = (size_t)KILN_MIN(r->left, bytes.size);
            st = take_content(r, kiln_str_slice(bytes, 0, used));
            r->left -= used;
        } else if (r->padding) {
            used = (size_t)KILN_MIN(r->padding, bytes.size);
            r->padding -= used;
        } else {
            used = take_header(r, bytes);
            if (r->header_size == BLOCK) {
                r->header_size = 0;
                st = begin_member(r);
            }
        }
        bytes = kiln_str_slice(bytes, used, bytes.size);
    }
    return st;
}

/* ---- The manifest ---- */

/* Whether the manifest is of this release, and what it says of the wanted member. */
static kiln_status check_manifest(const reader *r, const kiln_release *release) {
    char head[4 * KILN_RELEASE_WORD_MAX + 64], digest[KILN_DIGEST_TEXT], line[512];
    kiln_hasher hasher = r->hasher;
    kiln_digest got;
    const kiln_str manifest = kiln_strbuf_view(&r->manifest);
    const int size = snprintf(head, sizeof head, "kiln release 1\nname %s\nversion %s\narch %s\n",
                              release->name, release->version, release->arch);
    if (!kiln_str_starts(manifest, head))
        return KILN_ERROR(INVALID_ARGUMENT, "the archive's manifest is not that of %s %s for %s",
                          release->name, release->version, release->arch);
    kiln_hasher_end(&hasher, &got);
    kiln_digest_print(&got, digest);
    for (kiln_str rest = kiln_str_slice(manifest, (size_t)size, manifest.size); rest.size;) {
        kiln_str words = kiln_str_cut(&rest, '\n');
        const kiln_str whole = words;
        if (!kiln_str_is(kiln_str_cut(&words, ' '), "file")) continue;
        kiln_str_cut(&words, ' '); /* its mode */
        snprintf(line, sizeof line, "%" PRIu64 " %s %s", r->size, digest, r->wanted);
        if (kiln_str_is(words, line)) return KILN_OK;
        if (kiln_str_ends(whole, r->wanted))
            return KILN_ERROR(DATA_LOSS, "%s is not what the archive's manifest says", r->wanted);
    }
    return KILN_ERROR(INVALID_ARGUMENT, "the archive's manifest does not list %s", r->wanted);
}

kiln_status kiln_release_unpack(int archive_fd, const kiln_release *release, const char *name,
                                int out_fd) {
    reader r = {.wanted = name, .out_fd = out_fd};
    snprintf(r.folder, sizeof r.folder, "%s-%s-%s/", release->name, release->version,
             release->arch);
    kiln_hasher_begin(&r.hasher);
    kiln_status st = kiln_inflate(archive_fd, KILN_RELEASE_UNPACKED_MAX, take, &r);
    if (!st && !r.ended) st = KILN_ERROR(DATA_LOSS, "the archive has no end");
    if (!st && r.found != 1) st = KILN_ERROR(NOT_FOUND, "the archive has %u %s", r.found, name);
    if (!st) st = check_manifest(&r, release);
    kiln_strbuf_deinit(&r.manifest);
    return st;
}
