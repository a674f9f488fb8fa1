"""Published claims, tested on what this project has measured."""
