// SHA-256 (FIPS 180-4) of bytes, computed by OpenSSL's libcrypto.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace fp4sim::io {

/// A running hash: update any number of times, then finish once.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void update(std::span<const std::byte> bytes);
  /// The hash as 64 lower-case hexadecimal digits; the object takes no more bytes afterwards.
  std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The hash of one piece as 64 lower-case hexadecimal digits.
std::string sha256_hex(std::span<const std::byte> bytes);
std::string sha256_hex(std::string_view text);

}  // namespace fp4sim::io
