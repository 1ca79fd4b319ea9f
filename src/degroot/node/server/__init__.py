"""The node's gRPC server."""
