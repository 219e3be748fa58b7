#!/usr/bin/env python3
"""Makes the parts of bindings that follow the compiler's tables: a function for each operator of expressions, and a method for each
primitive of schedules.

tables.py functions EXPRS.def OUT.py                        of kiln.te
tables.py steps PRIMS.def OUT.py                            of kiln.sched
tables.py header EXPRS.def PRIMS.def DTYPES.def IN OUT.hpp  of C++: fills the places of IN
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
    pattern = r"^X\(" + ", *".join([r'"?([^",()\n]*)"?'] * columns) + r"\)(?: */\* (.*?) \*/)?"
    found = re.findall(pattern, text, re.M)
    if len(found) != len(re.findall(r"^X\((?!name|NAME)", text, re.M)):
        raise SystemExit(f"{path}: a row is not understood")
    return found


def operators(table):
    """(name, word, parameters, what makes it, whether it gives a bool, what it says) of each; select takes types of its own."""
    for row, word, operands, kind, note in rows(table, 4):
        maker = {"BINARY": "infix", "COMPARE": "compared", "CALLED": "called"}.get(kind)
        if maker and operands != "3":
            given = ["a", "b"][:int(operands)]
            shown = f" {word} ".join(given) if maker != "called" else f"{word}({', '.join(given)})"
            yield row.lower(), word, given, maker, maker == "called" and "gives bool" in note, shown + (f": {note}" if note else "") + "."


def functions(table, out):
    text, names = FUNCTIONS, []
    for name, word, given, maker, gives_bool, doc in operators(table):
        name += "_" if keyword.iskeyword(name) else ""
        names.append(name)
        text += f'\ndef {name}({", ".join(f"{one}: Value" for one in given)}) -> Expr:\n    """{doc}"""\n'
        text += f'    return {maker}("{word}", {", ".join(given)}{", gives_bool=True" if gives_bool else ""})\n\n'
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


CXX_WORDS = {"and", "or", "not", "xor", "inline"}  # that C++ has itself


def cxx_functions(table):
    text = ""
    for name, word, given, maker, gives_bool, doc in operators(table):
        level = {"+": "detail::SUM, ", "-": "detail::SUM, ", "*": "detail::PRODUCT, ", "/": "detail::PRODUCT, "}.get(word, "") if maker == "infix" else ""
        call = f'detail::{maker}("{word}", {level}{", ".join(given)})'
        text += f"// {doc}\ninline Expr {name}{'_' if name in CXX_WORDS else ''}({', '.join(f'const Value &{one}' for one in given)}) {{\n"
        text += f"    return {f'detail::as_bool({call})' if gives_bool else call};\n}}\n"
    return text


def cxx_steps(table):
    text = ""
    for _, name, _, letters, kind, _, _ in rows(table, 6):
        declared, passed, written = [], [], []
        for at, letter in enumerate(letters):
            one = WORD[letter] + (str(letters[:at].count(letter) + 1) if letter in letters[:at] else "")
            kind_of = "const std::string &" if letter == "t" else f"const {TYPE[letter]} &"
            declared.append(f"std::initializer_list<{TYPE[letter]}> {one}" if letter.isupper() else kind_of + one)
            passed.append(one)
            written.append({"t": "quoted", "u": "this->buffer"}.get(letter, "list" if letter.isupper() else "operand") + f"({one})")
        line = f'"{name}(" + ' + ' + ", " + '.join(written) + ' + ")"'
        result = "Made"
        if kind == "SAMPLE":
            declared.append("std::initializer_list<std::int64_t> decision")
            passed.append("decision")
            letter = "t" if name == "perfect_tile" else name[0]
            call, result = f"sample('{letter}', {line}, decision)", "Sample"
        else:
            call = f"try_apply({line})"
        text += f"    Result<{result}> try_{name}({', '.join(declared)}) {{\n        return {call};\n    }}\n"
        text += f"#if KILN_EXCEPTIONS\n    {result} {name}{'_' if name in CXX_WORDS else ''}({', '.join(declared)}) {{\n"
        text += f"        return kiln::detail::take(try_{name}({', '.join(passed)}));\n    }}\n#endif\n"
    return text


def header(exprs, prims, dtypes, source, out):
    names = {int(number): word for _, word, _, _, _, number, _ in rows(dtypes, 6)}
    listed = ", ".join(f'"{names.get(number, "")}"' for number in range(max(names) + 1))
    text = pathlib.Path(source).read_text(encoding="utf-8")
    for place, filling in (("DTYPES", listed), ("FUNCTIONS", cxx_functions(exprs)), ("STEPS", cxx_steps(prims))):
        text = text.replace(f"@{place}@", filling)
    pathlib.Path(out).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    {"functions": functions, "steps": steps, "header": header}[sys.argv[1]](*sys.argv[2:])
