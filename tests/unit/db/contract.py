"""Runs test programs over a PostgreSQL server that is made for it: contract.py PROGRAM..."""
import subprocess
import sys

import postgres


def main(programs):
    with postgres.Server(durable=False) as server:
        for number in range(4):
            server.create(f"place{number}")
        failed = [p for p in programs if subprocess.run([p, server.address("place%u")]).returncode != 0]
    for program in failed:
        print("failed:", program)
    return 1 if failed else 0


if not postgres.is_installed():
    print("Debian's package postgresql is not installed")
    sys.exit(77)
sys.exit(main(sys.argv[1:]))
