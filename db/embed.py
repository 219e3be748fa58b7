"""Writes the numbered migrations as C arrays: embed.py OUT.c records/0001.sql ... tracker/0001.sql ..."""
import os
import sys


def main(out_path, paths):
    kinds = {}
    for path in sorted(paths):
        kind = os.path.basename(os.path.dirname(path))
        scripts = kinds.setdefault(kind, [])
        scripts.append(path)
        if os.path.basename(path) != "%04d.sql" % len(scripts):
            sys.exit("%s: migrations of a kind are numbered 0001.sql, 0002.sql, ... without a gap" % path)
    with open(out_path, "w") as out:
        out.write('#include "db/migrate.h"\n')
        for kind, scripts in sorted(kinds.items()):
            # Bytes, not literals: C promises string literals of 4095 characters only.
            for number, path in enumerate(scripts, 1):
                with open(path, "rb") as script:
                    values = ",".join(str(byte) for byte in script.read())
                out.write("\nstatic const char %s_%04d[] = {%s,0};\n" % (kind, number, values))
            names = ", ".join("%s_%04d" % (kind, number) for number in range(1, len(scripts) + 1))
            out.write("static const char *const %s_script[] = {%s};\n" % (kind, names))
        out.write("\nconst kiln_db_migrations kiln_db_migrations_of[] = {\n")
        for kind, scripts in sorted(kinds.items()):
            out.write("    [KILN_DB_%s] = {%s_script, %d},\n" % (kind.upper(), kind, len(scripts)))
        out.write("};\n")


main(sys.argv[1], sys.argv[2:])
