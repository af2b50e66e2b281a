/* cuFFT: plans are kept here, transforms are done by the server. Part of libcufft.so. */
#include <cufft.h>
#include <stdlib.h>
#include <string.h>

#include "operands.h"

#define MOST_AXES 3

struct plan {
  bool is_made;
  int64_t type, rank, sizes[MOST_AXES], batch;
  /* Without layouts of its own data lie one after the other. */
  int64_t has_layouts, in_sizes[MOST_AXES], in_stride, in_distance, out_sizes[MOST_AXES], out_stride, out_distance;
  kc_stream *stream;
};

static struct plan **plans;
static int plan_count;

static struct plan *plan_of(cufftHandle number) {
  kc_lock();
  struct plan *found = number > 0 && number <= plan_count ? plans[number - 1] : NULL;
  kc_unlock();
  return found;
}

static bool is_type(int64_t type) {
  return type == CUFFT_C2C || type == CUFFT_R2C || type == CUFFT_C2R || type == CUFFT_Z2Z || type == CUFFT_D2Z ||
         type == CUFFT_Z2D;
}

static cufftResult check(const struct plan *plan) {
  if (!is_type(plan->type)) return CUFFT_INVALID_TYPE;
  if (plan->rank < 1 || plan->rank > MOST_AXES) return CUFFT_INVALID_VALUE;
  if (plan->batch < 1) return CUFFT_INVALID_SIZE;
  for (int64_t axis = 0; axis < plan->rank; axis++)
    if (plan->sizes[axis] < 1) return CUFFT_INVALID_SIZE;
  bool has_steps = plan->in_stride > 0 && plan->out_stride > 0 && plan->in_distance >= 0 && plan->out_distance >= 0;
  return plan->has_layouts && !has_steps ? CUFFT_INVALID_VALUE : CUFFT_SUCCESS;
}

/* Room for one copy of the data. */
static size_t work_bytes(const struct plan *plan) {
  size_t bytes = plan->type & 0x40 ? 16 : 8;
  for (int64_t axis = 0; axis < plan->rank; axis++) bytes *= (size_t)plan->sizes[axis];
  return bytes * (size_t)plan->batch;
}

static cufftResult make(cufftHandle number, const struct plan *wanted, size_t *bytes) {
  struct plan *plan = plan_of(number);
  if (!plan || plan->is_made) return CUFFT_INVALID_PLAN;
  cufftResult wrong = check(wanted);
  if (wrong) return wrong;
  kc_stream *stream = plan->stream;
  *plan = *wanted;
  plan->stream = stream;
  plan->is_made = true;
  if (bytes) *bytes = work_bytes(plan);
  return CUFFT_SUCCESS;
}

static cufftResult estimate(const struct plan *wanted, size_t *bytes) {
  cufftResult wrong = check(wanted);
  if (wrong) return wrong;
  if (!bytes) return CUFFT_INVALID_VALUE;
  *bytes = work_bytes(wanted);
  return CUFFT_SUCCESS;
}

/* --- plans --- */

cufftResult cufftCreate(cufftHandle *number) {
  if (!number) return CUFFT_INVALID_VALUE;
  if (kc_begin() || kc_lasting_error()) return CUFFT_SETUP_FAILED;
  struct plan *made = calloc(1, sizeof *made);
  if (!made) return CUFFT_ALLOC_FAILED;
  kc_lock();
  int place = 0;
  while (place < plan_count && plans[place]) place++;
  if (place == plan_count) {
    struct plan **larger = realloc(plans, (size_t)(plan_count + 1) * sizeof *plans);
    if (!larger) {
      kc_unlock();
      free(made);
      return CUFFT_ALLOC_FAILED;
    }
    plans = larger;
    plan_count++;
  }
  plans[place] = made;
  kc_unlock();
  *number = place + 1;
  return CUFFT_SUCCESS;
}

cufftResult cufftDestroy(cufftHandle number) {
  kc_lock();
  struct plan *found = plan_of(number);
  if (found) plans[number - 1] = NULL;
  kc_unlock();
  free(found);
  return found ? CUFFT_SUCCESS : CUFFT_INVALID_PLAN;
}

static struct plan of_sizes(int rank, const int sizes[], cufftType type, int batch) {
  struct plan made = {.type = type, .rank = rank, .batch = batch};
  for (int axis = 0; axis < rank && axis < MOST_AXES; axis++) made.sizes[axis] = sizes[axis];
  return made;
}

/* Widens a list of sizes; NULL is the layout of data that lie one after the other, and then for both sides. */
#define LAYOUTS(made)                                                                                              \
  do {                                                                                                             \
    if (rank < 1 || rank > MOST_AXES || !n) return CUFFT_INVALID_VALUE;                                             \
    for (int axis = 0; axis < rank; axis++) {                                                                      \
      made.sizes[axis] = n[axis];                                                                                  \
      made.in_sizes[axis] = inembed ? inembed[axis] : n[axis];                                                      \
      made.out_sizes[axis] = onembed ? onembed[axis] : n[axis];                                                     \
    }                                                                                                              \
    made.has_layouts = inembed && onembed;                                                                         \
    made.in_stride = istride, made.in_distance = idist, made.out_stride = ostride, made.out_distance = odist;      \
  } while (0)

