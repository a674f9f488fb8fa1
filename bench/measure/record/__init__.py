"""What has been measured, what failed, what an earlier run has left, and what runs now."""
