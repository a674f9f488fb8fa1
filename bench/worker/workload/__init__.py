"""What is trained: the model, built from its published configuration, and its batches."""
