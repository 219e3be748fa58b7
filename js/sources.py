#!/usr/bin/env python3
"""Writes the parts of the JavaScript package that follow from tables of Kiln, and its package.json with the version.

sources.py VERSION STATUS.def package.json OUT/errors.js OUT/errors.d.ts OUT/package.json
"""
import json
import pathlib
import re
import sys

HEAD = """\
// What can go wrong: a class for each code, made of Kiln's table of errors.

/** What every function of this package throws. `code` and `number` are those of Kiln's programs and libraries. */
export class KilnError extends Error {
  get name() {
    return this.constructor.name;
  }
}
"""
CLASS = """
/** {meaning}. */
export class {name} extends KilnError {{
  code = '{code}';
  number = {number};
}}
"""
TYPES_HEAD = """\
/** What every function of this package throws. `code` and `number` are those of Kiln's programs and libraries. */
export class KilnError extends Error {
  readonly code: string;
  readonly number: number;
}
"""
TYPES_CLASS = "/** {meaning}. */\nexport class {name} extends KilnError {{}}\n"


def class_name(code):
    return "".join(word.capitalize() for word in code.split("_"))


def main(version, table, package, errors_out, types_out, package_out):
    rows = re.findall(r'^X\((\w+), (\d+), \d+, "([^"]*)"\)$', pathlib.Path(table).read_text(encoding="utf-8"), re.M)
    rows = [dict(name=class_name(code), code=code, number=number, meaning=meaning[0].upper() + meaning[1:])
            for code, number, meaning in rows if number != "0"]
    pathlib.Path(errors_out).write_text(HEAD + "".join(CLASS.format(**row) for row in rows), encoding="utf-8")
    pathlib.Path(types_out).write_text(TYPES_HEAD + "".join(TYPES_CLASS.format(**row) for row in rows), encoding="utf-8")
    content = {**json.loads(pathlib.Path(package).read_text(encoding="utf-8")), "version": version}
    pathlib.Path(package_out).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
