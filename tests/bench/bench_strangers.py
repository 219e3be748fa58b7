"""strangers [--seconds S] [--rate R]: many silent connections, and handshakes of known peers among them

A tracker with `ulimit -n 1024` gets R connections a second that say nothing, from one address and then from 64; meanwhile a
peer that knows the token comes from another address, 100 times. Wanted: 100 of 100 let in, p99 at most 1 s, and
memory that does not grow with the crowd."""
import collections
import os
import pathlib
import resource
import socket
import subprocess
import sys
import threading
import time

import kiln

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "e2e"))
import wire  # noqa: E402

DESCRIPTORS = 1024
HANDSHAKES = 100
KNOWN = "127.0.0.200"
BIND_ADDRESS_NO_PORT = 24  # <linux/in.h>


def add_options(parser):
    parser.add_argument("--seconds", type=float, default=60, help="length of each crowd")
    parser.add_argument("--rate", type=int, default=2000, help="silent connections a second")


def rss_mb(pid):
    return int(next(line for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")).split()[1]) / 1024


def cpu_s(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def crowd(port, sources, rate, until):
    """Runs in a process of its own: begins `rate` connections a second, says nothing, keeps each until the tracker closes it.
    Prints how many it began a second."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    keep = min(hard - 64, 15000)  # more than 5 s of them
    held, begun, begin = collections.deque(), 0, time.monotonic()
    while time.monotonic() < until:
        due = int((time.monotonic() - begin) * rate)
        while begun < due:
            one = socket.socket()
            one.setsockopt(socket.SOL_IP, BIND_ADDRESS_NO_PORT, 1)  # as many as there are ports for each pair of addresses
            one.setblocking(False)
            one.bind((sources[begun % len(sources)], 0))
            one.connect_ex(("127.0.0.1", port))
            held.append(one)
            begun += 1
            if len(held) > keep:
                held.popleft().close()
        time.sleep(0.002)
    print(begun / (time.monotonic() - begin), flush=True)


def handshakes(address, token, seconds, times, lost):
    """HANDSHAKES of them, evenly over the time."""
    begin = time.monotonic()
    for number in range(HANDSHAKES):
        time.sleep(max(0, begin + seconds * number / HANDSHAKES - time.monotonic()))
        start = time.monotonic()
        try:
            one = wire.Peer(address, timeout=10, source=KNOWN)
            name, values = one.hello("client", f"known-{number}", token)
            assert name == "WELCOME", values
            times.append(time.monotonic() - start)
            one.close()
        except (OSError, wire.Closed, AssertionError) as error:
            lost.append(repr(error))


def one_crowd(tracker, port, token, sources, options):
    times, lost = [], []
    before_cpu, begin = cpu_s(tracker.pid), time.monotonic()
    flood = subprocess.Popen([sys.executable, __file__, str(port), ",".join(sources), str(options.rate), str(begin + options.seconds + 1)],
                             stdout=subprocess.PIPE, text=True)
    caller = threading.Thread(target=handshakes, args=(f"127.0.0.1:{port}", token, options.seconds, times, lost))
    caller.start()
    most = 0
    while caller.is_alive():
        most = max(most, rss_mb(tracker.pid))
        time.sleep(0.2)
    begun = float(flood.communicate()[0])
    wall = time.monotonic() - begin
    times.sort()
    p99 = times[max(0, -(-99 * len(times) // 100) - 1)] if times else float("nan")
    print(f"{len(sources):>2} address{'es' if len(sources) > 1 else '  '}: {begun:,.0f} silent connections a second for {wall:.0f} s; {len(times)} of {HANDSHAKES} "
          f"handshakes of known peers succeed, p50 {1e3 * times[len(times) // 2] if times else 0:.1f} ms, p99 {1e3 * p99:.1f} ms, "
          f"max {1e3 * times[-1] if times else 0:.1f} ms; tracker at most {most:.0f} MB, {(cpu_s(tracker.pid) - before_cpu) / wall:.2f} of a core", flush=True)
    for text in lost[:3]:
        print(f"   lost: {text}")


def run(options, work):
    home = work / "home"
    port_file = work / "port"
    tracker = subprocess.Popen([str(kiln.BUILD / "tracker/kiln-tracker"), "--listen", "127.0.0.1:0", "--port-file", str(port_file)],
                               env={**os.environ, "KILN_HOME": str(home)}, stdout=subprocess.DEVNULL, stderr=open(work / "log", "w"),
                               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS)))
    try:
        while not port_file.exists():
            time.sleep(0.01)
        port, token = int(port_file.read_text()), bytes.fromhex((home / "token").read_text())
        print(f"a tracker with {DESCRIPTORS} descriptors, {rss_mb(tracker.pid):.0f} MB before", flush=True)
        one_crowd(tracker, port, token, ["127.0.0.1"], options)
        one_crowd(tracker, port, token, [f"127.0.0.{2 + i}" for i in range(64)], options)
        warnings = (work / "log").read_text().count("too many connections")
        print(f"warnings in the tracker's log: {warnings}")
    finally:
        tracker.terminate()
        tracker.wait()


if __name__ == "__main__":
    crowd(int(sys.argv[1]), sys.argv[2].split(","), int(sys.argv[3]), float(sys.argv[4]))
