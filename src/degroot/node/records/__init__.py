"""What a node keeps about its work: ledger, receipts, logs, metrics and recent answers.
Imports config, peers, protocol, server and tls of the node, compute, files and exceptions only."""
