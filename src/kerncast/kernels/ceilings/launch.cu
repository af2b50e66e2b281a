// What a launch costs: a kernel that does nothing, queued in a series, as a CUDA graph, or alone between two events.
//
// It is the launch that is measured, so nothing has to be kept from the compiler. Limited by the front end of the GPU
// and, for a full grid, by the rate at which blocks are distributed to the SMs.

extern "C" __global__ void empty() {}
