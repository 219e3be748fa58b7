#include "tracker/site_metrics.h"

#include <sys/statvfs.h>

#define DAY_S UINT64_C(86400)

static void print_disk(const char *folder, kiln_strbuf *out) {
    struct statvfs info;
    if (statvfs(folder, &info) != 0) return;
    kiln_strbuf_printf(out,
                       "# HELP kiln_disk_free_bytes room on the disk of the tracker's folder\n"
                       "# TYPE kiln_disk_free_bytes gauge\nkiln_disk_free_bytes %.0f\n"
                       "# HELP kiln_disk_size_bytes size of that disk\n"
                       "# TYPE kiln_disk_size_bytes gauge\nkiln_disk_size_bytes %.0f\n",
                       (double)info.f_bavail * (double)info.f_frsize,
                       (double)info.f_blocks * (double)info.f_frsize);
}

/* A key's name has no character that a label would have to escape. */
static void print_key(void *context, const kiln_key *key) {
    kiln_strbuf *out = context;
    char name[KILN_KEY_NAME_BYTES];
    if (!key->last_day) return;
    kiln_key_name_print(key, name);
    kiln_strbuf_printf(out, "kiln_key_expires_timestamp_seconds{key=\"%s\"} %llu\n", name,
                       (unsigned long long)((key->last_day + UINT64_C(1)) * DAY_S));
}

void kiln_tracker_print_site_metrics(const char *folder, const kiln_keyring *keyring,
                                     kiln_strbuf *out) {
    print_disk(folder, out);
    kiln_strbuf_printf(out,
                       "# HELP kiln_keys keys in force\n# TYPE kiln_keys gauge\nkiln_keys %u\n"
                       "# HELP kiln_key_expires_timestamp_seconds when a key with an end is no "
                       "longer valid, since 1970\n"
                       "# TYPE kiln_key_expires_timestamp_seconds gauge\n",
                       keyring ? kiln_keyring_count(keyring) : 0);
    if (keyring) kiln_keyring_each(keyring, print_key, out);
}
