"""`data=python_docs`: the text that Python ships for `help()`, so that there is nothing to download."""
