"""Hosts of a job, as network name spaces on a bridge, each with an agent that is started again when
it is killed, as an init system would."""

import collections
import ctypes
import os
import random
import signal
import socket
import struct
import subprocess
import threading
import time

CLONE_NEWNET = 0x40000000
NOBODY = 65534


def ip(*arguments, check=True):
    subprocess.run(["ip", *arguments], check=check, capture_output=not check)


class Network:
    """A bridge, in a name space of its own, and `count` name spaces on it. The machine's own network
    is not touched."""

    def __init__(self, count):
        self.middle = f"ferrite-chaos-{os.getpid()}"
        self.names = [f"{self.middle}-{k}" for k in range(count)]
        self.cuts = collections.Counter()
        self.lock = threading.Lock()
        try:
            ip("netns", "add", self.middle)
            ip("-n", self.middle, "link", "add", "bridge", "type", "bridge")
            ip("-n", self.middle, "link", "set", "bridge", "up")
            for k, name in enumerate(self.names):
                ip("netns", "add", name)
                ip("-n", self.middle, "link", "add", f"port{k}", "type", "veth", "peer", "name",
                   "eth0", "netns", name)
                ip("-n", self.middle, "link", "set", f"port{k}", "master", "bridge", "up")
                ip("-n", name, "address", "add", f"{self.address(k)}/24", "dev", "eth0")
                ip("-n", name, "link", "set", "lo", "up")
                ip("-n", name, "link", "set", "eth0", "up")
        except BaseException:
            self.close()
            raise

    @staticmethod
    def address(k):
        return f"10.99.0.{k + 1}"

    def close(self):
        for name in [*self.names, self.middle]:
            ip("netns", "delete", name, check=False)

    def inside(self, k, *command, check=True):
        return subprocess.run(["ip", "netns", "exec", self.names[k], *command], check=check,
                              capture_output=True, text=True)

    def cut(self, k, side):
        """`side`: the host's own interface, or the switch's port."""
        with self.lock:
            self.cuts[k, side] += 1
            self.set_link(k, side, "down")

    def mend(self, k, side):
        """Where several have cut it, the last one mends it."""
        with self.lock:
            self.cuts[k, side] -= 1
            if self.cuts[k, side] == 0:
                self.set_link(k, side, "up")

    def set_link(self, k, side, state):
        if side == "host":
            ip("-n", self.names[k], "link", "set", "eth0", state)
        else:
            ip("-n", self.middle, "link", "set", f"port{k}", state)

    def left(self):
        """Processes that are in the hosts."""
        found = []
        for name in self.names:
            listed = subprocess.run(["ip", "netns", "pids", name], check=True, capture_output=True,
                                    text=True)
            found += [int(pid) for pid in listed.stdout.split()]
        return found

    def firewall(self, k, *rule):
        """A rule more, or with none all taken away."""
        if rule:
            self.inside(k, "iptables", "-w", "-A", *rule)
        else:
            self.inside(k, "iptables", "-w", "-F")

    def slow(self, k, rng):
        """Delays by netem, where the kernel has it, else a narrow link with a long queue."""
        netem = ["netem", "delay", f"{rng.randint(5, 200)}ms", "30ms", "loss", "2%"]
        if self.inside(k, "tc", "qdisc", "replace", "dev", "eth0", "root", *netem,
                       check=False).returncode == 0:
            return " ".join(netem)
        tbf = ["tbf", "rate", f"{rng.randint(1, 8)}mbit", "burst", "16kb", "latency", "400ms"]
        self.inside(k, "tc", "qdisc", "replace", "dev", "eth0", "root", *tbf)
        return " ".join(tbf)

    def fast(self, k):
        self.inside(k, "tc", "qdisc", "delete", "dev", "eth0", "root", check=False)

    @staticmethod
    def listening(table):
        """What is listened on, by /proc/net/tcp of a name space."""
        found = []
        table.seek(0)
        for line in table.readlines()[1:]:
            fields = line.split()
            if fields[3] == "0A":
                host, port = fields[1].split(":")
                found.append((socket.inet_ntoa(struct.pack("<I", int(host, 16))), int(port, 16)))
        return found

    def flood(self, k, seconds, most, seed):
        """Another user of the host connects to every port that anything listens on, again and
        again, sends garbage, or nothing, and holds on to so many. The number of connections."""
        told, tell = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.write(tell, str(self.connect_to_all(k, seconds, most, seed)).encode())
            except BaseException as error:
                os.write(tell, repr(error).encode())
            finally:
                os._exit(0)
        os.close(tell)
        with open(told) as answer:
            said = answer.read()
        os.waitpid(child, 0)
        return int(said)

    def connect_to_all(self, k, seconds, most, seed):
        with open(f"/run/netns/{self.names[k]}") as name_space:
            if ctypes.CDLL(None, use_errno=True).setns(name_space.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")
        # Of this thread, which may not be the one that the process is called by.
        table = open("/proc/thread-self/net/tcp")
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        rng, held, count = random.Random(seed), [], 0
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for address in 8 * self.listening(table):
                # No module is loaded from here on: this user may not be let in to where they are.
                s = socket.socket()
                s.settimeout(0.05)
                try:
                    s.connect(address)
                    count += 1
                    s.setblocking(False)
                    if rng.random() < 0.7:
                        s.send(rng.choice([b"FERRITE\n", b"GET / HTTP/1.0\r\n\r\n", b""]) +
                               rng.randbytes(rng.randint(0, 4096)))
                    held.append(s)
                except OSError:
                    pass
            held = held[-most:]
            time.sleep(0.002)
        return count


class Host:
    """An agent, and what it has started. An agent that is killed is started again; one that ends by
    itself is not."""

    def __init__(self, name, command, environment, log):
        self.command = ["ip", "netns", "exec", name, *command]
        self.environment, self.log = environment, log
        self.status = None  # what it ended with by itself
        self.over = False
        self.kills = 0
        self.lock = threading.Lock()
        self.process = None
        self.thread = threading.Thread(target=self.keep, daemon=True)
        self.thread.start()

    def keep(self):
        rng = random.Random(self.log)
        while not self.over:
            with open(self.log, "ab") as out:
                process = subprocess.Popen(self.command, env=self.environment, stdout=out,
                                           stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                           start_new_session=True)
            with self.lock:
                self.process = process
                if self.over:
                    process.kill()
            status = process.wait()
            if status >= 0:
                self.status = status
                return
            time.sleep(rng.uniform(0.1, 2))

    def agent(self):
        """Its process, None where there is none just now."""
        with self.lock:
            p = self.process
            return p.pid if p and p.poll() is None else None

    def children(self):
        found, agent = [], self.agent()
        if not agent:
            return found
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            try:
                with open(f"/proc/{entry}/stat") as stat:
                    text = stat.read()
            except OSError:
                continue
            name, rest = text[text.index("(") + 1:].rsplit(")", 1)
            if int(rest.split()[1]) == agent:
                found.append((int(entry), name))
        return found

    def ranks(self):
        return [pid for pid, name in self.children() if name == "elastic"]

    def end(self):
        self.over = True
        for pid in [*self.ranks(), self.agent()]:
            send(pid, signal.SIGKILL)
        self.thread.join(timeout=5)


def send(pid, number):
    """Whether there was somebody to send it to."""
    try:
        if pid:
            os.kill(pid, number)
        return bool(pid)
    except ProcessLookupError:
        return False
