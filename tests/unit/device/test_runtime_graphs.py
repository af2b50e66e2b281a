"""Graphs: taken from streams, made node by node, changed and launched."""

import struct
from pathlib import Path

from kerncast.device.wire import Message, done
from tests.helpers.runtime_libraries import libraries, program
from tests.helpers.stub_device import Kernel, StubDevice, run_on
from tests.unit.device.test_runtime_launches import SCALE

KERNELS = {"scale": SCALE, "slow": Kernel((), lambda *_: done(0, 1.0))}

CAPTURE = r"""
static int calls;
static void call(void *data) { calls++; }
int main(void) {
  registered();
  int *numbers, host[4] = {1, 2, 3, 4}, found[4] = {0}, count = 4;
  cudaStream_t one, two;
  cudaEvent_t fork_point, joint;
  MUST(cudaStreamCreate(&one));
  MUST(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
  MUST(cudaEventCreate(&fork_point));
  MUST(cudaEventCreate(&joint));
  MUST(cudaMalloc((void **)&numbers, 16));
  void *arguments[] = {&numbers, &count};
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  enum cudaStreamCaptureStatus status;
  MUST(cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal));
  MUST(cudaMemcpyAsync(numbers, host, 16, cudaMemcpyHostToDevice, one));
  MUST(cudaEventRecord(fork_point, one));
  MUST(cudaStreamWaitEvent(two, fork_point, 0)); /* the other stream is captured from here on */
  MUST(cudaStreamIsCapturing(two, &status));
  SAY(status);
  MUST(cudaLaunchKernel(slow, ONE, ONE, NULL, 0, two));
  MUST(cudaEventRecord(joint, two));
  MUST(cudaLaunchKernel(scale, ONE, ONE, arguments, 0, one));
  count = 2; /* a node has its own copy of the parameters */
  MUST(cudaStreamWaitEvent(one, joint, 0));
  MUST(cudaLaunchHostFunc(one, call, 0));
  MUST(cudaMemcpyAsync(found, numbers, 16, cudaMemcpyDeviceToHost, one));
  MUST(cudaStreamEndCapture(one, &graph));
  SAY(calls);
  SAY(found[3]);
  cudaGraphNode_t nodes[8], roots[8], from[8], to[8];
  size_t node_count = 8, root_count = 8, edge_count = 0;
  MUST(cudaGraphGetNodes(graph, nodes, &node_count));
  MUST(cudaGraphGetRootNodes(graph, roots, &root_count));
  MUST(cudaGraphGetEdges(graph, NULL, NULL, &edge_count));
  SAY(node_count * 100 + root_count * 10 + edge_count);
  edge_count = 8;
  MUST(cudaGraphGetEdges(graph, from, to, &edge_count));
  SAY(edge_count * 10 + (from[0] == roots[0]));
  enum cudaGraphNodeType type;
  MUST(cudaGraphNodeGetType(nodes[3], &type));
  SAY(type);
  MUST(cudaGraphInstantiate(&executable, graph, 0));
  MUST(cudaGraphLaunch(executable, one));
  MUST(cudaStreamSynchronize(one));
  SAY(found[3]);
  SAY(calls);
  /* Another graph of the same shape: its values are taken over. */
  cudaGraph_t again;
  cudaGraphExecUpdateResultInfo info;
  MUST(cudaGraphClone(&again, graph));
  cudaGraphNode_t clone;
  MUST(cudaGraphNodeFindInClone(&clone, nodes[2], again));
  struct cudaKernelNodeParams kernel;
  MUST(cudaGraphKernelNodeGetParams(clone, &kernel));
  SAY(kernel.func == (void *)scale);
  SAY(*(int *)kernel.kernelParams[1]);
  count = 1;
  kernel.kernelParams = arguments;
  MUST(cudaGraphKernelNodeSetParams(clone, &kernel));
  MUST(cudaGraphExecUpdate(executable, again, &info));
  MUST(cudaGraphLaunch(executable, one));
  MUST(cudaStreamSynchronize(one));
  SAY(found[0] * 10 + found[3]);
  MUST(cudaGraphDestroyNode(clone));
  SAY(cudaGraphExecUpdate(executable, again, &info));
  SAY(info.result);
  MUST(cudaGraphNodeSetEnabled(executable, nodes[2], 0));
  MUST(cudaGraphLaunch(executable, one));
  MUST(cudaGraphExecDestroy(executable));
  MUST(cudaGraphDestroy(again));
  MUST(cudaGraphDestroy(graph));
  return 0;
}
"""


