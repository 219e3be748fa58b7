package kiln;

import java.util.Arrays;

/** An input or output of a module: a dense tensor, row-major. */
public final class Port {
    private final String name;
    private final DType type;
    private final long[] shape;
    private final long bytes;

    Port(String name, DType type, long[] shape, long bytes) {
        this.name = name;
        this.type = type;
        this.shape = shape;
        this.bytes = bytes;
    }

    public String name() {
        return name;
    }

    public DType type() {
        return type;
    }

    /** Sizes of the dimensions, the outermost first. */
    public long[] shape() {
        return shape.clone();
    }

    public long bytes() {
        return bytes;
    }

    /** As in "f32 [1, 3, 32, 32]". */
    @Override
    public String toString() {
        return type + " " + Arrays.toString(shape);
    }
}
