"""What tests/chaos.sh runs: training jobs under faults, and the table of what became of them."""

import argparse
import collections
import hashlib
import mmap
import os
import random
import secrets
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time

from hosts import Host, Network, send

HEARTBEAT = 3.0
RENDEZVOUS = 150.0
# A job that exceeds every timeout, including the two minutes of elastic's process group, is hung.
HANG = RENDEZVOUS + 60


class Job:
    """One training of `hosts`, under way."""

    def __init__(self, run, folder):
        self.run, self.folder, self.network = run, folder, run.network
        os.makedirs(folder)
        self.disk = os.path.join(folder, "disk")
        os.makedirs(self.disk)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", self.disk], check=True)
        self.began = time.monotonic()
        self.clocks, self.hosts = [], []
        token = secrets.token_hex(16)
        for k in range(run.options.hosts):
            clock = os.path.join(folder, f"clock_{k}")
            with open(clock, "wb") as f:
                f.write(bytes(8))
            self.clocks.append(clock)
            command = [
                run.program("ferrite-run"), f"--nnodes={run.options.hosts}", f"--node-rank={k}",
                f"--master-addr={self.network.address(0)}", f"--nproc-per-node={run.options.ranks}",
                "--max-restarts=1000", "--restart-backoff=0.05", "--restart-backoff-max=1",
                f"--heartbeat-timeout={HEARTBEAT}", f"--rdzv-timeout={RENDEZVOUS}",
                "--grace-period=5", run.program("elastic"), "--epochs=100",
                f"--max-steps={run.options.steps}", "--batch-size=16", "--save-every=20",
                "--print-freq=100", "--workers=0", f"--checkpoint-dir={self.disk}"]
            environment = dict(os.environ, FERRITE_TOKEN=token, CHAOS_CLOCK=clock,
                               LD_PRELOAD=run.clock_library, FERRITE_NUM_THREADS="1")
            self.hosts.append(Host(self.network.names[k], command, environment,
                                   os.path.join(folder, f"host_{k}.log")))

    def over(self):
        return all(h.status is not None for h in self.hosts)

    def failed(self):
        return any(h.status for h in self.hosts)

    def weights(self):
        try:
            with open(os.path.join(self.disk, "final.safetensors"), "rb") as f:
                return hashlib.sha256(f.read()).hexdigest()
        except OSError:
            return None

    def errors(self):
        """What the agents that gave up said last."""
        said = []
        for k, host in enumerate(self.hosts):
            if host.status:
                with open(host.log, errors="replace") as f:
                    lines = [l.strip() for l in f if "[ferrite-run]" in l]
                said.append(f"host {k}, status {host.status}: {lines[-1] if lines else ''}")
        return said

    def close(self):
        for host in self.hosts:
            host.end()
        subprocess.run(["umount", "-l", self.disk], check=False)


# ---- Faults: each returns a description of what it did, or nothing if it had no target. `wait`
# returns early if the job is over.

class Fault:
    def __init__(self, job, rng, wait):
        self.job, self.rng, self.wait = job, rng, wait
        self.network = job.network
        self.longest = job.run.options.longest_cut

    def host(self, lowest=0):
        return self.rng.randrange(lowest, len(self.job.hosts))

    def kill_rank(self):
        ranks = self.job.hosts[self.host()].ranks()
        return ranks and send(self.rng.choice(ranks), signal.SIGKILL) and "killed"

    def kill_agent(self, k):
        return send(self.job.hosts[k].agent(), signal.SIGKILL) and f"host {k}"

    def kill_agent_0(self):
        return self.kill_agent(0)

    def kill_another_agent(self):
        return self.kill_agent(self.host(1))

    def kill_host(self):
        k = self.host()
        children = self.job.hosts[k].children()
        done = self.kill_agent(k)
        for pid, _ in children:
            send(pid, signal.SIGKILL)
        return done

    def stop(self, pid):
        seconds = self.rng.choice([0.2, 1, HEARTBEAT + 3])
        if not send(pid, signal.SIGSTOP):
            return None
        self.wait(seconds)
        send(pid, signal.SIGCONT)
        return f"for {seconds:.1f} s"

    def stop_rank(self):
        ranks = self.job.hosts[self.host()].ranks()
        return ranks and self.stop(self.rng.choice(ranks))

    def stop_agent_0(self):
        return self.stop(self.job.hosts[0].agent())

    def stop_another_agent(self):
        return self.stop(self.job.hosts[self.host(1)].agent())

    def cut(self, seconds):
        k, side = self.host(), self.rng.choice(["host", "switch"])
        self.network.cut(k, side)
        self.wait(seconds)
        self.network.mend(k, side)
        return f"host {k} at the {side} for {seconds:.1f} s"

    def cut_short(self):
        return self.cut(self.rng.uniform(0.3, HEARTBEAT - 1))

    def cut_long(self):
        low = HEARTBEAT + 2
        return self.cut(low * (max(self.longest, low) / low) ** self.rng.random())

    def cut_one_way(self):
        k = self.host()
        self.network.firewall(k, self.rng.choice(["INPUT", "OUTPUT"]), "!", "-s",
                              self.network.address(k), "-p", "tcp", "-j", "DROP")
        seconds = self.rng.uniform(0.5, HEARTBEAT + 4)
        self.wait(seconds)
        self.network.firewall(k)
        return f"host {k} for {seconds:.1f} s"

    def reset(self):
        k = self.host()
        self.network.firewall(k, "INPUT", "-p", "tcp", "-i", "eth0", "-j", "REJECT",
                              "--reject-with", "tcp-reset")
        seconds = self.rng.uniform(0.1, HEARTBEAT + 2)
        self.wait(seconds)
        self.network.firewall(k)
        return f"host {k} for {seconds:.1f} s"

    def slow(self):
        k = self.host()
        how = self.network.slow(k, self.rng)
        self.wait(self.rng.uniform(0.5, 4))
        self.network.fast(k)
        return f"host {k} {how}"

    def flood(self):
        k = self.host()
        seconds = self.rng.uniform(0.5, 3)
        count = self.network.flood(k, seconds, 900, self.rng.random())
        return count > 0 and f"host {k} by {count} connections"

    def fill_disk(self):
        path = os.path.join(self.job.disk, f"other_data_{threading.get_ident()}")
        with open(path, "wb", buffering=0) as f:
            try:
                while True:
                    f.write(bytes(16384))
            except OSError:
                pass
        seconds = self.rng.uniform(0.2, 3)
        self.wait(seconds)
        os.remove(path)
        return f"for {seconds:.1f} s"

    def set_clock(self):
        k = self.host()
        seconds = self.rng.choice([-10 * 365 * 86400, -86400, -5, 5, 3600, 10 * 365 * 86400])
        with open(self.job.clocks[k], "r+b") as f, mmap.mmap(f.fileno(), 8) as clock:
            clock[:] = struct.pack("<q", int(seconds * 1e9))
        return f"host {k} by {seconds} s"


