"""Certificates and identities: the consortium's CA, and mutual TLS.
Imports config of the node, files and exceptions only."""
