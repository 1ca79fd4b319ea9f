"""A drill: a node in a network of its own that can dial the others and cannot be dialled takes part by copies.

To be run in `tests`, as root of a network: ``unshare -rnmpf --mount-proc --kill-child python -m support.one_way DIR``.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
from support.consortium import Consortium
from support.drills import missing, points, until
from support.network import Network

HIDDEN = "node2"
ASK = """
import json, sys
from degroot import connect
from support.drills import points
address, node, ca, certificate, key = sys.argv[1:]
with connect(address, node=node, ca=ca, certificate=certificate, key=key) as asked:
    print(json.dumps(asked.predict(points()).tolist()))
"""


def drill(folder):
    X, names = points(), ["node0", "node1", HIDDEN]
    network = Network(names)
    try:
        with Consortium(
            folder, 3, hosts=network.hosts, evidence="own", may=["query", "copy"], use=["copy"]
        ) as consortium:
            home = folder / HIDDEN / "node.toml"
            text = home.read_text()  # it listens where only its own namespace reaches it, as behind a firewall
            home.write_text(text.replace(f'listen = "{network.hosts[HIDDEN]}:', 'listen = "127.0.0.1:'))
            for name in names:
                consortium.start(name, prefix=network.enter(name))
            for name in ("node0", "node1"):
                with consortium.connect(name, caller=name) as node:
                    until(lambda node=node: not missing(node.consult(X)), lambda node=node: node.members, 300)
                    answer = node.consult(X)
                assert not missing(answer), (answer.flags, consortium.log(name)[-3000:])
                expected = consortium.collective().consult(X, asker=name)
                np.testing.assert_allclose(answer.value, expected.value, rtol=1e-9, atol=1e-9)
                lines = [json.loads(line) for line in consortium.log(name).splitlines()]
                assert not [line for line in lines if line["event"] == "refused" and "copy" in line["why"]]
            log = consortium.log(HIDDEN)
            until(lambda: consortium.log(HIDDEN).count('"peer ready"') == 2, lambda: consortium.log(HIDDEN), 300)
            assert consortium.log(HIDDEN).count('"model pushed"') >= 2, log
            keys = [str(path) for path in consortium.credentials(HIDDEN).values()]
            address = f"127.0.0.1:{consortium.ports[HIDDEN]}"
            command = [*network.enter(HIDDEN), sys.executable, "-c", ASK, address, HIDDEN, *keys]
            said = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            expected = consortium.collective().consult(X, asker=HIDDEN)
            np.testing.assert_allclose(said, expected.value, rtol=1e-9, atol=1e-9)
    finally:
        network.close()


if __name__ == "__main__":
    drill(Path(sys.argv[1]))
