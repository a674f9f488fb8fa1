"""`model.module`: the user's torch module, in place of a model of transformers."""
