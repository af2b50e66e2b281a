// Sort, sort by key, scans, reduce, transform and transform_reduce of Thrust, each checked against the same on the host.
//
//     thrust_algorithms [ELEMENTS]

#include <thrust/device_vector.h>
#include <thrust/functional.h>
#include <thrust/host_vector.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/transform.h>
#include <thrust/transform_reduce.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <random>
#include <vector>

struct square_plus {
  int addend;
  __host__ __device__ long long operator()(int value) const { return static_cast<long long>(value) * value + addend; }
};

struct saxpy {
  float factor;
  __host__ __device__ float operator()(float x, float y) const { return factor * x + y; }
};

static bool all_right = true;

static void tell(const char *name, bool is_right) {
  std::printf("%-18s %s\n", name, is_right ? "right" : "WRONG");
  all_right = all_right && is_right;
}

template <class T>
static bool equal(const thrust::device_vector<T> &found, const std::vector<T> &expected) {
  thrust::host_vector<T> copied = found;
  return std::equal(copied.begin(), copied.end(), expected.begin(), expected.end());
}

static void sorts(const std::vector<int> &values) {
  thrust::device_vector<int> keys(values.begin(), values.end()), places(values.size());
  thrust::device_vector<double> doubles(values.begin(), values.end());
  thrust::sequence(places.begin(), places.end());
  thrust::stable_sort_by_key(keys.begin(), keys.end(), places.begin());
  std::vector<int> sorted = values, order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return values[a] < values[b]; });
  std::sort(sorted.begin(), sorted.end());
  tell("stable_sort_by_key", equal(keys, sorted) && equal(places, order));
  thrust::sort(doubles.begin(), doubles.end(), thrust::greater<double>());
  std::vector<double> falling(sorted.rbegin(), sorted.rend());
  tell("sort, falling", equal(doubles, falling));
}

static void scans(const std::vector<int> &values) {
  thrust::device_vector<int> input(values.begin(), values.end()), output(values.size());
  std::vector<int> expected(values.size());
  thrust::inclusive_scan(input.begin(), input.end(), output.begin());
  std::partial_sum(values.begin(), values.end(), expected.begin());
  tell("inclusive_scan", equal(output, expected));
  thrust::exclusive_scan(input.begin(), input.end(), output.begin(), 0, thrust::maximum<int>());
  int most = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    expected[i] = most;
    most = std::max(most, values[i]);
  }
  tell("exclusive_scan", equal(output, expected));
}

static void reductions(const std::vector<int> &values) {
  thrust::device_vector<int> input(values.begin(), values.end());
  long long sum = 0, squares = 0;
  for (int value : values) {
    sum += value;
    squares += square_plus{3}(value);
  }
  tell("reduce", thrust::reduce(input.begin(), input.end(), 0LL) == sum);
  int most = thrust::reduce(input.begin(), input.end(), -1, thrust::maximum<int>());
  tell("reduce, maximum", most == *std::max_element(values.begin(), values.end()));
  long long found =
      thrust::transform_reduce(input.begin(), input.end(), square_plus{3}, 0LL, thrust::plus<long long>());
  tell("transform_reduce", found == squares);
}

static void transforms(const std::vector<int> &values) {
  thrust::device_vector<float> x(values.begin(), values.end()), y(values.size(), 1.0f);
  thrust::transform(x.begin(), x.end(), y.begin(), y.begin(), saxpy{0.5f});
  std::vector<float> expected;
  for (int value : values) expected.push_back(0.5f * static_cast<float>(value) + 1.0f);
  tell("transform", equal(y, expected));
}

int main(int argc, char **argv) {
  int elements = argc > 1 ? std::atoi(argv[1]) : 100000;
  std::mt19937 random(20261126);
  std::vector<int> values(elements);
  for (int &value : values) value = static_cast<int>(random() % 10007);
  sorts(values);
  scans(values);
  reductions(values);
  transforms(values);
  std::printf("%s\n", all_right ? "PASS" : "FAIL");
  return all_right ? 0 : 1;
}
