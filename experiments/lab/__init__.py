"""What the experiments share: networks, kept scores, methods, tables and figures."""
