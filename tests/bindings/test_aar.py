#!/usr/bin/env python3
"""The archive for Android, as `./dev aar` makes it. A folder with the layout of an NDK stands in for one: its compiler is
Debian's clang over Debian's C library for 64-bit ARM. So what the library asks of a C library is compared with what
Android's has."""
import functools
import hashlib
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
import zipfile

import harness
from test_install import module_of, run

ROOT = pathlib.Path(__file__).resolve().parents[2]
VERSION = os.environ["KILN_VERSION"]
HERE = pathlib.Path(__file__).parent
SYSROOT = ROOT / "build-sysroot"
LEVEL = 26  # the oldest Android that is served
LIBRARY = "jni/arm64-v8a/libkiln-jni.so"
MEMBERS = {"AndroidManifest.xml", "classes.jar", "R.txt", "proguard.txt", LIBRARY, "META-INF/LICENSE", "META-INF/LICENSE.libmd", "META-INF/LICENSE.xxHash"}
CLASS_VERSION = 52  # Java 8
PAGE_BYTES = 16384

# What Kiln's library may ask of Android's C libraries on 64-bit ARM, by the level that brought it (the first with such
# processors is 21). Source: libc/libc.map.txt, libm/libm.map.txt and libdl/libdl.map.txt of Android's bionic.
BIONIC = {
    21: """
        __errno __stack_chk_fail __stack_chk_guard _exit abort access bsearch calloc cfmakeraw cfsetispeed cfsetospeed clock_gettime clock_nanosleep close closedir
        connect dlerror dlopen dlsym environ fchmod flock fork fprintf free fstat64 fsync ftruncate64 getauxval getenv geteuid gethostname getpid getprogname
        getrlimit64 gmtime_r ldexp madvise memchr memcmp memcpy memmove memset mkdir mkdtemp mmap64 mprotect msync munmap nftw64 open64 openat64 opendir poll
        posix_memalign pread64 pthread_cond_broadcast pthread_cond_destroy pthread_cond_init pthread_cond_signal pthread_cond_wait pthread_create pthread_join
        pthread_mutex_destroy pthread_mutex_init pthread_mutex_lock pthread_mutex_unlock pthread_sigmask pwrite64 qsort raise read readdir64 realloc remove rename
        rmdir sched_setaffinity sched_yield setrlimit64 sigdelset sigfillset snprintf socket stat64 strchr strcmp strcpy strerror strftime strlen strncmp strrchr
        strspn strstr strtod syscall sysconf tcgetattr tcsetattr unlink vsnprintf waitpid write

        acos acosf acosh acoshf asin asinf asinh asinhf atan atan2 atan2f atanf atanh atanhf cbrt cbrtf ceil ceilf copysign copysignf cos cosf cosh coshf erf erfc
        erfcf erff exp exp2 exp2f expf expm1 expm1f fabs fabsf floor floorf fma fmaf fmax fmaxf fmin fminf fmod fmodf frexpf hypot ldexpf lgamma lgammaf log log10 log10f
        log1p log1pf log2 log2f logf nearbyint nearbyintf pow powf remainder remainderf rint rintf round roundf sin sinf sinh sinhf sqrt sqrtf tan tanf tanh tanhf
        tgamma tgammaf trunc truncf""",
    23: "stderr",
}
GLIBC = {"__errno_location": "__errno", "malloc_trim": None}  # what it has in place of the other's; None: behind #ifdef __GLIBC__
COMPILER = {"__clear_cache"}  # of its own library, which is linked in

CLANG = """\
#!/bin/sh
exec clang-19 --target=aarch64-linux-gnu --ld-path=/usr/bin/ld.lld-19 -mno-outline-atomics -fno-builtin-bcmp -D__ANDROID__ -include {include}/android.h \
-isystem {java}/include -isystem {java}/include/linux --start-no-unused-arguments -Wl,-z,max-page-size=4096 --end-no-unused-arguments "$@"
"""


def needs(*programs):
    for program in programs:
        if not shutil.which(program):
            raise harness.Skip(f"{program} was not there")


def java_home():
    return pathlib.Path(shutil.which("javac")).resolve().parents[1]


