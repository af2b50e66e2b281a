// One level of a breadth-first search with one thread per node: expand the frontier, then form the next one.
// Equivalent of Rodinia's bfs. Few threads of a warp are in the frontier, their nodes have different degrees, and the
// neighbours are scattered over memory. Each node has room for STRIDE edges; a mask is set where it is 1.
#define STRIDE 20

struct Node {
    int offset; // of the first edge in the node's room
    int degree;
};

__global__ void bfs_expand(const Node *nodes, const int *edges, unsigned char *frontier, unsigned char *next,
                           const unsigned char *visited, int *cost, int count)
{
    const int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node >= count || frontier[node] != 1)
        return;

    frontier[node] = 0;
    const int first = node * STRIDE + nodes[node].offset;
    for (int edge = first; edge < first + nodes[node].degree; ++edge) {
        const int neighbour = edges[edge];
        if (visited[neighbour] != 1) {
            cost[neighbour] = cost[node] + 1;
            next[neighbour] = 1;
        }
    }
}

__global__ void bfs_update(unsigned char *frontier, unsigned char *next, unsigned char *visited, unsigned char *again,
                           int count)
{
    const int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node < count && next[node] == 1) {
        frontier[node] = 1;
        visited[node] = 1;
        *again = 1;
        next[node] = 0;
    }
}
