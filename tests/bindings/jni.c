/* A virtual machine of those functions of JNI that java/kiln_jni.c calls, for processors on which
 * no Java is installed.
 *
 * usage: jni LIBRARY            prints name and signature of each function that LIBRARY registers
 *        jni LIBRARY MODULE     runs MODULE, a product of 64 x 64 with constant weights */
#include <dlfcn.h>
#include <jni.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define N 64
#define ABSENT 5 /* NOT_FOUND of base/status.def */

/* Every object is a row of elements; of a direct buffer, its memory. */
typedef struct object {
    jsize count;
    size_t element_bytes;
    void *data;
} object;

static void fail(const char *what) {
    fprintf(stderr, "jni: %s\n", what);
    exit(1);
}

static object *row(jsize count, size_t element_bytes) {
    object *made = malloc(sizeof *made);
    void *data = calloc((size_t)count + 1, element_bytes);
    if (!made || !data) fail("no memory");
    *made = (object){count, element_bytes, data};
    return made;
}

static object *object_of(jobject reference) { return (object *)(void *)reference; }

/* ---- what the library calls ------------------------------------------------------------------ */

static JNINativeMethod methods[64];
static jint method_count;
static jint thrown = -1; /* code of the exception, as KilnException.of was given it; -1: none */

static jclass JNICALL find_class(JNIEnv *env, const char *name) {
    (void)env;
    return strcmp(name, "kiln/Native") && strcmp(name, "kiln/KilnException") ? NULL
                                                                             : (jclass)row(0, 1);
}

static jint JNICALL register_natives(JNIEnv *env, jclass class, const JNINativeMethod *method,
                                     jint count) {
    (void)env, (void)class;
    if ((size_t)count > COUNT(methods)) return JNI_ERR;
    memcpy(methods, method, (size_t)count * sizeof *method);
    method_count = count;
    return 0;
}

static jmethodID JNICALL get_static_method(JNIEnv *env, jclass class, const char *name,
                                           const char *signature) {
    (void)env, (void)class;
    return strcmp(name, "of") || strcmp(signature, "(I[B)Lkiln/KilnException;")
               ? NULL
               : (jmethodID)(void *)row(0, 1);
}

static jobject JNICALL call_static_object(JNIEnv *env, jclass class, jmethodID method, ...) {
    (void)env, (void)class;
    va_list arguments;
    va_start(arguments, method);
    thrown = va_arg(arguments, jint);
    va_end(arguments);
    return (jobject)row(0, 1);
}

static jint JNICALL throw_object(JNIEnv *env, jthrowable error) {
    (void)env, (void)error;
    return 0;
}

static jboolean JNICALL no_exception(JNIEnv *env) {
    (void)env;
    return JNI_FALSE;
}

static jbyteArray JNICALL new_bytes(JNIEnv *env, jsize count) {
    (void)env;
    return (jbyteArray)row(count, sizeof(jbyte));
}

static void JNICALL set_bytes(JNIEnv *env, jbyteArray array, jsize start, jsize count,
                              const jbyte *from) {
    (void)env;
    memcpy((jbyte *)object_of(array)->data + start, from, (size_t)count);
}

static jbyte *JNICALL get_bytes(JNIEnv *env, jbyteArray array, jboolean *is_copy) {
    (void)env;
    if (is_copy) *is_copy = JNI_FALSE;
    return object_of(array)->data;
}

static void JNICALL release_bytes(JNIEnv *env, jbyteArray array, jbyte *bytes, jint mode) {
    (void)env, (void)array, (void)bytes, (void)mode;
}

static jlongArray JNICALL new_longs(JNIEnv *env, jsize count) {
    (void)env;
    return (jlongArray)row(count, sizeof(jlong));
}

static void JNICALL set_longs(JNIEnv *env, jlongArray array, jsize start, jsize count,
                              const jlong *from) {
    (void)env;
    memcpy((jlong *)object_of(array)->data + start, from, (size_t)count * sizeof *from);
}

static jsize JNICALL length(JNIEnv *env, jarray array) {
    (void)env;
    return object_of(array)->count;
}

static jobject JNICALL element(JNIEnv *env, jobjectArray array, jsize index) {
    (void)env;
    return ((jobject *)object_of(array)->data)[index];
}

static void JNICALL delete_reference(JNIEnv *env, jobject reference) { (void)env, (void)reference; }

static void *JNICALL direct_address(JNIEnv *env, jobject buffer) {
    (void)env;
    return object_of(buffer)->data;
}

