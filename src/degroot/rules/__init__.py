"""Rules, from evidence to weights; `degroot` holds the paper's Algorithms 1 and 2.
Imports consensus, jackknife, stacking, trust and compute only."""
