"""`model.module`: a torch module of the user's own, in place of a model of transformers."""
