# Test programs of room scalar.
