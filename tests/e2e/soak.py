#!/usr/bin/env python3
"""soak.py MINUTES [--seed S]: a fleet of the real programs, with keys, whose programs are killed, stopped, cut off and denied
their disk at random, while jobs come and go. Then the faults stop, and the fleet must be consistent: no stored record lost or stored twice,
every job ended, every program running and no larger than before, nothing left behind."""
import argparse
import os
import pathlib
import random
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time

import harness

BOARDS, TUNERS, JOBS_AT_ONCE = 3, 2, 3
MODELS = ["gemm:32x32x32", "gemm:64x48x32", "conv:C3"]
WARM_S = 45  # a program younger than this is still filling its caches
GROWTH = 1.3
GROWTH_KB = 16 << 10
DENIALS = ["DB_COMMIT:4=error", "DB_PUT:9=error", "DB_DURABLE:6", "DB_COMMIT:7=kill", "io:60", "FILE_REPLACE:1=error"]


class Wire(threading.Thread):
    """Stands between the programs and the tracker, so that connections can be cut."""

    def __init__(self, tracker_port):
        super().__init__(daemon=True)
        self.tracker_port, self.pairs, self.lock = tracker_port, {}, threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.over = False

    def drop(self, end):
        with self.lock:
            other = self.pairs.pop(end, None)
            self.pairs.pop(other, None)
        for one in (end, other):
            if one:
                one.close()

    def cut(self):
        with self.lock:
            ends = list(self.pairs)
        for end in ends:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def accept(self):
        near = self.listener.accept()[0]
        try:
            far = socket.create_connection(("127.0.0.1", self.tracker_port), timeout=5)
        except OSError:
            near.close()
            return
        far.settimeout(None)
        with self.lock:
            self.pairs[near], self.pairs[far] = far, near

    def run(self):
        while not self.over:
            with self.lock:
                ends = list(self.pairs)
            for end in select.select([self.listener, *ends], [], [], 0.2)[0]:
                if end is self.listener:
                    self.accept()
                elif end in self.pairs:
                    self.pass_on(end)

    def pass_on(self, end):
        try:
            data = end.recv(1 << 16)
            if data:
                self.pairs[end].sendall(data)
                return
        except (OSError, KeyError):
            pass
        self.drop(end)


