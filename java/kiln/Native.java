package kiln;

import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Arrays;

/** What java/kiln_jni.c has; its table of names and signatures follows the declarations here. Texts are UTF-8 with a NUL behind on the way down, without on the way up. */
final class Native {
    private Native() {}

    static {
        load();
    }

    /** The library of the path that the virtual machine was given, else the one in the jar, copied to a file that goes with it. */
    private static void load() {
        try {
            System.loadLibrary("kiln-jni");
            return;
        } catch (UnsatisfiedLinkError absent) {
            // then there is one in the jar
        }
        String place = "/native/" + System.getProperty("os.name").toLowerCase() + "-" + System.getProperty("os.arch") + "/libkiln-jni.so";
        try (InputStream library = Native.class.getResourceAsStream(place)) {
            if (library == null)
                throw new UnsatisfiedLinkError("this jar has no library for this machine (" + place + "); put libkiln-jni.so into java.library.path");
            Path file = Files.createTempFile("kiln-jni-", ".so");
            try {
                Files.copy(library, file, StandardCopyOption.REPLACE_EXISTING);
                System.load(file.toString());
            } finally {
                Files.delete(file); // what is loaded stays
            }
        } catch (IOException error) {
            throw new UnsatisfiedLinkError("copying the library out of the jar: " + error.getMessage());
        }
    }

    static byte[] text(String text) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        return Arrays.copyOf(bytes, bytes.length + 1);
    }

    static String string(byte[] utf8) {
        return utf8 == null ? null : new String(utf8, StandardCharsets.UTF_8);
    }

    static final int ALIGNMENT = 64; // of memory that a module takes as it is

    static ByteBuffer allocate(long bytes) {
        if (bytes > Integer.MAX_VALUE - ALIGNMENT)
            throw new KilnException.ResourceExhausted("a tensor of " + bytes + " bytes is more than a buffer of Java holds");
        ByteBuffer whole = ByteBuffer.allocateDirect((int) bytes + ALIGNMENT);
        int first = (int) (-address(whole) & (ALIGNMENT - 1));
        whole.position(first).limit(first + (int) bytes);
        return whole.slice().order(ByteOrder.nativeOrder());
    }

    static native byte[] version();

    static native long open(byte[] path, int threads);

    static native void close(long module);

    static native int threads(long module);

    static native byte[] metadata(long module, byte[] key);

    static native int portCount(long module, boolean output);

    static native byte[] portName(long module, boolean output, int index);

    static native int portType(long module, boolean output, int index);

    static native long[] portShape(long module, boolean output, int index);

    static native long portBytes(long module, boolean output, int index);

    static native long[] sizes(long module);

    static native void setSize(long module, long size);

    static native void keep(long module, int input, int output);

    static native boolean isKept(long module, boolean output, int index);

    static native void reset(long module);

    static native long address(ByteBuffer direct);

    static native long bind(long module, ByteBuffer[] inputs, ByteBuffer[] outputs);

    static native void unbind(long binding);

    static native void run(long module, long binding);
}
