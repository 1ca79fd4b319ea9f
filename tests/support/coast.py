"""Nodes for drills of certificates and rosters: one is given rosters, and all count."""

import shutil
from urllib.request import urlopen

from support.consortium import Consortium, free_ports
from support.drills import missing, points, until
from support.under_load import read_log

from degroot.node.peers import instances, link
from degroot.node.tls.roster import FILE, write_roster

GIVEN = "node0"  # the node to which rosters are given, which all others have from it
SILENT_SECONDS = 3.0  # after which a duplicate that has stopped is forgotten, in these drills
LOOK_SECONDS = 1.0  # between looks at a peer's certificate


def hurry(_folder):
    """In a node's process: what it does once a minute it does once in a few seconds."""
    instances.DUPLICATE_SECONDS = SILENT_SECONDS
    link.LOOK_SECONDS = LOOK_SECONDS


class Coast(Consortium):
    """Nodes of which the first is given rosters, all with metrics."""

    def __init__(self, folder, K=4, **settings):
        self.metrics = {}
        super().__init__(folder, K, **settings)
        for name, port in zip(self.names, free_ports(K), strict=True):
            self.metrics[name] = port
        for name in self.names:
            self.write(name)

    def write(self, name, peers=None, **settings):
        metrics = f"\n[metrics]\nport = {self.metrics[name]}\n" if name in self.metrics else ""
        super().write(name, peers, **{**settings, "limits": settings.get("limits", "") + metrics})
        if name == GIVEN:
            self.edit(name, f'key = "../keys/{name}.key"\n', f'key = "../keys/{name}.key"\nroster = "../given.toml"\n')

    def edit(self, name, old, new):
        """Change a node's configuration, at once."""
        path = self.folder / name / "node.toml"
        whole = path.with_suffix(".new")
        whole.write_text(path.read_text().replace(old, new))
        whole.replace(path)

    @property
    def keys(self):
        return self.folder / "keys"

    def give(self, path=None):
        """Give a roster, the CA's newest by default, to one node."""
        whole = self.folder / "given.new"
        shutil.copyfile(path or self.keys / FILE, whole)
        whole.replace(self.folder / "given.toml")

    def sign(self, **changes):
        """Sign the next roster, and give it to one node."""
        roster = write_roster(self.keys, **changes)
        self.give()
        return roster.number

    def has_logged(self, name, event, after=0, /, **about):
        """Whether a node has logged an event with these fields, after the first so many lines."""
        lines = read_log(self, name, event, after)
        return any(all(line.get(key) == value for key, value in about.items()) for line in lines)

    def see(self, event, /, *names, after=None, **about):
        """Wait until nodes, all by default, have logged an event."""
        for name in names or self.names:
            begun = (after or {}).get(name, 0)
            until(
                lambda name=name, begun=begun: self.has_logged(name, event, begun, **about),
                lambda name=name: f"{name} has not logged {event} {about}:\n{self.log(name)[-1500:]}",
            )

    def measure(self, name, metric):
        """A metric of a node, as Prometheus reads it."""
        with urlopen(f"http://127.0.0.1:{self.metrics[name]}/metrics", timeout=60) as reply:
            lines = reply.read().decode().splitlines()
        return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"degroot_{metric} ")), None)

    def see_missing(self, name, reasons):
        """Wait until the answers of a node lack these, and say so for these reasons."""
        with self.connect(name) as node:
            until(
                lambda: missing(node.consult(points(1))) == reasons,
                lambda: f"{missing(node.consult(points(1)))}\n{self.log(name)[-1500:]}",
            )

    def see_whole(self):
        """Wait until all nodes answer with all."""
        self.ready()
        for name in self.names:
            self.see_missing(name, {})
        return self

    def find_reasons(self, name):
        """Who is missing from an answer of a node, and why."""
        with self.connect(name) as node:
            return missing(node.consult(points(1)))
