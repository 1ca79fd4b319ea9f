"""The wire protocol: `v2/collective.proto`, and codecs between its messages and arrays.
Imports config of the node and the layers below."""
