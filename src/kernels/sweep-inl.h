// The one loop of all kernels: whole vectors, four at a time where that pays, then the ends. Every
// part rounds in the same way, so that an element's bits do not depend on where it stands. Compiled
// once per instruction set.
// clang-format off
#if defined(TUTTI_KERNELS_SWEEP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_KERNELS_SWEEP_INL_H_
#undef TUTTI_KERNELS_SWEEP_INL_H_
#else
#define TUTTI_KERNELS_SWEEP_INL_H_
#endif
// clang-format on

#include "kernels/families.hpp"

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace tutti::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// The vectors that a sweep uses. Highway's portable fallback only imitates vectors, so there the
/// smallest do: they are plain scalar code, and quick to compile.
#if HWY_TARGET == HWY_EMU128
template <typename Lane, std::size_t kMinLanes>
using WidestTag = hn::CappedTag<Lane, kMinLanes>;
#else
template <typename Lane, std::size_t kMinLanes>
using WidestTag = hn::ScalableTag<Lane>;
#endif

template <class V>
struct Quad {
  V a, b, c, d;
};

/// Lanes i to `lanes` - 1 by whole vectors, then by vectors a quarter as long, down to the least.
/// body.put(d, i, body.value(d, i)) visits one vector.
template <class D, class Body>
HWY_INLINE void sweep_short(std::size_t i, D d, const Body& body, std::size_t lanes) {
  constexpr std::size_t kLanes = hn::MaxLanes(D());
  for (; i + kLanes <= lanes; i += kLanes) {
    body.put(d, i, body.value(d, i));
  }
  if constexpr (kLanes >= 4 * Body::kMinLanes) {
    sweep_short(i, hn::Half<hn::Half<D>>(), body, lanes);
  } else if constexpr (kLanes > Body::kMinLanes) {
    sweep_short(i, hn::Half<D>(), body, lanes);
  }
}

/// The same without a loop over single lanes: the last vector overlaps the one before it. Its value
/// is computed before anything is stored, because the destination may be a source; the lanes stored
/// twice get the same bits twice.
template <class D, class Body>
HWY_INLINE void sweep_overlapping(std::size_t i, D d, const Body& body, std::size_t lanes) {
  constexpr std::size_t kLanes = hn::MaxLanes(D());
  if (i + kLanes <= lanes) {
    const std::size_t end = lanes - kLanes;
    const auto last = body.value(d, end);
    for (; i < end; i += kLanes) {
      body.put(d, i, body.value(d, i));
    }
    body.put(d, end, last);
  } else if constexpr (kLanes >= 4 * Body::kMinLanes) {
    sweep_overlapping(i, hn::Half<hn::Half<D>>(), body, lanes);
  } else if constexpr (kLanes > Body::kMinLanes) {
    sweep_overlapping(i, hn::Half<D>(), body, lanes);
  }
}

/// Visits lanes 0 to `lanes` - 1. Bodies that go by four vectors, body.four(d, i), also get the
/// faster ends; for the others these would only be more code to compile.
template <class D, class Body>
HWY_INLINE void sweep(D d, const Body& body, std::size_t lanes) {
  if constexpr (Body::kByFour) {
    constexpr std::size_t kFour = 4 * hn::MaxLanes(D());
    std::size_t i = 0;
    for (; i + kFour <= lanes; i += kFour) {
      body.four(d, i);
    }
    sweep_overlapping(i, d, body, lanes);
  } else {
    sweep_short(0, d, body, lanes);
  }
}

template <class D>
HWY_INLINE hn::Vec<D> quiet_nan(D d) {
  const hn::RebindToUnsigned<D> du;
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    return hn::BitCast(d, hn::Set(du, 0x7fc00000U));
  } else {
    return hn::BitCast(d, hn::Set(du, 0x7ff8000000000000U));
  }
}

template <class D>
HWY_INLINE hn::Vec<D> same_nan(D d, hn::Vec<D> v) {
  return hn::IfThenElse(hn::IsNaN(v), quiet_nan(d), v);
}

/// Which operations on an element go four vectors at a time: that costs code, so only where it is
/// faster.
enum class ByFour { never, sums, always };

