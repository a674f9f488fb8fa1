"""What is saved and compared: initial weights and gradients."""
