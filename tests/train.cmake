# Test programs of room train.
fp4sim_test(train_data_test LIBS fp4sim_train LABELS unit
  SOURCES train_data_test.cc train_corpus_test.cc train_checkpoint_test.cc train_import_test.cc)
fp4sim_test(train_outside_truth_test LIBS fp4sim_train fp4sim_scalar fp4sim_simd LABELS golden SOURCES train_outside_truth_test.cc)
fp4sim_test(train_graph_test LIBS fp4sim_train fp4sim_simd LABELS unit SOURCES train_graph_test.cc train_recipe_test.cc)
fp4sim_test(train_trainer_test LIBS fp4sim_train fp4sim_scalar fp4sim_simd LABELS e2e SOURCES train_trainer_test.cc)
fp4sim_test(train_inference_test LIBS fp4sim_train fp4sim_scalar fp4sim_simd LABELS unit SOURCES train_inference_test.cc)
fp4sim_test(train_stories_test LIBS fp4sim_train fp4sim_scalar fp4sim_simd LABELS golden SOURCES train_stories_test.cc)
add_test(NAME Train.options_do_what_they_say COMMAND ${PROJECT_SOURCE_DIR}/tests/train_commands.sh $<TARGET_FILE:fp4sim>)
set_tests_properties(Train.options_do_what_they_say PROPERTIES LABELS e2e TIMEOUT 120)
