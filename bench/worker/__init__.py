"""One rank: builds the model, trains it and measures itself. No other package imports torch."""
