// The built-in rendezvous handlers as functions over an environment, so that tests can hand in one,
// and the process-wide registry behind register_rendezvous_handler and the default context.
#pragma once

#include "rendezvous/environment.hpp"

#include <tutti/rendezvous.hpp>

namespace tutti {

/// env://, tcp://host:port and file:///path. Rank and world size: the argument, else the URL, else
/// the environment.
RendezvousResult join_env(const RendezvousRequest& request, const EnvLookup& lookup);
RendezvousResult join_tcp(const RendezvousRequest& request, const EnvLookup& lookup);
RendezvousResult join_file(const RendezvousRequest& request, const EnvLookup& lookup);

/// RendezvousRegistry::join on the registry that register_rendezvous_handler adds to.
RendezvousResult join_default(const RendezvousRequest& request);

}  // namespace tutti