FAULTS = {  # how often, and the table's name
    "kill_rank": (2, "a rank killed"),
    "kill_agent_0": (1, "node 0's agent killed"),
    "kill_another_agent": (1, "another agent killed"),
    "kill_host": (1, "all of a host killed"),
    "stop_rank": (1, "a rank stopped"),
    "stop_agent_0": (1, "node 0's agent stopped"),
    "stop_another_agent": (1, "another agent stopped"),
    "cut_short": (1.5, "network cut, below the time-out"),
    "cut_long": (1.5, "network cut, above the time-out"),
    "cut_one_way": (1, "packets lost one way"),
    "reset": (1, "connections reset"),
    "slow": (1, "a slow link"),
    "flood": (1, "ports flooded by another user"),
    "fill_disk": (1, "disk full"),
    "set_clock": (1, "clock set"),
}
OUTCOMES = ["to the bit", "clear error", "hang", "wrong bits", "no reason", "left behind"]


class Run:
    def __init__(self, options):
        self.options = options
        self.clock_library = os.path.join(options.work, "clock.so")
        self.network = Network(options.hosts)
        self.table = collections.defaultdict(collections.Counter)
        self.bad = 0
        self.events = 0

    def program(self, name):
        return os.path.join(self.options.work, name)

    def undisturbed(self):
        job = Job(self, os.path.join(self.options.work, "undisturbed"))
        try:
            while not job.over() and time.monotonic() < job.began + 120:
                time.sleep(0.02)
            if not job.over() or job.failed() or not job.weights():
                sys.exit(f"chaos: the undisturbed run has not ended well: {job.errors()}; its "
                         f"output is in {job.folder}")
            self.seconds = time.monotonic() - job.began
            print(f"undisturbed: {self.seconds:.1f} s, {self.options.hosts} hosts, weights "
                  f"{job.weights()[:16]}", flush=True)
            self.expected = job.weights()
        finally:
            job.close()

    def job(self, number, rng):
        """One training with some faults, at any time of it, more than one at once too."""
        job = Job(self, os.path.join(self.options.work, f"job_{number}"))
        log, threads, over, broken = [], [], threading.Event(), []
        names = list(self.chosen)
        weights = [FAULTS[n][0] for n in names]
        busy = collections.Counter()  # seconds that faults have lasted

        def put(name, seed):
            began, done = time.monotonic(), None
            try:
                done = getattr(Fault(job, random.Random(seed), over.wait), name)()
            except Exception as error:  # an error of this script, not of the job
                broken.append(f"{name}: {error!r}")
            busy["all"] += time.monotonic() - began
            if done:
                log.append((name, began - job.began, done))

        try:
            time.sleep(rng.uniform(0, self.seconds / 2))
            for _ in range(rng.randint(1, 6)):
                if job.over() or self.finished():
                    break
                thread = threading.Thread(target=put, args=(self.next_fault(rng, names, weights),
                                                            rng.random()))
                thread.start()
                threads.append(thread)
                time.sleep(rng.expovariate(1 / 1.2))
            limit = None
            while not job.over() and not job.failed():
                if not any(t.is_alive() for t in threads):
                    limit = limit or time.monotonic() + HANG + 5 * self.seconds + busy["all"]
                    if time.monotonic() > limit:
                        break
                time.sleep(0.02)
            # The others are notified, or notice by themselves.
            end = time.monotonic() + HANG
            while job.failed() and not job.over() and time.monotonic() < end:
                time.sleep(0.05)
        finally:
            over.set()
            for thread in threads:
                thread.join()
            outcome = self.outcome(job)
            took = time.monotonic() - job.began
            errors, weights_now = job.errors(), job.weights()
            for k in range(self.options.hosts):
                self.network.firewall(k)
                self.network.fast(k)
            job.close()
        if broken:
            sys.exit(f"chaos: a fault could not be put: {broken}")
        self.tell(number, job, outcome, took, log, errors, weights_now)

    def outcome(self, job):
        if not job.over():
            return "hang"
        end = time.monotonic() + 10
        while self.network.left() and time.monotonic() < end:
            time.sleep(0.05)
        if self.network.left():
            return "left behind"
        if not job.failed():
            return "to the bit" if job.weights() == self.expected else "wrong bits"
        return "clear error" if all(": [ferrite-run]" in e for e in job.errors()) else "no reason"

    def next_fault(self, rng, names, weights):
        """Those that have not been tried at all go first."""
        new = [n for n in names if n not in self.tried]
        name = new[0] if new else rng.choices(names, weights)[0]
        self.tried.add(name)
        return name

    def finished(self):
        o = self.options
        return (o.events and self.events >= o.events) or time.monotonic() > self.end

    def tell(self, number, job, outcome, took, log, errors, weights):
        for name, _, _ in log:
            self.table[name][outcome] += 1
        self.events += len(log)
        what = "; ".join(f"{at:.1f} s {name} {done}" for name, at, done in sorted(
            log, key=lambda entry: entry[1]))
        print(f"job {number}: {outcome}, {took:.1f} s: {what}", flush=True)
        for error in errors:
            print(f"  {error}", flush=True)
        if outcome == "to the bit":
            shutil.rmtree(job.folder, ignore_errors=True)
        else:
            print(f"  its output is in {job.folder}; weights {weights}", flush=True)
            self.bad += outcome != "clear error"
            self.kept = True

    def all(self):
        o = self.options
        self.chosen = o.only.split(",") if o.only else list(FAULTS)
        self.tried, self.kept = set(), False
        self.undisturbed()
        self.end = time.monotonic() + 60 * o.minutes
        number = 0
        while not self.finished():
            number += 1
            self.job(number, random.Random(f"{o.seed} {number}"))
        self.print_table(number)

    def print_table(self, jobs):
        total = collections.Counter()
        print(f"\nseed {self.options.seed}, {jobs} jobs, {self.events} faults; a fault counts for "
              f"what became of its job\n\n| fault | events | " + " | ".join(OUTCOMES) + " |\n|" +
              " --- |" * (2 + len(OUTCOMES)))
        for name in self.chosen:
            counts = self.table[name]
            total.update(counts)
            print(f"| {FAULTS[name][1]} | {sum(counts.values())} | " +
                  " | ".join(str(counts[o]) for o in OUTCOMES) + " |")
        print(f"| all | {sum(total.values())} | " + " | ".join(str(total[o]) for o in OUTCOMES) +
              " |", flush=True)


