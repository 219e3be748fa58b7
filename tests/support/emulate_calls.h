/* What a kernel asks of the block emulator: shared by the emulator, in C, and by the prelude of the
 * kernels that it compiles, in C++. */
#ifndef KILN_TESTS_SUPPORT_EMULATE_CALLS_H
#define KILN_TESTS_SUPPORT_EMULATE_CALLS_H

#define EMULATE_SHARED_MAX (256 << 10)
#define EMULATE_WARP 32
#define EMULATE_CLUSTER_MAX 8

enum emulate_instruction {
#define X(id, ...) EMULATE_##id,
#include "tests/support/emulate_warp.def"
#undef X
    EMULATE_INSTRUCTION_COUNT
};

/* Operands of one thread. */
struct emulate_mma {
    unsigned a[4], b[2]; /* registers, several elements in each */
    union {
        float f[4];
        unsigned i[4];
    } sum; /* c, and then d */
};
struct emulate_ldmatrix {
    const void *row; /* that this thread names */
    unsigned count;  /* of matrices: 1, 2, 4 */
    unsigned transposed;
    unsigned to[4];
};
struct emulate_shuffle {
    unsigned value;
    unsigned lane; /* whose value it takes; 32 and more: its own */
};

#define EMULATE_GROUP 128 /* threads of a warp group */
#define EMULATE_GROUP_COLUMNS_MAX 256
/* An instruction that one thread of a warp group begins. */
struct emulate_wgmma {
    unsigned columns, is_bf16;
    unsigned transposed[2];       /* a, b */
    unsigned long long matrix[2]; /* descriptors, with addresses from the start of shared memory */
    float **sum;                  /* [columns / 2] where its sums are */
};

/* What a kernel gets in place of a device's tensor map: kiln_manifest_map with a place. */
struct emulate_map {
    const char *base;
    unsigned rank, is_permuted;
    unsigned long long size[5], stride[5];
    unsigned box[5];
};

struct emulate_index {
    unsigned x, y, z;
};

/* Of the thread that runs, kept by the emulator, and the emulator's functions. `line`: where in the
 * text. */
struct emulate_state {
    struct emulate_index thread, block, block_size, grid_size;
    char *kiln_memory; /* shared memory of the block; a name that no kernel gives its own */
    void *emulator;
    void (*barrier)(void *emulator, unsigned line);
    void (*cluster)(void *emulator, unsigned line); /* a barrier of all threads of the cluster */
    /* `mask`: lanes that take part. */
    void (*warp)(void *emulator, unsigned instruction, void *operands, unsigned mask,
                 unsigned line);
    void (*copy)(void *emulator, void *to, const void *from, unsigned bytes, unsigned line);
    void (*commit)(void *emulator);
    void (*wait)(void *emulator, unsigned pending); /* groups that may stay in flight */
    void (*group_begin)(void *emulator, const struct emulate_wgmma *what, unsigned line);
    void (*group_fence)(void *emulator);
    void (*group_commit)(void *emulator);
    void (*group_wait)(void *emulator, unsigned pending, unsigned line);
    void (*fence_async)(void *emulator);
    /* Barriers with phases. A push with copies comes when these have landed, and once more. */
    void (*token_place)(void *emulator, const void *at, unsigned arrivals, unsigned line);
    void (*token_push)(void *emulator, const void *at, unsigned copies, unsigned line);
    /* At the token of the same place of group `rank` of the cluster. */
    void (*token_push_remote)(void *emulator, const void *at, unsigned rank, unsigned line);
    void (*token_pop)(void *emulator, const void *at, unsigned parity, unsigned line);
    void (*token_expect)(void *emulator, const void *at, unsigned bytes, unsigned line);
    void (*bulk_copy)(void *emulator, void *to, const void *from, unsigned bytes, const void *token,
                      unsigned line);
    void (*box_copy)(void *emulator, void *to, const struct emulate_map *map, const int *coordinate,
                     const void *token, unsigned mask, unsigned line);
    /* To the same place, and its token, of each group that `mask` has a bit of. */
    void (*multicast)(void *emulator, void *to, const void *from, unsigned bytes, const void *token,
                      unsigned mask, unsigned line);
    void (*registers)(void *emulator, unsigned count, unsigned line);
};

#endif
