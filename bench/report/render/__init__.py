"""One module for each format: it turns blocks, tables or rows into text, whatever they say."""
