#!/usr/bin/env python3
"""Writes the parts of the JavaScript package that follow from tables of Kiln, and its package.json with the version.

sources.py VERSION STATUS.def package.json MESSAGES.def OUT/errors.js OUT/errors.d.ts OUT/package.json OUT/schema.js
"""
import json
import pathlib
import re
import sys

HEAD = """\
// Errors: a class for each code, made from Kiln's table of errors.

/** The error that every function of this package throws. `code` and `number` are those of Kiln's programs and libraries. */
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
/** The error that every function of this package throws. `code` and `number` are those of Kiln's programs and libraries. */
export class KilnError extends Error {
  readonly code: string;
  readonly number: number;
}
"""
TYPES_CLASS = "/** {meaning}. */\nexport class {name} extends KilnError {{}}\n"


SCHEMA = """\
// Messages between a board and its tracker, made from Kiln's table of messages.

/** By name: the type of the frame, and the record that the body is. */
export const MESSAGES = {messages};

/** By name: the fields, each [key, kind, name, record of lists and nests]. */
export const RECORDS = {records};
"""


def schema(table):
    """Messages that a board sends or gets, with the records inside of them."""
    text = re.sub(r"/\*.*?\*/", "", pathlib.Path(table).read_text(encoding="utf-8"), flags=re.S)
    fields, messages = {}, {}
    for kind, owner, key, first, second in re.findall(r"^(FIELD|NEST|LIST)\((\w+), (\d+), (\w+), (\w+),", text, re.M):
        row = [int(key), first, second] if kind == "FIELD" else [int(key), kind.lower(), second, first]
        fields.setdefault(owner, []).append(row)
    for name, number, record, senders, receivers in re.findall(r"^MESSAGE\((\w+), (\d+), (\w+), ([\w |]+), ([\w |]+),", text, re.M):
        if {"BOARD", "PEERS", "WORKERS"} & set(re.findall(r"\w+", senders + " " + receivers)):
            messages[name] = [int(number), record]
    wanted = [record for _, record in messages.values()]
    for record in wanted:
        wanted += [row[3] for row in fields.get(record, []) if len(row) == 4 and row[3] not in wanted]
    return SCHEMA.format(messages=json.dumps(messages, indent=2), records=json.dumps({name: fields.get(name, []) for name in wanted}))


def class_name(code):
    return "".join(word.capitalize() for word in code.split("_"))


def main(version, table, package, messages, errors_out, types_out, package_out, schema_out):
    rows = re.findall(r'^X\((\w+), (\d+), \d+, "([^"]*)"\)$', pathlib.Path(table).read_text(encoding="utf-8"), re.M)
    rows = [dict(name=class_name(code), code=code, number=number, meaning=meaning[0].upper() + meaning[1:])
            for code, number, meaning in rows if number != "0"]
    pathlib.Path(errors_out).write_text(HEAD + "".join(CLASS.format(**row) for row in rows), encoding="utf-8")
    pathlib.Path(types_out).write_text(TYPES_HEAD + "".join(TYPES_CLASS.format(**row) for row in rows), encoding="utf-8")
    pathlib.Path(schema_out).write_text(schema(messages), encoding="utf-8")
    content = {**json.loads(pathlib.Path(package).read_text(encoding="utf-8")), "version": version}
    pathlib.Path(package_out).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
