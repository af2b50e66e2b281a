// Types that host code owns: a struct may hold one, device code can do nothing with it but leave room for it. What
// stands behind it in a struct lies where host code has it: the sizes are those of libstdc++ on 64-bit machines (its
// ABI since GCC 5), measured with sizeof.
#pragma once
#define KERNCAST_MEMBERS(NAME) public: template <class... A> __host__ __device__ NAME(A &&...) {}
#define KERNCAST_ROOM(BYTES) private: alignas(8) char kerncast_room[BYTES];
#define KERNCAST_TYPES class iterator {}; class const_iterator {}; class value_type {};
#define KERNCAST_OPAQUE(NAME, BYTES) class NAME { KERNCAST_MEMBERS(NAME) KERNCAST_ROOM(BYTES) };
#define KERNCAST_OPAQUE_TEMPLATE(NAME, BYTES) \
  template <class...> class NAME { KERNCAST_MEMBERS(NAME) KERNCAST_TYPES KERNCAST_ROOM(BYTES) };
#define KERNCAST_EMPTY(NAME) class NAME { KERNCAST_MEMBERS(NAME) };
#define KERNCAST_EMPTY_TEMPLATE(NAME) template <class...> class NAME { KERNCAST_MEMBERS(NAME) KERNCAST_TYPES };
