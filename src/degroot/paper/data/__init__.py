"""The paper's data sets: downloaded, packaged or read from a folder. Imports exceptions only."""
