"""The demonstration: five organisations with a node each, on this machine, and what they answer together.
Imports paper and the layers below."""
