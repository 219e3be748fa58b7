"""Writes the files of a folder as a C array: embed.py FOLDER OUT.c OUT.d"""
import hashlib
import pathlib
import sys

TYPES = {
    ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml", ".png": "image/png", ".ico": "image/x-icon", ".json": "application/json",
    ".woff2": "font/woff2", ".txt": "text/plain; charset=utf-8",
}


def main(folder, out_path, depends_path):
    root = pathlib.Path(folder)
    files = sorted((path.relative_to(root).as_posix(), path) for path in root.rglob("*") if path.suffix in TYPES)
    with open(out_path, "w", encoding="utf-8") as out:
        out.write('#include "web/pages.h"\n\n')
        for number, (_, path) in enumerate(files):
            values = ",".join(str(byte) for byte in path.read_bytes())
            out.write(f"static const unsigned char page_{number}[] = {{{values}{',' if values else ''}0}};\n")
        out.write("\nconst kiln_page kiln_pages[] = {\n")
        for number, (name, path) in enumerate(files):
            etag = hashlib.sha256(path.read_bytes()).hexdigest()[:32]
            out.write(f'    {{"{name}", "{TYPES[path.suffix]}", "\\"{etag}\\"", (const char *)page_{number}, sizeof page_{number} - 1}},\n')
        out.write("    {0},\n};\n")
        out.write(f"const uint32_t kiln_page_count = {len(files)};\n")
    # The folders too: a file may come.
    folders = {root, *(path for path in root.rglob("*") if path.is_dir())}
    names = [str(path) for _, path in files] + sorted(str(path) for path in folders)
    with open(depends_path, "w", encoding="utf-8") as out:
        out.write(f"{out_path}: {' '.join(names)}\n")


main(*sys.argv[1:])
