// Thrust's complex numbers as libcu++ has them; Thrust's own need streams of the host.
#pragma once
#ifdef KERNCAST_PARSE
namespace thrust { template <class T> struct alignas(2 * sizeof(T)) complex { T parts[2]; }; }
#else
#include <cuda/std/complex>
namespace thrust {
template <class T> using complex = ::cuda::std::complex<T>;
using ::cuda::std::abs; using ::cuda::std::acos; using ::cuda::std::acosh; using ::cuda::std::arg;
using ::cuda::std::asin; using ::cuda::std::asinh; using ::cuda::std::atan; using ::cuda::std::atanh;
using ::cuda::std::conj; using ::cuda::std::cos; using ::cuda::std::cosh; using ::cuda::std::exp;
using ::cuda::std::log; using ::cuda::std::log10; using ::cuda::std::norm; using ::cuda::std::polar;
using ::cuda::std::pow; using ::cuda::std::proj; using ::cuda::std::sin; using ::cuda::std::sinh;
using ::cuda::std::sqrt; using ::cuda::std::tan; using ::cuda::std::tanh;
}
#endif