def main():
    parser = argparse.ArgumentParser(prog="tests/chaos.sh", description="Training under faults.")
    parser.add_argument("--minutes", type=float, default=30, help="no new faults afterwards (30)")
    parser.add_argument("--events", type=int, default=0, help="nor after so many (0: no limit)")
    parser.add_argument("--seed", default=None, help="of what is done when (one of its own)")
    parser.add_argument("--only", default="", help="these faults alone, with commas between")
    parser.add_argument("--list", action="store_true", help="the faults that there are")
    parser.add_argument("--hosts", type=int, default=3, help="of the job (3)")
    parser.add_argument("--ranks", type=int, default=1, help="of each host (1)")
    parser.add_argument("--steps", type=int, default=1000, help="of training a job (1000)")
    parser.add_argument("--longest-cut", type=float, default=20,
                        help="seconds of the longest cut of the network (20)")
    parser.add_argument("--work", required=True, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.seed = options.seed or secrets.token_hex(4)
    if options.list:
        shutil.rmtree(options.work)
        print("\n".join(f"{name}: {what}" for name, (_, what) in FAULTS.items()))
        return 0
    unknown = [n for n in options.only.split(",") if n and n not in FAULTS]
    if unknown or options.hosts < 2:
        parser.error(f"there is no fault {unknown[0]}" if unknown else "--hosts: 2 or more")
    for number in (signal.SIGINT, signal.SIGTERM):  # so that namespaces and mounts are removed
        signal.signal(number, lambda *_: sys.exit("chaos: interrupted"))
    run = Run(options)
    try:
        run.all()
    finally:
        run.network.close()
        if not getattr(run, "kept", True):
            shutil.rmtree(options.work, ignore_errors=True)
    return 1 if run.bad else 0


if __name__ == "__main__":
    sys.exit(main())
