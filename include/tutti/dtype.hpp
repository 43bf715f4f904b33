// Element types: one table row each (name, bytes, class), used by tensors, kernels, checks and
// texts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tutti {

/// Element type of a tensor.
enum class DType : std::uint8_t {
  boolean,
  u8,
  u16,
  u32,
  u64,
  i8,
  i16,
  i32,
  i64,
  f16,
  bf16,
  f32,
  f64,
  complex64,
  complex128,
  f8e4m3fn,
  f8e5m2,
};

/// Families that share rules (which reduce ops are allowed, how they accumulate).
enum class DTypeClass : std::uint8_t { boolean, integer, floating, complex };

struct DTypeInfo {
  DType dtype;
  std::string_view name;        ///< as messages and Python print it
  std::string_view short_name;  ///< as command lines take it
  std::size_t bytes;
  DTypeClass kind;
};

inline constexpr std::array kDTypes{
    DTypeInfo{DType::boolean, "bool", "bool", 1, DTypeClass::boolean},
    DTypeInfo{DType::u8, "uint8", "u8", 1, DTypeClass::integer},
    DTypeInfo{DType::u16, "uint16", "u16", 2, DTypeClass::integer},
    DTypeInfo{DType::u32, "uint32", "u32", 4, DTypeClass::integer},
    DTypeInfo{DType::u64, "uint64", "u64", 8, DTypeClass::integer},
    DTypeInfo{DType::i8, "int8", "i8", 1, DTypeClass::integer},
    DTypeInfo{DType::i16, "int16", "i16", 2, DTypeClass::integer},
    DTypeInfo{DType::i32, "int32", "i32", 4, DTypeClass::integer},
    DTypeInfo{DType::i64, "int64", "i64", 8, DTypeClass::integer},
    DTypeInfo{DType::f16, "float16", "f16", 2, DTypeClass::floating},
    DTypeInfo{DType::bf16, "bfloat16", "bf16", 2, DTypeClass::floating},
    DTypeInfo{DType::f32, "float32", "f32", 4, DTypeClass::floating},
    DTypeInfo{DType::f64, "float64", "f64", 8, DTypeClass::floating},
    DTypeInfo{DType::complex64, "complex64", "c64", 8, DTypeClass::complex},
    DTypeInfo{DType::complex128, "complex128", "c128", 16, DTypeClass::complex},
    DTypeInfo{DType::f8e4m3fn, "float8_e4m3fn", "f8e4m3fn", 1, DTypeClass::floating},
    DTypeInfo{DType::f8e5m2, "float8_e5m2", "f8e5m2", 1, DTypeClass::floating},
};
inline constexpr std::size_t kDTypeCount = kDTypes.size();

constexpr const DTypeInfo& info(DType dtype) { return kDTypes[static_cast<std::size_t>(dtype)]; }
constexpr std::string_view name(DType dtype) { return info(dtype).name; }
constexpr std::size_t element_bytes(DType dtype) { return info(dtype).bytes; }

/// Float types under 32 bits: they are reduced through float32 and rounded once.
constexpr bool is_narrow(DType dtype) {
  return info(dtype).kind == DTypeClass::floating && info(dtype).bytes < 4;
}

static_assert(
    [] {
      for (std::size_t i = 0; i < kDTypeCount; ++i) {
        if (static_cast<std::size_t>(kDTypes[i].dtype) != i) {
          return false;
        }
      }
      return true;
    }(),
    "rows follow enum order");

}  // namespace tutti