class Program:
    """One of the fleet, started again whenever it is gone."""

    def __init__(self, soak, name, *argv):
        self.soak, self.name, self.argv, self.child, self.denied, self.stopped = soak, name, argv, None, False, False

    def start(self, denial=None):
        if denial:
            self.soak.world.env["KILN_FAIL"] = denial
        self.child = self.soak.world.start(self.name, *self.argv)
        self.soak.world.env.pop("KILN_FAIL", None)
        self.denied, self.stopped, self.born, self.warm = bool(denial), False, time.monotonic(), None

    def look(self):
        """Notes its size once it is warm; starts it again when it ended, which only a denied disk excuses."""
        code = self.child.poll()
        if code is not None:
            if not self.denied:
                self.soak.violation(f"{self.name} ended by itself with {code}: {self.child.log}")
            self.start()
        elif not self.warm and time.monotonic() - self.born > WARM_S:
            self.warm = self.size()

    def size(self):
        status = pathlib.Path(f"/proc/{self.child.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status).group(1)), len(os.listdir(f"/proc/{self.child.pid}/fd"))

    def kill(self):
        self.check_size()
        self.soak.world.kill(self.child)

    def check_size(self):
        if not self.warm or self.child.poll() is not None:
            return
        (rss, fds), (warm_rss, warm_fds) = self.size(), self.warm
        if rss > warm_rss * GROWTH + GROWTH_KB or fds > warm_fds + 16:
            self.soak.violation(f"{self.name} grew: {warm_rss} to {rss} KB, {warm_fds} to {fds} descriptors")


class Soak:
    def __init__(self, world, seed):
        self.world, self.rand = world, random.Random(seed)
        self.violations, self.faults, self.clients, self.seen = [], {}, [], {}
        self.jobs = self.jobs_done = 0
        self.key = {name: self.make_key(name) for name in
                    ["admin/a", "client/c", *(f"tuner/t{i}" for i in range(TUNERS)), *(f"board/b{i}" for i in range(BOARDS))]}
        port = world.folder / "port"
        with socket.create_server(("127.0.0.1", 0)) as free:
            tracker_port = free.getsockname()[1]
        self.wire = Wire(tracker_port)
        self.tracker = Program(self, "kiln-tracker", "--listen", f"127.0.0.1:{tracker_port}", "--port-file", port)
        to = ["--tracker", self.wire.address]
        self.tuners = [Program(self, "kiln-tuner", *to, "--db", self.db(i), "--builders", 1, "--key-file", self.key[f"tuner/t{i}"])
                       for i in range(TUNERS)]
        self.boards = [Program(self, "kiln-rpc-server", *to, "--key", f"b{i}", "--state", world.path(f"b{i}"), "--key-file",
                               self.key[f"board/b{i}"]) for i in range(BOARDS)]
        self.programs = [self.tracker, *self.tuners, *self.boards]
        self.models = [world.zoo(name) for name in MODELS]
        self.client = [*to, "--key-file", self.key["client/c"]]
        self.tracker.start()
        harness.until(port.exists, "the tracker listening")
        self.wire.start()
        for program in self.programs[1:]:
            program.start()

    def make_key(self, name):
        file = self.world.path(name.replace("/", "_") + ".key")
        self.world.run("key", "new", name, "-o", file)
        return file

    def db(self, number):
        return self.world.path(f"tuner{number}.db")

    def violation(self, text):
        print(f"soak: violation: {text}", file=sys.stderr)
        self.violations.append(text)

    # ---- what is stored

    def records(self, path):
        """Trial and attempt of each stored record; None when the file cannot be read just now."""
        done = self.world.run("db", "sql", "SELECT trial_id || '/' || attempt FROM record WHERE final = 0", "--db", path, ok=False)
        return done.stdout.splitlines()[1:] if done.returncode == 0 else None

    def check_records(self):
        for number in range(TUNERS):
            stored, before = self.records(self.db(number)), self.seen.setdefault(number, set())
            if stored is None:
                continue
            if len(stored) != len(set(stored)):
                self.violation(f"tuner {number} has records twice")
            if not before <= set(stored):
                self.violation(f"tuner {number} lost {len(before - set(stored))} records")
            self.seen[number] = before | set(stored)

    # ---- clients

    def tend_clients(self):
        for client, db in self.clients[:]:
            code = client.poll()
            if code is None:
                continue
            self.clients.remove((client, db))
            if code in (-signal.SIGABRT, -signal.SIGSEGV, -signal.SIGBUS):
                self.violation(f"a client ended with {code}: {client.log}")
            if code == 0:
                self.jobs_done += 1
                self.check_client(db)
        while len(self.clients) < JOBS_AT_ONCE:
            self.jobs += 1
            db = self.world.path(f"client{self.jobs}.db")
            more = ["--detach"] if self.rand.random() < 0.2 else []
            client = self.world.start("kiln", "tune", self.rand.choice(self.models), "--trials", self.rand.randint(2, 8), "--seed",
                                      self.jobs, "--project", self.rand.choice(["x", "y"]), "--db", db, *self.client, *more)
            self.clients.append((client, db))

    def check_client(self, db):
        """What a client was handed is stored by the tuners."""
        if not os.path.exists(db):
            return
        mine, stored = self.records(db), [self.records(self.db(i)) for i in range(TUNERS)]
        if mine and None not in stored and not set(mine) <= set().union(*stored):
            self.violation(f"{db} has records that no tuner has")
        pathlib.Path(db).unlink()

    # ---- faults

    def killed(self):
        program = self.rand.choice(self.programs if self.rand.random() < 0.3 else self.programs[1:])
        program.kill()
        program.start()

    def denied(self):
        program = self.rand.choice(self.programs)
        program.kill()
        program.start(self.rand.choice(DENIALS))

    def cut(self):
        self.wire.cut()

    def silent(self):
        program = self.rand.choice(self.programs[1:])
        os.kill(program.child.pid, signal.SIGCONT if program.stopped else signal.SIGSTOP)
        program.stopped = not program.stopped

    def ordered(self):
        self.world.run("fleet", self.rand.choice(["drain", "quarantine", "release", "release"]), f"b{self.rand.randrange(BOARDS)}",
                       "--tracker", self.wire.address, "--key-file", self.key["admin/a"], ok=False)

    def vanished(self):
        client, _ = self.rand.choice(self.clients)
        if client.poll() is None:
            self.world.kill(client)

    def disturb(self, minutes):
        end = time.monotonic() + 60 * minutes
        kinds = [self.killed, self.denied, self.cut, self.silent, self.silent, self.ordered, self.vanished]
        while time.monotonic() < end:
            self.tend_clients()
            kind = self.rand.choice(kinds)
            kind()
            self.faults[kind.__name__] = self.faults.get(kind.__name__, 0) + 1
            wait = time.monotonic() + self.rand.uniform(0.5, 8)
            while time.monotonic() < wait:
                for program in self.programs:
                    program.look()
                self.tend_clients()
                time.sleep(0.1)
            self.check_records()

    # ---- peace

    def heal(self):
        for program in self.programs:
            if program.stopped:
                os.kill(program.child.pid, signal.SIGCONT)
            if program.denied:
                program.kill()
                program.start()
        admin = ["--tracker", self.wire.address, "--key-file", self.key["admin/a"]]
        for i in range(BOARDS):
            harness.until(lambda: self.world.run("fleet", "release", f"b{i}", *admin, ok=False).returncode == 0, f"board {i} released")
        harness.until(lambda: all(row["state"] in ("free", "leased") for row in self.world.json("fleet", *admin)), "all boards in service")

    def open_jobs(self):
        return [job["job"] for job in self.world.json("jobs", *self.client) if job["state"] in ("waiting", "running")]

    def settle(self):
        for client, _ in self.clients:
            harness.until(lambda: client.poll() is not None, "a client's end")
        harness.until(lambda: not self.open_jobs(), f"the end of the jobs {self.open_jobs()}")
        self.check_records()
        for program in self.programs:
            program.look()
            program.check_size()
        for program in reversed(self.programs):
            program.child.send_signal(signal.SIGTERM)
            code = program.child.wait(timeout=harness.DEADLINE_S)
            if code != 0:
                self.violation(f"{program.name} ended with {code} on SIGTERM: {program.child.log}")
        self.wire.over = True
        self.wire.join()
        left = harness.processes_with(str(self.world.folder))
        if left:
            self.violation(f"left processes {left}")
        files = [str(p) for p in (self.world.folder / "tmp").iterdir() if not p.name.startswith("kiln-command")]
        if files:
            self.violation(f"left files {files}")


def main():
    parser = argparse.ArgumentParser(prog="./dev soak", description=__doc__)
    parser.add_argument("minutes", type=float)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    options = parser.parse_args()
    print(f"soak: seed {options.seed}", flush=True)
    world = harness.World()
    soak = None
    try:
        soak = Soak(world, options.seed)
        soak.disturb(options.minutes)
        soak.heal()
        soak.settle()
    except Exception as problem:
        if not soak:
            raise
        soak.violation(f"{type(problem).__name__}: {problem}")
    finally:
        kept = soak and soak.violations
        if kept:
            print(f"soak: logs stay in {world.folder}", file=sys.stderr)
            for child in world.children:
                if child.poll() is None:
                    world.kill(child)
        else:
            world.close()
    count = sum(len(seen) for seen in soak.seen.values())
    faults = ", ".join(f"{number} {name}" for name, number in sorted(soak.faults.items()))
    print(f"soak: seed {options.seed}, {options.minutes:g} min: {sum(soak.faults.values())} faults ({faults}), {soak.jobs} jobs, "
          f"{soak.jobs_done} seen through, {count} records: {len(soak.violations)} violations")
    return 1 if soak.violations else 0


if __name__ == "__main__":
    sys.exit(main())
