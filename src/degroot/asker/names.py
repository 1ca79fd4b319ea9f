"""The names of candidates for an asker's view, by which answers tell what was mixed."""

OWN, LOCAL, CENTRED, GLOBAL, INVERSE, AVERAGE = (
    "own", "local stacking", "centred", "global stacking", "inverse error", "average",
)  # fmt: skip
TRUST, EQUAL = "trust row", "equal weights"
CENTRED_NEAR = ("locally centred, 15 %", "locally centred, 40 %")  # of narrow and of wide neighbourhoods
OWN_CORRECTED, MIXTURE_CORRECTED = "own, corrected", "mixture, corrected"  # what a learned correction adds
