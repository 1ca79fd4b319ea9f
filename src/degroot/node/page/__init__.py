"""The node's page: what people look at, on this machine only. FastAPI and uvicorn in the node's own event loop."""
