#!/usr/bin/env python3
"""Makes the folder debian/ of a source tree, for dpkg-buildpackage, from packages.toml and the files beside it.

packages.py TREE VERSION EPOCH SUITE BUILD-DEPENDENCY...

VERSION is that of the packages, EPOCH the time of their changelog, SUITE the release of Debian that they are for. The build dependencies
come from the list in `dev`.
"""
import datetime
import email.utils
import os
import pathlib
import shutil
import sys
import textwrap
import tomllib

HERE = pathlib.Path(__file__).parent
# Whoever hands the packages on says who that is, as with Debian's other tools.
MAINTAINER = f"{os.environ.get('DEBFULLNAME', 'Kiln')} <{os.environ.get('DEBEMAIL', 'nobody@kiln.invalid')}>"
AS_THEY_ARE = ("rules", "copyright", "kiln-common.sysusers", "kiln-common.tmpfiles", "kiln-common.README.Debian", "not-installed")
# With --no-start debhelper does not stop services of a package that is removed (deploy/debian/rules).
STOPS_SERVICES = """#!/bin/sh
set -e

if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    deb-systemd-invoke stop {} > /dev/null || true
fi

#DEBHELPER#
"""
NOT_TO_BUILD = {"git", "build-essential", "clang-19", "clang-format-19", "libcmocka-dev", "libonnx-testdata", "libdnnl-dev"}


def read_table(tree):
    table = tomllib.loads((HERE / "packages.toml").read_text(encoding="utf-8"))
    return {name: row for name, row in table.items() if (tree / row.get("needs", ".")).exists()}


def describe(text):
    """The long description of a control file: lines that begin with a space, paragraphs with ' .' between them."""
    paragraphs = [textwrap.fill(" ".join(part.split()), 76, break_on_hyphens=False) for part in text.strip().split("\n\n")]
    return "\n".join(" " + line for line in "\n.\n".join(paragraphs).split("\n"))


def stanza(name, row):
    section = row.get("section", "libs" if "library" in row else "science")
    depends = ", ".join(part for part in ("" if row.get("architecture") == "all" else "${shlibs:Depends}", "${misc:Depends}", row.get("depends", "")) if part)
    fields = {"Package": name, "Section": section, "Architecture": row.get("architecture", "any"),
              "Multi-Arch": "same" if "library" in row else "foreign" if row.get("architecture") == "all" else None,
              "Depends": depends, "Recommends": row.get("recommends"), "Description": f"{row['summary']}\n{describe(row['text'])}"}
    if "library" in row:
        fields["Pre-Depends"] = "${misc:Pre-Depends}"
    return "\n".join(f"{key}: {value}" for key, value in fields.items() if value)


def write_control(debian, table, dependencies):
    needed = ["debhelper-compat (= 13)", "dh-python", "python3-dev", *(name for name in dependencies if name not in NOT_TO_BUILD)]
    source = {"Source": "kiln", "Section": "science", "Priority": "optional", "Maintainer": MAINTAINER, "Standards-Version": "4.6.2",
              "Rules-Requires-Root": "no", "Build-Depends": ",\n ".join(needed)}
    head = "\n".join(f"{key}: {value}" for key, value in source.items())
    (debian / "control").write_text("\n\n".join([head, *(stanza(*item) for item in table.items())]) + "\n", encoding="utf-8")


def pages_of(name, row, table):
    """Manual pages of a package: of each program, and with the command `kiln` those of its commands that are no program's."""
    pages = [f"usr/share/man/man1/{program}.1" for program in row.get("programs", [])]
    if name == "kiln":
        others = {program for other in table.values() for program in other.get("programs", [])}
        source = (HERE.parent.parent / "cli/commands.def").read_text(encoding="utf-8")
        names = [line.split('"')[1] for line in source.splitlines() if line.startswith("X(")]
        pages += [f"usr/share/man/man1/kiln-{command}.1" for command in names if f"kiln-{command}" not in others]
    return pages


def completions_of(row):
    """Debian's zsh looks into a folder of its own."""
    for program in row.get("programs", []):
        yield from (f"usr/share/bash-completion/completions/{program}", f"usr/share/fish/vendor_completions.d/{program}.fish",
                    f"usr/share/zsh/site-functions/_{program} usr/share/zsh/vendor-completions")


def write_lists(debian, tree, table):
    for name, row in table.items():
        files = [f"usr/bin/{program}" for program in row.get("programs", [])] + row.get("files", []) + pages_of(name, row, table) + [*completions_of(row)]
        if "library" in row:
            files.append(f"usr/lib/*/libkiln-{row['library']}.so.*")
        (debian / f"{name}.install").write_text("\n".join(files) + "\n", encoding="utf-8")
        for unit in row.get("units", []):
            shutil.copy(tree / "deploy/systemd" / unit, debian / f"{name}.{unit.rpartition('.')[2]}")
        if "units" in row:
            (debian / f"{name}.prerm").write_text(STOPS_SERVICES.format(" ".join(row["units"])), encoding="utf-8")
        for script in row.get("scripts", []):
            shutil.copy(HERE / f"{name}.{script}", debian)


def write_changelog(debian, version, epoch, suite):
    date = email.utils.format_datetime(datetime.datetime.fromtimestamp(int(epoch), datetime.timezone.utc))
    text = f"kiln ({version}) {suite}; urgency=medium\n\n  * Built by ./dev deb from the sources of this version.\n\n -- {MAINTAINER}  {date}\n"
    (debian / "changelog").write_text(text, encoding="utf-8")


def main(tree, version, epoch, suite, *dependencies):
    tree = pathlib.Path(tree)
    debian, table = tree / "debian", read_table(tree)
    shutil.rmtree(debian, ignore_errors=True)
    (debian / "source").mkdir(parents=True)
    (debian / "source/format").write_text("3.0 (native)\n", encoding="utf-8")
    for name in AS_THEY_ARE:
        shutil.copy(HERE / name, debian)
    for file in HERE.glob("*.lintian-overrides"):
        if file.name.removesuffix(".lintian-overrides") in table:
            shutil.copy(file, debian)
    write_control(debian, table, dependencies)
    write_lists(debian, tree, table)
    write_changelog(debian, version, epoch, suite)


if __name__ == "__main__":
    main(*sys.argv[1:])