static const struct JNINativeInterface_ functions = {
    .FindClass = find_class,
    .RegisterNatives = register_natives,
    .GetStaticMethodID = get_static_method,
    .CallStaticObjectMethod = call_static_object,
    .Throw = throw_object,
    .ExceptionCheck = no_exception,
    .NewByteArray = new_bytes,
    .SetByteArrayRegion = set_bytes,
    .GetByteArrayElements = get_bytes,
    .ReleaseByteArrayElements = release_bytes,
    .NewLongArray = new_longs,
    .SetLongArrayRegion = set_longs,
    .GetArrayLength = length,
    .GetObjectArrayElement = element,
    .DeleteLocalRef = delete_reference,
    .GetDirectBufferAddress = direct_address,
};
static JNIEnv environment = &functions;

static jint JNICALL get_environment(JavaVM *machine, void **out, jint version) {
    (void)machine, (void)version;
    *out = &environment;
    return JNI_OK;
}

static const struct JNIInvokeInterface_ invocation = {.GetEnv = get_environment};

/* ---- what a program in Java would call ------------------------------------------------------- */

static void *method(const char *name) {
    for (jint i = 0; i < method_count; i++)
        if (strcmp(methods[i].name, name) == 0) return methods[i].fnPtr;
    fail(name);
    return NULL;
}

static jlong open_module(const char *path) {
    jlong(JNICALL * open)(JNIEnv *, jclass, jbyteArray, jint);
    *(void **)&open = method("open");
    object *text = row((jsize)strlen(path) + 1, 1);
    memcpy(text->data, path, strlen(path));
    return open(&environment, NULL, (jbyteArray)text, 1);
}

/* A row with one direct buffer, for N x N numbers. */
static jobjectArray buffers(float **out_data) {
    object *buffer = row(N * N, sizeof(float)), *list = row(1, sizeof(jobject));
    *(jobject *)list->data = (jobject)buffer;
    *out_data = buffer->data;
    return (jobjectArray)list;
}

static void run_module(const char *path) {
    jlong(JNICALL * bind)(JNIEnv *, jclass, jlong, jobjectArray, jobjectArray);
    jlongArray(JNICALL * shape)(JNIEnv *, jclass, jlong, jboolean, jint);
    void(JNICALL * run)(JNIEnv *, jclass, jlong, jlong);
    void(JNICALL * end)(JNIEnv *, jclass, jlong);
    float *x, *y, weights[N][N];
    *(void **)&bind = method("bind");
    *(void **)&shape = method("portShape");
    *(void **)&run = method("run");
    if (open_module("absent") || thrown != ABSENT) fail("a file that is absent was opened");
    thrown = -1;
    const jlong module = open_module(path);
    if (!module) fail("the module was refused");
    const object *sizes = object_of(shape(&environment, NULL, module, JNI_TRUE, 0));
    if (sizes->count != 2 || ((jlong *)sizes->data)[1] != N) fail("other shapes");
    jobjectArray inputs = buffers(&x), outputs = buffers(&y);
    const jlong binding = bind(&environment, NULL, module, inputs, outputs);
    for (size_t i = 0; i < N; i++) x[i * N + i] = 1; /* of the unit matrix it is the weights */
    run(&environment, NULL, module, binding);
    memcpy(weights, y, sizeof weights);
    for (size_t i = 0; i < N * N; i++) x[i] = 1; /* of ones their sums */
    run(&environment, NULL, module, binding);
    for (size_t j = 0; j < N; j++) {
        float sum = 0;
        for (size_t i = 0; i < N; i++) sum += weights[i][j];
        if (fabsf(sum - y[5 * N + j]) > 1e-4f || sum == 0) fail("another product");
    }
    if (thrown >= 0) fail("an exception");
    *(void **)&end = method("unbind");
    end(&environment, NULL, binding);
    *(void **)&end = method("close");
    end(&environment, NULL, module);
    puts("product");
}

int main(int argc, char **argv) {
    JavaVM machine = &invocation;
    jint(JNICALL * load)(JavaVM *, void *);
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library) fail(argc > 1 ? dlerror() : "usage: jni LIBRARY [MODULE]");
    *(void **)&load = dlsym(library, "JNI_OnLoad");
    if (!load || load(&machine, NULL) != JNI_VERSION_1_6) fail("JNI_OnLoad");
    if (argc > 2) {
        run_module(argv[2]);
        return 0;
    }
    for (jint i = 0; i < method_count; i++)
        printf("%s %s\n", methods[i].name, methods[i].signature);
    return 0;
}
