// Textures and surfaces: each kernel reads through an object that a launch file describes.
extern "C" __global__ void fetch1(cudaTextureObject_t t, int n, float *out) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = tex1Dfetch<float>(t, i - 8);
}
extern "C" __global__ void read1(cudaTextureObject_t t, int n, const float *x, float *out) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = tex1D<float>(t, x[i]);
}
extern "C" __global__ void read2(cudaTextureObject_t t, int n, const float *x, const float *y, float *out) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = tex2D<float>(t, x[i], y[i]);
}
extern "C" __global__ void read3(cudaTextureObject_t t, int n, const float *x, const float *y, const float *z, float *out) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = tex3D<float>(t, x[i], y[i], z[i]);
}
extern "C" __global__ void bytes4(cudaTextureObject_t t, int n, const float *x, const float *y, uchar4 *out) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = tex2D<uchar4>(t, x[i], y[i]);
}
extern "C" __global__ void floats4(cudaTextureObject_t t, int n, const float *x, const float *y, float4 *out) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = tex2DLod<float4>(t, x[i], y[i], 0.0f);
}
extern "C" __global__ void layers(cudaTextureObject_t t, int n, const float *x, const float *y, float *out) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = tex2DLayered<float>(t, x[i], y[i], i % 3);
}
extern "C" __global__ void copies(cudaSurfaceObject_t from, cudaSurfaceObject_t to, int w, int h) {
  for (int i = threadIdx.x; i < w * h; i += blockDim.x) {
    int x = i % w, y = i / w;
    float4 v = surf2Dread<float4>(from, 16 * (x - 1), y, cudaBoundaryModeClamp);
    float2 zero = surf2Dread<float2>(from, 16 * x, y + h, cudaBoundaryModeZero);
    v.x += zero.x;
    surf2Dwrite(v, to, 16 * x, h - 1 - y);
    surf2Dwrite(1.0f, to, 16 * x, y - h, cudaBoundaryModeZero);
  }
}
extern "C" __global__ void outside(cudaSurfaceObject_t from, float *out) { out[0] = surf2Dread<float>(from, 4096, 0); }
extern "C" __global__ void anything(unsigned long long handle, float *out) { out[threadIdx.x] = tex1Dfetch<float>(handle, 0); }
extern "C" __global__ void gathers(cudaTextureObject_t t, int n, const float *x, const float *y, float4 *out) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = tex2Dgather<float4>(t, x[i], y[i], 1);
}
