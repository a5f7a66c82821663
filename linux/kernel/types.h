/* The names of integers that the kernel and the headers of libbpf use. */
#ifndef PACELINE_TYPES_H
#define PACELINE_TYPES_H

typedef _Bool bool;
typedef unsigned char __u8, u8;
typedef unsigned short __u16, u16, __be16;
typedef unsigned int __u32, u32, __be32, __wsum;
typedef unsigned long long __u64, u64;
typedef int __s32, s32;
typedef long long __s64, s64;
#define false 0
#define true 1

#endif
