"""web [--boards N] [--viewers N] [--rows N]: kiln-web beside a fleet under load: memory, CPU with viewers, reads per second

A synthetic fleet (bench-fleet) is at its full load twice, without and with kiln-web and its viewers, who read the events of boards
and jobs. Then clients with a connection each ask for the best records of tasks in a large database, and for boards."""
import hashlib
import json
import multiprocessing
import os
import pathlib
import re
import socket
import subprocess
import threading
import time

import kiln

CLOCK = os.sysconf("SC_CLK_TCK")


def add_options(parser):
    parser.add_argument("--boards", type=int, default=2000)
    parser.add_argument("--viewers", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=10, help="length of each load of the fleet, and of the reads")
    parser.add_argument("--rows", type=int, default=1000000, help="records of the database")
    parser.add_argument("--readers", type=int, default=16, help="connections that ask")
    parser.add_argument("--rate", type=float, default=2000, help="reads a second that are asked for")


def fleet(options, work, name, during=None):
    """Runs bench-fleet; `during(folder)` is called once its tracker listens. Returns its numbers."""
    info, wrapper = work / f"{name}.home", work / f"{name}.sh"
    wrapper.write_text(f'#!/bin/sh\nprintf %s "$KILN_HOME" > {info}.part && mv {info}.part {info}\nexec {kiln.BUILD}/tracker/kiln-tracker "$@"\n')
    wrapper.chmod(0o755)
    memory = pathlib.Path("/dev/shm")
    child = subprocess.Popen([str(kiln.BUILD / "tests/bench/bench-fleet"), "--tracker", str(wrapper), "--boards", str(options.boards), "--clients", "50",
                              "--seconds", str(options.seconds), "--state", str(memory if memory.is_dir() else work)],
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    if during:
        while not info.exists() or not (pathlib.Path(info.read_text()) / "port").exists():
            if child.poll() is not None:
                raise SystemExit("bench-fleet ended")
            time.sleep(0.05)
        during(pathlib.Path(info.read_text()), child)
    out = child.communicate()[0]
    if child.returncode:
        raise SystemExit(out)
    return json.loads(out.splitlines()[-1])


class Web:
    def __init__(self, home, db, tracker, work):
        port = work / "web.port"
        port.unlink(missing_ok=True)
        self.child = subprocess.Popen([str(kiln.BUILD / "web/kiln-web"), "--tracker", tracker, "--listen", "0", "--port-file", str(port), "--db", str(db),
                                       "--state", str(work / "web"), "--log-level", "warn"], env={**os.environ, "KILN_HOME": str(home)})
        while not port.exists() or not port.read_text():
            if self.child.poll() is not None:
                raise SystemExit("kiln-web ended")
            time.sleep(0.05)
        self.port = int(port.read_text())
        self.token = (home / "web-token").read_text().strip()

    def request(self, path):
        return f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.token}\r\n\r\n".encode()

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)

    def cpu_s(self):
        fields = pathlib.Path(f"/proc/{self.child.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / CLOCK

    def memory_mb(self):
        status = pathlib.Path(f"/proc/{self.child.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) / 1024

    def stop(self):
        self.child.terminate()
        self.child.wait()


def receive(connection, pending):
    """One answer with a Content-Length; returns its body and what came behind it."""
    while b"\r\n\r\n" not in pending:
        part = connection.recv(1 << 16)
        if not part:
            raise SystemExit("kiln-web closed a connection")
        pending += part
    head, _, body = pending.partition(b"\r\n\r\n")
    size = int(re.search(rb"Content-Length: (\d+)", head).group(1))
    while len(body) < size:
        body += connection.recv(1 << 16)
    if not head.startswith(b"HTTP/1.1 200"):
        raise SystemExit(head.decode() + body.decode())
    return body[:size], body[size:]


def ask(web, path):
    with web.connect() as connection:
        connection.sendall(web.request(path))
        return receive(connection, b"")[0]


def view(web, counts, index, stop):
    """A viewer: reads events, as a browser does."""
    with web.connect() as connection:
        connection.sendall(web.request("/api/v1/events?topics=boards,jobs"))
        connection.settimeout(1)
        while not stop.is_set():
            try:
                part = connection.recv(1 << 16)
            except TimeoutError:
                continue
            except OSError:
                return
            if not part:
                return
            counts[index] += len(part)


def read(port, token, paths, rate, seconds, seed, queue):
    """Asks at fixed times; a wait counts from when the request was due."""
    web = Web.__new__(Web)
    web.port, web.token = port, token
    waits, asked = [], [web.request(path) for path in paths]
    with web.connect() as connection:
        pending, begin = b"", time.perf_counter()
        for number in range(int(rate * seconds)):
            due = begin + number / rate
            now = time.perf_counter()
            if now < due:
                time.sleep(due - now)
            connection.sendall(asked[(seed + number) % len(asked)])
            _, pending = receive(connection, pending)
            waits.append(time.perf_counter() - due)
        queue.put((waits, time.perf_counter() - begin))


def reads(web, paths, options):
    queue = multiprocessing.Queue()
    readers = [multiprocessing.Process(target=read, args=(web.port, web.token, paths, options.rate / options.readers, options.seconds, seed * 7, queue))
               for seed in range(options.readers)]
    cpu, begin = web.cpu_s(), time.perf_counter()
    for reader in readers:
        reader.start()
    answers = [queue.get() for _ in readers]
    for reader in readers:
        reader.join()
    took = time.perf_counter() - begin
    waits = sorted(1e3 * wait for some, _ in answers for wait in some)
    slowest = max(seconds for _, seconds in answers)
    return (f"{len(waits) / slowest:,.0f} reads/s of {options.rate:,.0f} asked: p50 {waits[len(waits) // 2]:.2f} ms, p99 {waits[len(waits) * 99 // 100]:.2f} ms, "
            f"max {waits[-1]:.1f} ms; kiln-web {(web.cpu_s() - cpu) / took:.2f} of a core, {web.memory_mb():.0f} MB")


def watch_fleet(options, work, db):
    """Viewers during a fleet's load; prints what kiln-web took."""
    def during(home, child):
        web = Web(home, db, f"127.0.0.1:{(home / 'port').read_text().strip()}", work)
        while json.loads(ask(web, "/api/v1/boards?limit=1"))["total"] < options.boards and child.poll() is None:
            time.sleep(0.1)
        begin = time.perf_counter()
        size = len(ask(web, "/api/v1/boards?limit=1000"))
        print(f"list:            1,000 boards, {size / 1024:.0f} KiB, in {1e3 * (time.perf_counter() - begin):.1f} ms")
        counts, stop = [0] * options.viewers, threading.Event()
        viewers = [threading.Thread(target=view, args=(web, counts, i, stop)) for i in range(options.viewers)]
        for viewer in viewers:
            viewer.start()
        time.sleep(3)
        cpu, sent, begin = web.cpu_s(), sum(counts), time.perf_counter()
        while child.poll() is None and time.perf_counter() - begin < options.seconds:
            time.sleep(0.1)
        took = time.perf_counter() - begin
        print(f"{options.viewers} viewers:      kiln-web {(web.cpu_s() - cpu) / took:.3f} of a core (0.05 is wanted), {web.memory_mb():.0f} MB (64 are wanted), "
              f"{(sum(counts) - sent) / took / 1024:,.0f} KiB/s to all")
        threading.Thread(target=lambda: (child.wait(), stop.set(), web.stop()), daemon=True).start()
    return fleet(options, work, "watched", during)


def known(web, home, work):
    """A question to the compile service that was answered before, as JSON that names the model."""
    model = kiln.BUILD.parent / "examples/digits/digits.onnx"
    subprocess.run([str(kiln.BUILD / "cli/kiln"), "submit", str(model), "--web", f"http://127.0.0.1:{web.port}", "-o", str(work / "digits.kiln")],
                   env={**os.environ, "KILN_HOME": str(home)}, check=True, stdout=subprocess.DEVNULL)
    body = json.dumps({"model": hashlib.sha256(model.read_bytes()).hexdigest(), "target": "native"}).encode()
    asked = (f"POST /api/v1/compile HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {web.token}\r\nContent-Type: application/json\r\n"
             f"Content-Length: {len(body)}\r\n\r\n").encode() + body
    waits, pending = [], b""
    with web.connect() as connection:
        for _ in range(300):
            begin = time.perf_counter()
            connection.sendall(asked)
            _, pending = receive(connection, pending)
            waits.append(1e3 * (time.perf_counter() - begin))
    waits.sort()
    return f"p50 {waits[150]:.2f} ms, p99 {waits[297]:.2f} ms (50 ms are wanted)"


def run(options, work):
    print(f"{options.boards} boards at full load, {options.rows:,} records")
    alone = fleet(options, work, "alone")["full"]["answers_per_s"]
    watched = watch_fleet(options, work, work / "none.db")["full"]["answers_per_s"]
    print(f"grants:          {alone:,.0f}/s without kiln-web, {watched:,.0f}/s with viewers: {watched / alone - 1:+.1%} (-5 % is allowed)")
    db = work / "records.db"
    done = subprocess.run([str(kiln.BUILD / "tests/bench/bench-db"), str(db), str(options.rows), "0"], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    home = work / "home"
    home.mkdir()
    port = work / "tracker.port"
    tracker = subprocess.Popen([str(kiln.BUILD / "tracker/kiln-tracker"), "--listen", "127.0.0.1:0", "--port-file", str(port), "--log-level", "warn"],
                               env={**os.environ, "KILN_HOME": str(home)})
    try:
        while not port.exists():
            time.sleep(0.05)
        web = Web(home, db, f"127.0.0.1:{port.read_text().strip()}", work)
        tasks = sorted({row["task_key"] for row in json.loads(ask(web, "/api/v1/records/best?limit=1000"))["items"]})
        print(f"best of a task:  {reads(web, [f'/api/v1/records/best?task={task}' for task in tasks], options)} (p99 of 20 ms is wanted)")
        print(f"ten best:        {reads(web, [f'/api/v1/records/top?task={task}' for task in tasks], options)}")
        print(f"known question:  {known(web, home, work)}")
        print(f"who I am:        {reads(web, ['/api/v1/boards?limit=10'], options)}")
        web.stop()
    finally:
        tracker.terminate()
        tracker.wait()
