"""What one comparison will do: checked against this machine, and planned before any work starts."""
