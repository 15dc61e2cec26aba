# Test programs of room simd.
