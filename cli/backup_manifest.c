/* The manifest of a backup, and comparing the files with it. */
#include <jansson.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "base/version.h"
#include "cli/backup.h"
#include "cli/common/json.h"

#define MANIFEST_BYTES_MAX ((size_t)1 << 30)

static const char *const database_name[] = {
    [KILN_DB_RECORDS] = "records.db",
    [KILN_DB_TRACKER] = "tracker.db",
};

kiln_status kiln_backup_file_sum(int fd, const char *name, kiln_backup_file *file) {
    kiln_mapping mapping = {0};
    struct stat info;
    if (fstat(fd, &info) != 0) return KILN_ERROR(DATA_LOSS, "%s cannot be looked at", name);
    file->size_bytes = (uint64_t)info.st_size;
    file->mode = (uint32_t)info.st_mode & 0777u;
    file->hash = kiln_hash128_of("", 0);
    if (info.st_size == 0) return KILN_OK;
    kiln_status st = kiln_file_map_fd(fd, name, &mapping);
    if (!st) file->hash = kiln_hash128_of(mapping.data, mapping.size);
    kiln_file_unmap(&mapping);
    return st;
}

/* ---- writing ---- */

static json_t *file_to_json(const kiln_backup_file *file) {
    char hash[KILN_HASH128_TEXT];
    kiln_hash128_print(file->hash, hash);
    return json_pack("{s:s, s:I, s:i, s:s}", "name", file->name, "size",
                     (json_int_t)file->size_bytes, "mode", (int)file->mode, "xxh3", hash);
}

/* One line per file. */
kiln_status kiln_backup_manifest_write(const kiln_backup *backup, const char *path) {
    kiln_strbuf text = {0};
    json_t *schema = json_object();
    for (unsigned kind = 0; kind < KILN_ARRAY_COUNT(database_name); kind++)
        if (backup->schema[kind])
            json_object_set_new(schema, database_name[kind], json_integer(backup->schema[kind]));
    kiln_strbuf_printf(&text, "{\"format\": %d, \"kiln\": \"%s\", \"made\": \"%s\", \"schema\": ",
                       KILN_BACKUP_FORMAT, kiln_version_text, backup->made);
    kiln_json_print(schema, &text);
    kiln_strbuf_text(&text, ", \"files\": [\n");
    for (uint32_t i = 0; i < backup->files.count; i++) {
        kiln_json_print(file_to_json(&backup->files.data[i]), &text);
        kiln_strbuf_text(&text, i + 1 < backup->files.count ? ",\n" : "\n");
    }
    kiln_strbuf_text(&text, "]}\n");
    kiln_status st = kiln_file_write(path, kiln_strbuf_view(&text), 0600);
    kiln_strbuf_deinit(&text);
    return st;
}

/* ---- reading: of a file that anybody may have written ---- */

static bool is_blob_name(const char *name) {
    kiln_digest digest;
    const size_t prefix = strlen(KILN_BACKUP_BLOB_FOLDER "/");
    return strncmp(name, KILN_BACKUP_BLOB_FOLDER "/", prefix) == 0 &&
           kiln_digest_parse(kiln_str_from(name + prefix), &digest);
}

