#!/usr/bin/env python3
"""Packs programs for boards into an archive of a release (docs/reference/release.md).

archive.py OUT.tar.zst NAME VERSION ARCH EPOCH [MODE:NAME-IN-ARCHIVE=FILE]...

The same files give the same bytes: no name, time or owner of this machine gets in.
"""
import hashlib
import io
import pathlib
import re
import subprocess
import sys
import tarfile

NAME_MAX = 100
ARCHIVE_MAX = 256 << 20


def add(tar, name, mode, content, epoch):
    member = tarfile.TarInfo(name)
    member.mode, member.size, member.mtime = mode, len(content), epoch
    tar.addfile(member, io.BytesIO(content))


def read_members(words):
    """(name, mode, content), sorted by name."""
    for word in words:
        mode, name, file = re.fullmatch(r"([0-7]{3}):([A-Za-z0-9._/-]+)=(.+)", word).groups()
        if name.startswith("/") or {".", "..", ""} & set(name.split("/")):
            sys.exit(f"archive.py: {name} is no name in an archive")
        yield name, int(mode, 8), pathlib.Path(file).read_bytes()


def make_manifest(name, version, arch, members):
    lines = ["kiln release 1", f"name {name}", f"version {version}", f"arch {arch}"]
    lines += [f"file {mode:o} {len(content)} {hashlib.sha256(content).hexdigest()} {member}" for member, mode, content in members]
    return ("\n".join(lines) + "\n").encode()


def main(out, name, version, arch, epoch, *words):
    members = sorted(read_members(words))
    folder = f"{name}-{version}-{arch}"
    if any(len(f"{folder}/{member}") > NAME_MAX for member, _, _ in members):
        sys.exit(f"archive.py: a name has more than {NAME_MAX} bytes")
    plain = pathlib.Path(out).with_suffix("")  # .tar
    with tarfile.open(plain, "w", format=tarfile.USTAR_FORMAT) as tar:
        add(tar, f"{folder}/MANIFEST", 0o644, make_manifest(name, version, arch, members), int(epoch))
        for member, mode, content in members:
            add(tar, f"{folder}/{member}", mode, content, int(epoch))
    subprocess.run(["zstd", "-q", "-19", "--single-thread", "-f", "--rm", "-o", out, plain], check=True)
    if pathlib.Path(out).stat().st_size > ARCHIVE_MAX:
        sys.exit(f"archive.py: {out} has more than {ARCHIVE_MAX} bytes")


if __name__ == "__main__":
    main(*sys.argv[1:])
