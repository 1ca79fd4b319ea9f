"""The wire protocol: codecs between messages and arrays."""
