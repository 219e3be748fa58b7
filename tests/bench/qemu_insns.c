/* A plugin of QEMU's user mode emulation: counts the instructions that a program of one thread
 * executes, and prints them when it ends. For `./dev bench vta --host`.
 *
 * Debian's QEMU has no header of its interface for plugins, so what is used of it stands here
 * (QEMU 7.2, docs/devel/tcg-plugins, version 1). Counting is inline: emulated programs run at
 * nearly their usual speed. */
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define COUNT_ADD 0 /* enum qemu_plugin_op: QEMU_PLUGIN_INLINE_ADD_U64 */

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *tb, int op, void *counter,
                                              uint64_t add);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
                                           void (*on_block)(qemu_plugin_id_t,
                                                            struct qemu_plugin_tb *));
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, void (*on_exit)(qemu_plugin_id_t, void *),
                                    void *context);
void qemu_plugin_outs(const char *text);

extern const int qemu_plugin_version;
const int qemu_plugin_version = 1;
int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv);

static uint64_t executed; /* QEMU adds to it from translated code */

static void on_block(qemu_plugin_id_t id, struct qemu_plugin_tb *tb) {
    (void)id;
    qemu_plugin_register_vcpu_tb_exec_inline(tb, COUNT_ADD, &executed, qemu_plugin_tb_n_insns(tb));
}

static void on_exit(qemu_plugin_id_t id, void *context) {
    char text[64];
    (void)id;
    (void)context;
    snprintf(text, sizeof text, "instructions: %" PRIu64 "\n", executed);
    qemu_plugin_outs(text);
}

int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv) {
    (void)info;
    (void)argc;
    (void)argv;
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_block);
    qemu_plugin_register_atexit_cb(id, on_exit, NULL);
    return 0;
}
