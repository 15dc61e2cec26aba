# Test programs of room io.
fp4sim_test(io_test LIBS fp4sim_io LABELS unit SOURCES io_safetensors_test.cc io_files_test.cc io_npy_test.cc
  io_streams_test.cc io_ggml_test.cc)
