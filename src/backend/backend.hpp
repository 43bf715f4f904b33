// Backend: who runs a group's operations. One virtual call stands between the group and whatever
// moves the data. A backend gets validated requests only, and learns nothing about who asked.
#pragma once

#include "engine/work.hpp"
#include "plan/request.hpp"

#include <memory>
#include <span>
#include <string>

namespace tutti {

class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  virtual const std::string& name() const = 0;
  /// Runs the collective if it is the last one once more, so that nothing has to be looked at
  /// again; false if it is not, and then nothing has happened.
  virtual bool repeat(const Request& request) = 0;
  /// Runs a collective to its end; throws its failure.
  virtual void run(const Request& request, const Call& call) = 0;
  /// Starts a collective and returns at once.
  virtual std::shared_ptr<WorkState> start(const Request& request, const Call& call) = 0;
  /// Sends or receives one message; returns the sender's group rank for a receive.
  virtual int transfer(const Request& request, const Call& call) = 0;
  /// Starts messages, in this order, and sets the handle of each.
  virtual void start_transfers(std::span<const Message> messages,
                               std::span<std::shared_ptr<WorkState>> works) = 0;
};

}  // namespace tutti