def test_a_capture_follows_events_into_other_streams(tmp_path: Path) -> None:
    with StubDevice(kernels=KERNELS) as device:
        ended = run_on(device, program(tmp_path, CAPTURE), libraries())
    numbers = [int(line.rsplit(" ", 1)[1]) for line in ended.stdout.splitlines() if " numbers" not in line]
    # Five nodes: a copy, two kernels side by side, the host's call behind both, a copy.
    assert numbers == [1, 0, 0, 515, 51, 3, 8, 1, 1, 4, 24, 910, 2], ended.stdout + ended.stderr
    sizes = [struct.unpack("<Qi", each.parameters)[1] for each in device.launches if each.parameters]
    assert sizes == [4, 1]
    assert len(device.launches) == 5


FORBIDDEN = r"""
int main(void) {
  registered();
  cudaStream_t one, two;
  cudaEvent_t event, outside;
  cudaGraph_t graph;
  MUST(cudaStreamCreate(&one));
  MUST(cudaStreamCreate(&two));
  MUST(cudaEventCreate(&event));
  MUST(cudaEventCreate(&outside));
  MUST(cudaEventRecord(outside, two));
  SAY(cudaStreamBeginCapture(0, cudaStreamCaptureModeGlobal));
  SAY(cudaStreamEndCapture(one, &graph));
  /* A stream that has not come back. */
  MUST(cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal));
  MUST(cudaEventRecord(event, one));
  MUST(cudaStreamWaitEvent(two, event, 0));
  MUST(cudaLaunchKernel(slow, ONE, ONE, NULL, 0, two));
  SAY(cudaStreamEndCapture(two, &graph));
  SAY(cudaStreamEndCapture(one, &graph));
  SAY(graph);
  /* Waiting for what is only captured. */
  MUST(cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal));
  SAY(cudaStreamSynchronize(one));
  SAY(cudaLaunchKernel(slow, ONE, ONE, NULL, 0, one));
  SAY(cudaStreamEndCapture(one, &graph));
  MUST(cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal));
  MUST(cudaEventRecord(event, one));
  SAY(cudaEventQuery(event));
  SAY(cudaStreamEndCapture(one, &graph));
  MUST(cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal));
  SAY(cudaDeviceSynchronize());
  SAY(cudaStreamEndCapture(one, &graph));
  /* Work of streams that are not captured. */
  MUST(cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal));
  SAY(cudaStreamWaitEvent(one, outside, 0));
  SAY(cudaStreamEndCapture(one, &graph));
  MUST(cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal));
  SAY(cudaLaunchKernel(slow, ONE, ONE, NULL, 0, 0));
  SAY(cudaStreamEndCapture(one, &graph));
  MUST(cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal));
  MUST(cudaLaunchKernel(slow, ONE, ONE, NULL, 0, two));
  SAY(cudaStreamEndCapture(one, &graph));
  MUST(cudaDeviceSynchronize());
  return 0;
}
"""


def test_captures_forbid_what_cuda_forbids(tmp_path: Path) -> None:
    with StubDevice(kernels=KERNELS) as device:
        ended = run_on(device, program(tmp_path, FORBIDDEN), libraries())
    numbers = [int(line.rsplit(" ", 1)[1]) for line in ended.stdout.splitlines()]
    assert numbers == [
        900, 1, 903, 904, 0, 900, 901, 901, 907, 901, 900, 901, 905, 901, 906, 901, 0
    ], ended.stdout + ended.stderr  # fmt: skip
    assert [each.stream for each in device.launches] == [2]


