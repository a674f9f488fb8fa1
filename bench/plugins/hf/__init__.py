"""`data=hf`: a dataset in Hugging Face's format, prepared as training scripts do it."""
