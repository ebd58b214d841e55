#include "simulator/event_engine.h"

#include <algorithm>
#include <limits>

namespace tandem {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

class Engine {
 public:
  Engine(std::vector<Task>& tasks, int streams, double contention)
      : tasks_(tasks),
        slowed_(1 / (1 + contention)),
        queues_(static_cast<size_t>(streams)),
        missing_(tasks.size(), 0),
        next_(tasks.size()) {
    for (size_t t = 0; t < tasks.size(); ++t) {
      queues_[static_cast<size_t>(tasks[t].stream)].tasks.push_back(static_cast<int>(t));
      for (int before : tasks[t].after) {
        next_[static_cast<size_t>(before)].push_back(static_cast<int>(t));
        ++missing_[t];
      }
    }
  }

  EngineTotals Run() {
    while (true) {
      const double launch = Start();
      bool communicating = false;
      for (size_t s = 1; s < queues_.size(); ++s) communicating |= queues_[s].running >= 0;
      const bool computing = queues_[0].running >= 0;
      const double rate = computing && communicating ? slowed_ : 1;
      double step = launch - now_;
      for (const Queue& queue : queues_) {
        if (queue.running >= 0) step = std::min(step, queue.remaining / rate);
      }
      if (step == kNever) break;  // Nothing runs, nothing will: all tasks are done.
      Account(step, computing, communicating);
      Advance(step, rate);
    }
    totals_.end_seconds = now_;
    return totals_;
  }

 private:
  struct Queue {
    std::vector<int> tasks;
    size_t head = 0;
    int running = -1;
    double remaining = 0;
  };

  // Starts what can be started now; returns the earliest launch that a free stream waits for.
  double Start() {
    double launch = kNever;
    for (Queue& queue : queues_) {
      if (queue.running >= 0 || queue.head == queue.tasks.size()) continue;
      const int t = queue.tasks[queue.head];
      Task& task = tasks_[static_cast<size_t>(t)];
      if (missing_[static_cast<size_t>(t)] > 0) continue;
      if (task.launch_seconds > now_) {
        launch = std::min(launch, task.launch_seconds);
        continue;
      }
      task.start_seconds = now_;
      queue.running = t;
      queue.remaining = task.work_seconds;
      ++queue.head;
    }
    return launch;
  }

  void Account(double step, bool computing, bool communicating) {
    if (computing) {
      (communicating ? totals_.communication_hidden : totals_.compute) += step;
    } else if (communicating) {
      totals_.communication_exposed += step;
    } else {
      totals_.host += step;
    }
  }

  void Advance(double step, double rate) {
    now_ += step;
    for (Queue& queue : queues_) {
      if (queue.running < 0) continue;
      const double left = queue.remaining - step * rate;
      // The one that determined the step ends exactly; rounding must not leave a crumb of it.
      if (queue.remaining / rate > step) {
        queue.remaining = left > 0 ? left : 0;
        continue;
      }
      tasks_[static_cast<size_t>(queue.running)].end_seconds = now_;
      for (int t : next_[static_cast<size_t>(queue.running)]) --missing_[static_cast<size_t>(t)];
      queue.running = -1;
    }
  }

  std::vector<Task>& tasks_;
  double slowed_;
  double now_ = 0;
  std::vector<Queue> queues_;
  std::vector<int> missing_;
  std::vector<std::vector<int>> next_;
  EngineTotals totals_;
};

}  // namespace

EngineTotals RunTasks(std::vector<Task>& tasks, int streams, double contention) {
  return Engine(tasks, streams, contention).Run();
}

}  // namespace tandem
