"""Writes the numbered migrations as C arrays: embed.py OUT.c .../BACKEND/KIND/0001.sql ..."""
import os
import sys


def main(out_path, paths):
    backends = {}
    for path in sorted(paths):
        backend, kind, name = os.path.abspath(path).split(os.sep)[-3:]
        scripts = backends.setdefault(backend, {}).setdefault(kind, [])
        scripts.append(path)
        if name != "%04d.sql" % len(scripts):
            sys.exit("%s: migrations of a kind are numbered 0001.sql, 0002.sql, ... without a gap" % path)
    with open(out_path, "w") as out:
        out.write('#include "db/backend.h"\n')
        for backend, kinds in sorted(backends.items()):
            write_backend(out, backend, kinds)


def write_backend(out, backend, kinds):
    for kind, scripts in sorted(kinds.items()):
        # Bytes, not literals: C promises string literals of 4095 characters only.
        for number, path in enumerate(scripts, 1):
            with open(path, "rb") as script:
                values = ",".join(str(byte) for byte in script.read())
            out.write("\nstatic const char %s_%s_%04d[] = {%s,0};\n" % (backend, kind, number, values))
        names = ", ".join("%s_%s_%04d" % (backend, kind, number) for number in range(1, len(scripts) + 1))
        out.write("static const char *const %s_%s_script[] = {%s};\n" % (backend, kind, names))
    out.write("\nconst kiln_db_migrations kiln_db_%s_migrations[] = {\n" % backend)
    for kind, scripts in sorted(kinds.items()):
        out.write("    [KILN_DB_%s] = {%s_%s_script, %d},\n" % (kind.upper(), backend, kind, len(scripts)))
    out.write("};\n")


main(sys.argv[1], sys.argv[2:])
