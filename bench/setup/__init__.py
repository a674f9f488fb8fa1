"""Make the environments of this checkout, one for each stack, and know what is installed in them."""
