#include "proto/net/secret_file.h"

#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/rand.h"

#define SECRET_FILE_MAX 4096u

kiln_status kiln_secret_file_read(const char *path, size_t bytes_max, kiln_arena *arena,
                                  kiln_str *out_text) {
    struct stat info;
    if (stat(path, &info) == 0 && (info.st_mode & 077))
        return KILN_ERROR(PERMISSION_DENIED, "%s can be read by others; chmod 600 %s", path, path);
    return kiln_file_read(path, bytes_max, arena, out_text);
}

kiln_status kiln_secret_create(const char *path, const char *head, kiln_digest *out_secret) {
    char hex[KILN_DIGEST_TEXT];
    kiln_strbuf text = {0};
    kiln_status st = kiln_rand_system(out_secret->byte, sizeof out_secret->byte);
    if (st) return st;
    kiln_digest_print(out_secret, hex);
    kiln_strbuf_reserve(&text, strlen(head) + sizeof hex + 1); /* growth would leave copies */
    kiln_strbuf_printf(&text, "%s%s\n", head, hex);
    st = kiln_file_write(path, kiln_strbuf_view(&text), 0600);
    kiln_strbuf_wipe(&text);
    explicit_bzero(hex, sizeof hex);
    return st;
}

kiln_status kiln_secret_load(const char *path, const char *head, const char *why,
                             kiln_digest *out_secret) {
    kiln_arena arena;
    kiln_str text = {0};
    kiln_arena_init(&arena, 1024);
    kiln_status st = kiln_secret_file_read(path, SECRET_FILE_MAX, &arena, &text);
    const kiln_str hex = kiln_str_trim(kiln_str_slice(text, strlen(head), text.size));
    if (!st && (!kiln_str_starts(text, head) || !kiln_digest_parse(hex, out_secret)))
        st = KILN_ERROR(DATA_LOSS, "%s %s", path, why);
    if (text.size) explicit_bzero((char *)(uintptr_t)text.data, text.size);
    kiln_arena_deinit(&arena);
    return st;
}
