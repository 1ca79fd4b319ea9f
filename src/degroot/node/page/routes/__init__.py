"""The page's routes: each takes a request apart and calls one function.
Imports other packages of the node and the layers below."""
