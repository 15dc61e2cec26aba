# Test programs of room cli.
