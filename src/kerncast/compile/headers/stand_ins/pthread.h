// Types that host code owns, as large as on Linux with 64 bits.
#pragma once
typedef unsigned long pthread_t;
typedef unsigned pthread_key_t;
typedef union { char bytes[40]; long align; } pthread_mutex_t;
typedef union { char bytes[8]; long align; } pthread_mutexattr_t;
typedef union { char bytes[48]; long align; } pthread_cond_t;
typedef union { char bytes[8]; long align; } pthread_condattr_t;
typedef union { char bytes[32]; long align; } pthread_barrier_t;
typedef union { char bytes[8]; long align; } pthread_barrierattr_t;
typedef union { char bytes[56]; long align; } pthread_rwlock_t;
typedef union { char bytes[56]; long align; } pthread_attr_t;
