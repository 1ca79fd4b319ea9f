"""Evidence maps between nodes: this node's is published within its budget, peers' are fetched and kept.
Imports other packages of the node and the layers below."""
