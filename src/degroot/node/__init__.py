"""One organisation's node: its server, its peers, its page, and the client that asks it.
Imports batch and the layers below."""
