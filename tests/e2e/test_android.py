#!/usr/bin/env python3
"""deploy/android/push.sh with a mock phone: an adb that keeps its files in a folder and runs its programs in an emulator."""
import os
import pathlib
import shutil
import subprocess
import sys

import harness
from harness import until

SOURCES = pathlib.Path(os.environ["KILN_BOARDS"])
ADB = r"""#!/bin/sh
# Knows what push.sh says, and writes it down.
echo "$@" >> "$PHONE/said"
[ "$1" != -s ] || shift 2
case $1 in
    get-state) cat "$PHONE/state" ;;
    push)
        mkdir -p "$PHONE$(dirname "$3")"
        case $3 in
            */kiln-rpc-server) # the phone's processor is an emulator
                cp "$2" "$PHONE$3.real"
                printf '#!/bin/sh\nexec %s %s "$@"\n' "$EMULATOR" "$PHONE$3.real" > "$PHONE$3" ;;
            *) cp "$2" "$PHONE$3" ;;
        esac ;;
    reverse) ;;
    shell)
        shift
        case $* in
            "getprop ro.product.cpu.abi") cat "$PHONE/abi" ;;
            "getprop ro.product.model") printf 'Paper 5\r\n' ;;
            *) sh -c "$(printf '%s' "$*" | sed "s#/data/local/tmp#$PHONE/data/local/tmp#g")" ;;
        esac ;;
    *) exit 1 ;;
esac
"""


def phone(world, abi="arm64-v8a\r\n", state="device\n"):
    """A phone that the next push finds."""
    folder = world.folder / "phone"
    for path in (folder / "data/local/tmp", world.folder / "bin"):
        path.mkdir(parents=True, exist_ok=True)
    (folder / "abi").write_text(abi)
    (folder / "state").write_text(state)
    adb = world.folder / "bin/adb"
    adb.write_text(ADB)
    adb.chmod(0o755)
    return folder


def push(world, *argv, emulator="/bin/false"):
    env = {**world.env, "PATH": f"{world.folder / 'bin'}:{os.environ['PATH']}", "PHONE": str(world.folder / "phone"), "EMULATOR": emulator}
    return subprocess.run([str(SOURCES / "deploy/android/push.sh"), *map(str, argv)], env=env, cwd=world.folder, capture_output=True,
                          text=True, timeout=harness.DEADLINE_S)


def test_a_phone_on_a_cable_serves_a_tracker_of_this_machine(world):
    program, emulator = SOURCES / "build-aarch64/rpc-server/kiln-rpc-server", shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
    if not program.exists() or not emulator:
        raise harness.Skip("the server of ./dev cross aarch64 and qemu-aarch64")
    _, address = world.tracker()
    folder = phone(world)
    done = push(world, "--tracker", address, "--serial", "paper-1", emulator=emulator)
    try:
        assert done.returncode == 0, done.stderr
        said = (folder / "said").read_text()
        port = address.rsplit(":", 1)[1]
        assert f"reverse tcp:{port} tcp:{port}" in said and "-s paper-1" in said, said
        [row] = until(lambda: world.json("fleet", "list", "--tracker", address), "the phone in the fleet")
        assert row["key"] == "Paper-5" and row["target"].startswith("cpu:aarch64"), row
        place = folder / "data/local/tmp/kiln"
        assert (place / "token").stat().st_mode & 0o777 == 0o600
    finally:
        done = push(world, "--stop")
    assert done.returncode == 0, done.stderr
    until(lambda: world.json("fleet", "list", "--tracker", address)[0]["state"] == "lost", "the end of the server")


def test_faults_of_a_phone_are_reported(world):
    for says, argv, what in (("tracker 127.0.0.1:PORT is missing", [], {}),
                             ("only this machine", ["--tracker", "far:1"], {}),
                             ("unknown option", ["--colour", "red"], {}),
                             ("unauthorized", ["--tracker", "127.0.0.1:1"], {"state": "unauthorized\n"}),
                             ("no server for phones of kind mips", ["--tracker", "127.0.0.1:1"], {"abi": "mips\n"}),
                             ("is missing; make it with: ./dev cross", ["--tracker", "127.0.0.1:1", "--program", "/nowhere"], {}),
                             ("cannot be read; start the tracker first", ["--tracker", "127.0.0.1:1", "--program", "/bin/true"], {})):
        phone(world, **what)
        done = push(world, *argv)
        assert done.returncode == 1 and says in done.stderr, (says, done.stderr)


def test_a_server_that_ends_on_the_phone_is_reported_with_its_error(world):
    phone(world)
    (world.folder / "key").write_text("no key")
    script = world.folder / "server"
    script.write_text("#!/bin/sh\necho cannot run here\n")
    script.chmod(0o755)
    done = push(world, "--tracker", "127.0.0.1:1", "--key-file", world.folder / "key", "--program", script, emulator="/bin/sh")
    assert done.returncode == 1 and "the server ended: cannot run here" in done.stderr, done.stderr


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules["__main__"]))
