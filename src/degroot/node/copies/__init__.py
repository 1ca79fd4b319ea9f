"""Copies of models: signed bundles that owners give to peers, kept and asked where the rows are.
Imports other packages of the node and the layers below."""
