"""The wire protocol: `v3/collective.proto`, and codecs between its messages and arrays.
Imports config of the node and the layers below."""