cufftResult cufftMakePlan1d(cufftHandle plan, int nx, cufftType type, int batch, size_t *bytes) {
  struct plan wanted = of_sizes(1, (int[]){nx}, type, batch);
  return make(plan, &wanted, bytes);
}
cufftResult cufftMakePlan2d(cufftHandle plan, int nx, int ny, cufftType type, size_t *bytes) {
  struct plan wanted = of_sizes(2, (int[]){nx, ny}, type, 1);
  return make(plan, &wanted, bytes);
}
cufftResult cufftMakePlan3d(cufftHandle plan, int nx, int ny, int nz, cufftType type, size_t *bytes) {
  struct plan wanted = of_sizes(3, (int[]){nx, ny, nz}, type, 1);
  return make(plan, &wanted, bytes);
}
cufftResult cufftMakePlanMany(cufftHandle plan, int rank, int *n, int *inembed, int istride, int idist, int *onembed,
                              int ostride, int odist, cufftType type, int batch, size_t *bytes) {
  struct plan wanted = {.type = type, .rank = rank, .batch = batch};
  LAYOUTS(wanted);
  return make(plan, &wanted, bytes);
}
cufftResult cufftMakePlanMany64(cufftHandle plan, int rank, long long *n, long long *inembed, long long istride,
                                long long idist, long long *onembed, long long ostride, long long odist,
                                cufftType type, long long batch, size_t *bytes) {
  struct plan wanted = {.type = type, .rank = rank, .batch = batch};
  LAYOUTS(wanted);
  return make(plan, &wanted, bytes);
}

/* A plan that is made at once; nothing is left of one that cannot be. */
#define AT_ONCE(making)                        \
  do {                                         \
    size_t bytes;                              \
    cufftResult result = cufftCreate(plan);    \
    if (result) return result;                 \
    result = making;                           \
    if (result) cufftDestroy(*plan);           \
    return result;                             \
  } while (0)

cufftResult cufftPlan1d(cufftHandle *plan, int nx, cufftType type, int batch) {
  AT_ONCE(cufftMakePlan1d(*plan, nx, type, batch, &bytes));
}
cufftResult cufftPlan2d(cufftHandle *plan, int nx, int ny, cufftType type) {
  AT_ONCE(cufftMakePlan2d(*plan, nx, ny, type, &bytes));
}
cufftResult cufftPlan3d(cufftHandle *plan, int nx, int ny, int nz, cufftType type) {
  AT_ONCE(cufftMakePlan3d(*plan, nx, ny, nz, type, &bytes));
}
cufftResult cufftPlanMany(cufftHandle *plan, int rank, int *n, int *inembed, int istride, int idist, int *onembed,
                          int ostride, int odist, cufftType type, int batch) {
  AT_ONCE(cufftMakePlanMany(*plan, rank, n, inembed, istride, idist, onembed, ostride, odist, type, batch, &bytes));
}

/* --- sizes and settings --- */

cufftResult cufftEstimate1d(int nx, cufftType type, int batch, size_t *bytes) {
  struct plan wanted = of_sizes(1, (int[]){nx}, type, batch);
  return estimate(&wanted, bytes);
}
cufftResult cufftEstimate2d(int nx, int ny, cufftType type, size_t *bytes) {
  struct plan wanted = of_sizes(2, (int[]){nx, ny}, type, 1);
  return estimate(&wanted, bytes);
}
cufftResult cufftEstimate3d(int nx, int ny, int nz, cufftType type, size_t *bytes) {
  struct plan wanted = of_sizes(3, (int[]){nx, ny, nz}, type, 1);
  return estimate(&wanted, bytes);
}
cufftResult cufftEstimateMany(int rank, int *n, int *inembed, int istride, int idist, int *onembed, int ostride,
                              int odist, cufftType type, int batch, size_t *bytes) {
  struct plan wanted = {.type = type, .rank = rank, .batch = batch};
  LAYOUTS(wanted);
  return estimate(&wanted, bytes);
}
cufftResult cufftGetSize(cufftHandle number, size_t *bytes) {
  struct plan *plan = plan_of(number);
  if (!plan || !plan->is_made) return CUFFT_INVALID_PLAN;
  return estimate(plan, bytes);
}
cufftResult cufftGetSize1d(cufftHandle plan, int nx, cufftType type, int batch, size_t *bytes) {
  return plan_of(plan) ? cufftEstimate1d(nx, type, batch, bytes) : CUFFT_INVALID_PLAN;
}
cufftResult cufftGetSize2d(cufftHandle plan, int nx, int ny, cufftType type, size_t *bytes) {
  return plan_of(plan) ? cufftEstimate2d(nx, ny, type, bytes) : CUFFT_INVALID_PLAN;
}
cufftResult cufftGetSize3d(cufftHandle plan, int nx, int ny, int nz, cufftType type, size_t *bytes) {
  return plan_of(plan) ? cufftEstimate3d(nx, ny, nz, type, bytes) : CUFFT_INVALID_PLAN;
}
cufftResult cufftGetSizeMany(cufftHandle plan, int rank, int *n, int *inembed, int istride, int idist, int *onembed,
                             int ostride, int odist, cufftType type, int batch, size_t *bytes) {
  if (!plan_of(plan)) return CUFFT_INVALID_PLAN;
  return cufftEstimateMany(rank, n, inembed, istride, idist, onembed, ostride, odist, type, batch, bytes);
}
cufftResult cufftSetWorkArea(cufftHandle plan, void *area) {
  (void)area;
  return plan_of(plan) ? CUFFT_SUCCESS : CUFFT_INVALID_PLAN;
}
cufftResult cufftSetAutoAllocation(cufftHandle plan, int allocates) {
  (void)allocates;
  return plan_of(plan) ? CUFFT_SUCCESS : CUFFT_INVALID_PLAN;
}
cufftResult cufftSetStream(cufftHandle number, cudaStream_t stream) {
  struct plan *plan = plan_of(number);
  if (!plan) return CUFFT_INVALID_PLAN;
  if (!kc_is_stream((kc_stream *)stream)) return CUFFT_INVALID_VALUE;
  plan->stream = (kc_stream *)stream;
  return CUFFT_SUCCESS;
}
cufftResult cufftGetVersion(int *version) {
  if (!version) return CUFFT_INVALID_VALUE;
  *version = CUFFT_VERSION;
  return CUFFT_SUCCESS;
}
cufftResult cufftGetProperty(libraryPropertyType type, int *value) {
  static const int parts[] = {CUFFT_VER_MAJOR, CUFFT_VER_MINOR, CUFFT_VER_PATCH};
  if (!value || (unsigned)type > PATCH_LEVEL) return CUFFT_INVALID_VALUE;
  *value = parts[type];
  return CUFFT_SUCCESS;
}

