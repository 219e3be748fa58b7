import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import kiln.Call;
import kiln.KilnException;
import kiln.Module;

/** An application in Java: runs the module of the first argument, by a call's own memory and by its own, and does what is refused. */
public final class App {
    private static void refused(Class<? extends KilnException> expected, String says, Runnable wrong) {
        try {
            wrong.run();
        } catch (KilnException error) {
            if (error.getClass() == expected && error.getMessage().contains(says)) return;
            throw error;
        }
        throw new AssertionError("nothing was refused: " + says);
    }

    /** Twice the data, twice the sums: the module is a product by constant weights. */
    private static void run(Module module) {
        float[] sum = new float[2];
        try (Call call = module.call()) {
            for (int times = 1; times <= 2; times++) {
                call.input(0).putFloat(0, times);
                call.run();
                sum[times - 1] = call.output(0).getFloat(8);
            }
        }
        ByteBuffer in = ByteBuffer.allocateDirect((int) module.inputs().get(0).bytes()).order(ByteOrder.nativeOrder());
        ByteBuffer out = ByteBuffer.allocateDirect((int) module.outputs().get(0).bytes()).order(ByteOrder.nativeOrder());
        in.putFloat(0, 2);
        try (Call call = module.bind(List.of(in), List.of(out))) {
            call.run();
        }
        System.out.println(module.inputs().get(0) + " to " + module.outputs().get(0) + ": "
                + (sum[0] != 0 && sum[1] == 2 * sum[0] && out.getFloat(8) == sum[1] ? "twice" : Arrays.toString(sum)));
    }

    private static void refuse(Module module, String path) {
        int bytes = (int) module.inputs().get(0).bytes();
        ByteBuffer right = ByteBuffer.allocateDirect(bytes);
        List<ByteBuffer> out = List.of(ByteBuffer.allocateDirect((int) module.outputs().get(0).bytes()));
        refused(KilnException.InvalidArgument.class, "has 1 inputs, 0 were given", () -> module.bind(List.of(), out));
        refused(KilnException.InvalidArgument.class, "lies on the heap", () -> module.bind(List.of(ByteBuffer.allocate(bytes)), out));
        refused(KilnException.InvalidArgument.class, "the buffer 7", () -> module.bind(List.of(ByteBuffer.allocateDirect(7)), out));
        refused(KilnException.InvalidArgument.class, "is read-only",
                () -> module.bind(List.of(right), List.of(out.get(0).asReadOnlyBuffer())));
        refused(KilnException.InvalidArgument.class, "threads is -1", () -> Module.open(Path.of(path), -1));
        refused(KilnException.NotFound.class, "absent\u00e4", () -> Module.open(Path.of("absent\u00e4")));
        refused(KilnException.DataLoss.class, "broken", () -> Module.open(Path.of("broken")));
        Call closed = module.call();
        closed.close();
        refused(KilnException.FailedPrecondition.class, "the call is closed", closed::run);
        Call call = module.call();
        module.close();
        module.close();
        refused(KilnException.FailedPrecondition.class, "the module is closed", call::run);
        refused(KilnException.FailedPrecondition.class, "the module is closed", module::threads);
        call.close();
    }

    /** Several threads on one module, and a module each. */
    private static void shareThreads(Module module, String path) throws InterruptedException {
        Thread[] threads = new Thread[4];
        Throwable[] failed = new Throwable[threads.length];
        for (int i = 0; i < threads.length; i++) {
            int number = i;
            threads[i] = new Thread(() -> {
                try (Module own = Module.open(Path.of(path)); Call call = (number % 2 == 0 ? module : own).call()) {
                    for (int k = 1; k < 200; k++) {
                        call.input(0).putFloat(0, k);
                        call.run();
                    }
                } catch (Throwable error) {
                    failed[number] = error;
                }
            });
            threads[i].start();
        }
        for (Thread thread : threads) thread.join();
        for (Throwable error : failed) if (error != null) throw new AssertionError(error);
    }

