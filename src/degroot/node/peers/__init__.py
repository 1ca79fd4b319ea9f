"""The other nodes: a link to each, retries, who is there, and the quorum.
Imports other packages of the node and the layers below."""
