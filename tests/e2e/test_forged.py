#!/usr/bin/env python3
"""Forged records that come with a job (decision 20). Canonical bytes and Ed25519 are written here from their descriptions
(docs/reference/record-bytes.md, RFC 8032) and share no code with the programs."""
import hashlib
import json
import pathlib
import sqlite3
import struct
import sys

import harness

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
Y = 4 * pow(5, P - 2, P) % P
# In their order: t text or blob, i integer, r real, s samples.
COLUMNS = [(word.split(":")[0], word.split(":")[1]) for word in (
    "trial_id:t attempt:i job_id:t task_key:t target:t device_id:t fingerprint_id:t trial_index:i trace:t trace_hash:t codegen_version:t "
    "artefact_kind:t artefact_digest:t algorithm:t threads:i layout_in:t layout_out:t searcher:t outcome:t blame:t detail:t checked:i error:r "
    "max_abs_error:r samples_ns:s runs_per_sample:i stop_reason:t cache_state:t throttled:i flops:r peak_flops:r build_ns:r project:t user:t "
    "stored_wall_ns:i raced:i final:i gain_low:r drift:r search_ns:r train_ns:r board_ns:r drift_memory:r again:i signer:t board:t fences:t").split()]


def recover_x(y):
    xx = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(xx, (P + 3) // 8, P)
    if (x * x - xx) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    return P - x if x & 1 else x


BASE = (recover_x(Y), Y)


def add(a, b):
    product = D * a[0] * b[0] * a[1] * b[1] % P
    return ((a[0] * b[1] + a[1] * b[0]) * pow(1 + product, P - 2, P) % P, (a[1] * b[1] + a[0] * b[0]) * pow(1 - product, P - 2, P) % P)


def times(number, point):
    total = (0, 1)
    while number:
        if number & 1:
            total = add(total, point)
        point, number = add(point, point), number >> 1
    return total


def packed(point):
    return (point[1] | (point[0] & 1) << 255).to_bytes(32, "little")


def number_of(*parts):
    return int.from_bytes(hashlib.sha512(b"".join(parts)).digest(), "little")


class Forger:
    def __init__(self):
        hashed = hashlib.sha512(b"forger".ljust(32)).digest()
        self.secret = int.from_bytes(hashed[:32], "little") & (2**254 - 8) | 2**254
        self.prefix, self.half = hashed[32:], packed(times(self.secret, BASE))

    def sign(self, data):
        r = number_of(self.prefix, data) % L
        point = packed(times(r, BASE))
        return point + ((r + number_of(point, self.half, data) * self.secret) % L).to_bytes(32, "little")


def canonical(row):
    out = b"kiln record 1\n"
    for name, kind in COLUMNS:
        value = row[name]
        if kind == "i":
            out += struct.pack("<q", value)
        elif kind == "r":
            out += struct.pack("<d", value or 0.0)
        elif kind == "s":
            out += struct.pack("<I", len(value or b"") // 8) + (value or b"")
        else:
            data = value if isinstance(value, bytes) else (value or "").encode()
            out += struct.pack("<I", len(data)) + data
    return out


def forge(path, factor, forger, operations=1.0):
    """Gives all records of the file `factor` of their times, and tasks `operations` times as many operations, signed by the forger; by None: left
    with their old signatures."""
    with sqlite3.connect(path) as db:
        db.row_factory = sqlite3.Row
        for trigger in ("record_is_not_changed", "record_is_not_removed", "record_gives_way"):
            db.execute(f"DROP TRIGGER {trigger}")
        db.execute("UPDATE task SET flops = flops * ?", (operations,))
        for number, found in enumerate(db.execute("SELECT rowid AS place, * FROM record").fetchall()):
            row = dict(found)
            samples = row["samples_ns"] or b""
            row["samples_ns"] = b"".join(struct.pack("<d", struct.unpack_from("<d", samples, at)[0] * factor) for at in range(0, len(samples), 8))
            row["flops"] *= operations
            if forger:
                row["trial_id"], row["signer"] = f"{number:032x}", forger.half.hex()
                row["signature"] = forger.sign(canonical(row))
            db.execute("UPDATE record SET trial_id = ?, samples_ns = ?, flops = ?, signer = ?, signature = ? WHERE rowid = ?",
                       (row["trial_id"], row["samples_ns"], row["flops"], row["signer"], row["signature"], row["place"]))


def honest(world):
    """A file of honest records, its model."""
    model = world.zoo("gemm:32x48x32")
    world.json("tune", model, "--trials", 6, "--db", world.path("attacker.db"))
    return model


def test_the_signatures_here_are_those_of_the_programs(world):
    honest(world)
    forger = Forger()
    forge(world.path("attacker.db"), 1.0, forger)
    [verified] = world.json("db", "verify", "--db", world.path("attacker.db"))
    assert verified["right"] >= 6 and verified["wrong"] == 0, verified


def test_forged_records_are_measured_again_and_never_reach_others(world):
    model, forger = honest(world), Forger()
    forge(world.path("attacker.db"), 0.9, forger)
    _, address, _, _ = world.fleet()
    done = world.json("tune", model, "--trials", 6, "--tracker", address, "--db", world.path("attacker.db"))[-1]
    assert done["measured"] == 6, "forged records stood for trials"
    half = forger.half.hex()
    stands = world.sql("tuner.db", f"SELECT DISTINCT origin, standing FROM record WHERE signer = '{half}'")
    assert stands == [["imported", "0"]], stands
    tried = world.sql("tuner.db", "SELECT count(*) FROM record WHERE searcher = 'transfer' AND origin = 'measured'")
    assert int(tried[0][0]) > 0, "hints are tried first"
    best = world.json("db", "best", "--db", world.path("tuner.db"))
    assert [b["signer"] for b in best] and half not in [b["signer"] for b in best], best
    world.json("tune", model, "--trials", 6, "--tracker", address, "--db", world.path("victim.db"))
    assert world.sql("victim.db", f"SELECT count(*) FROM record WHERE signer = '{half}'") == [["0"]]
    assert int(world.sql("victim.db", "SELECT count(*) FROM record WHERE standing > 0")[0][0]) >= 6


def test_the_trust_of_a_project_counts_in_its_jobs_until_it_ends(world):
    model, forger = honest(world), Forger()
    forge(world.path("attacker.db"), 0.9, forger)
    _, address, _, _ = world.fleet()
    half = forger.half.hex()
    to = ("--tracker", address)
    tune = lambda db, project, trials=6: world.json("tune", model, "--trials", trials, *to, "--project", project, "--db", world.path(db))[-1]
    stands = lambda db: world.sql(db, f"SELECT DISTINCT origin, standing FROM record WHERE signer = '{half}'")
    bests = lambda db: [b["signer"] for b in world.json("db", "best", "--db", world.path(db))]
    for name in ("vision", "other"):
        world.run("project", "new", name, *to)
    world.refused("project", "trust", "vision", "nobody", *to, says="is neither a public key")
    world.refused("project", "trust", "vision", *to, says="SIGNER is missing")
    [row] = world.json("project", "trust", "vision", half, *to)
    assert [s["signer"] for s in row["signers"]] == [half], row
    assert f"trusts {half}" in world.run("project", "show", "vision", *to).stdout

    assert tune("attacker.db", "vision")["measured"] == 0, "what the project trusts is measured again"
    assert stands("tuner.db") == [["imported", "0"]], "of the tuner's own database nobody spoke"
    assert tune("victim.db", "vision")["measured"] == 0
    assert stands("victim.db") == [["project vision", "1"]], stands("victim.db")
    assert half in bests("victim.db")
    tune("other.db", "other", 0)
    assert stands("other.db") == [], "another project's word counted"

    world.run("project", "trust", "vision", half, "--remove", *to)
    world.refused("project", "trust", "vision", half, "--remove", *to, says="does not trust")
    assert tune("victim.db", "vision")["measured"] == 6, "whom nobody trusts any more stood for trials"
    assert stands("victim.db") == [["project vision", "0"]], stands("victim.db")
    assert half not in bests("victim.db")


def test_records_of_impossible_speed_are_not_even_hints(world):
    model, forger = honest(world), Forger()
    forge(world.path("attacker.db"), 0.001, forger)
    _, address, _, _ = world.fleet()
    done = world.json("tune", model, "--trials", 2, "--tracker", address, "--db", world.path("attacker.db"))[-1]
    assert done["measured"] == 2, done
    assert world.sql("tuner.db", f"SELECT count(*) FROM record WHERE signer = '{forger.half.hex()}'") == [["0"]]


def test_a_tuner_holds_records_to_the_programs_of_its_job(world):
    """Their own rows agree: only the program of the task, which the tuner has from the model, says how many operations it has."""
    model, forger = honest(world), Forger()
    forge(world.path("attacker.db"), 0.9, forger, operations=1.25)
    _, address, _, _ = world.fleet()
    world.json("tune", model, "--trials", 2, "--tracker", address, "--db", world.path("attacker.db"))
    stored = world.sql("tuner.db", "SELECT origin, count(*) FROM record WHERE final = 0 GROUP BY origin")
    assert stored == [["measured", "2"]], stored


def test_changed_records_end_the_job_with_one_error(world):
    model = honest(world)
    forge(world.path("attacker.db"), 0.9, None)
    _, address, _, _ = world.fleet()
    world.refused("tune", model, "--trials", 2, "--tracker", address, "--db", world.path("attacker.db"), says="its signature is wrong")
    assert world.sql("tuner.db", "SELECT count(*) FROM record") == [["0"]]


def test_a_program_of_another_task_is_noticed(world):
    honest(world)
    rows = [json.loads(line) for line in world.run("db", "export", "--db", world.path("attacker.db")).stdout.splitlines()]
    [task] = [row for row in rows if row["table"] == "task"]
    task["canonical"] = task["canonical"].replace("48", "24")
    pathlib.Path(world.path("rows.jsonl")).write_text("".join(json.dumps(row) + "\n" for row in rows))
    said = world.run("db", "import", world.path("rows.jsonl"), "--db", world.path("victim.db")).stdout
    assert "0 count" in said and "its task's program is not that of the task's key" in said, said


def standings(world, name):
    [verified] = world.json("db", "verify", "--db", world.path(name))
    return verified["counting"], verified["hints"], verified["quarantined"]


def test_a_person_decides_which_signers_count(world):
    """kiln key trust; kiln db forget, quarantine, restore, prune and verify, over the forger's records in another's file."""
    honest(world)
    forger, victim = Forger(), world.path("victim.db")
    half, to = forger.half.hex(), ("--db", victim)
    forge(world.path("attacker.db"), 0.9, forger)
    lines = world.run("db", "export", "--db", world.path("attacker.db")).stdout
    pathlib.Path(world.path("rows.jsonl")).write_text(lines)
    count = sum(json.loads(line)["table"] == "record" for line in lines.splitlines())
    world.run("db", "import", world.path("rows.jsonl"), *to)
    assert standings(world, "victim.db") == (0, count, 0)

    assert world.refused("key", "trust", "forger", *to, says="no signer 'forger'").returncode
    assert "count from here on" in world.run("key", "trust", half, *to).stdout
    assert standings(world, "victim.db") == (count, 0, 0)
    assert [half, "person"] in [[s["public"], s["trust"]] for s in world.json("key", "trust", *to)]
    assert f"{half}  person" in world.run("key", "trust", *to).stdout
    assert world.json("key", "trust", half, "--no", *to) == [{"event": "refused", "signer": half}]
    assert standings(world, "victim.db") == (0, count, 0)
    world.run("key", "trust", half, *to)

    trial = lambda number: f"{number:032x}"
    assert world.json("db", "quarantine", trial(0), "--reason", "odd", *to) == [{"event": "quarantined", "id": trial(0), "records": 1}]
    assert world.run("db", "forget", trial(1), *to).stdout == "1 records forgotten\n"
    assert standings(world, "victim.db") == (count - 2, 0, 1)
    assert world.sql("victim.db", "SELECT state, reason FROM tombstone ORDER BY rowid") == [["quarantined", "odd"], ["forgotten", "NULL"]]
    world.refused("db", "forget", trial(1), *to, says="no record here has that identity")
    world.refused("db", "restore", trial(2), *to, says="is in quarantine")
    world.refused("db", "forget", *to, says="ID is missing")
    said = world.run("db", "import", world.path("rows.jsonl"), *to).stdout
    assert "1 are quarantined, 1 stay forgotten" in said, said
    assert world.run("db", "restore", trial(0), *to).stdout == "1 records restored\n"
    assert standings(world, "victim.db") == (count - 1, 0, 0)

    # This user's own tombstones are heeded in this user's other files, and nobody else's are.
    world.run("db", "import", world.path("rows.jsonl"), "--db", world.path("other.db"))
    tombs = "".join(line + "\n" for line in world.run("db", "export", *to).stdout.splitlines() if json.loads(line)["table"] == "tombstone")
    pathlib.Path(world.path("tombs.jsonl")).write_text(tombs)
    assert "2 tombstones" in world.run("db", "import", world.path("tombs.jsonl"), "--db", world.path("other.db")).stdout
    assert standings(world, "other.db") == (0, count - 1, 0)
    pathlib.Path(world.path("tombs.jsonl")).write_text(tombs.replace(trial(1), trial(2)))
    said = world.run("db", "import", world.path("tombs.jsonl"), "--db", world.path("other.db")).stdout
    assert "1 tombstones of untrusted signers were skipped" in said, said
    assert standings(world, "other.db") == (0, count - 1, 0)

    world.run("key", "trust", half, "--no", *to)
    assert world.json("db", "prune", *to) == [{"event": "pruned", "records": count - 1}]
    assert standings(world, "victim.db") == (0, 0, 0)


def test_verify_names_the_changed_record(world):
    honest(world)
    forge(world.path("attacker.db"), 0.9, None)
    said = world.refused("db", "verify", "--db", world.path("attacker.db"), says="signatures are wrong, the first of trial")
    assert "0 right" in said.stdout, said.stdout
    trial = said.stderr.split("kiln db forget ")[1].split()[0]
    assert world.run("db", "forget", trial, "--db", world.path("attacker.db")).stdout == "1 records forgotten\n"


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