    /** y = max(x, 0) of rows of 8, for 1, 4 and 8 of them. */
    private static void sizes(Module module) {
        if (!Arrays.equals(module.sizes(), new long[] {1, 4, 8}) || !module.takesAllSizes()) throw new AssertionError("other sizes");
        Call[] calls = new Call[9];
        for (int size = 1; size <= 8; size++) {
            module.setSize(size);
            if (module.inputs().get(0).shape()[0] != size || module.outputs().get(0).bytes() != 32L * size) throw new AssertionError("port of " + size);
            calls[size] = module.call();
        }
        for (int size = 8; size > 0; size--) { // each keeps its size
            for (int i = 0; i < 8 * size; i++) calls[size].input(0).putFloat(4 * i, i - 9);
            calls[size].run();
            for (int i = 0; i < 8 * size; i++)
                if (calls[size].output(0).getFloat(4 * i) != Math.max(i - 9, 0)) throw new AssertionError(size + " rows, element " + i);
            calls[size].close();
        }
        refused(KilnException.OutOfRange.class, "batch is 9; the module takes 1 to 8", () -> module.setSize(9));
        System.out.println("sizes");
    }

    /** t = s + x, where t is kept for s, and y = t. */
    private static void keep(Module module) {
        Call before = module.call();
        module.keep(0, 0);
        try (Call call = module.call()) {
            call.input(1).putFloat(28, 1);
            for (int run = 1; run <= 3; run++) {
                call.run();
                if (call.output(1).getFloat(28) != run) throw new AssertionError("run " + run);
            }
            module.reset();
            call.run();
            if (call.output(1).getFloat(28) != 1 || call.input(0) != null) throw new AssertionError("after the reset");
            ByteBuffer x = call.input(1), y = call.output(1);
            try (Call given = module.bind(Arrays.asList(null, x), Arrays.asList(null, y))) {
                given.run();
            }
            if (y.getFloat(28) != 2) throw new AssertionError("on memory that is given");
            refused(KilnException.InvalidArgument.class, "'s' is kept by the module", () -> module.bind(List.of(x, x), Arrays.asList(null, y)));
        }
        refused(KilnException.InvalidArgument.class, "input 0 (s): the module keeps it", before::run);
        refused(KilnException.InvalidArgument.class, "the input is kept already", () -> module.keep(0, 0));
        refused(KilnException.InvalidArgument.class, "output 2: the module has no such port", () -> module.keep(1, 2));
        before.close();
        System.out.println("kept");
    }

    /** Nanoseconds of a call, the best of several rounds. */
    private static void time(Module module) {
        double bound = Double.MAX_VALUE, fresh = Double.MAX_VALUE;
        try (Call call = module.call()) {
            for (int round = 0; round < 20; round++) {
                long start = System.nanoTime();
                for (int i = 0; i < 20000; i++) call.run();
                bound = Math.min(bound, (System.nanoTime() - start) / 20000.0);
            }
        }
        for (int round = 0; round < 20; round++) {
            long start = System.nanoTime();
            for (int i = 0; i < 2000; i++)
                try (Call call = module.call()) {
                    call.run();
                }
            fresh = Math.min(fresh, (System.nanoTime() - start) / 2000.0);
        }
        System.out.println(bound + " " + fresh);
    }

    public static void main(String[] arguments) throws InterruptedException {
        try (Module module = Module.open(Path.of(arguments[0]))) {
            if (arguments.length > 1) {
                if (arguments[1].equals("sizes")) sizes(module);
                else if (arguments[1].equals("keep")) keep(module);
                else time(module);
                return;
            }
            System.out.println("kiln " + Module.version() + " " + module.metadata("no such key"));
            run(module);
            shareThreads(module, arguments[0]);
            refuse(module, arguments[0]);
        }
    }
}