/// Stores a whole vector. A streaming store needs an aligned place and leaves the caches alone.
template <StoreType kStore, class D>
HWY_INLINE void put_vector(D d, hn::Vec<D> v, hn::TFromD<D>* to) {
  if constexpr (kStore == StoreType::streaming) {
    hn::Stream(v, d, to);
  } else {
    hn::StoreU(v, d, to);
  }
}

/// One test for four vectors is slower: all four then wait for it.
template <class D>
HWY_INLINE Quad<hn::Vec<D>> same_nan4(D d, const Quad<hn::Vec<D>>& v) {
  return {same_nan(d, v.a), same_nan(d, v.b), same_nan(d, v.c), same_nan(d, v.d)};
}

/// Elements that are computed with as they lie in memory. As every element they have load, store
/// and settled, which gives results their final bits; and, unless kByFour is never, the same for
/// four vectors.
template <typename T>
struct Plain {
  static constexpr ByFour kByFour = ByFour::sums;
  using Stored = T;
  using Lane = T;
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const T* from) {
    return hn::LoadU(d, from);
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> settled(D d, hn::Vec<D> v) {
    if constexpr (hwy::IsFloat<T>()) {
      return same_nan(d, v);
    } else {
      return v;
    }
  }
  template <class D>
  static HWY_INLINE void store(D d, hn::Vec<D> v, T* to) {
    hn::StoreU(v, d, to);
  }
  template <class D>
  static HWY_INLINE Quad<hn::Vec<D>> load4(D d, const T* from) {
    constexpr std::size_t kLanes = hn::MaxLanes(D());
    return {load(d, from), load(d, from + kLanes), load(d, from + 2 * kLanes),
            load(d, from + 3 * kLanes)};
  }
  template <class D>
  static HWY_INLINE Quad<hn::Vec<D>> settled4(D d, const Quad<hn::Vec<D>>& v) {
    if constexpr (hwy::IsFloat<T>()) {
      return same_nan4(d, v);
    } else {
      return v;
    }
  }
  template <StoreType kStore, class D>
  static HWY_INLINE void store4(D d, const Quad<hn::Vec<D>>& v, T* to) {
    constexpr std::size_t kLanes = hn::MaxLanes(D());
    put_vector<kStore>(d, v.a, to);
    put_vector<kStore>(d, v.b, to + kLanes);
    put_vector<kStore>(d, v.c, to + 2 * kLanes);
    put_vector<kStore>(d, v.d, to + 3 * kLanes);
  }
};

/// Loads are ordered before the stores of the same lanes, so `out` may be one of the sources. The
/// arguments are copied: the compiler need not fear that a store changes them. The first two
/// sources have pointers of their own, which live in registers. kCount is the number of sources, 0
/// if it is known only at run time. Only kStore == streaming asks which destination streams: the
/// question costs a cached sum a tenth.
template <class Element, class Op, int kCount, StoreType kStore>
struct ReduceBody {
  using Stored = typename Element::Stored;
  static constexpr std::size_t kMinLanes = Op::kMinLanes;
  static constexpr bool kByFour =
      HWY_TARGET != HWY_EMU128 &&
      (Element::kByFour == ByFour::always || (Element::kByFour == ByFour::sums && Op::kSum));

  explicit HWY_INLINE ReduceBody(const ReduceArgs& arguments)
      : args{.divisor = arguments.divisor, .factors = arguments.factors},
        sources(arguments.sources),
        sources_count(arguments.count),
        source0(static_cast<const Stored*>(arguments.sources[0])),
        source1(count() > 1 ? static_cast<const Stored*>(arguments.sources[1]) : nullptr),
        out(static_cast<Stored*>(arguments.out)),
        also(static_cast<Stored*>(arguments.also)),
        out_store(usable(arguments.out_store, arguments.out)),
        also_store(usable(arguments.also_store, arguments.also)) {}

  template <class D>
  HWY_INLINE hn::Vec<D> value(D d, std::size_t i) const {
    auto sum = Op::first(d, Element::load(d, source0 + i), args);
    if (count() > 1) {
      sum = Op::next(d, sum, Element::load(d, source1 + i), args, 1);
    }
    for (int k = 2; k < count(); ++k) {
      sum = Op::next(d, sum, Element::load(d, source(k) + i), args, k);
    }
    return Element::settled(d, Op::last(d, sum, args));
  }

