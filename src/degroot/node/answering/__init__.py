"""Answers to questions put to this node: peers are asked for opinions, which are solved here.
Imports other packages of the node and the layers below."""
