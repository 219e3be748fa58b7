/* Modules on the disk: DIGEST.kiln, and for each part KEY.json, which names it. Both are written
 * under another name first, so that what is there is whole. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "web/compile.h"

#define NOTE_BYTES_MAX ((size_t)1 << 20)
#define BLOCK_BYTES ((size_t)1 << 18)

static kiln_status hash_file(const char *path, kiln_arena *arena, kiln_part *part) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    char *block = kiln_arena_alloc(arena, BLOCK_BYTES);
    kiln_hasher hasher;
    ssize_t n = fd < 0 ? -1 : 1;
    kiln_hasher_begin(&hasher);
    part->bytes = 0;
    while (n > 0) {
        n = read(fd, block, BLOCK_BYTES);
        if (n < 0 && errno == EINTR) n = 0;
        if (n > 0) kiln_hasher_add(&hasher, block, (size_t)n);
        if (n > 0) part->bytes += (uint64_t)n;
    }
    if (fd >= 0) close(fd);
    if (n < 0) return KILN_ERROR(DATA_LOSS, "the module cannot be read: %s", strerror(errno));
    kiln_hasher_end(&hasher, &part->module);
    return KILN_OK;
}

static int append(const char *bytes, size_t size, void *out) {
    kiln_strbuf_append(out, bytes, size);
    return 0;
}

static kiln_status write_note(const char *folder, const kiln_part *part, kiln_arena *arena) {
    char digest[KILN_DIGEST_TEXT];
    kiln_digest_print(&part->module, digest);
    json_t *note =
        json_pack("{s:s, s:s, s:I, s:s, s:O?}", "target", part->target, "digest", digest, "bytes",
                  (json_int_t)part->bytes, "job", part->job, "report", part->report);
    kiln_strbuf text = {0};
    json_dump_callback(note, append, &text, JSON_COMPACT);
    json_decref(note);
    kiln_status st = kiln_file_write(kiln_arena_printf(arena, "%s/%s.json", folder, part->key),
                                     kiln_strbuf_view(&text), 0600);
    kiln_strbuf_deinit(&text);
    return st;
}

kiln_status kiln_store_put(const char *folder, kiln_part *part) {
    char digest[KILN_DIGEST_TEXT];
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    const char *from = kiln_arena_printf(&arena, "%s/%s.new", folder, part->key);
    kiln_status st = hash_file(from, &arena, part);
    kiln_digest_print(&part->module, digest);
    if (!st && rename(from, kiln_arena_printf(&arena, "%s/%s.kiln", folder, digest)) != 0)
        st = KILN_ERROR(RESOURCE_EXHAUSTED, "the module cannot be kept: %s", strerror(errno));
    if (!st) st = write_note(folder, part, &arena);
    kiln_arena_deinit(&arena);
    return st;
}

/* A note that cannot be understood, or whose module is gone, is of no use. */
static bool read_note(kiln_compile *c, const char *folder, const char *name, kiln_arena *arena) {
    char key[KILN_DIGEST_TEXT];
    kiln_digest digest, ignored;
    kiln_str text = {0};
    struct stat info;
    kiln_status st = kiln_file_read(kiln_arena_printf(arena, "%s/%s", folder, name), NOTE_BYTES_MAX,
                                    arena, &text);
    json_t *note = st ? NULL : json_loadb(text.data, text.size, 0, NULL);
    const char *module = json_string_value(json_object_get(note, "digest")),
               *target = json_string_value(json_object_get(note, "target"));
    kiln_status_free(st);
    memcpy(key, name, KILN_DIGEST_TEXT - 1);
    key[KILN_DIGEST_TEXT - 1] = '\0';
    const bool is_good = module && target && kiln_digest_parse(kiln_str_from(module), &digest) &&
                         kiln_digest_parse(kiln_str_from(key), &ignored) &&
                         stat(kiln_store_path(c, module, ".kiln", arena), &info) == 0;
    if (is_good) {
        kiln_part *part = kiln_part_create(c, key, kiln_str_from(target));
        part->state = KILN_PART_DONE;
        part->module = digest;
        part->bytes = (uint64_t)info.st_size;
        part->used_s = (uint64_t)info.st_mtim.tv_sec;
        part->report = json_incref(json_object_get(note, "report"));
        snprintf(part->job, sizeof part->job, "%s",
                 json_is_string(json_object_get(note, "job"))
                     ? json_string_value(json_object_get(note, "job"))
                     : "");
    }
    json_decref(note);
    return is_good;
}

kiln_status kiln_store_read(kiln_compile *c, const char *folder) {
    char **name = NULL;
    size_t count = 0;
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    kiln_status st = kiln_folder_list(folder, &arena, &name, &count);
    for (size_t i = 0; !st && i < count; i++) {
        const kiln_str text = kiln_str_from(name[i]);
        const bool is_note = text.size == KILN_DIGEST_TEXT - 1 + 5 && kiln_str_ends(text, ".json");
        const bool is_rest = kiln_str_ends(text, ".new"); /* of a worker that did not end */
        if ((is_note && !read_note(c, folder, name[i], &arena)) || is_rest)
            unlink(kiln_arena_printf(&arena, "%s/%s", folder, name[i]));
    }
    kiln_arena_deinit(&arena);
    return st;
}

void kiln_store_remove(const kiln_compile *c, const kiln_part *part, bool with_module) {
    char digest[KILN_DIGEST_TEXT];
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    kiln_digest_print(&part->module, digest);
    unlink(kiln_store_path(c, part->key, ".json", &arena));
    if (with_module) unlink(kiln_store_path(c, digest, ".kiln", &arena));
    kiln_arena_deinit(&arena);
}
