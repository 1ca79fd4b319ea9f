"""The scores of every model on this node's rows, computed, stored and loaded.
Imports other packages of the node and the layers below."""
