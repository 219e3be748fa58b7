"""fleet [--boards N] [--tls]: a synthetic fleet of thousands of boards, through a real tracker (see bench-fleet --help)"""
import json
import os
import pathlib
import subprocess
import tempfile
import time

import kiln


def add_options(parser):
    parser.add_argument("--boards", type=int, default=2000)
    parser.add_argument("--tls", action="store_true", help="a key for each; else plain text with the token")
    parser.add_argument("--clients", type=int, default=200, help="clients, a job each")
    parser.add_argument("--blob", type=int, default=0, metavar="MIB", help="in place of the loads: a blob up and down, and what PINGs wait meanwhile")
    parser.add_argument("--seconds", type=float, default=5, help="length of each load")
    parser.add_argument("--state", type=pathlib.Path, default=None,
                        help="folder of the tracker's database (default: in memory, as the disk is not what is measured)")


def sync_ms(folder):
    """What the folder's disk takes to make 8 KiB durable: median of 50."""
    times = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(50):
            file.write(bytes(8192))
            file.flush()
            begin = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - begin)
    return 1e3 * sorted(times)[25]


def run(options, work):
    memory = pathlib.Path("/dev/shm")
    state = options.state or (memory if memory.is_dir() else work)
    done = subprocess.run([str(kiln.BUILD / "tests/bench/bench-fleet"), "--tracker", str(kiln.BUILD / "tracker/kiln-tracker"),
                           "--boards", str(options.boards), "--clients", str(options.clients), "--seconds", str(options.seconds),
                           "--state", str(state), *(["--tls"] if options.tls else []),
                           *(["--blob", str(options.blob), "--mover", str(kiln.BUILD / "tests/bench/bench-mover")] if options.blob else [])], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    print(done.stderr, end="")
    f = json.loads(done.stdout.splitlines()[-1])
    cpu = lambda row: f"tracker {row['tracker_cpu']:.2f}, generator {row['generator_cpu']:.2f} of a core"
    wait = lambda row: f"p50 {row['p50_ms']:.2f} ms, p99 {row['p99_ms']:.2f} ms, max {row['max_ms']:.1f} ms (asked {row['late_p99_ms']:.2f} ms late, p99)"
    print(f"{f['boards']} boards, {'TLS' if f['tls'] else 'plain text'}; a disk that takes {sync_ms(state):.2f} ms to sync")
    print(f"registered:      all in {f['registered_s']:.2f} s")
    if options.blob:
        turns = lambda row: f"{row['turns']:.0f} turns of the loop, {row['slow']:.0f} over 5 ms, {row['slow_cpu']:.0f} over 5 ms of CPU"
        print(f"PING, idle:      {wait(f['idle'])}; {turns(f['idle'])}")
        print(f"PING, a blob:    {wait(f['moving'])}; {turns(f['moving'])}")
        print(f"p99 with a blob: {f['moving']['p99_ms'] / f['idle']['p99_ms']:.2f} times that of an idle tracker (3 are wanted)")
        print(f"{options.blob} MiB:        up in {f['moved']['up_s']:.2f} s, down in {f['moved']['down_s']:.2f} s; connections lost meanwhile {f['moving']['closed']}")
        return
    print(f"full load:       {f['full']['answers_per_s']:,.0f} grants/s (20,000 are wanted); {cpu(f['full'])}")
    print(f"half load:       {f['half']['answers_per_s']:,.0f} grants/s: {wait(f['half'])}; {cpu(f['half'])}")
    print(f"half the wanted: {f['wanted']['answers_per_s']:,.0f} grants/s: {wait(f['wanted'])} (p99 of 2 ms is wanted); {cpu(f['wanted'])}")
    print(f"pings instead:   {f['pings']['answers_per_s']:,.0f} answers/s: {wait(f['pings'])}; {cpu(f['pings'])}")
    print(f"trials:          {f['trials']['placements_per_s']:,.0f} placed a second, {f['trials']['answers_per_s']:,.0f} leases; {cpu(f['trials'])}")
    print(f"memory:          {f['connection_bytes'] / 1024:.1f} KB a connection (24 are wanted), {f['rss_bytes'] / 2**20:.0f} MB in all, "
          f"{f['rss_loaded_bytes'] / 2**20:.0f} after the loads")
    print(f"all cut:         registered again in {f['cut_s']:.2f} s (5 are wanted)")
    print(f"tracker killed:  serves in {f['restart_s']:.2f} s, all registered again in {f['killed_s']:.2f} s (5 are wanted)")
    print(f"refused {f['refused']}, leases lost {f['lost']}, breaches {f['breaches']}")
