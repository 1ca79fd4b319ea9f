"""A network of its own for each node of a consortium, in namespaces, and a drill: the way between two of five is cut.

To be run in `tests`, as root of a network:
``unshare -rnmpf --mount-proc --kill-child python -m support.network DIR EVIDENCE``.
"""

import subprocess
import sys
from pathlib import Path

from support.consortium import Consortium
from support.drills import EXACT, WAYS, missing, points, right, whole

NOWHERE = "02:00:00:00:00:99"
X = points()


def run(*command):
    subprocess.run(command, check=True)


class Network:
    """A bridge, and a namespace with an address for each name. What is sent where there is a cut vanishes."""

    def __init__(self, names):
        self.hosts = {name: f"10.77.0.{10 + k}" for k, name in enumerate(names)}
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "bridge", "type", "bridge")
        run("ip", "addr", "add", "10.77.0.1/24", "dev", "bridge")
        run("ip", "link", "set", "bridge", "up")
        self._holders = {name: self._namespace(f"to{k}", host) for k, (name, host) in enumerate(self.hosts.items())}

    def enter(self, name):
        """What to put before a command for it to be in a name's namespace."""
        return ["nsenter", "-t", str(self._holders[name].pid), "-n"]

    def cut(self, *pair):
        for one, other in (pair, pair[::-1]):
            command = ["ip", "neigh", "replace", self.hosts[other], "lladdr", NOWHERE, "nud", "permanent"]
            run(*self.enter(one), *command, "dev", "eth0")

    def mend(self, *pair):
        for one, other in (pair, pair[::-1]):
            run(*self.enter(one), "ip", "neigh", "del", self.hosts[other], "dev", "eth0")

    def close(self):
        for holder in self._holders.values():
            holder.kill()
            holder.wait()

    def _namespace(self, link, host):
        command = ["unshare", "-n", "sh", "-c", "echo there && exec sleep 3600"]
        holder = subprocess.Popen(command, stdout=subprocess.PIPE)
        holder.stdout.readline()
        run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", str(holder.pid))
        run("ip", "link", "set", link, "master", "bridge", "up")
        for words in ("link set lo up", f"addr add {host}/24 dev eth0", "link set eth0 up"):
            run("nsenter", "-t", str(holder.pid), "-n", "ip", *words.split())
        return holder


def drill(folder, evidence):
    names = [f"node{k}" for k in range(5)]
    network = Network(names)
    try:
        with Consortium(folder, 5, hosts=network.hosts, deadline=3.0, evidence=evidence) as consortium:
            if evidence == "own":
                consortium.write("node3", may={"node1": ["query", "copy"]})  # all others query, also node3 at node1
            for name in names:
                consortium.start(name, prefix=network.enter(name))
            whole(consortium)
            network.cut("node1", "node3")
            (check_pooled if evidence == "pooled" else check_own)(consortium)
            network.mend("node1", "node3")
            for asked in ("node1", "node3"):
                whole(consortium, asked)
                for way in WAYS if evidence == "pooled" else ["solve"]:
                    ask(consortium, asked, way)
    finally:
        network.close()


def ask(consortium, asked, way="solve", lost=()):
    """Ask one node; its answer is right without those whom it has lost, who are named."""
    with consortium.connect(asked, caller=asked, way=way, **EXACT) as node:
        right(node.consult(X), consortium, X, lost)


def check_pooled(consortium):
    """Where evidence is pooled, neither of the two answers with the other, and others not with both by rounds."""
    ask(consortium, "node0")
    for asked, other in (("node1", "node3"), ("node3", "node1")):
        for way in WAYS:
            ask(consortium, asked, way, [other])
    with consortium.connect("node0", way="rounds", **EXACT) as node:
        answer = node.consult(X)
        assert len(missing(answer)) == 1
        assert set(missing(answer)) <= {"node1", "node3"}
        right(answer, consortium, X, list(missing(answer)))


def check_own(consortium):
    """Where it stays at home: who has a copy of the other's model misses nothing, and others are not concerned."""
    for asked in ("node0", "node1", "node2", "node4"):
        ask(consortium, asked)
    ask(consortium, "node3", lost=["node1"])


if __name__ == "__main__":
    drill(Path(sys.argv[1]), sys.argv[2])
