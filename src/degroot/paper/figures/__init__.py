"""The paper's figures, tables and theorems, one module each. Imports paper and public names only."""
