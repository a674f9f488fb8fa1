"""What each page says, in blocks; render/ writes them as Markdown."""
