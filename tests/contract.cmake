# Test programs of room contract.
