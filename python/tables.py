#!/usr/bin/env python3
"""Makes what kiln.te and kiln.sched have per row of the compiler's tables.

tables.py functions EXPRS.def OUT.py   a function for each operator of expressions
tables.py steps PRIMS.def OUT.py       a method for each primitive of schedules
"""
import keyword
import pathlib
import re
import sys

FUNCTIONS = '''\
"""Operators of expressions, one function a row of Kiln's table of them."""
from kiln._expr import Expr, Value, called, compared, infix

'''

STEPS = '''\
"""Primitives of schedules, one method a row of Kiln's table of them."""
from typing import Sequence

from kiln._step import Int, Made, Name, Sample, StepsBase


class Steps(StepsBase):
    """Each applies at once, or raises with the reason. Loops, blocks and buffers are given by name, as the program
    calls them; tensors of the operator also by their own."""
'''

WORD = {"b": "block", "l": "loop", "u": "buffer", "i": "value", "t": "text", "I": "values", "L": "loops"}
TYPE = {"b": "Name", "l": "Name", "u": "Name", "i": "Int", "t": "str", "I": "Int", "L": "Name"}


def rows(path, columns):
    """Columns of each row and the comment behind it."""
    text = pathlib.Path(path).read_text(encoding="utf-8")
    pattern = r"^X\(" + ", *".join([r'"?([^",]*)"?'] * columns) + r"\)(?: */\* (.*?) \*/)?"
    found = re.findall(pattern, text, re.M)
    if len(found) != len(re.findall(r"^X\((?!name|NAME)", text, re.M)):
        raise SystemExit(f"{path}: a row is not understood")
    return found


def functions(table, out):
    text, names = FUNCTIONS, []
    for row, word, operands, kind, note in rows(table, 4):
        name = row.lower() + ("_" if keyword.iskeyword(row.lower()) else "")
        maker = {"BINARY": "infix", "COMPARE": "compared", "CALLED": "called"}.get(kind)
        if not maker or operands == "3":  # select takes types of its own
            continue
        given = ["a", "b"][:int(operands)]
        shown = f" {word} ".join(given) if maker != "called" else f"{word}({', '.join(given)})"
        doc = shown + (f": {note}" if note else "") + "."
        more = ", gives_bool=True" if maker == "called" and "gives bool" in note else ""
        names.append(name)
        text += f'\ndef {name}({", ".join(f"{one}: Value" for one in given)}) -> Expr:\n    """{doc}"""\n'
        text += f'    return {maker}("{word}", {", ".join(given)}{more})\n\n'
    text += "\n__all__ = [\n" + "".join(f'    "{name}",\n' for name in names) + "]\n"
    pathlib.Path(out).write_text(text, encoding="utf-8")


def parameters(letters):
    """Declared and passed on."""
    declared, passed = [], []
    for at, letter in enumerate(letters):
        count = letters[:at].count(letter)
        name = WORD[letter] + (str(count + 1) if count else "")
        star = "*" if letter.isupper() else ""
        declared.append(f"{star}{name}: {TYPE[letter]}")
        passed.append(star + name)
    return declared, passed


def steps(table, out):
    text = STEPS
    for _, name, _, letters, kind, _, note in rows(table, 6):
        declared, passed = parameters(letters)
        samples = kind == "SAMPLE"
        if samples:
            declared += ([] if "*" in "".join(declared) else ["*"]) + ["decision: int | Sequence[int]"]
        doc = (note or name).replace("\\", "\\\\") + "."
        text += f'\n    def {name}(self, {", ".join(declared)}) -> {"Sample" if samples else "Made"}:\n        """{doc}"""\n'
        operands = ", ".join(passed) + ("," if len(passed) == 1 else "")
        call = f'self._sample("{name}", "{letters}", ({operands}), decision)' if samples else f'self._step("{name}", "{letters}", ({operands}))'
        text += f"        return {call}\n"
    pathlib.Path(out).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    {"functions": functions, "steps": steps}[sys.argv[1]](*sys.argv[2:])
