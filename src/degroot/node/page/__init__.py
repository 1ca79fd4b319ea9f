"""The node's page, on this machine only: FastAPI and uvicorn in the node's own event loop.
Imports other packages of the node, batch and the layers below; the templates, styles and scripts are files."""
