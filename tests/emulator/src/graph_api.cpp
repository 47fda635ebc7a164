// Graphs: instantiated and launched.
#include <algorithm>
#include <cstdio>
#include <unordered_map>

#include "ferrite/tests/emulator/src/graph.h"
#include "ferrite/tests/emulator/src/scheduler.h"

/// A graph that can be launched: a copy of its operations, in an order that keeps dependencies.
struct CUgraphExec_st {
  struct Node {
    emulator::OperationPtr operation;
    std::vector<std::size_t> after;
  };
  std::vector<Node> nodes;
  std::vector<std::shared_ptr<const std::vector<bool>>> before;  // ancestors(), computed on first
                                                                 // use

  /// For each node, the nodes that precede it; for the race detector.
  std::vector<std::shared_ptr<const std::vector<bool>>> ancestors() const;
};

std::vector<std::shared_ptr<const std::vector<bool>>> CUgraphExec_st::ancestors() const {
  std::vector<std::shared_ptr<const std::vector<bool>>> all;
  for (const Node& node : nodes) {
    auto mine = std::make_shared<std::vector<bool>>(nodes.size());
    for (const std::size_t before : node.after) {
      (*mine)[before] = true;
      for (std::size_t i = 0; i < nodes.size(); ++i)
        if ((*all[before])[i]) (*mine)[i] = true;
    }
    all.push_back(std::move(mine));
  }
  return all;
}

using namespace emulator;

namespace {

std::vector<CUgraphExec_st::Node> executable(const CUgraph_st& graph) {
  std::vector<CUgraphExec_st::Node> nodes;
  for (const auto& node : graph.nodes) {
    nodes.push_back({node->operation, {}});
    for (const CUgraphNode_st* before : node->after) nodes.back().after.push_back(before->rank);
  }
  return nodes;
}

/// An order of the nodes that respects their dependencies: the order of creation or, with shuffled
/// orders, a different one each time, so that a missing dependency shows.
std::vector<std::size_t> order_of(const CUgraphExec_st& graph) {
  const std::size_t count = graph.nodes.size();
  std::vector<std::size_t> order, missing(count), ready;
  std::vector<std::vector<std::size_t>> followers(count);
  for (std::size_t i = 0; i < count; ++i) {
    missing[i] = graph.nodes[i].after.size();
    for (const std::size_t before : graph.nodes[i].after) followers[before].push_back(i);
    if (missing[i] == 0) ready.push_back(i);
  }
  while (!ready.empty()) {
    auto next = std::min_element(ready.begin(), ready.end());
    if (current_settings.order == Order::shuffled)
      next = ready.begin() + static_cast<std::ptrdiff_t>(random_bits() % ready.size());
    else if (current_settings.order == Order::descending)
      next = std::max_element(ready.begin(), ready.end());
    order.push_back(*next);
    ready.erase(next);
    for (const std::size_t follower : followers[order.back()])
      if (--missing[follower] == 0) ready.push_back(follower);
  }
  return order;
}

cudaGraphNodeType type_of(const Operation& operation) {
  switch (operation.kind) {
    case Operation::Kind::kernel:
      return cudaGraphNodeTypeKernel;
    case Operation::Kind::copy:
      return cudaGraphNodeTypeMemcpy;
    case Operation::Kind::set:
      return cudaGraphNodeTypeMemset;
    case Operation::Kind::host:
      return cudaGraphNodeTypeHost;
    default:
      return cudaGraphNodeTypeEmpty;
  }
}

}  // namespace

