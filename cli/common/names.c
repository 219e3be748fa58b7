#include "cli/common/names.h"

#include <pwd.h>
#include <string.h>
#include <unistd.h>

#include "base/opt.h"
#include "base/str.h"

const char *kiln_user_name(kiln_arena *process) {
    char buffer[1024];
    struct passwd entry, *found = NULL;
    if (kiln_env("USER")) return kiln_env("USER");
    if (getpwuid_r(getuid(), &entry, buffer, sizeof buffer, &found) == 0 && found &&
        *found->pw_name)
        return kiln_str_dup(process, kiln_str_from(found->pw_name));
    return kiln_arena_printf(process, "uid-%lu", (unsigned long)getuid());
}

const char *kiln_file_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}
