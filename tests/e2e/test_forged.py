#!/usr/bin/env python3
"""Forged records that come with a job (decision 20). Canonical bytes and Ed25519 are written here from their descriptions
(docs/reference/record-bytes.md, RFC 8032) and share no code with the programs."""
import hashlib
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


def forge(path, factor, forger):
    """Gives all records of the file `factor` of their times, signed by the forger; by None: left with their old signatures."""
    with sqlite3.connect(path) as db:
        db.row_factory = sqlite3.Row
        for trigger in ("record_is_not_changed", "record_is_not_removed", "record_is_counted_anew"):
            db.execute(f"DROP TRIGGER {trigger}")
        for number, found in enumerate(db.execute("SELECT rowid AS place, * FROM record").fetchall()):
            row = dict(found)
            samples = row["samples_ns"] or b""
            row["samples_ns"] = b"".join(struct.pack("<d", struct.unpack_from("<d", samples, at)[0] * factor) for at in range(0, len(samples), 8))
            if forger:
                row["trial_id"], row["signer"] = f"{number:032x}", forger.half.hex()
                row["signature"] = forger.sign(canonical(row))
            db.execute("UPDATE record SET trial_id = ?, samples_ns = ?, signer = ?, signature = ? WHERE rowid = ?",
                       (row["trial_id"], row["samples_ns"], row["signer"], row["signature"], row["place"]))


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


def test_what_no_machine_can_do_is_not_even_a_hint(world):
    model, forger = honest(world), Forger()
    forge(world.path("attacker.db"), 0.001, forger)
    _, address, _, _ = world.fleet()
    done = world.json("tune", model, "--trials", 2, "--tracker", address, "--db", world.path("attacker.db"))[-1]
    assert done["measured"] == 2, done
    assert world.sql("tuner.db", f"SELECT count(*) FROM record WHERE signer = '{forger.half.hex()}'") == [["0"]]


def test_changed_records_end_the_job_with_one_error(world):
    model = honest(world)
    forge(world.path("attacker.db"), 0.9, None)
    _, address, _, _ = world.fleet()
    world.refused("tune", model, "--trials", 2, "--tracker", address, "--db", world.path("attacker.db"), says="its signature is wrong")
    assert world.sql("tuner.db", "SELECT count(*) FROM record") == [["0"]]


if __name__ == "__main__":
    sys.exit(harness.main(sys.modules[__name__]))
