/* The host interface of cuRAND: generators are kept here, numbers are made by the server. Part of libcurand.so. */
#include <curand.h>
#include <stdlib.h>

#include "operands.h"

#define MAGIC 0x6b63726e
#define MOST_DIMENSIONS 20000

struct curandGenerator_st {
  uint32_t magic;
  bool of_host;
  int64_t type, ordering, dimensions;
  uint64_t seed, offset; /* how many numbers have been made, of every dimension */
  kc_stream *stream;
};

struct curandDiscreteDistribution_st {
  double mean;
};

static bool is_generator(curandGenerator_t given) { return given && given->magic == MAGIC; }
static bool is_quasi(int64_t type) { return type >= CURAND_RNG_QUASI_DEFAULT; }

static bool is_type(int64_t type) {
  switch (type) {
    case CURAND_RNG_PSEUDO_DEFAULT: case CURAND_RNG_PSEUDO_XORWOW: case CURAND_RNG_PSEUDO_MRG32K3A:
    case CURAND_RNG_PSEUDO_MTGP32: case CURAND_RNG_PSEUDO_MT19937: case CURAND_RNG_PSEUDO_PHILOX4_32_10:
    case CURAND_RNG_QUASI_DEFAULT: case CURAND_RNG_QUASI_SOBOL32: case CURAND_RNG_QUASI_SCRAMBLED_SOBOL32:
    case CURAND_RNG_QUASI_SOBOL64: case CURAND_RNG_QUASI_SCRAMBLED_SOBOL64: return true;
    default: return false;
  }
}

static curandStatus_t create(curandGenerator_t *generator, curandRngType_t type, bool of_host) {
  if (!generator) return CURAND_STATUS_INITIALIZATION_FAILED;
  if (!is_type(type)) return CURAND_STATUS_TYPE_ERROR;
  if (kc_begin()) return CURAND_STATUS_INITIALIZATION_FAILED;
  if (kc_lasting_error()) return CURAND_STATUS_PREEXISTING_FAILURE;
  struct curandGenerator_st *made = calloc(1, sizeof *made);
  if (!made) return CURAND_STATUS_ALLOCATION_FAILED;
  made->magic = MAGIC;
  made->of_host = of_host;
  /* The default generators are two of the others. */
  made->type = type == CURAND_RNG_PSEUDO_DEFAULT  ? CURAND_RNG_PSEUDO_XORWOW
               : type == CURAND_RNG_QUASI_DEFAULT ? CURAND_RNG_QUASI_SOBOL32
                                                  : (int64_t)type;
  made->ordering = is_quasi(type) ? CURAND_ORDERING_QUASI_DEFAULT : CURAND_ORDERING_PSEUDO_DEFAULT;
  made->dimensions = 1;
  *generator = made;
  return CURAND_STATUS_SUCCESS;
}

curandStatus_t curandCreateGenerator(curandGenerator_t *generator, curandRngType_t type) {
  return create(generator, type, false);
}

curandStatus_t curandCreateGeneratorHost(curandGenerator_t *generator, curandRngType_t type) {
  return create(generator, type, true);
}

curandStatus_t curandDestroyGenerator(curandGenerator_t generator) {
  if (!is_generator(generator)) return CURAND_STATUS_NOT_INITIALIZED;
  generator->magic = 0;
  free(generator);
  return CURAND_STATUS_SUCCESS;
}

curandStatus_t curandGetVersion(int *version) {
  if (!version) return CURAND_STATUS_OUT_OF_RANGE;
  *version = CURAND_VERSION;
  return CURAND_STATUS_SUCCESS;
}

curandStatus_t curandGetProperty(libraryPropertyType type, int *value) {
  static const int parts[] = {CURAND_VER_MAJOR, CURAND_VER_MINOR, CURAND_VER_PATCH};
  if (!value || (unsigned)type > PATCH_LEVEL) return CURAND_STATUS_OUT_OF_RANGE;
  *value = parts[type];
  return CURAND_STATUS_SUCCESS;
}

curandStatus_t curandSetStream(curandGenerator_t generator, cudaStream_t stream) {
  if (!is_generator(generator)) return CURAND_STATUS_NOT_INITIALIZED;
  if (!kc_is_stream((kc_stream *)stream)) return CURAND_STATUS_OUT_OF_RANGE;
  generator->stream = (kc_stream *)stream;
  return CURAND_STATUS_SUCCESS;
}

curandStatus_t curandSetPseudoRandomGeneratorSeed(curandGenerator_t generator, unsigned long long seed) {
  if (!is_generator(generator)) return CURAND_STATUS_NOT_INITIALIZED;
  if (is_quasi(generator->type)) return CURAND_STATUS_TYPE_ERROR;
  generator->seed = seed;
  generator->offset = 0;
  return CURAND_STATUS_SUCCESS;
}

curandStatus_t curandSetGeneratorOffset(curandGenerator_t generator, unsigned long long offset) {
  if (!is_generator(generator)) return CURAND_STATUS_NOT_INITIALIZED;
  generator->offset = offset;
  return CURAND_STATUS_SUCCESS;
}

curandStatus_t curandSetGeneratorOrdering(curandGenerator_t generator, curandOrdering_t ordering) {
  if (!is_generator(generator)) return CURAND_STATUS_NOT_INITIALIZED;
  if ((ordering == CURAND_ORDERING_QUASI_DEFAULT) != is_quasi(generator->type)) return CURAND_STATUS_OUT_OF_RANGE;
  generator->ordering = ordering;
  return CURAND_STATUS_SUCCESS;
}

