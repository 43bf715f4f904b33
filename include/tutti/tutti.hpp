// Everything a program needs: tensors, groups, collectives, stores, errors.
#pragma once

#include <tutti/collectives.hpp>
#include <tutti/dlpack.hpp>
#include <tutti/error.hpp>
#include <tutti/group.hpp>
#include <tutti/options.hpp>
#include <tutti/rendezvous.hpp>
#include <tutti/store.hpp>
#include <tutti/tensor.hpp>
#include <tutti/version.hpp>
#include <tutti/work.hpp>