/* --- transforms --- */

static cufftResult result_of(int error) {
  if (error <= CUFFT_NOT_SUPPORTED) return (cufftResult)error; /* the library's own */
  return error == KC_NOT_SUPPORTED || error == KC_CAPTURE_UNSUPPORTED ? CUFFT_NOT_SUPPORTED : CUFFT_EXEC_FAILED;
}

struct transform {
  const char *name;
  int64_t type, direction;
  const void *from;
  void *to;
};

static cufftResult transform(cufftHandle number, struct transform asked) {
  const struct plan *plan = plan_of(number);
  if (!plan || !plan->is_made) return CUFFT_INVALID_PLAN;
  if (plan->type != asked.type || !asked.from || !asked.to) return CUFFT_INVALID_VALUE;
  if (asked.direction != CUFFT_FORWARD && asked.direction != CUFFT_INVERSE) return CUFFT_INVALID_VALUE;
  struct kc_operand operands[32];
  int count = 0;
  const int64_t head[] = {asked.type, asked.direction, plan->batch, plan->has_layouts, plan->rank};
  for (int i = 0; i < 5; i++) operands[count++] = kc_integer(head[i]);
  for (int64_t axis = 0; axis < plan->rank; axis++) operands[count++] = kc_integer(plan->sizes[axis]);
  for (int64_t axis = 0; axis < plan->rank; axis++) operands[count++] = kc_integer(plan->in_sizes[axis]);
  operands[count++] = kc_integer(plan->in_stride);
  operands[count++] = kc_integer(plan->in_distance);
  for (int64_t axis = 0; axis < plan->rank; axis++) operands[count++] = kc_integer(plan->out_sizes[axis]);
  operands[count++] = kc_integer(plan->out_stride);
  operands[count++] = kc_integer(plan->out_distance);
  operands[count++] = kc_pointer(asked.from);
  operands[count++] = kc_pointer(asked.to);
  return result_of(kc_library(asked.name, operands, (size_t)count * sizeof *operands, plan->stream));
}

#define EXEC(name, From, To)                                                                      \
  cufftResult cufftExec##name(cufftHandle plan, From *from, To *to) {                             \
    int direction = #name[0] == 'C' || #name[0] == 'Z' ? CUFFT_INVERSE : CUFFT_FORWARD;           \
    return transform(plan, (struct transform){"cufftExec" #name, CUFFT_##name, direction, from, to}); \
  }
EXEC(R2C, cufftReal, cufftComplex)
EXEC(C2R, cufftComplex, cufftReal)
EXEC(D2Z, cufftDoubleReal, cufftDoubleComplex)
EXEC(Z2D, cufftDoubleComplex, cufftDoubleReal)

cufftResult cufftExecC2C(cufftHandle plan, cufftComplex *from, cufftComplex *to, int direction) {
  return transform(plan, (struct transform){"cufftExecC2C", CUFFT_C2C, direction, from, to});
}
cufftResult cufftExecZ2Z(cufftHandle plan, cufftDoubleComplex *from, cufftDoubleComplex *to, int direction) {
  return transform(plan, (struct transform){"cufftExecZ2Z", CUFFT_Z2Z, direction, from, to});
}
