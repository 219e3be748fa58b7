#!/usr/bin/env python3
"""Writes the manual page of a program from its --help text.

man.py OUT.1 VERSION NAME STATUS.def PROGRAM [ARGUMENT...]   asks PROGRAM ARGUMENT... --help
"""
import re
import subprocess
import sys


def escape(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.M)


def options(text):
    """(option with its metavariable, what it does) of the table at the end of a help text."""
    return re.findall(r"^  (-\S.*?)(?:  +|\n {26})(\S.*)$", text, re.M)


def exit_codes(path):
    """(exit code, meaning)"""
    rows = re.findall(r'^X\(\w+, \d+, (\d+), "([^"]*)"\)$', open(path, encoding="utf-8").read(), re.M)
    return sorted(rows, key=lambda row: int(row[0]))


def main(out, version, name, status, *command):
    text = subprocess.run([*command, "--help"], check=True, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"}).stdout
    head, _, table = text.partition("\noptions:\n")
    usage = re.search(r"^[Uu]sage: (.*)$", head, re.M)
    about = head.replace(usage.group(0), "").strip()
    first = re.split(r"(?<=[.:])\s", about, maxsplit=1)[0].rstrip(".:")
    lines = [f'.TH {name.upper().replace("-", chr(92) + "-")} 1 "" "Kiln {version}" "Kiln"', ".SH NAME",
             f"{escape(name)} \\- {escape(' '.join(first.split()))}", ".SH SYNOPSIS", f".B {escape(usage.group(1))}", ".SH DESCRIPTION"]
    for paragraph in about.split("\n\n"):
        listed = re.findall(r"^  (\S.*?) {2,}(\S.*)$", paragraph, re.M)
        if listed:
            lines += [part for term, does in listed for part in (".TP", f".B {escape(term)}", escape(does))]
        else:
            lines += [".PP", escape(" ".join(paragraph.split()))]
    found = options(table)
    if found:
        lines.append(".SH OPTIONS")
        lines += [part for option, does in found for part in (".TP", f".B {escape(option)}", escape(does))]
    lines.append(".SH EXIT STATUS")
    lines += [part for code, meaning in exit_codes(status) for part in (".TP", f".B {code}", escape(meaning))]
    with open(out, "w", encoding="utf-8") as page:
        page.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
