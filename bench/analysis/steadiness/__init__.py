"""What makes a comparison less trustworthy than its intervals say."""
