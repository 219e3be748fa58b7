"""Small networks in Keras, with weights."""
import numpy as np


def networks(keras):
    layers = keras.layers

    def conv(x, channels, size=1, **how):
        return layers.Conv2D(channels, size, **{"padding": "same", **how})(x)

    def separable(x, channels, stride=1):
        x = layers.DepthwiseConv2D(3, strides=stride, padding="same")(x)
        x = layers.ReLU(6.0)(layers.BatchNormalization()(x))
        return layers.ReLU(6.0)(conv(x, channels))

    def images():  # MLPerf Tiny: a small residual network
        i = layers.Input((32, 32, 3))
        x = layers.ReLU()(layers.BatchNormalization()(conv(i, 16, 3)))
        x = layers.ReLU()(layers.Add()([x, conv(conv(x, 16, 3, activation="relu"), 16, 3)]))
        y = conv(conv(x, 32, 3, strides=2, activation="relu"), 32, 3)
        x = layers.ReLU()(layers.Add()([conv(x, 32, strides=2), y]))
        return i, layers.Dense(10, activation="softmax")(layers.Flatten()(layers.AveragePooling2D(16)(x)))

    def keywords():  # MLPerf Tiny: separable convolutions over a spectrogram
        i = layers.Input((49, 10, 1))
        x = conv(i, 32, (10, 4), strides=(2, 2), activation="relu")
        for _ in range(2):
            x = conv(layers.DepthwiseConv2D(3, padding="same", activation="relu")(x), 32, activation="relu")
        return i, layers.Dense(12, activation="softmax")(layers.Flatten()(layers.AveragePooling2D((25, 5))(x)))

    def anomalies():  # MLPerf Tiny: an autoencoder
        x = i = layers.Input((640,))
        for width in (64, 64, 8, 64):
            x = layers.Dense(width, activation="relu")(x)
        return i, layers.Dense(640)(x)

    def persons():  # MLPerf Tiny: MobileNet v1 with a quarter of its channels
        i = layers.Input((48, 48, 1))
        x = layers.ReLU(6.0)(conv(layers.ZeroPadding2D(((0, 1), (0, 1)))(i), 8, 3, strides=2, padding="valid"))
        for channels, stride in ((16, 1), (32, 2), (32, 1), (64, 2)):
            x = separable(x, channels, stride)
        x = layers.Reshape((2,))(conv(layers.GlobalAveragePooling2D(keepdims=True)(x), 2))
        return i, layers.Softmax()(x)

    def inverted():  # a block of MobileNet v2
        i = layers.Input((16, 16, 8))
        x = layers.Add()([i, conv(separable(layers.ReLU(6.0)(conv(i, 24)), 24), 8)])
        return i, layers.Dense(5)(layers.GlobalAveragePooling2D()(x))

    def squeezed():  # a block of MobileNet v3
        i = layers.Input((12, 12, 4))
        x = layers.Activation("hard_silu")(conv(i, 8, 3))
        x = layers.Multiply()([x, conv(layers.GlobalAveragePooling2D(keepdims=True)(x), 8, activation="sigmoid")])
        return i, layers.MaxPooling2D(3, strides=2, padding="same")(x)

    def upward():  # what segmentation has
        i = layers.Input((16, 16, 3))
        a = conv(i, 8, 3, activation="relu")
        b = conv(layers.MaxPooling2D()(a), 8, 3, activation="relu")
        up = [layers.UpSampling2D(interpolation=how)(b) for how in ("bilinear", "nearest")]
        x = layers.Concatenate()([a, *up, layers.Conv2DTranspose(4, 3, strides=2, padding="same")(b)])
        return i, conv(x, 3)

    def activations():
        i = layers.Input((8, 8, 4))
        x = layers.ELU()(layers.LeakyReLU(negative_slope=0.1)(layers.PReLU(shared_axes=[1, 2])(i)))
        x = layers.Subtract()([layers.Activation("gelu")(conv(x, 4, 3, dilation_rate=2)), i])
        return i, conv(x, 8, 3, groups=2, padding="valid")

    def sequence():
        i = layers.Input((12, 6))
        x = layers.MaxPooling1D(2)(layers.Conv1D(8, 3, padding="same", activation="relu")(i))
        x = layers.LayerNormalization()(layers.Dense(5)(layers.Permute((2, 1))(x)))
        return i, layers.Dense(3)(layers.Flatten()(x))

    def attention():
        i = layers.Input((8, 16))
        x = layers.Activation("tanh")(i)
        return i, layers.Add()([x, layers.MultiHeadAttention(2, 8)(x, x)])

    return {f.__name__: keras.Model(*f()) for f in (images, keywords, anomalies, persons, inverted, squeezed, upward, activations,
                                                    sequence, attention)}


def set_weights(model, rng):
    """Seeded ones, large enough for results that differ."""
    for w in model.weights:
        shape = tuple(w.shape)
        if w.name in ("gamma", "moving_variance"):
            w.assign(rng.uniform(0.5, 1.5, shape).astype("f"))
        elif len(shape) > 1:
            rows = max(1, int(np.prod(shape[:2] if "depthwise" in w.path else shape[:-1])))
            w.assign((rng.standard_normal(shape) * np.sqrt(2 / rows)).astype("f"))
        else:
            w.assign((rng.standard_normal(shape) * 0.1).astype("f"))
