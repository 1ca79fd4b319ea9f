"""The data-flow record of a node, for people: from its configuration and ledger, as Markdown or HTML.
Imports config, copies and records of the node and the layers below."""
