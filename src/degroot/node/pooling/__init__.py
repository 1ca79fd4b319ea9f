"""Pooling in rounds between nodes: the state of one member, its session, and the coordinator.
Imports other packages of the node and the layers below."""
