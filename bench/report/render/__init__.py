"""One module for each format: it turns blocks into text of that format and knows nothing of what they say."""
