"""An agent: a model, private rows, and its scores of every model. Imports answers and the layers below."""
