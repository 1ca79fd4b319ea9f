"""Links to the other nodes."""
