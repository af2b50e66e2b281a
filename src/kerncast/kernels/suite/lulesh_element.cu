// Volume, shape-function derivatives, pressure forces and hourglass forces of hexahedral elements, one per thread, in
// double precision. Equivalent of the volume-force kernel of LULESH. Gathers eight nodes through an index list, then
// computes at length on them: many registers, low occupancy, no divergence. Forces go to one place per corner.

// A corner's place in its element, 0 or 1: corners 0 to 3 go round the bottom, 4 to 7 lie above them.
#define ALONG_X(c) (((c) + 1) / 2 % 2)
#define ALONG_Y(c) ((c) / 2 % 2)
#define ALONG_Z(c) ((c) / 4)
#define SIGN(bit) ((bit) ? 1.0 : -1.0)

struct Corners {
    double x[8], y[8], z[8];
};

// Volume times the derivatives of the shape functions in the element's middle; returns the volume.
__device__ double derivatives(const Corners &at, Corners &b)
{
    double a[3][3] = {};  // how the place changes along the three edges
#pragma unroll
    for (int c = 0; c < 8; ++c) {
        const double sign[3] = {SIGN(ALONG_X(c)), SIGN(ALONG_Y(c)), SIGN(ALONG_Z(c))};
#pragma unroll
        for (int edge = 0; edge < 3; ++edge) {
            a[edge][0] += 0.125 * sign[edge] * at.x[c];
            a[edge][1] += 0.125 * sign[edge] * at.y[c];
            a[edge][2] += 0.125 * sign[edge] * at.z[c];
        }
    }
    double cofactor[3][3];
#pragma unroll
    for (int i = 0; i < 3; ++i)
#pragma unroll
        for (int j = 0; j < 3; ++j)
            cofactor[i][j] = a[(i + 1) % 3][(j + 1) % 3] * a[(i + 2) % 3][(j + 2) % 3]
                           - a[(i + 1) % 3][(j + 2) % 3] * a[(i + 2) % 3][(j + 1) % 3];
#pragma unroll
    for (int c = 0; c < 8; ++c) {
        const double sx = SIGN(ALONG_X(c)), sy = SIGN(ALONG_Y(c)), sz = SIGN(ALONG_Z(c));
        b.x[c] = sx * cofactor[0][0] + sy * cofactor[1][0] + sz * cofactor[2][0];
        b.y[c] = sx * cofactor[0][1] + sy * cofactor[1][1] + sz * cofactor[2][1];
        b.z[c] = sx * cofactor[0][2] + sy * cofactor[1][2] + sz * cofactor[2][2];
    }
    return 8.0 * (a[0][0] * cofactor[0][0] + a[0][1] * cofactor[0][1] + a[0][2] * cofactor[0][2]);
}

// The pressure pushes each face outwards, a quarter at each of its corners p, q, r, s.
__device__ void push_face(const Corners &at, double pressure, int p, int q, int r, int s, Corners &force)
{
    const double ux = at.x[q] + at.x[r] - at.x[p] - at.x[s], vx = at.x[r] + at.x[s] - at.x[p] - at.x[q];
    const double uy = at.y[q] + at.y[r] - at.y[p] - at.y[s], vy = at.y[r] + at.y[s] - at.y[p] - at.y[q];
    const double uz = at.z[q] + at.z[r] - at.z[p] - at.z[s], vz = at.z[r] + at.z[s] - at.z[p] - at.z[q];
    const double share = pressure / 16.0;
    const double fx = share * (uy * vz - uz * vy), fy = share * (uz * vx - ux * vz), fz = share * (ux * vy - uy * vx);
    const int corner[4] = {p, q, r, s};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        force.x[corner[i]] += fx;
        force.y[corner[i]] += fy;
        force.z[corner[i]] += fz;
    }
}

// Damps one of the four patterns of motion that change no volume in the middle (Flanagan and Belytschko).
__device__ void damp(const Corners &at, const Corners &b, const Corners &velocity, const double (&pattern)[8],
                     double per_volume, double strength, Corners &force)
{
    double px = 0.0, py = 0.0, pz = 0.0, vx = 0.0, vy = 0.0, vz = 0.0, mode[8];
#pragma unroll
    for (int c = 0; c < 8; ++c) {
        px += pattern[c] * at.x[c];
        py += pattern[c] * at.y[c];
        pz += pattern[c] * at.z[c];
    }
#pragma unroll
    for (int c = 0; c < 8; ++c) {
        mode[c] = pattern[c] - per_volume * (b.x[c] * px + b.y[c] * py + b.z[c] * pz);
        vx += mode[c] * velocity.x[c];
        vy += mode[c] * velocity.y[c];
        vz += mode[c] * velocity.z[c];
    }
#pragma unroll
    for (int c = 0; c < 8; ++c) {
        force.x[c] -= strength * mode[c] * vx;
        force.y[c] -= strength * mode[c] * vy;
        force.z[c] -= strength * mode[c] * vz;
    }
}

// x, y and z are how far a node is from its place in a regular grid with this spacing. A launch file can fill the index
// list only with 0, 1, 2, ...; a shift per corner makes a mesh with row nodes per row and layer nodes per layer of it.
// Elements at a row's end reach around to the next row.
__global__ void lulesh_element(const int *nodes, const double *x, const double *y, const double *z, const double *vx,
                               const double *vy, const double *vz, const double *pressure, const double *sound,
                               const double *mass, double *fx, double *fy, double *fz, double *volumes, double spacing,
                               double hourglass, int elements, int row, int layer)
{
    const int element = blockIdx.x * blockDim.x + threadIdx.x;
    if (element >= elements)
        return;
    Corners at, velocity, b, force = {};
#pragma unroll
    for (int c = 0; c < 8; ++c) {
        const int shift = ALONG_X(c) + ALONG_Y(c) * row + ALONG_Z(c) * layer - c * elements;
        const int node = nodes[c * elements + element] + shift;
        at.x[c] = x[node] + spacing * ALONG_X(c);
        at.y[c] = y[node] + spacing * ALONG_Y(c);
        at.z[c] = z[node] + spacing * ALONG_Z(c);
        velocity.x[c] = vx[node];
        velocity.y[c] = vy[node];
        velocity.z[c] = vz[node];
    }

    const double volume = derivatives(at, b);
    const double p = pressure[element];
    push_face(at, p, 0, 3, 2, 1, force);
    push_face(at, p, 4, 5, 6, 7, force);
    push_face(at, p, 0, 1, 5, 4, force);
    push_face(at, p, 1, 2, 6, 5, force);
    push_face(at, p, 2, 3, 7, 6, force);
    push_face(at, p, 3, 0, 4, 7, force);

    const double strength = 0.01 * hourglass * sound[element] * mass[element] / cbrt(volume);
    double pattern[4][8];
#pragma unroll
    for (int c = 0; c < 8; ++c) {
        const double sx = SIGN(ALONG_X(c)), sy = SIGN(ALONG_Y(c)), sz = SIGN(ALONG_Z(c));
        pattern[0][c] = sx * sy;
        pattern[1][c] = sy * sz;
        pattern[2][c] = sz * sx;
        pattern[3][c] = sx * sy * sz;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
        damp(at, b, velocity, pattern[i], 1.0 / volume, strength, force);

    volumes[element] = volume;
#pragma unroll
    for (int c = 0; c < 8; ++c) {
        fx[c * elements + element] = force.x[c];
        fy[c * elements + element] = force.y[c];
        fz[c * elements + element] = force.z[c];
    }
}
