#!/usr/bin/env python3
"""Makes the exception classes of the package from the table of errors.

errors.py STATUS.def OUT.py
"""
import pathlib
import re
import sys

HEAD = '''\
"""Errors: an exception class for each code, made from Kiln's table of errors."""
from typing import ClassVar


class Error(Exception):
    """The error that every function of this package raises for bad input, files, peers and devices.

    `name` and `number` are those of libkiln and of the exit codes' table of every program.
    """

    name: ClassVar[str] = ""
    number: ClassVar[int] = 0
'''

ONE = '''

class {name}(Error):
    """{meaning}."""

    name = "{code}"
    number = {number}
'''


def class_name(code):
    return "".join(word.capitalize() for word in code.split("_"))


def main(table, out):
    rows = re.findall(r'^X\((\w+), (\d+), (\d+), "([^"]*)"\)$', pathlib.Path(table).read_text(encoding="utf-8"), re.M)
    rows = [row for row in rows if row[1] != "0"]
    text = HEAD
    for code, number, _, meaning in rows:
        text += ONE.format(name=class_name(code), code=code, number=number, meaning=meaning[0].upper() + meaning[1:])
    listed = "".join(f"    {number}: {class_name(code)},\n" for code, number, _, _ in rows)
    exits = "".join(f"    {exit_code}: {class_name(code)},\n" for code, _, exit_code, _ in rows)
    text += f"\n\nBY_NUMBER: dict[int, type[Error]] = {{\n{listed}}}\n# What programs end with.\nBY_EXIT: dict[int, type[Error]] = {{\n{exits}}}\n"
    names = "".join(f'    "{class_name(code)}",\n' for code, _, _, _ in rows)
    text += f'\n__all__ = [\n    "Error",\n{names}]\n'
    pathlib.Path(out).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
