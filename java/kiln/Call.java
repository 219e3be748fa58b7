package kiln;

import java.nio.ByteBuffer;

/** A module with memory for what goes in and comes out: a run copies and allocates nothing. One thread uses it at a time. */
public final class Call implements AutoCloseable {
    private final Module module;
    private final ByteBuffer[] inputs, outputs;
    private long binding; // 0: closed

    Call(Module module, ByteBuffer[] inputs, ByteBuffer[] outputs) {
        this.module = module;
        this.inputs = inputs;
        this.outputs = outputs;
        binding = module.bind(inputs, outputs);
    }

    /** Memory of an input, in the order of the machine's bytes; dense, row-major. Null: the module keeps it. */
    public ByteBuffer input(int index) {
        return inputs[index];
    }

    /** Memory of an output, which a run overwrites. Null: the module keeps it. */
    public ByteBuffer output(int index) {
        return outputs[index];
    }

    public void run() {
        if (binding == 0) throw new KilnException.FailedPrecondition("the call is closed");
        module.run(binding);
    }

    @Override
    public void close() {
        if (binding != 0) Native.unbind(binding);
        binding = 0;
    }
}
