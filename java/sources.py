#!/usr/bin/env python3
"""Writes the Java sources that follow from tables of Kiln.

sources.py STATUS.def DTYPE.def OUT/KilnException.java OUT/DType.java
"""
import pathlib
import re
import sys

EXCEPTION = '''\
package kiln;

import java.nio.charset.StandardCharsets;

/** An error of Kiln, with its code. */
public class KilnException extends RuntimeException {{
    private final int code;

    KilnException(int code, String text) {{
        super(text);
        this.code = code;
    }}

    /** As in kiln/kiln.h. */
    public int code() {{
        return code;
    }}

    static KilnException of(int code, byte[] utf8) {{
        String text = new String(utf8, StandardCharsets.UTF_8);
        switch (code) {{
{cases}            default: return new KilnException(code, text); // of a newer library
        }}
    }}
{classes}}}
'''
CASE = "            case {number}: return new {name}(text);\n"
CLASS = '''
    /** {meaning}. */
    public static final class {name} extends KilnException {{
        {name}(String text) {{
            super({number}, text);
        }}
    }}
'''
DTYPE = '''\
package kiln;

/** Types of elements. */
public enum DType {{
{rows};

    private final int number;
    private final int bytes;

    DType(int number, int bytes) {{
        this.number = number;
        this.bytes = bytes;
    }}

    /** Of one element. */
    public int bytes() {{
        return bytes;
    }}

    static DType of(int number) {{
        for (DType type : values()) if (type.number == number) return type;
        throw new KilnException.Unimplemented("elements of type " + number + ", which a newer Kiln has");
    }}

    /** As Kiln prints it: "f32". */
    @Override
    public String toString() {{
        return name().toLowerCase();
    }}
}}
'''


def rows_of(path, pattern):
    return re.findall(pattern, pathlib.Path(path).read_text(encoding="utf-8"), re.M)


def class_name(code):
    return "".join(word.capitalize() for word in code.split("_"))


def main(status, dtype, exception_out, dtype_out):
    codes = [(class_name(name), number, meaning[0].upper() + meaning[1:])
             for name, number, meaning in rows_of(status, r'^X\((\w+), (\d+), \d+, "([^"]*)"\)') if number != "0"]
    pathlib.Path(exception_out).write_text(EXCEPTION.format(
        cases="".join(CASE.format(name=name, number=number) for name, number, _ in codes),
        classes="".join(CLASS.format(name=name, number=number, meaning=meaning) for name, number, meaning in codes)), encoding="utf-8")
    types = rows_of(dtype, r'^X\((\w+), "\w+", (\d+), \w+, \w+, (\d+)\)')
    pathlib.Path(dtype_out).write_text(DTYPE.format(rows=",\n".join(f"    {name}({number}, {size})" for name, size, number in types)), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
