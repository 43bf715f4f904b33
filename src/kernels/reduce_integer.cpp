// Kernels of integers and bool. Sums and products wrap, so they are computed on unsigned lanes
// whatever the sign of the type. A bool is true if its byte is not zero; results are 0 or 1.
#include "kernels/families.hpp"

#include <type_traits>

// Highway needs these lines in this order.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce_integer.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "kernels/sweep-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tutti::HWY_NAMESPACE {

struct IntegerOp {
  static constexpr std::size_t kMinLanes = 1;
  static constexpr bool kSum = false;
  template <class D>
  static HWY_INLINE hn::Vec<D> first(D, hn::Vec<D> v, const OpArgs&) {
    return v;
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> last(D, hn::Vec<D> result, const OpArgs&) {
    return result;
  }
};

struct IntegerSum : IntegerOp {
  static constexpr bool kSum = true;
  template <class D>
  static HWY_INLINE hn::Vec<D> next(D, hn::Vec<D> sum, hn::Vec<D> v, const OpArgs&, int) {
    return hn::Add(sum, v);
  }
};

struct IntegerProd : IntegerOp {
  template <class D>
  static HWY_INLINE hn::Vec<D> next(D d, hn::Vec<D> product, hn::Vec<D> v, const OpArgs&, int) {
    if constexpr (sizeof(hn::TFromD<D>) > 1) {
      return hn::Mul(product, v);
    } else if constexpr (hn::MaxLanes(D()) == 1) {
      return hn::Set(d, static_cast<std::uint8_t>(hn::GetLane(product) * hn::GetLane(v)));
    } else {
      return product_of_bytes(d, product, v);
    }
  }
  /// There is no byte multiplication: even and odd bytes as 16-bit lanes.
  template <class D>
  static HWY_INLINE hn::Vec<D> product_of_bytes(D d, hn::Vec<D> x, hn::Vec<D> y) {
    const hn::Repartition<std::uint16_t, D> wide;
    const auto high_byte = hn::Set(wide, std::uint16_t{0xff00});
    const auto x16 = hn::BitCast(wide, x);
    const auto y16 = hn::BitCast(wide, y);
    const auto even = hn::AndNot(high_byte, hn::Mul(x16, y16));
    const auto odd = hn::Mul(hn::ShiftRight<8>(x16), hn::And(high_byte, y16));
    return hn::BitCast(d, hn::Or(even, odd));
  }
};

struct IntegerMin : IntegerOp {
  template <class D>
  static HWY_INLINE hn::Vec<D> next(D, hn::Vec<D> least, hn::Vec<D> v, const OpArgs&, int) {
    return hn::Min(least, v);
  }
};

struct IntegerMax : IntegerOp {
  template <class D>
  static HWY_INLINE hn::Vec<D> next(D, hn::Vec<D> greatest, hn::Vec<D> v, const OpArgs&, int) {
    return hn::Max(greatest, v);
  }
};

struct BitAnd : IntegerOp {
  template <class D>
  static HWY_INLINE hn::Vec<D> next(D, hn::Vec<D> bits, hn::Vec<D> v, const OpArgs&, int) {
    return hn::And(bits, v);
  }
};

struct BitOr : IntegerOp {
  template <class D>
  static HWY_INLINE hn::Vec<D> next(D, hn::Vec<D> bits, hn::Vec<D> v, const OpArgs&, int) {
    return hn::Or(bits, v);
  }
};

struct BitXor : IntegerOp {
  template <class D>
  static HWY_INLINE hn::Vec<D> next(D, hn::Vec<D> bits, hn::Vec<D> v, const OpArgs&, int) {
    return hn::Xor(bits, v);
  }
};

/// The wrapped sum over the divisor, towards zero. No instruction set divides integer vectors.
template <typename T>
struct IntegerAvg : IntegerSum {
  static constexpr bool kSum = false;
  using Wide = std::conditional_t<(sizeof(T) < 4), std::int32_t, T>;
  template <class D>
  static HWY_INLINE hn::Vec<D> last(D d, hn::Vec<D> sum, const OpArgs& args) {
    using Unsigned = hn::TFromD<D>;
    HWY_ALIGN Unsigned lanes[hn::MaxLanes(D())];
    const auto divisor = static_cast<Wide>(args.divisor);
    hn::Store(sum, d, lanes);
    for (Unsigned& lane : lanes) {
      lane = static_cast<Unsigned>(static_cast<Wide>(static_cast<T>(lane)) / divisor);
    }
    return hn::Load(d, lanes);
  }
};

// Bytes that are not zero count as 1. Or and minimum keep "not zero" through the chain, so that one
// normalisation at the end is enough; exclusive or needs it before.
template <class D>
HWY_INLINE hn::Vec<D> truth(D d, hn::Vec<D> v) {
  return hn::Min(v, hn::Set(d, std::uint8_t{1}));
}

struct BoolOr : BitOr {
  template <class D>
  static HWY_INLINE hn::Vec<D> last(D d, hn::Vec<D> any, const OpArgs&) {
    return truth(d, any);
  }
};

struct BoolAnd : IntegerMin {
  template <class D>
  static HWY_INLINE hn::Vec<D> last(D d, hn::Vec<D> all, const OpArgs&) {
    return truth(d, all);
  }
};

struct BoolXor : IntegerOp {
  template <class D>
  static HWY_INLINE hn::Vec<D> first(D d, hn::Vec<D> v, const OpArgs&) {
    return truth(d, v);
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> next(D d, hn::Vec<D> parity, hn::Vec<D> v, const OpArgs&, int) {
    return hn::Xor(parity, truth(d, v));
  }
};

ReduceKernel bool_kernel_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::max:
    case ReduceOp::bor:
      return reduce_any<Plain<std::uint8_t>, BoolOr>;
    case ReduceOp::prod:
    case ReduceOp::min:
    case ReduceOp::band:
      return reduce_any<Plain<std::uint8_t>, BoolAnd>;
    case ReduceOp::bxor:
      return reduce_any<Plain<std::uint8_t>, BoolXor>;
    default:
      return nullptr;
  }
}