NODES = r"""
static int calls;
static void call(void *data) { calls++; }
static void gone(void *data) { calls += 100; }
int main(void) {
  registered();
  int *numbers, host[4] = {1, 2, 3, 4}, found[4] = {0}, count = 4;
  cudaStream_t stream;
  MUST(cudaStreamCreate(&stream));
  MUST(cudaMalloc((void **)&numbers, 16));
  void *arguments[] = {&numbers, &count};
  cudaGraph_t graph, child;
  cudaGraphNode_t copy, fill, kernel, host_node, child_node, back, empty, extra;
  MUST(cudaGraphCreate(&graph, 0));
  MUST(cudaGraphCreate(&child, 0));
  struct cudaKernelNodeParams launch = {(void *)scale, ONE, ONE, 0, arguments, NULL};
  MUST(cudaGraphAddKernelNode(&kernel, child, NULL, 0, &launch));
  /* Made in the opposite order of their work. */
  MUST(cudaGraphAddMemcpyNode1D(&back, graph, NULL, 0, found, numbers, 16, cudaMemcpyDeviceToHost));
  MUST(cudaGraphAddChildGraphNode(&child_node, graph, NULL, 0, child));
  struct cudaMemsetParams set = {numbers, 0, 5, 4, 2, 1};
  MUST(cudaGraphAddMemsetNode(&fill, graph, NULL, 0, &set));
  MUST(cudaGraphAddMemcpyNode1D(&copy, graph, NULL, 0, numbers, host, 16, cudaMemcpyHostToDevice));
  struct cudaHostNodeParams calling = {call, NULL};
  MUST(cudaGraphAddHostNode(&host_node, graph, &back, 1, &calling));
  MUST(cudaGraphAddEmptyNode(&empty, graph, NULL, 0));
  cudaGraphNode_t from[] = {copy, fill, child_node}, to[] = {fill, child_node, back};
  MUST(cudaGraphAddDependencies(graph, from, to, 3));
  SAY(cudaGraphAddDependencies(graph, from, to, 1));
  cudaGraphExec_t executable;
  cudaUserObject_t object;
  MUST(cudaUserObjectCreate(&object, NULL, gone, 1, cudaUserObjectNoDestructorSync));
  MUST(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
  MUST(cudaGraphInstantiate(&executable, graph, 0));
  MUST(cudaGraphLaunch(executable, stream));
  MUST(cudaStreamSynchronize(stream));
  printf("found %d %d %d %d\n", found[0], found[1], found[2], found[3]);
  SAY(calls);
  /* Changes of an executable, of its child too. */
  cudaGraph_t held;
  cudaGraphNode_t inner;
  size_t one = 1;
  MUST(cudaGraphChildGraphNodeGetGraph(child_node, &held));
  MUST(cudaGraphGetNodes(held, &inner, &one));
  count = 1;
  MUST(cudaGraphExecKernelNodeSetParams(executable, inner, &launch));
  set.value = 9;
  MUST(cudaGraphExecMemsetNodeSetParams(executable, fill, &set));
  MUST(cudaGraphExecMemcpyNodeSetParams1D(executable, back, found, numbers, 8, cudaMemcpyDeviceToHost));
  MUST(cudaGraphLaunch(executable, stream));
  printf("found %d %d %d %d\n", found[0], found[1], found[2], found[3]);
  SAY(cudaGraphExecKernelNodeSetParams(executable, back, &launch));
  /* Edges that go round in a circle. */
  MUST(cudaGraphAddDependencies(graph, &back, &copy, 1));
  SAY(cudaGraphInstantiate(&executable, graph, 0));
  MUST(cudaGraphRemoveDependencies(graph, &back, &copy, 1));
  /* Memory of a graph. */
  struct cudaMemAllocNodeParams allocation = {.bytesize = 64};
  allocation.poolProps.location.type = cudaMemLocationTypeDevice;
  MUST(cudaGraphAddMemAllocNode(&extra, graph, NULL, 0, &allocation));
  SAY(cudaMemset(allocation.dptr, 1, 64));
  MUST(cudaGraphAddMemFreeNode(&extra, graph, &extra, 1, allocation.dptr));
  MUST(cudaGraphDestroy(graph));
  SAY(cudaMemset(allocation.dptr, 1, 64));
  SAY(calls);
  return 0;
}
"""


def test_nodes_are_done_in_the_order_of_their_edges(tmp_path: Path) -> None:
    with StubDevice(kernels=KERNELS) as device:
        ended = run_on(device, program(tmp_path, NODES), libraries())
    lines = [line for line in ended.stdout.splitlines() if " numbers" not in line]
    assert [line for line in lines if line.startswith("found")] == ["found 10 10 6 8", "found 18 9 6 8"]
    numbers = [int(line.rsplit(" ", 1)[1]) for line in lines if not line.startswith("found")]
    assert numbers == [1, 1, 1, 1, 0, 1, 102], ended.stdout + ended.stderr


TIMES = r"""
int main(void) {
  registered();
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  MUST(cudaStreamCreate(&stream));
  MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  for (int i = 0; i < 10; i++) MUST(cudaLaunchKernel(slow, ONE, ONE, NULL, 0, stream));
  MUST(cudaStreamEndCapture(stream, &graph));
  MUST(cudaGraphInstantiate(&executable, graph, 0));
  double before = seconds(CLOCK_MONOTONIC);
  MUST(cudaGraphLaunch(executable, stream));
  printf("%.0f\n", seconds(CLOCK_MONOTONIC) - before);
  MUST(cudaStreamSynchronize(stream));
  printf("%.0f\n", seconds(CLOCK_MONOTONIC) - before);
  return 0;
}
"""


def test_a_graph_is_paid_for_once(tmp_path: Path) -> None:
    with StubDevice(kernels=KERNELS, launch_s=7.0) as device:
        ended = run_on(device, program(tmp_path, TIMES), libraries())
    assert ended.stdout == "7\n17\n"
    flags = [struct.unpack_from("<I", data, 44)[0] for data in device.said(Message.LAUNCH)]
    assert flags == [2] * 10
