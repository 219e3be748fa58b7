#include "tracker/listeners.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"

struct kiln_tracker_listeners {
    const kiln_tracker_shell_options *options;
    kiln_arena arena;
    kiln_listener *listener[KILN_TRACKER_ADDRESSES_MAX];
    const char *path, *address; /* the address file and its text; NULL: not written */
};

static kiln_status listen_on(kiln_loop *loop, const kiln_address *address,
                             const kiln_tracker_shell_options *options,
                             const kiln_listen_options *common, kiln_listener **out_listener) {
    kiln_listen_options listen = *common;
    listen.address = *address;
    uint8_t token[KILN_TOKEN_BYTES]; /* the listener keeps a copy */
    kiln_status st = KILN_OK;
    if (!listen.address.is_unix) {
        st = kiln_token_read(options->home, true, token);
        if (st && !options->insecure) return st;
        if (!st) listen.token = token;
        kiln_status_free(st); /* an insecure tracker takes those without the token, too */
    }
    st = kiln_net_listen(loop, &listen, out_listener);
    explicit_bzero(token, sizeof token);
    if (st) return st;
    kiln_strbuf text = {0};
    kiln_address_print(kiln_listener_address(*out_listener), &text);
    kiln_log(KILN_LOG_INFO, "listening on %s", text.data);
    kiln_strbuf_deinit(&text);
    return NULL;
}

kiln_status kiln_tracker_write_port(const char *path, unsigned port) {
    char text[16];
    if (!path) return NULL;
    snprintf(text, sizeof text, "%u\n", port);
    return kiln_file_write(path, kiln_str_from(text), 0644);
}

/* The first address that programs dial over TCP, with its real port; NULL: there is none. */
static const kiln_address *first_tcp(const kiln_tracker_listeners *l) {
    for (uint32_t i = 0; i < l->options->address_count; i++) {
        const kiln_address *address = kiln_listener_address(l->listener[i]);
        if (!address->is_unix && !address->is_web) return address;
    }
    return NULL;
}

/* Programs of this user on this machine that are given no address read it there. The tracker of a
 * single command listens on a Unix socket only, and writes none. */
static void write_address_file(kiln_tracker_listeners *l) {
    const kiln_address *first = first_tcp(l);
    if (!first) return;
    kiln_address address = *first;
    const bool is_any = strcmp(address.host, "0.0.0.0") == 0 || strcmp(address.host, "::") == 0;
    if (is_any) snprintf(address.host, sizeof address.host, "localhost");
    kiln_strbuf text = {0};
    kiln_address_print(&address, &text);
    l->address = kiln_arena_printf(&l->arena, "%s\n", text.data);
    kiln_strbuf_deinit(&text);
    l->path = kiln_arena_printf(&l->arena, "%s/" KILN_TRACKER_ADDRESS_FILE, l->options->home);
    kiln_status st = kiln_folder_create(l->options->home, 0700);
    if (!st) st = kiln_file_write(l->path, kiln_str_from(l->address), 0600);
    if (st)
        kiln_log(KILN_LOG_INFO,
                 "programs need --tracker, as the address file cannot be written: %s",
                 kiln_status_text(st));
    kiln_status_free(st); /* the tracker serves without the file */
}

/* Unless another tracker has written its own address since. */
static void remove_address_file(kiln_tracker_listeners *l) {
    kiln_str text = {0};
    kiln_status st = kiln_file_read(l->path, KILN_ADDRESS_TEXT_MAX, &l->arena, &text);
    if (!st && kiln_str_is(text, l->address)) unlink(l->path);
    kiln_status_free(st); /* it is not there any more */
}

kiln_status kiln_tracker_listeners_open(kiln_loop *loop, const kiln_tracker_shell_options *options,
                                        const kiln_listen_options *common,
                                        kiln_tracker_listeners **out_listeners) {
    kiln_tracker_listeners *l = kiln_alloc(sizeof *l);
    l->options = options;
    kiln_arena_init(&l->arena, 1024);
    kiln_status st = NULL;
    for (uint32_t i = 0; !st && i < options->address_count; i++)
        st = listen_on(loop, &options->address[i], options, common, &l->listener[i]);
    if (!st) {
        write_address_file(l);
        const kiln_address *first = first_tcp(l);
        st = kiln_tracker_write_port(options->port_file, first ? first->port : 0);
    }
    if (st)
        kiln_tracker_listeners_close(l);
    else
        *out_listeners = l;
    return st;
}

void kiln_tracker_listeners_set_keyring(kiln_tracker_listeners *l, kiln_keyring *keyring) {
    for (uint32_t i = 0; l && i < l->options->address_count; i++)
        kiln_listener_set_keyring(l->listener[i], keyring);
}

void kiln_tracker_listeners_close(kiln_tracker_listeners *l) {
    if (!l) return;
    for (uint32_t i = 0; i < KILN_TRACKER_ADDRESSES_MAX; i++) kiln_listener_close(l->listener[i]);
    if (l->path) remove_address_file(l);
    kiln_arena_deinit(&l->arena);
    kiln_free(l);
}
