// The text form of a QuantSpec: what parses prints back to itself.
#include "fuzz/parsers/target.h"
#include "reference/contract/quant_spec.h"

FP4SIM_PARSER_TARGET(quant_spec) {
  const QuantSpec spec = parse_quant_spec(input);
  require(parse_quant_spec(to_string(spec)) == spec, "a spec's text parses to the spec");
  require_computable(spec);
}
