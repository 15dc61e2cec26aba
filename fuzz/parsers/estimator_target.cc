// The text form of an estimator: what parses prints back to itself.
#include "fuzz/parsers/target.h"
#include "reference/contract/estimator.h"

FP4SIM_PARSER_TARGET(estimator) {
  const Estimator estimator = parse_estimator(input);
  require(parse_estimator(to_string(estimator)) == estimator, "an estimator's text parses to the estimator");
}
