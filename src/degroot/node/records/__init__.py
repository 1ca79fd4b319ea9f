"""What a node keeps about its work: ledger, logs, metrics and recent answers.

Imports answering and server of the node, compute and exceptions only.
"""