  template <class D>
  HWY_INLINE void put(D d, std::size_t i, hn::Vec<D> v) const {
    Element::store(d, v, out + i);
    if (also != nullptr) {
      Element::store(d, v, also + i);
    }
  }

  template <class D>
  HWY_INLINE void four(D d, std::size_t i) const {
    auto sum = Element::load4(d, source0 + i);
    sum.a = Op::first(d, sum.a, args);
    sum.b = Op::first(d, sum.b, args);
    sum.c = Op::first(d, sum.c, args);
    sum.d = Op::first(d, sum.d, args);
    if (count() > 1) {
      next4(d, sum, Element::load4(d, source1 + i), 1);
    }
    for (int k = 2; k < count(); ++k) {
      next4(d, sum, Element::load4(d, source(k) + i), k);
    }
    sum.a = Op::last(d, sum.a, args);
    sum.b = Op::last(d, sum.b, args);
    sum.c = Op::last(d, sum.c, args);
    sum.d = Op::last(d, sum.d, args);
    const auto result = Element::settled4(d, sum);
    put4(d, result, out + i, out_store);
    if (also != nullptr) {
      put4(d, result, also + i, also_store);
    }
  }

 private:
  static HWY_INLINE StoreType usable(StoreType wanted, const void* target) {
    const bool aligned = reinterpret_cast<std::uintptr_t>(target) % kStreamAlignment == 0;
    return wanted == StoreType::streaming && aligned ? wanted : StoreType::cached;
  }
  HWY_INLINE int count() const { return kCount != 0 ? kCount : sources_count; }
  HWY_INLINE const Stored* source(int k) const { return static_cast<const Stored*>(sources[k]); }
  template <class D>
  HWY_INLINE void next4(D d, Quad<hn::Vec<D>>& sum, const Quad<hn::Vec<D>>& more, int k) const {
    sum.a = Op::next(d, sum.a, more.a, args, k);
    sum.b = Op::next(d, sum.b, more.b, args, k);
    sum.c = Op::next(d, sum.c, more.c, args, k);
    sum.d = Op::next(d, sum.d, more.d, args, k);
  }
  template <class D, class Result>
  static HWY_INLINE void put4(D d, const Result& v, Stored* to, StoreType store) {
    if constexpr (kStore == StoreType::streaming) {
      if (store == StoreType::streaming) {
        Element::template store4<StoreType::streaming>(d, v, to);
        return;
      }
    }
    Element::template store4<StoreType::cached>(d, v, to);
  }

  OpArgs args;
  const void* const* sources;
  int sources_count;
  const Stored* source0;
  const Stored* source1;
  Stored* out;
  Stored* also;
  StoreType out_store;
  StoreType also_store;
};

template <class Element, class Op, int kCount, StoreType kStore = StoreType::cached>
void reduce_count(const ReduceArgs& args) {
  const ReduceBody<Element, Op, kCount, kStore> body(args);
  sweep(WidestTag<typename Element::Lane, Op::kMinLanes>(), body, args.elements * Op::kMinLanes);
  if constexpr (kStore == StoreType::streaming) {
    hwy::FlushStream();  // streaming stores are not ordered with the flag that the caller stores
  }
}

/// The kernel of (element, op) for any number of sources.
template <class Element, class Op>
void reduce_any(const ReduceArgs& args) {
  reduce_count<Element, Op, 0>(args);
}

/// The same with code of its own for two sources, an eighth faster out of caches, and for streaming
/// stores. From four sources on nothing is gained, nor by taking many sources in groups: one pass
/// over all of them is fastest.
template <class Element, class Op>
void reduce_hot(const ReduceArgs& args) {
  if (HWY_UNLIKELY(args.out_store != StoreType::cached || args.also_store != StoreType::cached)) {
    reduce_count<Element, Op, 0, StoreType::streaming>(args);
  } else if (args.count == 2) {
    reduce_count<Element, Op, 2>(args);
  } else {
    reduce_count<Element, Op, 0>(args);
  }
}

}  // namespace tutti::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
