"""Which configuration trains a model fastest in a given memory: predicted where that is enough."""
