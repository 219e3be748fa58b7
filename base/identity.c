#include "base/identity.h"

#include "base/arena.h"
#include "base/file.h"
#include "base/rand.h"

kiln_status kiln_identity_create(char out_text[KILN_HASH128_TEXT]) {
    kiln_hash128 identity;
    kiln_status st = kiln_rand_system(&identity, sizeof identity);
    if (!st) kiln_hash128_print(identity, out_text);
    return st;
}

kiln_status kiln_identity_load(const char *path, char out_text[KILN_HASH128_TEXT]) {
    if (!kiln_file_exists(path)) {
        kiln_status st = kiln_identity_create(out_text);
        return st ? st : kiln_file_write(path, kiln_str_from(out_text), 0600);
    }
    kiln_arena scratch;
    kiln_arena_init(&scratch, 256);
    kiln_str text;
    kiln_hash128 identity;
    kiln_status st = kiln_file_read(path, 256, &scratch, &text);
    if (!st && !kiln_hash128_parse(kiln_str_trim(text), &identity))
        st =
            KILN_ERROR(DATA_LOSS, "%s does not hold an identity; remove it to get a new one", path);
    if (!st) kiln_hash128_print(identity, out_text);
    kiln_arena_deinit(&scratch);
    return st;
}
