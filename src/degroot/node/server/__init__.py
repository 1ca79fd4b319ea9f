"""The node's gRPC server: its process, its services, who has access, and reloading.
Imports other packages of the node and the layers below."""