extern "C" {

cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned flags) {
  return api("cudaGraphCreate", [&](HeldLock&) {
    if (!graph || flags) return cudaErrorInvalidValue;
    *graph = new CUgraph_st;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return api("cudaGraphDestroy", [&](HeldLock&) {
    if (!graph) return cudaErrorInvalidValue;
    delete graph;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return api("cudaGraphGetNodes", [&](HeldLock&) {
    if (!graph || !count) return cudaErrorInvalidValue;
    if (!nodes) {
      *count = graph->nodes.size();
      return cudaSuccess;
    }
    for (std::size_t i = 0; i < *count; ++i)
      nodes[i] = i < graph->nodes.size() ? graph->nodes[i].get() : nullptr;
    *count = std::min(*count, graph->nodes.size());
    return cudaSuccess;
  });
}

cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
                              cudaGraphEdgeData* data, size_t* count) {
  return api("cudaGraphGetEdges", [&](HeldLock&) {
    if (!graph || !count || !from != !to) return cudaErrorInvalidValue;
    std::size_t found = 0;
    for (const auto& node : graph->nodes)
      for (CUgraphNode_st* before : node->after) {
        if (from && found < *count) {
          from[found] = before;
          to[found] = node.get();
          if (data) data[found] = {};
        }
        ++found;
      }
    *count = from ? std::min(*count, found) : found;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  return api("cudaGraphNodeGetType", [&](HeldLock&) {
    if (!node || !type) return cudaErrorInvalidValue;
    *type = type_of(*node->operation);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable_graph, cudaGraph_t graph,
                                 unsigned long long) {
  return api("cudaGraphInstantiate", [&](HeldLock&) {
    if (!executable_graph || !graph) return cudaErrorInvalidValue;
    *executable_graph = new CUgraphExec_st{executable(*graph), {}};
    return cudaSuccess;
  });
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable_graph, cudaGraph_t graph,
                                          unsigned long long flags) {
  return cudaGraphInstantiate(executable_graph, graph, flags);
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t executable_graph, cudaGraph_t graph,
                                cudaGraphExecUpdateResultInfo* result) {
  return api("cudaGraphExecUpdate", [&](HeldLock&) {
    if (!executable_graph || !graph || !result) return cudaErrorInvalidValue;
    *result = {};
    std::vector<CUgraphExec_st::Node> nodes = executable(*graph);
    const bool same =
        std::equal(nodes.begin(), nodes.end(), executable_graph->nodes.begin(),
                   executable_graph->nodes.end(), [](const auto& a, const auto& b) {
                     return a.after == b.after && a.operation->kind == b.operation->kind;
                   });
    result->result = same ? cudaGraphExecUpdateSuccess : cudaGraphExecUpdateErrorTopologyChanged;
    if (!same) return cudaErrorGraphExecUpdateFailure;
    executable_graph->nodes = std::move(nodes);
    executable_graph->before.clear();
    return cudaSuccess;
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable_graph) {
  return api("cudaGraphExecDestroy", [&](HeldLock&) {
    if (!executable_graph) return cudaErrorInvalidValue;
    delete executable_graph;  // pending launches own the operations
    return cudaSuccess;
  });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t executable_graph, cudaStream_t stream) {
  return api("cudaGraphUpload", [&](HeldLock&) {
    return executable_graph && resolve(stream) ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable_graph, cudaStream_t handle) {
  return api("cudaGraphLaunch", [&](HeldLock&) {
    const StreamPtr stream = resolve(handle);
    if (!executable_graph) return cudaErrorInvalidValue;
    if (!stream) return cudaErrorInvalidResourceHandle;
    if (const cudaError_t error = check_use(*stream); error != cudaSuccess) return error;
    if (!stream->capture) {
      static std::uint64_t launches = 0;
      ++launches;
      if (kRaces && executable_graph->before.empty())
        executable_graph->before = executable_graph->ancestors();
      for (const std::size_t i : order_of(*executable_graph))
        enqueue(stream, executable_graph->nodes[i].operation, {},
                kRaces ? GraphPlace{launches, i, executable_graph->before[i]} : GraphPlace{});
      return cudaSuccess;
    }
    // A graph within a graph: its nodes, after those that the stream has captured.
    const std::vector<CUgraphNode_st*> before = stream->capture_tail;
    std::vector<CUgraphNode_st*> added;
    for (const auto& node : executable_graph->nodes) {
      std::vector<CUgraphNode_st*> after;
      for (const std::size_t i : node.after) after.push_back(added[i]);
      if (after.empty()) after = before;
      added.push_back(stream->capture->graph->add(node.operation, std::move(after)));
    }
    if (!added.empty()) stream->capture_tail = std::move(added);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphClone(cudaGraph_t* clone, cudaGraph_t graph) {
  return api("cudaGraphClone", [&](HeldLock&) {
    if (!clone || !graph) return cudaErrorInvalidValue;
    auto copy = std::make_unique<CUgraph_st>();
    for (const auto& node : graph->nodes) {
      std::vector<CUgraphNode_st*> after;
      for (const CUgraphNode_st* before : node->after)
        after.push_back(copy->nodes[before->rank].get());
      copy->add(node->operation, std::move(after));
    }
    *clone = copy.release();
    return cudaSuccess;
  });
}

}  // extern "C"