template <typename T>
ReduceKernel integer_kernel_of(ReduceOp op) {
  using Bits = Plain<std::make_unsigned_t<T>>;
  switch (op) {
    case ReduceOp::sum:
      return reduce_any<Bits, IntegerSum>;
    case ReduceOp::prod:
      return reduce_any<Bits, IntegerProd>;
    case ReduceOp::min:
      return reduce_any<Plain<T>, IntegerMin>;
    case ReduceOp::max:
      return reduce_any<Plain<T>, IntegerMax>;
    case ReduceOp::band:
      return reduce_any<Bits, BitAnd>;
    case ReduceOp::bor:
      return reduce_any<Bits, BitOr>;
    case ReduceOp::bxor:
      return reduce_any<Bits, BitXor>;
    case ReduceOp::avg:
      return reduce_any<Bits, IntegerAvg<T>>;
    case ReduceOp::premul_sum:
      return nullptr;
  }
  return nullptr;
}

ReduceKernel pick_integer(DType dtype, ReduceOp op) {
  switch (dtype) {
    case DType::boolean:
      return bool_kernel_of(op);
    case DType::u8:
      return integer_kernel_of<std::uint8_t>(op);
    case DType::u16:
      return integer_kernel_of<std::uint16_t>(op);
    case DType::u32:
      return integer_kernel_of<std::uint32_t>(op);
    case DType::u64:
      return integer_kernel_of<std::uint64_t>(op);
    case DType::i8:
      return integer_kernel_of<std::int8_t>(op);
    case DType::i16:
      return integer_kernel_of<std::int16_t>(op);
    case DType::i32:
      return integer_kernel_of<std::int32_t>(op);
    case DType::i64:
      return integer_kernel_of<std::int64_t>(op);
    default:
      return nullptr;
  }
}

}  // namespace tutti::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {

HWY_EXPORT(pick_integer);

ReduceKernel integer_kernel(DType dtype, ReduceOp op) {
  return HWY_DYNAMIC_DISPATCH(pick_integer)(dtype, op);
}

}  // namespace tutti
#endif
