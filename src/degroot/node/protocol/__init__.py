"""The wire protocol: `v1/collective.proto`, and codecs between its messages and arrays.

Imports answering and config of the node for names, and the layers below.
"""
