/* Windows and spectra. */
#include "tests/fuzz/graph/rules.h"

bool draw_cosine_window(draw *d) {
    const int64_t size = between(d, 0, 17), periodic = between(d, 0, 1);
    feed_int(d, size);
    set_int(d, "periodic", periodic);
    if (size == 1 && !periodic) peer_may_differ(d, "0 / 0 there, and 1 here");
    if (chance(d, 30)) set_int(d, "output_datatype", 11); /* DOUBLE */
    results(d, 1);
    return true;
}

static void feed_float(draw *d, float value) {
    kiln_tensor tensor = kiln_tensor_create(d->g->arena, KILN_F32, &(kiln_shape){0});
    *(float *)tensor.data = value;
    feed_same(d, &d->g->value[fuzz_graph_fix(d->g, &tensor)]);
}

bool draw_mel_weights(draw *d) {
    const int64_t low = between(d, 0, 500);
    feed_int(d, between(d, 1, 9));
    feed_int(d, between(d, 2, 40));
    feed_int(d, between(d, 1000, 16000));
    feed_float(d, (float)low);
    feed_float(d, (float)(low + between(d, 1, 4000)));
    results(d, 1);
    return true;
}

bool draw_dft(draw *d) {
    const kiln_dtype dtype = draw_dtype(d, T_(F32) | T_(F64));
    const bool half = chance(d, 40), inverse = chance(d, 40);
    kiln_shape shape = draw_shape(d, 1, 3);
    const int64_t axis = between(d, 0, shape.rank - 1);
    const int64_t parts = half ? 1 + inverse : between(d, 1, 2);
    if (shape.dim[axis] < 2) shape.dim[axis] = 2;
    shape.dim[shape.rank++] = parts;
    feed_of(d, dtype, shape, -2, 2);
    if (chance(d, 30))
        feed_int(d, between(d, 1, 9));
    else
        feed_nothing(d);
    if (opset(d) < 20)
        set_int(d, "axis", axis);
    else
        feed_int(d, chance(d, 50) ? axis : axis - shape.rank);
    set_int(d, "inverse", inverse);
    set_int(d, "onesided", half);
    results(d, 1);
    if (half && inverse) peer_may_differ(d, "the inverse of half a spectrum is newer");
    return true;
}

bool draw_stft(draw *d) {
    const kiln_dtype dtype = draw_dtype(d, T_(F32) | T_(F64));
    const bool half = chance(d, 70);
    const int64_t length = between(d, 8, 33), frame = between(d, 1, 8);
    feed_of(d, dtype, (kiln_shape){3, {between(d, 1, 2), length, half ? 1 : between(d, 1, 2)}}, -2,
            2);
    feed_int(d, between(d, 1, 5));
    if (chance(d, 60)) {
        feed_of(d, dtype, (kiln_shape){1, {frame}}, -1, 1);
    } else {
        feed_nothing(d);
        feed_int(d, frame);
    }
    set_int(d, "onesided", half);
    results(d, 1);
    return true;
}
