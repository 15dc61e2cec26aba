// Case: one node with its input values and the outputs expected of it; saved as a .case file (safetensors with the op,
// attributes and types as metadata) and replayed on any backend. This file does not generate cases (generators.h).
#pragma once

#include <string>
#include <vector>

#include "fuzz/host_value.h"

namespace fp4sim::fuzz {

struct Case {
  Op op{};
  std::string name;  // the node's name; names messages only
  Attrs attrs;
  std::vector<HostValue> inputs;
  std::vector<HostValue> outputs;  // expected; may be empty in a case that was not run yet
  std::string origin;              // free text: where the case comes from (generator parameters, backend names)
};

/// The node of a case: inputs are values 0, 1, …; outputs follow (adamw's are its first three inputs).
Node node_of(const Case& c);

/// The types of a case's outputs by infer_types; throws Error for a case that is no valid node.
std::vector<ValueType> output_types(const Case& c);

/// The outputs that the backend computes for the case's inputs. Memory that the op must write is filled with 0xA5 bytes
/// before, so that an element left out shows. Throws Error where the backend cannot run the node.
std::vector<HostValue> run_case(Backend& backend, const Case& c);

/// Writes the case. Throws Error when the file cannot be written.
void save_case(const std::string& path, const Case& c);

/// The case of a file written by save_case; throws Error naming what is wrong in it.
Case load_case(const std::string& path);

/// One line: `matmul layers.0.ffn.up/fprop (f32(3, 5), f32(4, 5)) a_axis=last b_axis=last`.
std::string describe(const Case& c);

}  // namespace fp4sim::fuzz
