"""What a node keeps about its work: ledger, logs, metrics and recent answers.
Imports protocol and server of the node, compute and exceptions only."""
