"""A network of its own for each node of a consortium, in namespaces, and a drill: the way between two of five is cut.

To be run in `tests`, as root of a network: ``unshare -rnmpf --mount-proc --kill-child python -m support.network DIR``.
"""

import subprocess
import sys
from pathlib import Path

from support.consortium import Consortium
from support.drills import EXACT, WAYS, missing, points, right, whole

NOWHERE = "02:00:00:00:00:99"


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


def drill(folder):
    X, names = points(), [f"node{k}" for k in range(5)]
    network = Network(names)
    try:
        with Consortium(folder, 5, hosts=network.hosts, deadline=3.0) as consortium:
            for name in names:
                consortium.start(name, prefix=network.enter(name))
            whole(consortium)
            network.cut("node1", "node3")
            for asked, way, lost in (
                ("node0", "solve", []), ("node1", "solve", ["node3"]), ("node3", "solve", ["node1"]),
                ("node1", "rounds", ["node3"]), ("node3", "rounds", ["node1"]),
            ):  # fmt: skip
                with consortium.connect(asked, way=way, **EXACT) as node:
                    right(node.consult(X), consortium, X, lost)
            with consortium.connect("node0", way="rounds", **EXACT) as node:
                answer = node.consult(X)
                assert len(missing(answer)) == 1
                assert set(missing(answer)) <= {"node1", "node3"}
                right(answer, consortium, X, list(missing(answer)))
            network.mend("node1", "node3")
            whole(consortium)
            for way in WAYS:
                with consortium.connect("node1", way=way, **EXACT) as node:
                    right(node.consult(X), consortium, X)
    finally:
        network.close()


if __name__ == "__main__":
    drill(Path(sys.argv[1]))
