"""What is saved and compared: initial weights, checkpoints, exports, gradients."""
