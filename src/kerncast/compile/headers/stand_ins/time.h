#pragma once
struct timeval { long tv_sec; long tv_usec; };
struct timespec { long tv_sec; long tv_nsec; };
struct timezone; struct tm; struct rusage; struct stat;
