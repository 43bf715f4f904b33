// Fork safety. A forked child owns none of the parent's contexts: they are marked dead there and
// their descriptors closed, so that peers notice when the parent dies; the parent is not affected.
#pragma once

namespace tutti {

class ContextState;

/// From now on forks mark `context` as abandoned in the child.
void watch_forks(ContextState& context);
void forget_forks(ContextState& context);

}  // namespace tutti
