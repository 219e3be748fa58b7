package kiln;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;

/**
 * A compiled model.
 *
 * <pre>
 * try (Module module = Module.open(Path.of("digits.kiln")); Call call = module.call()) {
 *     call.input(0).asFloatBuffer().put(pixels);
 *     call.run();
 *     float first = call.output(0).asFloatBuffer().get(0);
 * }
 * </pre>
 *
 * Its methods may be called by several threads; runs of one module wait for each other. Several modules, of one file or of
 * several, run at once and share its weights. What fails throws a {@link KilnException} of the class that its code has.
 */
public final class Module implements AutoCloseable {
    private long handle; // 0: closed
    private List<Port> inputs, outputs; // of the size that is set

    private Module(long handle) {
        this.handle = handle;
        inputs = ports(handle, false);
        outputs = ports(handle, true);
    }

    /** Opens a module with as many threads as it was compiled for: everything slow happens here. */
    public static Module open(Path path) {
        return open(path, 0);
    }

    /** The same with at most so many threads; 0: as many as it was compiled for. */
    public static Module open(Path path, int threads) {
        if (threads < 0) throw new KilnException.InvalidArgument("threads is " + threads + "; give 0 or more");
        return new Module(Native.open(Native.text(path.toString()), threads));
    }

    private static List<Port> ports(long handle, boolean output) {
        List<Port> found = new ArrayList<>();
        int count = Native.portCount(handle, output);
        for (int i = 0; i < count; i++)
            found.add(new Port(Native.string(Native.portName(handle, output, i)), DType.of(Native.portType(handle, output, i)),
                    Native.portShape(handle, output, i), Native.portBytes(handle, output, i)));
        return Collections.unmodifiableList(found);
    }

    public synchronized List<Port> inputs() {
        return inputs;
    }

    public synchronized List<Port> outputs() {
        return outputs;
    }

    /** Sizes of its dimension that the module has kernels for, growing; empty: it has one size. */
    public synchronized long[] sizes() {
        long[] found = Native.sizes(opened());
        return found == null ? new long[0] : Arrays.copyOfRange(found, 1, found.length);
    }

    /** Whether it takes every size from 1 to the largest, and not only those of {@link #sizes}. */
    public synchronized boolean takesAllSizes() {
        long[] found = Native.sizes(opened());
        return found != null && found[0] == 1;
    }

    /** From here on ports and new calls have that size, at first the largest; calls of before keep theirs. */
    public synchronized void setSize(long size) {
        Native.setSize(opened(), size);
        inputs = ports(handle, false);
        outputs = ports(handle, true);
    }

    /**
     * What a run gives an output becomes an input of the next one, zeros at first. The module has the memory of the two:
     * calls that are made from then on have null in their places.
     */
    public synchronized void keep(int input, int output) {
        Native.keep(opened(), input, output);
    }

    /** Zeros for everything that is kept between runs. */
    public synchronized void reset() {
        Native.reset(opened());
    }

    /** How many threads a run takes. */
    public synchronized int threads() {
        return Native.threads(opened());
    }

    /** "model", "target", ...; null where the module does not say. */
    public synchronized String metadata(String key) {
        return Native.string(Native.metadata(opened(), Native.text(key)));
    }

    /** A call with memory of its own for every input and output that the module does not keep. */
    public synchronized Call call() {
        return new Call(this, allocate(inputs, false), allocate(outputs, true));
    }

    /**
     * A call on memory of the caller: direct buffers in the order of the ports, each from its position with as many bytes
     * as its port; null for what the module keeps. Buffers that lie at multiples of 64 save a copy. They must not be freed before the call is closed, and stay
     * reachable through it.
     */
    public synchronized Call bind(List<ByteBuffer> inputs, List<ByteBuffer> outputs) {
        return new Call(this, check(inputs, this.inputs, "input", false), check(outputs, this.outputs, "output", true));
    }

    private ByteBuffer[] allocate(List<Port> ports, boolean written) {
        ByteBuffer[] made = new ByteBuffer[ports.size()];
        for (int i = 0; i < made.length; i++) made[i] = Native.isKept(opened(), written, i) ? null : Native.allocate(ports.get(i).bytes());
        return made;
    }

    private ByteBuffer[] check(List<ByteBuffer> given, List<Port> ports, String what, boolean written) {
        if (given.size() != ports.size())
            throw new KilnException.InvalidArgument("the module has " + ports.size() + " " + what + "s, " + given.size() + " were given");
        ByteBuffer[] taken = new ByteBuffer[given.size()];
        for (int i = 0; i < taken.length; i++) {
            Port port = ports.get(i);
            ByteBuffer buffer = given.get(i);
            String name = what + " '" + port.name() + "'";
            if (Native.isKept(opened(), written, i)) {
                if (buffer != null) throw new KilnException.InvalidArgument(name + " is kept by the module; give null");
                continue;
            }
            if (!buffer.isDirect())
                throw new KilnException.InvalidArgument(name + " takes a direct buffer (ByteBuffer.allocateDirect), this one lies on the heap");
            if (written && buffer.isReadOnly()) throw new KilnException.InvalidArgument(name + " is written, this buffer is read-only");
            if (buffer.remaining() != port.bytes())
                throw new KilnException.InvalidArgument(name + " has " + port.bytes() + " bytes (" + port + "), the buffer " + buffer.remaining());
            taken[i] = buffer.slice().order(ByteOrder.nativeOrder());
        }
        return taken;
    }

    synchronized long bind(ByteBuffer[] inputs, ByteBuffer[] outputs) {
        return Native.bind(opened(), inputs, outputs);
    }

    synchronized void run(long binding) {
        Native.run(opened(), binding);
    }

    private long opened() {
        if (handle == 0) throw new KilnException.FailedPrecondition("the module is closed");
        return handle;
    }

    /** Waits for a run of another thread. Twice is fine. */
    @Override
    public synchronized void close() {
        if (handle != 0) Native.close(handle);
        handle = 0;
    }

    /** Of the library, as in "0.1.0". */
    public static String version() {
        return Native.string(Native.version());
    }
}
