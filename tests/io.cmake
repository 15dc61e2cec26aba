# Test programs of room io.