static const kiln_backup_item *item_named(const char *name) {
    static const kiln_backup_item items[] = {
#define ITEM(ID, name, part, content, folder, file) \
    {name, KILN_BACKUP_##part, KILN_BACKUP_##content, NULL},
#include "cli/backup_items.def"
#undef ITEM
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(items); i++)
        if (strcmp(items[i].name, name) == 0) return &items[i];
    return NULL;
}

bool kiln_backup_is_name(const char *name) {
    return strcmp(name, KILN_BACKUP_MANIFEST) == 0 || item_named(name) || is_blob_name(name);
}

static kiln_status read_file(const json_t *row, kiln_arena *arena, kiln_backup_file *out_file) {
    const json_t *name = json_object_get(row, "name"), *size = json_object_get(row, "size"),
                 *mode = json_object_get(row, "mode"), *hash = json_object_get(row, "xxh3");
    kiln_backup_file file = {0};
    if (!json_is_string(name) || !json_is_integer(size) || !json_is_integer(mode) ||
        !json_is_string(hash) || json_integer_value(size) < 0 || json_integer_value(mode) < 0 ||
        json_integer_value(mode) > 0777 ||
        !kiln_hash128_parse(kiln_str_from(json_string_value(hash)), &file.hash))
        return KILN_ERROR(DATA_LOSS, "a file's row is damaged");
    file.name = kiln_str_dup(arena, kiln_str_from(json_string_value(name)));
    file.size_bytes = (uint64_t)json_integer_value(size);
    file.mode = (uint32_t)json_integer_value(mode);
    file.item = item_named(file.name);
    if (!file.item && !is_blob_name(file.name))
        return KILN_ERROR(DATA_LOSS, "\"%s\" is no file of a backup",
                          kiln_str_dup(arena, kiln_text_printable(kiln_str_from(file.name),
                                                                  KILN_TEXT_LINE, 100, arena)));
    *out_file = file;
    return KILN_OK;
}

static kiln_status read_schema(const json_t *manifest, kiln_backup *backup) {
    for (unsigned kind = 0; kind < KILN_ARRAY_COUNT(database_name); kind++) {
        const json_t *schema =
            json_object_get(json_object_get(manifest, "schema"), database_name[kind]);
        const json_int_t version = json_integer_value(schema);
        const uint32_t newest = kiln_db_newest_schema((kiln_db_kind)kind);
        if (version > (json_int_t)newest)
            return KILN_ERROR(FAILED_PRECONDITION,
                              "%s has schema %lld and this program knows up to %u: restore it with "
                              "the version that made it, or a newer one",
                              database_name[kind], (long long)version, newest);
        backup->schema[kind] = version > 0 ? (uint32_t)version : 0;
    }
    return KILN_OK;
}

static kiln_status read_files(const json_t *files, kiln_backup *backup) {
    size_t i = 0;
    const json_t *row = NULL;
    kiln_status st = KILN_OK;
    if (!json_is_array(files) || json_array_size(files) > KILN_BACKUP_FILES_MAX)
        return KILN_ERROR(DATA_LOSS, "it lists no files, or too many");
    json_array_foreach(files, i, row) {
        kiln_backup_file file;
        st = read_file(row, backup->arena, &file);
        if (st) return st;
        kiln_vec_push_in(backup->arena, &backup->files, file);
        backup->size_bytes += file.size_bytes;
    }
    return KILN_OK;
}

static const char *text_of(const json_t *manifest, const char *name, kiln_arena *arena) {
    const char *text = json_string_value(json_object_get(manifest, name));
    return kiln_str_dup(
        arena, kiln_text_printable(kiln_str_from(text ? text : ""), KILN_TEXT_LINE, 100, arena));
}

kiln_status kiln_backup_manifest_read(const char *folder, kiln_arena *arena,
                                      kiln_backup *out_backup) {
    const char *path = kiln_arena_printf(arena, "%s/" KILN_BACKUP_MANIFEST, folder);
    kiln_backup backup = {.folder = folder, .arena = arena};
    kiln_str text = {0};
    json_error_t error;
    kiln_status st = kiln_file_read(path, MANIFEST_BYTES_MAX, arena, &text);
    if (kiln_status_code(st) == KILN_NOT_FOUND)
        return kiln_status_note(st, "%s is no backup, or one that was not finished", folder);
    if (st) return st;
    json_t *manifest = json_loadb(text.data, text.size, JSON_REJECT_DUPLICATES, &error);
    const json_int_t format = json_integer_value(json_object_get(manifest, "format"));
    if (!manifest)
        st = KILN_ERROR(DATA_LOSS, "line %d: %s", error.line, error.text);
    else if (format > KILN_BACKUP_FORMAT)
        st = KILN_ERROR(FAILED_PRECONDITION,
                        "it has format %lld and this program knows up to %d: a newer Kiln made it",
                        (long long)format, KILN_BACKUP_FORMAT);
    else if (format < 1)
        st = KILN_ERROR(DATA_LOSS, "it is no manifest of a backup");
    if (!st) st = read_schema(manifest, &backup);
    if (!st) st = read_files(json_object_get(manifest, "files"), &backup);
    if (!st) {
        backup.program = text_of(manifest, "kiln", arena);
        backup.made = text_of(manifest, "made", arena);
        *out_backup = backup;
    }
    json_decref(manifest);
    return kiln_status_note(st, "%s", path);
}

/* ---- comparing ---- */

/* What is wrong with a file. */
static kiln_status check_file(const kiln_backup *backup, const kiln_backup_file *file) {
    kiln_backup_file there = {0};
    size_t size = 0;
    int fd = -1;
    kiln_status st = kiln_file_open_inside(backup->folder, file->name, &fd, &size);
    if (!st && size != file->size_bytes)
        st = KILN_ERROR(DATA_LOSS, "%s has %zu bytes instead of %llu", file->name, size,
                        (unsigned long long)file->size_bytes);
    if (!st) st = kiln_backup_file_sum(fd, file->name, &there);
    if (!st && (there.hash.high != file->hash.high || there.hash.low != file->hash.low))
        st = KILN_ERROR(DATA_LOSS, "the content of %s is not what was written", file->name);
    kiln_fd_close(&fd);
    return st;
}

kiln_status kiln_backup_verify(const char *folder, kiln_arena *arena, kiln_backup *out_backup) {
    kiln_backup backup = {0};
    kiln_status first = kiln_backup_manifest_read(folder, arena, &backup);
    uint32_t damaged = 0;
    if (first) return first;
    for (uint32_t i = 0; i < backup.files.count; i++) {
        kiln_status st = check_file(&backup, &backup.files.data[i]);
        if (!st) continue;
        damaged++;
        if (first)
            kiln_status_free(st); /* the first is shown, and how many there are */
        else
            first = st;
    }
    if (first) {
        kiln_status st = KILN_ERROR(DATA_LOSS, "the backup %s is damaged: %u of its %u files; %s",
                                    folder, damaged, backup.files.count, kiln_status_text(first));
        kiln_status_free(first);
        return st;
    }
    *out_backup = backup;
    return KILN_OK;
}
