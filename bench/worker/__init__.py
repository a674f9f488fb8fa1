"""One rank: builds the model, trains it under its backend and measures itself. Alone imports torch."""
