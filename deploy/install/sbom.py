#!/usr/bin/env python3
"""Lists what is inside static programs, as SPDX 2.3 in JSON: each Debian package that the linker took code from or whose headers of the
sysroot were compiled, with its version.

sbom.py OUT.json NAME VERSION ARCH EPOCH BUILD-FOLDER SYSROOT PROGRAM...

PROGRAMs are targets of BUILD-FOLDER. Each is linked once more for the linker's map, which names every archive that it took a member of.
Archives of the sysroot belong to the packages that SYSROOT.origins lists; those of this machine to what dpkg says.
"""
import datetime
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile


def link_command(folder, program):
    """The command by which ninja links a program."""
    text = subprocess.run(["ninja", "-C", folder, "-t", "commands", program], check=True, capture_output=True, text=True).stdout
    return shlex.split(text.rstrip().splitlines()[-1])


def linked_files(folder, program):
    """Archives and objects outside of the build folder that code of the program comes from."""
    with tempfile.TemporaryDirectory() as place:
        command = link_command(folder, program)
        command[command.index("-o") + 1] = f"{place}/program"
        subprocess.run([*command, f"-Wl,-Map={place}/map"], check=True, cwd=folder, capture_output=True)
        text = pathlib.Path(f"{place}/map").read_text(encoding="utf-8", errors="replace")
    # Sections with a size that come from FILE(MEMBER) or FILE: what --gc-sections removed has none in the memory map.
    kept = text.split("Linker script and memory map", 1)[1]
    names = re.findall(r"^ (?:\S+\s+)?0x[0-9a-f]+\s+0x(?!0\s)[0-9a-f]+ (\S+?)(?:\([^()\s]+\))?$", kept, re.M)
    return {os.path.realpath(os.path.join(folder, name)) for name in names if name.endswith((".a", ".o"))}


def compiled_headers(folder):
    """What the objects of a build folder include, as ninja noted it."""
    text = subprocess.run(["ninja", "-C", folder, "-t", "deps"], check=True, capture_output=True, text=True).stdout
    return {os.path.realpath(os.path.join(folder, name)) for name in re.findall(r"^    (\S.*)$", text, re.M)}


def origins_of_sysroot(sysroot):
    """File -> (package, version, source), as `./dev cross` wrote them when it unpacked the packages."""
    rows = [line.split("\t") for line in pathlib.Path(f"{sysroot}.origins").read_text(encoding="utf-8").splitlines()]
    return {os.path.realpath(os.path.join(sysroot, file.lstrip("./"))): tuple(rest) for file, *rest in rows}


def origin_of_machine(file):
    """The same of a file of this machine; its name in dpkg's list may begin with /lib instead of /usr/lib."""
    for name in (file, file.removeprefix("/usr")):
        found = subprocess.run(["dpkg-query", "-S", name], capture_output=True, text=True)
        if found.returncode == 0:
            package = found.stdout.split(": ", 1)[0].split(",")[0]
            form = "${Package}\t${Version}\t${source:Package}"
            return tuple(subprocess.run(["dpkg-query", "-W", "-f", form, package], check=True, capture_output=True, text=True).stdout.split("\t"))
    sys.exit(f"sbom.py: no Debian package has {file}")


def linked_packages(folder, sysroot, programs):
    own, known = os.path.realpath(folder), origins_of_sysroot(sysroot)
    packages = {known[file] for file in compiled_headers(folder) if file in known}
    for program in programs:
        for file in linked_files(folder, program):
            if not file.startswith(own + os.sep):
                packages.add(known.get(file) or origin_of_machine(file))
    return sorted(packages)


def package_entry(package, version, source, arch):
    return {"SPDXID": f"SPDXRef-{re.sub('[^A-Za-z0-9.-]', '-', package)}", "name": package, "versionInfo": version,
            "supplier": "Organization: Debian", "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "licenseConcluded": "NOASSERTION",
            "licenseDeclared": "NOASSERTION", "copyrightText": "NOASSERTION", "sourceInfo": f"built from Debian's source package {source}",
            "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                              "referenceLocator": f"pkg:deb/debian/{package}@{version.replace(':', '%3A')}?arch={arch}&distro=bookworm"}]}


def file_entry(name, content):
    sums = [{"algorithm": kind, "checksumValue": hashlib.new(kind.lower(), content).hexdigest()} for kind in ("SHA1", "SHA256")]
    return {"SPDXID": f"SPDXRef-File-{name}", "fileName": f"./bin/{name}", "fileTypes": ["BINARY"], "checksums": sums,
            "licenseConcluded": "NOASSERTION", "licenseInfoInFiles": ["NOASSERTION"], "copyrightText": "NOASSERTION"}


def relation(one, kind, other):
    return {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}


def main(out, name, version, arch, epoch, folder, sysroot, *programs):
    contents = {os.path.basename(program): pathlib.Path(folder, program).read_bytes() for program in programs}
    files = [file_entry(*item) for item in sorted(contents.items())]
    own = {"SPDXID": "SPDXRef-Kiln", "name": name, "versionInfo": version, "supplier": "Organization: Kiln", "downloadLocation": "NOASSERTION",
           "filesAnalyzed": False, "licenseConcluded": "NOASSERTION", "licenseDeclared": "Apache-2.0", "copyrightText": "NOASSERTION"}
    libraries = [package_entry(*row, arch) for row in linked_packages(folder, sysroot, programs)]
    digest = hashlib.sha256(b"".join(contents[key] for key in sorted(contents))).hexdigest()
    document = {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"{name}-{version}-{arch}",
        "documentNamespace": f"https://spdx.org/spdxdocs/{name}-{version}-{arch}-{digest}",
        "creationInfo": {"created": datetime.datetime.fromtimestamp(int(epoch), datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                         "creators": ["Organization: Kiln", "Tool: deploy/install/sbom.py"]},
        "packages": [own, *libraries], "files": files,
        "relationships": [relation("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-Kiln"),
                          *(relation(file["SPDXID"], "GENERATED_FROM", "SPDXRef-Kiln") for file in files),
                          *(relation("SPDXRef-Kiln", "STATIC_LINK", library["SPDXID"]) for library in libraries)]}
    pathlib.Path(out).write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
