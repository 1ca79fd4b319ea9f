"""Consensus where every agent has scored a sample of the models only: trust is (M, K, q).
Imports consensus, compute and exceptions only."""
