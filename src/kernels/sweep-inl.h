// The one loop of all kernels: whole vectors, four at a time where that pays, then ever shorter
// ones down to single elements. The same code computes every part, so that an element's bits do not
// depend on where it stands. Compiled once per instruction set.
// clang-format off
#if defined(TUTTI_KERNELS_SWEEP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_KERNELS_SWEEP_INL_H_
#undef TUTTI_KERNELS_SWEEP_INL_H_
#else
#define TUTTI_KERNELS_SWEEP_INL_H_
#endif
// clang-format on

#include "kernels/reduce.hpp"

#include <hwy/highway.h>

#include <cstddef>

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
template <class D, class Body>
HWY_INLINE void sweep_from(std::size_t i, D d, const Body& body, std::size_t lanes) {
  constexpr std::size_t kLanes = hn::MaxLanes(D());
  for (; i + kLanes <= lanes; i += kLanes) {
    body.one(d, i);
  }
  if constexpr (kLanes >= 4 * Body::kMinLanes) {
    sweep_from(i, hn::Half<hn::Half<D>>(), body, lanes);
  } else if constexpr (kLanes > Body::kMinLanes) {
    sweep_from(i, hn::Half<D>(), body, lanes);
  }
}

/// Calls body.one(d, i), or body.four(d, i) where that pays, so that lanes 0 to `lanes` - 1 are
/// visited once each, in order.
template <class D, class Body>
HWY_INLINE void sweep(D d, const Body& body, std::size_t lanes) {
  constexpr std::size_t kLanes = hn::MaxLanes(D());
  std::size_t i = 0;
  if constexpr (Body::kByFour && HWY_TARGET != HWY_EMU128) {
    for (; i + 4 * kLanes <= lanes; i += 4 * kLanes) {
      body.four(d, i);
    }
  }
  sweep_from(i, d, body, lanes);
}

/// Which operations on an element go four vectors at a time: that costs code, so only where it is
/// faster.
enum class ByFour { never, sums, always };

/// Four vectors in memory order, each through Element::load and Element::store; elements that know
/// a faster way for four vectors bring their own load4 and store4.
template <class Element>
struct OneByOne {
  template <class D, class T>
  static HWY_INLINE Quad<hn::Vec<D>> load4(D d, const T* from) {
    constexpr std::size_t kLanes = hn::MaxLanes(D());
    return {Element::load(d, from), Element::load(d, from + kLanes),
            Element::load(d, from + 2 * kLanes), Element::load(d, from + 3 * kLanes)};
  }
  template <class D, class T>
  static HWY_INLINE void store4(D d, const Quad<hn::Vec<D>>& v, T* to) {
    constexpr std::size_t kLanes = hn::MaxLanes(D());
    Element::store(d, v.a, to);
    Element::store(d, v.b, to + kLanes);
    Element::store(d, v.c, to + 2 * kLanes);
    Element::store(d, v.d, to + 3 * kLanes);
  }
};

/// Elements that are computed with as they lie in memory.
template <typename T>
struct Plain : OneByOne<Plain<T>> {
  static constexpr ByFour kByFour = ByFour::sums;
  using Stored = T;
  using Lane = T;
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const T* from) {
    return hn::LoadU(d, from);
  }
  template <class D>
  static HWY_INLINE void store(D d, hn::Vec<D> v, T* to) {
    hn::StoreU(v, d, to);
  }
};

/// The sources of one call. With a count known at compile time they live in registers.
template <typename Stored, int kCount>
struct Sources {
  explicit HWY_INLINE Sources(const ReduceArgs& args) {
    for (int k = 0; k < kCount; ++k) {
      sources[k] = static_cast<const Stored*>(args.sources[k]);
    }
  }
  HWY_INLINE const Stored* operator[](int k) const { return sources[k]; }
  static HWY_INLINE int count() { return kCount; }

  const Stored* sources[kCount];
};

template <typename Stored>
struct Sources<Stored, 0> {
  explicit HWY_INLINE Sources(const ReduceArgs& args)
      : sources(args.sources), sources_count(args.count) {}
  HWY_INLINE const Stored* operator[](int k) const {
    return static_cast<const Stored*>(sources[k]);
  }
  HWY_INLINE int count() const { return sources_count; }

  const void* const* sources;
  int sources_count;
};

/// Loads are ordered before the stores of the same lanes, so `out` may be one of the sources.
/// `args` is a copy: the compiler need not fear that a store changes it.
template <class Element, class Op, int kCount>
struct ReduceBody {
  using Stored = typename Element::Stored;
  static constexpr std::size_t kMinLanes = Op::kMinLanes;
  static constexpr bool kByFour =
      Element::kByFour == ByFour::always || (Element::kByFour == ByFour::sums && Op::kSum);

  explicit HWY_INLINE ReduceBody(const ReduceArgs& arguments)
      : args(arguments),
        sources(arguments),
        out(static_cast<Stored*>(arguments.out)),
        also(static_cast<Stored*>(arguments.also)) {}

  template <class D>
  HWY_INLINE void one(D d, std::size_t i) const {
    auto sum = Op::first(d, Element::load(d, sources[0] + i), args);
    for (int k = 1; k < sources.count(); ++k) {
      sum = Op::next(d, sum, Element::load(d, sources[k] + i), args, k);
    }
    sum = Op::last(d, sum, args);
    Element::store(d, sum, out + i);
    if (also != nullptr) {
      Element::store(d, sum, also + i);
    }
  }

  template <class D>
  HWY_INLINE void four(D d, std::size_t i) const {
    auto sum = Element::load4(d, sources[0] + i);
    sum.a = Op::first(d, sum.a, args);
    sum.b = Op::first(d, sum.b, args);
    sum.c = Op::first(d, sum.c, args);
    sum.d = Op::first(d, sum.d, args);
    for (int k = 1; k < sources.count(); ++k) {
      const auto more = Element::load4(d, sources[k] + i);
      sum.a = Op::next(d, sum.a, more.a, args, k);
      sum.b = Op::next(d, sum.b, more.b, args, k);
      sum.c = Op::next(d, sum.c, more.c, args, k);
      sum.d = Op::next(d, sum.d, more.d, args, k);
    }
    sum.a = Op::last(d, sum.a, args);
    sum.b = Op::last(d, sum.b, args);
    sum.c = Op::last(d, sum.c, args);
    sum.d = Op::last(d, sum.d, args);
    Element::store4(d, sum, out + i);
    if (also != nullptr) {
      Element::store4(d, sum, also + i);
    }
  }

  ReduceArgs args;
  Sources<Stored, kCount> sources;
  Stored* out;
  Stored* also;
};

template <class Element, class Op, int kCount>
void reduce_count(const ReduceArgs& args) {
  const ReduceBody<Element, Op, kCount> body(args);
  sweep(WidestTag<typename Element::Lane, Op::kMinLanes>(), body, args.elements * Op::kMinLanes);
}

/// The kernel of (element, op) for any number of sources.
template <class Element, class Op>
void reduce_any(const ReduceArgs& args) {
  reduce_count<Element, Op, 0>(args);
}

/// The same with code of its own for two sources, a fifth faster out of caches. From four sources
/// on nothing is gained, nor by taking many sources in groups: one pass over all of them is
/// fastest.
template <class Element, class Op>
void reduce_hot(const ReduceArgs& args) {
  if (args.count == 2) {
    reduce_count<Element, Op, 2>(args);
  } else {
    reduce_count<Element, Op, 0>(args);
  }
}

}  // namespace tutti::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
