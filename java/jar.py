#!/usr/bin/env python3
"""Compiles Java sources and packs the classes with the library of this machine.

jar.py OUT.jar JAVAC STRIP VERSION LIBRARY.so SOURCE.java...
"""
import io
import pathlib
import platform
import subprocess
import sys
import tempfile
import zipfile

JAVA = "8"  # of the classes: those of 9 and later call methods of ByteBuffer that Android 9 and older lack
ARCH = {"x86_64": "amd64"}  # as the virtual machine says it (os.arch)


def classes(javac, version, sources):
    """Members of a jar: its manifest, which must be the first, and the classes."""
    manifest = f"Manifest-Version: 1.0\r\nAutomatic-Module-Name: kiln\r\nImplementation-Title: Kiln\r\nImplementation-Version: {version}\r\n\r\n"
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([javac, "--release", JAVA, "-Xlint:all,-serial,-options", "-Werror", "-encoding", "UTF-8", "-d", folder, *sources], check=True)
        compiled = sorted(pathlib.Path(folder).rglob("*.class"))
        return {"META-INF/MANIFEST.MF": manifest.encode(), **{path.relative_to(folder).as_posix(): path.read_bytes() for path in compiled}}


def stripped(strip, library):
    with tempfile.NamedTemporaryFile() as copy:
        subprocess.run([strip, "-o", copy.name, library], check=True)
        return pathlib.Path(copy.name).read_bytes()


def archive(members):
    """Bytes of an archive, the same for the same members."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as packed:
        for name, content in members.items():
            entry = zipfile.ZipInfo(name)  # of 1980
            entry.create_system, entry.external_attr, entry.compress_type = 3, 0o644 << 16, zipfile.ZIP_DEFLATED
            packed.writestr(entry, content)
    return out.getvalue()


def main(out, javac, strip, version, library, *sources):
    native = f"native/linux-{ARCH.get(platform.machine(), platform.machine())}/libkiln-jni.so"
    pathlib.Path(out).write_bytes(archive({**classes(javac, version, sources), native: stripped(strip, library)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
