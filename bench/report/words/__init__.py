"""How a report says numbers, titles and settings."""
