# Test programs of room contract.
fp4sim_test(contract_text_test LIBS fp4sim::contract LABELS unit
  SOURCES contract_quant_spec_test.cc contract_estimator_test.cc contract_types_test.cc)
