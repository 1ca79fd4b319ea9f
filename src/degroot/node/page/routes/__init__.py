"""The page's routes."""