def make_ndk(folder):
    """The layout of an NDK, as far as ./dev and meson ask for it."""
    bin_folder = folder / "toolchains/llvm/prebuilt/linux-x86_64/bin"
    bin_folder.mkdir(parents=True)
    for tool in ("ar", "objcopy", "strip"):
        (bin_folder / f"llvm-{tool}").symlink_to(shutil.which(f"llvm-{tool}-19"))
    (folder / "android.h").write_text("const char *getprogname(void);\n")
    clang = bin_folder / f"aarch64-linux-android{LEVEL}-clang"
    clang.write_text(CLANG.format(include=folder, java=java_home()))
    clang.chmod(0o755)
    return folder


def make_checkout(folder):
    """The sources below a root of their own, so that nothing is written into this one."""
    folder.mkdir()
    for entry in ROOT.iterdir():
        if not entry.name.startswith((".", "build", "dist", "dev")):
            (folder / entry.name).symlink_to(entry)
    shutil.copy(ROOT / "dev", folder)
    (folder / "build-sysroot").mkdir()
    for name in ("aarch64", "aarch64.packages"):
        (folder / "build-sysroot" / name).symlink_to(SYSROOT / name)
    return folder


@functools.cache
def made():
    """A checkout in which the archive was made, and the NDK; they go with this process."""
    needs("clang-19", "ld.lld-19", "javac", "aarch64-linux-gnu-gcc")
    if not (SYSROOT / "aarch64.packages").exists():
        raise harness.Skip("libraries for 64-bit ARM were not there: ./dev cross aarch64")
    place = tempfile.TemporaryDirectory(prefix="kiln-aar-")
    root = pathlib.Path(place.name)
    checkout, ndk = make_checkout(root / "kiln"), make_ndk(root / "ndk")
    said = run(checkout / "dev", "aar", "--ndk", ndk)
    assert said.endswith(f"dist/kiln-{VERSION}.aar\n"), said
    return checkout, ndk, place


def archive():
    return zipfile.ZipFile(made()[0] / f"dist/kiln-{VERSION}.aar")


def library():
    return made()[0] / "build-android-arm64/java/libkiln-jni.so"


def symbols(*paths):
    """Names that objects and libraries use, and those that they have."""
    rows = re.findall(r"(GLOBAL|WEAK) +\S+ +(?:\[.*?\] +)?(\S+) (\w+)", run("readelf", "--syms", "--dyn-syms", "--wide", *paths))
    return {name for bind, index, name in rows if index == "UND" and bind == "GLOBAL"}, {name for _, index, name in rows if index != "UND"}


def undefined(*paths):
    """Names that objects or libraries leave to others."""
    used, there = symbols(*paths)
    return used - there


def check_names(names):
    """Each is one of Android's C library of that level."""
    there = {name for level, words in BIONIC.items() if level <= LEVEL for name in words.split()}
    missing = {GLIBC.get(name, name) for name in names} - {None} - there - COMPILER
    assert not missing, f"Android {LEVEL} is not known to have {sorted(missing)}; look them up in bionic's maps and add them, or do without"


def test_the_library_asks_for_nothing_that_android_lacks(world):
    """What this machine's library asks for, where there is no compiler for the other one."""
    built = harness.PROGRAMS / "java/libkiln-jni.so"
    check_names(undefined(built if built.exists() else harness.PROGRAMS / "libkiln/libkiln-run.so"))


def test_the_archive_has_what_android_takes(world):
    packed = archive()
    assert {*packed.namelist()} == MEMBERS, packed.namelist()
    manifest = xml.etree.ElementTree.fromstring(packed.read("AndroidManifest.xml"))
    assert manifest.tag == "manifest" and re.fullmatch(r"\w+(\.\w+)+", manifest.get("package")), manifest.attrib
    assert manifest.find("uses-sdk").attrib == {"{http://schemas.android.com/apk/res/android}minSdkVersion": str(LEVEL)}
    assert packed.read("META-INF/LICENSE") == (ROOT / "LICENSE").read_bytes()
    classes = zipfile.ZipFile(io.BytesIO(packed.read("classes.jar")))
    compiled = [name for name in classes.namelist() if name.endswith(".class")]
    assert {*classes.namelist()} - {*compiled} == {"META-INF/MANIFEST.MF"} and "kiln/Module.class" in compiled, compiled
    assert {int.from_bytes(classes.read(name)[6:8], "big") for name in compiled} == {CLASS_VERSION}
    for kept in re.findall(r"-keep class (\S+) ", packed.read("proguard.txt").decode()):
        assert kept.replace(".", "/") + ".class" in compiled, kept


