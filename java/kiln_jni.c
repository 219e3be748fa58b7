/* The library for Java: what java/kiln/Native.java declares. Handles are pointers in a long; Java
 * checks that they are open, and that buffers are direct and long enough, before it calls. */
#include <jni.h>

#include <string.h>

#include "base/alloc.h"
#include "base/macros.h"
#include "deploy/module.h"
#include "libkiln/version.h"

/* Where the buffers of a call lie: inputs, then outputs. */
typedef struct binding {
    int64_t size; /* of a module of several; 0: it has one */
    jsize input_count;
    void *pointer[];
} binding;

static kiln_module *module_of(jlong handle) { return (kiln_module *)(intptr_t)handle; }

static jbyteArray bytes_of(JNIEnv *env, const char *text) {
    const jsize size = text ? (jsize)strlen(text) : 0;
    jbyteArray array = text ? (*env)->NewByteArray(env, size) : NULL;
    if (array) (*env)->SetByteArrayRegion(env, array, 0, size, (const jbyte *)text);
    return array;
}

/* The exception of that code. Where one is on its way already, that one stays. */
static void throw_error(JNIEnv *env, int code, const char *text) {
    jclass class = (*env)->FindClass(env, "kiln/KilnException");
    jmethodID make =
        class ? (*env)->GetStaticMethodID(env, class, "of", "(I[B)Lkiln/KilnException;") : NULL;
    jbyteArray bytes = make ? bytes_of(env, text) : NULL;
    jthrowable error =
        bytes ? (*env)->CallStaticObjectMethod(env, class, make, (jint)code, bytes) : NULL;
    if (!(*env)->ExceptionCheck(env) && error) (*env)->Throw(env, error);
}

/* A text with its NUL, which the caller gives back by ReleaseByteArrayElements. */
static const char *text_of(JNIEnv *env, jbyteArray array) {
    return (const char *)(*env)->GetByteArrayElements(env, array, NULL);
}

static void release(JNIEnv *env, jbyteArray array, const char *text) {
    (*env)->ReleaseByteArrayElements(env, array, (jbyte *)text, JNI_ABORT);
}

static jbyteArray JNICALL native_version(JNIEnv *env, jclass class) {
    (void)class;
    return bytes_of(env, kiln_version());
}

static jlong JNICALL native_open(JNIEnv *env, jclass class, jbyteArray path, jint threads) {
    (void)class;
    const kiln_module_options options = {.threads = (uint32_t)threads};
    char error[KILN_MODULE_ERROR_BYTES] = "";
    kiln_module *module = NULL;
    const char *text = text_of(env, path);
    if (!text) return 0;
    const int code = kiln_module_open(text, &options, &module, error, sizeof error);
    release(env, path, text);
    if (code) throw_error(env, code, error);
    return code ? 0 : (jlong)(intptr_t)module;
}

static void JNICALL native_close(JNIEnv *env, jclass class, jlong module) {
    (void)env, (void)class;
    kiln_module_close(module_of(module));
}

static jint JNICALL native_threads(JNIEnv *env, jclass class, jlong module) {
    (void)env, (void)class;
    return (jint)kiln_module_threads(module_of(module));
}

static jbyteArray JNICALL native_metadata(JNIEnv *env, jclass class, jlong module, jbyteArray key) {
    (void)class;
    const char *text = text_of(env, key);
    if (!text) return NULL;
    const char *value = kiln_module_metadata(module_of(module), text);
    release(env, key, text);
    return bytes_of(env, value);
}

static const kiln_module_port *port_of(jlong module, jboolean output, jint index) {
    return output ? kiln_module_output(module_of(module), (uint32_t)index)
                  : kiln_module_input(module_of(module), (uint32_t)index);
}

static jint JNICALL native_portCount(JNIEnv *env, jclass class, jlong module, jboolean output) {
    (void)env, (void)class;
    return (jint)(output ? kiln_module_output_count(module_of(module))
                         : kiln_module_input_count(module_of(module)));
}

static jbyteArray JNICALL native_portName(JNIEnv *env, jclass class, jlong module, jboolean output,
                                          jint index) {
    (void)class;
    return bytes_of(env, port_of(module, output, index)->name);
}

static jint JNICALL native_portType(JNIEnv *env, jclass class, jlong module, jboolean output,
                                    jint index) {
    (void)env, (void)class;
    return (jint)port_of(module, output, index)->dtype;
}

static jlongArray JNICALL native_portShape(JNIEnv *env, jclass class, jlong module, jboolean output,
                                           jint index) {
    (void)class;
    const kiln_module_port *port = port_of(module, output, index);
    jlongArray shape = (*env)->NewLongArray(env, (jsize)port->rank);
    for (uint32_t d = 0; shape && d < port->rank; d++) {
        const jlong size = port->shape[d];
        (*env)->SetLongArrayRegion(env, shape, (jsize)d, 1, &size);
    }
    return shape;
}

static jlong JNICALL native_portBytes(JNIEnv *env, jclass class, jlong module, jboolean output,
                                      jint index) {
    (void)env, (void)class;
    return (jlong)port_of(module, output, index)->size_bytes;
}

