#!/usr/bin/env python3
"""Compiles Java sources and packs the classes with the library of 64-bit Android to an archive that Android's build tools
take as a dependency (https://developer.android.com/studio/projects/android-library#aar-contents).

aar.py OUT.aar JAVAC STRIP VERSION LEVEL LICENSE DOC LIBRARY.so SOURCE.java...

LEVEL    the oldest Android that may install it (minSdkVersion)
LICENSE  of Kiln
DOC      the folder with the licences of what LIBRARY.so is linked with, as Debian's packages have them
"""
import pathlib
import sys

import jar

MANIFEST = """\
<?xml version="1.0" encoding="utf-8"?>
<manifest xmlns:android="http://schemas.android.com/apk/res/android" package="kiln.android">
    <uses-sdk android:minSdkVersion="{level}"/>
</manifest>
"""
# For what shrinks and renames applications.
KEPT = """\
# kiln_jni.c finds these by their names.
-keep class kiln.Native { native <methods>; }
-keep class kiln.KilnException { static kiln.KilnException of(int, byte[]); }
"""
LINKED = {"libmd": "libmd-dev", "xxHash": "libxxhash-dev"}  # libraries, and Debian's packages of them


def main(out, javac, strip, version, level, licence, doc, library, *sources):
    members = {
        "AndroidManifest.xml": MANIFEST.format(level=level).encode(),
        "classes.jar": jar.archive(jar.classes(javac, version, sources)),
        "R.txt": b"",  # resources, of which it has none
        "proguard.txt": KEPT.encode(),
        "jni/arm64-v8a/libkiln-jni.so": jar.stripped(strip, library),
        "META-INF/LICENSE": pathlib.Path(licence).read_bytes(),
        **{f"META-INF/LICENSE.{name}": pathlib.Path(doc, package, "copyright").read_bytes() for name, package in LINKED.items()},
    }
    pathlib.Path(out).write_bytes(jar.archive(members))


if __name__ == "__main__":
    main(*sys.argv[1:])