def test_the_library_is_one_that_android_loads(world):
    path = pathlib.Path(world.path("libkiln-jni.so"))
    path.write_bytes(archive().read(LIBRARY))
    said = run("readelf", "--file-header", "--dynamic", "--program-headers", "--wide", path)
    assert re.search(r"Machine: +AArch64", said) and re.search(r"Type: +DYN", said), said
    assert re.search(r"SONAME.*\[libkiln-jni\.so\]", said) and "TEXTREL" not in said, said
    assert {re.match(r"\w+", name)[0] for name in re.findall(r"NEEDED.*\[(.*)\]", said)} <= {"libc", "libm", "libdl"}, said
    aligned = re.findall(r"^ +LOAD .* (0x\w+)$", said, re.M)
    assert aligned and all(int(bytes_, 16) >= PAGE_BYTES for bytes_ in aligned), said
    assert not re.search(r"^ +LOAD .* RWE ", said, re.M) and re.search(r"GNU_STACK .* RW ", said), said
    assert not re.search(r"\[.*\] \.(symtab|debug)", run("readelf", "--sections", "--wide", path)), "it is not stripped"
    assert re.findall(r"GLOBAL +DEFAULT +\d+ (\w+)", run("readelf", "--dyn-syms", "--wide", path)) == ["JNI_OnLoad"]


def test_no_object_asks_for_what_android_lacks(world):
    """All that is compiled, also what is not linked in: the NDK declares no function that its Android lacks."""
    build = made()[0] / "build-android-arm64"
    objects = [build / name for name in ("base/libkiln_base.a", "deploy/runtime/libkiln_runtime.a", "libkiln/libkiln-run-part.a")]
    _, digests = symbols(SYSROOT / "aarch64/usr/lib/aarch64-linux-gnu/libmd.a")
    check_names(undefined(library()) | undefined(*objects) - digests)


def test_two_builds_are_the_same_bytes(world):
    checkout, ndk, _ = made()
    first = hashlib.sha256((checkout / f"dist/kiln-{VERSION}.aar").read_bytes()).hexdigest()
    shutil.rmtree(checkout / "build-android-arm64/java")
    run(checkout / "dev", "aar", env={**os.environ, "ANDROID_NDK": str(ndk)})
    assert hashlib.sha256((checkout / f"dist/kiln-{VERSION}.aar").read_bytes()).hexdigest() == first


def virtual_machine(world):
    run("aarch64-linux-gnu-gcc", "-Wall", "-Wextra", "-Werror", "-o", world.path("jni"), HERE / "jni.c", "-isystem", java_home() / "include",
        "-isystem", java_home() / "include/linux", "-lm")
    return ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", world.path("jni"), library()]


def test_it_registers_the_native_methods_of_the_classes(world):
    needs("qemu-aarch64", "javap")
    registered = run(*virtual_machine(world)).splitlines()
    jar = pathlib.Path(world.path("classes.jar"))
    jar.write_bytes(archive().read("classes.jar"))
    shown = run("javap", "-p", "-s", "-cp", jar, "kiln.Native")
    declared = re.findall(r"native .* (\w+)\(.*\);\n +descriptor: (\S+)", shown)
    assert sorted(registered) == sorted(" ".join(pair) for pair in declared) and declared, shown


def test_it_runs_a_module(world):
    needs("qemu-aarch64")
    made()
    assert run(*virtual_machine(world), module_of(world, "--target", "android-arm64")) == "product\n"


def test_what_is_no_ndk_is_refused(world):
    checkout = make_checkout(pathlib.Path(world.path("kiln")))
    before = sorted(checkout.rglob("*"))
    for words, code, says in ((["aar"], 17, "no NDK is named"), (["aar", "--ndk", "absent"], 13, "absent is no NDK"), (["aar", "absent"], 2, "usage: ./dev aar")):
        done = subprocess.run([checkout / "dev", *words], capture_output=True, text=True, env={**os.environ, "ANDROID_NDK": ""})
        assert done.returncode == code and says in done.stderr and len(done.stderr.splitlines()) == 1, (words, done)
    assert sorted(checkout.rglob("*")) == before


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
