"""The paper's figures, tables and theorems."""