/* Whether it takes all sizes (1 or 0), and its buckets; NULL: the module has one size. */
static jlongArray JNICALL native_sizes(JNIEnv *env, jclass class, jlong module) {
    (void)class;
    const kiln_module_size_info info = kiln_module_describe_sizes(module_of(module));
    const jlong takes_all = info.takes_all;
    jlongArray sizes = info.dim ? (*env)->NewLongArray(env, (jsize)info.bucket_count + 1) : NULL;
    if (!sizes) return NULL;
    (*env)->SetLongArrayRegion(env, sizes, 0, 1, &takes_all);
    for (uint32_t i = 0; i < info.bucket_count; i++) {
        const jlong size = info.bucket[i];
        (*env)->SetLongArrayRegion(env, sizes, (jsize)i + 1, 1, &size);
    }
    return sizes;
}

static void JNICALL native_setSize(JNIEnv *env, jclass class, jlong module, jlong size) {
    (void)class;
    const int code = kiln_module_set_size(module_of(module), size);
    if (code) throw_error(env, code, kiln_module_error(module_of(module)));
}

static void JNICALL native_keep(JNIEnv *env, jclass class, jlong module, jint input, jint output) {
    (void)class;
    const int code = kiln_module_keep(module_of(module), (uint32_t)input, (uint32_t)output);
    if (code) throw_error(env, code, kiln_module_error(module_of(module)));
}

static jboolean JNICALL native_isKept(JNIEnv *env, jclass class, jlong module, jboolean output,
                                      jint index) {
    (void)env, (void)class;
    return kiln_module_kept_with(module_of(module), output, (uint32_t)index) >= 0;
}

static void JNICALL native_reset(JNIEnv *env, jclass class, jlong module) {
    (void)class;
    const int code = kiln_module_reset(module_of(module));
    if (code) throw_error(env, code, kiln_module_error(module_of(module)));
}

static jlong JNICALL native_address(JNIEnv *env, jclass class, jobject direct) {
    (void)class;
    return (jlong)(intptr_t)(*env)->GetDirectBufferAddress(env, direct);
}

static void add_addresses(JNIEnv *env, jobjectArray buffers, void **out_pointer) {
    const jsize count = (*env)->GetArrayLength(env, buffers);
    for (jsize i = 0; i < count; i++) {
        jobject buffer = (*env)->GetObjectArrayElement(env, buffers, i);
        out_pointer[i] = buffer ? (*env)->GetDirectBufferAddress(env, buffer) : NULL; /* kept */
        (*env)->DeleteLocalRef(env, buffer);
    }
}

static jlong JNICALL native_bind(JNIEnv *env, jclass class, jlong module, jobjectArray inputs,
                                 jobjectArray outputs) {
    (void)class;
    const jsize input_count = (*env)->GetArrayLength(env, inputs),
                count = input_count + (*env)->GetArrayLength(env, outputs);
    binding *b = kiln_alloc(sizeof *b + (size_t)count * sizeof b->pointer[0]);
    b->size = kiln_module_describe_sizes(module_of(module)).size;
    b->input_count = input_count;
    add_addresses(env, inputs, b->pointer);
    add_addresses(env, outputs, b->pointer + input_count);
    return (jlong)(intptr_t)b;
}

static void JNICALL native_unbind(JNIEnv *env, jclass class, jlong handle) {
    (void)env, (void)class;
    kiln_free((void *)(intptr_t)handle);
}

static void JNICALL native_run(JNIEnv *env, jclass class, jlong module, jlong handle) {
    (void)class;
    const binding *b = (const binding *)(intptr_t)handle;
    int code = b->size ? kiln_module_set_size(module_of(module), b->size) : 0;
    if (!code)
        code = kiln_module_run(module_of(module), (const void *const *)b->pointer,
                               (void *const *)b->pointer + b->input_count);
    if (code) throw_error(env, code, kiln_module_error(module_of(module)));
}

/* ---- what Native.java declares --------------------------------------------------------------- */

#define ROW(name, signature) {#name, signature, (void *)native_##name}
static const JNINativeMethod natives[] = {
    ROW(version, "()[B"),
    ROW(open, "([BI)J"),
    ROW(close, "(J)V"),
    ROW(threads, "(J)I"),
    ROW(metadata, "(J[B)[B"),
    ROW(portCount, "(JZ)I"),
    ROW(portName, "(JZI)[B"),
    ROW(portType, "(JZI)I"),
    ROW(portShape, "(JZI)[J"),
    ROW(portBytes, "(JZI)J"),
    ROW(sizes, "(J)[J"),
    ROW(setSize, "(JJ)V"),
    ROW(keep, "(JII)V"),
    ROW(isKept, "(JZI)Z"),
    ROW(reset, "(J)V"),
    ROW(address, "(Ljava/nio/ByteBuffer;)J"),
    ROW(bind, "(J[Ljava/nio/ByteBuffer;[Ljava/nio/ByteBuffer;)J"),
    ROW(unbind, "(J)V"),
    ROW(run, "(JJ)V"),
};

JNIEXPORT jint JNICALL JNI_OnLoad(JavaVM *machine, void *reserved) {
    (void)reserved;
    JNIEnv *env = NULL;
    if ((*machine)->GetEnv(machine, (void **)&env, JNI_VERSION_1_6) != JNI_OK) return JNI_ERR;
    jclass class = (*env)->FindClass(env, "kiln/Native");
    if (!class || (*env)->RegisterNatives(env, class, natives, KILN_ARRAY_COUNT(natives)) != 0)
        return JNI_ERR;
    return JNI_VERSION_1_6;
}
