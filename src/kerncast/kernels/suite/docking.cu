// Energies of many poses of a ligand beside a protein: each thread turns and moves the ligand's atoms into a few poses
// and adds up the energies of all pairs of atoms. Equivalent of miniBUDE's kernel. Bound by arithmetic, with square
// roots and branches on the distance and the kinds of atom; the force field lies in shared memory.
#ifndef POSES
#define POSES 4
#endif
#define MOST_KINDS 64

struct Pose {
    float turn[3][3], move[3];
};

// Angles are in turns; rotations about x, then y, then z.
__device__ Pose pose_from(const float *poses, int count, int pose, float size)
{
    float sx, cx, sy, cy, sz, cz;
    sincosf(6.2831853f * poses[pose], &sx, &cx);
    sincosf(6.2831853f * poses[count + pose], &sy, &cy);
    sincosf(6.2831853f * poses[2 * count + pose], &sz, &cz);
    Pose p;
    p.turn[0][0] = cy * cz;
    p.turn[0][1] = sx * sy * cz - cx * sz;
    p.turn[0][2] = cx * sy * cz + sx * sz;
    p.turn[1][0] = cy * sz;
    p.turn[1][1] = sx * sy * sz + cx * cz;
    p.turn[1][2] = cx * sy * sz - sx * cz;
    p.turn[2][0] = -sy;
    p.turn[2][1] = sx * cy;
    p.turn[2][2] = cx * cy;
    for (int i = 0; i < 3; ++i)
        p.move[i] = size * poses[(3 + i) * count + pose];
    return p;
}

// 1 inside, down to 0 at the reach.
__device__ float fade(float gap, float reach)
{
    return gap < 0.0f ? 1.0f : 1.0f - gap / reach;
}

// A kind has a radius, a liking for water and a charge.
__device__ float pair_energy(float distance, float4 one, float4 other)
{
    const float touch = one.x + other.x, gap = distance - touch;
    float energy = 0.0f;
    if (gap < 0.0f)
        energy += 76.0f * (1.0f - distance / touch);
    if (gap < 4.0f)
        energy += 45.0f * one.z * other.z * fade(gap, 4.0f);
    if (gap < 2.5f && one.y * other.y < 0.0f)
        energy += fabsf(one.y - other.y) * fade(gap, 2.5f);
    return energy;
}

// An atom's fourth number, between 0 and 1, says its kind; atoms fill cubes of the given sizes.
__global__ void docking(const float4 *ligand, const float4 *protein, const float4 *kinds, const float *poses,
                        float *energies, int ligand_atoms, int protein_atoms, int kind_count, int pose_count,
                        float ligand_size, float protein_size)
{
    __shared__ float4 field[MOST_KINDS];
    for (int kind = threadIdx.x; kind < kind_count; kind += blockDim.x) {
        const float4 k = kinds[kind];
        field[kind] = make_float4(1.0f + k.x, k.y - 0.5f, k.z - 0.5f, 0.0f);
    }
    __syncthreads();

    const int first = blockIdx.x * blockDim.x * POSES + threadIdx.x;
    Pose pose[POSES];
    float total[POSES];
#pragma unroll
    for (int i = 0; i < POSES; ++i) {
        pose[i] = pose_from(poses, pose_count, min(first + i * (int)blockDim.x, pose_count - 1), protein_size);
        total[i] = 0.0f;
    }

    for (int l = 0; l < ligand_atoms; ++l) {
        const float4 atom = ligand[l];
        const float4 kind = field[(int)(atom.w * kind_count)];
        const float ax = (atom.x - 0.5f) * ligand_size, ay = (atom.y - 0.5f) * ligand_size;
        const float az = (atom.z - 0.5f) * ligand_size;
        float x[POSES], y[POSES], z[POSES];
#pragma unroll
        for (int i = 0; i < POSES; ++i) {
            const Pose &p = pose[i];
            x[i] = p.turn[0][0] * ax + p.turn[0][1] * ay + p.turn[0][2] * az + p.move[0];
            y[i] = p.turn[1][0] * ax + p.turn[1][1] * ay + p.turn[1][2] * az + p.move[1];
            z[i] = p.turn[2][0] * ax + p.turn[2][1] * ay + p.turn[2][2] * az + p.move[2];
        }
        for (int j = 0; j < protein_atoms; ++j) {
            const float4 other = protein[j];
            const float4 other_kind = field[(int)(other.w * kind_count)];
#pragma unroll
            for (int i = 0; i < POSES; ++i) {
                const float dx = x[i] - other.x * protein_size, dy = y[i] - other.y * protein_size;
                const float dz = z[i] - other.z * protein_size;
                total[i] += pair_energy(sqrtf(dx * dx + dy * dy + dz * dz), kind, other_kind);
            }
        }
    }
#pragma unroll
    for (int i = 0; i < POSES; ++i)
        if (first + i * blockDim.x < pose_count)
            energies[first + i * blockDim.x] = 0.5f * total[i];
}
