"""The state folder as a whole: whose it is, of which version, backups, and what is restored from them.
Imports the other packages of the node but pages and answers, and the layers below."""
