# Test programs of room train.