curandStatus_t curandSetQuasiRandomGeneratorDimensions(curandGenerator_t generator, unsigned dimensions) {
  if (!is_generator(generator)) return CURAND_STATUS_NOT_INITIALIZED;
  if (!is_quasi(generator->type)) return CURAND_STATUS_TYPE_ERROR;
  if (dimensions < 1 || dimensions > MOST_DIMENSIONS) return CURAND_STATUS_OUT_OF_RANGE;
  generator->dimensions = dimensions;
  return CURAND_STATUS_SUCCESS;
}

curandStatus_t curandGenerateSeeds(curandGenerator_t generator) {
  return is_generator(generator) ? CURAND_STATUS_SUCCESS : CURAND_STATUS_NOT_INITIALIZED;
}

/* --- numbers --- */

static curandStatus_t status_of(int error) {
  if (!error || (error >= CURAND_STATUS_VERSION_MISMATCH && error <= CURAND_STATUS_DOUBLE_PRECISION_REQUIRED))
    return (curandStatus_t)error; /* the library's own */
  return error == KC_OUT_OF_MEMORY                                       ? CURAND_STATUS_ALLOCATION_FAILED
         : error == KC_NOT_SUPPORTED || error == KC_CAPTURE_UNSUPPORTED ? CURAND_STATUS_INTERNAL_ERROR
                                                                         : CURAND_STATUS_LAUNCH_FAILURE;
}

struct asked {
  const char *name;
  void *to;
  size_t count, bytes; /* of one number */
  double first, second; /* of the distribution */
};

static int generate_at(curandGenerator_t generator, const struct asked *asked, const void *to) {
  const struct kc_operand operands[] = {
      kc_integer(generator->type), kc_integer((int64_t)generator->seed), kc_integer((int64_t)generator->offset),
      kc_integer(generator->dimensions), kc_integer(generator->of_host), kc_pointer(to),
      kc_integer((int64_t)asked->count), kc_real(asked->first), kc_real(asked->second)};
  return kc_library(asked->name, operands, sizeof operands, generator->stream);
}

/* The server writes where it can, from where the numbers are copied to the host. */
static int generate_for_host(curandGenerator_t generator, const struct asked *asked) {
  uint64_t place;
  int error = kc_allocate(asked->count * asked->bytes, KC_PINNED, &place);
  if (error) return error;
  error = generate_at(generator, asked, (const void *)(uintptr_t)place);
  if (!error) memcpy(asked->to, (const void *)(uintptr_t)place, asked->count * asked->bytes);
  kc_free(place);
  return error;
}

static curandStatus_t generate(curandGenerator_t generator, struct asked asked) {
  if (!is_generator(generator)) return CURAND_STATUS_NOT_INITIALIZED;
  if (!asked.count) return CURAND_STATUS_SUCCESS;
  if (!asked.to || asked.count > SIZE_MAX / 2 / asked.bytes) return CURAND_STATUS_OUT_OF_RANGE;
  int error = generator->of_host ? generate_for_host(generator, &asked) : generate_at(generator, &asked, asked.to);
  if (!error) generator->offset += asked.count / (uint64_t)generator->dimensions;
  return status_of(error);
}

#define GENERATE(name, ...) \
  return generate(generator, (struct asked){"curandGenerate" name, to, count, sizeof *to, __VA_ARGS__})

curandStatus_t curandGenerate(curandGenerator_t generator, unsigned *to, size_t count) { GENERATE("", 0, 0); }
curandStatus_t curandGenerateLongLong(curandGenerator_t generator, unsigned long long *to, size_t count) {
  GENERATE("LongLong", 0, 0);
}
curandStatus_t curandGenerateUniform(curandGenerator_t generator, float *to, size_t count) {
  GENERATE("Uniform", 0, 0);
}
curandStatus_t curandGenerateUniformDouble(curandGenerator_t generator, double *to, size_t count) {
  GENERATE("UniformDouble", 0, 0);
}
curandStatus_t curandGenerateNormal(curandGenerator_t generator, float *to, size_t count, float mean, float deviation) {
  GENERATE("Normal", mean, deviation);
}
curandStatus_t curandGenerateNormalDouble(curandGenerator_t generator, double *to, size_t count, double mean,
                                          double deviation) {
  GENERATE("NormalDouble", mean, deviation);
}
curandStatus_t curandGenerateLogNormal(curandGenerator_t generator, float *to, size_t count, float mean,
                                       float deviation) {
  GENERATE("LogNormal", mean, deviation);
}
curandStatus_t curandGenerateLogNormalDouble(curandGenerator_t generator, double *to, size_t count, double mean,
                                             double deviation) {
  GENERATE("LogNormalDouble", mean, deviation);
}
curandStatus_t curandGeneratePoisson(curandGenerator_t generator, unsigned *to, size_t count, double mean) {
  if (!(mean > 0)) return CURAND_STATUS_OUT_OF_RANGE;
  GENERATE("Poisson", mean, 0);
}

curandStatus_t curandCreatePoissonDistribution(double mean, curandDiscreteDistribution_t *distribution) {
  if (!distribution || !(mean > 0)) return CURAND_STATUS_OUT_OF_RANGE;
  *distribution = malloc(sizeof **distribution);
  if (!*distribution) return CURAND_STATUS_ALLOCATION_FAILED;
  (*distribution)->mean = mean;
  return CURAND_STATUS_SUCCESS;
}

curandStatus_t curandDestroyDistribution(curandDiscreteDistribution_t distribution) {
  if (!distribution) return CURAND_STATUS_NOT_INITIALIZED;
  free(distribution);
  return CURAND_STATUS_SUCCESS;
}
