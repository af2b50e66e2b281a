// Types that host code owns: a struct may hold one, device code can do nothing with it.
#pragma once
#define KERNCAST_OPAQUE(NAME) \
  class NAME { public: template <class... A> __host__ __device__ NAME(A &&...) {} };
#define KERNCAST_OPAQUE_TEMPLATE(NAME) \
  template <class...> class NAME { \
    public: template <class... A> __host__ __device__ NAME(A &&...) {} \
    class iterator {}; class const_iterator {}; class value_type {}; \
  };
