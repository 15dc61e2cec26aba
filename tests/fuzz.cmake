# Test programs of room fuzz.
