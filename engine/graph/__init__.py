"""The model as a graph of ops: shapes, rewrites (fusion), liveness and the memory plan."""
